"""Counting cells without sorting: a scatter into a table over the cells' numbers.

The sum of sixty runs, or of unsorted scores, needs no sort: all add their counts to
one table (`cell_layout`).

Cost: O(S + W) for S scores in all and W cells between the least and the greatest;
5 ns a score. If W is too large for S, these functions fall back to sorting, or return
None so that the caller sorts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.cell_layout import Layout, NumberLayout, Span, cell_keys
from streameval._counts.resolution import quantise
from streameval._counts.run import Run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    import numpy.typing as npt

    from streameval._common.arrays import FloatArray, IntArray
    from streameval._counts.resolution import Scale

    class Part(Protocol):
        """One class's cases: a `Run`, or unsorted scores."""

        @property
        def scores(self) -> FloatArray: ...
        @property
        def counts(self) -> IntArray | None: ...


def concatenate_parts(parts: Sequence[Part]) -> tuple[FloatArray, IntArray | None]:
    """Return the scores of all parts, and the counts of the parts that have some, placed last."""
    ones = [part.scores for part in parts if part.counts is None]
    more = [part for part in parts if part.counts is not None]
    scores = np.concatenate([*ones, *(part.scores for part in more)])
    return scores, np.concatenate([part.counts for part in more]) if more else None


def count_cells(scores: FloatArray, counts: IntArray | None, bits: int, scale: Scale) -> Run | None:
    """Return how many cases each cell has; None if a table would be sparse.

    Parameters
    ----------
    scores : float64[n]
        In any order, repeated or not, at least one; on the probability scale
        between 0 and 1.
    counts : int64[m] or None
        Multiplicities of the last m scores, signed if no sum is negative; each other score
        is one case.
    bits, scale
        The resolution and scale of the cells.

    Examples
    --------
    >>> cells = count_cells(np.array([0.75, 0.5, 0.8]), np.array([7]), 2, "plain")
    >>> cells.scores, cells.counts
    (array([0.5 , 0.75]), array([1, 8]))
    """
    found = _table_layout(scores, bits, scale)
    if found is None:
        return None
    layout, places = found
    ones = scores.size if counts is None else scores.size - counts.size
    sums = np.bincount(places[:ones], minlength=layout.width)
    if counts is not None:
        np.add.at(sums, places[ones:], counts)
    return run_from_table(layout, sums)


def run_from_table(layout: Layout, sums: IntArray) -> Run:
    """Return the cells of a table whose sums are not 0. O(width)."""
    # flatnonzero is five times as fast on booleans as on integers.
    used = np.flatnonzero(sums != 0)
    return Run.of_distinct(layout.edges(used), sums[used])


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
