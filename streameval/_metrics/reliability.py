"""Reliability: whether seven in ten of the cases with score 0.7 are positive.

Pure functions of the distinct scores with their positives and negatives. Tied
scores always share a bin. O(D) for D distinct scores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from streameval._common.result import Result
from streameval._common.tables import Table

if TYPE_CHECKING:
    import numpy.typing as npt

    from streameval._common.arrays import Counts, FloatArray
    from streameval._metrics.hull import Vertices


DEFAULT_BINS = 10
"""Bins of the calibration error by default: tenths of the scale."""


@dataclass(frozen=True, slots=True, eq=False)
class ReliabilityTable(Result):
    """The mean score and the observed rate of each bin; empty bins are left out.

    Attributes
    ----------
    lower, upper : float64[B]
        The bin. With equal width, its two edges (scores above `lower` up to
        `upper`; 0 is in the first). With equal mass, its lowest and highest score.
    counts, positives : int64[B]
        Cases and positives among them; where cases have weights, float64 sums of these.
    mean_score, observed_rate : float64[B]
        Mean of the scores; positives/counts. Equal if the scores are calibrated.

    Examples
    --------
    >>> from streameval import Evaluator
    >>> ev = Evaluator()
    >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.6, 0.1])
    >>> table = ev.reliability(bins=2)
    >>> round(table.calibration_error, 3)
    0.1
    >>> table
    Scores and observed rates in 2 bins: calibration error 0.1000, at most 0.1000
      bin       cases  positives  mean score  observed rate
      0 to 0.5      1          0      0.1000         0.0000
      0.5 to 1      3          2      0.7667         0.6667
    """

    lower: FloatArray
    upper: FloatArray
    counts: Counts
    positives: Counts
    mean_score: FloatArray
    observed_rate: FloatArray

    def __len__(self) -> int:
        return self.counts.size

    def __str__(self) -> str:
        return self._as_table().as_text()

    def _as_table(self) -> Table:
        columns = (self.lower, self.upper, self.counts, self.positives)
        rates = (self.mean_score, self.observed_rate)
        return Table(
            f"Scores and observed rates in {len(self)} bins: calibration error "
            f"{self.calibration_error:.4f}, at most {self.largest_calibration_error:.4f}",
            ["bin", "cases", "positives", "mean score", "observed rate"],
            [
                [f"{low:.4g} to {high:.4g}", f"{cases:,.10g}", f"{positives:,.10g}"]
                + [f"{each[row]:.4f}" for each in rates]
                for row, (low, high, cases, positives) in enumerate(zip(*columns, strict=True))
            ],
        )

    @property
    def is_weighted(self) -> bool:
        """Whether `counts` and `positives` are sums of weights. O(1)."""
        return self.counts.dtype.kind == "f"

    def in_weights(self, unit: int) -> ReliabilityTable:
        """Return the table of counts in this unit with sums of weights instead. O(B)."""
        if unit == 1:
            return self
        weights: dict[str, Any] = {
            "counts": self.counts / unit,
            "positives": self.positives / unit,
        }
        return replace(self, **weights)

    @property
    def calibration_error(self) -> float:
        """Mean of `|mean score - observed rate|` over cases ("ECE"); nan without cases.

        It depends on the bins: other bins give another number, and more bins a larger
        one. ``brier_decomposition().miscalibration`` needs no bins.
        """
        if not self.counts.size:
            return math.nan
        gaps = np.abs(self.mean_score - self.observed_rate)
        return float(np.average(gaps, weights=self.counts))

    @property
    def largest_calibration_error(self) -> float:
        """Largest `|mean score - observed rate|` of any bin; nan without cases."""
        if not self.counts.size:
            return math.nan
        return float(np.max(np.abs(self.mean_score - self.observed_rate)))


@dataclass(frozen=True, slots=True, eq=False)
class BrierDecomposition(Result):
    """The Brier score in three parts: miscalibration - discrimination + uncertainty.

    Attributes
    ----------
    miscalibration : float
        How much recalibration would lower the score, >= 0; 0 if the scores equal
        their isotonic regression.
    discrimination : float
        How much lower the recalibrated score is than the uncertainty, >= 0.
    uncertainty : float
        The Brier score of predicting the base rate r for every case, r(1-r).
    """

    miscalibration: float
    discrimination: float
    uncertainty: float


def binned(
    scores: FloatArray, positives: Counts, negatives: Counts, bin_of: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.intp], Counts, Counts, FloatArray]:
    """Return the bins that have cases, with their cases, positives and mean score.

    `bin_of` must be ascending, as the scores are.
    """
    first = np.flatnonzero(np.append(True, np.diff(bin_of) > 0)[: bin_of.size])
    held = np.add.reduceat(positives, first)
    counts = held + np.add.reduceat(negatives, first)
    weighted = np.add.reduceat(scores * (positives + negatives), first)
    return bin_of[first], counts, held, weighted / counts


def equal_width(
    scores: FloatArray, positives: Counts, negatives: Counts, bins: int
) -> ReliabilityTable:
    """Return the table over bins of equal width, from 0 to 1. Scores ascending."""
    edges = np.arange(bins + 1) / bins
    bin_of = np.searchsorted(edges[1:-1], scores, side="left")
    if not scores.size:
        return _empty()
    held_bins, counts, held, mean = binned(scores, positives, negatives, bin_of)
    return ReliabilityTable(
        lower=edges[held_bins],
        upper=edges[held_bins + 1],
        counts=counts,
        positives=held,
        mean_score=mean,
        observed_rate=held / counts,
    )


def equal_mass(
    scores: FloatArray, positives: Counts, negatives: Counts, bins: int
) -> ReliabilityTable:
    """Return the table over at most `bins` bins of about equal count. Scores ascending.

    The middle of a score's tied cases decides its bin, so ties stay together.
    """
    if not scores.size:
        return _empty()
    sizes = positives + negatives
    ends = np.cumsum(sizes)
    middle = (ends - sizes / 2) / ends[-1]
    bin_of = np.minimum((middle * bins).astype(np.intp), bins - 1)
    _, counts, held, mean = binned(scores, positives, negatives, bin_of)
    last = np.append(np.flatnonzero(np.diff(bin_of)), scores.size - 1)
    first = np.append(0, last[:-1] + 1)
    return ReliabilityTable(
        lower=scores[first],
        upper=scores[last],
        counts=counts,
        positives=held,
        mean_score=mean,
        observed_rate=held / counts,
    )


def isotonic_brier(hull: Vertices) -> float:
    """Return the sum of squared errors if each hull segment predicts its own rate.

    Pooling adjacent violators merges exactly the groups of one segment of the
    ROC hull, so the isotonic regression of the labels on the scores predicts
    dTP/(dTP + dFP) there.
    """
    gained = np.diff(hull.tp).astype(np.float64)
    lost = np.diff(hull.fp).astype(np.float64)
    return float(np.sum(gained * (lost / (gained + lost))))


def _empty() -> ReliabilityTable:
    none, nothing = np.empty(0), np.empty(0, dtype=np.int64)
    return ReliabilityTable(
        lower=none,
        upper=none,
        counts=nothing,
        positives=nothing,
        mean_score=none,
        observed_rate=none,
    )
