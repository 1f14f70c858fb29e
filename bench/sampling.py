"""What labels of a sample are worth: the chosen draw against a uniform one of the same size.

    python bench/sampling.py                    # all populations, some four minutes
    python bench/sampling.py --replicates 100   # the same in less time

A window has 20,000 predictions; a pilot of 1,000 was labelled before, and the others wait. Of
these a sample is drawn for the metric, once as `allocate_labels` says and once uniformly, and
labelled; the drawn labels count with their probabilities, beside the pilot. The truth is the
population's: of four million cases. `error` is the root mean squared error over the windows;
`gain` is how many times as many labels a uniform draw needs for the same error, the square of
the ratio of errors. `bias` is the mean error over its standard error. Errors are those of the
figure of all labels as well: `all` has its own.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from streameval import Evaluator, allocate_labels

TRUTH_CASES = 4_000_000
PREDICTIONS = 20_000
PILOT = 1_000
SIZE = 1_000
METRICS = ("auc_roc", "auc_pr")
SEED = 5_000_000
"""Of the windows reported; the constants of `streameval._sampling` were chosen on others."""


def population(name: str, rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return labels and scores of independent cases."""
    prevalence, distance = {
        "normal, 5 %": (0.05, 1.5),
        "normal, 5 %, apart": (0.05, 2.5),
        "normal, 30 %": (0.3, 1.5),
        "normal, 20 %, close": (0.2, 0.7),
        "heavy tails, 10 %": (0.1, 2.0),
        "two kinds of positives, 10 %": (0.1, 0.0),
        "probabilities, 10 %": (0.1, 2.0),
    }[name]
    labels = rng.random(size) < prevalence
    if name.startswith("heavy"):
        return labels, rng.standard_t(3, size=size) + distance * labels
    scores = rng.normal(size=size) + distance * labels
    if name.startswith("two"):
        scores += labels * np.where(rng.random(size) < 0.6, 3.0, -0.5)
    if name.startswith("probabilities"):
        scores = np.round(1 / (1 + np.exp(3.5 - 1.6 * scores)), 3)
    return labels, scores


POPULATIONS = (
    "normal, 5 %",
    "normal, 5 %, apart",
    "normal, 30 %",
    "normal, 20 %, close",
    "heavy tails, 10 %",
    "two kinds of positives, 10 %",
    "probabilities, 10 %",
)


def value(ev: Evaluator, metric: str) -> float:
    """Return a figure by its name."""
    return float(getattr(ev, metric)())


def estimates(
    labels: np.ndarray, scores: np.ndarray, metric: str, seed: int
) -> dict[str, tuple[float, float, float]]:
    """Return the figure and its interval by the chosen draw, the uniform one and all labels."""
    pilot = np.arange(labels.size) < PILOT
    before = Evaluator()
    before.add_cases(labels=labels[pilot], scores=scores[pilot])
    waiting, ids = np.flatnonzero(~pilot), [str(row) for row in range(labels.size - PILOT)]
    known = {
        "chosen": allocate_labels(before, scores=scores[waiting], size=SIZE, metric=metric),
        # With nothing known, and one band, the draw is uniform.
        "uniform": None,
    }
    found = {}
    for name, allocation in known.items():
        if allocation is None:
            rows = np.random.default_rng(seed).choice(waiting, SIZE, replace=False)
            probabilities = np.full(SIZE, SIZE / waiting.size)
        else:
            sample = allocation.draw(ids=ids, scores=scores[waiting], seed=seed)
            rows = waiting[np.array(sample.ids).astype(int)]
            probabilities = sample.label_probabilities
        ev = before.copy()
        ev.add_cases(labels=labels[rows], scores=scores[rows], label_probability=probabilities)
        interval = ev.interval(metric)
        found[name] = (interval.estimate, interval.lower, interval.upper)
    every = Evaluator()
    every.add_cases(labels=labels, scores=scores)
    interval = every.interval(metric)
    found["all"] = (interval.estimate, interval.lower, interval.upper)
    return found


def report(name: str, metric: str, replicates: int, seed: int) -> None:
    """Print the row of one population and metric."""
    rng = np.random.default_rng(seed)
    whole = Evaluator()
    labels, scores = population(name, rng, TRUTH_CASES)
    whole.add_cases(labels=labels, scores=scores)
    truth = value(whole, metric)
    rows: dict[str, list[tuple[float, float, float]]] = {}
    for replicate in range(replicates):
        for kind, each in estimates(
            *population(name, rng, PREDICTIONS), metric, seed + replicate
        ).items():
            rows.setdefault(kind, []).append(each)
    cells = []
    errors = {}
    for kind in ("chosen", "uniform", "all"):
        figure, lower, upper = np.array(rows[kind]).T
        error = figure - truth
        errors[kind] = math.sqrt(float((error**2).mean()))
        bias = float(error.mean() / (error.std(ddof=1) / math.sqrt(replicates)))
        answered = ~np.isnan(lower)
        covered = (
            ((lower <= truth) & (truth <= upper))[answered].mean() if answered.any() else math.nan
        )
        width = float((upper - lower)[answered].mean()) if answered.any() else math.nan
        cells += [
            f"{errors[kind]:.4f}",
            f"{bias:+.1f}",
            f"{covered:.3f}",
            f"{width:.3f}",
            f"{answered.mean():.2f}",
        ]
    gain = (errors["uniform"] / errors["chosen"]) ** 2
    print(f"| {name} | {metric} | {gain:.1f} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Print a row for each population and metric."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--replicates", type=int, default=400)
    parser.add_argument("--seed", type=int, default=SEED)
    chosen = parser.parse_args()
    kinds = ("chosen", "uniform", "all")
    parts = ("error", "bias", "covered", "width", "answered")
    columns = (f"{part}, {kind}" for kind in kinds for part in parts)
    head = ["population", "metric", "gain", *columns]
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for name in POPULATIONS:
        for metric in METRICS:
            report(name, metric, chosen.replicates, chosen.seed)


if __name__ == "__main__":
    main()
