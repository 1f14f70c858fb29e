"""The score of the scale of delays: against a sum over labels, its size, what it finds."""

from __future__ import annotations

import math
from statistics import fmean, pstdev
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval._projection.delay_model import DelayModel
from streameval._projection.delay_scale import DelayScale, delay_scale

from .streams import draw

if TYPE_CHECKING:
    from streameval import Projection


def scale_of(projection: Projection, label: int) -> DelayScale:
    """Return the scale of a class of a window."""
    table = projection._table
    return delay_scale(table, projection._history.model(table.now_us), projection._panes, label)


def test_the_score_is_the_sum_over_labels() -> None:
    """Each label's weight less its mean under the model, a label and a bucket at a time."""
    projection = draw(40, per_day=100).projection
    table, panes = projection._table, projection._panes
    model: DelayModel = projection._history.model(table.now_us)
    whole = table.arrived_shares(panes, table.now_us) >= 1
    groups, firsts = np.unique(model.groups[1], return_index=True)

    def pooled(octaves: int) -> list[float]:
        delays = model.scaled(1, octaves).delays[1]
        sums = np.zeros(delays.shape[1])
        for first in firsts.tolist():
            sums += model.group_labels[1][first] * delays[first]
        rise = [1, 2, 3, 4, 3, 2, 1]
        return [
            sum(
                share * sums[bucket + off - 3]
                for off, share in enumerate(rise)
                if 0 <= bucket + off - 3 < sums.size
            )
            for bucket in range(sums.size)
        ]

    shapes = {octaves: pooled(octaves) for octaves in (-1, 0, 1)}
    score = 0.0
    for place, pane in enumerate(panes.tolist()):
        seen = np.flatnonzero(whole[place]).tolist()
        chances = {}
        for octaves, shape in shapes.items():
            total = sum(shape[bucket] for bucket in seen)
            chances[octaves] = {b: shape[b] / total if total else 0.0 for b in seen}
        weights = {}
        for bucket in seen:
            mean = fmean(chances[octaves][bucket] for octaves in (-1, 0, 1))
            moved = chances[1][bucket] - chances[-1][bucket]
            weights[bucket] = moved / mean if mean else 0.0
        for group, first in zip(groups.tolist(), firsts.tolist(), strict=True):
            own = model.delays[1][first]
            total = sum(own[bucket] for bucket in seen)
            centre = sum(own[b] * weights[b] for b in seen) / total if total else 0.0
            rows = (table.pane == pane) & (table.label == 1)
            rows &= model.groups[1][model.band_of[table.cell]] == group
            for bucket, count in zip(table.bucket[rows], table.count[rows], strict=True):
                if whole[place, bucket]:
                    score += count * (weights[int(bucket)] - centre)
    assert scale_of(projection, 1).score == pytest.approx(score, rel=1e-9)


def test_the_score_of_unchanged_delays_has_its_deviation() -> None:
    """Its mean is 0 and its spread 1 standard deviation, of 60 streams."""
    found = [scale_of(draw(seed, per_day=150).projection, 1) for seed in range(500, 560)]
    scores = [each.score / each.deviation for each in found]
    assert abs(fmean(scores)) < 4 / math.sqrt(60)
    assert 1 - 4 / math.sqrt(120) < pstdev(scores) < 1 + 4 / math.sqrt(120)


@pytest.mark.parametrize("slower", [2.0, 0.5])
def test_the_scale_of_changed_delays_is_found(slower: float) -> None:
    """With many labels the score says by how many octaves delays grew or shrank."""
    found = [
        scale_of(draw(seed, per_day=3000, slower=slower, days_of_positive=1.0).projection, 1)
        for seed in range(3)
    ]
    assert all(each.is_rejected for each in found)
    assert fmean(each.octaves(0.0) for each in found) == pytest.approx(math.log2(slower), abs=0.25)


def test_octaves_stop_where_labels_do_not_tell() -> None:
    """Half to 2.4 times as long; without labels everything between is possible."""
    scale = DelayScale(score=1.0, deviation=2.0, doubled=4.0, halved=-8.0)
    assert [scale.octaves(each) for each in (-1, 0, 1, 9, -9)] == [-0.125, 0.25, 0.75, 1.25, -1]
    none = DelayScale(0.0, 0.0, 0.0, 0.0)
    assert [none.octaves(each) for each in (-2, 0, 2)] == [-1, 0, 1.25]
    assert (none.p_value, none.power, none.is_rejected) == (1.0, 0.0, False)
    assert scale.power == pytest.approx(0.2097, abs=1e-3)
