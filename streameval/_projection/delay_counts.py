"""Predictions and labels of one pane, by cell of score and by delay: additive counts.

A row counts, in one cell of `CELL_BITS` bits, the predictions, or the labels of one
class that came within one bucket of delay. Buckets are quarters of an octave from one
second on. A label that is changed or retracted counts -1 at its age then, so the sum of
a class up to an age is the number of labels in force at that age. All counts are
integers and sums: panes merge in any order.

Cost: 20 B a row; at most one row a label and a prediction, and in busy panes one a cell,
class and bucket in use. O(rows) to add, amortised.
"""

from __future__ import annotations

import struct
from math import isqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from streameval._common.frame import Frame, raise_corrupt
from streameval._counts.keys import to_key
from streameval._counts.resolution import quantise
from streameval._time.changes import rows_by_group
from streameval._time.effects import COVERAGE, NEGATIVE_CASES, POSITIVE_CASES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streameval._common.arrays import FloatArray, IntArray
    from streameval._counts.resolution import Scale
    from streameval._time.effects import Effects, KindArray
    from streameval._time.panes import Grid

CELL_BITS = 8
"""Significant bits of a score that are kept."""

NUM_BUCKETS = 160
"""Buckets of delay; the last one begins after 29,000 years."""

BUCKETS_PER_OCTAVE = 4

# Integer roots, so that the edges are the same on every machine.
BUCKET_EDGES_US: IntArray = np.array(
    [0, *(isqrt(isqrt(10**24 << quarter)) for quarter in range(NUM_BUCKETS))], dtype=np.int64
)
"""The shortest delay of each bucket in microseconds, and the end of the last one."""

MIN_LABELS = 10
"""Labels of a class from which on old panes tell how many of them a delay still brings."""

FRAME = Frame(b"SVEY", 1, "label delays")
_ROWS = struct.Struct("<q")
_ROW_BYTES = 18
_PART_BYTES = 640
"""Memory of a part besides its rows: a tuple and the heads of three arrays."""
_MIN_PENDING_BYTES = 8 * _PART_BYTES
"""Parts that are always allowed to wait: about eight small ones."""
_MAX_BYTES_RATIO = 3
"""Parts are summed when they take this many times the memory of the first one, so that a row is
sorted O(log n) times."""

_PREDICTIONS = COVERAGE["predictions"] - COVERAGE["retracted"]
_ADDED = _PREDICTIONS + POSITIVE_CASES + NEGATIVE_CASES
"""What each effect adds to the predictions, or else to the labels of its class."""
_IS_LABEL, _IS_POSITIVE = _PREDICTIONS == 0, POSITIVE_CASES != 0

SlotColumn = npt.NDArray[np.uint16]

_SIGN = np.uint64(1 << 63)
"""Flipped in signed numbers, so that they are in their order as unsigned ones."""


