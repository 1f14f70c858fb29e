"""What may be watched, and the value of each case for it.

A *watch* is a name that the user gives. It has one or two *sides*: a mean of values from 0
to 1 over one population, of which a fall is bad. Where a rise is bad as well, the second
side has the mirrored values. A value is a multiple of 1/65535, so that sums are integers,
the same in every order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from streameval._common.arrays import BoolArray, FloatArray, IntArray

UNITS: Final = 65_535
"""The units of a value: it is stored as an integer from 0 to this."""

Population = Literal["positives", "negatives", "flagged", "cases", "predictions"]
Value = Literal["precision", "loss", "rank", "label", "flag", "residual"]


@dataclass(frozen=True, slots=True)
class Side:
    """One mean of which a fall is bad.

    Attributes
    ----------
    population : str
        The rows whose values are averaged.
    value : str
        The value of each row, from 0 to 1. "precision": the reference's precision at its
        score; "loss": 1 minus what a negative with its score costs the reference's average
        precision, scaled; "rank": the share of the other class that it is ranked better
        than, for a prediction the share of all cases; "residual": (label - score + 1)/2.
    is_mirrored : bool
        Whether 1 minus the value is averaged, so that a rise of the unmirrored mean is bad.
    """

    population: Population
    value: Value
    is_mirrored: bool = False

    @property
    def table(self) -> tuple[Population, Value] | None:
        """The key of its table of values by band; None where it needs none."""
        if self.value not in {"precision", "loss", "rank"}:
            return None
        return self.population, self.value

    @property
    def unit(self) -> float:
        """What 1 of its values is in the unit that people read."""
        return 2.0 if self.value == "residual" else 1.0

    def shown(self, mean: float) -> float:
        """Return a mean of its values in the unit that people read."""
        plain = 1 - mean if self.is_mirrored else mean
        return 2 * plain - 1 if self.value == "residual" else plain


@dataclass(frozen=True, slots=True)
class Watch:
    """What the user names.

    Attributes
    ----------
    name : str
    code : int
        In bytes; never reused.
    titles : tuple of str
        Of each side's mean, in the unit that people read.
    sides : tuple of Side
    look_at : str
        Which figures show it.
    needs_threshold : bool
    """

    name: str
    code: int
    titles: tuple[str, ...]
    sides: tuple[Side, ...]
    look_at: str
    needs_threshold: bool = False


_TABLE: Final = (
    Watch(
        "ranking",
        1,
        ("the reference's precision at the positives' scores", "negatives kept off the top"),
        (Side("positives", "precision"), Side("negatives", "loss")),
        "the precision-recall curve and its area, before and since",
    ),
    Watch(
        "auc_roc",
        2,
        (
            "AUC-ROC against the reference's negatives",
            "AUC-ROC against the reference's positives",
        ),
        (Side("positives", "rank"), Side("negatives", "rank")),
        "the ROC curve and its area, and the histograms of scores by class, before and since",
    ),
    Watch(
        "precision",
        3,
        ("precision at the threshold",),
        (Side("flagged", "label"),),
        "precision and the share flagged at the threshold, over time; then the prevalence",
        needs_threshold=True,
    ),
    Watch(
        "recall",
        4,
        ("recall at the threshold",),
        (Side("positives", "flag"),),
        "recall at the threshold over time; then the histogram of the positives' scores",
        needs_threshold=True,
    ),
    Watch(
        "flagged",
        5,
        ("the share flagged", "the share flagged"),
        (Side("predictions", "flag"), Side("predictions", "flag", is_mirrored=True)),
        "the share flagged over time, and the histogram of all scores, before and since",
        needs_threshold=True,
    ),
    Watch(
        "calibration",
        6,
        ("the mean of label minus score", "the mean of label minus score"),
        (Side("cases", "residual"), Side("cases", "residual", is_mirrored=True)),
        "the reliability table before and since, and the prevalence over time",
    ),
)
WATCHES: Final = {watch.name: watch for watch in _TABLE}
BY_CODE: Final = {watch.code: watch for watch in _TABLE}

BOTH_WAYS: Final = tuple(
    replace(watch, sides=tuple(replace(side, is_mirrored=mirrored) for side in watch.sides))
    for mirrored in (False, True)
    for watch in (WATCHES["ranking"], WATCHES["auc_roc"])
)
"""The order of cases, looked at both ways: what becomes worse, and then what becomes better."""

COMPANIONS: Final = (
    Side("predictions", "rank"),
    Side("predictions", "rank", is_mirrored=True),
    Side("cases", "label"),
    Side("cases", "label", is_mirrored=True),
)
"""Sides that every detector follows and that raise no alarm: they tell whether the
distribution of scores or the share of positives changed."""


class WatchRows(NamedTuple):
    """Rows whose values are read: cases, predictions without a label, or labels.

    Attributes
    ----------
    labels : bool[n] or None
        None for predictions without a label.
    scores : float64[n]
    bands : int64[n]
        The band of each score.
    is_prediction : bool
        Whether they count as predictions: not where those were counted before.
    """

    labels: BoolArray | None
    scores: FloatArray
    bands: IntArray
    is_prediction: bool


def side_values(
    side: Side,
    rows: WatchRows,
    threshold: float,
    tables: Mapping[tuple[Population, Value], npt.NDArray[np.uint16]],
) -> tuple[BoolArray, IntArray]:
    """Return which rows a side's mean counts, and the value of every row in units. O(n).

    Rows with scores from `threshold` on are flagged; without one it is infinite.
    """
    is_counted = _population(side.population, rows, threshold)
    values = _values(side, rows, threshold, tables)
    return is_counted, UNITS - values if side.is_mirrored else values


def _population(population: Population, rows: WatchRows, threshold: float) -> BoolArray:
    if population == "predictions":
        return np.full(rows.scores.size, rows.is_prediction)
    if rows.labels is None:
        return np.zeros(rows.scores.size, dtype=np.bool_)
    if population == "positives":
        return rows.labels
    if population == "negatives":
        return ~rows.labels
    if population == "flagged":
        flagged: BoolArray = rows.scores >= threshold
        return flagged
    return np.ones(rows.scores.size, dtype=np.bool_)


def _values(
    side: Side,
    rows: WatchRows,
    threshold: float,
    tables: Mapping[tuple[Population, Value], npt.NDArray[np.uint16]],
) -> IntArray:
    if side.table is not None:
        return tables[side.table][rows.bands].astype(np.int64)
    if side.value == "flag":
        return (rows.scores >= threshold).astype(np.int64) * UNITS
    labels = np.zeros(rows.scores.size) if rows.labels is None else rows.labels
    if side.value == "label":
        return labels.astype(np.int64) * UNITS
    return residual_units(labels.astype(np.float64), rows.scores).astype(np.int64)


def residual_units(labels: FloatArray, scores: FloatArray) -> FloatArray:
    """Return (label - score + 1)/2 in whole units, from 0 to `UNITS`. O(n).

    A stream that does not declare probabilities may have later scores outside 0 to 1: they
    count as the nearest probability, for a value outside 0 to 1 voids what evidence promises.

    >>> residual_units(np.array([0.0, 1.0, 1.0]), np.array([1.0, 0.0, -7.0])).tolist()
    [0.0, 65535.0, 65535.0]
    """
    units = labels - scores
    units += 1
    units *= UNITS / 2
    np.rint(units, out=units)
    return np.clip(units, 0.0, UNITS, out=units)
