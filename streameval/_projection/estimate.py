"""The projected counts of a window, a metric's value of them, and its variance.

The window's panes are joined, newest first, into ages of which at least
`MIN_AGE_SHARE` of the positives' labels is there; each age and cell is a unit. Of T
predictions in a unit, n_y are labelled y, and e_y = n_y/F_y estimates its cases of class
y. Where few negatives are known as such (F_0 below `MIN_NEGATIVE_SHARE`) all that is not
positive is negative. The estimates of a stratum, a run of neighbouring cells, are then
scaled to its predictions. The projected counts are sums over the ages; all metrics read
them.

A share of positives in each single cell, shrunk to its band's share, does worse: it ties
cases that the score ranks. Where labels of positives are late its AP had a bias of -0.19,
and the AP of this estimate +0.00; docs/evidence-late-labels.md has the table.

The variance is propagated by the gradient of the metric (delta method) from two sources: which
cases have their labels already, and the delay model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.multiset import ScoreCounts
from streameval._counts.run import Run
from streameval._counts.state import State, shared_declared
from streameval._metrics.gradients import cells_of
from streameval._projection.delay_counts import CELL_BITS
from streameval._projection.delay_model import NUM_BANDS, in_bands
from streameval._projection.label_table import sums_of
from streameval._time.window import Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._counts.resolution import Scale
    from streameval._metric_registry import Metric
    from streameval._projection.delay_model import DelayModel
    from streameval._projection.label_table import LabelTable

MIN_AGE_SHARE = 0.12
"""F_1 of an age in each band: with less, a label's weight is too great."""

MIN_NEGATIVE_SHARE = 0.3
"""F_0 below which unlabelled predictions that are not positive are taken as negative."""

STRATUM_PREDICTIONS = 100
"""Predictions of a stratum, about, where both classes are labelled."""

COMPLEMENT_PREDICTIONS = 30
"""The same where negatives are what is not positive: a stratum ties its negatives."""

