"""The confusion matrix at one threshold, and the rates computed from it.

Counts are exact. A rate whose denominator is 0 is nan, with one exception in the whole
library, which the literature makes too: if nothing is called positive, the precision is
1, the limit at which every precision-recall curve starts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from streameval._common.errors import InvalidInputError
from streameval._common.result import Result
from streameval._common.tables import Table
from streameval._common.values import real, shown
from streameval._metrics.costs import check_costs


@dataclass(frozen=True, slots=True, eq=False)
class Confusion(Result):
    """The counts of the four outcomes at one threshold, misses included.

    Attributes
    ----------
    threshold : float
        Every case with score >= threshold is called positive; at -inf, so are the
        references that were never scored.
    tp, fp : int
        References called positive, correctly and wrongly; where cases have weights, float
        sums of these.
    fn, tn : int
        References called negative, wrongly and correctly, likewise.

    Examples
    --------
    >>> at = Confusion(threshold=0.5, tp=3, fp=2, fn=2, tn=4)
    >>> at.recall, at.precision, round(at.specificity, 3), at.f_measure
    (0.6, 0.6, 0.667, 0.6)
    """

    threshold: float
    tp: float
    fp: float
    fn: float
    tn: float

    def _as_table(self) -> Table:
        rates = {
            "precision": self.precision,
            "recall": self.recall,
            "specificity": self.specificity,
            "F": self.f_measure,
        }
        shown = ", ".join(f"{name} {rate:.4f}" for name, rate in rates.items())
        return Table(
            f"Scores of {self.threshold:g} or more are flagged",
            ["reference", "flagged", "not flagged"],
            [
                ["positive", f"{self.tp:,.10g}", f"{self.fn:,.10g}"],
                ["negative", f"{self.fp:,.10g}", f"{self.tn:,.10g}"],
            ],
            [shown],
        )

    def in_weights(self, unit: int) -> Confusion:
        """Return the matrix of counts in this unit with sums of weights instead. O(1)."""
        if unit == 1:
            return self
        weights: Any = [each / unit for each in (self.tp, self.fp, self.fn, self.tn)]
        return Confusion(self.threshold, *weights)

    @property
    def recall(self) -> float:
        """TP/P, the true positive rate; nan without positives."""
        return _ratio(self.tp, self.tp + self.fn)

    @property
    def precision(self) -> float:
        """TP/(TP+FP); 1.0 if nothing is called positive."""
        return _ratio(self.tp, self.tp + self.fp, empty=1.0)

    @property
    def fpr(self) -> float:
        """FP/N, the false positive rate; nan without negatives."""
        return _ratio(self.fp, self.fp + self.tn)

    @property
    def specificity(self) -> float:
        """TN/N, the true negative rate; nan without negatives."""
        return _ratio(self.tn, self.fp + self.tn)

    @property
    def negative_predictive_value(self) -> float:
        """TN/(TN+FN); 1.0 if nothing is called negative."""
        return _ratio(self.tn, self.tn + self.fn, empty=1.0)

    @property
    def flagged_share(self) -> float:
        """(TP+FP)/(P+N), the share called positive; nan without references."""
        return _ratio(self.tp + self.fp, self.tp + self.fp + self.fn + self.tn)

    @property
    def accuracy(self) -> float:
        """(TP+TN)/(P+N); nan without references."""
        return _ratio(self.tp + self.tn, self.tp + self.fp + self.fn + self.tn)

    @property
    def balanced_accuracy(self) -> float:
        """Mean of recall and specificity; nan unless both classes have references."""
        return (self.recall + self.specificity) / 2

    @property
    def youden_j(self) -> float:
        """Recall + specificity - 1, in [-1, 1]; nan unless both classes have references."""
        return self.recall - self.fpr

    @property
    def mcc(self) -> float:
        """Matthews correlation, in [-1, 1].

        nan unless both classes have references and both are predicted.
        """
        called, positives = self.tp + self.fp, self.tp + self.fn
        rest, negatives = self.tn + self.fn, self.tn + self.fp
        if 0 in (called, rest, positives, negatives):
            return math.nan
        # In integers, because the difference of products would cancel in floats.
        agreement = self.tp * self.tn - self.fp * self.fn
        return agreement / math.sqrt(called * positives) / math.sqrt(rest * negatives)

    @property
    def f_measure(self) -> float:
        """2 TP / (P + TP + FP), F1; nan without positives. `f_beta` takes a weight of recall."""
        return self.f_beta(1.0)

    def f_beta(self, beta: float) -> float:
        """Return (1 + beta^2) TP / (beta^2 P + TP + FP).

        Parameters
        ----------
        beta : float
            Weight of recall against precision, positive and finite.

        Returns
        -------
        float
            In [0, 1]; nan without positives, 0 if none is called positive.

        Raises
        ------
        InvalidInputError
            When `beta` is not positive and finite.

        Notes
        -----
        O(1).

        Examples
        --------
        >>> Confusion(threshold=0.5, tp=4, fp=4, fn=0, tn=1).f_beta(2.0)
        0.8333333333333334
        """
        of_recall, of_precision = f_weights(beta)
        if self.tp == 0:
            return 0.0 if self.fn else math.nan
        return self.tp / (self.tp + of_recall * self.fn + of_precision * self.fp)

    def expected_cost(self, *, cost_fp: float, cost_fn: float) -> float:
        """Return (cost_fp FP + cost_fn FN)/(P + N), what a case costs on average.

        Parameters
        ----------
        cost_fp, cost_fn : float
            Cost of one false positive and of one false negative, in one unit: finite, not
            negative, not both 0.

        Returns
        -------
        float
            In that unit, from 0 to the larger cost, rounded once; nan without references.

        Raises
        ------
        InvalidInputError
            When a cost is negative or not finite, or both are 0.

        Notes
        -----
        O(1), in exact fractions.

        Examples
        --------
        >>> Confusion(threshold=0.5, tp=3, fp=2, fn=1, tn=4).expected_cost(cost_fp=1, cost_fn=10)
        1.2
        """
        of_fp, of_fn = check_costs(cost_fp, cost_fn)
        counts = [Fraction(each) for each in (self.tp, self.fp, self.fn, self.tn)]
        if not any(counts):
            return math.nan
        return float((of_fp * counts[1] + of_fn * counts[2]) / sum(counts))


def f_weights(beta: float) -> tuple[float, float]:
    """Return beta^2/(1 + beta^2) and 1/(1 + beta^2), the weights of recall and precision in F.

    F is their weighted harmonic mean, TP/(TP + r FN + q FP) with the weights r and q. Each
    weight is computed without overflow and to the last digit: the difference of the other
    one from 1 would cancel where beta is large or small.
    """
    weight = real(beta, "beta")
    if not (weight > 0 and math.isfinite(weight)):
        message = f"beta must be positive and finite, got {shown(beta)}"
        raise InvalidInputError(message, field="beta")
    if weight <= 1:
        square = weight * weight
        return square / (1 + square), 1 / (1 + square)
    inverse = (1 / weight) ** 2
    return 1 / (1 + inverse), inverse / (1 + inverse)


def _ratio(part: float, whole: float, *, empty: float = math.nan) -> float:
    return part / whole if whole else empty
