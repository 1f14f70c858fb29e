"""Streams with late or chosen labels, through the public joiner."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from streameval import Evaluator, LabelJoiner, WindowedEvaluator

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from streameval import Window

    Column = npt.NDArray[np.float64]
    Mask = npt.NDArray[np.bool_]

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
DAYS, TTL_DAYS, WINDOW_DAYS = 30, 8, 4


class Drawn(NamedTuple):
    """A stream at its end: the joiner, its window, and the window with all labels."""

    joiner: LabelJoiner
    window: Window
    whole: Evaluator


def at_day(day: float) -> datetime:
    """Return the time of a day of the stream."""
    return START + day * DAY


def draw(
    seed: int,
    *,
    days_of_positive: float = 3.0,
    days_of_negative: float = 0.5,
    per_day: int = 400,
    prevalence: float = 0.2,
    labelled: Callable[[Column, Mask], Mask] | None = None,
    slower: float = 1.0,
    expired: Literal["drop", "negative"] = "drop",
    keep_delays: bool = True,
) -> Drawn:
    """Return a stream of 30 days; delays in its last days are `slower` times as long."""
    rng = np.random.default_rng(seed)
    count = per_day * DAYS
    made = np.sort(rng.random(count)) * DAYS
    positives = rng.random(count) < prevalence
    signal = rng.standard_normal(count) + 1.8 * positives
    scores = 1 / (1 + np.exp(-signal))
    mean = np.where(positives, days_of_positive, days_of_negative)
    mean = np.where(made > DAYS - WINDOW_DAYS, slower, 1.0) * mean
    delays = -mean * np.log1p(rng.random(count) * np.expm1(-TTL_DAYS / mean))
    given = np.ones(count, dtype=bool) if labelled is None else labelled(scores, positives)
    evaluator = WindowedEvaluator(pane=DAY, retention=90 * DAY, scale="probability")
    joiner = LabelJoiner(
        evaluator,
        ttl=TTL_DAYS * DAY,
        relabel_ttl=timedelta(hours=6),
        expired=expired,
        keep_delays=keep_delays,
    )
    ids = np.array([f"{number}" for number in range(count)])
    day_of = made.astype(np.int64)
    known = made + delays
    origin = np.datetime64(START.replace(tzinfo=None), "us")

    def moments(days: Column) -> npt.NDArray[np.datetime64]:
        return origin + (days * 86_400e6).astype("timedelta64[us]")

    # A step of a twelfth of a day: labels come after the predictions of their step.
    for step in range(DAYS * 12):
        here = (made >= step / 12) & (made < (step + 1) / 12)
        joiner.log_cases(ids=ids[here].tolist(), scores=scores[here], at=moments(made[here]))
        due = given & (known >= step / 12) & (known < (step + 1) / 12)
        order = np.flatnonzero(due)[np.argsort(known[due])]
        joiner.label_cases(
            ids=ids[order].tolist(), labels=positives[order], at=moments(known[order])
        )
    joiner.advance(at_day(DAYS))
    whole = Evaluator()
    inside = day_of >= DAYS - WINDOW_DAYS
    whole.add_cases(labels=positives[inside], scores=scores[inside])
    window = evaluator.between(at_day(DAYS - WINDOW_DAYS), at_day(DAYS))
    return Drawn(joiner, window, whole)
