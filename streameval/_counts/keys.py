"""Doubles as integers that have their order: the IEEE 754 bits, read as sign and magnitude.

Cells are runs of such keys that agree in their leading bits (`resolution`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray, IntArray

LARGEST_KEY = np.int64(0x7FEF_FFFF_FFFF_FFFF)
"""Of the largest double."""

HALF_KEY = np.int64(0x3FE0_0000_0000_0000)
"""Of 1/2."""

_MAGNITUDE = np.int64(0x7FFF_FFFF_FFFF_FFFF)


def to_key(values: FloatArray) -> IntArray:
    """Return the signed integers that order as the doubles do; -0.0 and 0.0 are 0. O(n).

    They may be the doubles' own memory: never change them in place.
    """
    raw = values.view(np.int64)
    if not raw.size or raw.min() >= 0:
        return raw  # no sign bit, and bits in their order already
    below = raw >> np.int64(63)  # all ones below zero
    keys = below & _MAGNITUDE
    keys ^= raw
    keys -= below
    return keys


def from_key(keys: IntArray) -> FloatArray:
    """Return the doubles that have these keys; below all finite ones, the lowest. O(n).

    They may be the keys' own memory: never change them in place.
    """
    if not keys.size or keys.min() >= 0:
        return keys.view(np.float64)
    keys = np.maximum(keys, -LARGEST_KEY)
    magnitude = np.abs(keys).view(np.float64)
    return np.where(keys < 0, -magnitude, magnitude)


def floor_key(keys: IntArray, dropped: int) -> IntArray:
    """Return the lowest key of each cell of so many low bits. O(n)."""
    if dropped == 64:
        return np.full_like(keys, -LARGEST_KEY)
    # An arithmetic shift rounds toward minus infinity.
    shift = np.int64(dropped)
    return (keys >> shift) << shift


def next_key(keys: IntArray, dropped: int) -> IntArray:
    """Return the first key above each cell, at most one above the largest double's. O(n)."""
    if dropped == 64:
        return np.full_like(keys, LARGEST_KEY + 1)
    last = keys | np.int64((1 << dropped) - 1)
    following: IntArray = np.minimum(last, LARGEST_KEY) + 1
    return following
