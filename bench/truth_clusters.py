"""Coverage, width and refusals where cases come in clusters of equal and of unequal sizes.

A part of bench/truth.py. A cluster's scores share a shift, and its labels a prevalence of their
own. Where its size is *related* to them, large clusters have higher scores and more positives.
True values are the figures of 200,000 clusters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from streameval import Evaluator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streameval import Interval

Rng = np.random.Generator

PREVALENCE = 0.15
DISTANCE = 1.5
SHARED = 0.4
"""The part of a score's variance that a cluster's cases share."""
SLOPE = 0.5
"""By how much scores rise with the logarithm of a related size; log odds by 0.7 of it."""
LARGEST = 10_000
"""No cluster is larger, so that Pareto 1.3 has true values."""
MEAN = 10
POPULATION = 200_000


def pareto(index: float) -> Callable[[int, Rng], np.ndarray]:
    """Return a sampler of sizes whose tail falls with this power."""
    least = MEAN * (index - 1) / index
    return lambda count, rng: least * (1 + rng.pareto(index, count))


SIZES: dict[str, Callable[[int, Rng], np.ndarray]] = {
    "one case": lambda count, _: np.ones(count),
    "equal": lambda count, _: np.full(count, MEAN),
    "geometric": lambda count, rng: rng.geometric(1 / MEAN, count),
    "log-normal": lambda count, rng: rng.lognormal(math.log(MEAN) - 0.5, 1, count),
    "Pareto 2.5": pareto(2.5),
    "Pareto 1.3": pareto(1.3),
    "Pareto 1.6": pareto(1.6),
}
SMALL_COUNTS = (8, 14, 20, 30)
CLUSTERS = (50, 200, 1_000)
METRICS = ("auc_roc", "average_precision", "recall", "precision", "expected_cost")


@dataclass(frozen=True)
class Cases:
    """The columns that an evaluator takes."""

    labels: np.ndarray
    scores: np.ndarray
    clusters: np.ndarray

    def evaluator(self, groups: int) -> Evaluator:
        """Return an evaluator of these cases."""
        made = Evaluator(cluster_groups=groups)
        made.add_cases(labels=self.labels, scores=self.scores, clusters=self.clusters)
        return made


def draw(sizes: str, count: int, rng: Rng, *, related: bool) -> Cases:
    """Return the cases of this many clusters."""
    of_cluster = np.clip(np.round(SIZES[sizes](count, rng)), 1, LARGEST).astype(int)
    slope = SLOPE * related * np.log(of_cluster / MEAN)
    odds = math.log(PREVALENCE / (1 - PREVALENCE)) + rng.normal(size=count) + 0.7 * slope
    shift = math.sqrt(SHARED) * rng.normal(size=count) + slope
    cluster = np.repeat(np.arange(count), of_cluster)
    labels = rng.random(cluster.size) < 1 / (1 + np.exp(-odds[cluster]))
    own = math.sqrt(1 - SHARED) * rng.normal(size=cluster.size)
    return Cases(labels, DISTANCE * labels + shift[cluster] + own, cluster)


@cache
def true_values(sizes: str, *, related: bool) -> tuple[float, dict[str, float]]:
    """Return a threshold with a false positive rate of a tenth, and the metrics."""
    cases = draw(sizes, POPULATION, np.random.default_rng(1), related=related)
    whole = Evaluator(resolution=11)
    whole.add_cases(labels=cases.labels, scores=cases.scores)
    threshold = float(np.quantile(cases.scores[~cases.labels], 0.9))
    called, labels = cases.scores >= threshold, cases.labels
    errors = (called & ~labels) + 5 * (~called & labels)
    return threshold, {
        "auc_roc": whole.auc_roc(),
        "average_precision": whole.average_precision(),
        "recall": float(called[labels].mean()),
        "precision": float(labels[called].mean()),
        "expected_cost": float(errors.mean()),
    }


def intervals(made: Evaluator, threshold: float) -> dict[str, Interval]:
    """Return the interval of each metric."""
    at = {"threshold": threshold}
    given: dict[str, dict[str, float]] = {
        "recall": at,
        "precision": at,
        "expected_cost": at | {"cost_fp": 1.0, "cost_fn": 5.0},
    }
    return {name: made.interval(name, **given.get(name, {})) for name in METRICS}


def cluster_streams(
    sizes: str, count: int, streams: int, seed: int, groups: int, *, related: bool
) -> Iterator[dict[str, Interval]]:
    """Yield the intervals of one stream after another."""
    threshold, _ = true_values(sizes, related=related)
    rng = np.random.default_rng([seed, list(SIZES).index(sizes), count, related])
    for _ in range(streams):
        cases = draw(sizes, count, rng, related=related)
        # Other keys in each stream, so that clusters meet in other groups.
        keys = cases.clusters + int(rng.integers(1 << 40))
        yield intervals(replace(cases, clusters=keys).evaluator(groups), threshold)


def summary(found: list[Interval], truth: float) -> str:
    """Return coverage of those with limits, their width to the needed one, and refusals."""
    answered = [each for each in found if not math.isnan(each.lower)]
    refused = 1 - len(answered) / len(found)
    if len(answered) < len(found) / 20:
        return f"{'-':>5} {'-':>5} {refused:4.2f}"
    needed = 2 * 1.96 * np.std([each.estimate for each in found])
    held = np.mean([truth in each for each in answered])
    width = np.median([each.width for each in answered]) / needed
    return f"{held:5.3f} {width:5.2f} {refused:4.2f}"


def print_clusters(streams: int, seed: int, only: str, groups: int) -> None:
    """Print coverage, width and refusals of each metric, by sizes and number of clusters."""
    error = math.sqrt(0.95 * 0.05 / streams)
    print(
        f"nominal 95 % intervals of {streams} streams a cell, {groups} groups, seed {seed}: "
        f"coverage where there\nare limits (standard error {error:.3f}), median width over the "
        "needed one, and the share refused"
    )
    print(f"{'sizes':<11}{'related':<8}{'clusters':>8}" + "".join(f"{n:>20}" for n in METRICS))
    for sizes in SIZES:
        if only not in sizes:
            continue
        counts = (*SMALL_COUNTS, *CLUSTERS) if sizes == "equal" else CLUSTERS
        for related in (False, True)[: 1 if sizes in {"one case", "equal"} else 2]:
            _, truths = true_values(sizes, related=related)
            for count in counts:
                cases = count * MEAN if sizes == "one case" else count
                found = list(cluster_streams(sizes, cases, streams, seed, groups, related=related))
                row = f"{sizes:<11}{'yes' if related else 'no':<8}{cases:>8,}"
                for name in METRICS:
                    row += f"{summary([each[name] for each in found], truths[name]):>20}"
                print(row, flush=True)
