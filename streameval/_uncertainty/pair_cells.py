"""Counts of one class of a paired evaluator, by pair of scores.

A case is a pair of scores, one of each model. Once the evaluator has cut its scores,
every score stands for a cell (`pair_cuts`), and there is one entry for each pair of
cells. Counts are signed, so that removal is addition, and the same cases give the same
entries in any order. 24 B an entry.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from streameval._common.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streameval._common.arrays import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class PairCells:
    """The counted pairs of scores of one class.

    Attributes
    ----------
    a, b : float64[n]
        The scores under each model, or the middles of their cells.
    counts : int64[n]
        Cases of each entry, at least 1 (signed in a change).
    """

    a: FloatArray = field(default_factory=lambda: np.empty(0))
    b: FloatArray = field(default_factory=lambda: np.empty(0))
    counts: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def total(self) -> int:
        """The number of cases."""
        return int(self.counts.sum())

    def _check(self, max_cells: int | None) -> None:
        """Assert all invariants."""
        assert len(self.a) == len(self.b) == len(self.counts)
        assert max_cells is None or len(self) <= max_cells, (len(self), max_cells)
        assert (self.counts > 0).all()
        rows = list(zip(self.a.tolist(), self.b.tolist()))
        assert rows == sorted(set(rows))


def summed(parts: Iterable[PairCells]) -> PairCells:
    """Return the sum of signed counts. O(n log n) for n entries in all.

    Raises
    ------
    InvalidInputError
        When it removes a case that was not added.
    """
    parts = tuple(parts)
    a, b, counts = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("a", "b", "counts")
    )
    order = np.lexsort((b, a))
    a, b, counts = a[order], b[order], counts[order]
    first = np.ones(len(a), dtype=np.bool_)
    first[1:] = (a[1:] != a[:-1]) | (b[1:] != b[:-1])
    starts = np.flatnonzero(first)
    counts = np.add.reduceat(counts, starts) if len(starts) else counts
    if (counts < 0).any():
        raise InvalidInputError("cannot remove a pair that was not added", field="scores_a")
    kept = counts > 0
    starts = starts[kept]
    return PairCells(a[starts], b[starts], counts[kept])
