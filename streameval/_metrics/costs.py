"""Costs of errors: the best threshold for given costs, and the cost curve for all.

Both are read from the ROC hull. If a false positive costs c1 and a false negative c0,
the total c1 FP + c0 FN is least at the vertex of the hull where the slope dTP/dFP
passes c1/c0. The cost curve (Drummond and Holte 2006) shows that least cost for every
ratio of costs and every prevalence at once: each vertex is a straight line there, and
the curve is the lower envelope of these lines. O(log H) and O(H) for H vertices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.result import Result, rows_of
from streameval._common.values import real, shown

if TYPE_CHECKING:
    import numpy.typing as npt

    from streameval._common.arrays import FloatArray
    from streameval._metrics.hull import Vertices


class ErrorCosts(NamedTuple):
    """What an error costs: a false positive, and a false negative; not both 0."""

    cost_fp: float
    cost_fn: float

    @property
    def high(self) -> float:
        """The larger cost."""
        return max(self)

    @property
    def relative(self) -> ErrorCosts:
        """The same as parts of the larger cost, whose squares do not overflow."""
        return ErrorCosts(self.cost_fp / self.high, self.cost_fn / self.high)


@dataclass(frozen=True, slots=True, eq=False)
class CostCurve(Result):
    """The least expected cost against the odds and costs of deployment.

    The horizontal axis is the probability-cost
    PC = pi c0 / (pi c0 + (1 - pi) c1), for prevalence pi, cost c0 of a false
    negative and c1 of a false positive. The vertical axis is the normalised
    expected cost FNR PC + FPR (1 - PC), which is 1 if every decision is wrong. Always
    or never calling positive costs min(PC, 1 - PC).

    Attributes
    ----------
    probability_cost : float64[K+1]
        From 0 to 1, ascending: the ends of the pieces.
    cost : float64[K+1]
        The least normalised expected cost at these ends; linear between them.
    thresholds : float64[K]
        The best threshold on each piece, from +inf (call nothing positive) to the
        lowest (call everything positive).

    Examples
    --------
    >>> from streameval import Evaluator
    >>> ev = Evaluator()
    >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[4, 3, 2, 1])
    >>> ev.cost_curve().at([0.0, 0.5, 1.0]).tolist()
    [0.0, 0.25, 0.0]
    """

    probability_cost: FloatArray
    cost: FloatArray
    thresholds: FloatArray

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each end of a piece, with the best threshold of the piece after it.

        The threshold of the last row is nan. O(K).
        """
        ends = {"probability_cost": self.probability_cost, "cost": self.cost}
        return rows_of({**ends, "threshold": np.append(self.thresholds, np.nan)[: self.cost.size]})

    def at(self, probability_cost: npt.ArrayLike) -> FloatArray:
        """Return the least normalised expected cost.

        Parameters
        ----------
        probability_cost : array_like of float
            Values in [0, 1].

        Returns
        -------
        float64[...]
            Of the same shape; nan if the curve is undefined.

        Raises
        ------
        InvalidInputError
            When a value is outside [0, 1].

        Notes
        -----
        O(k log K) for k values.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.4, 0.1])
        >>> ev.cost_curve().at([0.25, 0.5])
        array([0.125, 0.25 ])
        """
        wanted = np.asarray(probability_cost, dtype=np.float64)
        bad = np.flatnonzero(~((wanted >= 0) & (wanted <= 1)))
        if bad.size:
            index = int(bad[0])
            raise InvalidInputError(
                f"probability_cost must be between 0 and 1, got {wanted.ravel()[index]}"
                f" at index {index}",
                field="probability_cost",
                index=index,
            )
        if not self.probability_cost.size:
            return np.full(wanted.shape, np.nan)
        return np.interp(wanted, self.probability_cost, self.cost)


def cost_envelope(hull: Vertices, P: int, N: int) -> CostCurve:
    """Return the lower envelope of the vertices' lines; empty unless P, N > 0."""
    if P == 0 or N == 0:
        empty = np.empty(0)
        return CostCurve(probability_cost=empty, cost=empty, thresholds=empty)
    d_fpr, d_tpr = np.diff(hull.fp) / N, np.diff(hull.tp) / P
    # Neighbouring lines cross where PC d_tpr = (1 - PC) d_fpr.
    crossing = d_fpr / (d_fpr + d_tpr)
    # Where slopes nearly agree, rounding must not put the crossings out of order.
    at = np.maximum.accumulate(np.concatenate(([0.0], crossing, [1.0])))
    fpr, fnr = hull.fp / N, (P - hull.tp) / P
    left = fnr * at[:-1] + fpr * (1 - at[:-1])
    cost = np.append(left, 0.0)
    # A vertical first or horizontal last segment of the hull gives a piece of width 0.
    wide = np.diff(at) > 0
    curve = CostCurve(
        probability_cost=np.append(at[:-1][wide], 1.0),
        cost=np.append(cost[:-1][wide], 0.0),
        thresholds=hull.thresholds[wide],
    )
    for column in (curve.probability_cost, curve.cost, curve.thresholds):
        column.flags.writeable = False
    return curve


def cheapest_threshold(hull: Vertices, *, cost_fp: float, cost_fn: float) -> float:
    """Return the highest threshold with the least cost_fp FP + cost_fn FN, exactly."""
    fp_cost, fn_cost = check_costs(cost_fp, cost_fn)
    low, high = 0, hull.thresholds.size - 1
    while low < high:
        middle = (low + high) // 2
        saved = fn_cost * int(hull.tp[middle + 1] - hull.tp[middle])
        spent = fp_cost * int(hull.fp[middle + 1] - hull.fp[middle])
        # Slopes fall along the hull, so the steps that lower the cost all come first.
        if saved > spent:
            low = middle + 1
        else:
            high = middle
    return float(hull.thresholds[low])


def check_costs(cost_fp: float, cost_fn: float) -> tuple[Fraction, Fraction]:
    """Return both costs as exact ratios, or refuse them: finite, 0 or more, not both 0."""
    fp_cost, fn_cost = check_cost(cost_fp, "cost_fp"), check_cost(cost_fn, "cost_fn")
    if fp_cost == 0 and fn_cost == 0:
        raise InvalidInputError("cost_fp and cost_fn must not both be 0", field="cost_fn")
    return fp_cost, fn_cost


def check_cost(cost: float, field: str) -> Fraction:
    """Return a cost as an exact ratio, or refuse it: finite, 0 or more."""
    number = real(cost, field)
    if not (number >= 0 and math.isfinite(number)):
        message = f"{field} must be finite and 0 or more, got {shown(cost)}"
        raise InvalidInputError(message, field=field)
    return Fraction(cost if isinstance(cost, int | Fraction) else number)
