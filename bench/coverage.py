"""Do nominal 95 % intervals hold the truth 95 % of the time? Simulated streams say.

    python bench/coverage.py                 # both tables, some ten minutes
    python bench/coverage.py --quick         # the same with few replicates, under a minute
    python bench/coverage.py --methods       # published alternatives beside ours
    python bench/coverage.py --bootstrap     # the percentile bootstrap beside ours

Each population has a known truth, by numerical integration. A stream draws its
number of positives from the prevalence, so the prevalence is as uncertain as
it is in production. All figures depend on the scores only through how many
negatives rank above each positive: these counts are drawn directly (a
multinomial over the gaps between the positives), which makes 1,000 positives
among 200,000 cases as cheap as 1,000 among 2,000.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import integrate, special, stats

from streameval._bootstrap import bootstrap_limits
from streameval._estimates import figure_of, limits_of, value_of
from streameval._groups import Groups
from streameval._limits import Figure, newcombe_variance

NAMES = ("auc_roc", "average_precision", "auc_pr")
PR_NAMES = NAMES[1:]
POSITIVES = (20, 100, 1_000)
PREVALENCES = (0.5, 0.05, 0.005)
LEVEL = 0.95
LOW, HIGH = 0.93, 0.98

Rng = np.random.Generator
Curve = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Population:
    """Two score distributions; `cuts` ties the scores, misses are never scored.

    Parameters
    ----------
    name : str
        What the table calls it.
    positive, negative : scipy frozen distribution
        Of the scores.
    cuts : tuple of float, optional
        Scores are tied between neighbouring cuts.
    missed : (float, float)
        Shares of the positives and of the negatives that are never scored.
    """

    name: str
    positive: stats.rv_continuous
    negative: stats.rv_continuous
    cuts: tuple[float, ...] = ()
    missed: tuple[float, float] = (0.0, 0.0)

    def shares(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the probability of each tied score, best first, in both classes."""
        edges = np.array([math.inf, *sorted(self.cuts, reverse=True), -math.inf])
        return np.diff(self.positive.sf(edges)), np.diff(self.negative.sf(edges))

    def draw(self, rng: Rng, P: int, N: int) -> Groups:
        """Return the groups of P positives and N negatives."""
        return self.looks(rng, np.array([[P, N]]))[0]

    def looks(self, rng: Rng, arrivals: np.ndarray) -> list[Groups]:
        """Return the cumulative groups after each row (P, N) of arrivals."""
        missed = rng.binomial(arrivals, self.missed)
        scored = arrivals - missed
        if self.cuts:
            share_p, share_n = self.shares()
            p = np.array([rng.multinomial(P, share_p) for P, _ in scored])
            n = np.array([rng.multinomial(N, share_n) for _, N in scored])
        else:
            size = int(scored[:, 0].sum())
            above = self.negative.sf(self.positive.rvs(size, random_state=rng))
            order = np.argsort(above)
            gaps = np.diff(above[order], prepend=0.0, append=1.0)
            # Negatives stand alone, between the positives: rows with p = 0.
            p = np.zeros((len(scored), 2 * size + 1), dtype=np.int64)
            n = np.zeros((len(scored), 2 * size + 1), dtype=np.int64)
            p[np.repeat(np.arange(len(scored)), scored[:, 0])[order], 1 + 2 * np.arange(size)] = 1
            n[:, 0::2] = [rng.multinomial(N, gaps) for _, N in scored]
        totals = missed.cumsum(axis=0)
        return [
            groups_of(pk, nk, int(mp), int(mn))
            for pk, nk, (mp, mn) in zip(p.cumsum(axis=0), n.cumsum(axis=0), totals)
        ]

    def truth(self, name: str, prevalence: float) -> float:
        """Return the figure of the whole population."""
        if self.cuts:
            p, n = self.shares()
            scale = 1e12  # counts so large that the empirical figure is the population's
            ratio = (1 - prevalence) / prevalence
            p_counts = np.maximum(np.rint(p * scale), 1).astype(np.int64)
            n_counts = np.rint(n * scale * ratio).astype(np.int64)
            return figure_of(groups_of(p_counts, n_counts, 0, 0), name).estimate
        keep_p, keep_n = 1 - self.missed[0], 1 - self.missed[1]
        ratio = (1 - prevalence) / prevalence

        def integrand(u: float) -> float:
            # Over the quantiles of the positives: u is the share above the score.
            tp = keep_p * u
            fp = keep_n * float(self.negative.sf(self.positive.isf(u)))
            if name == "auc_roc":
                return 1 - fp
            return tp / (tp + ratio * fp)

        area = keep_p * _integral(integrand)
        if name == "auc_roc":
            return area + self.missed[0] * (1 - keep_n) / 2
        if name == "auc_pr" and self.missed[0]:
            area += self.missed[0] * _integral(
                lambda s: (
                    (keep_p + s * self.missed[0])
                    / (keep_p + s * self.missed[0] + ratio * (keep_n + s * self.missed[1]))
                )
            )
        return area


