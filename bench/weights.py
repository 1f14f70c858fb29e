"""Weighted cases: coverage of nominal 95 % intervals by simulation, and the cost of weights.

    python bench/weights.py                    # coverage, some five minutes
    python bench/weights.py --replicates 60    # the same in a minute
    python bench/weights.py --speed            # a million cases, interleaved with unweighted ones
    python bench/weights.py --ingest           # rows of a client, until its server has counted them

Scores of the classes are normal, 1.5 or 2.5 apart, and a case is labelled with a known
probability, which the evaluator is given as `label_probability`. The truth is that of the
population: of AUC-ROC and of rates by the normal distribution, of average precision by four
million cases. `answered` is the share of samples with an interval; the others were refused
for too few effective cases.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from statistics import NormalDist

import numpy as np

from streameval import Evaluator
from streameval.client import Client
from streameval_server.testing import running_server

TRUTH_CASES = 4_000_000
THRESHOLD = 1.8
METRICS = {
    "auc_roc": {},
    "average_precision": {},
    "recall": {"threshold": THRESHOLD},
    "precision": {"threshold": THRESHOLD},
}
POPULATIONS = ((1.5, 0.05), (1.5, 0.3), (2.5, 0.05))


def population(
    rng: np.random.Generator, size: int, distance: float, prevalence: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return labels and scores of independent cases."""
    labels = rng.random(size) < prevalence
    return labels, rng.normal(size=size) + distance * labels


def probabilities(
    rng: np.random.Generator, design: str, labels: np.ndarray, scores: np.ndarray
) -> np.ndarray:
    """Return the probability with which each case is labelled."""
    if design == "one in four":
        return np.full(labels.size, 0.25)
    if design == "0.1 to 1 by chance":
        return np.exp(rng.uniform(math.log(0.1), 0, size=labels.size))
    if design == "negatives one in ten":
        return np.where(labels, 1.0, 0.1)
    if design == "scores below 1 one in eight":
        return np.where(scores < 1.0, 1 / 8, 1.0)
    return np.clip(1 / (1 + np.exp(1.5 * (1.5 - scores))), 0.03, 1)


DESIGNS = (
    "one in four",
    "0.1 to 1 by chance",
    "negatives one in ten",
    "scores below 1 one in eight",
    "rising with the score from 0.03",
)


def truth(distance: float, prevalence: float, rng: np.random.Generator) -> dict[str, float]:
    """Return the metrics of the population."""
    normal = NormalDist()
    tpr, fpr = normal.cdf(distance - THRESHOLD), normal.cdf(-THRESHOLD)
    evaluator = Evaluator()
    labels, scores = population(rng, TRUTH_CASES, distance, prevalence)
    evaluator.add_cases(labels=labels, scores=scores)
    called = prevalence * tpr + (1 - prevalence) * fpr
    return {
        "auc_roc": normal.cdf(distance / math.sqrt(2)),
        "average_precision": evaluator.average_precision(),
        "recall": tpr,
        "precision": prevalence * tpr / called,
    }


def coverage(replicates: int, seed: int) -> None:
    """Print coverage by population, design and number of positives."""
    print(f"{'apart':>5} {'prev.':>5} {'design':<32} {'P':>5} {'answered':>8}", *METRICS)
    for distance, prevalence in POPULATIONS:
        rng = np.random.default_rng(seed)
        exact = truth(distance, prevalence, rng)
        for design in DESIGNS:
            for positives in (200, 1_000):
                held, answered = dict.fromkeys(METRICS, 0), dict.fromkeys(METRICS, 0)
                for _ in range(replicates):
                    labels, scores = population(
                        rng, round(positives / prevalence), distance, prevalence
                    )
                    chances = probabilities(rng, design, labels, scores)
                    drawn = rng.random(labels.size) < chances
                    evaluator = Evaluator()
                    evaluator.add_cases(
                        labels=labels[drawn],
                        scores=scores[drawn],
                        label_probability=chances[drawn],
                    )
                    for name, arguments in METRICS.items():
                        interval = evaluator.interval(name, **arguments)
                        answered[name] += interval.reason is None
                        held[name] += exact[name] in interval
                shares = [
                    f"{held[name] / answered[name]:.3f}" if answered[name] else "-"
                    for name in METRICS
                ]
                share = answered["auc_roc"] / replicates
                print(
                    f"{distance:>5} {prevalence:>5} {design:<32} {positives:>5} {share:>8.2f}",
                    *(f"{share:>{len(name)}}" for name, share in zip(METRICS, shares)),
                    flush=True,
                )


def speed(rounds: int) -> None:
    """Print the processor time to add a million cases and to answer, with and without weights."""
    rng = np.random.default_rng(1)
    labels, scores = population(rng, 1_000_000, 1.5, 0.1)
    weights = rng.integers(1, 2**20, size=labels.size) / 2**16
    for kind, column in (("distinct scores", scores), ("three decimals", scores.round(3))):
        times: dict[str, list[float]] = {"unweighted": [], "weighted": []}
        for _ in range(rounds):
            for name, extra in (("unweighted", {}), ("weighted", {"weights": weights})):
                begin = time.process_time()
                evaluator = Evaluator()
                evaluator.add_cases(labels=labels, scores=column, **extra)
                evaluator.auc_roc(), evaluator.average_precision(), evaluator.auc_pr()
                times[name].append((time.process_time() - begin) * 1e3)
        plain, weighted = (statistics.median(each) for each in times.values())
        print(
            f"{kind}: {plain:.0f} ms unweighted, {weighted:.0f} ms weighted, "
            f"{weighted / plain:.2f} times"
        )


def ingest(rounds: int) -> None:
    """Print the processor time of a client and its server for rows with and without weights."""
    rng = np.random.default_rng(1)
    labels, scores = population(rng, 300_000, 1.5, 0.1)
    weights = rng.integers(1, 2**20, size=labels.size) / 2**16
    countries = rng.choice(list("abcdefghij"), size=labels.size)
    parts = np.array_split(np.arange(labels.size), 300)
    with running_server() as address, Client(address) as client:
        for keys in ((), ("country",)):
            times: dict[bool, list[float]] = {False: [], True: []}
            for number in range(2 * rounds):
                is_weighted = number % 2 == 1
                name = f"keys-{len(keys)}-{number}"
                client.create_stream(name, segment_keys=keys)
                stream = client.stream(name)
                begin = time.process_time()
                for rows in parts:
                    stream.add_cases(
                        labels=labels[rows],
                        scores=scores[rows],
                        weights=weights[rows] if is_weighted else None,
                        segments={key: countries[rows].tolist() for key in keys},
                    )
                client.flush()
                # The cheapest answer that waits for the count.
                stream.snapshot(metrics=["prevalence"])
                times[is_weighted].append((time.process_time() - begin) / labels.size * 1e9)
            plain, weighted = (statistics.median(times[each]) for each in (False, True))
            print(
                f"{len(keys)} segment keys: {plain:.0f} ns a row unweighted, {weighted:.0f} ns "
                f"weighted, {weighted / plain:.2f} times"
            )


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--replicates", type=int, default=400)
    parser.add_argument("--seed", type=int, default=101)
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--ingest", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    if arguments.speed:
        speed(arguments.rounds)
    elif arguments.ingest:
        ingest(arguments.rounds)
    else:
        coverage(arguments.replicates, arguments.seed)


if __name__ == "__main__":
    main()
