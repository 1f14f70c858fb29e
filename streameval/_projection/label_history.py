"""What was known of labels at any time: the table with its models and estimates, computed once.

Windows of one stream share most of them: the backtests of all windows of one length look back on
the same windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from streameval._projection.delay_model import DelayModel
from streameval._projection.estimate import estimate_window
from streameval._projection.label_table import LabelTable

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from streameval._common.arrays import IntArray
    from streameval._counts.resolution import Scale
    from streameval._projection.delay_counts import DelayRows
    from streameval._projection.estimate import Estimate

MAX_MODELS = 256
MAX_ESTIMATES = 128
"""How many are kept, the newest: one takes as much as some hundred cells and ages."""

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


class LabelHistory:
    """A table of labels, with what follows from it.

    Parameters
    ----------
    table : LabelTable
    settle_us : int
        How long after a pane's end its labels are all in.
    scale : {"plain", "probability"}
        Of the cells of score.
    """

    @classmethod
    def of_rows(
        cls,
        spans: Sequence[tuple[int, int]],
        rows: Sequence[DelayRows],
        now_us: int,
        *,
        settle_us: int,
        scale: Scale,
    ) -> LabelHistory:
        """Return the history of panes, given each one's span and rows. O(rows log rows)."""
        return cls(LabelTable.of_rows(spans, rows, now_us), settle_us, scale)

    def __init__(self, table: LabelTable, settle_us: int, scale: Scale) -> None:
        self.table = table
        self.settle_us = settle_us
        self._scale: Scale = scale
        self._models: dict[int, DelayModel] = {}
        self._estimates: dict[tuple[int, int, int, tuple[int, int]], Estimate] = {}

    def between(self, start_us: int, end_us: int) -> IntArray:
        """Return the indices of the panes that begin in [start, end)."""
        starts = self.table.starts_us
        return np.flatnonzero((starts >= start_us) & (starts < end_us))

    def model(self, at_us: int) -> DelayModel:
        """Return the model of the panes whose labels were in at a time. O(rows) the first time."""
        mature = self.table.ends_us + self.settle_us <= at_us
        return _kept(self._models, at_us, lambda: DelayModel.of(self.table, mature), MAX_MODELS)

    def estimate(self, panes: IntArray, at_us: int, misses: tuple[int, int] = (0, 0)) -> Estimate:
        """Return the projection of panes from what was known at a time, as `estimate_window`."""
        return _kept(
            self._estimates,
            (int(panes[0]), int(panes[-1]), at_us, misses),
            lambda: estimate_window(
                self.table, self.model(at_us), panes, at_us, self._scale, misses=misses
            ),
            MAX_ESTIMATES,
        )

    def rescaled(
        self, panes: IntArray, misses: tuple[int, int], label: int, octaves: int
    ) -> Estimate:
        """Return the present projection as if a class's delays had changed; it is not kept."""
        at_us = self.table.now_us
        model = self.model(at_us).scaled(label, octaves)
        return estimate_window(self.table, model, panes, at_us, self._scale, misses=misses)


def _kept(values: dict[K, V], key: K, make: Callable[[], V], most: int) -> V:
    """Return a value that is kept, or a new one, for which the oldest makes room."""
    if key not in values:
        values[key] = make()
        if len(values) > most:
            del values[next(iter(values))]
    return values[key]
