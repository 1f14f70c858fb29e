"""Streams whose labels come late or are chosen, against the truth; a part of `truth.py`.

A stream has 1,000 predictions a day for 75 days, panes of a day, and is asked for its last
7 days. Its labels come after a delay; the truth is the figure of the window with the label
of each of its predictions. `before` is the figure of the labels that are there, `after` the
projected one. Constants were tuned with other seeds.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from streameval import Evaluator, Window
from streameval._projection.delay_panes import DelayPanes
from streameval._projection.label_history import LabelHistory
from streameval._projection.label_table import LabelTable
from streameval._projection.projection import Projection
from streameval._time.effects import Effect, Effects
from streameval._time.panes import Grid

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from streameval import Interval, ProjectedFigure

    FloatColumn = npt.NDArray[np.float64]
    BoolColumn = npt.NDArray[np.bool_]

DAY_US = 86_400_000_000
DAYS, WINDOW_DAYS, TTL_DAYS = 75, 7, 20
PREDICTIONS_PER_DAY = 1_000
PREVALENCE = 0.05
SEPARATION = 2.0
"""Standard deviations between the classes."""

METRICS = (
    ("auc_roc", False),
    ("auc_pr", True),
    ("average_precision", False),
)
"""Names, and whether they are at the reference prevalence."""

BACKTESTED_STREAMS = 10
"""Of each scenario, of which the widening and the limits are measured."""

MIN_COVERAGE = 0.93
MAX_BIAS_RATIO = 0.25
"""Of the bias after to that before."""
MAX_WIDTH_RATIO = 1.5
"""Of the plain width, the median, to the needed one."""


@dataclass(frozen=True)
class Stream:
    """Predictions by time in days, with the delay of each label; infinite for none."""

    days: FloatColumn
    positives: BoolColumn
    scores: FloatColumn
    delays: FloatColumn
    expired_are_negative: bool = False


@dataclass(frozen=True)
class Scenario:
    """How labels come: the mean delay of each prediction in days, and which are labelled.

    `fraction`: of the positives, in the window. `refuses`: what is never labelled, or a changed
    delay, makes a projection impossible, and it has to say so.
    """

    name: str
    mean_delays: Callable[[Stream, BoolColumn], FloatColumn]
    labelled: Callable[[Stream, BoolColumn, FloatColumn], BoolColumn] | None = None
    decays: bool = False
    expired_are_negative: bool = False
    fraction: float = 1.0
    refuses: bool = False


def days(of_positive: float, of_negative: float) -> Callable[[Stream, BoolColumn], FloatColumn]:
    """Return mean delays by class."""
    return lambda stream, _: np.where(stream.positives, of_positive, of_negative)


def days_by_score(high: float, low: float) -> Callable[[Stream, BoolColumn], FloatColumn]:
    """Return mean delays by whether the score is in the highest tenth."""
    return lambda _, high_score: np.where(high_score, high, low)


def chargebacks(
    pace: float, *, of_negatives: float = 1.0
) -> Callable[[Stream, BoolColumn], FloatColumn]:
    """Return mean delays that are multiplied in the window, by a factor for each class."""

    def means(stream: Stream, _: BoolColumn) -> FloatColumn:
        inside = stream.days > DAYS - WINDOW_DAYS
        positive, negative = np.where(inside, pace, 1.0), np.where(inside, of_negatives, 1.0)
        return np.where(stream.positives, 5 * positive, negative)

    return means


SCENARIOS = (
    Scenario("late by class", days(8, 1)),
    Scenario("late by score", days_by_score(1, 8)),
    Scenario("negatives by expiry only", days(5, math.inf), expired_are_negative=True),
    Scenario(
        "10 % labelled below a score",
        days(2, 2),
        labelled=lambda _, high, draw: high | (draw < 0.1),
    ),
    Scenario("reviewed with the rest late", days_by_score(0.5, 8)),
    Scenario("decay during the window", days(8, 1), decays=True),
    Scenario("chargebacks", chargebacks(1.0)),
    Scenario("chargebacks, twice as late", chargebacks(2.0)),
    Scenario("chargebacks, 1.5 times", chargebacks(1.5)),
    Scenario("chargebacks, half as late", chargebacks(0.5)),
    Scenario("half the positives", chargebacks(1.0), fraction=0.5),
    Scenario("all labels twice as late", chargebacks(2.0, of_negatives=2.0), refuses=True),
    Scenario(
        "high scores never labelled",
        days(2, 2),
        labelled=lambda _, high, __: ~high,
        refuses=True,
    ),
    Scenario(
        "complaints only",
        days(4, 4),
        labelled=lambda stream, _, __: stream.positives,
        refuses=True,
    ),
)


def draw(scenario: Scenario, rng: np.random.Generator) -> Stream:
    """Return one stream. Scores are probabilities of a model that was right at first."""
    count = PREDICTIONS_PER_DAY * DAYS
    at = rng.random(count) * DAYS
    inside = at > DAYS - WINDOW_DAYS
    positives = rng.random(count) < PREVALENCE * np.where(inside, scenario.fraction, 1.0)
    aged = np.clip((at - (DAYS - WINDOW_DAYS)) / WINDOW_DAYS, 0, 1) * scenario.decays
    signal = rng.standard_normal(count) + positives * (SEPARATION - aged)
    odds = SEPARATION * signal - SEPARATION**2 / 2 + math.log(PREVALENCE / (1 - PREVALENCE))
    scores = 1 / (1 + np.exp(-odds))
    stream = Stream(at, positives, scores, at, scenario.expired_are_negative)
    high = scores > np.quantile(scores, 0.9)
    means = scenario.mean_delays(stream, high)
    # Exponential, cut at the ttl, so that the truth is what is read when labels are in.
    with np.errstate(invalid="ignore"):
        delays = -means * np.log1p(rng.random(count) * np.expm1(-TTL_DAYS / means))
    delays = np.where(np.isfinite(means), delays, math.inf)
    if scenario.labelled is not None:
        delays = np.where(scenario.labelled(stream, high, rng.random(count)), delays, math.inf)
    return Stream(at, positives, scores, delays, scenario.expired_are_negative)


class PlainProjection(Projection):
    """A projection without its backtest and limits, in a sixth of the time."""

    def _backtest(self, *_: object) -> tuple[()]:
        return ()

    def _limits(self, *_: object) -> None:
        return None


def project(stream: Stream) -> tuple[Projection, Projection, Evaluator]:
    """Return the projection of the last days, plain and whole, and all labels of these days.

    The effects of joining are made here, and counted in one column: ids would take longer.
    """
    settle = TTL_DAYS * DAY_US
    at_us = (stream.days * DAY_US).astype(np.int64)
    due = np.where(stream.delays < TTL_DAYS, stream.delays, 0)
    arrived = (stream.delays < TTL_DAYS) & (stream.days + due <= DAYS)
    expired = (stream.delays >= TTL_DAYS) & (stream.days + TTL_DAYS <= DAYS)
    expired &= stream.expired_are_negative
    labels = np.where(stream.positives, Effect.LABELLED_POSITIVE, Effect.LABELLED_NEGATIVE)
    rows = np.concatenate((np.arange(at_us.size), *map(np.flatnonzero, (arrived, expired))))
    kinds = np.concatenate(
        (
            np.full(at_us.size, Effect.PREDICTED),
            labels[arrived],
            np.full(int(expired.sum()), Effect.EXPIRED_NEGATIVE),
        )
    ).astype(np.uint8)
    happened = np.concatenate(
        (at_us, (at_us + due * DAY_US).astype(np.int64)[arrived], at_us[expired] + settle)
    )
    panes = DelayPanes(Grid.tiers_of(DAY_US, 2 * DAYS * DAY_US), "probability")
    panes.advance(DAYS * DAY_US)
    codes = np.zeros((rows.size, 0), dtype=np.uint16)
    panes.count(Effects(kinds, at_us[rows], happened, stream.scores[rows], codes))
    in_window = stream.days >= DAYS - WINDOW_DAYS
    span_us = ((DAYS - WINDOW_DAYS) * DAY_US, DAYS * DAY_US)
    known = in_window & (arrived | expired)
    now = Evaluator(resolution=12, scale="probability")
    now.add_cases(labels=(stream.positives & arrived)[known], scores=stream.scores[known])
    window = Window(now._view(), *span_us)
    whole = Evaluator()
    whole.add_cases(labels=stream.positives[in_window], scores=stream.scores[in_window])
    table, settle_us = LabelTable.of(panes), settle + DAY_US
    plain, full = (
        kind(LabelHistory(table, settle_us, panes.scale), window, span_us)
        for kind in (PlainProjection, Projection)
    )
    return plain, full, whole


@dataclass(frozen=True)
class Measured:
    """What one metric did in one stream: `plain` is without backtest and limits."""

    truth: float
    before: Interval
    plain: ProjectedFigure
    widened: ProjectedFigure | None

    @property
    def holds_plain(self) -> bool:
        """Whether the interval holds the truth before the backtest widens it."""
        return self.plain.interval is not None and self.truth in self.plain.interval

    @property
    def holds(self) -> bool:
        """Whether the interval holds the truth: a backtest can only widen it."""
        if self.holds_plain or self.widened is None:
            return self.holds_plain
        return self.truth in self.widened.interval


def measure(scenario: Scenario, streams: int, seed: int) -> list[list[Measured]]:
    """Return each metric of each stream of a scenario.

    Backtests and limits are made for the first streams, and wherever the plain interval
    misses the truth: elsewhere they would not change whether it holds.
    """
    found = []
    for index in range(streams):
        rng = np.random.default_rng([seed, SCENARIOS.index(scenario), index])
        plain, projection, whole = project(draw(scenario, rng))
        row = []
        for name, at_reference in METRICS:
            given = {"prevalence": PREVALENCE} if at_reference else {}
            case = Measured(
                truth=getattr(whole, name)(**given),
                before=projection.window.interval(name, **given),
                plain=plain.figure(name, **given),
                widened=None,
            )
            misses = case.plain.interval is not None and not case.holds_plain
            if misses or index < BACKTESTED_STREAMS:
                case = replace(case, widened=projection.figure(name, **given))
            row.append(case)
        found.append(row)
    return found


@dataclass(frozen=True)
class Summary:
    """One metric of all streams of a scenario; nan where no stream has a value.

    Attributes
    ----------
    bias_before, bias_after : float
    error_after : float
        The standard error of `bias_after`.
    held_before, held_plain, held_after : float
        Coverage of the nominal 95 % interval of the labels that are there, of the
        projected one before the backtest widens it, and as it is.
    width_before, width_plain : float
    needed : float
        2 x 1.96 standard deviations of the projected value about the truth.
    widening : float
        By how much the backtest widens the standard error, in the first streams.
    refused : float
        The share of streams without a projected value.
    limits : str
        Whether they held wherever they were made.
    reasons : tuple of str
    """

    bias_before: float
    bias_after: float
    error_after: float
    held_before: float
    held_plain: float
    held_after: float
    width_before: float
    width_plain: float
    needed: float
    widening: float
    refused: float
    limits: str
    reasons: tuple[str, ...]

    @classmethod
    def of(cls, cases: list[Measured]) -> Summary:
        """Return the summary of the streams."""
        seen = [case for case in cases if not math.isnan(case.plain.now)]
        sure = [case for case in seen if not math.isnan(case.before.lower)]
        answered = [case for case in cases if case.plain.interval is not None]
        backtested = [case.widened for case in cases[:BACKTESTED_STREAMS]]
        limited = [case for case in cases if case.widened is not None]
        errors = [case.plain.projected - case.truth for case in answered]
        return cls(
            bias_before=_mean([case.plain.now - case.truth for case in seen]),
            bias_after=_mean(errors),
            error_after=float(np.std(errors) / math.sqrt(len(errors))) if errors else math.nan,
            held_before=_mean([case.truth in case.before for case in sure]),
            held_plain=_mean([case.holds_plain for case in answered]),
            held_after=_mean([case.holds for case in answered]),
            width_before=_mean([case.before.width for case in sure]),
            width_plain=_median([case.plain.interval.width for case in answered]),
            needed=2 * 1.96 * float(np.std(errors)) if len(errors) > 1 else math.nan,
            widening=_mean([each.widening for each in backtested if each.interval is not None]),
            refused=1 - len(answered) / len(cases),
            limits="held" if all(_within_limits(case) for case in limited) else "BROKEN",
            reasons=tuple(sorted({case.plain.reason.name for case in cases if case.plain.reason})),
        )

    def missed_targets(self, *, refuses: bool) -> list[str]:
        """Return the targets that are missed, in words.

        A bias within two of its standard errors cannot be told from 0 and misses nothing,
        and where labels of one class alone are there no figure has a bias before.
        """
        if refuses:
            return [] if self.refused == 1 else ["answers"]
        missed = []
        if self.held_after < MIN_COVERAGE:
            missed.append("coverage")
        greatest = max(abs(self.bias_before) * MAX_BIAS_RATIO, 2 * self.error_after)
        if not math.isnan(self.bias_before) and abs(self.bias_after) > greatest:
            missed.append("bias")
        if self.width_plain > MAX_WIDTH_RATIO * self.needed:
            missed.append("width")
        return missed


def print_scenario(scenario: Scenario, found: list[list[Measured]]) -> None:
    """Print a line for each metric: what was measured, and the targets that are missed."""
    for place, (name, at_reference) in enumerate(METRICS):
        each = Summary.of([row[place] for row in found])
        missed = each.missed_targets(refuses=scenario.refuses)
        print(
            f"{scenario.name:<28} {name + (' @' if at_reference else ''):<19}"
            f"{each.bias_before:+7.3f} {each.bias_after:+7.3f} {each.error_after:6.4f} "
            f"{each.held_before:6.3f} {each.held_plain:6.3f} {each.held_after:6.3f} "
            f"{each.width_before:6.3f} {each.width_plain:6.3f} {each.needed:6.3f} "
            f"{each.widening:8.2f} "
            f"{each.refused:7.1%}  {each.limits:<6}  "
            f"{'not held: ' + ', '.join(missed) if missed else 'held'}  {', '.join(each.reasons)}"
        )


def _within_limits(case: Measured) -> bool:
    lower, upper = case.widened.limits
    return lower <= case.truth <= upper


def _median(values: list[float]) -> float:
    return float(np.median(values)) if values else math.nan


def _mean(values: list[float] | list[bool]) -> float:
    return float(np.mean(values)) if values else math.nan


def print_labels(streams: int, seed: int, only: str) -> None:
    """Measure the scenarios whose names have a part, and print a line for each metric."""
    print(
        f"{streams} streams a scenario; @: at the reference prevalence; error: the standard error "
        "of the bias after;\nplain: before the backtest widens the interval; widening and limits: "
        f"of the first {BACKTESTED_STREAMS} streams; needed: 2 x 1.96 deviations of "
        f"the error;\ntargets: coverage of {MIN_COVERAGE} where it answers, a bias of at most "
        f"{MAX_BIAS_RATIO} times that before,\nor within two standard errors of 0, and a median "
        f"width of at most {MAX_WIDTH_RATIO} times the needed;\nthe last three are refused"
    )
    print(
        f"{'':<47} {'bias':^22} {'coverage':^20} {'width':^20}\n{'labels':<28} {'metric':<19}"
        " before   after  error before  plain  after before  plain needed widening refused  limits"
        "  targets"
    )
    for scenario in SCENARIOS:
        if only in scenario.name:
            print_scenario(scenario, measure(scenario, streams, seed))
            sys.stdout.flush()
