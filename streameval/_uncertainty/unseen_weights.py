"""The greatest weight of a case that a sample of weighted cases may not have.

A design that labels each case with a probability of at least p gives no case a weight of more
than 1/p. Where p is declared that is the bound: nothing in the sample can tell it. Other weights
have no bound, so half an unseen case of twice the largest weight seen is allowed for. Where a
single case has more than `MAX_SHARE` of the sum of squared weights, the variance would be an
estimate from this case, and there are no limits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streameval._uncertainty.limits import TOO_FEW_EFFECTIVE

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray
    from streameval._counts.multiset import ScoreCounts
    from streameval._counts.run import Run
    from streameval._counts.view import View

MAX_SHARE = 1 / 5
"""Of one case in the sum of squared weights, where no design bounds the weights."""


class UnseenWeight(NamedTuple):
    """What an unseen case weighs at most.

    Attributes
    ----------
    units : float
        Its weight, in units.
    cases : float
        How many of them stand for one unseen case: 1, or 1/2 where twice the largest weight
        stands for the bound.
    is_declared : bool
        Whether a design bounds the weights, and no weight exceeds it.
    refused : str or None
        Why figures have no limits.
    """

    units: float
    cases: float
    is_declared: bool
    refused: str | None

    def beyond(self, units: float) -> float:
        """Return the weight of the unseen cases beyond what a seen case weighs, in units."""
        return self.cases * max(self.units - units, 0.0)


def unseen_weight(view: View, weighted: ScoreCounts) -> UnseenWeight:
    """Return what an unseen case weighs at most. O(K), cached."""
    return view.cached("unseen weight", lambda: _unseen_weight(view, weighted))


def assumed_weight(view: View) -> float:
    """Return what an unseen case is assumed to weigh; nan where a design says it. O(K)."""
    unseen = None if view.weighted is None else unseen_weight(view, view.weighted)
    if unseen is None or unseen.is_declared:
        return math.nan
    return unseen.units / view.unit


def _unseen_weight(view: View, weighted: ScoreCounts) -> UnseenWeight:
    least = view.min_label_probability
    runs = [run for run in weighted.runs if len(run)]
    if least is not None and all(
        _least_largest(run).max() <= view.unit / least + 1 for run in runs
    ):
        return UnseenWeight(view.unit / least, 1.0, True, None)
    largest = max([_largest(run) for run in runs], default=0.0)
    missed = view.missed_positives + view.missed_negatives  # which weigh 1 each
    if missed:
        largest = max(largest, float(view.unit))
    squares = float(missed) * view.unit + sum(float(run.squares().sum()) for run in runs)
    refused = TOO_FEW_EFFECTIVE if largest**2 > MAX_SHARE * squares else None
    return UnseenWeight(2 * largest, 0.5, False, refused)


def _least_largest(run: Run) -> FloatArray:
    """Return what the largest weight of each cell is at least: sum w^2 over sum w."""
    return run.squares() / run.multiplicities()


def _largest(run: Run) -> float:
    """Return the largest weight, in units: exactly where scores are distinct.

    A cell of several cases keeps sums only. Its largest weight is at most so far above the mean
    that all others are equal (Samuelson 1968), and is taken as at most twice `_least_largest`.
    """
    cases, mean = run.cases, run.multiplicities() / run.cases
    spread = np.sqrt(np.maximum(run.squares() / cases - mean**2, 0.0) * (cases - 1))
    return float(np.minimum(mean + spread, 2 * _least_largest(run)).max())
