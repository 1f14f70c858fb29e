"""Coverage of nominal 95 % intervals of means over classes, by simulation.

    python bench/coverage_classes.py                  # one table, some five minutes
    python bench/coverage_classes.py --replicates 100 # the same in half a minute

Rows are independent: a class drawn by its share, a standard normal score for each class,
the own class's score raised by a gain, and softmax over the scores. The truth is the mean
over 400,000 rows. Beside ours stands what adding the classes' own variances would give,
as if each had rows of its own.
"""

from __future__ import annotations

import argparse
import math
from typing import NamedTuple

import numpy as np

from streameval import one_vs_rest
from streameval._uncertainty.class_means import class_figures, mean_limits
from streameval._uncertainty.estimates import figure_of, value_of

METRICS = ("auc_pr", "average_precision", "auc_roc")
TRUTH_ROWS = 400_000


class Kind(NamedTuple):
    """A kind of data: the rows of a sample, the classes' shares, and their gains."""

    rows: int
    shares: tuple[float, ...]
    gains: tuple[float, ...]


KINDS = {
    "2 even, few rows": Kind(40, (0.5, 0.5), (1.5, 1.5)),
    "3 even, few rows": Kind(60, (1 / 3,) * 3, (1.0,) * 3),
    "3 even, nearly perfect": Kind(60, (1 / 3,) * 3, (3.0,) * 3),
    "3, one of 2 %": Kind(500, (0.9, 0.08, 0.02), (1.5,) * 3),
    "10 even": Kind(150, (0.1,) * 10, (1.5,) * 10),
    "10, one of 60 %": Kind(300, (0.6, *(0.4 / 9,) * 9), (2.5,) * 10),
    "4 even, many rows": Kind(2_000, (0.25,) * 4, (1.0,) * 4),
    "3, of unequal gains": Kind(200, (0.6, 0.3, 0.1), (0.2, 3.0, 1.0)),
}


def draw(kind: Kind, rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return classes and probabilities."""
    codes = rng.choice(len(kind.shares), size=rows, p=kind.shares)
    scores = rng.normal(size=(rows, len(kind.shares)))
    scores[np.arange(rows), codes] += np.array(kind.gains)[codes]
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return codes, odds / odds.sum(axis=1, keepdims=True)


def measure(kind: Kind, replicates: int, seed: int) -> dict[tuple[str, str], tuple[float, ...]]:
    """Return coverage, mean width and coverage of the naive sum, by metric and mean."""
    rng = np.random.default_rng(seed)
    codes, scores = draw(kind, rng, TRUTH_ROWS)
    whole = one_vs_rest(codes, scores)
    values = {
        name: np.array(
            [value_of(each._view().groups, name, None) for each in whole.evaluators.values()]
        )
        for name in METRICS
    }
    truth = {("macro", name): float(values[name].mean()) for name in METRICS} | {
        ("weighted", name): float(values[name] @ kind.shares) for name in METRICS
    }
    found: dict[tuple[str, str], list[tuple[float, ...]]] = {key: [] for key in truth}
    while len(found["macro", METRICS[0]]) < replicates:
        codes, scores = draw(kind, rng, kind.rows)
        if np.bincount(codes, minlength=len(kind.shares)).min() < 2:
            continue
        sample = one_vs_rest(codes, scores)
        groups = [each._view().groups for each in sample.evaluators.values()]
        for name in METRICS:
            figures = class_figures(name, groups, codes, scores)
            own = np.array([figure_of(each, name).variance for each in groups])
            for mean in ("macro", "weighted"):
                figure = figures.macro() if mean == "macro" else figures.weighted()
                shares = np.full(len(own), 1 / len(own))
                weights = shares if mean == "macro" else figures.positives / len(codes)
                half = 1.96 * math.sqrt(float(weights**2 @ own))
                lower, upper = mean_limits(figure, 0.05)
                wanted = truth[mean, name]
                naive = abs(figure.estimate - wanted) <= half
                found[mean, name].append((lower <= wanted <= upper, upper - lower, naive))
    return {key: tuple(np.mean(rows, axis=0)) for key, rows in found.items()}


def main() -> None:
    """Print one row for each kind of data and mean."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicates", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=20_263)
    arguments = parser.parse_args()
    error = math.sqrt(0.95 * 0.05 / arguments.replicates)
    print(f"seed {arguments.seed}, {arguments.replicates} samples, standard error {error:.3f}")
    print("coverage / mean width (coverage if the classes' variances are added)")
    print(f"{'classes':24} {'mean':9}" + "".join(f"{name:>25}" for name in METRICS))
    for title, kind in KINDS.items():
        results = measure(kind, arguments.replicates, arguments.seed)
        for mean in ("macro", "weighted"):
            cells = (results[mean, name] for name in METRICS)
            row = "".join(f"{f'{c:.3f} / {w:.3f} ({n:.3f})':>25}" for c, w, n in cells)
            print(f"{title:24} {mean:9}{row}", flush=True)


if __name__ == "__main__":
    main()
