"""The public answer: the value now, the projected value, limits, and how projections fared."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.result import Result, Shown
from streameval._common.values import real, shown
from streameval._metric_registry import BY_NAME, HEADLINE, Place
from streameval._projection.delay_scale import MIN_POWER, delay_scale
from streameval._projection.estimate import state_of_cells
from streameval._projection.label_limits import PartlyLabelled, label_limits
from streameval._projection.projected_interval import Rescaled, projected_interval
from streameval._time.times import to_datetime
from streameval._time.window import Window
from streameval._uncertainty.intervals import check_level

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from streameval._common.arrays import IntArray
    from streameval._counts.resolution import Scale
    from streameval._metric_registry import Metric
    from streameval._projection.estimate import Estimate
    from streameval._projection.label_history import LabelHistory
    from streameval._uncertainty.interval import Interval

ASSUMPTION: Final = (
    "labelling depends on score band, class and age only, not on when a batch of labels comes"
)
UNTOLD_SCALE: Final = (
    "; too few labels are there to tell whether they now take half or double the time, so the "
    "intervals allow for both"
)

MIN_BAND_SHARE = 0.01
"""The mature labelled share of a band below which nothing is known of it."""
MIN_ARRIVED_SHARE = 0.05
MIN_MATURE_LABELS = 30
MIN_EFFECTIVE_POSITIVES = 50
MAX_BACKTESTS = 20
_MIN_VARIANCE = 1e-12
"""With less, all labels were there already: nothing was projected."""
_BACKTESTS_PER_SPAN = 8
"""Windows of the backtest begin at least an eighth of their span apart."""


class RefusalReason(enum.Enum):
    """Why there is no projected value. The value is the reason in words.

    The last four are a server's only.
    """

    TOO_FEW_MATURE = (
        "fewer than 30 labels of a class are of panes whose labels are in: "
        "wait, or keep panes longer than the ttl"
    )
    CLASS_NEVER_LABELLED = (
        "a class is never labelled: if a prediction without a label is a negative, "
        'declare expired="negative"; if not, label a sample of the others'
    )
    BAND_NEVER_LABELLED = (
        "less than 1 % of the predictions in a band of score are ever labelled: "
        "label a random sample of it"
    )
    TOO_EARLY = "less than 5 % of the positives' labels are there in a band of score: wait"
    TOO_FEW_EFFECTIVE = "the labelled positives count as fewer than 50: wait, or widen the window"
    FIT_FAILED = (
        "the labels of this window come slower or faster than those before, so what is missing "
        "cannot be counted: read the limits, or wait until the labels are in"
    )
    OTHER_CASES = "the window has cases that did not come as a prediction and its label by id"
    WEIGHTS_OR_CLUSTERS = "the cases have weights or clusters, which a projection does not read"
    UNKNOWN = "a reason that this version of the client does not know"


@dataclass(frozen=True, slots=True, eq=False)
class BacktestedWindow(Result):
    """A window whose labels are in, as it would have been projected.

    Attributes
    ----------
    start, end : datetime
    made_at : datetime
        The time of the projection, as long after `end` as the present one.
    projected, final : float
        The value projected then, and what its labels give now.
    z : float
        Their difference in standard errors of the projection.
    """

    start: datetime
    end: datetime
    made_at: datetime
    projected: float
    final: float
    z: float


@dataclass(frozen=True, slots=True, eq=False)
class ProjectedFigure(Result):
    """One metric of a window: now, and once its labels are in.

    Attributes
    ----------
    metric : str
    prevalence : float or None
        What it is rescaled to; None if it has the window's own.
    now : float
        The value of the labelled cases; nan where it has none.
    interval : Interval or None
        The projected value and the limits of what the window will read, widened by the
        backtest; None where it is refused.
    limits : (float, float) or None
        What no labels of the predictions without one can leave: a proven outer bound of
        the extremes. None for metrics other than areas.
    reason : RefusalReason or None
        Why the projected value is refused.
    backtest : tuple of BacktestedWindow
        The newest windows whose labels are in, at most 20, oldest first.
    widening : float
        By how much the backtest widened the standard error, 1 or more: the root mean
        square of its `z`.
    assumption : str
        What the projected value rests on; `limits` do not.
    """

    metric: str
    prevalence: float | None
    now: float
    interval: Interval | None
    limits: tuple[float, float] | None
    reason: RefusalReason | None
    backtest: tuple[BacktestedWindow, ...] = field(repr=False)
    widening: float = 1.0
    assumption: str = field(default=ASSUMPTION, repr=False)

    @property
    def projected(self) -> float:
        """The projected value; nan where it is refused."""
        return math.nan if self.interval is None else self.interval.estimate

    def to_dict(self) -> dict[str, Any]:
        """Return the figure as plain values that JSON can hold; nan is None."""
        return {
            "metric": self.metric,
            "prevalence": self.prevalence,
            "now": _plain(self.now),
            "projected": _plain(self.projected),
            "interval": None if self.interval is None else [_plain(each) for each in self.interval],
            "level": None if self.interval is None else self.interval.level,
            "limits": None if self.limits is None else list(self.limits),
            "refusal": None if self.reason is None else self.reason.name,
            "reason": None if self.reason is None else self.reason.value,
            "widening": self.widening,
            "backtest": [
                {
                    "start": each.start.isoformat(),
                    "end": each.end.isoformat(),
                    "made_at": each.made_at.isoformat(),
                    "projected": each.projected,
                    "final": each.final,
                    "z": each.z,
                }
                for each in self.backtest
            ],
        }

    def __str__(self) -> str:
        """Return the figure in one line, and what it rests on."""
        title = BY_NAME[self.metric].title
        if self.prevalence is not None:
            title += f" at a prevalence of {self.prevalence:.3g}"
        text = f"{title}: {self.now:.4f} now"
        if self.interval is not None:
            text += f", projected {self.interval}"
        if self.limits is not None:
            text += f", whatever the missing labels {self.limits[0]:.4f} to {self.limits[1]:.4f}"
        if self.reason is not None:
            return f"{text}\n  not projected: {self.reason.value}"
        worst = max((abs(each.z) for each in self.backtest), default=0.0)
        return (
            f"{text}\n  assumed: {self.assumption}; backtest of {len(self.backtest)} windows "
            f"against labels that came the same way: largest error {worst:.1f} standard errors"
        )


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else value


class Projection(Shown):
    """What a window will read once each of its predictions has its label.

    `LabelJoiner.projection` returns it.

    Attributes
    ----------
    window : Window
        As it reads now.

    Notes
    -----
    Immutable; deterministic. A figure costs O(panes x cells) for each window of its
    backtest: some milliseconds each.
    """

    def __init__(self, history: LabelHistory, window: Window, span_us: tuple[int, int]) -> None:
        self.window = window
        self._history = history
        self._table = history.table
        self._span_us = span_us

    @property
    def assumption(self) -> str:
        """What projected values rest on.

        How a label comes, and whether, depends on the band of the score, the class and the
        age of the prediction only; and whether the labels that are there could tell if they
        took twice the time.
        """
        told = all(each.scale.power >= MIN_POWER for each in self._rescaled)
        return ASSUMPTION if told else ASSUMPTION + UNTOLD_SCALE

    @property
    def prevalence(self) -> float:
        """The prevalence of the panes whose labels are in, as a reference; nan without any."""
        return self._history.model(self._table.now_us).prevalence

    @property
    def labelled_share(self) -> float:
        """The share of the window's predictions that have a label; nan without predictions."""
        predictions = int(self._table.predictions[self._panes].sum())
        labels = self._table.labels_at(self._panes, self._table.now_us).sum()
        return float(labels) / predictions if predictions else math.nan

    @cached_property
    def fit(self) -> float:
        """The p-value of the delays of the window's labels against those before.

        Of a score test of their scale, twice the less of both classes; nan
        where nothing is projected. Below 0.01, and more than 7 % slower or faster, all figures
        are refused.
        """
        found = [each.scale.p_value for each in self._rescaled]
        return min(1.0, 2 * min(found)) if found else math.nan

    @cached_property
    def reason(self) -> RefusalReason | None:
        """Why no figure is projected, or None."""
        found = self._refusal(self._panes, self._table.now_us)
        if found is None and any(each.scale.is_rejected for each in self._rescaled):
            return RefusalReason.FIT_FAILED
        return found

    def headline(
        self, level: float = 0.95, *, metrics: Collection[str] = Place.PROJECTION.names()
    ) -> tuple[ProjectedFigure, ...]:
        """Return AUC-ROC, AUC-PR at the reference prevalence, and at the own one.

        Parameters
        ----------
        level : float
            Nominal coverage of the intervals.
        metrics : collection of {"auc_roc", "auc_pr"}
            Those that are computed.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> from streameval import LabelJoiner, WindowedEvaluator
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> ev = WindowedEvaluator()
        >>> joiner = LabelJoiner(ev, ttl=timedelta(days=7), keep_delays=True)
        >>> joiner.log("order-17", 0.9, at=noon)
        >>> roc = joiner.projection(ev.last(timedelta(hours=1))).headline()[0]
        >>> roc.reason.name
        'TOO_FEW_MATURE'
        """
        reference = self.prevalence
        kept = [None] if math.isnan(reference) or not 0 < reference < 1 else [reference, None]
        wanted = [("auc_roc", None), *(("auc_pr", each) for each in kept)]
        return tuple(
            self.figure(metric, prevalence=each, level=level)
            for metric, each in wanted
            if metric in metrics
        )

    def figure(
        self,
        metric: str = "auc_pr",
        *,
        level: float = 0.95,
        prevalence: float | None = None,
        **arguments: Any,
    ) -> ProjectedFigure:
        """Return a metric now, projected, and within limits.

        Parameters
        ----------
        metric : str
            One with a gradient in the table of metrics: areas, rates at a `threshold`,
            prevalence, Brier score, log loss.
        level : float
            Nominal coverage of the interval, between 0 and 1.
        prevalence : float, optional
            For areas in precision-recall space: the prevalence to rescale to, for
            instance `Projection.prevalence`. By default the window's own, which is refused
            where labels do not come as before.
        **arguments
            For the evaluator's method of the metric's name: ``threshold=0.5``.

        Raises
        ------
        InvalidInputError
            For a metric that cannot be projected, and for values out of range.
        TypeError
            When the method of that name takes no such argument.

        Notes
        -----
        O(panes x cells) for each window of the backtest.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> from streameval import LabelJoiner, WindowedEvaluator
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> ev = WindowedEvaluator()
        >>> joiner = LabelJoiner(ev, ttl=timedelta(days=7), keep_delays=True)
        >>> joiner.log_cases(ids=["a", "b", "c"], scores=[0.9, 0.4, 0.2], at=noon)
        >>> joiner.label_cases(ids=["a", "b"], labels=[1, 0], at=noon)
        >>> figure = joiner.projection(ev.last(timedelta(hours=1))).figure("auc_roc")
        >>> figure.now, figure.projected, figure.limits[1]
        (1.0, nan, 1.0)
        """
        row = _projectable(metric)
        check_level(level)
        if prevalence is not None:
            if not row.is_rescaled:
                message = f"{metric} does not depend on a prevalence"
                raise InvalidInputError(message, field="prevalence")
            if not 0 < real(prevalence, "prevalence") < 1:
                message = f"prevalence must be between 0 and 1, got {shown(prevalence)}"
                raise InvalidInputError(message, field="prevalence")
            arguments["prevalence"] = prevalence
        missing = row.missing(arguments)
        if missing is not None:
            message = f"{metric} needs a {missing}: figure({metric!r}, {missing}=...)"
            raise InvalidInputError(message, field=missing)
        now = float(row.function(self.window, **{**row.arguments, **arguments}))
        limits = self._limits(row, prevalence)
        if self.reason is not None:
            return ProjectedFigure(metric, prevalence, now, None, limits, self.reason, ())
        backtest = self._backtest(row, arguments)
        widening = _widening(backtest)
        interval = self._interval(row, arguments, level, now, widening)
        return ProjectedFigure(
            metric, prevalence, now, interval, limits, None, backtest, widening, self.assumption
        )

    def interval(self, level: float = 0.95) -> Interval | None:
        """Return AUC-PR at the own prevalence as `figure` has it, without limits; None if refused.

        A third of the time of `figure` where the backtest is short.
        """
        check_level(level)
        if self.reason is not None:
            return None
        row = BY_NAME[HEADLINE]
        now = float(row.function(self.window, **row.arguments))
        return self._interval(row, {}, level, now, _widening(self._backtest(row, {})))

    def __str__(self) -> str:
        """Return the headline figures, one after the other."""
        return "\n".join(map(str, self.headline()))

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one flat row for each of the headline figures."""
        return [row for each in self.headline() for row in each.to_rows()]

    # -- internals -------------------------------------------------------------

    @cached_property
    def _panes(self) -> IntArray:
        return self._history.between(*self._span_us)

    @cached_property
    def _estimate(self) -> Estimate:
        return self._history.estimate(self._panes, self._table.now_us, self._misses)

    @cached_property
    def _rescaled(self) -> tuple[Rescaled, ...]:
        """The scale of the delays of each class that counts, and what it would change.

        Negatives that are what is not positive have no delays, and delays of one bucket have no
        scale. Empty where nothing is projected.
        """
        if self._refusal(self._panes, self._table.now_us) is not None:
            return ()
        model, rescaled = self._history.model(self._table.now_us), self._history.rescaled
        moves = (model.delays.any(axis=1).sum(axis=1) > 1).tolist()
        counts = (moves[0] and not self._estimate.complements.all(), moves[1])
        return tuple(
            Rescaled(
                delay_scale(self._table, model, self._panes, label),
                rescaled(self._panes, self._misses, label, -1),
                rescaled(self._panes, self._misses, label, 1),
            )
            for label in (0, 1)
            if counts[label]
        )

    def _interval(
        self, row: Metric, arguments: Mapping[str, Any], level: float, now: float, widening: float
    ) -> Interval:
        """Return the projected value and its limits."""
        return projected_interval(
            self._estimate,
            self._rescaled,
            row,
            arguments,
            level=level,
            extra=self._rounding(now, row, arguments) ** 2,
            widening=widening,
        )

    def _rounding(self, now: float, metric: Metric, arguments: Mapping[str, Any]) -> float:
        """Return what the cells of score change of the labelled cases' value; 0 for nan."""
        known = self._table.labels_at(self._panes, self._table.now_us).sum(axis=1)
        counts = np.rint(known).astype(np.int64)
        view = self.window._view()
        state = replace(
            state_of_cells(self._table.cells, counts[1], counts[0], view.scale),
            missed_positives=view.missed_positives,
            missed_negatives=view.missed_negatives,
        )
        window = Window(state, *self._span_us)
        change = now - float(metric.function(window, **{**metric.arguments, **arguments}))
        return 0.0 if math.isnan(change) else change

    @property
    def _misses(self) -> tuple[int, int]:
        view = self.window._view()
        return view.missed_positives, view.missed_negatives

    @property
    def _scale(self) -> Scale:
        return self.window._view().scale

    def _refusal(self, panes: IntArray, at_us: int) -> RefusalReason | None:
        """Return why panes cannot be projected from what was known at a time."""
        model = self._history.model(at_us)
        fewer, more = sorted(model.labels.tolist())
        if fewer < MIN_MATURE_LABELS:
            never = fewer <= 0 and more >= MIN_MATURE_LABELS
            return RefusalReason.CLASS_NEVER_LABELLED if never else RefusalReason.TOO_FEW_MATURE
        if not panes.size or not self._table.predictions[panes].any():
            return RefusalReason.TOO_FEW_EFFECTIVE
        if model.least_labelled_share < MIN_BAND_SHARE:
            return RefusalReason.BAND_NEVER_LABELLED
        misses = self._misses if panes is self._panes else (0, 0)
        estimate = self._history.estimate(panes, at_us, misses)
        if estimate.least_arrived < MIN_ARRIVED_SHARE:
            return RefusalReason.TOO_EARLY
        if estimate.effective_positives < MIN_EFFECTIVE_POSITIVES:
            return RefusalReason.TOO_FEW_EFFECTIVE
        return None

    def _backtest(
        self, metric: Metric, arguments: Mapping[str, Any]
    ) -> tuple[BacktestedWindow, ...]:
        """Return how windows of the same span, at the same age, would have been projected."""
        table = self._table
        end_us = min(self._span_us[1], table.now_us)
        span_us, age_us = end_us - self._span_us[0], table.now_us - end_us
        found: list[BacktestedWindow] = []
        last_us = table.now_us
        for end in table.ends_us[::-1].tolist():
            settled = end + self._history.settle_us <= table.now_us
            if len(found) == MAX_BACKTESTS or end - span_us < table.starts_us[0]:
                break
            if not settled or last_us - end < span_us // _BACKTESTS_PER_SPAN:
                continue
            panes = self._history.between(end - span_us, end)
            if not panes.size or self._refusal(panes, end + age_us) is not None:
                continue
            last_us = end
            then = self._history.estimate(panes, end + age_us)
            final = self._history.estimate(panes, table.now_us).value(metric, arguments)
            projected = then.value(metric, arguments)
            variance = then.variance(metric, arguments)
            if math.isnan(final) or not variance > _MIN_VARIANCE:
                continue
            found.append(
                BacktestedWindow(
                    to_datetime(int(table.starts_us[panes[0]])),
                    to_datetime(end),
                    to_datetime(end + age_us),
                    projected,
                    final,
                    (projected - final) / math.sqrt(variance),
                )
            )
        return tuple(reversed(found))

    def _limits(self, metric: Metric, prevalence: float | None) -> tuple[float, float] | None:
        """Return limits under any labels; None for a metric that is no area."""
        if metric.estimator is None:
            return None
        table = self._table
        if not self._panes.size:
            return 0.0, 1.0
        known = np.rint(table.labels_at(self._panes, table.now_us).sum(axis=1)).astype(np.int64)
        unlabelled = table.predictions[self._panes].sum(axis=0) - known.sum(axis=0)
        cases = PartlyLabelled(
            table.cells, known[1], known[0], unlabelled, self._scale, self._misses
        )
        return label_limits(cases, metric.name, prevalence)


def _widening(backtest: Sequence[BacktestedWindow]) -> float:
    """Return by how much a backtest widens the standard error."""
    squares = [each.z**2 for each in backtest]
    return max(1.0, math.sqrt(fmean(squares))) if squares else 1.0


def _projectable(name: str) -> Metric:
    """Return a metric that has a gradient; raise InvalidInputError for another."""
    metric = BY_NAME.get(name)
    if metric is None or metric.gradient is None:
        known = ", ".join(sorted(each.name for each in BY_NAME.values() if each.gradient))
        message = f"{shown(name)} cannot be projected; these can: {known}"
        raise InvalidInputError(message, field="metric")
    return metric