COUNT_UNIT = 1 << 16
"""A projected count is kept as an integer multiple of 1/65536 of a case."""


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """The projected counts of a window.

    Units are the pairs of an age and a cell: all cells of the newest age first.

    Attributes
    ----------
    window : Window
        The projected counts, each times `COUNT_UNIT`: metrics do not depend on it.
    predictions : int64[u]
    labels, arrived, weighted, projected : float64[2, u]
        n, F, e and the projected counts of each class and unit.
    strata : int64[u]
    complements : bool[u]
        Where e_0 is made of the predictions and e_1.
    model : DelayModel
    """

    window: Window
    predictions: IntArray
    labels: FloatArray
    arrived: FloatArray
    weighted: FloatArray
    projected: FloatArray
    strata: IntArray
    complements: BoolArray
    model: DelayModel

    @property
    def least_arrived(self) -> float:
        """The least F_1 of a unit that has predictions."""
        return float(self.arrived[1][self.predictions > 0].min(initial=1.0))

    @property
    def effective_positives(self) -> float:
        """Kish's effective number of labelled positives, (sum w)^2 / sum w^2."""
        return _effective(self.labels[1], self.arrived[1])

    @property
    def effective_negatives(self) -> float:
        """Kish's effective number of negatives; complements of positives count whole."""
        known = ~self.complements
        counted = _effective(self.labels[0][known], self.arrived[0][known])
        return counted + float(self.projected[0][self.complements].sum())

    def value(self, metric: Metric, arguments: Mapping[str, object]) -> float:
        """Return a metric of the projected counts. O(K)."""
        return float(metric.function(self.window, **{**metric.arguments, **arguments}))

    def variance(self, metric: Metric, arguments: Mapping[str, object]) -> float:
        """Return the variance of the final value about a metric of the counts. O(units).

        The predictions are known, and so are the labels that are there: of a case that counts
        1/F times, 1 - F is unknown. The metric has a gradient, and the counts have positives and
        negatives.
        """
        psi = self._influences(self.gradient_by_unit(metric, arguments))
        weight = np.divide(1.0, self.arrived, out=np.zeros_like(psi), where=self.labels > 0)
        unknown = np.maximum(1 - self.arrived, 0)
        sampled = float((self.labels * unknown * (psi * weight) ** 2).sum())
        return sampled + self._model_variance(psi)

    def gradient_by_unit(self, metric: Metric, arguments: Mapping[str, object]) -> FloatArray:
        """Return the derivatives of a metric by the projected counts of each class and unit."""
        assert metric.gradient is not None
        found = metric.gradient(cells_of(self.window._view()), **arguments)
        size = self.model.band_of.size
        held = np.flatnonzero(self._by_cell.any(axis=0))
        moves = np.zeros((2, size))
        # The gradient's cells are best first, and the misses are last.
        moves[0, held] = found.negative[: held.size][::-1] * COUNT_UNIT
        moves[1, held] = found.positive[: held.size][::-1] * COUNT_UNIT
        return np.tile(moves, self.predictions.size // size)

    @property
    def _by_cell(self) -> IntArray:
        """The projected counts of each class and cell, in `COUNT_UNIT`."""
        return _by_cell(self.projected, self.model.band_of.size)

    def _influences(self, moves: FloatArray) -> FloatArray:
        """Return the derivatives by e_0 and e_1; a stratum's sum is fixed."""
        totals = _sums(self.strata, self.projected.sum(axis=0))
        mean = _sums(self.strata, (moves * self.projected).sum(axis=0)) / np.maximum(totals, 1e-300)
        negatives = _sums(self.strata, self.projected[0])
        mean_negative = _sums(self.strata, moves[0] * self.projected[0])
        mean_negative = (mean_negative / np.maximum(negatives, 1e-300))[self.strata]
        weighted = self.weighted
        scale = np.divide(self.projected, weighted, out=np.zeros_like(weighted), where=weighted > 0)
        psi = scale * (moves - mean[self.strata])
        psi[:, self.complements] = 0.0
        psi[1, self.complements] = (moves[1] - mean_negative)[self.complements]
        return psi

    def _model_variance(self, psi: FloatArray) -> float:
        """Return the variance from the shares of the model, which are of its own labels.

        The labelled share is of all labels of a band, the delays of a group's labels of a class.
        """
        model = self.model
        bands = np.tile(model.band_of, self.predictions.size // model.band_of.size)
        shares = np.nan_to_num(model.labelled_shares)
        moved = sums_of(bands, (self.weighted * psi).sum(axis=0), NUM_BANDS)
        unlabelled = (1 - shares) / np.maximum(model.band_labels, 1)
        variance = float((moved**2 * unlabelled).sum())
        for label in (0, 1):
            groups = model.groups[label][bands]
            moved = sums_of(groups, self.weighted[label] * psi[label], NUM_BANDS)
            due = sums_of(groups, self.weighted[label] * shares[bands], NUM_BANDS)
            known = sums_of(groups, self.labels[label], NUM_BANDS)
            mature = np.zeros(NUM_BANDS)
            mature[model.groups[label]] = model.group_labels[label]
            used = (known > 0) & (mature > 0)
            missing = np.maximum(due[used] / known[used] - 1, 0)
            variance += float((moved[used] ** 2 * missing / mature[used]).sum())
        return variance


def estimate_window(
    table: LabelTable,
    model: DelayModel,
    panes: IntArray,
    at_us: int,
    scale: Scale,
    *,
    misses: tuple[int, int] = (0, 0),
) -> Estimate:
    """Return the projected counts of panes from what was known at a time. O(panes K).

    Parameters
    ----------
    table : LabelTable
    model : DelayModel
    panes : int64[j]
        Indices of the window's panes, oldest first; none begins after `at_us`.
    at_us : int
    scale : {"plain", "probability"}
    misses : (int, int)
        Positive and negative references that were never scored; they count as they are.
    """
    bands, size = model.band_of, model.band_of.size
    by_pane = table.predictions[panes]
    labels_by_pane = table.labels_at(panes, at_us)
    shares = np.nan_to_num(model.arrived(table.arrived_shares(panes, at_us)))
    in_band = in_bands(bands, by_pane)
    ages = _ages(shares[1], in_band)
    predictions = np.concatenate([by_pane[age].sum(axis=0) for age in ages])
    labels = np.concatenate([labels_by_pane[:, age].sum(axis=1) for age in ages], axis=1)
    arrived = np.concatenate(
        [_mean_share(shares[:, :, age], in_band[:, age])[:, bands] for age in ages], axis=1
    )
    weighted = np.divide(
        labels, arrived, out=np.zeros_like(labels), where=(labels > 0) & (arrived > 0)
    )
    is_complement = (_mean_share(shares, in_band)[0] < MIN_NEGATIVE_SHARE)[bands]
    complements = np.tile(is_complement, len(ages))
    strata = _strata(predictions.reshape(len(ages), size), bands, is_complement)
    totals = _sums(strata, predictions)
    positive = _sums(strata, weighted[1]) / np.maximum(totals, 1e-300)
    rest = predictions * (1 - np.minimum(positive, 1.0))[strata]
    weighted[0] = np.where(complements, rest, weighted[0])
    expected = _sums(strata, weighted.sum(axis=0))
    factor = np.divide(totals, expected, out=np.zeros_like(totals), where=expected > 0)[strata]
    projected = weighted * np.where(complements, 1.0, factor)
    counts = _by_cell(projected, size)
    state = state_of_cells(table.cells, counts[1], counts[0], scale)
    state = replace(
        state,
        missed_positives=misses[0] * COUNT_UNIT,
        missed_negatives=misses[1] * COUNT_UNIT,
    )
    return Estimate(
        window=Window(state, 0, at_us),
        predictions=predictions,
        labels=labels,
        arrived=arrived,
        weighted=weighted,
        projected=projected,
        strata=strata,
        complements=complements,
        model=model,
    )


def state_of_cells(
    cells: FloatArray, positives: IntArray, negatives: IntArray, scale: Scale
) -> State:
    """Return the state with these counts at the lower edges of cells. O(K)."""
    runs = [
        Run.of_distinct(cells[counts > 0], counts[counts > 0]) for counts in (positives, negatives)
    ]
    return State(
        counts=ScoreCounts(runs[0], runs[1]), resolution=CELL_BITS, declared=shared_declared(scale)
    )


def _by_cell(projected: FloatArray, cells: int) -> IntArray:
    """Return the sums over ages of each class and cell, in `COUNT_UNIT`."""
    summed = projected.reshape(2, -1, cells).sum(axis=1)
    counts: IntArray = np.rint(summed * COUNT_UNIT).astype(np.int64)
    return counts


def _ages(positive_shares: FloatArray, in_band: FloatArray) -> list[list[int]]:
    """Return the panes of each age, newest first."""
    ages: list[list[int]] = []
    current: list[int] = []
    for pane in reversed(range(in_band.shape[1])):
        current.append(pane)
        shares = _mean_share(positive_shares[None, :, current], in_band[:, current])[0]
        if shares[in_band[:, current].sum(axis=1) > 0].min(initial=1.0) >= MIN_AGE_SHARE:
            ages.append(current)
            current = []
    if current:
        # The oldest panes have no labels enough of their own.
        ages[-1:] = [[*ages[-1], *current]] if ages else [current]
    return ages


def _mean_share(shares: FloatArray, in_band: FloatArray) -> FloatArray:
    """Return the mean of F over panes, weighted by their predictions, by class and band."""
    found: FloatArray = (shares * in_band).sum(axis=2) / np.maximum(in_band.sum(axis=1), 1)
    return found


def _strata(predictions: IntArray, bands: IntArray, is_complement: BoolArray) -> IntArray:
    """Return the stratum of each unit: runs of cells of one band, of about equal predictions.

    Those of complements are common to all ages, the others of one age.
    """
    of_unit = np.zeros(predictions.shape, dtype=np.int64)
    last = 0
    whole = predictions.sum(axis=0)
    for band in np.unique(bands):
        cells = np.flatnonzero(bands == band)
        if is_complement[cells[0]]:
            runs = _runs(whole[cells], COMPLEMENT_PREDICTIONS)
            of_unit[:, cells] = last + runs
            last += int(runs[-1]) + 1
            continue
        for age, row in enumerate(predictions):
            runs = _runs(row[cells], STRATUM_PREDICTIONS)
            of_unit[age, cells] = last + runs
            last += int(runs[-1]) + 1
    return of_unit.ravel()


def _runs(predictions: IntArray, size: int) -> IntArray:
    """Return the run of each cell: its middle rank, in runs of about `size` predictions."""
    total = int(predictions.sum())
    runs = max(1, total // size)
    middles = 2 * np.cumsum(predictions) - predictions
    found: IntArray = np.minimum(middles * runs // max(2 * total, 1), runs - 1)
    return found


def _sums(strata: IntArray, values: FloatArray | IntArray) -> FloatArray:
    """Return the sum of a column of units in each stratum."""
    return sums_of(strata, values, int(strata.max(initial=-1)) + 1)


def _effective(labels: FloatArray, arrived: FloatArray) -> float:
    """Return (sum w)^2 / sum w^2 of labels with the weights 1/F."""
    used = (labels > 0) & (arrived > 0)
    weights = 1 / arrived[used]
    squares = float((labels[used] * weights**2).sum())
    return float((labels[used] * weights).sum()) ** 2 / squares if squares else 0.0
