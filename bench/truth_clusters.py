"""Coverage and width where cases come in bursts, or several of one user, with and without clusters.

A part of bench/truth.py. Truths are known by integration (bench/populations.py): the scores
of a cluster share a shift, and its labels a prevalence, whose means are the population's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from populations import Population
from scipy import stats

from streameval import Evaluator, WindowedEvaluator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval import Interval

Rng = np.random.Generator

NAMES = ("auc_roc", "average_precision", "auc_pr")
START = datetime(2026, 1, 1, tzinfo=UTC)

PREVALENCE = 0.1
PANES = 30


@dataclass(frozen=True)
class ClusterScenario:
    """How cases depend on one another.

    Attributes
    ----------
    name : str
    rows : int
        Cases of one cluster.
    is_burst : bool
        Whether a cluster's cases follow one another, or are spread over all panes.
    shared : float
        The part of a score's variance that a cluster's cases share.
    sameness : float
        How alike the labels of a cluster are: its own prevalence is Beta distributed with
        the mean `PREVALENCE` and the sum of parameters 1/sameness - 1.
    distance : float
        Of the two classes' means, in standard deviations.
    """

    name: str
    rows: int
    is_burst: bool
    shared: float
    sameness: float
    distance: float = 2.0


CLUSTER_SCENARIOS = (
    ClusterScenario("independent", rows=1, is_burst=False, shared=0.0, sameness=0.0),
    ClusterScenario("bursts of 5", rows=5, is_burst=True, shared=0.5, sameness=0.2),
    ClusterScenario("bursts of 20", rows=20, is_burst=True, shared=0.5, sameness=0.2),
    ClusterScenario("users of 5", rows=5, is_burst=False, shared=0.5, sameness=0.2),
    ClusterScenario("users of 20", rows=20, is_burst=False, shared=0.5, sameness=0.2),
    ClusterScenario("users of 20, d = 1", 20, is_burst=False, shared=0.5, sameness=0.2, distance=1),
    ClusterScenario("bursts of 20, alike", rows=20, is_burst=True, shared=0.3, sameness=0.6),
)
POSITIVES = (50, 100, 200, 1_000)


@dataclass(frozen=True)
class Held:
    """One interval of one stream."""

    interval: Interval
    truth: float

    @property
    def holds(self) -> bool:
        """Whether the interval has limits and holds the true value."""
        return self.truth in self.interval


def clustered_cases(
    scenario: ClusterScenario, positives: int, rng: Rng
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return labels, scores, clusters and panes of about this many positives."""
    size = round(positives / PREVALENCE)
    clusters = np.arange(size) // scenario.rows
    count = int(clusters[-1]) + 1
    prevalence = np.full(count, PREVALENCE)
    if scenario.sameness:
        weight = 1 / scenario.sameness - 1
        prevalence = rng.beta(PREVALENCE * weight, (1 - PREVALENCE) * weight, count)
    labels = rng.random(size) < prevalence[clusters]
    shift = math.sqrt(scenario.shared) * rng.normal(size=count)
    own = math.sqrt(1 - scenario.shared) * rng.normal(size=size)
    panes = np.arange(size) * PANES // size
    if not scenario.is_burst:
        rng.shuffle(panes)
    return labels, scenario.distance * labels + shift[clusters] + own, clusters, panes


@cache
def true_values(distance: float) -> dict[str, float]:
    """Return the metrics of the whole population."""
    population = Population("", stats.norm(distance, 1), stats.norm())
    return {name: population.truth(name, PREVALENCE) for name in NAMES}


def cluster_streams(
    scenario: ClusterScenario, positives: int, streams: int, seed: int, groups: int
) -> Iterator[dict[str, tuple[Held, Held]]]:
    """Yield each metric's interval without and with clusters, of one stream after another."""
    truths = true_values(scenario.distance)
    place = CLUSTER_SCENARIOS.index(scenario)
    rng = np.random.default_rng([seed, place, positives])
    for _ in range(streams):
        labels, scores, clusters, panes = clustered_cases(scenario, positives, rng)
        keys = clusters + int(rng.integers(1 << 40))
        times = np.datetime64(START.replace(tzinfo=None), "us") + panes.astype("timedelta64[m]")
        windowed, after = WindowedEvaluator(), Evaluator(cluster_groups=groups)
        windowed.add_cases(labels=labels, scores=scores, at=times)
        after.add_cases(labels=labels, scores=scores, clusters=keys)
        before = windowed.last(timedelta(hours=2))
        yield {
            name: tuple(Held(each.interval(name), truths[name]) for each in (before, after))
            for name in NAMES
        }


