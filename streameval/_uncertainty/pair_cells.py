"""Counts of one class of a paired evaluator, by pair of cells, within a cap.

A case is a pair of cells (its score under a, under b) and a *level* drawn from
its id: level k or above has probability 2^-k, and an id always has the same
level. There is one entry for each (cell a, cell b, level). Above the cap the lowest
level that is kept rises until the entries fit, and entries below it are dropped. The
rest is a uniform sample of the ids. The threshold only ever rises, so the same cases
give the same entries in any order and however they were merged (the adaptive
sampling of Flajolet 1990).

Counts are signed, so that removal is addition. Cost: O((n + d) log(n + d)) for
d rows merged into n entries; 25 B an entry.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from streameval._common.errors import InvalidInputError

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray, IntArray

LevelArray = npt.NDArray[np.int8]
_WORD_RANGE = 2**64


def _no_scores() -> FloatArray:
    return np.empty(0)


@dataclass(frozen=True, slots=True, eq=False)
class PairCells:
    """The counted pairs of cells of one class.

    Attributes
    ----------
    a, b : float64[n]
        Lower edges of the cells under each model.
    levels : int8[n]
        Levels of the ids, `lowest` or above.
    counts : int64[n]
        Cases of each entry, at least 1 (signed in a change).
    lowest : int
        Ids below this level are dropped.
    total : int
        All cases, dropped ones included.
    """

    a: FloatArray = field(default_factory=_no_scores)
    b: FloatArray = field(default_factory=_no_scores)
    levels: LevelArray = field(default_factory=lambda: np.empty(0, dtype=np.int8))
    counts: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    lowest: int = 0
    total: int = 0

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def sampled(self) -> int:
        """The number of cases in the entries."""
        return int(self.counts.sum())

    def merged(self, change: PairCells, max_cells: int) -> PairCells:
        """Return the sum with the signed counts of `change`, within the cap.

        Raises
        ------
        InvalidInputError
            When `change` removes a case that was not added.
        """
        lowest = max(self.lowest, change.lowest)
        parts = (self.above(lowest), change.above(lowest))
        a, b, levels, counts = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("a", "b", "levels", "counts")
        )
        order = np.lexsort((levels, b, a))
        a, b, levels, counts = a[order], b[order], levels[order], counts[order]
        first = np.ones(len(a), dtype=np.bool_)
        first[1:] = (a[1:] != a[:-1]) | (b[1:] != b[:-1]) | (levels[1:] != levels[:-1])
        starts = np.flatnonzero(first)
        counts = np.add.reduceat(counts, starts) if len(starts) else counts
        total = self.total + change.total
        if total < 0 or (counts < 0).any():
            raise InvalidInputError("cannot remove a pair that was not added", field="ids")
        kept = counts > 0
        starts = starts[kept]
        merged = PairCells(a[starts], b[starts], levels[starts], counts[kept], lowest, total)
        return merged.fitted(max_cells)

    def fitted(self, max_cells: int) -> PairCells:
        """Return the entries that are left when the lowest level is raised until they fit."""
        if len(self) <= max_cells:
            return self
        at_least = np.bincount(self.levels)[::-1].cumsum()[::-1]
        fits = np.append(at_least, 0) <= max_cells
        return self.above(int(np.argmax(fits)))

    def above(self, lowest: int) -> PairCells:
        """Return the entries at level `lowest` or above."""
        if lowest <= self.lowest:
            return self
        kept = self.levels >= lowest
        return replace(
            self,
            a=self.a[kept],
            b=self.b[kept],
            levels=self.levels[kept],
            counts=self.counts[kept],
            lowest=lowest,
        )

    def _check(self, max_cells: int) -> None:
        """Assert all invariants."""
        assert len(self.a) == len(self.b) == len(self.levels) == len(self.counts)
        assert len(self) <= max_cells, (len(self), max_cells)
        assert (self.counts > 0).all()
        assert (self.levels >= self.lowest).all()
        assert self.sampled <= self.total, (self.sampled, self.total)
        assert self.lowest > 0 or self.sampled == self.total
        rows = list(zip(self.a.tolist(), self.b.tolist(), self.levels.tolist()))
        assert rows == sorted(set(rows))


def levels_of(ids: Any, seed: int, *, field: str = "ids") -> LevelArray:
    """Return the levels of a column of ids: strings, or integers of 64 bits.

    Raises
    ------
    InvalidInputError
        For ids of another kind.
    """
    column = ids if isinstance(ids, np.ndarray) else None
    if column is not None and column.dtype.kind in "iu" and column.ndim == 1:
        words = column.astype(np.uint64)  # two's complement, as in _word
    else:
        if isinstance(ids, str | bytes) or not hasattr(ids, "__iter__"):
            raise InvalidInputError(
                f"{field} must be a column (a list or an array), got {type(ids).__name__}",
                field=field,
            )
        values = column.tolist() if column is not None else ids
        words = np.array([_word(value, i, field) for i, value in enumerate(values)], np.uint64)
    return _levels(_mixed(words ^ np.uint64(seed % _WORD_RANGE)))


def _word(value: Any, index: int, field: str) -> int:
    if isinstance(value, str):
        return int.from_bytes(blake2b(value.encode(), digest_size=8).digest(), "little")
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        if -(2**63) <= value < _WORD_RANGE:
            return int(value) % _WORD_RANGE
        raise InvalidInputError(
            f"an integer id must fit 64 bits, got {value} at index {index}",
            field=field,
            index=index,
        )
    raise InvalidInputError(
        f"id must be a string or an integer, got {type(value).__name__} at index {index}",
        field=field,
        index=index,
    )


def _mixed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scatter the bits of each word: the finaliser of splitmix64 (Steele et al. 2014)."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _levels(words: npt.NDArray[np.uint64]) -> LevelArray:
    """Return the number of trailing zero bits of each word; 63 for 0."""
    lowest = words & (~words + np.uint64(1))
    exponents = np.frexp(lowest.astype(np.float64))[1] - 1
    return np.where(lowest == 0, 63, exponents).astype(np.int8)
