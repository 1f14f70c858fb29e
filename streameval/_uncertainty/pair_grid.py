"""The pairs of scores of both classes, exact up to a cap and in cells above it.

Up to the cap the grid has every pair of scores, and the same cases give the same grid in
any order and however they were merged. When one class exceeds the cap, both models'
scores are cut at their quantiles of that moment (`pair_cuts`), into so few cells that every
pair of them fits; later cases are counted in these cells. Merging grids with different cuts
cuts them again: an old cell's cases all move to the new cell that contains its middle. A case
that is removed later may be counted in another cell than its scores'; a signed grid then has
a negative entry, which sums of grids cancel and `counted` leaves out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.run import Run
from streameval._uncertainty.pair_cells import PairCells, summed
from streameval._uncertainty.pair_clusters import PairGroups, summed_groups
from streameval._uncertainty.pair_cuts import NO_THRESHOLDS, PairCuts, cuts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._uncertainty.pair_cuts import Thresholds


@dataclass(frozen=True, slots=True)
class Flags:
    """How many cases each model flags, each at its threshold, by class.

    Attributes
    ----------
    positives, negatives : (int, int, int, int)
        Flagged by both, by a alone, by b alone, by neither.
    is_approximate : bool
        Whether a threshold is inside a cell.
    """

    positives: tuple[int, int, int, int]
    negatives: tuple[int, int, int, int]
    is_approximate: bool


@dataclass(frozen=True, slots=True, eq=False)
class PairGrid:
    """The counted pairs of both classes.

    Attributes
    ----------
    negatives, positives : PairCells
    cuts : PairCuts or None
        Where both are cut; None while they are exact.
    groups : PairGroups or None
        The clusters' groups of the cases; None where no clusters are declared.
    """

    negatives: PairCells = field(default_factory=PairCells)
    positives: PairCells = field(default_factory=PairCells)
    cuts: PairCuts | None = None
    groups: PairGroups | None = None

    @property
    def nbytes(self) -> int:
        """The memory of the entries."""
        groups = 0 if self.groups is None else self.groups.nbytes
        return self.negatives.nbytes + self.positives.nbytes + groups

    @property
    def num_entries(self) -> int:
        """The entries of the class that has more."""
        return max(len(self.negatives), len(self.positives))

    @property
    def has_weights(self) -> bool:
        """Whether cases of a class have weights. O(1)."""
        return self.positives.has_weights or self.negatives.has_weights

    def in_common_units(self) -> PairGrid:
        """Return the grid with weights in both classes where a class has some. O(n)."""
        if not self.has_weights:
            return self
        return replace(
            self, positives=self.positives.weighted(), negatives=self.negatives.weighted()
        )

    def counted(self) -> PairGrid:
        """Return the grid without negative entries. O(n)."""
        groups = None if self.groups is None else self.groups.counted()
        return PairGrid(self.negatives.counted(), self.positives.counted(), self.cuts, groups)

    def merged(
        self,
        others: Sequence[PairGrid],
        max_cells: int | None,
        *,
        thresholds: Thresholds = NO_THRESHOLDS,
        is_signed: bool = False,
    ) -> PairGrid:
        """Return the sum of all grids, within the cap; None is no cap. O(n log n).

        Parameters
        ----------
        others, max_cells
            The other grids; the most entries of a class.
        thresholds
            Where scores are cut besides, above the cap.
        is_signed
            Whether an entry may become negative once scores are cut.

        Raises
        ------
        InvalidInputError
            When signed counts remove a case that was not added.
        """
        grids = (self, *others)
        known = [grid.cuts for grid in grids if grid.cuts is not None]
        if not known and max_cells is not None and _is_surely_above(grids, max_cells):
            return _summed(grids, _cuts_of(grids, max_cells, thresholds))
        cuts, is_agreed = _agreed(known)
        is_signed &= bool(known)
        total = _summed(grids, cuts, is_signed=is_signed)
        if not total.num_entries:
            return replace(PairGrid(), groups=total.groups)
        # Cells with different cuts are cut again.
        if max_cells is None or (is_agreed and total.num_entries <= max_cells):
            return total
        cuts = _cuts_of((total,), max_cells, thresholds)
        return _summed((total,), cuts, is_signed=is_signed)

    def flags(self, thresholds: tuple[float, float]) -> Flags:
        """Return what two thresholds flag; a score at its threshold is flagged. O(n)."""
        positives, negatives = (
            _flagged(each, thresholds) for each in (self.positives, self.negatives)
        )
        return Flags(positives, negatives, not _separated(self.cuts, thresholds))

    def _check(self, max_cells: int | None, *, is_signed: bool = False) -> None:
        """Assert all invariants. O(n log n)."""
        is_signed &= self.cuts is not None
        if self.groups is not None:
            totals = (self.negatives.total, self.positives.total)
            self.groups._check(totals, is_signed=is_signed)
        for cells in (self.negatives, self.positives):
            cells._check(max_cells, is_signed=is_signed)
            if self.cuts is not None:
                assert (self.cuts.a.cut(cells.a) == cells.a).all()
                assert (self.cuts.b.cut(cells.b) == cells.b).all()


def _agreed(known: Sequence[PairCuts]) -> tuple[PairCuts | None, bool]:
    """Return the cuts of all grids that have some, None without, and whether they agree. O(K)."""
    if not known:
        return None, True
    is_agreed = all(known[0].same(each) for each in known)
    return known[0] if is_agreed else None, is_agreed


def _is_surely_above(grids: Sequence[PairGrid], max_cells: int) -> bool:
    """Whether the sum exceeds the cap by the scores of one model alone. O(n log n).

    Only of additions that weigh 1, of which none cancels another.
    """
    by_class = [[grid.negatives for grid in grids], [grid.positives for grid in grids]]
    if not all(part.only_adds for parts in by_class for part in parts):
        return False
    return any(
        sum(map(len, parts)) > max_cells
        and len(Run.of(np.concatenate([part.a for part in parts]))) > max_cells
        for parts in by_class
    )


def _cuts_of(grids: Sequence[PairGrid], max_cells: int, thresholds: Thresholds) -> PairCuts:
    """Return cuts of the sum of grids, whose entries may repeat. O(n log n)."""
    return cuts_of(
        [grid.negatives for grid in grids],
        [grid.positives for grid in grids],
        math.isqrt(max_cells),
        thresholds,
    )


def _summed(
    grids: Sequence[PairGrid], cuts: PairCuts | None, *, is_signed: bool = False
) -> PairGrid:
    """Return the sum of signed grids, in the cells of `cuts` where there are any. O(n log n)."""
    add, groups = summed, [grid.groups for grid in grids if grid.groups is not None]
    if cuts is not None:
        add, groups = cuts.summed, [each.cut(cuts) for each in groups]
    return PairGrid(
        add([grid.negatives for grid in grids], is_signed=is_signed),
        add([grid.positives for grid in grids], is_signed=is_signed),
        cuts,
        summed_groups(groups, is_signed=is_signed) if groups else None,
    )


def _flagged(cells: PairCells, thresholds: tuple[float, float]) -> tuple[int, int, int, int]:
    by_a, by_b = cells.a >= thresholds[0], cells.b >= thresholds[1]
    sums = np.bincount(2 * (~by_a) + (~by_b), weights=cells.counts, minlength=4)
    both, only_a, only_b, neither = (int(each) for each in sums)
    return both, only_a, only_b, neither


def _separated(cuts: PairCuts | None, thresholds: Thresholds) -> bool:
    return cuts is None or all(
        threshold is not None and axis.separates(threshold)
        for axis, threshold in zip((cuts.a, cuts.b), thresholds, strict=True)
    )
