"""Streams with late or chosen labels: as effects at once, or through the public joiner."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streameval import Evaluator, LabelJoiner, Projection, Window, WindowedEvaluator
from streameval._projection.delay_panes import DelayPanes
from streameval._projection.label_table import LabelTable
from streameval._time.times import to_us
from streameval.kernel import Effect, Effects, Grid
from streameval.statistics import LabelHistory

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Column = npt.NDArray[np.float64]
    Mask = npt.NDArray[np.bool_]

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
DAY_US = 86_400_000_000
DAYS, TTL_DAYS, WINDOW_DAYS = 30, 8, 4


class Drawn(NamedTuple):
    """A stream at its end: the projection of its last days, and these with all labels."""

    projection: Projection
    whole: Evaluator


class Rows(NamedTuple):
    """Predictions in order of time, in days, with the delays of labels; inf for none."""

    made: Column
    positives: Mask
    scores: Column
    delays: Column


def at_day(day: float) -> datetime:
    """Return the time of a day of the stream."""
    return START + day * DAY


def rows(
    seed: int,
    *,
    days_of_positive: float = 3.0,
    days_of_negative: float = 0.5,
    per_day: int = 400,
    labelled: Callable[[Column, Mask], Mask] | None = None,
    slower: float = 1.0,
) -> Rows:
    """Return 30 days; delays of the last ones' positives are `slower` times as long."""
    rng = np.random.default_rng(seed)
    count = per_day * DAYS
    made = np.sort(rng.random(count)) * DAYS
    positives = rng.random(count) < 0.2
    scores = 1 / (1 + np.exp(-rng.standard_normal(count) - 1.8 * positives))
    mean = np.where(positives, days_of_positive, days_of_negative)
    mean = np.where(positives & (made > DAYS - WINDOW_DAYS), slower, 1.0) * mean
    delays = -mean * np.log1p(rng.random(count) * np.expm1(-TTL_DAYS / mean))
    given = np.ones(count, dtype=bool) if labelled is None else labelled(scores, positives)
    return Rows(made, positives, scores, np.where(given, delays, np.inf))


def draw(
    seed: int, *, expired: bool = False, first_day: float = DAYS - WINDOW_DAYS, **shape: object
) -> Drawn:
    """Return the projection of WINDOW_DAYS from `first_day` on, of the effects of `rows`.

    `expired` tells whether a prediction that expires is a negative.
    """
    made, positives, scores, delays = rows(seed, **shape)
    event_us = to_us(START) + (made * DAY_US).astype(np.int64)
    known = np.where(np.isfinite(delays), made + delays, np.inf)
    arrived, lapsed = known <= DAYS, (made + TTL_DAYS <= DAYS) & np.isinf(delays) & expired
    kinds = np.where(positives, Effect.LABELLED_POSITIVE, Effect.LABELLED_NEGATIVE)
    kinds = np.where(lapsed, Effect.EXPIRED_NEGATIVE, kinds)
    there = np.flatnonzero(arrived | lapsed)
    label_us = event_us + (np.where(arrived, delays, TTL_DAYS) * DAY_US).astype(np.int64)
    panes = DelayPanes(Grid.tiers_of(DAY_US, 90 * DAY_US), "probability")
    panes.advance(to_us(at_day(DAYS)))
    panes.count(
        Effects(
            np.concatenate((np.full(made.size, Effect.PREDICTED), kinds[there])).astype(np.uint8),
            np.concatenate((event_us, event_us[there])),
            np.concatenate((event_us, label_us[there])),
            np.concatenate((scores, scores[there])),
            np.zeros((made.size + there.size, 0), dtype=np.uint16),
        )
    )
    inside = (made >= first_day) & (made < first_day + WINDOW_DAYS)
    now, whole = Evaluator(resolution=12, scale="probability"), Evaluator()
    known_inside = inside & (arrived | lapsed)
    now.add_cases(labels=(positives & arrived)[known_inside], scores=scores[known_inside])
    whole.add_cases(labels=positives[inside], scores=scores[inside])
    span_us = (to_us(at_day(first_day)), to_us(at_day(first_day + WINDOW_DAYS)))
    history = LabelHistory(LabelTable.of(panes), TTL_DAYS * DAY_US, "probability")
    return Drawn(Projection(history, Window(now._view(), *span_us), span_us), whole)


def joined(seed: int, *, per_day: int, keep_delays: bool = True) -> tuple[LabelJoiner, Window]:
    """Return a joiner of the rows, a quarter of a day a call, and the last days' window."""
    made, positives, scores, delays = rows(seed, per_day=per_day)
    evaluator = WindowedEvaluator(pane=DAY, retention=90 * DAY, scale="probability")
    joiner = LabelJoiner(
        evaluator, ttl=TTL_DAYS * DAY, relabel_ttl=TTL_DAYS * DAY, keep_delays=keep_delays
    )
    known = made + delays
    for step in range(DAYS * 4):
        at = at_day((step + 1) / 4)
        here = np.flatnonzero((made >= step / 4) & (made < (step + 1) / 4))
        due = np.flatnonzero((known >= step / 4) & (known < (step + 1) / 4))
        moments = [at_day(each) for each in made[here].tolist()]
        joiner.log_cases(ids=[f"{each}" for each in here], scores=scores[here], at=moments)
        joiner.label_cases(ids=[f"{each}" for each in due], labels=positives[due], at=at)
    return joiner, evaluator.between(at_day(DAYS - WINDOW_DAYS), at_day(DAYS))
