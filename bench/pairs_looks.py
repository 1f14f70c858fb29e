"""A pair looked at all the time: false evidence, and labels to decide. A part of bench/pairs.py.

Of each population streams of labelled cases are counted by a `PairedEvaluator` and looked at
20 times, after every 50 positives (prevalence 0.4, errors that correlate by 0.8). Where the
models are equal, `e >= 20` is the share of streams whose e-value reaches 20 at some look, at
most 0.05 by its definition, and `fixed` that of those whose 95 % interval excludes 0 at some
look. Where b is better, `decided` is the share whose e-value reaches 20 by the last look, and
`positives` the median number of them when it does, among all streams; `unpaired` is that
number for confidence sequences that take the models' figures as independent. `refused` is the
share of streams whose last look has no interval, because the cells are too coarse.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from streameval._metric_registry import Place
from streameval._paired_evaluator import PairedEvaluator
from streameval._uncertainty.compare import square_and_add
from streameval._uncertainty.estimates import rule_of
from streameval._uncertainty.pair_difference import Difference
from streameval._uncertainty.pair_variance import GridTooCoarseError, variance_of_difference
from streameval._uncertainty.rules import Given

POPULATIONS = ("normal", "heavy tails", "ties", "1000 + x in 256 cells")
GAPS = (0.0, 0.15)
LOOKS = 20
POSITIVES = 50
"""Of each look."""

PREVALENCE = 0.4
CORRELATION = 0.8
EVIDENCE = 20.0


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
    common, own = common * math.sqrt((1 + CORRELATION) / 2), own * math.sqrt((1 - CORRELATION) / 2)
    a, b = common - own + labels, common + own + (1 + gap) * labels
    if name == "ties":
        a, b = np.round(2 * a) / 2, np.round(2 * b) / 2
    if name.startswith("1000"):
        a, b = 1000 + a, 1000 + b
    return labels, a, b


def looks(name: str, gap: float, rng: np.random.Generator) -> dict[str, list[list[float]]]:
    """Return of each metric, by look: e-value, fixed and unpaired exclusion of 0."""
    pair = PairedEvaluator(max_cells=256 if name.endswith("cells") else 65_536)
    found: dict[str, list[list[float]]] = {metric: [] for metric in Place.COMPARISON.names()}
    for _ in range(LOOKS):
        labels, a, b = cases(name, gap, rng, round(POSITIVES / PREVALENCE))
        pair.add_cases(labels=labels, scores_a=a, scores_b=b)
        for metric in Place.COMPARISON.names():
            _, grid, _, models = pair._view()
            sides = tuple(rule_of(metric).uncertain(model, metric, Given()) for model in models)
            try:
                variance = variance_of_difference(grid, sides, None).value
            except GridTooCoarseError:
                variance = math.nan
            difference = Difference(metric, sides[0].figure, sides[1].figure, variance)
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
    rng = np.random.default_rng([seed, POPULATIONS.index(name), round(100 * gap)])
    drawn = [looks(name, gap, rng) for _ in range(streams)]
    for metric in Place.COMPARISON.names():
        values = np.array([each[metric] for each in drawn])  # streams, looks, kinds
        evident = values[:, :, 0] >= EVIDENCE
        excluded = values[:, :, 1].astype(bool)
        apart = values[:, :, 2].astype(bool)
        cells = [f"{evident.any(axis=1).mean():.3f}", f"{excluded.any(axis=1).mean():.3f}"]
        if gap:
            cells += [_median_positives(evident), _median_positives(apart)]
        refused = np.isnan(values[:, -1, 0]).mean()
        cells.append(f"{refused:.3f}")
        print(f"| {name} | {metric} | " + " | ".join(cells) + " |", flush=True)


def print_looks(given: argparse.Namespace) -> None:
    """Print a table for equal models, and one for each gap."""
    for gap in GAPS:
        columns = ["population", "metric"]
        columns += ["decided", "fixed", "positives", "unpaired"] if gap else ["e >= 20", "fixed"]
        columns.append("refused")
        print(f"\nb's positives are further up by {gap}\n\n| " + " | ".join(columns) + " |")
        print("|" + "---|" * len(columns))
        for name in POPULATIONS:
            report(name, gap, given.streams or 100, given.seed)
