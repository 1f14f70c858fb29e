"""Sums of products: exact sums beyond int64, and sums of floats.

Counts are int64 and totals stay below 2^62, so a product of two counts may need
124 bits. Floats would round it, and an AUC with a rounded pair count is no longer
the Wilcoxon-Mann-Whitney statistic. O(n), vectorised at every size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from streameval._common.errors import InvalidInputError

if TYPE_CHECKING:
    from streameval._common.arrays import Counts, FloatArray, IntArray

MAX_TOTAL = 2**62
"""Cases: all counts together stay below this, so that doubled counts fit int64."""

# Three limbs of 21 bits hold 63 bits. A product of limbs has 42 bits, so an int64
# can sum 2^21 products without overflow.
_LIMB_BITS = 21
_LIMB_MASK = (1 << _LIMB_BITS) - 1
_CHUNK = 1 << 20


def exact_dot(a: IntArray, b: IntArray, bound: int) -> int:
    """Return sum(a * b) as a Python int, whatever its size.

    Parameters
    ----------
    a, b : int64[n]
        Not negative.
    bound : int
        An upper bound of the result. Below 2^63 one int64 pass is enough.

    Returns
    -------
    int
        The exact sum. O(n).

    Examples
    --------
    >>> import numpy as np
    >>> big = np.array([2**61, 3])
    >>> exact_dot(big, big, 2**123) == 2**122 + 9
    True
    """
    if bound < 1 << 63:
        each = constant_of(a)
        return int(np.dot(a, b)) if each is None else int(each) * int(b.sum())
    total = 0
    for start in range(0, a.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        for i in range(3):
            a_limb = (a[part] >> (_LIMB_BITS * i)) & _LIMB_MASK
            for j in range(3):
                b_limb = (b[part] >> (_LIMB_BITS * j)) & _LIMB_MASK
                total += int(np.dot(a_limb, b_limb)) << (_LIMB_BITS * (i + j))
    return total


def dot(a: FloatArray | IntArray, b: FloatArray | IntArray) -> float:
    """Return sum(a * b). O(n).

    Not `np.dot`: beyond some ten thousand floats it starts threads, which cost more
    than the sum on a busy machine, and it sums less accurately.
    """
    each = constant_of(b)
    if each is None:
        return float((a * b).sum())
    return float((a if each == 1 else a * each).sum())


def constant_of(column: Counts) -> np.float64 | np.int64 | None:
    """Return the value that a broadcast column repeats; None of a column of its own values. O(1).

    Where no scores tie, the groups' counts are such columns: a pass that multiplies by 1 or adds
    0 would change nothing.

    Examples
    --------
    >>> int(constant_of(repeated(np.int64(7), 3))), constant_of(np.array([7, 7, 7]))
    (7, None)
    """
    return column[0] if column.strides == (0,) and column.size else None


def repeated(value: np.generic, size: int) -> npt.NDArray[Any]:
    """Return a column that repeats one value by its stride, so that it takes no memory. O(1).

    As `np.broadcast_to`, which takes ten times as long: blocks of columns have many of them.
    """
    column: npt.NDArray[Any] = np.ndarray((size,), value.dtype, np.asarray(value), 0, (0,))
    column.flags.writeable = False
    return column


def too_many() -> InvalidInputError:
    """Return the error for more cases than can be counted exactly."""
    return InvalidInputError("all counts together must stay below 2**62", field="counts")
