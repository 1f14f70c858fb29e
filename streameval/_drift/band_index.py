"""The band of many scores at once: one look-up each, and a search for the few that need one.

Scores are read as integers that ascend with them: the bits of a float64, or the keys of cells.
Their leading bits are the *prefix*. If no edge has a score's prefix, that alone tells how many
edges lie below; only scores that share their prefix with an edge that is not the lowest of it
are searched for. So a table that stays in the cache, 8 KB, does for nearly all scores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from streameval._common.arrays import FloatArray, IntArray

_MAX_PREFIXES: Final = 1 << 12
_MIN_SHIFT: Final = 36
"""Prefixes keep 16 bits of a score's mantissa at most."""
_ALL_BUT_SIGN: Final = np.int64(2**63 - 1)
_SEARCHED: Final = np.int16(-1)

INDEX_BYTES: Final = 2 * _MAX_PREFIXES
"""Memory of a table of prefixes, at most."""


class KeyIndex:
    """Bands between edges that are given as integers, of scores that are.

    Parameters
    ----------
    edges : int64[n]
        The lower ends of all bands but the lowest, ascending, fewer than 2**15.

    Examples
    --------
    >>> index = KeyIndex(np.array([1 << 40, 1 << 50]))
    >>> index.of(np.array([-5, 1 << 40, 1 << 45, 1 << 50, 1 << 60])).tolist()
    [0, 1, 1, 2, 2]
    """

    def __init__(self, edges: IntArray) -> None:
        self._edges = edges
        self._shift = np.int64(_MIN_SHIFT)
        while edges.size and int(edges[-1] >> self._shift) - int(edges[0] >> self._shift) > (
            _MAX_PREFIXES - 3
        ):
            self._shift += np.int64(1)
        prefixes = edges >> self._shift
        # One prefix below every edge's and one above, for scores beyond the outermost edges.
        self._first = np.int64(prefixes[0] - 1 if edges.size else 0)
        size = int(prefixes[-1] - self._first) + 2 if edges.size else 1
        self._last = np.int64(size - 1)
        places = prefixes - self._first
        self._bands = np.searchsorted(places, np.arange(size), side="right").astype(np.int16)
        is_lowest = (edges & ((np.int64(1) << self._shift) - 1)) == 0
        _, first_of_prefix, edges_of_prefix = np.unique(
            places, return_index=True, return_counts=True
        )
        is_known = is_lowest[first_of_prefix] & (edges_of_prefix == 1)
        self._bands[places[first_of_prefix][~is_known]] = _SEARCHED

    def of(self, keys: IntArray) -> npt.NDArray[np.int16]:
        """Return the band of each key, how many edges are at most it. O(n)."""
        places = keys >> self._shift
        places -= self._first
        np.clip(places, 0, self._last, out=places)
        bands: npt.NDArray[np.int16] = self._bands[places]
        searched = np.flatnonzero(bands == _SEARCHED)
        if searched.size:
            bands[searched] = np.searchsorted(self._edges, keys[searched], side="right")
        return bands


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
        self._has_negative = bool(edges.size) and bool(edges[0] < 0)
        self._index = KeyIndex(self._ordered(edges))

    def of(self, scores: FloatArray) -> npt.NDArray[np.int16]:
        """Return the band of each score, how many edges are at most it. O(n)."""
        return self._index.of(self._ordered(scores))

    def _ordered(self, scores: FloatArray) -> npt.NDArray[np.int64]:
        """Return integers in the order of the scores; -0.0 is 0.0."""
        bits: npt.NDArray[np.int64] = (scores + 0.0).view(np.int64)
        # Where no edge is negative, all negative scores lie below all edges in any case.
        return bits ^ ((bits >> 63) & _ALL_BUT_SIGN) if self._has_negative else bits
