"""Coverage of intervals of differences, between two streams and between two models.

    python bench/coverage_differences.py           # both tables, several minutes
    python bench/coverage_differences.py --quick   # the same with few replicates

The first table compares independent streams of different populations
(`compare`), the second two models on the same cases (`PairedEvaluator`), whose
errors correlate by 0.3, 0.9 or 0.99. Each cell shows the least and the greatest
coverage over its populations.
"""

from __future__ import annotations

import argparse
import itertools
import time

import numpy as np
from populations import POPULATIONS, Population, draw

from streameval._metric_registry import COMPARED_NAMES
from streameval._paired_evaluator import PairedEvaluator
from streameval._uncertainty.compare import square_and_add
from streameval._uncertainty.estimates import figure_of, limits_of

POSITIVES = (20, 100, 1_000)
PREVALENCES = (0.5, 0.05, 0.005)
ALPHA = 0.05
EQUAL = POPULATIONS[:4]
SHIFTS = ((1, 1), (1, 2), (2, 2), (2, 3))  # indices into EQUAL
AGREEMENTS = (0.3, 0.9, 0.99)


def independent(
    first: Population, second: Population, prevalence: float, positives: int, *, seed: int, n: int
) -> list[float]:
    """Return the coverage of each metric's difference at a common known prevalence."""
    rng = np.random.default_rng([seed, positives, round(1 / prevalence)])
    coverage = []
    for name in COMPARED_NAMES:
        fixed = None if name == "auc_roc" else prevalence
        truth = first.truth(name, prevalence) - second.truth(name, prevalence)
        held = 0
        for _ in range(n):
            sides = [
                figure_of(draw(each, rng, positives, prevalence), name, fixed)
                for each in (first, second)
            ]
            a, b = ((side.estimate, limits_of(side, name, ALPHA)) for side in sides)
            lower, upper = square_and_add(*a, *b)
            held += lower <= truth <= upper
        coverage.append(held / n)
    return coverage


def paired(
    shifts: tuple[int, int],
    agreement: float,
    prevalence: float,
    positives: int,
    *,
    seed: int,
    n: int,
) -> list[float]:
    """Return the coverage of each metric's difference between two models of the same cases."""
    rng = np.random.default_rng([seed, positives, round(1 / prevalence)])
    first, second = (EQUAL[each] for each in shifts)
    held = dict.fromkeys(COMPARED_NAMES, 0)
    truth = {
        name: first.truth(name, prevalence) - second.truth(name, prevalence)
        for name in COMPARED_NAMES
    }
    total = round(positives / prevalence)
    for _ in range(n):
        labels = rng.random(total) < prevalence
        common, own = rng.normal(size=(2, total))
        other = agreement * common + (1 - agreement**2) ** 0.5 * own
        pair = PairedEvaluator()
        pair.add_cases(
            labels=labels,
            scores_a=common + first.positive.mean() * labels,
            scores_b=other + second.positive.mean() * labels,
            ids=np.arange(total),
        )
        for name in COMPARED_NAMES:
            found = pair.compare(metric=name, level=1 - ALPHA)
            held[name] += found.lower <= truth[name] <= found.upper
    return [count / n for count in held.values()]


def print_row(prevalence: float, positives: int, rows: list[list[float]]) -> None:
    """Print the least and the greatest coverage of each metric."""
    ends = "".join(f"{min(v):>14.3f}{max(v):>8.3f}" for v in zip(*rows))
    print(f"{prevalence:>10}{positives:>10,}{ends}")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, help="pairs of streams for each cell")
    parser.add_argument("--seed", type=int, default=20_261)
    parser.add_argument("--quick", action="store_true", help="fewer replicates")
    arguments = parser.parse_args()
    n = arguments.replicates or (5 if arguments.quick else 400)
    seed = arguments.seed
    print(f"seed {seed}, {n} replicates")
    start = time.perf_counter()
    heading = f"{'prevalence':>10}{'positives':>10}" + "".join(f"{m:>22}" for m in COMPARED_NAMES)
    print(f"\nindependent streams of neighbouring populations\n{heading}")
    for prevalence, positives in itertools.product(PREVALENCES, POSITIVES):
        rows = [
            independent(first, second, prevalence, positives, seed=seed, n=n)
            for first, second in itertools.pairwise(POPULATIONS)
        ]
        print_row(prevalence, positives, rows)
    print(f"\ntwo models on the same cases, a grid of 7 bits\n{heading}")
    for prevalence, positives in itertools.product(PREVALENCES[:2], POSITIVES):
        rows = [
            paired(shifts, agreement, prevalence, positives, seed=seed, n=n)
            for shifts, agreement in itertools.product(SHIFTS, AGREEMENTS)
        ]
        print_row(prevalence, positives, rows)
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
