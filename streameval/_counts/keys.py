"""Doubles as integers in the same order: the IEEE 754 bits, read as sign and magnitude.

A cell is the set of keys that agree in their leading bits (`resolution`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval._common.arrays import FloatArray, IntArray

LARGEST_KEY = np.int64(0x7FEF_FFFF_FFFF_FFFF)
"""The key of the largest double."""

HALF_KEY = np.int64(0x3FE0_0000_0000_0000)
"""The key of 1/2."""

ONE_KEY = np.int64(0x3FF0_0000_0000_0000)
"""The key of 1."""

_MAGNITUDE = np.int64(0x7FFF_FFFF_FFFF_FFFF)

_BLOCK_ROWS = 8_192
"""Rows of a piece: 64 KiB of each column."""


def blocks(size: int) -> Iterator[slice]:
    """Yield the rows of a column of this size in pieces that stay in the processor's cache.

    Several passes over one piece after the other take a third of the time of passes over a long
    column, whose temporary arrays are new memory each time.

    Examples
    --------
    >>> list(blocks(10_000))
    [slice(0, 8192, None), slice(8192, 16384, None)]
    """
    for first in range(0, size, _BLOCK_ROWS):
        yield slice(first, first + _BLOCK_ROWS)


def to_key(values: FloatArray) -> IntArray:
    """Return signed integers in the order of the doubles; -0.0 and 0.0 become 0. O(n).

    The result may share the doubles' memory: never change it in place.
    """
    raw = values.view(np.int64)
    if not raw.size or raw.min() >= 0:
        return raw  # without a sign bit the bits are in order already
    if raw.size <= _BLOCK_ROWS:
        return _in_order(raw)
    keys = np.empty_like(raw)
    for rows in blocks(raw.size):
        keys[rows] = _in_order(raw[rows])
    return keys


def _in_order(raw: IntArray) -> IntArray:
    """Return the keys of doubles' bits, of which some have a sign. O(n)."""
    below = raw >> np.int64(63)  # all bits 1 for negative numbers, else 0
    keys = below & _MAGNITUDE
    keys ^= raw
    keys -= below
    return keys


def from_key(keys: IntArray) -> FloatArray:
    """Return the doubles with these keys; keys below all finite ones give the lowest. O(n).

    The result may share the keys' memory: never change it in place.
    """
    if not keys.size or keys.min() >= 0:
        return keys.view(np.float64)
    keys = np.maximum(keys, -LARGEST_KEY)
    magnitude = np.abs(keys).view(np.float64)
    return np.where(keys < 0, -magnitude, magnitude)


def floor_key(keys: IntArray, dropped: int) -> IntArray:
    """Return the lowest key of each key's cell, a cell being `dropped` low bits. O(n)."""
    if dropped == 64:
        return np.full_like(keys, -LARGEST_KEY)
    # An arithmetic shift rounds toward minus infinity.
    shift = np.int64(dropped)
    return (keys >> shift) << shift


def next_key(keys: IntArray, dropped: int) -> IntArray:
    """Return the first key above each key's cell, at most `LARGEST_KEY + 1`. O(n)."""
    if dropped == 64:
        return np.full_like(keys, LARGEST_KEY + 1)
    last = keys | np.int64((1 << dropped) - 1)
    following: IntArray = np.minimum(last, LARGEST_KEY) + 1
    return following
