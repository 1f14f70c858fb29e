"""Queries of scores that are probabilities: Brier score, log loss, reliability.

They cover the scored cases only, because a reference without a score has no
prediction to judge. These queries refuse scores outside [0, 1] and never clip them.
A bounded evaluator keeps each score at its cell's lower edge and answers for those
edges.
"""

from __future__ import annotations

import math
import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.values import shown
from streameval._counts.view import Queries
from streameval._metrics.hull import hull_vertices
from streameval._metrics.operating_points import points_of
from streameval._metrics.reliability import (
    DEFAULT_BINS,
    BrierDecomposition,
    ReliabilityTable,
    equal_mass,
    equal_width,
    isotonic_brier,
)

if TYPE_CHECKING:
    from typing import SupportsIndex

    from streameval._common.arrays import Counts, FloatArray
    from streameval._counts.view import View

_MAX_BINS = 1_000_000


class _CasesByScore(NamedTuple):
    """Distinct scores, ascending, with their positives and negatives."""

    scores: FloatArray
    positives: Counts
    negatives: Counts


class ProbabilityQueries(Queries):
    """The quality of the scores as probabilities, not only as a ranking."""

    def brier_score(self) -> float:
        """Return the mean squared difference of score and label.

        Returns
        -------
        float
            In [0, 1], 0 is best; nan without scored cases.

        Raises
        ------
        InvalidInputError
            When a score is outside [0, 1].

        Notes
        -----
        O(D) for D distinct scores; cached. Covers the scored cases only.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0], scores=[0.5, 0.5])
        >>> ev.brier_score()
        0.25
        """
        view = self._view()
        return view.cached("brier_score", lambda: _brier(_probabilities(view)))

    def log_loss(self) -> float:
        """Return the mean of -ln(probability that the score gave to the true label).

        Returns
        -------
        float
            In nats, 0 is best; inf if a positive was scored 0 or a negative 1,
            because nothing is clipped. nan without scored cases.

        Raises
        ------
        InvalidInputError
            When a score is outside [0, 1].

        Notes
        -----
        O(D) for D distinct scores; cached. Covers the scored cases only.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0], scores=[0.5, 0.5])
        >>> round(ev.log_loss(), 6)
        0.693147
        >>> ev.add_case(False, 1.0)
        >>> ev.log_loss()
        inf
        """
        view = self._view()
        return view.cached("log_loss", lambda: _log_loss(_probabilities(view)))

    def brier_decomposition(self) -> BrierDecomposition:
        """Return the Brier score's parts: miscalibration, discrimination, uncertainty.

        brier_score() = miscalibration - discrimination + uncertainty, with the
        isotonic regression of the labels on the scores as the recalibrated
        forecast. It needs no bins.

        Returns
        -------
        BrierDecomposition
            All nan without scored cases.

        Raises
        ------
        InvalidInputError
            When a score is outside [0, 1].

        Notes
        -----
        O(D) for D distinct scores; cached. The isotonic regression is read from
        the ROC hull. It is fitted to the cases that it is judged on, so with few
        cases the miscalibration is overstated, even if there is none. Source:
        Dimitriadis, Gneiting and Jordan (PNAS 118, 2021).

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 1, 0, 0], scores=[0.75, 0.75, 0.25, 0.25])
        >>> ev.brier_decomposition()
        BrierDecomposition(miscalibration=0.0625, discrimination=0.25, uncertainty=0.25)
        """
        view = self._view()
        return view.cached("brier_decomposition", lambda: _decomposed(view))

    def calibration_error(self) -> float:
        """Return the mean of `|mean score - observed rate|` over the cases of ten bins ("ECE").

        Returns
        -------
        float
            In [0, 1], 0 is best; nan without scored cases. With few cases it is too large
            even of calibrated scores: `interval("calibration_error")` allows for that.

        Raises
        ------
        InvalidInputError
            When a score is outside [0, 1].

        See Also
        --------
        reliability : the bins, of any number.
        brier_decomposition : the miscalibration without bins.

        Notes
        -----
        O(D) for D distinct scores; cached. Bins are tenths of the scale.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.6, 0.1])
        >>> round(ev.calibration_error(), 3)
        0.35
        """
        return self.reliability(DEFAULT_BINS).calibration_error

    def observed_expected_ratio(self) -> float:
        """Return the number of positives over the sum of the scores.

        Returns
        -------
        float
            1 where as many are positive as the scores say, also none of none; less where
            fewer are; inf where all scores are 0 and a case is positive; nan without
            scored cases.

        Raises
        ------
        InvalidInputError
            When a score is outside [0, 1].

        Notes
        -----
        O(D) for D distinct scores; cached. Covers the scored cases only.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 0, 0], scores=[0.5, 0.5, 0.5, 0.5])
        >>> ev.observed_expected_ratio()
        0.5
        """
        view = self._view()
        return view.cached("observed_expected_ratio", lambda: _ratio(_probabilities(view)))

    def reliability(
        self, bins: SupportsIndex = DEFAULT_BINS, *, strategy: Literal["width", "mass"] = "width"
    ) -> ReliabilityTable:
        """Return the mean score and the observed rate of each bin.

        Parameters
        ----------
        bins : int
            How many bins, 1 or more. Empty bins are left out.
        strategy : {"width", "mass"}
            Bins of equal width over [0, 1], or of about equal count. Tied
            scores always share a bin.

        Returns
        -------
        ReliabilityTable
            Columns ``lower``, ``upper``, ``counts``, ``positives``,
            ``mean_score``, ``observed_rate``; and the ``calibration_error`` of
            these bins.

        Raises
        ------
        InvalidInputError
            When a score is outside [0, 1] or an argument is invalid.

        Notes
        -----
        O(D) for D distinct scores; cached. Covers the scored cases only.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[0, 1, 1, 1], scores=[0.1, 0.15, 0.85, 0.95])
        >>> table = ev.reliability(bins=2)
        >>> table.counts.tolist(), table.observed_rate.tolist()
        ([2, 2], [0.5, 1.0])
        >>> table.mean_score.round(3).tolist()
        [0.125, 0.9]
        """
        try:
            count = operator.index(bins)
        except TypeError:
            count = 0
        if not 1 <= count <= _MAX_BINS:
            message = f"bins must be an integer from 1 to {_MAX_BINS}, got {shown(bins)}"
            raise InvalidInputError(message, field="bins")
        if strategy not in {"width", "mass"}:
            raise InvalidInputError(
                f"strategy must be 'width' or 'mass', got {shown(strategy)}", field="strategy"
            )
        table = equal_width if strategy == "width" else equal_mass
        view = self._view()
        return view.cached(
            ("reliability", count, strategy),
            lambda: table(*_probabilities(view), count).in_weights(view.unit),
        )


