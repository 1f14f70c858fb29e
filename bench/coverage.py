"""Coverage of nominal 95 % intervals, by simulation.

    python bench/coverage.py                 # both tables, some ten minutes
    python bench/coverage.py --quick         # the same with few replicates, under a minute
    python bench/coverage.py --methods       # published alternatives beside ours
    python bench/coverage.py --bootstrap     # the percentile bootstrap beside ours

Each stream draws its number of positives from the prevalence, so the prevalence
is as uncertain as in production. bench/populations.py defines the populations,
bench/interval_methods.py the alternative methods.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

import numpy as np
from interval_methods import AUC_METHODS, PR_METHODS
from populations import POPULATIONS, Population, draw, id_of

from streameval._uncertainty.bootstrap import bootstrap_limits
from streameval._uncertainty.estimates import figure_of, limits_of, value_of

if TYPE_CHECKING:
    from streameval._uncertainty.limits import Figure

NAMES = ("auc_roc", "average_precision", "auc_pr")
PR_NAMES = NAMES[1:]
POSITIVES = (20, 100, 200, 1_000)
PREVALENCES = (0.5, 0.05, 0.005)
LEVEL = 0.95
LOW, HIGH = 0.93, 0.98


def measure(
    population: Population, positives: int, prevalence: float, replicates: int, seed: int
) -> dict[str, tuple[float, float]]:
    """Return coverage and mean width of each interval over streams of one kind."""
    rng = np.random.default_rng([seed, positives, round(1 / prevalence), id_of(population)])
    truth = {name: population.truth(name, prevalence) for name in NAMES}
    kinds = [(name, None) for name in NAMES] + [(name, prevalence) for name in PR_NAMES]
    held = dict.fromkeys(kinds, 0)
    width = dict.fromkeys(kinds, 0.0)
    for _ in range(replicates):
        groups = draw(population, rng, positives, prevalence)
        for name, fixed in kinds:
            lower, upper = limits_of(figure_of(groups, name, fixed), name, 1 - LEVEL)
            held[name, fixed] += lower <= truth[name] <= upper
            width[name, fixed] += upper - lower
    return {
        name + (" at a known prevalence" if fixed else ""): (
            held[name, fixed] / replicates,
            width[name, fixed] / replicates,
        )
        for name, fixed in kinds
    }


def print_coverage(replicates: int, seed: int) -> None:
    """Print a table for each metric: a row for each population, * where it is outside."""
    cells = [(pi, P) for pi in PREVALENCES for P in POSITIVES]
    measured = {
        (population.name, cell): measure(population, cell[1], cell[0], replicates, seed)
        for population in POPULATIONS
        for cell in cells
    }
    for figure in next(iter(measured.values())):
        print(f"\n{figure}: coverage of nominal {LEVEL:.2f}, * outside [{LOW}, {HIGH}]")
        print(f"{'prevalence':<24}" + "".join(f"{pi:>8}" for pi, _ in cells))
        print(f"{'positives':<24}" + "".join(f"{P:>8,}" for _, P in cells))
        outside = 0
        for population in POPULATIONS:
            row = [measured[population.name, cell][figure][0] for cell in cells]
            outside += sum(not LOW <= value <= HIGH for value in row)
            marks = (f"{v:>7.3f}{' ' if LOW <= v <= HIGH else '*'}" for v in row)
            print(f"{population.name:<24}" + "".join(marks))
        print(f"{outside} of {len(POPULATIONS) * len(cells)} outside")


def print_anytime(streams: int, seed: int) -> None:
    """Print the share of streams whose interval missed the truth at any of 60 looks."""
    looks, per_look = 60, 50
    print(
        f"\nshare of {streams} streams whose interval misses the true value at any of "
        f"{looks} looks, one every {per_look} positives"
    )
    print(f"{'population':<24}{'prevalence':>11}" + "".join(f"{name:>28}" for name in NAMES))
    print(" " * 35 + f"{'fixed':>18}{'anytime':>10}" * len(NAMES))
    worst = 0.0
    for population in POPULATIONS:
        for prevalence in (0.5, 0.05):
            rng = np.random.default_rng([seed, round(1 / prevalence), id_of(population)])
            truth = {name: population.truth(name, prevalence) for name in NAMES}
            missed = {(name, anytime): 0 for name in NAMES for anytime in (False, True)}
            for _ in range(streams):
                total = round(per_look / prevalence)
                arrived = rng.binomial(total, prevalence, size=looks)
                stream = population.looks(rng, np.stack((arrived, total - arrived), axis=1))
                figures = [{name: figure_of(groups, name) for name in NAMES} for groups in stream]
                for name, anytime in missed:
                    missed[name, anytime] += any(
                        misses(look[name], name, truth[name], anytime=anytime) for look in figures
                    )
            shares = [count / streams for count in missed.values()]
            worst = max(worst, *shares[1::2])
            print(
                f"{population.name:<24}{prevalence:>11}"
                + "".join(f"{a:>18.3f}{b:>10.3f}" for a, b in zip(shares[::2], shares[1::2]))
            )
    print(f"anytime, worst: {worst:.3f}")


def misses(figure: Figure, name: str, truth: float, *, anytime: bool) -> bool:
    """Return whether an interval exists and misses the true value."""
    lower, upper = limits_of(figure, name, 1 - LEVEL, anytime=anytime)
    return truth < lower or truth > upper


def print_methods(replicates: int, seed: int) -> None:
    """Print the coverage of each method over all cells, and its mean width."""
    results: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for population in POPULATIONS:
        for prevalence in PREVALENCES:
            truth = {name: population.truth(name, prevalence) for name in NAMES}
            for positives in POSITIVES:
                rng = np.random.default_rng(
                    [seed, positives, round(1 / prevalence), id_of(population)]
                )
                drawn = [draw(population, rng, positives, prevalence) for _ in range(replicates)]
                for name in NAMES:
                    figures = [figure_of(groups, name) for groups in drawn]
                    methods = dict(AUC_METHODS if name == "auc_roc" else PR_METHODS)
                    methods["streameval"] = lambda f, name=name: limits_of(f, name, 1 - LEVEL)
                    for method, limits in methods.items():
                        found = np.array([limits(figure) for figure in figures])
                        held = (found[:, 0] <= truth[name]) & (truth[name] <= found[:, 1])
                        clipped = np.clip(found, 0, 1)
                        width = (clipped[:, 1] - clipped[:, 0]).mean()
                        results.setdefault((name, method), []).append((held.mean(), width))
    print_summary(results)


def print_bootstrap(replicates: int, seed: int) -> None:
    """Print the percentile bootstrap beside ours, for small numbers of positives."""
    results: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for population in POPULATIONS:
        for prevalence in PREVALENCES:
            truth = {name: population.truth(name, prevalence) for name in NAMES}
            for positives in POSITIVES[:2]:
                rng = np.random.default_rng(
                    [seed, positives, round(1 / prevalence), id_of(population)]
                )
                found = {(name, m): [] for name in NAMES for m in ("bootstrap", "streameval")}
                for replicate in range(replicates):
                    groups = draw(population, rng, positives, prevalence)
                    for name in NAMES:
                        found[name, "bootstrap"].append(
                            bootstrap_limits(
                                groups,
                                lambda resampled, name=name: value_of(resampled, name, None),
                                alpha=1 - LEVEL,
                                fixed_prevalence=False,
                                resamples=400,
                                seed=replicate,
                            )
                        )
                        figure = figure_of(groups, name)
                        found[name, "streameval"].append(limits_of(figure, name, 1 - LEVEL))
                for (name, method), limits in found.items():
                    lower, upper = np.array(limits).T
                    held = (lower <= truth[name]) & (truth[name] <= upper)
                    row = (held.mean(), (upper - lower).mean())
                    results.setdefault((name, method), []).append(row)
    print_summary(results)


def print_summary(results: dict[tuple[str, str], list[tuple[float, float]]]) -> None:
    """Print one line for each metric and method over all cells."""
    header = (
        f"{'metric':<20}{'method':<26}{'least':>8}{'most':>8}{'below':>8}{'above':>8}{'width':>8}"
    )
    print(f"\nover all cells; below {LOW}, above {HIGH}\n{header}")
    for (name, method), rows in results.items():
        coverage, width = np.array(rows).T
        print(
            f"{name:<20}{method:<26}{coverage.min():>8.3f}{coverage.max():>8.3f}"
            f"{(coverage < LOW).sum():>8}{(coverage > HIGH).sum():>8}{width.mean():>8.3f}"
        )


def main() -> None:
    """Run the tables that the options select."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, help="streams for each cell")
    parser.add_argument("--seed", type=int, default=20_261)
    parser.add_argument("--quick", action="store_true", help="fewer replicates")
    parser.add_argument("--methods", action="store_true", help="published alternatives")
    parser.add_argument("--bootstrap", action="store_true", help="the percentile bootstrap")
    arguments = parser.parse_args()
    replicates = arguments.replicates or (20 if arguments.quick else 2_000)
    print(f"seed {arguments.seed}, {replicates} replicates")
    start = time.perf_counter()
    if arguments.methods:
        print_methods(replicates, arguments.seed)
    elif arguments.bootstrap:
        print_bootstrap(max(replicates // 10, 10), arguments.seed)
    else:
        print_coverage(replicates, arguments.seed)
        print_anytime(max(replicates // 10, 2), arguments.seed)
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
