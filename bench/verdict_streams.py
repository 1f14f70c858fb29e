"""Simulated streams for bench/verdict.py, and the evidence of many of them in arrays.

Scores are the middles of 200 cells: negatives are N(0, 1), positives N(d, 1). A stream has a base
of whole weeks, and then steps, whose sums by side are what its evidence is made of. Rows are drawn
one by one, because bursts, cycles and late labels are of rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
from alarms_streams import Lanes
from scipy import stats

from streameval import Evaluator
from streameval._counts.groups import Groups
from streameval._drift.watches import UNITS
from streameval._metrics.pr_areas import auc_pr_value
from streameval._verdict.base import BaseSpan, in_cells
from streameval._verdict.evidence import Evidence
from streameval._verdict.evidence_base import CALLS, Pane
from streameval._verdict.level_sums import Level

Rng = np.random.Generator

START = datetime(2026, 1, 5, tzinfo=UTC)
START_US = int(START.timestamp()) * 1_000_000
HOUR_US = 3_600_000_000
DAY = 24
WEEK = 7 * DAY
PREVALENCE = 0.2
APART = 2.0
EDGES = np.linspace(-4.5, 7.0, 199)
MIDDLES = np.concatenate((EDGES[:1] - 0.03, (EDGES[1:] + EDGES[:-1]) / 2, EDGES[-1:] + 0.03))
NUM_CELLS = MIDDLES.size
WORSE = [CALLS.index("ranking_worse"), CALLS.index("auc_roc_worse")]
NUM_SIDES = 2 * len(CALLS)
DELAYS = (2.0, 16.0)
"""Mean hours of a negative's and a positive's label, where labels are late."""


@dataclass(frozen=True)
class Traffic:
    """How cases of a stream come, and how well the model tells them apart.

    Attributes
    ----------
    positives : float
        An hour, on average.
    burst : int
        Rows that come together, share half of their scores' variance, and have labels alike.
    daily, weekly : float
        By how much the distance d goes up and down.
    moving : float
        By which part the prevalence goes up and down in ten days.
    is_late : bool
        Whether labels come late by class: a step is read when nine tenths of each class's are in.
    walk : float
        The standard deviation of a distance that wanders with a correlation time of two days.
    drop : float
        The distance after the change; `APART` where there is none.
    ramp : float
        Hours that the change takes.
    share : float
        The share of the rows, of one country, that change.
    """

    positives: float
    burst: int = 1
    daily: float = 0.0
    weekly: float = 0.0
    moving: float = 0.0
    is_late: bool = False
    walk: float = 0.0
    drop: float = APART
    ramp: float = 0.0
    share: float = 1.0


@dataclass(frozen=True)
class Rows:
    """Rows of some hours: when, in hours, the label and the cell of each."""

    hours: np.ndarray
    labels: np.ndarray
    cells: np.ndarray

    def by_step(self, first: float, step: float, number: int) -> np.ndarray:
        """Return how many there are of each step, class and cell: int64[steps, 2, cells]."""
        place = ((self.hours - first) / step).astype(np.int64)
        keys = (place * 2 + self.labels) * NUM_CELLS + self.cells
        counts = np.bincount(keys, minlength=number * 2 * NUM_CELLS)
        return counts.reshape(number, 2, NUM_CELLS)


def rows_of(
    traffic: Traffic, rng: Rng, first: float, hours: float, *, change: float = math.inf
) -> Rows:
    """Return the rows of some hours; from `change` on the distance is another one."""
    each = traffic.positives / PREVALENCE / traffic.burst
    number = rng.poisson(each * hours)
    at = first + hours * rng.random(number)
    phase = 2 * np.pi * at / DAY
    chance = PREVALENCE * (1 + traffic.moving * np.sin(phase / 10))
    if traffic.burst > 1:
        chance = rng.beta(4 * chance, 4 * (1 - chance))
    apart = np.full(number, APART) + traffic.daily * np.sin(phase)
    apart += traffic.weekly * np.sin(phase / 7)
    if traffic.walk:
        apart += traffic.walk * wandering(rng, at, first, hours)
    if traffic.drop != APART:
        share = np.clip((at - change) / max(traffic.ramp, 1e-9), 0, 1)
        if traffic.share < 1:
            share *= rng.random(number) < traffic.share
        apart += share * (traffic.drop - APART)
    shared = rng.normal(size=number)
    at, chance, apart, shared = (
        np.repeat(column, traffic.burst) for column in (at, chance, apart, shared)
    )
    labels = rng.random(at.size) < chance
    noise = rng.normal(size=at.size)
    if traffic.burst > 1:
        noise = (noise + shared) / math.sqrt(2)
    return Rows(at, labels, np.searchsorted(EDGES, noise + apart * labels, side="right"))


def wandering(rng: Rng, at: np.ndarray, first: float, hours: float) -> np.ndarray:
    """Return a stationary walk of unit variance with a correlation time of two days."""
    size, kept = int(hours) + 2, math.exp(-1 / 48)
    steps = rng.normal(size=size)
    for hour in range(1, size):
        steps[hour] = kept * steps[hour - 1] + math.sqrt(1 - kept**2) * steps[hour]
    found: np.ndarray = np.interp(at - first, np.arange(size), steps)
    return found


def waiting_hours(traffic: Traffic) -> float:
    """Return after how many hours nine tenths of each class's labels are in; 0 if none is late."""
    return -max(DELAYS) * math.log(0.1) if traffic.is_late else 0.0


def in_time(traffic: Traffic, rng: Rng, rows: Rows, step: float) -> Rows:
    """Return the rows whose label has come when their step is read."""
    if not traffic.is_late:
        return rows
    read = (np.floor(rows.hours / step) + 1) * step + waiting_hours(traffic)
    delays = rng.exponential(np.where(rows.labels, DELAYS[1], DELAYS[0]))
    chosen = rows.hours + delays <= read
    return Rows(rows.hours[chosen], rows.labels[chosen], rows.cells[chosen])


