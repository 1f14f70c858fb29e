"""A window: the sum of some panes, with the queries of an evaluator.

A window is read-only and has the time span that it covers. A window without one of
its parts is a window too, so that a part can be compared with the rest.
"""

from __future__ import annotations

import weakref
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

from streameval._common.errors import InvalidInputError
from streameval._counts.merge import subtract_states
from streameval._counts.weight_columns import check_least_probability
from streameval._evaluator import Evaluator
from streameval._evaluator_queries import EvaluatorQueries
from streameval._metrics.weighting import ReferenceCounts
from streameval._snapshot import HasSnapshot, Snapshot, take_snapshot
from streameval._time.times import to_datetime
from streameval._uncertainty.design_effect import INDEPENDENT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from streameval._counts.state import State
    from streameval._uncertainty.design_effect import DesignEffect


class PaneState(NamedTuple):
    """The counts of one pane, [start_us, end_us)."""

    start_us: int
    end_us: int
    state: State


class WindowCounts(NamedTuple):
    """The counts of a window, undecayed."""

    num_positive_ref: int
    num_negative_ref: int
    num_misses: int
    num_negative_misses: int

    @classmethod
    def of(cls, state: State) -> WindowCounts:
        """Return the counts of a state. O(1), O(n) where cases have weights."""
        return cls(*ReferenceCounts.of(state))

    @property
    def num_cases(self) -> int:
        """All references, misses included."""
        return self.num_positive_ref + self.num_negative_ref

    @property
    def num_scored(self) -> int:
        """References that have a score."""
        return self.num_cases - self.num_misses - self.num_negative_misses

    def without(self, part: WindowCounts) -> WindowCounts:
        """Return the difference."""
        return WindowCounts(*(mine - its for mine, its in zip(self, part, strict=True)))


