"""Confidence bands of curves: the region of each threshold's point.

A threshold calls a share of the positives positive (TPR), and a share of the negatives (FPR).
These are different cases, so the shares are independent. Each has Wilson's interval (Wilson
1927) at the level sqrt(0.95), and the rectangle of both contains the threshold's true point
with probability 0.95. A band is bounded by the rectangles' best and worst corners, which
are curves themselves. One curve dominates another in ROC space if and only if it does in
precision-recall space (Davis and Goadrich 2006, theorem 3.2), so the band there is the
image of one in ROC space. The precision depends on the prevalence too, which is a third
independent share: each has the level 0.95^(1/3) then, and the best corners are at the
prevalence's upper limit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streameval._uncertainty.student import normal_quantile
from streameval.display._canvas import BAND_ALPHA

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Polygon

    from streameval._common.arrays import Counts, FloatArray
    from streameval._metrics.operating_points import Curve

LEVEL = 0.95
_ROWS = 500
"""How many points of a curve have corners: evenly spaced, and as many in a geometric series."""
_NODES_PER_PIECE = 16


class Band(NamedTuple):
    """The two curves that bound a band, each from the highest threshold to the lowest."""

    upper_x: FloatArray
    upper_y: FloatArray
    lower_x: FloatArray
    lower_y: FloatArray


def wilson(part: Counts, whole: Counts | float, level: float) -> tuple[FloatArray, FloatArray]:
    """Return Wilson's limits of part/whole, which are numbers of cases; 0 and 1 of none."""
    quantile = normal_quantile((1 - level) / 2)
    square = quantile**2
    total = np.asarray(whole, dtype=np.float64)
    centre = (part + square / 2) / (total + square)
    variance = part * (1 - part / np.maximum(total, 1)) + square / 4
    half = quantile * np.sqrt(variance) / (total + square)
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def roc_band(curve: Curve, level: float = LEVEL) -> Band:
    """Return the band of a ROC curve. The ends are certain: nothing, or everything, is called."""
    last = len(curve) - 1
    even = np.linspace(0, last, min(_ROWS, last + 1))
    geometric = np.geomspace(1, max(last, 1), _ROWS)
    rows = np.unique(np.clip(np.concatenate((even, geometric)), 0, last).astype(np.int64))
    low_fpr, high_fpr = wilson(curve.fp[rows], curve.N, math.sqrt(level))
    low_tpr, high_tpr = wilson(curve.tp[rows], curve.P, math.sqrt(level))

    def whole(rates: FloatArray) -> FloatArray:
        return np.concatenate(([0.0], rates, [1.0]))

    return Band(whole(low_fpr), whole(high_tpr), whole(high_fpr), whole(low_tpr))


def pr_band(curve: Curve) -> Band:
    """Return the band of a precision-recall curve, widened for the error of the prevalence."""
    band = roc_band(curve, LEVEL ** (2 / 3))
    upper_x, upper_y, lower_x, lower_y = map(_denser, band)
    low, high = wilson(np.array([curve.P]), curve.P + curve.N, LEVEL ** (1 / 3))
    return Band(
        upper_y,
        _precision(high * upper_y, (1 - high) * upper_x),
        lower_y,
        _precision(low * lower_y, (1 - low) * lower_x),
    )


def fill_band(ax: Axes, band: Band, color: str) -> Polygon:
    """Fill the region between the two curves; the legend names the first of several."""
    x = np.concatenate((band.upper_x, band.lower_x[::-1]))
    y = np.concatenate((band.upper_y, band.lower_y[::-1]))
    label = "95 % region at each threshold"
    is_first = all(each.get_label() != label for each in ax.patches)
    (region,) = ax.fill(
        x,
        y,
        color=color,
        alpha=BAND_ALPHA,
        linewidth=0,
        zorder=2,
        label=label if is_first else "_nolegend_",
    )
    return region


def _denser(values: FloatArray) -> FloatArray:
    """Insert nodes between the points, because lines of ROC space are curved in PR space."""
    places = np.arange(values.size, dtype=np.float64)
    nodes = np.linspace(0, values.size - 1, (values.size - 1) * _NODES_PER_PIECE + 1)
    return np.interp(nodes, places, values)


def _precision(tp: FloatArray, fp: FloatArray) -> FloatArray:
    precision = np.ones(tp.shape)
    np.divide(tp, tp + fp, out=precision, where=tp + fp > 0)
    return precision