class DelayRows(NamedTuple):
    """Rows in order of their cells, then slots; no two are alike and none counts 0.

    Attributes
    ----------
    cells : float64[n]
        The lower edge of the score's cell.
    slots : uint16[n]
        0 of predictions; 1 + 2 x bucket + class of labels.
    counts : int64[n]
        Signed.
    """

    cells: FloatArray
    slots: SlotColumn
    counts: IntArray

    @classmethod
    def wait_us(cls, panes: Sequence[tuple[int, Sequence[DelayRows]]], share: float) -> int:
        """Return the age at which a share of each class's labels is in; 0 without labels. O(rows).

        A pane tells of a delay once it is as old, so the share that is in at the start of a bucket
        is a product over this bucket and all later ones: of the labels that old panes had at the
        end of each, the share that they had at its start. It is rounded up to a bucket's end.

        Parameters
        ----------
        panes : sequence of (int, sequence of DelayRows)
            Microseconds since the end of each, and its rows in parts.
        share : float
        """
        ages_us = np.array([age_us for age_us, _ in panes], dtype=np.int64)
        # How many buckets each pane has seen to their end.
        seen = np.searchsorted(BUCKET_EDGES_US[1:], ages_us, side="right")
        parts = [
            (number, each) for number, pane in zip(seen, panes, strict=True) for each in pane[1]
        ]
        if not parts:
            return 0
        most, size = int(seen.max()), 1 + 2 * NUM_BUCKETS
        number = np.repeat([each for each, _ in parts], [each.slots.size for _, each in parts])
        places = number * size + np.concatenate([each.slots for _, each in parts])
        counts = np.concatenate([each.counts for _, each in parts])
        table = np.bincount(places, counts, (most + 1) * size).reshape(most + 1, size)
        came = table[:, 1 : 1 + 2 * most].reshape(most + 1, most, 2)
        is_seen = (np.arange(most + 1)[:, None] > np.arange(most))[:, :, None]
        ends = (came.cumsum(axis=1) * is_seen).sum(axis=0)
        shares = (came * is_seen).sum(axis=0) / np.maximum(ends, 1)
        stays = np.where(ends < MIN_LABELS, 1.0, 1 - shares).clip(0, 1)
        is_short = (stays[::-1].cumprod(axis=0)[::-1] < share).any(axis=1)
        return int(BUCKET_EDGES_US[1 : 1 + most][is_short].max(initial=0))

    def to_bytes(self) -> bytes:
        """Return the bytes of the rows, as `DelayCounts.to_bytes`. O(rows)."""
        return FRAME.sealed(
            _ROWS.pack(self.counts.size),
            self.cells.astype("<f8").tobytes(),
            self.slots.astype("<u2").tobytes(),
            self.counts.astype("<i8").tobytes(),
        )

    @classmethod
    def by_pane(cls, effects: Effects, grid: Grid, scale: Scale) -> Iterator[tuple[int, DelayRows]]:
        """Yield the start of each pane that effects touch, with its rows. O(n log n).

        Parameters
        ----------
        effects : Effects
            None is past retention.
        grid : Grid
            Of the panes.
        scale : {"plain", "probability"}
            Selects the cells of score.
        """
        delays_us = effects.at_us - effects.event_us
        places, rows = rows_of_effects(effects.kinds, effects.scores, delays_us, scale)
        for start_us, mine in rows_by_group(grid.starts_of(effects.event_us[places])):
            yield start_us, cls(rows.cells[mine], rows.slots[mine], rows.counts[mine])

    @classmethod
    def sum_of(cls, parts: Sequence[DelayRows]) -> DelayRows:
        """Return the sum of rows, in order. O(n log n)."""
        if not parts:
            return cls(np.empty(0), np.empty(0, dtype=np.uint16), np.empty(0, dtype=np.int64))
        cells, slots, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((slots, *_words(cells)))
        cells, slots, counts = cells[order], slots[order], counts[order]
        if cells.size:
            new = (np.diff(cells, prepend=-np.inf) != 0) | (np.diff(slots, prepend=slots[0]) != 0)
            starts = np.flatnonzero(new)
            counts = np.add.reduceat(counts, starts)
            kept = starts[counts != 0]
            cells, slots, counts = cells[kept], slots[kept], counts[counts != 0]
        return cls(cells, slots, counts)