def _probabilities(view: View) -> _CasesByScore:
    """Return the scored cases, or refuse scores outside [0, 1]."""
    points = points_of(view)
    rows = np.flatnonzero(np.isfinite(points.thresholds))[::-1]
    scores = points.thresholds[rows]
    outside = scores[(scores < 0) | (scores > 1)]
    if outside.size:
        raise InvalidInputError(
            f"score must be between 0 and 1 to be read as a probability, got {outside[0]}",
            field="scores",
        )
    return _CasesByScore(
        scores, points.tp[rows] - points.tp[rows - 1], points.fp[rows] - points.fp[rows - 1]
    )


def _ratio(cases: _CasesByScore) -> float:
    scores, positives, negatives = cases
    if not scores.size:
        return math.nan
    expected, observed = float(scores @ (positives + negatives)), int(positives.sum())
    if expected == 0:
        return math.inf if observed else 1.0
    return observed / expected


def _brier(cases: _CasesByScore) -> float:
    scores, positives, negatives = cases
    if not scores.size:
        return math.nan
    squares = positives * (1 - scores) ** 2 + negatives * scores**2
    return float(np.sum(squares)) / int(np.sum(positives + negatives))


def _log_loss(cases: _CasesByScore) -> float:
    scores, positives, negatives = cases
    if not scores.size:
        return math.nan
    if (scores[0] == 0 and positives[0]) or (scores[-1] == 1 and negatives[-1]):
        return math.inf
    # The remaining cases at 0 and 1 are correct and add nothing.
    found = positives > 0
    turned = negatives > 0
    gains = np.sum(positives[found] * np.log(scores[found]))
    gains += np.sum(negatives[turned] * np.log1p(-scores[turned]))
    return abs(float(gains)) / int(np.sum(positives + negatives))


def _decomposed(view: View) -> BrierDecomposition:
    cases = _probabilities(view)
    if not cases.scores.size:
        return BrierDecomposition(math.nan, math.nan, math.nan)
    held, total = int(np.sum(cases.positives)), int(np.sum(cases.positives + cases.negatives))
    scored = replace(view.groups, missed_positives=0, missed_negatives=0, P=held, N=total - held)
    recalibrated = isotonic_brier(hull_vertices(scored)) / total
    uncertainty = held / total * ((total - held) / total)
    return BrierDecomposition(
        # Neither is negative; max() corrects rounding.
        miscalibration=max(0.0, _brier(cases) - recalibrated),
        discrimination=max(0.0, uncertainty - recalibrated),
        uncertainty=uncertainty,
    )
