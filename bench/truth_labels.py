"""Streams whose labels come late or are chosen, against the truth; a part of `truth.py`.

A stream has 1,000 predictions a day for 75 days, panes of a day, and is asked for its last
7 days. Its labels come after a delay; the truth is the figure of the window with the label
of each of its predictions. `before` is the figure of the labels that are there, `after` the
projected one. Constants were tuned with other seeds.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streameval import Evaluator, Window
from streameval._projection.delay_panes import DelayPanes
from streameval._projection.label_table import LabelTable
from streameval._projection.projection import Projection
from streameval._time.effects import Effect, Effects
from streameval._time.panes import tiers_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from streameval import ProjectedFigure

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
    """How labels come: the mean delay of each prediction in days, and which are labelled."""

    name: str
    mean_delays: Callable[[Stream, BoolColumn], FloatColumn]
    labelled: Callable[[Stream, BoolColumn, FloatColumn], BoolColumn] | None = None
    decays: bool = False
    expired_are_negative: bool = False


def days(of_positive: float, of_negative: float) -> Callable[[Stream, BoolColumn], FloatColumn]:
    """Return mean delays by class."""
    return lambda stream, _: np.where(stream.positives, of_positive, of_negative)


def days_by_score(high: float, low: float) -> Callable[[Stream, BoolColumn], FloatColumn]:
    """Return mean delays by whether the score is in the highest tenth."""
    return lambda _, high_score: np.where(high_score, high, low)


def doubled(stream: Stream, _: BoolColumn) -> FloatColumn:
    """Return mean delays that double in the window."""
    means = np.where(stream.positives, 5.0, 1.0)
    return np.where(stream.days > DAYS - WINDOW_DAYS, 2 * means, means)


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
    Scenario("delays doubled", doubled),
    Scenario("high scores never labelled", days(2, 2), labelled=lambda _, high, __: ~high),
    Scenario(
        "complaints only",
        days(4, 4),
        labelled=lambda stream, _, __: stream.positives,
    ),
)


def draw(scenario: Scenario, rng: np.random.Generator) -> Stream:
    """Return one stream. Scores are probabilities of a model that was right at first."""
    count = PREDICTIONS_PER_DAY * DAYS
    at = rng.random(count) * DAYS
    positives = rng.random(count) < PREVALENCE
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


def project(stream: Stream) -> tuple[Projection, Evaluator]:
    """Return the projection of the last days, and an evaluator with all labels of theirs.

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
    panes = DelayPanes(tiers_of(DAY_US, 2 * DAYS * DAY_US), "probability")
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
    return Projection(LabelTable.of(panes), window, span_us, settle + DAY_US), whole


@dataclass
class Measured:
    """What one metric did in one stream."""

    truth: float
    before: float
    figure: ProjectedFigure


def measure(scenario: Scenario, streams: int, seed: int) -> list[list[Measured]]:
    """Return each metric of each stream of a scenario."""
    found = []
    for index in range(streams):
        rng = np.random.default_rng([seed, SCENARIOS.index(scenario), index])
        projection, whole = project(draw(scenario, rng))
        row = []
        for name, at_reference in METRICS:
            prevalence = PREVALENCE if at_reference else None
            figure = projection.figure(name, prevalence=prevalence)
            arguments = {} if prevalence is None else {"prevalence": prevalence}
            row.append(Measured(getattr(whole, name)(**arguments), figure.now, figure))
        found.append(row)
    return found


def print_scenario(scenario: Scenario, found: list[list[Measured]]) -> None:
    """Print a line for each metric: bias before and after, coverage, refusals, width."""
    for place, (name, at_reference) in enumerate(METRICS):
        cases = [row[place] for row in found]
        answered = [case for case in cases if case.figure.interval is not None]
        differences = [case.before - case.truth for case in cases]
        known = [each for each in differences if not math.isnan(each)]
        before = np.mean(known) if known else math.nan
        held = all(_holds(case.figure.limits, case.truth) for case in cases)
        reasons = {case.figure.reason.name for case in cases if case.figure.reason is not None}
        line = f"{scenario.name:<28} {name + (' @' if at_reference else ''):<20} {before:+.3f}"
        if answered:
            after = np.mean([case.figure.projected - case.truth for case in answered])
            plain = np.mean([_holds(_plain(case.figure), case.truth) for case in answered])
            cover = np.mean([case.truth in case.figure.interval for case in answered])
            width = np.mean([case.figure.interval.width for case in answered])
            line += f" {after:+.3f}  {plain:.3f} {cover:.3f}  {width:.3f}"
        else:
            line += " " * 29
        refused = 1 - len(answered) / len(cases)
        print(
            f"{line}  {refused:6.1%}  {'held' if held else 'BROKEN'}  {', '.join(sorted(reasons))}"
        )


def _plain(figure: ProjectedFigure) -> tuple[float, float]:
    """Return the interval as if the backtest had not widened it, about."""
    low, high = figure.interval
    middle = figure.projected
    return middle - (middle - low) / figure.widening, middle + (high - middle) / figure.widening


def _holds(limits: tuple[float, float], value: float) -> bool:
    return limits[0] <= value <= limits[1]


def print_labels(streams: int, seed: int, only: str) -> None:
    """Measure the scenarios whose names have a part, and print a line for each metric."""
    print("@: at the reference prevalence. plain: coverage before the backtest widens.")
    header = f"{'labels':<28} {'metric':<20} before  after  plain  cover  width  refused  limits"
    print(header)
    for scenario in SCENARIOS:
        if only in scenario.name:
            start = time.perf_counter()
            print_scenario(scenario, measure(scenario, streams, seed))
            print(f"    {(time.perf_counter() - start) / streams:.2f} s a stream", flush=True)
