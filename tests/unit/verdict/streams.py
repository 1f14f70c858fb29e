"""Panes of streams whose level is known."""

from __future__ import annotations

from datetime import timedelta

import numpy as np

from streameval import Evaluator, WindowedEvaluator
from streameval._counts.merge import merge_states
from streameval._verdict.base import BaseSpan, in_cells
from streameval._verdict.evidence import Evidence
from streameval._verdict.evidence_base import Pane

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
START_US = 1_767_571_200_000_000  # 2026-01-05, a Monday


def columns(seed: int, days: int, rate: int = 40, **given: float):
    """Return labels, scores and times of `rate` cases an hour.

    `distance` of the classes and `prevalence` become `distance_then` and `prevalence_then`
    after `day` days.
    """
    rng = np.random.default_rng(seed)
    size = days * 24 * rate
    hours = np.sort(rng.random(size) * days * 24)
    is_then = hours >= 24 * given.get("day", 1e9)
    distance, prevalence = given.get("distance", 2.0), given.get("prevalence", 0.1)
    labels = rng.random(size) < np.where(
        is_then, given.get("prevalence_then", prevalence), prevalence
    )
    moved = np.where(is_then, given.get("distance_then", distance), distance)
    logits = 2 * (moved * labels + rng.normal(size=size)) - 4
    times = np.datetime64(START_US, "us") + (hours * HOUR_US).astype("timedelta64[us]")
    return labels, 1 / (1 + np.exp(-logits)), times


def windowed(seed: int, days: int, rate: int = 40, **given: float) -> WindowedEvaluator:
    """Return an evaluator of these columns, with panes of ten minutes."""
    labels, scores, times = columns(seed, days, rate, **given)
    ev = WindowedEvaluator(
        pane=timedelta(minutes=10), retention=timedelta(days=120), scale="probability"
    )
    ev.add_cases(labels=labels, scores=scores, at=times)
    ev.advance(np.datetime64(START_US + days * DAY_US, "us"))
    return ev


def panes_of(ev: WindowedEvaluator) -> list[Pane]:
    return [Pane(each.start_us, each.end_us, each.content._view()) for each in ev._panes]


def hourly(
    seed: int, days: int, rate: int = 40, *, width_us: int = HOUR_US, **given: float
) -> list[Pane]:
    """Return the panes of an hour each, as a stream has them that is observed as it runs."""
    labels, scores, times = columns(seed, days, rate, **given)
    numbers = (times.astype(np.int64) - START_US) // width_us
    found = []
    for number in range(days * DAY_US // width_us):
        here = slice(*np.searchsorted(numbers, (number, number + 1)))
        ev = Evaluator(resolution=12, scale="probability")
        ev.add_cases(labels=labels[here], scores=scores[here])
        start_us = START_US + number * width_us
        found.append(Pane(start_us, start_us + width_us, ev._view()))
    return found


def begun(panes: list[Pane], days: int = 7, pane_us: int = HOUR_US) -> Evidence:
    """Return the evidence of a stream whose base is its first days."""
    end_us = START_US + days * DAY_US
    inside = [each for each in panes if each.end_us <= end_us]
    counts = in_cells(merge_states([each.state for each in inside], revision=0))
    return Evidence.begin(BaseSpan(START_US, end_us, counts), inside, pane_us)
