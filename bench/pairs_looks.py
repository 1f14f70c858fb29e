"""A pair looked at all the time: false evidence, and labels to decide. A part of bench/pairs.py.

Of each population streams of labelled cases are counted by a `PairedEvaluator` and looked at
20 times, after every 50 positives (prevalence 0.4, errors that correlate by 0.8). Where the
models are equal, `e >= 20` is the share of streams whose e-value reaches 20 at some look, at
most 0.05 by its definition, and `fixed` that of those whose 95 % interval excludes 0 at some
look. Where b is better, `decided` is the share whose e-value reaches 20 by the last look, and
`positives` the median number of them when it does, among all streams; `unpaired` is that
number for confidence sequences that take the models' figures as independent. `refused` is the
share of streams whose last look has no interval, because the cells are too coarse.

Of the last populations b has a share of the positives below all others and ranks the rest
better, so that AUC-ROC alone is equal: a model that fails rarely looks better until it fails.
Areas in precision-recall space are also compared at a prevalence of 0.01, equal models.
"""

from __future__ import annotations

import argparse
import math
from statistics import NormalDist

import numpy as np

from streameval._metric_registry import Place
from streameval._paired_evaluator import PairedEvaluator
from streameval._uncertainty.compare import square_and_add
from streameval._uncertainty.pair_comparison import ComparedPair

POPULATIONS = ("normal", "heavy tails", "ties", "1000 + x in 256 cells")
SINKS = {"0.5 % sink": 0.005, "1 % sink": 0.01, "2 % sink": 0.02}
"""Shares of the positives that b has below all cases."""
GAPS = (0.0, 0.15)
LOOKS = 20
POSITIVES = 50
"""Of each look."""

PREVALENCE = 0.4
CORRELATION = 0.8
CLOSE = 0.99
"""The correlation of models of which one fails rarely."""

METRICS = [(name, None) for name in Place.COMPARISON.names()] + [
    ("auc_pr", 0.01),
    ("auc_pr", 0.001),
]
EQUAL_WITH_SINKS = [("auc_roc", None)]
Metric = tuple[str, float | None]
EVIDENCE = 20.0
NORMAL = NormalDist()


def cases(
    name: str, gap: float, rng: np.random.Generator, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return labels and the scores of both models; b's positives are further up by the gap."""
    labels = rng.random(size) < PREVALENCE
    if name == "heavy tails":
        common, own = rng.standard_t(3, size=(2, size))
    else:
        common, own = rng.normal(size=(2, size))
    # By symmetry both models' errors have one distribution.
    correlation = CLOSE if name in SINKS else CORRELATION
    common, own = common * math.sqrt((1 + correlation) / 2), own * math.sqrt((1 - correlation) / 2)
    a, b = common - own + labels, common + own + (1 + gap) * labels
    if name in SINKS:
        kept = 1 - SINKS[name]
        equal = math.sqrt(2) * NORMAL.inv_cdf(NORMAL.cdf(1 / math.sqrt(2)) / kept)
        b = np.where(labels & (rng.random(size) > kept), -50, common + own + equal * labels)
    if name == "ties":
        a, b = np.round(2 * a) / 2, np.round(2 * b) / 2
    if name.startswith("1000"):
        a, b = 1000 + a, 1000 + b
    return labels, a, b


def looks(
    name: str, gap: float, rng: np.random.Generator, metrics: list[Metric]
) -> dict[Metric, list[list[float]]]:
    """Return of each metric, by look: e-value, fixed and unpaired exclusion of 0."""
    pair = PairedEvaluator(max_cells=256 if name.endswith("cells") else 65_536)
    found: dict[Metric, list[list[float]]] = {metric: [] for metric in metrics}
    for _ in range(LOOKS):
        labels, a, b = cases(name, gap, rng, round(POSITIVES / PREVALENCE))
        pair.add_cases(labels=labels, scores_a=a, scores_b=b)
        for metric in metrics:
            _, grid, _, models = pair._view()
            compared = ComparedPair.of(grid, models, *metric)
            sides, difference = (compared.a, compared.b), compared.difference
            fixed = difference.limits(0.05)
            apart = square_and_add(
                sides[0].estimate,
                sides[0].limits(0.05, anytime=True),
                sides[1].estimate,
                sides[1].limits(0.05, anytime=True),
            )
            excluded = [float(lower > 0 or upper < 0) for lower, upper in (fixed, apart)]
            found[metric].append([difference.e_value(), *excluded])
    return found


def _median_positives(decided: np.ndarray) -> str:
    """Return the median number of positives at the first look that decides."""
    firsts = np.where(decided.any(axis=1), decided.argmax(axis=1) + 1.0, math.inf)
    median = float(np.median(firsts)) * POSITIVES
    return f"{median:,.0f}" if math.isfinite(median) else "more"


def report(name: str, gap: float, streams: int, seed: int) -> None:
    """Print a row for each metric of a population."""
    rng = np.random.default_rng([seed, [*POPULATIONS, *SINKS].index(name), round(100 * gap)])
    metrics = EQUAL_WITH_SINKS if name in SINKS else METRICS
    drawn = [looks(name, gap, rng, metrics) for _ in range(streams)]
    for metric in metrics:
        values = np.array([each[metric] for each in drawn])  # streams, looks, kinds
        evident = values[:, :, 0] >= EVIDENCE
        excluded = values[:, :, 1].astype(bool)
        apart = values[:, :, 2].astype(bool)
        cells = [f"{evident.any(axis=1).mean():.3f}", f"{excluded.any(axis=1).mean():.3f}"]
        if gap:
            cells += [_median_positives(evident), _median_positives(apart)]
        refused = np.isnan(values[:, -1, 0]).mean()
        cells.append(f"{refused:.3f}")
        shown = metric[0] if metric[1] is None else f"{metric[0]} at {metric[1]}"
        print(f"| {name} | {shown} | " + " | ".join(cells) + " |", flush=True)


def print_looks(given: argparse.Namespace) -> None:
    """Print a table for equal models, and one for each gap."""
    for gap in GAPS:
        columns = ["population", "metric"]
        columns += ["decided", "fixed", "positives", "unpaired"] if gap else ["e >= 20", "fixed"]
        columns.append("refused")
        print(f"\nb's positives are further up by {gap}\n\n| " + " | ".join(columns) + " |")
        print("|" + "---|" * len(columns))
        for name in POPULATIONS if gap else (*POPULATIONS, *SINKS):
            report(name, gap, given.streams or 100, given.seed)
