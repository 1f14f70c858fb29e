"""Coverage of intervals of differences, between two streams and between two models.

    python bench/coverage_differences.py           # all tables, several minutes
    python bench/coverage_differences.py --quick   # the same with few replicates
    python bench/coverage_differences.py --cells   # the last table alone

The first table compares independent streams of different populations
(`compare`), the second two models on the same cases (`PairedEvaluator`), whose
errors correlate by 0.3, 0.9 or 0.99. Each cell shows the least and the greatest
coverage over its populations. The last table does the same for scores of other scales,
with pairs kept as they are and cut into cells; `refused` is the greatest share of
pairs whose cells were too coarse for an interval.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from typing import TYPE_CHECKING

import numpy as np
from populations import POPULATIONS, Population, draw

from streameval._metric_registry import Place
from streameval._paired_evaluator import PairedEvaluator
from streameval._uncertainty.compare import square_and_add
from streameval._uncertainty.estimates import figure_of, limits_of

if TYPE_CHECKING:
    from collections.abc import Callable

POSITIVES = (20, 100, 1_000)
PREVALENCES = (0.5, 0.05, 0.005)
ALPHA = 0.05
EQUAL = POPULATIONS[:4]
SHIFTS = ((1, 1), (1, 2), (2, 2), (2, 3))  # indices into EQUAL
AGREEMENTS = (0.3, 0.9, 0.99)
SCALES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "x": lambda x: x,
    "1000 + x": lambda x: 1000 + x,
    "exp(5 x)": lambda x: np.exp(5 * x),
    "half of each": lambda x: np.where(x < 1, 1 / (1 + np.exp(-x)), 1000 + x),
}
MAX_CELLS = (65_536, 256)


def independent(
    first: Population, second: Population, prevalence: float, positives: int, *, seed: int, n: int
) -> list[float]:
    """Return the coverage of each metric's difference at a common known prevalence."""
    rng = np.random.default_rng([seed, positives, round(1 / prevalence)])
    coverage = []
    for name in Place.COMPARISON.names():
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
    scale: Callable[[np.ndarray], np.ndarray] = SCALES["x"],
    max_cells: int = MAX_CELLS[0],
) -> list[float]:
    """Return the coverage of each metric's difference between two models of the same cases.

    The last is the greatest share of refusals; coverage is that of the pairs that answer.
    """
    rng = np.random.default_rng([seed, positives, round(1 / prevalence)])
    first, second = (EQUAL[each] for each in shifts)
    held = dict.fromkeys(Place.COMPARISON.names(), 0)
    refused = dict.fromkeys(Place.COMPARISON.names(), 0)
    truth = {
        name: first.truth(name, prevalence) - second.truth(name, prevalence)
        for name in Place.COMPARISON.names()
    }
    total = round(positives / prevalence)
    for _ in range(n):
        labels = rng.random(total) < prevalence
        common, own = rng.normal(size=(2, total))
        other = agreement * common + (1 - agreement**2) ** 0.5 * own
        pair = PairedEvaluator(max_cells=max_cells)
        pair.add_cases(
            labels=labels,
            scores_a=scale(common + first.positive.mean() * labels),
            scores_b=scale(other + second.positive.mean() * labels),
        )
        for name in Place.COMPARISON.names():
            found = pair.compare(metric=name, level=1 - ALPHA)
            held[name] += found.lower <= truth[name] <= found.upper
            refused[name] += found.reason is not None
    coverage = [
        held[name] / (n - refused[name]) if refused[name] < n else math.nan
        for name in Place.COMPARISON.names()
    ]
    return [*coverage, max(refused.values()) / n]


def print_row(prevalence: float, positives: int, rows: list[list[float]]) -> None:
    """Print the least and the greatest coverage of each metric."""
    print(f"{prevalence:>10}{positives:>10,}{_ends(rows)}")


def print_scales(seed: int, n: int) -> None:
    """Print the coverage of pairs by the scale of their scores and the number of cells."""
    heading = "".join(f"{m:>22}" for m in Place.COMPARISON.names())
    print(f"\ntwo models on the same cases, by scale and cells\n{'':>32}{heading}{'refused':>9}")
    for (label, scale), max_cells in itertools.product(SCALES.items(), MAX_CELLS):
        rows = [
            paired(shifts, each, 0.2, 200, seed=seed, n=n, scale=scale, max_cells=max_cells)
            for shifts, each in itertools.product(SHIFTS[1:3], AGREEMENTS)
        ]
        refused = max(row.pop() for row in rows)
        print(f"{label:>14}{max_cells:>18,}{_ends(rows)}{refused:>9.3f}")


def _ends(rows: list[list[float]]) -> str:
    return "".join(f"{min(v):>14.3f}{max(v):>8.3f}" for v in zip(*rows))


def print_tables(seed: int, n: int) -> None:
    """Print the coverage between streams, and between models."""
    heading = f"{'prevalence':>10}{'positives':>10}" + "".join(
        f"{m:>22}" for m in Place.COMPARISON.names()
    )
    print(f"\nindependent streams of neighbouring populations\n{heading}")
    for prevalence, positives in itertools.product(PREVALENCES, POSITIVES):
        rows = [
            independent(first, second, prevalence, positives, seed=seed, n=n)
            for first, second in itertools.pairwise(POPULATIONS)
        ]
        print_row(prevalence, positives, rows)
    print(f"\ntwo models on the same cases\n{heading}")
    for prevalence, positives in itertools.product(PREVALENCES[:2], POSITIVES):
        rows = [
            paired(shifts, agreement, prevalence, positives, seed=seed, n=n)[:-1]
            for shifts, agreement in itertools.product(SHIFTS, AGREEMENTS)
        ]
        print_row(prevalence, positives, rows)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, help="pairs of streams for each cell")
    parser.add_argument("--seed", type=int, default=20_261)
    parser.add_argument("--quick", action="store_true", help="fewer replicates")
    parser.add_argument("--cells", action="store_true", help="scales and cells alone")
    arguments = parser.parse_args()
    n = arguments.replicates or (5 if arguments.quick else 400)
    seed = arguments.seed
    print(f"seed {seed}, {n} replicates")
    start = time.perf_counter()
    if not arguments.cells:
        print_tables(seed, n)
    print_scales(seed, n)
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