def evaluator_of(counts: np.ndarray) -> Evaluator:
    """Return an evaluator of cases by class and cell."""
    ev = Evaluator()
    ev.add_cases(**cases_of(counts))
    return ev


def cases_of(counts: np.ndarray) -> dict[str, np.ndarray]:
    """Return the labels and scores of cases by class and cell."""
    scores = [np.repeat(MIDDLES, each) for each in counts]
    labels = np.repeat([False, True], counts.sum(axis=1))
    return {"labels": labels, "scores": np.concatenate(scores)}


def evidence_of(traffic: Traffic, rng: Rng, *, weeks: int = 1) -> tuple[Evidence, np.ndarray]:
    """Return the evidence of a stream at the end of its base, at hour 0, and its hours' counts."""
    rows = rows_of(traffic, rng, -weeks * WEEK, weeks * WEEK)
    pane = pane_hours(traffic)
    counts = rows.by_step(-weeks * WEEK, 1.0, weeks * WEEK)
    start_us = START_US - weeks * WEEK * HOUR_US
    panes = [
        Pane(start_us + hour * HOUR_US, start_us + (hour + 1) * HOUR_US, evaluator_of(each)._view())
        for hour, each in enumerate(counts)
    ]
    whole = in_cells(evaluator_of(counts.sum(axis=0))._view())
    evidence = Evidence.begin(BaseSpan(start_us, START_US, whole), panes, int(pane * HOUR_US))
    return evidence, counts


def pane_hours(traffic: Traffic) -> float:
    """Return the pane of a stream: as long as ten positives take, at most an hour."""
    return next((each for each in (1 / 60, 1 / 12, 1 / 2) if traffic.positives * each > 11), 1.0)


class SideSums:
    """The sums of a stream's steps by side, as its evidence makes them."""

    def __init__(self, evidence: Evidence) -> None:
        tables, bands = evidence.frozen.bands.tables, evidence.frozen.bands.of(MIDDLES)
        self._stretch = float(evidence.stretch[0])
        values = {key: table.astype(np.int64)[bands] for key, table in tables.items()}
        self.positive = values["positives", "precision"], values["positives", "rank"]
        self.negative = values["negatives", "loss"], values["negatives", "rank"]
        self.ranks = values["predictions", "rank"]

    def of(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return sums and numbers of rows, [sides, steps] each, of counts by step."""
        negatives, positives = counts[:, 0], counts[:, 1]
        N, P = negatives.sum(axis=1), positives.sum(axis=1)
        sums, rows = np.zeros((2, NUM_SIDES, len(counts)), dtype=np.int64)
        for place in range(2):
            worse, better = slice(2 * place, 2 * place + 2), slice(2 * place + 4, 2 * place + 6)
            sums[worse] = positives @ self.positive[place], negatives @ self.negative[place]
            rows[worse] = rows[better] = P, N
            sums[better] = rows[better] * UNITS - sums[worse]
        sums[8] = (positives + negatives) @ self.ranks
        whole = (P + N) * UNITS
        sums[10] = np.minimum(np.rint(P * UNITS * self._stretch).astype(np.int64), whole)
        sums[[9, 11]] = whole - sums[[8, 10]]
        rows[8:12] = P + N
        return sums, rows

    def levels(self, counts: np.ndarray) -> list[Level]:
        """Return what the search reads of each step."""
        negatives, positives = counts[:, 0], counts[:, 1]
        by, other = self.positive[1], self.negative[1]
        columns = (
            positives.sum(axis=1),
            negatives.sum(axis=1),
            0 * positives.sum(axis=1),
            0 * positives.sum(axis=1),
            positives @ by,
            negatives @ other,
            (positives + negatives) @ self.ranks,
            positives @ by**2,
            negatives @ other**2,
        )
        return [Level(*each) for each in zip(*(column.tolist() for column in columns), strict=True)]


def lanes_of(streams: list[Evidence]) -> Lanes:
    """Return the evidence of streams with steps of one length in arrays."""
    thetas = np.array([each.frozen.thetas[0] for each in streams]).T
    mean_panes = streams[0].processes.mean_panes
    return Lanes(thetas, [slice(2 * each, 2 * each + 2) for each in range(len(CALLS))], mean_panes)


def cell_shares(mean: float) -> np.ndarray:
    """Return the probability of each cell where scores are N(mean, 1)."""
    below = np.concatenate(([0.0], stats.norm.cdf(EDGES - mean), [1.0]))
    return np.diff(below)


def mixture_auc_pr(shares: np.ndarray, prevalence: float) -> float:
    """Return the AUC-PR of a population with these shares by class and cell."""
    counts = np.rint(shares / shares.sum() * 1e12).astype(np.int64)[:, ::-1]
    groups = Groups.of_cells(MIDDLES[::-1], counts[1], counts[0])
    chosen = counts[1] > 0
    columns = {name: getattr(groups, name)[chosen] for name in ("scores", "p", "n", "tp", "fp")}
    return auc_pr_value(replace(groups, **columns), prevalence=prevalence)


def population_auc_pr(distances: list[tuple[float, float]], prevalence: float) -> float:
    """Return the AUC-PR of a population at a prevalence.

    `distances` are equally frequent; of each, the share of the cases that have it, while the
    others have `APART`.
    """
    positive = np.mean(
        [share * cell_shares(each) + (1 - share) * cell_shares(APART) for each, share in distances],
        axis=0,
    )
    return mixture_auc_pr(np.stack((cell_shares(0.0), positive)), prevalence)
