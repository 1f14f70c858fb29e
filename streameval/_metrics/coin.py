"""A weighted coin between two thresholds, which reaches any point of the ROC hull."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from streameval._common.result import Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval._metrics.operating_points import Curve


@dataclass(frozen=True, slots=True, eq=False)
class Coin(Result):
    """Two thresholds and a probability that together reach a point between two vertices.

    A case with score >= `high` is called positive, and one below `low` negative. A case
    between them is called positive with `probability`, each by a toss of its own.

    Attributes
    ----------
    high, low : float
        Thresholds of neighbouring vertices of the hull; equal where the point is a
        vertex. +inf calls nothing positive; -inf calls everything positive, references
        that were never scored included.
    probability : float
        Of calling a case between them positive; 0.0 where both are equal.
    recall, fpr : float
        The rates to expect on the counted cases.

    Examples
    --------
    >>> import numpy as np
    >>> coin = Coin(high=0.9, low=0.4, probability=0.5, recall=0.75, fpr=0.25)
    >>> scores, rng = np.array([0.95, 0.5, 0.1]), np.random.default_rng(7)
    >>> cut = np.where(rng.random(scores.size) < coin.probability, coin.low, coin.high)
    >>> scores >= cut
    array([ True, False, False])
    """

    high: float
    low: float
    probability: float
    recall: float
    fpr: float

    def __iter__(self) -> Iterator[float]:
        """Yield `high`, `low`, `probability`: ``high, low, probability = coin``."""
        yield from (self.high, self.low, self.probability)


def coin_for_recall(hull: Curve, target: float) -> Coin:
    """Return the coin with this recall and the lowest false positive rate. O(H)."""
    if not (hull.P and hull.N):
        return _undefined()
    tp = _count(target, [int(x) for x in hull.tp], int(hull.P))
    # The first vertex that has enough: of several, the one with the fewest false positives.
    right = int(np.searchsorted(hull.tp, math.ceil(tp)))
    return _between(hull, right, tp - int(hull.tp[right - 1]), "tp") if right else _vertex(hull, 0)


def coin_for_fpr(hull: Curve, target: float) -> Coin:
    """Return the coin with this false positive rate and the highest recall. O(H)."""
    if not (hull.P and hull.N):
        return _undefined()
    fp = _count(target, [int(x) for x in hull.fp], int(hull.N))
    # The last vertex that is allowed: of several, the one with the most true positives.
    left = int(np.searchsorted(hull.fp, math.floor(fp), side="right")) - 1
    last = left + 1 == len(hull)
    return _vertex(hull, left) if last else _between(hull, left + 1, fp - int(hull.fp[left]), "fp")


def _count(target: float, counts: list[int], total: int) -> Fraction:
    """Return target times total; the count itself where its rate, as a double, is the target."""
    exact = next((count for count in counts if count / total == target), None)
    return Fraction(target) * total if exact is None else Fraction(exact)


def _between(hull: Curve, right: int, beyond: Fraction, axis: str) -> Coin:
    """Return the coin on the edge before vertex `right`, `beyond` counts from its left end."""
    left = right - 1
    dfp = int(hull.fp[right]) - int(hull.fp[left])
    dtp = int(hull.tp[right]) - int(hull.tp[left])
    share = beyond / (dtp if axis == "tp" else dfp)
    if share in (0, 1):
        return _vertex(hull, left + int(share))
    return Coin(
        high=float(hull.thresholds[left]),
        low=float(hull.thresholds[right]),
        probability=float(share),
        recall=float((int(hull.tp[left]) + share * dtp) / hull.P),
        fpr=float((int(hull.fp[left]) + share * dfp) / hull.N),
    )


def _vertex(hull: Curve, row: int) -> Coin:
    threshold = float(hull.thresholds[row])
    recall, fpr = int(hull.tp[row]) / hull.P, int(hull.fp[row]) / hull.N
    return Coin(high=threshold, low=threshold, probability=0.0, recall=recall, fpr=fpr)


def _undefined() -> Coin:
    return Coin(math.nan, math.nan, math.nan, math.nan, math.nan)
