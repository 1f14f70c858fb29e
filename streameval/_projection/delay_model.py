"""How labels come: by class and band of score, from panes whose labels are in.

Bands have about equally many predictions of these panes. L_b is the share of a band's
predictions that is ever labelled; S_{y,b}(a) the share of the labels of class y that is
there at age a, and F = L S. Nothing is assumed of the shape of S. Bands with fewer than
`MIN_BAND_LABELS` labels of a class share one S.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from streameval._projection.delay_counts import BUCKETS_PER_OCTAVE
from streameval._projection.label_table import sums_of

if TYPE_CHECKING:
    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._projection.label_table import LabelTable

NUM_BANDS = 12
MIN_BAND_LABELS = 30
"""Labels of a class with which a band has its own delays."""

_SHARE_PREDICTIONS = 1_000
"""Predictions in which the labelled share is looked at, where a band has more."""


@dataclass(frozen=True, slots=True, eq=False)
class DelayModel:
    """Labels of mature panes.

    Attributes
    ----------
    band_of : int64[K]
        The band of each cell of the table.
    labels : float64[2]
        Labels of each class, of all bands.
    band_labels : float64[bands]
        Labels of both classes in each band.
    labelled_shares : float64[bands]
        L_b; nan in a band without mature predictions.
    delays : float64[2, bands, buckets]
        S by bucket: each row sums to 1, or to 0 without labels of the class.
    groups : int64[2, bands]
        Bands of one class with the same number share their delays.
    group_labels : float64[2, bands]
        Labels of the class in the band's group.
    least_labelled_share : float
        The least labelled share of a band, or of a part of a band of about 1,000
        predictions: a threshold below which nothing is labelled may lie inside a band.
    prevalence : float
        The share of positives, each band's labelled cases standing for all of the band.
    """

    band_of: IntArray
    labels: FloatArray
    band_labels: FloatArray
    labelled_shares: FloatArray
    delays: FloatArray
    groups: IntArray
    group_labels: FloatArray
    least_labelled_share: float
    prevalence: float

    @classmethod
    def of(cls, table: LabelTable, mature: BoolArray) -> DelayModel:
        """Return the model of the mature panes. O(rows)."""
        predictions = table.predictions[mature].sum(axis=0)
        band_of = _bands(predictions, NUM_BANDS)
        parts = NUM_BANDS * max(1, int(predictions.sum()) // (NUM_BANDS * _SHARE_PREDICTIONS))
        part_of = _bands(predictions, parts)
        in_part = sums_of(part_of, predictions, parts)
        of_part = table.delays(mature, part_of, parts).sum(axis=(0, 2))[in_part > 0]
        in_band = sums_of(band_of, predictions, NUM_BANDS)
        counts = table.delays(mature, band_of, NUM_BANDS)
        by_band = counts.sum(axis=2)
        groups, delays = _pooled(by_band, counts)
        totals = delays.sum(axis=2)
        labelled = by_band.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = labelled / in_band
            positives = np.where(labelled > 0, by_band[1] / labelled, 0.0) * in_band
            prevalence = float(positives.sum() / in_band[labelled > 0].sum())
            delays = np.where(totals[:, :, None] > 0, delays / totals[:, :, None], 0.0)
        return cls(
            band_of=band_of,
            labels=by_band.sum(axis=1),
            band_labels=labelled,
            labelled_shares=np.minimum(shares, 1.0),
            delays=delays,
            groups=groups,
            group_labels=totals,
            least_labelled_share=float((of_part / in_part[in_part > 0]).min(initial=1.0)),
            prevalence=prevalence,
        )

    def arrived(self, shares: FloatArray) -> FloatArray:
        """Return F of each class, band and pane. O(bands buckets panes).

        Parameters
        ----------
        shares : float64[j, buckets]
            `LabelTable.arrived_shares` of the panes.

        Returns
        -------
        float64[2, bands, j]
        """
        arrived = np.clip(self.delays @ shares.T, 0.0, 1.0)
        return arrived * self.labelled_shares[:, None]

    def last_bucket(self, label: int) -> int:
        """Return the last bucket of a class in use; -1 without labels."""
        return int(np.flatnonzero(self.delays[label].any(axis=0)).max(initial=-1))

    def scaled(self, label: int, octaves: int) -> DelayModel:
        """Return the model with the delays of a class times a power of two. O(bands buckets).

        The last bucket in use, with the labels that the end of the ttl makes, stays, and delays
        that would be longer go there: when the ttl has passed nothing is to come.
        """
        own, last = self.delays[label], self.last_bucket(label)
        shift = BUCKETS_PER_OCTAVE * octaves
        moved = np.zeros_like(own)
        kept = np.arange(max(0, -shift), min(last, last - shift))
        moved[:, kept + shift] = own[:, kept]
        if shift < 0:
            moved[:, 0] += own[:, : min(-shift, last)].sum(axis=1)
        moved[:, last] = own.sum(axis=1) - moved.sum(axis=1)
        delays = self.delays.copy()
        delays[label] = moved
        return replace(self, delays=delays)


def in_bands(band_of: IntArray, by_pane: IntArray) -> FloatArray:
    """Return the predictions of each band and pane: sums over the band's cells. O(j K)."""
    return np.stack([sums_of(band_of, row, NUM_BANDS) for row in by_pane], axis=1)


def _bands(predictions: IntArray, number: int) -> IntArray:
    """Return the band in which each cell's middle rank is, exact in integers."""
    total = int(predictions.sum())
    middles = 2 * np.cumsum(predictions) - predictions
    bands: IntArray = np.minimum(middles * number // max(2 * total, 1), number - 1)
    return bands


def _pooled(by_band: FloatArray, counts: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the group of each class and band, and the counts of its group."""
    groups = np.tile(np.arange(by_band.shape[1]), (2, 1))
    delays = counts.copy()
    for label in (0, 1):
        sparse = np.flatnonzero(by_band[label] < MIN_BAND_LABELS)
        if sparse.size and by_band[label, sparse].sum() < MIN_BAND_LABELS:
            # Together they are too few as well: the largest band joins them.
            sparse = np.union1d(sparse, [int(by_band[label].argmax())])
        groups[label, sparse] = sparse[0] if sparse.size else 0
        delays[label, sparse] = counts[label, sparse].sum(axis=0)
    return groups, delays