def _integral(function: Callable[[float], float]) -> float:
    # The integrands bend at the ends on a logarithmic scale: substitute u = logistic(x).
    def substituted(x: float) -> float:
        u = special.expit(x)
        return function(u) * u * special.expit(-x)

    return sum(
        integrate.quad(substituted, a, b, limit=200, epsabs=1e-10)[0]
        for a, b in ((-45, -12), (-12, -4), (-4, 4), (4, 34))
    )


def groups_of(p: np.ndarray, n: np.ndarray, missed_p: int, missed_n: int) -> Groups:
    """Return groups from the counts of every distinct score, best first."""
    tp, fp = np.cumsum(p) - p, np.cumsum(n) - n
    rows = np.flatnonzero(p)
    return Groups(
        scores=-rows.astype(np.float64),
        p=p[rows].astype(np.int64),
        n=n[rows].astype(np.int64),
        tp=tp[rows].astype(np.int64),
        fp=fp[rows].astype(np.int64),
        missed_positives=missed_p,
        missed_negatives=missed_n,
        P=int(p.sum()) + missed_p,
        N=int(n.sum()) + missed_n,
    )


POPULATIONS = (
    Population("equal, d=0.5", stats.norm(0.5, 1), stats.norm()),
    Population("equal, d=1", stats.norm(1, 1), stats.norm()),
    Population("equal, d=2", stats.norm(2, 1), stats.norm()),
    Population("equal, d=3.3", stats.norm(3.3, 1), stats.norm()),
    Population("unequal, sd 2", stats.norm(1.5, 2), stats.norm()),
    Population("unequal, sd 0.5", stats.norm(1.5, 0.5), stats.norm()),
    Population("beta 5,2 / 2,5", stats.beta(5, 2), stats.beta(2, 5)),
    Population("beta 0.5,0.5 / 0.5,5", stats.beta(0.5, 0.5), stats.beta(0.5, 5)),
    Population("exponential 1 / 5", stats.expon(scale=1.0), stats.expon(scale=0.2)),
    Population("log-normal 1,1 / 0,0.5", stats.lognorm(1.0, scale=math.e), stats.lognorm(0.5)),
    Population("Student 3 df, d=2", stats.t(3, loc=2), stats.t(3)),
    Population("5 tied scores", stats.norm(1.5, 1), stats.norm(), (0, 0.75, 1.5, 2.25)),
    Population("tied at 0.25", stats.norm(1.5, 1), stats.norm(), tuple(np.arange(-12, 17) / 4)),
    Population("20 ties, d=3", stats.norm(3, 1), stats.norm(), tuple(np.arange(-6, 13) / 2)),
    Population("10 % missed", stats.norm(1.5, 1), stats.norm(), missed=(0.10, 0.05)),
)


def draw(population: Population, rng: Rng, positives: int, prevalence: float) -> Groups:
    """Return one stream with about so many positives, at least two of each class."""
    total = round(positives / prevalence)
    while True:
        P = int(rng.binomial(total, prevalence))
        if min(P, total - P) >= 2:
            return population.draw(rng, P, total - P)


def measure(
    population: Population, positives: int, prevalence: float, replicates: int, seed: int
) -> dict[str, tuple[float, float]]:
    """Return coverage and mean width of each interval, of streams of one kind."""
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


