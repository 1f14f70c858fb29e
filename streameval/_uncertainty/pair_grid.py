"""The pairs of scores of both classes, exact up to a cap and in cells above it.

Up to the cap the grid has every pair of scores, and the same cases give the same grid in
any order and however they were merged. When one class exceeds the cap, both models'
scores are cut at the quantiles that they have then (`pair_cuts`), into so few cells that
every pair of them fits; later cases are counted in these cells. Grids with different cuts
are cut anew when they are merged: a cell moves as a whole, to where its middle is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from streameval._uncertainty.pair_cells import PairCells, summed
from streameval._uncertainty.pair_clusters import PairGroups, summed_groups
from streameval._uncertainty.pair_cuts import PairCuts, cuts_of

if TYPE_CHECKING:
    from collections.abc import Sequence


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

    def merged(self, others: Sequence[PairGrid], max_cells: int | None) -> PairGrid:
        """Return the sum of all grids, within the cap; None is no cap. O(n log n).

        Raises
        ------
        InvalidInputError
            When signed counts remove a case that was not added.
        """
        grids = (self, *others)
        known = [grid.cuts for grid in grids if grid.cuts is not None]
        cuts = known[0] if known and all(known[0].same(each) for each in known) else None
        total = _summed(grids, cuts)
        if not (len(total.negatives) or len(total.positives)):
            return replace(PairGrid(), groups=total.groups)
        if max_cells is None:
            return total
        # Cells with different cuts have to be cut anew.
        is_refitted = bool(known) and cuts is None
        if is_refitted or max(len(total.negatives), len(total.positives)) > max_cells:
            cuts = cuts_of(total.negatives, total.positives, math.isqrt(max_cells))
            return _summed((total,), cuts)
        return total

    def _check(self, max_cells: int | None) -> None:
        """Assert all invariants. O(n log n)."""
        if self.groups is not None:
            self.groups._check((self.negatives.total, self.positives.total))
        for cells in (self.negatives, self.positives):
            cells._check(max_cells)
            if self.cuts is not None:
                assert (self.cuts.a.cut(cells.a) == cells.a).all()
                assert (self.cuts.b.cut(cells.b) == cells.b).all()


def _summed(grids: Sequence[PairGrid], cuts: PairCuts | None) -> PairGrid:
    """Return the sum of signed grids, in the cells of `cuts` where there are any. O(n log n)."""
    negatives = [grid.negatives for grid in grids]
    positives = [grid.positives for grid in grids]
    if cuts is not None:
        negatives = [cuts.cut(cells) for cells in negatives]
        positives = [cuts.cut(cells) for cells in positives]
    groups = [grid.groups for grid in grids if grid.groups is not None]
    if cuts is not None:
        groups = [each.cut(cuts) for each in groups]
    whole = summed_groups(groups) if groups else None
    return PairGrid(summed(negatives), summed(positives), cuts, whole)
