"""Score distributions whose metrics are known by numerical integration.

All metrics depend on the scores only through the number of negatives that rank
above each positive. These counts are drawn directly (a multinomial over the
gaps between the positives), so that 1,000 positives among 200,000 cases cost as
little as 1,000 among 2,000.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import integrate, special, stats

from streameval._counts.groups import Groups
from streameval._uncertainty.estimates import figure_of
from streameval.kernel import Run, ScoreCounts, State, evaluator_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval import Evaluator

Rng = np.random.Generator


@dataclass(frozen=True)
class Population:
    """Two score distributions, optionally tied and with misses.

    Parameters
    ----------
    name : str
        The name in the table.
    positive, negative : scipy frozen distribution
        The distributions of the scores.
    cuts : tuple of float, optional
        Scores between neighbouring cuts are tied.
    missed : (float, float)
        Shares of the positives and of the negatives that are never scored.
    """

    name: str
    positive: stats.rv_continuous
    negative: stats.rv_continuous | Contaminated
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
        """Return the metric of the whole population."""
        if self.cuts:
            p, n = self.shares()
            scale = 1e12  # counts so large that the empirical metric is the population's
            ratio = (1 - prevalence) / prevalence
            p_counts = np.maximum(np.rint(p * scale), 1).astype(np.int64)
            n_counts = np.rint(n * scale * ratio).astype(np.int64)
            return figure_of(groups_of(p_counts, n_counts, 0, 0), name).estimate
        keep_p, keep_n = 1 - self.missed[0], 1 - self.missed[1]
        ratio = (1 - prevalence) / prevalence

        def integrand(u: float) -> float:
            # u is the share of positives above the score.
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
    # The integrands vary on a logarithmic scale at both ends: substitute u = logistic(x).
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


def evaluator_with(
    scores: np.ndarray,
    positives: np.ndarray,
    negatives: np.ndarray,
    misses: tuple[int, int] = (0, 0),
) -> Evaluator:
    """Return an evaluator with these numbers of cases of each class at each score."""
    runs = (Run.of(scores, each.astype(np.int64)) for each in (positives, negatives))
    return evaluator_of(State(ScoreCounts(*runs), *misses))


def counted(groups: Groups) -> Evaluator:
    """Return the evaluator of groups, whose other negatives are tied between the positives."""
    nothing = np.zeros_like(groups.p)
    between = groups.fp - np.concatenate(([0], (groups.fp + groups.n)[:-1]))
    last = groups.N - groups.missed_negatives - int(groups.n.sum() + between.sum())
    place = np.arange(2 * groups.p.size + 1, dtype=np.float64)
    positives = np.append(np.stack((nothing, groups.p), axis=1), 0)
    negatives = np.append(np.stack((between, groups.n), axis=1), last)
    misses = groups.missed_positives, groups.missed_negatives
    return evaluator_with(-place, positives, negatives, misses)


@dataclass(frozen=True)
class Contaminated:
    """A distribution of which a share of the cases has another one."""

    usual: stats.rv_continuous
    other: stats.rv_continuous
    share: float

    def sf(self, scores: np.ndarray) -> np.ndarray:
        """Return the probability above each score."""
        return (1 - self.share) * self.usual.sf(scores) + self.share * self.other.sf(scores)


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
    Population("Student 3 df, d=3", stats.t(3, loc=3), stats.t(3)),
    Population("Student 3 df, d=4", stats.t(3, loc=4), stats.t(3)),
    Population("Student 3 df, d=6", stats.t(3, loc=6), stats.t(3)),
    Population("Student 5 df, d=4", stats.t(5, loc=4), stats.t(5)),
    Population("Student 2 df, d=4", stats.t(2, loc=4), stats.t(2)),
    Population(
        "1 % mislabelled", stats.norm(3), Contaminated(stats.norm(), stats.norm(3), share=0.01)
    ),
)


def draw(population: Population, rng: Rng, positives: int, prevalence: float) -> Groups:
    """Return one stream with about `positives` positives, and at least two of each class."""
    total = round(positives / prevalence)
    while True:
        P = int(rng.binomial(total, prevalence))
        if min(P, total - P) >= 2:
            return population.draw(rng, P, total - P)


def id_of(population: Population) -> int:
    """Return the population's index, for its seed."""
    return POPULATIONS.index(population)
