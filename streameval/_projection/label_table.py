"""The rows of all panes as columns, and what was known of them at a time.

The event times of a pane's predictions are taken as uniform in the pane, and the delays
in a bucket as uniform in the bucket. So at an earlier time a pane knew, of each bucket,
the share of `arrived_shares`; at present all that is counted is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streameval._projection.delay_counts import BUCKET_EDGES_US, NUM_BUCKETS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._projection.delay_counts import DelayRows
    from streameval._projection.delay_panes import DelayPanes

_DELAYS_PER_BUCKET = 8
"""Points at which a bucket's delays are averaged."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelTable:
    """Predictions and labels of J panes in K cells.

    Attributes
    ----------
    cells : float64[K]
        Lower edges, ascending, of all cells in use.
    starts_us, ends_us : int64[J]
        The panes, oldest first; the last one ends at `now_us` if it is not over.
    predictions : int64[J, K]
        Retracted ones left out.
    pane, cell, label, bucket, count : int64[n]
        The labels: rows of an index of the pane and of the cell, class, bucket of the
        delay, signed count.
    now_us : int
    """

    cells: FloatArray
    starts_us: IntArray
    ends_us: IntArray
    predictions: IntArray
    pane: IntArray
    cell: IntArray
    label: IntArray
    bucket: IntArray
    count: IntArray
    now_us: int

    @classmethod
    def of(cls, panes: DelayPanes) -> LabelTable:
        """Return the table of all panes. O(rows log rows)."""
        held = list(panes)
        spans = [(pane.start_us, pane.end_us) for pane in held]
        return cls.of_rows(spans, [pane.content.rows() for pane in held], panes.now_us)

    @classmethod
    def of_rows(
        cls, spans: Sequence[tuple[int, int]], rows: Sequence[DelayRows], now_us: int
    ) -> LabelTable:
        """Return the table of panes, given each one's span and its rows. O(rows log rows)."""
        if rows:
            scores, slots, counts = (np.concatenate(column) for column in zip(*rows, strict=True))
        else:
            scores, slots, counts = np.empty(0), np.empty(0, np.uint16), np.empty(0, np.int64)
        pane = np.repeat(np.arange(len(rows)), [each.counts.size for each in rows])
        cells, cell = np.unique(scores, return_inverse=True)
        predictions = np.zeros((len(rows), cells.size), dtype=np.int64)
        first = slots == 0
        predictions[pane[first], cell[first]] = counts[first]
        slot = slots[~first].astype(np.int64) - 1
        ends = [min(end, max(now_us, start + 1)) for start, end in spans]
        return cls(
            cells=cells,
            starts_us=np.array([start for start, _ in spans], dtype=np.int64),
            ends_us=np.array(ends, dtype=np.int64),
            predictions=predictions,
            pane=pane[~first],
            cell=cell[~first],
            label=slot % 2,
            bucket=slot // 2,
            count=counts[~first],
            now_us=now_us,
        )

    def arrived_shares(self, chosen: IntArray, at_us: int) -> FloatArray:
        """Return the share of each bucket's labels that panes know at a time. O(J buckets).

        Parameters
        ----------
        chosen : int64[j]
            Indices of panes.
        at_us : int

        Returns
        -------
        float64[j, buckets]
        """
        lower, upper = BUCKET_EDGES_US[:-1], BUCKET_EDGES_US[1:]
        steps = (np.arange(_DELAYS_PER_BUCKET) + 0.5) / _DELAYS_PER_BUCKET
        delays = lower[:, None] + (upper - lower)[:, None] * steps
        start = self.starts_us[chosen, None, None]
        width = (self.ends_us - self.starts_us)[chosen, None, None]
        shares: FloatArray = np.clip((at_us - delays - start) / width, 0.0, 1.0).mean(axis=2)
        return shares

    def labels_at(self, chosen: IntArray, at_us: int) -> FloatArray:
        """Return the labels that panes knew at a time. O(rows).

        Returns
        -------
        float64[2, j, K]
            By class, pane and cell; whole numbers at `now_us`.
        """
        place = np.full(self.starts_us.size, -1)
        place[chosen] = np.arange(chosen.size)
        rows = np.flatnonzero(place[self.pane] >= 0)
        at = place[self.pane[rows]]
        counts = self.count[rows].astype(np.float64)
        if at_us < self.now_us:
            counts *= self.arrived_shares(chosen, at_us)[at, self.bucket[rows]]
        flat = (self.label[rows] * chosen.size + at) * self.cells.size + self.cell[rows]
        size = 2 * chosen.size * self.cells.size
        found = sums_of(flat, counts, size)
        return found.reshape(2, chosen.size, self.cells.size)

    def delays(self, chosen: BoolArray, band_of: IntArray, bands: int) -> FloatArray:
        """Return the labels of panes by class, band and bucket, final ones. O(rows).

        Parameters
        ----------
        chosen : bool[J]
        band_of : int64[K]
            The band of each cell.
        bands : int

        Returns
        -------
        float64[2, bands, buckets]
        """
        rows = np.flatnonzero(chosen[self.pane])
        flat = (self.label[rows] * bands + band_of[self.cell[rows]]) * NUM_BUCKETS
        flat += self.bucket[rows]
        found = sums_of(flat, self.count[rows], 2 * bands * NUM_BUCKETS)
        return found.reshape(2, bands, NUM_BUCKETS)


def sums_of(groups: IntArray, values: FloatArray | IntArray, size: int) -> FloatArray:
    """Return the sum of the values of each group, 0 to size - 1. O(n)."""
    return np.bincount(groups, values, minlength=size).astype(np.float64, copy=False)
