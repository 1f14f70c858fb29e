"""The counts of a pair in one span of time: immutable, mergeable, signed.

The two models' own scores, from which the figures come, and the grid of their pairs, from
which the variance of a difference comes.

The grid depends on the order of changes once it is in cells. So a caller who needs equal
bytes on replay makes the same changes in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streameval._common.frame import raise_corrupt
from streameval._counts.cluster_counts import NO_CLUSTERS
from streameval._counts.merge import merge_states, subtract_states
from streameval._counts.multiset import ScoreCounts
from streameval._counts.run import Run
from streameval._counts.state import State, settled, shared_declared
from streameval._counts.weights import WEIGHT_UNITS
from streameval._uncertainty.pair_cells import PairCells
from streameval._uncertainty.pair_clusters import PairGroups
from streameval._uncertainty.pair_codec import decode_pair, encode_pair
from streameval._uncertainty.pair_cuts import NO_THRESHOLDS
from streameval._uncertainty.pair_grid import PairGrid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import BoolArray
    from streameval._counts.resolution import Scale
    from streameval._uncertainty.pair_cuts import Thresholds
    from streameval._uncertainty.pair_rows import PairRows, SideRows

_MODEL_CELLS_PER_CELL = 2
"""Distinct scores that each model keeps, for each entry that the grid may have."""
_COUNTS_BYTES = 1_500
"""Memory of counts besides their columns."""


class PairShape(NamedTuple):
    """What counts of one pair have in common.

    Attributes
    ----------
    max_cells : int
        The most entries of the grid, for each class.
    scale : {"plain", "probability"}
        On which bits of the models' own scores are dropped above twice as many.
    num_groups : int
        Groups of clusters; 0 where cases have none.
    """

    max_cells: int
    scale: Scale = "plain"
    num_groups: int = 0

    @property
    def model_cells(self) -> int:
        """The most distinct scores of each model."""
        return _MODEL_CELLS_PER_CELL * self.max_cells


@dataclass(frozen=True, slots=True, eq=False)
class PairCounts:
    """The cases of a pair.

    Attributes
    ----------
    shape : PairShape
    grid : PairGrid
        With groups where cases have clusters.
    models : (State, State)
    """

    shape: PairShape
    grid: PairGrid = field(default_factory=PairGrid)
    models: tuple[State, State] = (State(), State())

    @classmethod
    def empty(cls, shape: PairShape) -> PairCounts:
        """Return no cases."""
        model = State(declared=shared_declared(shape.scale, shape.model_cells))
        groups = PairGroups(shape.num_groups) if shape.num_groups else None
        return cls(shape, PairGrid(groups=groups), (model, model))

    def to_bytes(self) -> bytes:
        """Return the counts as bytes, without their shape. O(n)."""
        return encode_pair(self.grid, self.models)

    @classmethod
    def from_bytes(cls, data: bytes, shape: PairShape) -> PairCounts:
        """Return the counts that `to_bytes` wrote, of this shape. O(n).

        Raises
        ------
        CorruptStateError
            When the bytes are not exactly that.
        """
        counts = cls(shape, *decode_pair(data, shape.num_groups))
        try:
            counts._check()
        except AssertionError:
            raise_corrupt("the counts of a pair contradict each other")
        return counts

    @property
    def num_positives(self) -> int:
        """The positive cases."""
        return self.models[0].num_scored[1]

    @property
    def num_negatives(self) -> int:
        """The negative cases."""
        return self.models[0].num_scored[0]

    @property
    def num_cases(self) -> int:
        """All cases."""
        return self.num_positives + self.num_negatives

    @property
    def nbytes(self) -> int:
        """The memory, an upper bound. O(1)."""
        total = _COUNTS_BYTES + self.grid.nbytes
        for model in self.models:
            for run in model.counts.runs:
                total += run.scores.nbytes + (0 if run.columns is None else run.columns.nbytes)
        return total

    def changed(self, rows: PairRows, thresholds: Thresholds = NO_THRESHOLDS) -> PairCounts:
        """Return the counts after cases are added and removed. O(n log n).

        Raises
        ------
        InvalidInputError
            When a case is removed that was not added.
        """
        if not rows.signs.size:
            return self
        models = (
            _model_changed(self.models[0], rows.side("a")),
            _model_changed(self.models[1], rows.side("b")),
        )
        grid = self.grid.merged(
            [self._change_of(rows)], self.shape.max_cells, thresholds=thresholds, is_signed=True
        )
        return replace(self, grid=grid, models=models)

    def _change_of(self, rows: PairRows) -> PairGrid:
        """Return a change as a grid, whose entries may repeat."""
        classes = ~rows.positive, rows.positive
        entries = PairCells.of_rows(rows.a, rows.b, rows.signs, rows.units)
        cells = [entries.rows(np.flatnonzero(each)) for each in classes]
        groups = None
        if self.shape.num_groups:
            assert rows.groups is not None
            of_class = [rows.groups[each].astype(np.int64) for each in classes]
            groups = PairGroups.of(self.shape.num_groups, cells, of_class)
        return PairGrid(cells[0], cells[1], groups=groups)

    def merged(
        self, others: Sequence[PairCounts], thresholds: Thresholds = NO_THRESHOLDS
    ) -> PairCounts:
        """Return the sum, in the shape of this one. O(n log n)."""
        if not others:
            return self
        grid = self.grid.merged(
            [each.grid for each in others],
            self.shape.max_cells,
            thresholds=thresholds,
            is_signed=True,
        )
        return replace(
            self, grid=grid, models=(self._model_merged(0, others), self._model_merged(1, others))
        )

    def _model_merged(self, model: int, others: Sequence[PairCounts]) -> State:
        # The others' caps may be smaller, and do not apply to the sum.
        uncapped = [each.models[model].redeclared(max_cells=None) for each in others]
        return merge_states([self.models[model], *uncapped], revision=0)

    def _check(self) -> None:
        """Assert all invariants. O(n log n)."""
        self.grid._check(self.shape.max_cells, is_signed=True)
        assert (self.grid.groups is None) == (self.shape.num_groups == 0)
        for model in self.models:
            assert model.is_consistent()
            assert model.clusters is NO_CLUSTERS
            for cells, label in ((self.grid.negatives, False), (self.grid.positives, True)):
                assert cells.total == model.num_scored[label], (cells.total, model.num_scored)
                unit = 1 if cells.has_weights else WEIGHT_UNITS
                units = model.counts.weighed().run(label).total
                assert int(cells.units.sum()) * unit == units, (label, units)


def _model_changed(model: State, rows: SideRows) -> State:
    """Return a model's own scores after a change."""
    if (rows.signs > 0).all():
        return merge_states([model, _state_of(rows, rows.positive, ~rows.positive)], revision=0)
    for sign in (1, -1):
        chosen = rows.signs == sign
        if chosen.any():
            part = _state_of(rows, chosen & rows.positive, chosen & ~rows.positive)
            if sign > 0:
                model = merge_states([model, part], revision=0)
            else:
                model = subtract_states(model, part)
    return model


def _state_of(rows: SideRows, positive: BoolArray, negative: BoolArray) -> State:
    """Return the scores and weights of some rows of each class."""
    runs = (
        Run.of(rows.scores[each], units=None if rows.units is None else rows.units[each])
        for each in (positive, negative)
    )
    return settled(State(), ScoreCounts(*runs), unit=1)
