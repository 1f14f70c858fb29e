"""Whether the labels of a window come slower or faster than the labels of the model.

Fewer labels may be slower labels or fewer positives; only the shape of the delays tells them
apart. A delay in a pane is seen only if it is at most the pane's age (right truncation: Kalbfleisch
and Lawless 1991, Statistica Sinica 1:19). Given how many labels of a class a pane has, their
delays have known probabilities, whatever the prevalence. Only buckets are read for which all
predictions of the pane are old enough, since where they lie in the pane is not known; and not the
last one, since the end of the ttl does not move. The score compares a label's probabilities under
doubled and under halved delays, of all bands together and smoothed, so that rare delays do not make
it rough. Its mean and variance are of the label's own group of bands; the variance includes the
model's own sample.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streameval._projection.delay_counts import BUCKETS_PER_OCTAVE, NUM_BUCKETS
from streameval._projection.delay_model import NUM_BANDS
from streameval._projection.label_table import sums_of
from streameval._uncertainty.student import normal_quantile

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray, IntArray
    from streameval._projection.delay_model import DelayModel
    from streameval._projection.label_table import LabelTable

MIN_P_VALUE = 0.01
"""Below it, for either class, the window's labels do not come as the model's."""
MIN_OCTAVES = 0.1
"""A scale that differs by less, 7 %, is never a reason to refuse."""
FEWEST_OCTAVES, MAX_OCTAVES = -1.0, 1.25
"""How far delays are taken to have changed where the labels do not tell: half to 2.4 times as long.
With 1 the interval held the final value in 0.89 of the windows whose delays doubled."""
MIN_POWER = 0.8
"""Against a doubling; with less the labels cannot tell."""


@dataclass(frozen=True, slots=True)
class DelayScale:
    """The score of the delays of one class, and what is expected of it.

    Attributes
    ----------
    score : float
        Of the window's labels; its mean is 0 if they come as the model's.
    deviation : float
        Its standard deviation; 0 without labels.
    doubled, halved : float
        Its mean if all delays double, and if all halve.
    """

    score: float
    deviation: float
    doubled: float
    halved: float

    @property
    def p_value(self) -> float:
        """The two-sided probability of a score as far from 0; 1 without labels."""
        if not self.deviation > 0:
            return 1.0
        return math.erfc(abs(self.score) / self.deviation / math.sqrt(2))

    @property
    def power(self) -> float:
        """The probability with which a doubling has a p-value of a class below its limit."""
        if not self.deviation > 0:
            return 0.0
        above = normal_quantile(MIN_P_VALUE / 4) - self.doubled / self.deviation
        return math.erfc(above / math.sqrt(2)) / 2

    @property
    def is_rejected(self) -> bool:
        """Whether the labels come slower or faster than chance explains."""
        return 2 * self.p_value < MIN_P_VALUE and abs(self.octaves(0.0)) > MIN_OCTAVES

    def octaves(self, deviations: float) -> float:
        """Return the binary logarithm of the scale, at a number of deviations from the score.

        It is 0 as before, 1 doubled, and between `FEWEST_OCTAVES` and `MAX_OCTAVES`.
        """
        score = self.score + deviations * self.deviation
        side = score or deviations
        full, most = (self.doubled, MAX_OCTAVES) if side > 0 else (-self.halved, -FEWEST_OCTAVES)
        told = self.deviation > 0 and abs(score) < most * full
        return score / full if told else math.copysign(most, side) if side else 0.0


def delay_scale(table: LabelTable, model: DelayModel, panes: IntArray, label: int) -> DelayScale:
    """Return the score of the delays of a class in a window, as known at present.

    O(panes bands buckets).

    Parameters
    ----------
    table : LabelTable
    model : DelayModel
    panes : int64[j]
        Indices of the window's panes.
    label : {0, 1}
    """
    arrived = (table.arrived_shares(panes, table.now_us) >= 1).astype(np.float64)
    arrived[:, model.last_bucket(label) :] = 0
    known = _labels(table, model, panes, label) * arrived
    groups, firsts = np.unique(model.groups[label], return_index=True)
    mature = model.group_labels[label][firsts]
    faster, own, slower = (model.scaled(label, octaves).delays[label] for octaves in (-1, 0, 1))

    def seen(delays: FloatArray) -> FloatArray:
        reached: FloatArray = delays[:, None, :] * arrived
        totals = reached.sum(axis=2, keepdims=True)
        reached /= np.where(totals > 0, totals, 1)
        return reached

    smooth = [_smoothed(each[firsts]) for each in (faster, own, slower)]
    halved, same, doubled = (seen((mature @ each)[None])[0] for each in smooth)
    mean = (halved + same + doubled) / 3
    weights = np.divide(doubled - halved, mean, out=np.zeros_like(mean), where=mean > 0)

    counts = known[groups].sum(axis=2)
    expected = seen(own[firsts])
    centre = (expected * weights).sum(axis=2)
    off = weights - centre[:, :, None]
    spread = (counts * (expected * off**2).sum(axis=2)).sum()
    reached = (own[firsts][:, None, :] * arrived).sum(axis=2)
    share = np.divide(counts, reached, out=np.zeros_like(counts), where=reached > 0)
    pull = (share[:, :, None] * arrived * off).sum(axis=1)
    of_model = (own[firsts] * pull**2).sum(axis=1) / np.maximum(mature, 1)
    means = [float((counts * (seen(each) * weights).sum(axis=2)).sum()) for each in smooth]
    return DelayScale(
        score=float((known[groups] * off).sum()),
        deviation=math.sqrt(float(spread + of_model.sum())),
        doubled=means[2] - means[1],
        halved=means[0] - means[1],
    )


def _smoothed(delays: FloatArray) -> FloatArray:
    """Return delays, each spread over an octave to either side: few labels make rough ones."""
    rise = np.arange(1, 2 * BUCKETS_PER_OCTAVE)
    kernel = np.minimum(rise, rise[::-1]) / BUCKETS_PER_OCTAVE**2
    return np.stack([np.convolve(each, kernel, mode="same") for each in delays])


def _labels(table: LabelTable, model: DelayModel, panes: IntArray, label: int) -> FloatArray:
    """Return the labels of a class by group, pane and bucket; retracted ones are left out."""
    place = np.full(table.starts_us.size, -1)
    place[panes] = np.arange(panes.size)
    rows = np.flatnonzero((place[table.pane] >= 0) & (table.label == label))
    group = model.groups[label][model.band_of[table.cell[rows]]]
    flat = (group * panes.size + place[table.pane[rows]]) * NUM_BUCKETS + table.bucket[rows]
    counts = sums_of(flat, table.count[rows], NUM_BANDS * panes.size * NUM_BUCKETS)
    return np.maximum(counts, 0).reshape(NUM_BANDS, panes.size, NUM_BUCKETS)
