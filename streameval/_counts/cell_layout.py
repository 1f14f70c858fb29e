"""Where cells stand in a table over their numbers.

Cells of one resolution are numbered in order: the leading bits of a score's key are
such numbers. Scores that are measured with one model fill a narrow range of them, so a
table over that range is about as long as there are cells, and to find a cell's place in
it takes no search. Scores of both signs leave the cells of all magnitudes below theirs
unused: a table leaves that gap out.

Cost: a few passes over the keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from streameval._counts.keys import HALF_KEY, from_key, to_key
from streameval._counts.resolution import MAX_BITS

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray, IntArray
    from streameval._counts.resolution import Scale

_MAX_CHEAP_WIDTH = 1 << 17
"""A table up to this long is cheap whatever goes into it."""

_MAX_PLACES_PER_SCORE = 4
"""Longer tables may have this many places for each score."""

Range: TypeAlias = "tuple[int, int] | None"
"""The least and the greatest of some numbers; None where there are none."""


def cell_keys(scores: FloatArray, scale: Scale) -> IntArray:
    """Return the integers whose leading bits number the cells of scores, in order. O(n).

    On the probability scale those from 1/2 on count down the distance from 1. They may
    be the scores' own memory: never change them in place.

    Examples
    --------
    >>> (cell_keys(np.array([-1.5, 0.0, 1.0, 1.5]), "plain") >> 51).tolist()
    [-2047, 0, 2046, 2047]
    """
    if scale == "plain":
        return to_key(scores)
    is_lower = scores < 0.5
    keys = to_key(np.where(is_lower, scores, 1.0 - scores))
    return np.where(is_lower, keys, 2 * HALF_KEY - keys)


@dataclass(frozen=True, slots=True)
class Span:
    """Between which numbers, or keys, all of some are: those below zero, and the others.

    Attributes
    ----------
    below, above : (int, int) or None
        The least and the greatest, both included.
    """

    below: Range
    above: Range

    @classmethod
    def of(cls, keys: IntArray) -> Span:
        """Return the span of some keys, at least one. O(n)."""
        least, greatest = int(keys.min()), int(keys.max())
        if least >= 0:
            return cls(None, (least, greatest))
        if greatest < 0:
            return cls((least, greatest), None)
        # As unsigned numbers those below zero come last, in their order.
        unsigned = keys.view(np.uint64)
        return cls((least, int(unsigned.max()) - (1 << 64)), (int(unsigned.min()), greatest))

    def shifted(self, dropped: int) -> Span:
        """Return the span of the numbers that are left when low bits are dropped."""
        return Span(_shifted(self.below, dropped), _shifted(self.above, dropped))

    def union(self, other: Span) -> Span:
        """Return what holds both."""
        return Span(_union(self.below, other.below), _union(self.above, other.above))

    @property
    def width(self) -> int:
        """Numbers that there are in it."""
        return sum(each[1] - each[0] + 1 for each in (self.below, self.above) if each)


def _shifted(bounds: Range, dropped: int) -> Range:
    return None if bounds is None else (bounds[0] >> dropped, bounds[1] >> dropped)


def _union(one: Range, other: Range) -> Range:
    if one is None or other is None:
        return one or other
    return min(one[0], other[0]), max(one[1], other[1])


@dataclass(frozen=True, slots=True)
class Layout:
    """A table of all cells in a span.

    Attributes
    ----------
    bits, scale
        Of the cells.
    span : Span
        Of their numbers.

    Examples
    --------
    >>> scores = np.array([0.5, -0.5, 0.8])
    >>> layout = Layout.of(Span.of(cell_keys(scores, "plain")), 2, "plain")
    >>> places = layout.places(cell_keys(scores, "plain"))
    >>> layout.width, places.tolist(), layout.edges(np.arange(3)).tolist()
    (3, [1, 0, 2], [-0.5, 0.5, 0.75])
    """

    bits: int
    scale: Scale
    span: Span

    @classmethod
    def of(cls, keys: Span, bits: int, scale: Scale) -> Layout:
        """Lay out the cells of a span of keys. At least one bit must be left."""
        return cls(bits, scale, keys.shifted(MAX_BITS - bits))

    @property
    def width(self) -> int:
        """Places that there are."""
        return self.span.width

    @property
    def num_below(self) -> int:
        """Places of cells below zero; they come first."""
        return Span(self.span.below, None).width

    @property
    def gap(self) -> int:
        """Numbers that are left out."""
        below, above = self.span.below, self.span.above
        return above[0] - below[1] - 1 if below and above else 0

    def is_sparse(self, size: int) -> bool:
        """Tell whether the table is out of proportion to so many scores."""
        # At full precision the gap alone may be more than an int64 holds.
        return (
            self.width > max(_MAX_CHEAP_WIDTH, _MAX_PLACES_PER_SCORE * size) or self.gap >= 1 << 63
        )

    @property
    def _first(self) -> int:
        bounds = self.span.below or self.span.above
        return bounds[0] if bounds else 0

    def places(self, keys: IntArray) -> IntArray:
        """Return the place of each key's cell, which the table must have. O(n)."""
        places = keys >> np.int64(MAX_BITS - self.bits)
        if self.gap:
            # What is below the gap moves up to what is above it.
            below = places >> np.int64(63)
            below &= np.int64(self.gap)
            places += below
        places -= np.int64(self._first + self.gap)
        return places

    def places_of(self, other: Layout) -> IntArray:
        """Return where the places of another layout, which this one covers, are in this. O(n)."""
        places = np.arange(other.width)
        if self.span.below and other.span.below:
            places[: other.num_below] += other.span.below[0] - self.span.below[0]
        if self.span.above and other.span.above:
            moved = other.span.above[0] - self.span.above[0]
            places[other.num_below :] += self.num_below - other.num_below + moved
        return places

    def edges(self, places: IntArray) -> FloatArray:
        """Return the lower edges of the cells at ascending places. O(n)."""
        numbers = places + np.int64(self._first)
        numbers[np.searchsorted(places, self.num_below) :] += self.gap
        return _edges(numbers, MAX_BITS - self.bits, self.scale)


def _edges(numbers: IntArray, dropped: int, scale: Scale) -> FloatArray:
    """Return the lower edges of cells by their numbers."""
    shift = np.int64(dropped)
    if scale == "plain":
        return from_key(numbers << shift)
    half = HALF_KEY >> shift
    lower = from_key(np.minimum(numbers, half) << shift)
    upper = 1.0 - from_key((2 * half - np.maximum(numbers, half)) << shift)
    return np.where(numbers < half, lower, upper)
