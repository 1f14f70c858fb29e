"""The gradient of a metric: its derivatives by the number of cases of each class in each cell.

A metric is a function of the counts p_k and n_k of its cells, the distinct scores and the
misses. With its gradient, a variance under weights, clusters or projected labels needs no
further formula of the metric. Areas are homogeneous of degree 0: each gradient times the
counts sums to 0. An area's gradient is made of the influences that intervals use;
`rate_gradients` has the gradients of means over cases and of rates at a threshold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.exact import dot
from streameval._counts.groups import Groups
from streameval._metrics.influence import Derivatives, Influence, auc_pr_influence, sums_from
from streameval._metrics.pr_areas import auc_pr_value, phi

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval._common.arrays import FloatArray
    from streameval._counts.view import View


@dataclass(frozen=True, slots=True, eq=False)
class Gradient:
    """The derivatives of a metric by the counts of each cell.

    Attributes
    ----------
    positive, negative : float64[K]
        By the positives and by the negatives of each cell, in the order of `cells_of`.
        Where a cell has no case of a class, the derivative of adding the first.
    """

    positive: FloatArray
    negative: FloatArray

    def variance(self, cells: Groups) -> float:
        """Return the metric's sampling variance where cases are independent. O(K).

        Each case moves the metric by the derivative of its cell, so the variance is the
        sum of their squares over the cases.
        """
        return dot(cells.p, self.positive**2) + dot(cells.n, self.negative**2)


def cells_of(view: View) -> Groups:
    """Return every distinct score as a row, best first, and the misses as the last. O(K).

    Unlike in other `Groups`, rows may have no positives.
    """
    thresholds, fp, tp = view.cumulative
    return Groups(
        scores=thresholds[1:],
        p=np.diff(tp),
        n=np.diff(fp),
        tp=tp[:-1],
        fp=fp[:-1],
        missed_positives=0,
        missed_negatives=0,
        P=view.P,
        N=view.N,
    )


def area_gradient(
    cells: Groups,
    influence: Callable[[Groups, float | None], Influence],
    prevalence: float | None = None,
    *,
    counts_misses: bool = True,
) -> Gradient:
    """Return the gradient of an area, from the influence of each case. O(K).

    Parameters
    ----------
    cells : Groups
        All cells, with at least one case of each class.
    influence : callable
        The area's, for groups and a prevalence.
    prevalence : float or None
        Held fixed: then the weight of a negative depends on P and N.
    counts_misses : bool
        Whether the misses are one more tied group. If not, they only add to P and N.
    """
    ranked = cells if counts_misses else _without_misses(cells)
    found = influence(ranked, prevalence)
    missing = np.zeros(cells.p.size - ranked.p.size)
    positive = np.concatenate((found.positive, missing))
    negative = np.concatenate((found.tied, missing))
    # By Euler's theorem the means of the influences are the area, and its slope by the
    # prevalence, which moves with P and N unless it is held.
    slope = 0.0 if prevalence is not None else found.prevalence_slope
    positive -= dot(cells.p, positive) / cells.P - slope
    negative -= dot(cells.n, negative) / cells.N + slope
    return Gradient(positive / cells.P, negative / cells.N)


@dataclass(frozen=True, slots=True)
class Estimator:
    """A metric as a function of groups, and how it moves with their counts.

    Attributes
    ----------
    value : callable
        (groups, prevalence) to the metric; prevalence is None unless it is rescaled.
    influence : callable
        (groups, prevalence) to the influence of each case.
    derivatives : callable or None
        (groups, prevalence) to the derivatives by each group's counts; None where the
        influence is not accumulated from them.
    counts_misses : bool
        Whether the misses are one more tied group, below every case.
    in_cells : Estimator or None
        Of the same area where groups are cells that hide an order: its mean over the
        orders, to which ties of the metric itself would add a bias. None: itself.
    """

    value: Callable[[Groups, float | None], float]
    influence: Callable[[Groups, float | None], Influence]
    derivatives: Callable[[Groups, float | None], Derivatives] | None = None
    counts_misses: bool = True
    in_cells: Estimator | None = None

    def counted(self, groups: Groups) -> Groups:
        """Return the groups that the functions take, from groups without the misses. O(G)."""
        return groups.with_misses() if self.counts_misses else groups

    def gradient(self, cells: Groups, prevalence: float | None = None) -> Gradient:
        """Return the derivatives by the counts of all cells, made of the influence. O(K)."""
        return area_gradient(cells, self.influence, prevalence, counts_misses=self.counts_misses)


def normalized_gradient(cells: Groups) -> Gradient:
    """Return the gradient of `auc_pr_normalized`, (area - least)/(1 - least). O(K)."""
    area, ratio = auc_pr_value(cells), cells.P / cells.N
    rest = 1 - phi(ratio)
    moved = area_gradient(cells, auc_pr_influence)
    # The least area is phi(P/N).
    slope = (math.log1p(ratio) - ratio / (1 + ratio)) / ratio**2
    by_least = (area - 1) / rest**2 * slope
    return Gradient(
        moved.positive / rest + by_least / cells.N,
        moved.negative / rest - by_least * ratio / cells.N,
    )


def gain_gradient(cells: Groups) -> Gradient:
    """Return the gradient of `auc_prg`. O(K).

    With u = 1/TP and the precision gain h = 1 - (P/N) FP u, the area is P^2/N times the sum
    of (u_j - u_j+1)(h_j + h_j+1)/2 over the points j from recall gain 0 on. The first is
    on the segment that it divides.
    """
    P, N = cells.P, cells.N
    ratio = P / N
    tp = (cells.tp + cells.p).astype(np.float64)
    fp = (cells.fp + cells.n).astype(np.float64)
    start = P * P / (P + N)
    first = int(np.searchsorted(tp, start, side="right"))
    last_tp, last_fp = float(cells.tp[first]), float(cells.fp[first])
    p, n = float(cells.p[first]), float(cells.n[first])
    share = (start - last_tp) / p
    u = 1 / np.append(start, tp[first:])
    y = np.append(last_fp + share * n, fp[first:])
    h = 1 - ratio * y * u
    scale = P * ratio
    height, width = h[:-1] + h[1:], u[:-1] - u[1:]
    by_u = scale / 2 * (np.append(height, 0.0) - np.append(0.0, height))
    by_h = scale / 2 * (np.append(width, 0.0) + np.append(0.0, width))
    by_tp = -(u * u) * (by_u - ratio * y * by_h)
    by_fp = -ratio * u * by_h
    # Derivatives by the points: a whole cell's point moves with this cell and all above it.
    point_tp = np.zeros(tp.size)
    point_fp = np.zeros(tp.size)
    point_tp[first:], point_fp[first:] = by_tp[1:], by_fp[1:]
    # The first point is (start, last_fp + share n), share = (start - last_tp)/p.
    point_tp[first] -= by_fp[0] * n * share / p
    point_fp[first] += by_fp[0] * share
    positive, negative = sums_from(point_tp)[:-1], sums_from(point_fp)[:-1]
    positive[:first] += by_fp[0] * n * (share - 1) / p
    negative[:first] += by_fp[0] * (1 - share)
    by_start = by_tp[0] + by_fp[0] * n / p
    area = scale * dot(width, height) / 2
    # P^2/N and P/N, and the start P^2/(P + N).
    by_ratio = -dot(by_h, y * u)
    by_P = 2 * area / P + by_ratio / N + by_start * (P * (P + 2 * N)) / (P + N) ** 2
    by_N = -area / N - by_ratio * ratio / N - by_start * (P / (P + N)) ** 2
    return Gradient(positive + by_P, negative + by_N)


def _without_misses(cells: Groups) -> Groups:
    """Return the rows of scored cases; P and N include the misses."""
    if cells.scores.size and math.isinf(cells.scores[-1]):
        return Groups(
            scores=cells.scores[:-1],
            p=cells.p[:-1],
            n=cells.n[:-1],
            tp=cells.tp[:-1],
            fp=cells.fp[:-1],
            missed_positives=int(cells.p[-1]),
            missed_negatives=int(cells.n[-1]),
            P=cells.P,
            N=cells.N,
        )
    return cells
