"""The cost of weights: processor time of counting, and of a client and its server.

python bench/weights.py --speed            # a million cases, interleaved with unweighted ones
python bench/weights.py --ingest           # rows of a client, until its server has counted them
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

from streameval import Evaluator
from streameval.client import Client
from streameval_server.testing import running_server


def population(
    rng: np.random.Generator, size: int, distance: float, prevalence: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return labels and scores of independent cases."""
    labels = rng.random(size) < prevalence
    return labels, rng.normal(size=size) + distance * labels


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
    parts = parser.add_mutually_exclusive_group(required=True)
    parts.add_argument("--speed", action="store_true")
    parts.add_argument("--ingest", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    (speed if arguments.speed else ingest)(arguments.rounds)


if __name__ == "__main__":
    main()
