"""How much a label would move a metric, by cell of score, from the cases labelled so far.

A share r of a cell's waiting predictions is taken as positive: the positives' share of the
labelled cases at about this score. The metric's gradient is taken at the window's counts with
these predictions. A label moves the metric by g1 if it is positive and by g0 if not, so the
standard deviation in the cell is |g1 - g0| sqrt(r (1 - r)).

r decides which predictions are drawn, never how a drawn one is weighted: if it is wrong,
a sample is less precise than it could be, and not biased.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.exact import MAX_TOTAL
from streameval._counts.resolution import quantise
from streameval._metrics.gradients import cells_of
from streameval._projection.delay_counts import CELL_BITS
from streameval._projection.estimate import COUNT_UNIT, state_of_cells
from streameval._projection.label_table import sums_of
from streameval._time.window import Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._counts.view import View
    from streameval._metric_registry import Metric

_SHARE_RUNS = 16
"""Runs of neighbouring cells that share one r, each with as much of both classes' labels."""

_PRIOR_CASES = 2.0
"""Cases of the whole window's share of positives that each run's own are added to."""


@dataclass(frozen=True, slots=True, eq=False)
class CellGradient:
    """The cells that have waiting predictions.

    Attributes
    ----------
    positive, negative : float64[K]
        g1 and g0.
    share : float64[K]
        r.
    """

    positive: FloatArray
    negative: FloatArray
    share: FloatArray

    def spread(self) -> FloatArray:
        """Return the standard deviation of the gradient in each cell. O(K)."""
        r = self.share
        found: FloatArray = np.abs(self.positive - self.negative) * np.sqrt(r * (1 - r))
        return found

    def band_costs(self, runs: IntArray, counts: IntArray, number: int) -> FloatArray:
        """Return N S of every band of neighbouring runs of cells. O(K + number^2).

        Parameters
        ----------
        runs : int64[K]
            The run of each cell, 0 to number - 1, ascending; none is empty.
        counts : int64[K]
            Predictions of each cell.
        number : int

        Returns
        -------
        float64[number + 1, number + 1]
            At [i, j], i < j, of the runs i to j - 1 together: their predictions, times the
            standard deviation of the gradient over these; 0 elsewhere.
        """
        r = self.share
        mean = r * self.positive + (1 - r) * self.negative
        # Around the mean of all, so that differences of sums keep their digits.
        center = float(counts @ mean) / float(counts.sum())
        squares = r * (self.positive - center) ** 2 + (1 - r) * (self.negative - center) ** 2
        columns = (counts, counts * (mean - center), counts * squares)
        sums = [np.append(0.0, np.cumsum(sums_of(runs, each, number))) for each in columns]
        whole, first, second = (np.triu(each[None, :] - each[:, None]) for each in sums)
        found: FloatArray = np.sqrt(np.maximum(whole * second - first**2, 0.0))
        return found


def cell_gradient(
    view: View,
    cells: FloatArray,
    counts: IntArray,
    metric: Metric,
    arguments: Mapping[str, object],
) -> CellGradient | None:
    """Return the gradient at the window's expected counts; None where there is none.

    There is none without labels of a class, and where the metric is infinite.

    Parameters
    ----------
    view : View
        The labelled cases.
    cells : float64[K]
        Lower edges, ascending, of the cells of predictions that wait.
    counts : int64[K]
    metric : Metric
        One with a gradient.
    arguments : mapping
        The metric's own.

    Raises
    ------
    InvalidInputError
        When an argument is invalid, or scores are no probabilities and must be.

    Notes
    -----
    O(n log n) for n distinct scores of the labelled cases, and O(K).
    """
    ranked = cells_of(view)
    scored = np.isfinite(ranked.scores)
    labels = [ranked.n[scored] / view.unit, ranked.p[scored] / view.unit]
    if not labels[0].sum() or not labels[1].sum():
        return None
    labelled_cells = quantise(ranked.scores[scored], CELL_BITS, view.scale)
    edges = np.union1d(cells, labelled_cells)
    at = np.searchsorted(edges, labelled_cells)
    negatives, positives = (sums_of(at, each, edges.size) for each in labels)
    share = _shares(positives, negatives)
    waiting = np.zeros(edges.size)
    place = np.searchsorted(edges, cells)
    waiting[place] = counts
    misses = (view.missed_positives / view.unit, view.missed_negatives / view.unit)
    unit = _unit_for(positives.sum() + negatives.sum() + waiting.sum() + sum(misses))
    expected = [
        np.rint((known + part * waiting) * unit).astype(np.int64)
        for known, part in ((positives, share), (negatives, 1 - share))
    ]
    state = replace(
        state_of_cells(edges, expected[0], expected[1], view.scale),
        missed_positives=round(misses[0] * unit),
        missed_negatives=round(misses[1] * unit),
    )
    window = Window(state, 0, 1)
    # It checks the arguments, and that scores are probabilities where they must be.
    if not math.isfinite(metric.function(window, **{**metric.arguments, **arguments})):
        return None
    assert metric.gradient is not None
    found = metric.gradient(cells_of(window._view()), **arguments)
    held = (expected[0] > 0) | (expected[1] > 0)
    # Derivatives by a case, which is `unit` counts.
    positive, negative = (
        _by_cell(each * unit, held)[place] for each in (found.positive, found.negative)
    )
    return CellGradient(positive, negative, share[place])


def _unit_for(total: float) -> float:
    """Return the counts that stand for one case, a power of two: fewer for very many cases."""
    unit = float(COUNT_UNIT)
    while total * unit > MAX_TOTAL / 2:
        unit /= 2
    return unit


def _by_cell(derivative: FloatArray, held: BoolArray) -> FloatArray:
    """Return derivatives, best first with the misses last, in order of all cells.

    An infinite one is of a class that the cell is expected not to have.
    """
    found = np.zeros(held.size)
    found[held] = derivative[: int(held.sum())][::-1]
    found[~np.isfinite(found)] = 0.0
    return found


def _shares(positives: FloatArray, negatives: FloatArray) -> FloatArray:
    """Return the share of positives of each cell, from its run, the runs around, and all. O(K)."""
    whole = (positives.sum(), negatives.sum())
    mass = positives / whole[0] + negatives / whole[1]
    middle = np.cumsum(mass) - mass / 2
    runs = np.minimum((middle * (_SHARE_RUNS / 2)).astype(np.int64), _SHARE_RUNS - 1)
    p, n = (_smoothed(sums_of(runs, each, _SHARE_RUNS)) for each in (positives, negatives))
    overall = whole[0] / (whole[0] + whole[1])
    shares: FloatArray = ((p + _PRIOR_CASES * overall) / (p + n + _PRIOR_CASES))[runs]
    return shares


def _smoothed(sums: FloatArray) -> FloatArray:
    """Return sums averaged over neighbouring runs twice, with the weights 1, 2 and 1."""
    for _ in range(2):
        padded = np.pad(sums, 1, mode="edge")
        sums = (padded[:-2] + 2 * sums + padded[2:]) / 4
    return sums