class Window(EvaluatorQueries, HasSnapshot):
    """The cases of a run of panes: every query of `Evaluator`, no mutation.

    It covers [start, end): the time that the caller asked for, widened to whole panes.

    Attributes
    ----------
    counted : WindowCounts
        Its counts, undecayed.

    Examples
    --------
    >>> from datetime import datetime, timedelta, timezone
    >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    >>> from streameval import WindowedEvaluator
    >>> ev = WindowedEvaluator()
    >>> ev.add_cases(labels=[1, 0], scores=[0.9, 0.4], at=noon)
    >>> window = ev.last(timedelta(hours=1))
    >>> window.auc_roc(), window.num_cases
    (1.0, 2)
    """

    def __init__(
        self,
        state: State,
        start_us: int,
        end_us: int,
        panes: Sequence[State] = (),
        starts_us: Sequence[int] = (),
    ) -> None:
        self._state = state
        self._starts_us = starts_us
        # Weak: a window must not keep panes that have changed since.
        self._panes = tuple(map(weakref.ref, panes))
        self._whole: Window | None = None
        self._span_us = (start_us, end_us)
        self.counted = WindowCounts.of(state)

    @property
    def start(self) -> datetime:
        """The start of the time that it covers."""
        return to_datetime(self._span_us[0])

    @property
    def end(self) -> datetime:
        """The end of the time that it covers, not included."""
        return to_datetime(self._span_us[1])

    @property
    def num_cases(self) -> int:
        """P + N: all references, misses included; undecayed."""
        return self.counted.num_cases

    @property
    def num_scored(self) -> int:
        """References that have a score: all but the misses; undecayed."""
        return self.counted.num_scored

    @property
    def num_positive_ref(self) -> int:
        """Positive references, misses included; undecayed."""
        return self.counted.num_positive_ref

    @property
    def num_negative_ref(self) -> int:
        """Negative references, misses included; undecayed."""
        return self.counted.num_negative_ref

    @property
    def num_misses(self) -> int:
        """Positive references that were never scored; undecayed."""
        return self.counted.num_misses

    @property
    def num_negative_misses(self) -> int:
        """Negative references that were never scored; undecayed."""
        return self.counted.num_negative_misses

    def _view(self) -> State:
        return self._state

    def declaring(self, min_label_probability: float | None) -> Window:
        """Return the window under another least probability of its labels. O(1).

        Parameters
        ----------
        min_label_probability : float or None
            From 2**-31 to 1, as in `Evaluator`; it bounds the weight of an unseen case.

        Raises
        ------
        InvalidInputError
            When it is out of range.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> from streameval import WindowedEvaluator
        >>> ev = WindowedEvaluator()
        >>> ev.add_cases(
        ...     labels=[1, 1, 0, 0], scores=[0.9, 0.3, 0.8, 0.4], label_probability=0.5, at=noon
        ... )
        >>> window = ev.last(timedelta(hours=1))
        >>> window.interval("prevalence").reason
        'TOO_FEW_EFFECTIVE'
        >>> window.declaring(0.5).interval("prevalence").reason is None
        True
        """
        state = self._view().declaring(check_least_probability(min_label_probability))
        if state is self._state:
            return self
        found = copy(self)
        found.__dict__["_state"] = state
        return found

    def part_of(self, whole: Window) -> Window:
        """Return a part that has no groups of clusters, with the design effects of a whole. O(1).

        Two cases of a cluster are as dependent in the part as in the whole, and the part has
        no more cases of it, so its design effect is about the whole's, or less.
        """
        part = Window(self._state, *self._span_us)
        part._whole = whole
        return part

    def _design_effect(self, name: str, arguments: tuple[float, ...]) -> DesignEffect:
        if self._whole is None:
            return super()._design_effect(name, arguments)
        effect = self._whole._design_effect(name, arguments)
        return effect if effect is INDEPENDENT else replace(effect, blocks=None)

    def _panes_as_blocks(self) -> Sequence[State]:
        """Return its panes, none once one of them has changed."""
        panes = [each() for each in self._panes]
        # States are compared by identity.
        return () if None in panes else cast("list[State]", panes)

    def _pane_starts(self) -> Sequence[int]:
        """Return when each of `_panes_as_blocks` begins, in microseconds; empty if not known."""
        return self._starts_us

    @property
    def resolution(self) -> int | None:
        """Significant bits of a score that are kept; None is all."""
        return self._state.resolution

    def evaluator(self) -> Evaluator:
        """Return an independent evaluator with these counts. O(1).

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> from streameval import WindowedEvaluator
        >>> ev = WindowedEvaluator()
        >>> ev.add_cases(labels=[1, 0], scores=[0.9, 0.4], at=noon)
        >>> mine = ev.last(timedelta(hours=1)).evaluator()
        >>> mine.add_case(True, 0.7)
        >>> mine.num_cases
        3
        """
        return Evaluator._of(self._state)

    def snapshot(self) -> Snapshot:
        """Return the figures and the time that they cover. O(G), then cached.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> from streameval import WindowedEvaluator
        >>> ev = WindowedEvaluator()
        >>> ev.add_cases(labels=[1, 0], scores=[0.9, 0.4], at=noon)
        >>> ev.last(timedelta(hours=1)).snapshot().auc_pr
        1.0
        """
        return replace(self._figures(), window=(self.start, self.end))

    def _figures(self) -> Snapshot:
        if self._whole is not None:
            return take_snapshot(self)
        # Windows of different spans may share a state, so the cached figures have no span.
        return self._state.cached("snapshot", lambda: take_snapshot(self))

    def without(self, part: Window) -> Window:
        """Return the rest without a part: the complement, to compare the part with.

        Parameters
        ----------
        part : Window
            A subset of these cases: a slice of the same time, or some of its panes.

        Raises
        ------
        InvalidInputError
            When the part has cases that this window has not, or one of the two is decayed.

        Notes
        -----
        O(n). The result has the lower resolution of the two.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> from streameval._time.windowed import WindowedEvaluator
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> ev = WindowedEvaluator()
        >>> ev.add_cases(labels=[1, 0, 1], scores=[0.9, 0.4, 0.3], at=noon - timedelta(hours=1))
        >>> ev.add_cases(labels=[1, 0], scores=[0.2, 0.6], at=noon)
        >>> day, minute = ev.last(timedelta(days=1)), ev.last(timedelta(minutes=1))
        >>> rest = day.without(minute)
        >>> rest.num_cases, rest.auc_roc(), minute.auc_roc()
        (3, 0.5, 0.0)
        """
        if type(part) is not Window:
            raise mixed_decay_error()
        left = subtract_states(self._state, part._view())
        rest = Window(left, *self._span_us)
        is_part = left.clusters.num_groups < self._state.clusters.num_groups
        return rest.part_of(self) if is_part else rest


def mixed_decay_error() -> InvalidInputError:
    """Return the error for windows of which one is decayed and the other is not."""
    message = "both windows must be decayed, or neither"
    return InvalidInputError(message, field="part")


def newest_panes(panes: Sequence[PaneState], count: int) -> Sequence[PaneState]:
    """Return the fewest newest panes with `count` scored cases or more, or all. O(panes)."""
    first = len(panes)
    while first and count > 0:
        first -= 1
        count -= sum(panes[first].state.num_scored)
    return panes[first:]


def _iso(time: datetime) -> str:
    return time.isoformat(timespec="seconds")


def state_of(queries: Evaluator | Window) -> State:
    """Return the counts that an evaluator or a window reads, all mutations merged."""
    return queries._view()
