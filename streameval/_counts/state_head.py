"""The header of an evaluator's bytes: what is read of them without reading the columns.

`codec` has the layout of the whole. The numbers of a header take 4 bytes each, or all of them 8.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from streameval._common.frame import Frame, flags_of, raise_corrupt
from streameval._counts.exact import MAX_TOTAL
from streameval._counts.resolution import MAX_BITS, MIN_BITS
from streameval._counts.state import shared_declared
from streameval._counts.steps import StepRun
from streameval._counts.weights import MAX_WEIGHT

if TYPE_CHECKING:
    from streameval._counts.resolution import Scale

HAS_RESOLUTION, IS_PROBABILITY, HAS_WEIGHTS, HAS_CLUSTERS, IS_WIDE, HAS_DESIGN = 1, 2, 4, 8, 16, 32

FRAME = Frame(b"SVEE", 1, "an evaluator", flags=63)

_PREFIX_BYTES, CHECKSUM_BYTES = 7, 4
"""Bytes of the frame before the header, and after the columns."""

NARROW, WIDE = struct.Struct("<biiiiiBBBBiiBBBB"), struct.Struct("<bqqqqqBBBBqqBBBB")
"""Headers: resolution, max_cells (0: none), missed positives and negatives; then the
`Shape` of each class. The wide one has numbers of 8 bytes, and so have steps after it."""

CLUSTERS = struct.Struct("<HqB")
"""After the header of a state with clusters: groups, rows, the bytes of a count."""

DESIGN = struct.Struct("<d")
"""After these, where it is declared: the least probability with which cases are labelled."""

STEPS = 16
"""Added to the bytes of a step where scores are steps."""

WIDTHS = frozenset({0, 1, 2, 4, 8})
_SCORES_AT = (28, 40)
"""Where a narrow header has the bytes of each score."""
_SCORES = frozenset({4, 8, *(STEPS + width for width in (1, 2, 4, 8))})


class Shape(NamedTuple):
    """What a header says of one class.

    Attributes
    ----------
    size, total : int
        How many distinct scores and how many cases there are.
    scores, cases, units, high : int
        Bytes of each score, number of cases (0: all 1), sum of units (0: no weights), and high
        part of a sum of squares (0: known from the others).
    """

    size: int
    total: int
    scores: int
    cases: int
    units: int
    high: int

    def score_bytes(self, *, is_wide: bool) -> int:
        """Return the bytes of the scores. O(1)."""
        if self.scores < STEPS:
            return self.size * self.scores
        return StepRun.bytes_of(self.size, self.scores - STEPS, is_wide=is_wide)

    def column_bytes(self, *, is_wide: bool) -> int:
        """Return the bytes of all columns. O(1)."""
        low = 8 if self.high else 0
        return self.score_bytes(is_wide=is_wide) + self.size * (
            self.cases + self.units + self.high + low
        )


class Head(NamedTuple):
    """The header of an evaluator's bytes.

    Attributes
    ----------
    flags, bits, max_cells, missed_positives, missed_negatives : int
    shapes : (Shape, Shape)
        Of the positives and of the negatives.
    clusters : (int, int, int) or None
        Groups, rows, the bytes of a count.
    min_label_probability : float or None
    at : int
        Where the columns begin.
    """

    flags: int
    bits: int
    max_cells: int
    missed_positives: int
    missed_negatives: int
    shapes: tuple[Shape, Shape]
    clusters: tuple[int, int, int] | None
    min_label_probability: float | None
    at: int

    @classmethod
    def of(cls, data: bytes | memoryview) -> Head:
        """Return the header of framed bytes, or refuse them as too short. O(1)."""
        at, flags = _PREFIX_BYTES, flags_of(data)
        header, clusters, least = WIDE if flags & IS_WIDE else NARROW, None, None
        try:
            fields = header.unpack_from(data, at)
            at += header.size
            if flags & HAS_CLUSTERS:
                clusters = CLUSTERS.unpack_from(data, at)
                at += CLUSTERS.size
            if flags & HAS_DESIGN:
                (least,) = DESIGN.unpack_from(data, at)
                at += DESIGN.size
        except struct.error:
            raise_corrupt(f"{len(data)} bytes are too few for an evaluator: truncated?")
        shapes = Shape._make(fields[4:10]), Shape._make(fields[10:])
        return cls._make((flags, *fields[:4], shapes, clusters, least, at))

    @property
    def is_wide(self) -> bool:
        """Whether numbers of the header and of steps take 8 bytes."""
        return bool(self.flags & IS_WIDE)

    @property
    def scale(self) -> Scale:
        """The scale of the cells."""
        return "probability" if self.flags & IS_PROBABILITY else "plain"

    @property
    def is_plain(self) -> bool:
        """Whether there are neither weights nor clusters."""
        return not self.flags & (HAS_WEIGHTS | HAS_CLUSTERS)

    @property
    def are_cells(self) -> bool:
        """Whether all scores are steps."""
        return all(shape.scores > STEPS for shape in self.shapes)

    @property
    def data_bytes(self) -> int:
        """How long the bytes are; -1 if a number of rows is below 0."""
        _, rows, width = self.clusters or (0, 0, 0)
        if min(rows, *(shape.size for shape in self.shapes)) < 0:
            return -1
        columns = sum(shape.column_bytes(is_wide=self.is_wide) for shape in self.shapes)
        return self.at + columns + rows * (8 + 2 + width) + CHECKSUM_BYTES

    @property
    def settings(self) -> dict[str, Any]:
        """Settings and misses, as arguments of a `State` without weights."""
        return {
            "missed_positives": self.missed_positives,
            "missed_negatives": self.missed_negatives,
            "resolution": self.bits if self.flags & HAS_RESOLUTION else None,
            "declared": shared_declared(
                self.scale, self.max_cells or None, self.min_label_probability
            ),
        }


def begins_plainly(data: bytes) -> bool:
    """Return whether bytes begin as a state with a narrow header, without weights, clusters. O(1).

    Scores are steps if there is a resolution, else floats.
    """
    if len(data) <= _PREFIX_BYTES + NARROW.size or not FRAME.begins(data):
        return False
    flags = flags_of(data)
    are_steps = data[_SCORES_AT[0]] > STEPS, data[_SCORES_AT[1]] > STEPS
    is_plain = not flags & (HAS_WEIGHTS | HAS_CLUSTERS | IS_WIDE)
    return is_plain and (all(are_steps) if flags & HAS_RESOLUTION else not any(are_steps))


def read_head(data: bytes | bytearray | memoryview) -> Head:
    """Return the header of bytes whose length, settings and checksum are right. O(n).

    The columns are not looked at: their checksum alone says that they are what was written.

    Raises
    ------
    CorruptStateError
        When the bytes are no evaluator.
    """
    body = FRAME.body(data, NARROW.size)
    head = Head.of(memoryview(data).cast("B"))
    size = head.data_bytes
    FRAME.check_length(body, size - _PREFIX_BYTES - CHECKSUM_BYTES if size >= 0 else -1)
    FRAME.check_checksum(data)
    flags, bits, max_cells = head[:3]
    if bits and not flags & HAS_RESOLUTION:
        raise_corrupt(f"the evaluator has {bits} bits and no flag of them")
    if not MIN_BITS <= bits <= MAX_BITS or not 0 <= max_cells < MAX_TOTAL:
        raise_corrupt(f"the evaluator has unknown settings {bits} and {max_cells}")
    least = head.min_label_probability
    if least is not None and not 1 / MAX_WEIGHT <= least <= 1:
        raise_corrupt(f"the evaluator has a label probability of {least} at least")
    for shape in head.shapes:
        has_weights = bool(flags & HAS_WEIGHTS)
        has_squares = has_weights and bool(shape.cases)
        if (
            shape.scores not in _SCORES
            or not WIDTHS.issuperset(shape[3:])
            or bool(shape.units) != has_weights
            or bool(shape.high) != has_squares
            or (shape.scores > STEPS and bits < 1)
        ):
            raise_corrupt(f"the evaluator has columns of unknown widths {shape[2:]}")
    return head


def step_run(data: bytes, head: Head, label: bool) -> StepRun:
    """Return a class of cells in the bytes of a state. O(1)."""
    at, shape = head.at, head.shapes[0]
    if not label:
        at, shape = at + shape.column_bytes(is_wide=head.is_wide), head.shapes[1]
    columns = data[at : at + shape.column_bytes(is_wide=head.is_wide)]
    width = shape.scores - STEPS
    return StepRun.of(columns, shape.size, shape.total, width, shape.cases, is_wide=head.is_wide)
