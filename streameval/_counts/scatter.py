"""Ranking cells without sorting: a scatter into a table over the cells' numbers.

Cost: O(S + W) for S scores in all and W cells between the least and the greatest (`cell_layout`);
5 ns a score. If W is too large for S, these functions sort.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.cell_layout import Layout, NumberLayout, Span, cell_keys
from streameval._counts.resolution import quantise

if TYPE_CHECKING:
    import numpy.typing as npt

    from streameval._common.arrays import FloatArray, IntArray
    from streameval._counts.resolution import Scale


def rank_cells(
    scores: FloatArray, bits: int, scale: Scale
) -> tuple[FloatArray, npt.NDArray[np.int32]]:
    """Return the distinct cells of the scores, ascending, and the cell of each score.

    O(n), and O(n log n) if a table would be sparse.

    Returns
    -------
    edges : float64[m]
        Lower edges, distinct.
    ranks : int32[n]
        Index into edges for each score.

    Examples
    --------
    >>> rank_cells(np.array([0.75, 0.5, 0.8]), 2, "plain")
    (array([0.5 , 0.75]), array([1, 0, 1], dtype=int32))
    """
    found = _table_layout(scores, bits, scale) if scores.size else None
    if found is None:
        edges, inverse = np.unique(quantise(scores, bits, scale), return_inverse=True)
        return edges, inverse.astype(np.int32)
    layout, places = found
    used, ranks = _ranked(layout, places)
    return layout.edges(used), ranks


def rank_numbers(numbers: IntArray) -> tuple[IntArray, npt.NDArray[np.int32]]:
    """Return the distinct numbers of cells, ascending, and the rank of each. As `rank_cells`.

    Examples
    --------
    >>> rank_numbers(np.array([7, -5, 7, 9]))
    (array([-5,  7,  9]), array([1, 0, 1, 2], dtype=int32))
    """
    layout = NumberLayout(Span.of(numbers)) if numbers.size else None
    if layout is None or layout.is_sparse(numbers.size):
        distinct, inverse = np.unique(numbers, return_inverse=True)
        return distinct, inverse.astype(np.int32)
    used, ranks = _ranked(layout, layout.places_of_numbers(numbers))
    return layout.numbers(used), ranks


def _ranked(layout: NumberLayout, places: IntArray) -> tuple[IntArray, npt.NDArray[np.int32]]:
    """Return the places in use, ascending, and the rank of each of these. O(n + width)."""
    is_used = np.zeros(layout.width, dtype=np.bool_)
    is_used[places] = True
    numbered = np.cumsum(is_used, dtype=np.int32)
    numbered -= np.int32(1)
    return np.flatnonzero(is_used), numbered[places]


def _table_layout(scores: FloatArray, bits: int, scale: Scale) -> tuple[Layout, IntArray] | None:
    """Return the layout of the scores' cells and each score's place; None if it is sparse."""
    # Below one bit the exponent's bits are dropped too: few cells are left, and sorting is cheap.
    if bits < 1:
        return None
    keys = cell_keys(scores, scale)
    layout = Layout.of(Span.of(keys), bits, scale)
    return None if layout.is_sparse(scores.size) else (layout, layout.places(keys))
