"""The residuals of cells of the probability scale, in units: one look-up for each case.

A server keeps scores as cells, whose number is known from their key. All detectors of one
resolution share a table, of 0.9 MB at 12 bits, of which the cells in use stay in the cache.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from streameval._counts.cell_layout import cell_edges, cell_keys
from streameval._counts.resolution import MAX_BITS
from streameval._drift.watches import residual_units

if TYPE_CHECKING:
    import numpy.typing as npt

    from streameval._common.arrays import BoolArray, IntArray

MAX_TABLE_BITS: Final = 14
"""The finest resolution with a table, of 4 MB."""
_LOWEST: Final = 2.0**-56
"""All lower scores have the residual of 0: 1 minus them is 1."""
_HIGHEST: Final = 1 - 2.0**-53
"""The double before 1."""


class CellResiduals:
    """Residuals by cell and label.

    Parameters
    ----------
    resolution : int
        Significant bits of a score, from 1 to `MAX_TABLE_BITS`.

    Examples
    --------
    >>> scores = np.array([0.25, 0.2501, 1.0])
    >>> keys = cell_keys(scores, "probability")
    >>> CellResiduals(4).of(keys, np.array([False, False, True])).tolist()
    [24576, 24576, 32768]
    """

    def __init__(self, resolution: int) -> None:
        self._shift = np.int64(MAX_BITS - resolution)
        ends = cell_keys(np.array([_LOWEST, _HIGHEST]), "probability") >> self._shift
        numbers = np.arange(int(ends[0]) - 1, int(ends[1]) + 2)
        self._first = np.int64(numbers[0])
        self._width = numbers.size
        edges = cell_edges(numbers, resolution, "probability")
        edges[0], edges[-1] = 0.0, 1.0
        units = [residual_units(np.full(edges.size, label), edges) for label in (0.0, 1.0)]
        self._units = np.concatenate(units).astype(np.uint16)

    def of(self, keys: IntArray, labels: BoolArray) -> npt.NDArray[np.uint16]:
        """Return the residual of each case's cell, in units. O(n)."""
        places = keys >> self._shift
        places -= self._first
        np.clip(places, 0, np.int64(self._width - 1), out=places)
        places += np.multiply(labels, self._width, dtype=np.int64)
        found: npt.NDArray[np.uint16] = self._units[places]
        return found


@lru_cache(maxsize=4)
def cell_residuals(resolution: int) -> CellResiduals:
    """Return the table of a resolution, which all detectors share. O(cells) once."""
    return CellResiduals(resolution)
