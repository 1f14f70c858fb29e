"""What labels of a sample are worth: the chosen draw against a uniform one of the same size.

    python bench/sampling.py                    # all populations, some five minutes
    python bench/sampling.py --replicates 100   # the same in less time

A window has 20,000 predictions; a pilot of 1,000 was labelled before, and the others wait. Of
these 2,000 are drawn, once as `allocate_labels` says and once uniformly, and labelled; they
count with their probabilities, beside the pilot.

`error` is the root mean squared difference from the figure of the window with all labels, and
`bias` is the mean difference in units of it: chance alone gives 0.06 with 300 windows. `gain`
is how many times as many labels a uniform draw needs for the same error: the squared ratio of
the errors. `covered` is how often the nominal 95 % interval holds the population's figure, of
four million cases, where it is not refused; `answered` how often it is not.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from streameval import Evaluator, allocate_labels

TRUTH_CASES = 4_000_000
PREDICTIONS = 20_000
PILOT = 1_000
SIZE = 2_000
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


def drawn(
    labels: np.ndarray, scores: np.ndarray, metric: str, seed: int, *, is_chosen: bool
) -> Evaluator:
    """Return the pilot of a window, and a sample of the rest with its probabilities."""
    ev = Evaluator()
    ev.add_cases(labels=labels[:PILOT], scores=scores[:PILOT])
    waiting = np.arange(PILOT, labels.size)
    if is_chosen:
        allocation = allocate_labels(ev, scores=scores[waiting], size=SIZE, metric=metric)
        ids = waiting.astype(str)
        sample = allocation.draw(ids=ids, scores=scores[waiting], seed=seed)
        rows, probabilities = np.array(sample.ids).astype(int), sample.label_probabilities
    else:
        rows = np.random.default_rng(seed).choice(waiting, SIZE, replace=False)
        probabilities = np.full(SIZE, SIZE / waiting.size)
    ev.add_cases(labels=labels[rows], scores=scores[rows], label_probability=probabilities)
    return ev


def report(name: str, metric: str, replicates: int, seed: int) -> None:
    """Print the row of one population and metric."""
    rng = np.random.default_rng(seed)
    whole = Evaluator()
    labels, scores = population(name, rng, TRUTH_CASES)
    whole.add_cases(labels=labels, scores=scores)
    truth = value(whole, metric)
    errors: dict[bool, list[float]] = {True: [], False: []}
    intervals: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for replicate in range(replicates):
        labels, scores = population(name, rng, PREDICTIONS)
        every = Evaluator()
        every.add_cases(labels=labels, scores=scores)
        final = value(every, metric)
        for is_chosen in (True, False):
            ev = drawn(labels, scores, metric, seed + replicate, is_chosen=is_chosen)
            interval = ev.interval(metric)
            errors[is_chosen].append(interval.estimate - final)
            intervals[is_chosen].append((interval.lower, interval.upper))
    cells, sizes = [], {}
    for is_chosen in (True, False):
        error = np.array(errors[is_chosen])
        sizes[is_chosen] = math.sqrt(float((error**2).mean()))
        lower, upper = np.array(intervals[is_chosen]).T
        answered = ~np.isnan(lower)
        held = ((lower <= truth) & (truth <= upper))[answered]
        cells += [
            f"{sizes[is_chosen]:.4f}",
            f"{error.mean() / sizes[is_chosen]:+.2f}",
            f"{held.mean() if held.size else math.nan:.3f}",
            f"{(upper - lower)[answered].mean() if held.size else math.nan:.3f}",
            f"{answered.mean():.2f}",
        ]
    gain = (sizes[False] / sizes[True]) ** 2
    print(f"| {name} | {metric} | {gain:.1f} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Print a row for each population and metric."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--replicates", type=int, default=300)
    parser.add_argument("--seed", type=int, default=SEED)
    given = parser.parse_args()
    parts = ("error", "bias", "covered", "width", "answered")
    columns = (f"{part}, {kind}" for kind in ("chosen", "uniform") for part in parts)
    head = ["population", "metric", "gain", *columns]
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for name in POPULATIONS:
        for metric in METRICS:
            report(name, metric, given.replicates, given.seed)


if __name__ == "__main__":
    main()
