"""The rules for weights and label probabilities that callers pass, and how weights are rounded.

A *weight* is a finite number from 0 to 2**31; a weight of 0 drops the row. A *label
probability* p, above 0 and at most 1, divides it. What results is rounded to the nearest
multiple of 2**-16, and so changes by at most a share of 2**-17 over itself. One that would change
by more than a thousandth is refused, with the power of two that all are to be multiplied by.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.values import at_row, is_number, real, shown
from streameval._counts.columns import check_length, check_reals, check_score
from streameval._counts.exact import MAX_TOTAL
from streameval._counts.weights import (
    MAX_WEIGHT,
    MAX_WEIGHTED_CASES,
    WEIGHT_UNITS,
    too_many_weighted,
)

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray, IntArray

MAX_CHANGE = 1e-3
"""A weight that rounding changes by a greater share of itself is refused."""
_MIN_WEIGHT = 0.5 / WEIGHT_UNITS / MAX_CHANGE
"""No weight of this or more is refused for that: 0.0076."""

_MAX_SCALED_TOTAL = 2.0**44
"""Scaled weights add up to less than this: the total of an evaluator stays below 2**46."""


def check_units(
    weights: Any,
    label_probability: Any,
    *,
    size: int,
    counts: IntArray | None,
    like: str = "labels",
) -> IntArray:
    """Read a column of weights, of label probabilities or of both, as integer units. O(n).

    Parameters
    ----------
    weights : column of float, or None
        They are rounded, after the division.
    label_probability : column of float, float or None
        The weights are divided by it.
    size : int
        How many rows there are.
    counts : int64[n] or None
        Cases of each row.
    like : str
        The column that has `size` rows.

    Raises
    ------
    InvalidInputError
        With ``field`` and ``index`` of the first value at fault.
    """
    values = np.ones(size)
    if weights is not None:
        values = check_weights(weights)
        check_length("weights", values.size, like=like, length=size)
    if label_probability is not None:
        values = values / _probabilities(label_probability, size, like)
        large = np.flatnonzero(values > MAX_WEIGHT)
        if large.size:
            raise _refused_quotient(float(values[large[0]]), int(large[0]))
    in_units = _rounded_units(values, over_probability=label_probability is not None)
    units = in_units.astype(np.int64)
    # A sum of floats is accurate enough: int64 holds twice MAX_TOTAL.
    cases = units.size if counts is None else counts.sum(dtype=np.float64)
    total = (in_units if counts is None else in_units * counts).sum()
    if cases >= MAX_WEIGHTED_CASES or total >= MAX_TOTAL:
        raise too_many_weighted()
    return units


def check_weights_allowed(
    cluster_groups: int | None, *, field: str, holder: str = "an evaluator"
) -> None:
    """Refuse weights, or label probabilities, where the holder declares clusters. O(1)."""
    if cluster_groups is not None:
        message = (
            f"{holder} that declares clusters takes no weights and no label probabilities: "
            "its groups keep numbers of cases; use one without cluster_groups"
        )
        raise InvalidInputError(message, field=field)


def check_least_probability(value: Any) -> float | None:
    """Read the least label probability that is declared, from 2**-31 to 1; None is none."""
    if value is None:
        return None
    least = real(value, "min_label_probability")
    if not 1 / MAX_WEIGHT <= least <= 1:
        message = f"min_label_probability must be from 2**-31 to 1, got {shown(value)}"
        raise InvalidInputError(message, field="min_label_probability")
    return least


def check_unit(weight: Any, label_probability: Any) -> int:
    """Read one weight, one label probability or both as an integer of units, or refuse it."""
    value = 1.0
    if weight is not None:
        value = check_weight(weight, field="weight")
    if label_probability is not None:
        share = check_score(label_probability, field="label_probability", noun="label probability")
        if not 0 < share <= 1:
            raise _refused_probability(label_probability, None)
        value /= share
        if value > MAX_WEIGHT:
            raise _refused_quotient(value, None)
    in_units = value * WEIGHT_UNITS
    units = round(in_units)
    if abs(units - in_units) > in_units * MAX_CHANGE:
        over_probability = label_probability is not None
        raise _refused_small(np.array([value]), "weight", None, over_probability=over_probability)
    return units


def _rounded_units(values: FloatArray, *, over_probability: bool) -> FloatArray:
    """Return checked weights in whole units, or refuse one that this changes much. O(n)."""
    in_units = values * WEIGHT_UNITS
    units: FloatArray = np.rint(in_units)
    if np.array_equal(units, in_units):
        return units
    changed = np.abs(units - in_units) > in_units * MAX_CHANGE
    if changed.any():
        field, index = "weights", int(np.argmax(changed))
        raise _refused_small(values, field, index, over_probability=over_probability)
    return units


def check_weight(weight: Any, *, field: str) -> float:
    """Read one weight, finite and from 0 to 2**31, or refuse it."""
    value = check_score(weight, field=field, noun="weight")
    if not 0 <= value <= MAX_WEIGHT:
        raise _refused_weight(weight, field, None)
    return value


def check_weights(weights: Any, *, field: str = "weights") -> FloatArray:
    """Read a column of weights, finite and from 0 to 2**31. O(n)."""
    values = check_reals(weights, field=field, noun="weight")
    if values.size and not (values.min() >= 0 and values.max() <= MAX_WEIGHT):
        index = int(np.argmax(~((values >= 0) & (values <= MAX_WEIGHT))))
        raise _refused_weight(float(values[index]), field, index)
    return values


def scaled_weights(weights: Any, *, field: str) -> FloatArray:
    """Return weights times a power of two, rounded to multiples of 2**-16. O(n).

    A metric of weighted cases does not depend on the scale of the weights, so the largest
    power is taken that the limits allow. A weight is then wrong by at most n/2**58 of the
    mean weight, or by 2**-44 of the greatest: 3e-12 and 6e-14 for a million rows.

    Parameters
    ----------
    weights : column of float
        Finite, 0 or more, of any size.
    field : str
        The name of the caller's argument.
    """
    values = check_reals(weights, field=field, noun="weight")
    bad = np.flatnonzero(~(values >= 0))
    if bad.size:
        raise _refused_weight(float(values[bad[0]]), field, int(bad[0]))
    greatest = float(values.max(initial=0.0))
    if greatest == 0:
        return values
    # From the exponents: the sum itself might overflow.
    mean_share = float((values / greatest).sum())
    power = min(math.log2(MAX_WEIGHT), math.log2(_MAX_SCALED_TOTAL / mean_share))
    shift = math.floor(power) - math.frexp(greatest)[1]
    scaled: FloatArray = np.rint(np.ldexp(values, shift) * WEIGHT_UNITS) / WEIGHT_UNITS
    return scaled


def _probabilities(label_probability: Any, size: int, like: str) -> FloatArray:
    if is_number(label_probability):
        check_unit(None, label_probability)
        return np.full(size, float(label_probability))
    values = check_reals(label_probability, field="label_probability", noun="label probability")
    check_length("label_probability", values.size, like=like, length=size)
    bad = np.flatnonzero(~((values > 0) & (values <= 1)))
    if bad.size:
        raise _refused_probability(float(values[bad[0]]), int(bad[0]))
    return values


def _refused_weight(value: Any, field: str, index: int | None) -> InvalidInputError:
    message = f"weight must be finite, from 0 to 2**31, got {shown(value)}{at_row(index)}"
    return InvalidInputError(message, field=field, index=index)


def _refused_small(
    values: FloatArray, field: str, index: int | None, *, over_probability: bool
) -> InvalidInputError:
    """Return the error of a weight that rounding would change, with the factor that mends it."""
    at = 0 if index is None else index
    noun = "weight over label probability" if over_probability else "weight"
    power = math.ceil(math.log2(_MIN_WEIGHT) - math.log2(values[values > 0].min()))
    if math.log2(values.max()) + power > math.log2(MAX_WEIGHT):
        remedy = (
            f"no factor mends it, as others are up to {shown(float(values.max()))}: leave out "
            f"or raise those below {values.max() * _MIN_WEIGHT / MAX_WEIGHT:.2g}"
        )
    else:
        remedy = f"multiply all weights by 2**{power}: figures depend on their ratios only"
    message = (
        f"{noun} {shown(float(values[at]))}{at_row(index)} would change by more than a thousandth "
        f"if rounded to a multiple of 2**-16; {remedy}"
    )
    return InvalidInputError(message, field=field, index=index)


def _refused_probability(value: Any, index: int | None) -> InvalidInputError:
    message = f"label probability must be above 0 and at most 1, got {shown(value)}{at_row(index)}"
    return InvalidInputError(message, field="label_probability", index=index)


def _refused_quotient(value: float, index: int | None) -> InvalidInputError:
    message = (
        f"weight over label probability must be at most 2**31, got {shown(value)}{at_row(index)}"
    )
    return InvalidInputError(message, field="label_probability", index=index)