MIN_COVERAGE = 0.92
MIN_POSITIVES = 100
"""From which on clusters must reach `MIN_COVERAGE`."""
MAX_COVERAGE_CHANGE = 0.01
MAX_WIDTH_RATIO = 1.05
"""Of intervals of independent cases, with clusters declared and without."""


@dataclass(frozen=True)
class ClusterSummary:
    """One metric of all streams of a cell.

    Attributes
    ----------
    held_before, held_after : float
        Coverage without and with clusters.
    width_ratio : float
        Mean width with clusters over that without.
    effect : float
        The median design effect.
    warned : float
        The share of streams with a warning where no clusters are declared.
    """

    held_before: float
    held_after: float
    width_ratio: float
    effect: float
    warned: float

    @classmethod
    def of(cls, before: list[Held], after: list[Held]) -> ClusterSummary:
        """Return the summary of the intervals without and with clusters."""
        widths = [np.nanmean([each.interval.width for each in part]) for part in (before, after)]
        return cls(
            held_before=float(np.mean([each.holds for each in before])),
            held_after=float(np.mean([each.holds for each in after])),
            width_ratio=float(widths[1] / widths[0]),
            effect=float(np.nanmedian([each.interval.design_effect for each in after])),
            warned=float(np.mean([each.interval.warning is not None for each in before])),
        )

    def missed_targets(self, scenario: ClusterScenario, positives: int) -> list[str]:
        """Return the targets that are not held, in words."""
        if scenario.rows == 1:
            change = abs(self.held_after - self.held_before)
            return [
                *(["coverage"] if change > MAX_COVERAGE_CHANGE else []),
                *(["width"] if self.width_ratio > MAX_WIDTH_RATIO else []),
            ]
        is_low = positives >= MIN_POSITIVES and self.held_after < MIN_COVERAGE
        return ["coverage"] if is_low else []

    def __str__(self) -> str:
        """Return the figures in the order of the table's columns."""
        return (
            f"{self.held_before:.3f} {self.held_after:.3f} {self.width_ratio:5.2f} "
            f"{self.effect:5.2f} {self.warned:5.2f}"
        )


def print_clusters(streams: int, seed: int, only: str, groups: int) -> None:
    """Print coverage and width before and after, what the panes alone show, and the targets."""
    print(
        f"nominal 95 % intervals of {streams} streams a cell, {groups} groups: coverage without "
        "and with\nclusters, width with to without, median design effect, and the share of "
        "streams with a warning\nwhere no clusters are declared; targets: coverage with clusters "
        f"of {MIN_COVERAGE} from {MIN_POSITIVES} positives on;\nof independent cases a coverage "
        f"within {MAX_COVERAGE_CHANGE} of that without, and {MAX_WIDTH_RATIO} times the width"
    )
    names = "".join(f"{name:>32}" for name in NAMES)
    print(f"{'cases':<22}{'positives':>10}{names}  targets")
    for scenario in CLUSTER_SCENARIOS:
        if only not in scenario.name:
            continue
        for positives in POSITIVES:
            found = list(cluster_streams(scenario, positives, streams, seed, groups))
            row, missed = f"{scenario.name:<22}{positives:>10,}", []
            for name in NAMES:
                summary = ClusterSummary.of(*zip(*(each[name] for each in found), strict=True))
                row += f"  {summary}"
                targets = summary.missed_targets(scenario, positives)
                missed += [f"{target} of {name}" for target in targets]
            print(f"{row}  {'not held: ' + ', '.join(missed) if missed else 'held'}", flush=True)
