"""The band of many scores at once: one look-up each, and a search for the few that need one.

The bits of a float64, read as an integer, ascend with it, and so do their leading bits, the
*key*. If no edge has a score's key, the key alone tells how many edges lie below; only scores
that share their key with an edge that is not the lowest of its key are searched for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from streameval._common.arrays import FloatArray, IntArray

_MAX_KEYS: Final = 1 << 16
_MIN_SHIFT: Final = 36
"""Keys keep 16 bits of a score's mantissa at most."""
_ALL_BUT_SIGN: Final = np.int64(2**63 - 1)
_SEARCHED: Final = np.int16(-1)


class BandIndex:
    """Bands between edges.

    Parameters
    ----------
    edges : float64[n]
        The lower ends of all bands but the lowest, ascending, fewer than 2**15.

    Examples
    --------
    >>> index = BandIndex(np.array([0.25, 0.5]))
    >>> index.of(np.array([-1.0, 0.25, 0.4, 0.5, 7.0])).tolist()
    [0, 1, 1, 2, 2]
    """

    def __init__(self, edges: FloatArray) -> None:
        self._edges = edges
        self._has_negative = bool(edges.size) and bool(edges[0] < 0)
        self._shift = np.int64(_MIN_SHIFT)
        ordered = self._ordered(edges)
        while edges.size and int(ordered[-1] >> self._shift) - int(ordered[0] >> self._shift) > (
            _MAX_KEYS - 3
        ):
            self._shift += np.int64(1)
        keys = ordered >> self._shift
        # One key below those of all edges, and one above, for all other scores.
        self._first = np.int64(keys[0] - 1 if edges.size else 0)
        size = int(keys[-1] - self._first) + 2 if edges.size else 1
        self._last = np.int64(size - 1)
        places = keys - self._first
        self._bands = np.searchsorted(places, np.arange(size), side="right").astype(np.int16)
        is_lowest = (ordered & ((np.int64(1) << self._shift) - 1)) == 0
        _, first_of_key, edges_of_key = np.unique(places, return_index=True, return_counts=True)
        is_known = is_lowest[first_of_key] & (edges_of_key == 1)
        self._bands[places[first_of_key][~is_known]] = _SEARCHED

    def of(self, scores: FloatArray) -> IntArray:
        """Return the band of each score, how many edges are at most it. O(n)."""
        places = self._ordered(scores) >> self._shift
        places -= self._first
        np.clip(places, 0, self._last, out=places)
        bands = self._bands[places]
        searched = np.flatnonzero(bands == _SEARCHED)
        if searched.size:
            bands[searched] = np.searchsorted(self._edges, scores[searched], side="right")
        wide: IntArray = bands.astype(np.int64)
        return wide

    def _ordered(self, scores: FloatArray) -> npt.NDArray[np.int64]:
        """Return integers in the order of the scores; -0.0 is 0.0."""
        bits: npt.NDArray[np.int64] = (scores + 0.0).view(np.int64)
        # Where no edge is negative, all negative scores lie below all edges in any case.
        return bits ^ ((bits >> 63) & _ALL_BUT_SIGN) if self._has_negative else bits
