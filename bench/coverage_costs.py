"""Coverage of nominal 95 % intervals of the expected cost of errors, by simulation.

    python bench/coverage_costs.py   # one table, a few seconds

The counts of false and missed positives among independent cases are multinomial, so samples are
drawn as counts. A missed positive costs `ratio` times a false one. Beside ours stands the interval
of a mean by its standard error, estimate -+ 1.96 s/sqrt(n), which needs no shares.
"""

from __future__ import annotations

import argparse
import math
from typing import NamedTuple

import numpy as np

from streameval._metrics.confusion import Confusion
from streameval._metrics.costs import ErrorCosts
from streameval._uncertainty.error_costs import CostRule, error_shares

RATIOS = (1.0, 5.0, 20.0, 100.0)
LEVEL = 0.95


class Cell(NamedTuple):
    """A kind of window: its cases, and the shares of them that are errors of each kind."""

    cases: int
    false_positives: float
    missed: float


CELLS = (
    Cell(200, 0.10, 0.05),
    Cell(200, 0.30, 0.10),
    Cell(400, 0.03, 0.03),
    Cell(1_000, 0.05, 0.01),
    Cell(1_000, 0.20, 0.005),
    Cell(5_000, 0.02, 0.002),
    Cell(5_000, 0.10, 0.10),
    Cell(50_000, 0.01, 0.001),
    Cell(1_000, 0.05, 0.001),
)
"""From 5 to 500 missed positives expected; of the last, one."""


def ours(at: Confusion, costs: ErrorCosts, cases: int) -> tuple[float, float]:
    """Return the limits of the library."""
    shares = error_shares(at, costs, cases)
    return CostRule(costs=costs).limits(shares, 1 - LEVEL)


def by_standard_error(at: Confusion, costs: ErrorCosts, cases: int) -> tuple[float, float]:
    """Return estimate -+ 1.96 standard errors of the mean."""
    mean = (costs.cost_fp * at.fp + costs.cost_fn * at.fn) / cases
    square = (costs.cost_fp**2 * at.fp + costs.cost_fn**2 * at.fn) / cases
    half = 1.959964 * math.sqrt((square - mean**2) / cases)
    return mean - half, mean + half


def coverage(cell: Cell, ratio: float, replicates: int, rng: np.random.Generator) -> list[float]:
    """Return how often each method's limits hold the true cost."""
    costs = ErrorCosts(1.0, ratio)
    truth = cell.false_positives + ratio * cell.missed
    chances = [cell.false_positives, cell.missed, 1 - cell.false_positives - cell.missed]
    drawn = rng.multinomial(cell.cases, chances, size=replicates)
    counts, times = np.unique(drawn, axis=0, return_counts=True)
    held = [0, 0]
    for (fp, fn, right), number in zip(counts.tolist(), times.tolist(), strict=True):
        at = Confusion(0.0, tp=0, fp=fp, fn=fn, tn=right)
        for method, limits in enumerate((ours, by_standard_error)):
            lower, upper = limits(at, costs, cell.cases)
            held[method] += number * (lower <= truth <= upper)
    return [each / replicates for each in held]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--replicates", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=20_261)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    print("cases  false positives  missed  " + "  ".join(f"{r:>13g}" for r in RATIOS))
    for cell in CELLS:
        found = [coverage(cell, ratio, options.replicates, rng) for ratio in RATIOS]
        cells = "  ".join(f"{100 * a:5.1f} ({100 * b:5.1f})" for a, b in found)
        print(f"{cell.cases:>5}  {cell.false_positives:>15.1%}  {cell.missed:>6.1%}  {cells}")


if __name__ == "__main__":
    main()