class DelayCounts:
    """Counts of one pane.

    Parameters
    ----------
    scale : {"plain", "probability"}
        Selects the cells of score.

    Attributes
    ----------
    nbytes : int
        Memory of the rows, an upper bound.
    """

    __slots__ = ("_is_summed", "_parts", "nbytes", "scale")

    def __init__(self, scale: Scale = "plain") -> None:
        self.scale: Scale = scale
        self._parts: list[DelayRows] = []
        self._is_summed = False
        self.nbytes = 0

    def add(self, kinds: KindArray, scores: FloatArray, delays_us: IntArray) -> None:
        """Count effects. O(n), and amortised O(n log n).

        Parameters
        ----------
        kinds, scores, delays_us
            As for `rows_of_effects`.
        """
        self.add_rows(rows_of_effects(kinds, scores, delays_us, self.scale)[1])

    def add_rows(self, rows: DelayRows) -> None:
        """Count rows in any order; the columns are kept. O(1), and amortised O(n log n)."""
        if not rows.counts.size:
            return
        self._parts.append(rows)
        self._is_summed = False
        self.nbytes += _part_bytes(rows)
        if self.nbytes > max(_MAX_BYTES_RATIO * _part_bytes(self._parts[0]), _MIN_PENDING_BYTES):
            self.rows()

    def merge(self, *others: DelayCounts) -> None:
        """Add the counts of others. O(rows)."""
        self.add_rows(DelayRows.sum_of([part for other in others for part in other.parts]))

    def rows(self) -> DelayRows:
        """Return all rows, in their one order. O(rows), O(n log n) after a change."""
        if not self._is_summed:
            self._parts = [DelayRows.sum_of(self._parts)]
            self._is_summed = True
            self.nbytes = _part_bytes(self._parts[0])
        return self._parts[0]

    @property
    def parts(self) -> tuple[DelayRows, ...]:
        """What `DelayRows.sum_of` makes the rows of; immutable. O(1)."""
        return tuple(self._parts)

    def copy(self) -> DelayCounts:
        """Return an independent copy."""
        other = DelayCounts(self.scale)
        other.merge(self)
        return other

    def to_bytes(self) -> bytes:
        """Return the rows as bytes; equal counts have equal bytes. O(rows)."""
        return self.rows().to_bytes()

    @classmethod
    def from_bytes(
        cls, data: bytes | bytearray | memoryview, scale: Scale = "plain"
    ) -> DelayCounts:
        """Return the counts that `to_bytes` wrote.

        Raises
        ------
        CorruptStateError
            When the bytes are not exactly that.
        """
        reader = FRAME.reader(data)
        (size,) = reader.fields(_ROWS)
        cells, slots, values = (reader.column(kind, size) for kind in ("<f8", "<u2", "<i8"))
        reader.end()
        counts = cls(scale)
        counts.add_rows(DelayRows(cells.copy(), slots.copy(), values.copy()))
        if not counts.is_consistent() or counts.to_bytes() != bytes(data):
            raise_corrupt("the label delays are not in order or contradict one another")
        return counts

    def is_consistent(self) -> bool:
        """Return whether every row can have been counted, and no sum is negative. O(rows)."""
        cells, slots, _ = rows = self.rows()
        if not np.isfinite(cells).all() or (slots > 2 * NUM_BUCKETS).any():
            return False
        if self.scale == "probability" and ((cells < 0) | (cells > 1)).any():
            return False
        if not np.array_equal(quantise(cells, CELL_BITS, self.scale), cells):
            return False
        of_predictions = slots == 0
        starts = np.flatnonzero(np.diff(cells, prepend=-np.inf))
        if not starts.size:
            return True
        predictions = np.add.reduceat(np.where(of_predictions, rows.counts, 0), starts)
        labels = np.add.reduceat(np.where(of_predictions, 0, rows.counts), starts)
        return bool(((labels >= 0) & (labels <= predictions)).all())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DelayCounts):
            return NotImplemented
        return self.scale == other.scale and self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]  # it changes, so it must not be a key

    def __repr__(self) -> str:
        return f"<DelayCounts: {self.rows().counts.size} rows>"


def rows_of_effects(
    kinds: KindArray, scores: FloatArray, delays_us: IntArray, scale: Scale
) -> tuple[IntArray, DelayRows]:
    """Return which effects count, and a row of each. O(n).

    Parameters
    ----------
    kinds : uint8[n]
        `Effect` of each; an effect that neither predicts nor labels is passed over.
    scores : float64[n]
        Of the prediction; nan for the kinds that are passed over.
    delays_us : int64[n]
        Time from the prediction to the effect; negative ones count as 0.
    scale : {"plain", "probability"}
        Selects the cells of score.
    """
    places = np.flatnonzero(_ADDED[kinds])
    kinds = kinds[places]
    cells = quantise(scores[places], CELL_BITS, scale)
    slots = np.zeros(places.size, dtype=np.uint16)
    labels = np.flatnonzero(_IS_LABEL[kinds])
    delays_us = np.maximum(delays_us[places[labels]], 0)
    buckets = np.searchsorted(BUCKET_EDGES_US, delays_us, side="right") - 1
    slots[labels] = 1 + 2 * buckets + _IS_POSITIVE[kinds[labels]]
    return places, DelayRows(cells, slots, _ADDED[kinds])


def _words(cells: FloatArray) -> list[SlotColumn]:
    """Return the columns of 16 bits that sort as cells do, the last one first.

    numpy sorts such columns by radix sort: all of them take less than half the time of the cells.
    """
    keys = to_key(cells).view(np.uint64) ^ _SIGN
    return [(keys >> np.uint64(shift)).astype(np.uint16) for shift in (0, 16, 32, 48)]


def _part_bytes(rows: DelayRows) -> int:
    return _PART_BYTES + _ROW_BYTES * rows.counts.size
