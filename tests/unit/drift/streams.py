"""Streams for the tests of alarms: scores are probabilities that are right until a change."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from streameval import DriftDetector, Evaluator

START = datetime(2026, 3, 1, tzinfo=UTC)
YEAR = timedelta(days=365)
PREVALENCE = 0.2


class Columns(NamedTuple):
    """Cases in the order of time."""

    labels: np.ndarray
    scores: np.ndarray
    at: np.ndarray


def cases(
    seed: int,
    hours: float,
    *,
    distance: float = 2.0,
    prevalence: float = PREVALENCE,
    shift: float = 0.0,
    an_hour: int = 100,
    after: float = 0.0,
) -> Columns:
    """Return cases of some hours; the model is right about a distance of 2."""
    rng = np.random.default_rng(seed)
    size = round(hours * an_hour)
    labels = rng.random(size) < prevalence
    values = rng.normal(size=size) + distance * labels
    logit = 2 * values - 2 + math.log(PREVALENCE / (1 - PREVALENCE)) + shift
    times = np.sort(rng.integers(round(after * 3600), round((after + hours) * 3600), size))
    start = np.datetime64(START.replace(tzinfo=None), "us")
    return Columns(labels, 1 / (1 + np.exp(-logit)), start + times.astype("timedelta64[s]"))


@cache
def reference(seed: int = 1, hours: float = 168) -> Evaluator:
    """Return a week without a change."""
    made = Evaluator(resolution=12, scale="probability")
    columns = cases(seed, hours)
    made.add_cases(labels=columns.labels, scores=columns.scores)
    return made


def detector(watch: Any = ("ranking",), **options: Any) -> DriftDetector:
    """Return a detector of the reference week."""
    settings: dict[str, Any] = {
        "tolerance": 0.01,
        "mean_time_to_false_alarm": YEAR,
        "pane": timedelta(minutes=10),
    }
    return DriftDetector(reference(), watch=watch, **(settings | options))


def feed(made: DriftDetector, columns: Columns, **options: Any) -> None:
    """Add cases with their labels."""
    made.add_cases(labels=columns.labels, scores=columns.scores, at=columns.at, **options)
