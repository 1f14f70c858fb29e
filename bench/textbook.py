"""Intervals as textbooks give them, from plain formulas, to stand beside ours.

AUC-ROC: DeLong, DeLong and Clarke-Pearson (1988). Shares of cases: Wilson (1927). Areas in
precision-recall space: the logit of a binomial share of the positives (Boyd, Eng and Page 2013).
Clusters and weights: the linearised statistic's totals (Horvitz and Thompson 1952, Obuchowski
1997 for AUC-ROC), with Student's t of as many degrees as clusters, or cases, less one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special, stats

if TYPE_CHECKING:
    from streameval._counts.groups import Groups

Limits = tuple[float, float]

Z = float(stats.norm.isf(0.025))
MIN_CLUSTERS = 20
UNDEFINED = (math.nan, math.nan)


def wald(estimate: float, variance: float) -> Limits:
    """Return estimate -+ z standard errors."""
    half = Z * math.sqrt(variance)
    return estimate - half, estimate + half


def wilson(hits: float, cases: float) -> Limits:
    """Return Wilson's limits of a share of cases."""
    if cases < 1:
        return UNDEFINED
    share, room = hits / cases, Z * Z / cases
    middle = (share + room / 2) / (1 + room)
    half = math.sqrt(room * share * (1 - share) + room * room / 4) / (1 + room)
    return middle - half, middle + half


def logit(area: float, positives: float) -> Limits:
    """Return the limits of an area in precision-recall space; [0, 1] for an area of 0 or 1."""
    if not 0 < area < 1:
        return (0.0, 1.0)
    half = Z / math.sqrt(positives * area * (1 - area))
    middle = math.log(area / (1 - area))
    return float(special.expit(middle - half)), float(special.expit(middle + half))


def delong(groups: Groups) -> Limits:
    """Return DeLong's limits of AUC-ROC of exact scores without misses."""
    P, N, p, n = groups.P, groups.N, groups.p, groups.n
    of_positives = 1 - (groups.fp + n / 2) / N
    area = float(p @ of_positives) / P
    # Negatives at a positive's score, and between one positive's score and the next.
    between = np.diff(np.append(groups.fp, N), prepend=0.0)
    between[1:] -= n
    above = np.concatenate((groups.tp + p / 2, groups.tp, [P])) / P
    cases = np.concatenate((n, between))
    spread = float(p @ (of_positives - area) ** 2) / (P * (P - 1))
    return wald(area, spread + float(cases @ (above - area) ** 2) / (N * (N - 1)))


class Sample(NamedTuple):
    """Cases, and what a figure at a threshold is asked at."""

    labels: np.ndarray
    scores: np.ndarray
    weights: np.ndarray
    threshold: float = 0.0
    costs: tuple[float, float] = (1.0, 1.0)


def influences(name: str, sample: Sample) -> np.ndarray:
    """Return each case's share of the figure's error, times its weight."""
    labels, scores, w, threshold, costs = sample
    called = scores >= threshold
    if name == "auc_roc":
        return w * _of_auc(labels, scores, w)
    if name == "average_precision":
        return w * _of_average_precision(labels, scores, w)
    cost = np.where(labels, np.where(called, 0.0, costs[1]), np.where(called, costs[0], 0.0))
    counts, value = {
        "prevalence": (np.ones_like(w), labels.astype(float)),
        "recall": (labels, called),
        "fpr": (~labels, called),
        "precision": (called, labels),
        "expected_cost": (np.ones_like(w), cost),
    }[name]
    total = float(w @ counts)
    if total == 0:
        return np.full(w.size, math.nan)
    share = float(w @ (counts * value)) / total
    return w * counts * (value - share) / total


def of_totals(estimate: float, totals: np.ndarray) -> Limits:
    """Return the limits from the totals of clusters, or of cases; nan of too few clusters."""
    size = totals.size
    if size < MIN_CLUSTERS:
        return UNDEFINED
    half = stats.t.isf(0.025, size - 1) * math.sqrt(size / (size - 1) * float(totals @ totals))
    return estimate - half, estimate + half


def _of_auc(labels: np.ndarray, scores: np.ndarray, w: np.ndarray) -> np.ndarray:
    order = np.argsort(-scores)
    y, sorted_w = labels[order], w[order]
    tp, fp = np.cumsum(sorted_w * y), np.cumsum(sorted_w * ~y)
    P, N = tp[-1], fp[-1]
    placement = np.where(y, 1 - fp / N, tp / P)
    area = float((sorted_w * y) @ placement) / P
    found = np.empty_like(w)
    found[order] = (placement - area) / np.where(y, P, N)
    return found


def _of_average_precision(labels: np.ndarray, scores: np.ndarray, w: np.ndarray) -> np.ndarray:
    order = np.argsort(-scores)
    y, sorted_w = labels[order], w[order]
    tp, fp = np.cumsum(sorted_w * y), np.cumsum(sorted_w * ~y)
    P, above = tp[-1], tp + fp
    hits = sorted_w * y / above**2
    helped, hurt = (np.cumsum((hits * each)[::-1])[::-1] for each in (fp, tp))
    precision = tp / above
    area = float((sorted_w * y) @ precision) / P
    found = np.empty_like(w)
    found[order] = np.where(y, precision - area + helped, -hurt) / P
    return found
