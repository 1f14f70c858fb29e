"""Width and cost of the bounds of a bounded evaluator.

    python bench/bounds.py                   # 2 M cases, about ten seconds
    python bench/bounds.py --cases 200_000

Prints one table: the number of cells, the bytes of the state, half the width of
each metric's bounds, and the time of a first query of all five (best of five). An
exact evaluator counts the same cases; if one of its metrics lies outside the
bounds, the run stops.

Scores: `logits` are logistic, with those of positives shifted by 2; `chances` are
their probabilities; `saturated` are the probabilities of logits four times as
large, half of which lie within 1 % of 0 or 1.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from streameval import Evaluator

METRICS = ("auc_roc", "auc_pr", "average_precision", "auc_pr_hull", "maximum_f_measure")
RUNS = (
    ("logits", None),
    ("chances", None),
    ("chances", "probability"),
    ("saturated", None),
    ("saturated", "probability"),
)
SETTINGS = ((10, None), (12, None), (12, 16_384))


def streams(cases: int, prevalence: float, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Draw labels and, by name, scores."""
    rng = np.random.default_rng(seed)
    labels = rng.random(cases) < prevalence
    logits = rng.logistic(size=cases) + 2.0 * labels
    return labels, {
        "logits": logits,
        "chances": 1 / (1 + np.exp(-logits)),
        "saturated": 1 / (1 + np.exp(-4 * logits)),
    }


def exact_value(evaluator: Evaluator, metric: str) -> float:
    """Return the exact evaluator's metric by its name among the bounds."""
    if metric == "auc_pr_hull":
        return evaluator.auc_pr(hull=True)
    return float(getattr(evaluator, metric)())


def time_of_bounds(evaluator: Evaluator) -> float:
    """Return the seconds that the first query of all metrics takes."""
    begin = time.perf_counter()
    for metric in METRICS:
        evaluator.bounds(metric)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=2_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    names = "".join(f"{name.removesuffix('_measure'):>19}" for name in METRICS)
    print(f"{options.cases:,} cases; half-widths of the bounds")
    print(
        f"{'prevalence':>10} {'scores':>10} {'scale':>12} {'bits':>5} {'cells':>7} {'kB':>6}"
        f"{names}{'ms':>7}"
    )
    for prevalence in (0.5, 0.05):
        labels, columns = streams(options.cases, prevalence, options.seed)
        exact = {}
        for scores_name, scores in columns.items():
            evaluator = Evaluator()
            evaluator.add_cases(labels=labels, scores=scores)
            exact[scores_name] = {metric: exact_value(evaluator, metric) for metric in METRICS}
        for scores_name, scale in RUNS:
            for bits, cap in SETTINGS:
                evaluator = Evaluator(resolution=bits, scale=scale, max_cells=cap)
                evaluator.add_cases(labels=labels, scores=columns[scores_name])
                if cap is not None and evaluator.resolution == bits:
                    continue  # the limit has no effect: same as the row above
                state = evaluator.to_bytes()
                took = min(time_of_bounds(Evaluator.from_bytes(state)) for _ in range(5))
                bounds = {metric: evaluator.bounds(metric) for metric in METRICS}
                for metric, (lower, upper) in bounds.items():
                    assert lower <= exact[scores_name][metric] <= upper, (metric, scores_name)
                widths = "".join(
                    f"{(upper - lower) / 2:>19.1e}" for lower, upper in bounds.values()
                )
                print(
                    f"{prevalence:>10} {scores_name:>10} {scale or 'plain':>12} "
                    f"{evaluator.resolution:>5} {evaluator.num_cells:>7,} {len(state) / 1000:>6.0f}"
                    f"{widths}{took * 1000:>7.1f}"
                )


if __name__ == "__main__":
    main()
