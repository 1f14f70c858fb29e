"""What the limits of a difference are made of, by setting. A part of bench/pairs.py.

`held` is the share of 95 % intervals that hold the true difference. `spread` is the standard
deviation of the error and `half` the mean half-width, both in standard errors of the sample.
With normal errors `held` is 0.95 where `half` is 1.96 times `spread`; Student's quantile and
the unseen cases make `half` larger. `cut` says how many times as large cells make the mean
variance; pairs with clusters are not computed without cells, and have nan there. `told` is the
share of intervals that leave out 0. `delong` is the share of differences that exceed 1.96
standard errors of the sample, as in DeLong's test for `auc_roc`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from pairs_coverage import GAPS, MAX_CELLS, PANE_CELLS, POSITIVES, PREVALENCE, cases, truths

from streameval import PairedEvaluator
from streameval._metric_registry import Place
from streameval._uncertainty.pair_comparison import ComparedPair

if TYPE_CHECKING:
    import argparse

    from streameval._uncertainty.pair_difference import Difference


def difference_of(pair: PairedEvaluator, metric: str) -> Difference:
    """Return the difference of the models' figures."""
    _, grid, _, models = pair._view()
    return ComparedPair.of(grid, models, metric, None).difference


def setting(
    kind: str, gap: float, positives: int, streams: int, rng: np.random.Generator
) -> dict[str, list[float]]:
    """Return the figures of each metric, in the order of the table."""
    true = truths(kind, gap)
    groups = 32 if kind == "clusters" else None
    found: dict[str, list[list[float]]] = {name: [] for name in Place.COMPARISON.names()}
    for _ in range(streams):
        columns = cases(kind, gap, rng, round(positives / PREVALENCE))
        pair = PairedEvaluator(max_cells=MAX_CELLS.get(kind, PANE_CELLS), cluster_groups=groups)
        whole = PairedEvaluator(max_cells=None, cluster_groups=groups)
        for each in (pair, whole) if groups is None else (pair,):
            each.add_cases(**columns)
        for name in Place.COMPARISON.names():
            difference = difference_of(pair, name)
            lower, upper = difference.limits(0.05)
            error = math.sqrt(difference.variance * difference.design_effect)
            uncut = difference_of(whole, name).variance if groups is None else math.nan
            found[name].append(
                [
                    lower <= true[name] <= upper,
                    (upper - lower) / 2 / error,
                    (difference.estimate - true[name]) / error,
                    difference.variance / uncut,
                    not lower <= 0 <= upper,
                    abs(difference.estimate) > 1.96 * error,
                ]
            )
    rows = {}
    for name in Place.COMPARISON.names():
        held, half, errors, cut, told, delong = np.array(found[name], dtype=np.float64).T
        means = [each.mean() for each in (cut, told, delong)]
        rows[name] = [held.mean(), half.mean(), errors.std(), *means]
    return rows


def print_errors(given: argparse.Namespace) -> None:
    """Print a row for each setting and metric."""
    streams = given.streams or 300
    print(f"seed {given.seed}, {streams} pairs each\n")
    print(
        "| scores | b better by | positives | metric | held | half | spread | cut | told | delong |"
    )
    print("|" + "---|" * 10)
    for kind in given.kinds:
        for gap in GAPS:
            for positives in POSITIVES[:2]:
                rng = np.random.default_rng([given.seed, positives, round(10 * gap)])
                for name, row in setting(kind, gap, positives, streams, rng).items():
                    held, *figures = row
                    cells = [kind, f"{gap}", f"{positives}", name, f"{held:.3f}"]
                    cells += ["" if math.isnan(each) else f"{each:.2f}" for each in figures]
                    print("| " + " | ".join(cells) + " |", flush=True)
