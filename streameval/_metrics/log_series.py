"""Logarithms for areas in precision-recall space, accurate to the last digit.

If a tied group raises the number of cases at or above its rank from `a` to `a + s`, areas
in precision-recall space and their derivatives contain log1p(s/a). It mostly occurs in
differences that lose all digits for small s/a. With z = s/(2a + s),

    log1p(s/a) = 2 atanh(z) = 2 z (1 + z^2 S),   S = 1/3 + z^2/5 + z^4/7 + ...,

and expressions in z and S do not cancel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray

# In a long ranking z is smaller for nearly all groups, and two to four terms are enough.
_MAX_FLAT_Z = 0.01
_MIN_LONG_ROWS = 1_024
# Up to this z, 16 terms are enough; above it, atanh(z)/z - 1 is accurate.
_MAX_SERIES_Z = 1 / 3
_MAX_TERM_ERROR = 1e-17


def log_series(start: FloatArray, growth: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return a + (a + s), z and S, of the same shape; S is 0 where a is 0. O(n).

    Examples
    --------
    >>> import numpy as np
    >>> _, z, S = log_series(np.array([1.0, 1.0]), np.array([1.0, 1e-9]))
    >>> np.allclose(2 * z * (1 + z * z * S), np.log1p([1.0, 1e-9]), rtol=5e-16, atol=0)
    True
    """
    ends_sum = start + start
    ends_sum += growth
    z = growth / ends_sum
    flat = _MAX_FLAT_Z if z.size > _MIN_LONG_ROWS else _MAX_SERIES_Z
    largest = float(z.max(initial=0.0))
    tail = _series(z * z, min(largest, flat))
    if largest > flat:
        rows = np.flatnonzero(z > flat)
        steep = (each.reshape(-1)[rows] for each in (z, start, growth))
        tail.reshape(-1)[rows] = _steep_tail(*steep)
    return ends_sum, z, tail


def _steep_tail(z: FloatArray, start: FloatArray, growth: FloatArray) -> FloatArray:
    square = z * z
    tail = _series(square, _MAX_SERIES_Z)
    beyond = np.flatnonzero(z > _MAX_SERIES_Z)
    if beyond.size:
        above = start[beyond]
        # Not atanh: a z near 1 has lost the digits of `start`.
        log = np.log1p(growth[beyond] / np.where(above > 0, above, 1.0))
        excess = (log / (2 * z[beyond]) - 1) / square[beyond]
        tail[beyond] = np.where(above > 0, excess, 0.0)
    return tail


def _series(square: FloatArray, largest: float) -> FloatArray:
    """Return 1/3 + q/5 + q^2/7 + ..., with as many terms as q = `largest` squared needs."""
    terms = 1
    while (largest * largest) ** terms / (2 * terms + 3) > _MAX_TERM_ERROR:
        terms += 1
    if terms == 1:
        return np.full(square.shape, 1 / 3)
    value = square * (1 / (2 * terms + 1))
    value += 1 / (2 * terms - 1)
    for k in range(terms - 2, 0, -1):
        value *= square
        value += 1 / (2 * k + 1)
    return value