def id_of(population: Population) -> int:
    """Return the population's number, to seed it."""
    return POPULATIONS.index(population)


def print_coverage(replicates: int, seed: int) -> None:
    """Print a table for each figure: a row for each population, * where it is outside."""
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
        f"\nshare of {streams} streams missed at any of {looks} looks, every {per_look} positives"
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
    """Tell whether an interval, if there is one, misses the truth."""
    lower, upper = limits_of(figure, name, 1 - LEVEL, anytime=anytime)
    return truth < lower or truth > upper


# The published alternatives ------------------------------------------------

Z = stats.norm.isf((1 - LEVEL) / 2)
Limits = tuple[float, float]


def wald(figure: Figure, variance: float) -> Limits:
    """Return estimate -+ z standard errors."""
    half = Z * math.sqrt(variance)
    return figure.estimate - half, figure.estimate + half


def logit(figure: Figure, variance: float) -> Limits:
    """Return the limits that are symmetric on the logit scale; all of [0, 1] at its ends."""
    t = figure.estimate
    if not 0 < t < 1:
        return (0.0, 1.0)
    half = Z * math.sqrt(variance) / (t * (1 - t))
    return tuple(special.expit(math.log(t / (1 - t)) + np.array([-half, half])))


def inverted(figure: Figure, variance: Callable[[float], float]) -> Limits:
    """Return the t that are z standard errors, taken at t, from the estimate."""
    t = figure.estimate
    grid = np.linspace(0, 1, 20_001)
    inside = grid[np.abs(grid - t) <= Z * np.sqrt(variance(grid))]
    return (min(inside[0], t), max(inside[-1], t)) if len(inside) else (t, t)


def hanley_mcneil(figure: Figure) -> Callable[[float], float]:
    """Return the variance that two exponential score distributions would have."""
    P, N = figure.positives, figure.negatives

    def variance(t: float) -> float:
        spread = 1 + (P - 1) * (1 - t) / (2 - t) + (N - 1) * t / (1 + t)
        return t * (1 - t) * spread / (P * N)

    return variance


def binomial(figure: Figure) -> float:
    """Return Boyd's variance: the area as a share of the positives."""
    return figure.estimate * (1 - figure.estimate) / figure.positives


AUC_METHODS = {
    "DeLong": lambda f: wald(f, f.variance),
    "DeLong, logit": lambda f: logit(f, f.variance),
    "Hanley-McNeil 1982": lambda f: wald(f, hanley_mcneil(f)(f.estimate)),
    "Hanley-McNeil, inverted": lambda f: inverted(f, hanley_mcneil(f)),
    "Newcombe 2006, method 5": lambda f: inverted(
        f, lambda t: newcombe_variance(t, f.positives, f.negatives)
    ),
}
PR_METHODS = {
    "influence": lambda f: wald(f, f.variance),
    "influence, logit": lambda f: logit(f, f.variance),
    "Boyd 2013, binomial": lambda f: wald(f, binomial(f)),
    "Boyd 2013, logit": lambda f: logit(f, binomial(f)),
}


def print_methods(replicates: int, seed: int) -> None:
    """Print how often each method is outside over all cells, and how wide it is."""
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
    """Print the percentile bootstrap beside ours, where there are few positives."""
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
    """Print one line for each figure and method over all cells."""
    header = (
        f"{'figure':<20}{'method':<26}{'least':>8}{'most':>8}{'below':>8}{'above':>8}{'width':>8}"
    )
    print(f"\nover all cells; below {LOW}, above {HIGH}\n{header}")
    for (name, method), rows in results.items():
        coverage, width = np.array(rows).T
        print(
            f"{name:<20}{method:<26}{coverage.min():>8.3f}{coverage.max():>8.3f}"
            f"{(coverage < LOW).sum():>8}{(coverage > HIGH).sum():>8}{width.mean():>8.3f}"
        )


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, help="streams for each cell")
    parser.add_argument("--seed", type=int, default=20_261)
    parser.add_argument("--quick", action="store_true", help="few replicates")
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
