"""An evaluator for each pane of time; any window is a sum of panes.

Time is an argument, never a clock: the same calls give the same answers. Cases
may come in any order; each counts in the pane of its own time. Panes are bounded
evaluators, so a window has exact counts and hard limits on what rounding of scores
hides (`bounds`), and merging sixty panes takes milliseconds.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from streameval._common.errors import InvalidInputError
from streameval._common.keywords import by_keyword
from streameval._common.values import optional_real
from streameval._counts.cluster_keys import check_cluster
from streameval._counts.columns import check_count, check_label, check_score
from streameval._counts.weight_columns import check_unit, check_weights_allowed
from streameval._counts.weights import WEIGHT_UNITS
from streameval._evaluator import Evaluator
from streameval._time.changes import rows_by_group
from streameval._time.decay import DecayedWindow, decayed_window
from streameval._time.evaluator_panes import EvaluatorPanes
from streameval._time.times import (
    check_none_older,
    checked_us,
    column_us,
    span_us,
    to_datetime,
    to_us,
    too_old_error,
)
from streameval._time.window import PaneState, Window, newest_panes
from streameval._time.window_cache import WindowCache
from streameval._verdict.decide import Question, check_costs_known, checked_margin
from streameval._verdict.replay import checked_segments, verdict_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from streameval._common.arrays import IntArray
    from streameval._common.spans import Span
    from streameval._counts.resolution import Scale
    from streameval._counts.unsorted_cases import UnsortedCases
    from streameval._projection.projection import Projection
    from streameval._time.panes import Pane
    from streameval._verdict.verdict import Verdict

_MAX_CACHED_BYTES = 1 << 22
"""Distinct scores in all cached windows of one evaluator, and in all partial sums."""


class WindowedEvaluator:
    """Cases by event time: the last hour, any span, the last n cases, or decayed.

    Parameters
    ----------
    pane : timedelta or text
        Width of the smallest time slice that is kept apart. It divides an hour
        or a day, or is whole days.
    retention : timedelta or text
        How long cases are kept. Panes coarsen with age: `pane` for 3 hours, one
        hour for 7 days, then one day.
    resolution : int
        Significant bits of a score that a pane keeps.
    scale : {"probability"} or None
        As in `Evaluator`.
    max_cells : int
        The most distinct scores that a pane keeps.
    cluster_groups : int or None
        As in `Evaluator`: declares that every case has a cluster. Without clusters the
        intervals of a window have a `warning` where cases of one pane are dependent.
    min_label_probability : float or None
        As in `Evaluator`: bounds the weight of cases that may be missing.

    Raises
    ------
    InvalidInputError
        When a setting is out of range.

    Notes
    -----
    A pane takes up to 16 B for each distinct score that it keeps. Only one thread at
    a time may change it; windows are immutable, so any thread may read them.

    Examples
    --------
    >>> from datetime import datetime, timedelta, timezone
    >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    >>> ev = WindowedEvaluator(pane=timedelta(minutes=1))
    >>> ev.add_case(True, 0.9, at=noon)
    >>> ev.add_case(False, 0.4, at=noon + timedelta(minutes=90))
    >>> ev.add_case(True, 0.6, at=noon + timedelta(minutes=100))
    >>> ev.last(timedelta(hours=1)).auc_roc()
    1.0
    >>> ev.last(timedelta(hours=1)).num_cases, ev.last(timedelta(hours=2)).num_cases
    (2, 3)
    """

    def __init__(
        self,
        *,
        pane: Span = timedelta(minutes=1),
        retention: Span = timedelta(days=30),
        resolution: int = 12,
        scale: str | None = None,
        max_cells: int = 16_384,
        cluster_groups: int | None = None,
        min_label_probability: float | None = None,
    ) -> None:
        self._begin(
            EvaluatorPanes(
                span_us(pane, field="pane"),
                span_us(retention, field="retention"),
                Evaluator(
                    resolution=resolution,
                    scale=scale,
                    max_cells=max_cells,
                    cluster_groups=cluster_groups,
                    min_label_probability=min_label_probability,
                ),
            )
        )

    def _begin(self, panes: EvaluatorPanes) -> None:
        self._panes = panes
        self._empty = panes.empty
        self._windows: WindowCache[tuple[int, int]] = WindowCache(
            _MAX_CACHED_BYTES, knows_panes=True
        )

    @property
    def now(self) -> datetime:
        """The latest time of a case or of `advance`; 1970 before any."""
        return to_datetime(self._panes.now_us)

    @property
    def scale(self) -> Scale:
        """The scale that significant bits are counted on: "plain" or "probability"."""
        return self._empty.scale

    @property
    def cluster_groups(self) -> int | None:
        """How many groups clusters are hashed into; None if none are declared."""
        return self._empty.cluster_groups

    def advance(self, now: datetime) -> None:
        """Advance to a time: coarsen panes and drop those past retention. O(panes that change).

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> ev = WindowedEvaluator()
        >>> ev.add_case(True, 0.9, at=noon)
        >>> ev.advance(noon + timedelta(days=40))  # past retention
        >>> ev.last(timedelta(days=60)).num_cases
        0
        """
        self._panes.advance(to_us(now, field="now"))

    def add_case(
        self,
        positive: bool,
        score: float,
        *,
        at: datetime,
        weight: float | None = None,
        label_probability: float | None = None,
        cluster: str | int | bytes | None = None,
    ) -> None:
        """Add one case at its event time.

        Parameters
        ----------
        positive, score, weight, label_probability, cluster
            As `Evaluator.add_case`.
        at : datetime
            When it happened.

        Raises
        ------
        InvalidInputError
            As `Evaluator.add_case`, and when `at` is older than retention.

        Notes
        -----
        O(log panes). A time later than `now` advances it.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> ev = WindowedEvaluator()
        >>> ev.add_case(True, 0.9, at=noon)
        >>> ev.last(timedelta(minutes=1)).num_cases
        1
        """
        checked_label = check_label(positive)
        checked_score = check_score(score, scale=self._empty.scale)
        units = self._checked_unit(weight, label_probability)
        check_cluster(cluster, self.cluster_groups)
        pane = self._pane(to_us(at), added=1, units=units)
        pane.add_case(
            checked_label,
            checked_score,
            weight=None if units is None else units / WEIGHT_UNITS,
            cluster=cluster,
        )

    @by_keyword
    def add_cases(
        self,
        *,
        labels: Any,
        scores: Any,
        at: Any,
        counts: Any = None,
        weights: Any = None,
        label_probability: Any = None,
        clusters: Any = None,
        positive: Any = None,
        negative: Any = None,
    ) -> None:
        """Add columns of cases, all or none.

        Parameters
        ----------
        labels, scores, counts, weights, label_probability, clusters, positive, negative
            As `Evaluator.add_cases`.
        at : datetime, sequence of datetime, or datetime64[n]
            When each case happened: one time for all rows, or one per row.

        Raises
        ------
        InvalidInputError
            With the first row at fault; also for a time older than retention.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> ev = WindowedEvaluator()
        >>> ev.add_cases(labels=[1, 0], scores=[0.9, 0.4], at=[noon, noon + timedelta(hours=2)])
        >>> ev.last(timedelta(hours=1)).num_cases, ev.last(timedelta(hours=3)).num_cases
        (1, 2)
        """
        cases, times_us = self._checked(
            at,
            labels=labels,
            scores=scores,
            counts=counts,
            weights=weights,
            label_probability=label_probability,
            clusters=clusters,
            positive=positive,
            negative=negative,
        )
        if times_us.size:
            references = int(cases.multiplicities().sum())
            self._panes.check_room(references, cases.num_units() if cases.has_weights else None)
            self._panes.advance(max(self._panes.now_us, int(times_us.max())))
            self._change_panes(cases, times_us, Evaluator._add_rows)

    def remove_case(
        self,
        positive: bool,
        score: float,
        *,
        at: datetime,
        weight: float | None = None,
        label_probability: float | None = None,
        cluster: str | int | bytes | None = None,
    ) -> None:
        """Remove one case; arguments as of `add_case`.

        Raises
        ------
        InvalidInputError
            When its pane has no such case.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> ev = WindowedEvaluator()
        >>> ev.add_cases(labels=[1, 0], scores=[0.9, 0.4], at=noon)
        >>> ev.remove_case(False, 0.4, at=noon)
        >>> ev.last(timedelta(hours=1)).num_cases
        1
        """
        checked_label = check_label(positive)
        checked_score = check_score(score, scale=self._empty.scale)
        units = self._checked_unit(weight, label_probability)
        at_us = self._retained_us(to_us(at))
        pane = self._panes.get(self._panes.grid.start_of(at_us)) or self._empty.copy()
        pane.remove_case(
            checked_label,
            checked_score,
            weight=None if units is None else units / WEIGHT_UNITS,
            cluster=cluster,
        )

    @by_keyword
    def remove_cases(
        self,
        *,
        labels: Any,
        scores: Any,
        at: Any,
        counts: Any = None,
        weights: Any = None,
        label_probability: Any = None,
        clusters: Any = None,
        positive: Any = None,
        negative: Any = None,
    ) -> None:
        """Remove columns of cases, all or none; arguments as of `add_cases`.

        Raises
        ------
        InvalidInputError
            When the pane of a case has no such case.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> ev = WindowedEvaluator()
        >>> ev.add_cases(labels=[1, 0], scores=[0.9, 0.4], at=[noon, noon + timedelta(hours=2)])
        >>> ev.remove_cases(labels=[1], scores=[0.9], at=noon)
        >>> ev.last(timedelta(hours=3)).num_cases
        1
        """
        cases, times_us = self._checked(
            at,
            labels=labels,
            scores=scores,
            counts=counts,
            weights=weights,
            label_probability=label_probability,
            clusters=clusters,
            positive=positive,
            negative=negative,
        )
        self._change_panes(cases, times_us, Evaluator._remove_rows)

    def add_misses(
        self, count: int, *, at: datetime, cluster: str | int | bytes | None = None
    ) -> None:
        """Add positive references that were never scored.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> ev = WindowedEvaluator()
        >>> ev.add_case(True, 0.9, at=noon)
        >>> ev.add_misses(2, at=noon)
        >>> ev.between(noon, noon + timedelta(hours=1)).num_positive_ref
        3
        """
        checked = check_count(count)
        check_cluster(cluster, self.cluster_groups)
        self._pane(to_us(at), added=checked).add_misses(checked, cluster=cluster)

    def add_negative_misses(
        self, count: int, *, at: datetime, cluster: str | int | bytes | None = None
    ) -> None:
        """Add negative references that were never scored.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> ev = WindowedEvaluator()
        >>> ev.add_case(True, 0.9, at=noon)
        >>> ev.add_negative_misses(2, at=noon)
        >>> ev.between(noon, noon + timedelta(hours=1)).num_negative_ref
        2
        """
        checked = check_count(count)
        check_cluster(cluster, self.cluster_groups)
        self._pane(to_us(at), added=checked).add_negative_misses(checked, cluster=cluster)

    def last(self, span: Span, *, now: datetime | None = None) -> Window:
        """Return the window of the last `span`, up to `now`.

        Parameters
        ----------
        span : timedelta or text
            ``timedelta(days=7)`` or ``"7d"``.
        now : datetime, optional
            Its end; the latest time by default. It is included.

        Notes
        -----
        O(S log S) for S distinct scores in its panes; O(panes) while no pane changed.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> ev = WindowedEvaluator()
        >>> ev.add_cases(labels=[1, 0], scores=[0.9, 0.4], at=[noon, noon + timedelta(hours=2)])
        >>> ev.last("1h").num_cases
        1
        """
        end_us = self._panes.now_us if now is None else to_us(now, field="now")
        return self._between_us(max(0, end_us - span_us(span, field="span")), end_us + 1)

    def between(self, start: datetime, end: datetime) -> Window:
        """Return the window [start, end), widened to whole panes: see its `start` and `end`.

        Raises
        ------
        InvalidInputError
            When `start` is not before `end`.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> ev = WindowedEvaluator()
        >>> ev.add_cases(
        ...     labels=[1, 0, 1], scores=[0.9, 0.4, 0.6],
        ...     at=[noon, noon, noon + timedelta(hours=2)],
        ... )
        >>> window = ev.between(noon, noon + timedelta(hours=1))
        >>> window.num_cases, window.auc_roc()
        (2, 1.0)
        """
        start_us, end_us = to_us(start, field="start"), to_us(end, field="end")
        if start_us >= end_us:
            raise InvalidInputError(f"start must be before end, got {start} and {end}", field="end")
        return self._between_us(start_us, end_us)

    def last_cases(self, count: int) -> Window:
        """Return the newest panes with `count` scored cases or more together, or all panes.

        Panes are taken whole, so there may be more cases than `count`; there are fewer
        only if the evaluator has fewer. Misses do not count towards `count`. O(panes + S log S).

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> ev = WindowedEvaluator()
        >>> ev.add_cases(labels=[1, 0], scores=[0.9, 0.4], at=[noon, noon + timedelta(hours=2)])
        >>> ev.last_cases(1).num_cases
        1
        """
        states = [_pane_state(pane) for pane in self._panes]
        panes = newest_panes(states, check_count(count))
        return self._window(panes, self._panes.now_us, self._panes.now_us + 1)

    def decayed(self, half_life: Span, *, now: datetime | None = None) -> DecayedWindow:
        """Return all panes, each weighted by 2^(-age / half_life).

        Parameters
        ----------
        half_life : timedelta or text
        now : datetime, optional
            The time that ages are counted to; the latest time by default. A pane's age
            is counted from its end.

        Notes
        -----
        O(S log S). Intervals use squared weights; counts are reported undecayed. A case's
        own weight is multiplied by the weight of its pane's age, and rounded to 2**-16.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> ev = WindowedEvaluator()
        >>> ev.add_cases(labels=[1, 0], scores=[0.9, 0.4], at=[noon, noon + timedelta(hours=2)])
        >>> round(ev.decayed(timedelta(hours=1)).prevalence, 3)
        0.202
        """
        half_life_us = span_us(half_life, field="half_life")
        now_us = self._panes.now_us if now is None else to_us(now, field="now")
        return decayed_window(
            [_pane_state(pane) for pane in self._panes],
            half_life_us,
            now_us=now_us,
            empty=self._empty._view(),
        )

    def panes(self) -> Iterator[Window]:
        """Yield each pane as a window, oldest first: the finest time series there is.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> ev = WindowedEvaluator()
        >>> ev.add_cases(labels=[1, 0], scores=[0.9, 0.4], at=[noon, noon + timedelta(hours=2)])
        >>> [pane.num_cases for pane in ev.panes()]
        [1, 1]
        """
        for pane in self._panes:
            yield Window(pane.content._view(), pane.start_us, pane.end_us)

    @by_keyword
    def verdict(
        self,
        *,
        at: datetime | None = None,
        base: tuple[datetime, datetime] | None = None,
        segments: Mapping[str, Mapping[str, WindowedEvaluator]] | None = None,
        threshold: float | None = None,
        cost_fp: float | None = None,
        cost_fn: float | None = None,
        label_wait: timedelta = timedelta(0),
        margin: float = 0.05,
        project: Callable[[Window], Projection] | None = None,
    ) -> Verdict:
        """Return what changed since the base, since when, because of whom, and how sure that is.

        Parameters
        ----------
        at : datetime, optional
            The latest time by default. Panes that are over by then count.
        base : (datetime, datetime), optional
            What to compare with; by default the earliest whole weeks with 100 cases of each class
            and no change in them.
        segments : mapping of key to value to WindowedEvaluator, optional
            The same cases by segment, as ``{"country": {"IT": ..., "FR": ...}}``, with this
            evaluator's `pane` and `retention`.
        threshold, cost_fp, cost_fn : float, optional
            To have precision and recall, and the expected cost, among the figures.
        label_wait : timedelta
            How long after its end a pane has the labels that it will have.
        margin : float
            It is steady if a larger fall of AUC-PR is excluded.
        project : callable, optional
            `LabelJoiner.projection` of the joiner into this evaluator: where it is too early, the
            verdict says how many labels are in, and what AUC-PR is projected to be.

        Raises
        ------
        InvalidInputError
            For a base with a change in it, or with fewer than 30 cases of a class; for weights;
            for segments in another shape or with other panes, and costs without a threshold.

        Notes
        -----
        O(panes x cells): the evidence is replayed. docs/verdict.md says what it means.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> ev = WindowedEvaluator()
        >>> ev.add_case(True, 0.9, at=datetime(2026, 1, 1, 12, tzinfo=timezone.utc))
        >>> ev.verdict().quality
        'immature'
        """
        check_costs_known(threshold, cost_fp, cost_fn)
        asked = Question(
            self._panes.now_us if at is None else to_us(at),
            threshold=optional_real(threshold, "threshold"),
            cost_fp=cost_fp,
            cost_fn=cost_fn,
            margin=checked_margin(margin),
        )
        of_segments = checked_segments(self._panes, {} if segments is None else segments)
        wait_us = span_us(label_wait, field="label_wait") if label_wait else 0
        if wait_us > self._panes.retention_us:
            longest = timedelta(microseconds=self._panes.retention_us)
            message = f"label_wait must be at most the retention, {longest}, got {label_wait}"
            raise InvalidInputError(message, field="label_wait")
        since = None if project is None else partial(self._since, project, asked.at_us)
        return verdict_of(self._panes, of_segments, base, asked, wait_us, project=since)

    def merge(self, other: WindowedEvaluator) -> None:
        """Add the counts of another evaluator, pane by pane.

        Raises
        ------
        InvalidInputError
            When their settings differ. Nothing has changed then.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> ev = WindowedEvaluator()
        >>> ev.add_cases(labels=[1, 0], scores=[0.9, 0.4], at=noon)
        >>> ev.merge(ev.copy())
        >>> ev.last(timedelta(hours=1)).num_cases
        4
        """
        self._panes.merge(other._panes)

    def copy(self) -> Self:
        """Return an independent evaluator with the same content. O(panes).

        Examples
        --------
        >>> from datetime import datetime, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> ev = WindowedEvaluator()
        >>> ev.add_case(True, 0.9, at=noon)
        >>> ev.copy() == ev
        True
        """
        return self._of(self._panes.copy())

    def to_bytes(self) -> bytes:
        """Return the content as bytes: versioned, checksummed, the same on every machine.

        Equal evaluators have equal bytes, in whatever order their cases were added.
        O(cells).

        Examples
        --------
        >>> from datetime import datetime, timezone
        >>> ev = WindowedEvaluator()
        >>> ev.add_case(True, 0.9, at=datetime(2026, 1, 1, 12, tzinfo=timezone.utc))
        >>> WindowedEvaluator.from_bytes(ev.to_bytes()) == ev
        True
        """
        return self._panes.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Self:
        """Return the evaluator that `to_bytes` wrote. O(cells).

        Raises
        ------
        CorruptStateError
            When the bytes are truncated, altered, or of an unknown format.

        Examples
        --------
        >>> from datetime import datetime, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> ev = WindowedEvaluator()
        >>> ev.add_case(True, 0.9, at=noon)
        >>> WindowedEvaluator.from_bytes(ev.to_bytes()) == ev
        True
        """
        return cls._of(EvaluatorPanes.from_bytes(data))

    @classmethod
    def _of(cls, panes: EvaluatorPanes) -> Self:
        """Return an evaluator with these panes."""
        self = cls.__new__(cls)
        self._begin(panes)
        return self

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self.copy()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WindowedEvaluator):
            return NotImplemented
        return self._panes.same_content(other._panes)

    __hash__ = None  # type: ignore[assignment]  # it changes, so it must not be a key

    def __repr__(self) -> str:
        return f"<WindowedEvaluator: {len(self._panes)} panes, now {self.now.isoformat()}>"

    # -- internals ----------------------------------------------------------

    def _view(self) -> EvaluatorPanes:
        """Return the panes, for a joiner that counts into them."""
        return self._panes

    def _pane(self, at_us: int, *, added: int, units: int | None = None) -> Evaluator:
        """Return the pane of a time, to add references to; advance to it if it is later."""
        self._retained_us(at_us)
        self._panes.check_room(added, units)
        self._panes.advance(at_us)
        return self._panes.at(self._panes.grid.start_of(at_us))

    def _retained_us(self, at_us: int) -> int:
        """Return a time; raise InvalidInputError if it is older than retention."""
        oldest_us = self._panes.grid.oldest_us
        if at_us < oldest_us:
            raise too_old_error(at_us, oldest_us)
        return at_us

    def _checked_unit(self, weight: Any, label_probability: Any) -> int | None:
        """Return one case's weight in units of 2**-16; None if it has none."""
        if weight is None and label_probability is None:
            return None
        check_weights_allowed(self.cluster_groups, field="weight")
        return check_unit(weight, label_probability)

    def _checked(self, at: Any, **columns: Any) -> tuple[UnsortedCases, IntArray]:
        """Return checked columns and their times; raise InvalidInputError for times past retention.

        Retention is that after the newest of the rows has advanced the time.
        """
        cases = self._empty._checked_rows(**columns)
        times_us = column_us(at, len(cases))
        if times_us.size:
            latest_us = max(self._panes.now_us, int(times_us.max()))
            check_none_older(times_us, self._panes.grid_at(latest_us).oldest_us)
        return cases, times_us

    def _change_panes(
        self,
        cases: UnsortedCases,
        times_us: IntArray,
        change: Callable[[Evaluator, UnsortedCases], None],
    ) -> None:
        """Apply `change` to the rows of each pane, all or none."""
        changed: list[tuple[int, Evaluator]] = []
        for start, here in rows_by_group(self._panes.grid.starts_of(times_us)):
            # A copy shares the state; it replaces the pane once all rows have succeeded.
            pane = (self._panes.get(start) or self._empty).copy()
            change(pane, cases.take(here))
            changed.append((start, pane))
        for start, pane in changed:
            self._panes.put(start, pane)

    def _between_us(self, start_us: int, end_us: int) -> Window:
        start_us, end_us = self._panes.grid.snapped(
            checked_us(start_us, field="start"), checked_us(end_us, field="end")
        )
        panes = [_pane_state(pane) for pane in self._panes.between(start_us, end_us)]
        return self._window(panes, start_us, end_us)

    def _since(
        self, project: Callable[[Window], Projection], at_us: int, start_us: int
    ) -> Projection:
        return project(self._between_us(start_us, at_us + 1))

    def _window(self, panes: Sequence[PaneState], start_us: int, end_us: int) -> Window:
        """Return the sum of panes; the same object while none of them has changed."""
        if panes:
            start_us, end_us = min(start_us, panes[0].start_us), max(end_us, panes[-1].end_us)
        states = [pane.state for pane in panes] or [self._empty._view()]
        starts_us = [pane.start_us for pane in panes]
        return self._windows.sum((start_us, end_us), states, start_us, end_us, starts_us)

    def _check(self) -> None:
        """Assert all invariants. O(S log S)."""
        self._panes._check()
        for pane in self._panes:
            pane.content._check()


def _pane_state(pane: Pane[Evaluator]) -> PaneState:
    return PaneState(pane.start_us, pane.end_us, pane.content._view())
