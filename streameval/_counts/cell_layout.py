"""The layout of a dense table of cells: which row of the table each cell has.

The cells of one resolution are numbered in order: a cell's number is the leading bits
of its scores' keys. The scores of one model fill a narrow range of numbers, so a table
over that range has few unused rows, and a cell's row is found without a search. Scores
of both signs leave the cells of all smaller magnitudes unused; the table omits that
gap. "Place" is the index of a row in the table.

Cost: a few passes over the keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from streameval._counts.keys import HALF_KEY, from_key, to_key
from streameval._counts.resolution import MAX_BITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval._common.arrays import FloatArray, IntArray
    from streameval._counts.resolution import Scale

_MAX_CHEAP_WIDTH = 1 << 17
"""Rows: a table up to this width is cheap for any number of scores."""

_MAX_PLACES_PER_SCORE = 4
"""Rows for each score that a wider table may have before it counts as sparse."""

Range: TypeAlias = "tuple[int, int] | None"
"""The least and the greatest number, both included; None if there is no number."""


def cell_keys(scores: FloatArray, scale: Scale) -> IntArray:
    """Return the keys of scores: integers whose leading bits are the cells' numbers. O(n).

    On the probability scale the keys from 1/2 on count down the distance from 1. The
    result may share the scores' memory: never change it in place.

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
    """The range of the negative numbers (or keys) in use, and the range of the others.

    Attributes
    ----------
    below, above : (int, int) or None
        The least and the greatest number below zero, and from zero on.
    """

    below: Range
    above: Range

    @classmethod
    def of(cls, keys: IntArray) -> Span:
        """Return the span of at least one key. O(n)."""
        least, greatest = int(keys.min()), int(keys.max())
        if least >= 0:
            return cls(None, (least, greatest))
        if greatest < 0:
            return cls((least, greatest), None)
        # As unsigned numbers the negative ones come last, in their order.
        unsigned = keys.view(np.uint64)
        return cls((least, int(unsigned.max()) - (1 << 64)), (int(unsigned.min()), greatest))

    def shifted(self, dropped: int) -> Span:
        """Return the span of the same numbers without their `dropped` low bits."""
        return Span(_shifted(self.below, dropped), _shifted(self.above, dropped))

    def union(self, other: Span) -> Span:
        """Return the least span that covers both."""
        return Span(_union(self.below, other.below), _union(self.above, other.above))

    @property
    def width(self) -> int:
        """How many numbers it covers."""
        return sum(each[1] - each[0] + 1 for each in (self.below, self.above) if each)


def _shifted(bounds: Range, dropped: int) -> Range:
    return None if bounds is None else (bounds[0] >> dropped, bounds[1] >> dropped)


def _union(one: Range, other: Range) -> Range:
    if one is None or other is None:
        return one or other
    return min(one[0], other[0]), max(one[1], other[1])


@dataclass(frozen=True, slots=True)
class NumberLayout:
    """The layout of a table of all numbers in a span.

    Attributes
    ----------
    span : Span
        The span of the cells' numbers.

    Examples
    --------
    >>> numbers = np.array([7, -5, 9, -4])
    >>> layout = NumberLayout(Span.of(numbers))
    >>> layout.width, layout.places_of_numbers(numbers).tolist()
    (5, [2, 0, 4, 1])
    >>> layout.numbers(np.arange(5)).tolist()
    [-5, -4, 7, 8, 9]
    """

    span: Span

    @property
    def width(self) -> int:
        """How many rows the table has."""
        return self.span.width

    @property
    def num_below(self) -> int:
        """How many rows belong to negative numbers; these come first."""
        return Span(self.span.below, None).width

    @property
    def gap(self) -> int:
        """How many unused numbers around zero the table omits."""
        below, above = self.span.below, self.span.above
        return above[0] - below[1] - 1 if below and above else 0

    def is_sparse(self, size: int) -> bool:
        """Return whether the table would be too wide for `size` scores."""
        # At full precision the gap alone may exceed int64.
        return (
            self.width > max(_MAX_CHEAP_WIDTH, _MAX_PLACES_PER_SCORE * size) or self.gap >= 1 << 63
        )

    @property
    def _first(self) -> int:
        bounds = self.span.below or self.span.above
        return bounds[0] if bounds else 0

    def place_of(self, number: int) -> int:
        """Return the place of one number, which the span must cover. O(1)."""
        return number - self._first - (self.gap if number >= 0 else 0)

    def places_of_numbers(self, numbers: IntArray) -> IntArray:
        """Return the place of each number; the span must cover them. O(n)."""
        places = numbers - np.int64(self._first + self.gap)
        if self.gap:
            # Numbers below the gap move up, next to those above it.
            below = numbers >> np.int64(63)
            below &= np.int64(self.gap)
            places += below
        return places

    def slices_of(self, other: NumberLayout) -> Iterator[tuple[slice, slice]]:
        """Yield the places here and there of the numbers of another layout, which it covers. O(1).

        Examples
        --------
        >>> whole = NumberLayout(Span((-5, -4), (7, 9)))
        >>> list(whole.slices_of(NumberLayout(Span((-4, -4), (8, 9)))))
        [(slice(1, 2, None), slice(0, 1, None)), (slice(3, 5, None), slice(1, 3, None))]
        """
        start = 0
        for ends in (other.span.below, other.span.above):
            if ends:
                first, size = self.place_of(ends[0]), ends[1] - ends[0] + 1
                yield slice(first, first + size), slice(start, start + size)
                start += size

    def numbers(self, places: IntArray) -> IntArray:
        """Return the number at each of some ascending places. O(n)."""
        numbers = places + np.int64(self._first)
        numbers[np.searchsorted(places, self.num_below) :] += self.gap
        return numbers


@dataclass(frozen=True, slots=True)
class Layout(NumberLayout):
    """The layout of a table of all cells in a span.

    Attributes
    ----------
    span : Span
        The span of the cells' numbers.
    bits, scale
        The resolution and scale of the cells.

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

    @classmethod
    def of(cls, keys: Span, bits: int, scale: Scale) -> Layout:
        """Return the layout for the cells of a span of keys; `bits` is at least 1."""
        return cls(keys.shifted(MAX_BITS - bits), bits, scale)

    def places(self, keys: IntArray) -> IntArray:
        """Return the place of each key's cell; the span must cover the keys. O(n)."""
        return self.places_of_numbers(keys >> np.int64(MAX_BITS - self.bits))

    def edges(self, places: IntArray) -> FloatArray:
        """Return the lower edges of the cells at ascending places. O(n)."""
        return cell_edges(self.numbers(places), self.bits, self.scale)


def cell_edges(numbers: IntArray, bits: int, scale: Scale) -> FloatArray:
    """Return the lower edges of cells by their numbers; `bits` is at least 1. O(n)."""
    shift = np.int64(MAX_BITS - bits)
    if scale == "plain":
        return from_key(numbers << shift)
    half = HALF_KEY >> shift
    lower = from_key(np.minimum(numbers, half) << shift)
    upper = 1.0 - from_key((2 * half - np.maximum(numbers, half)) << shift)
    return np.where(numbers < half, lower, upper)
