"""Segment columns of rows in the buffer: select rows, join pieces, build from rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval._row_codec.segments import SegmentCodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from streameval._row_codec.segments import SegmentPairs, Segments


def select_segment_rows(column: SegmentCodes, rows: slice | npt.NDArray[np.intp]) -> SegmentCodes:
    """Return some of a column's rows, with the values that they use. O(rows + values)."""
    codes = column.codes[rows]
    used = np.flatnonzero(np.bincount(codes, minlength=len(column.values)))
    if used.size == len(column.values):
        return SegmentCodes(column.key, column.values, codes)
    new_codes = np.zeros(len(column.values), dtype=np.uint32)
    new_codes[used] = np.arange(used.size, dtype=np.uint32)
    return SegmentCodes(column.key, tuple(column.values[i] for i in used), new_codes[codes])


def join_segments(pieces: Sequence[Segments], sizes: Sequence[int]) -> Segments:
    """Return the segments of pieces as one; rows of a piece without a key have no value.

    O(rows) for each key.
    """
    keys = dict.fromkeys(column.key for segments in pieces for column in segments)
    return tuple(
        _join_key(key, [next((c for c in each if c.key == key), None) for each in pieces], sizes)
        for key in keys
    )


def _join_key(
    key: str, columns: Sequence[SegmentCodes | None], sizes: Sequence[int]
) -> SegmentCodes:
    codes: dict[str, int] = {}
    parts = []
    for column, size in zip(columns, sizes, strict=True):
        values = ("",) if column is None else column.values
        new_codes = np.array(
            [codes.setdefault(value, len(codes)) for value in values], dtype=np.uint32
        )
        parts.append(np.full(size, new_codes[0]) if column is None else new_codes[column.codes])
    return SegmentCodes(key, tuple(codes), np.concatenate(parts))


class SegmentSet:
    """The checked segments of a row; equal to itself only, so that it is found fast in a dict.

    Attributes
    ----------
    pairs : SegmentPairs
    """

    __slots__ = ("pairs",)

    def __init__(self, pairs: SegmentPairs) -> None:
        self.pairs = pairs


NO_SEGMENTS = SegmentSet(())


def segments_of_sets(sets: Sequence[SegmentSet]) -> Segments:
    """Return the segments of rows that have a set each. O(rows) for each key."""
    numbers = {each: number for number, each in enumerate(dict.fromkeys(sets))}
    rows = np.fromiter(map(numbers.__getitem__, sets), dtype=np.uint32, count=len(sets))
    columns = []
    values_by_key = [dict(each.pairs) for each in numbers]
    for key in dict.fromkeys(key for values in values_by_key for key in values):
        codes: dict[str, int] = {}
        of_sets = [codes.setdefault(values.get(key, ""), len(codes)) for values in values_by_key]
        columns.append(SegmentCodes(key, tuple(codes), np.array(of_sets, dtype=np.uint32)[rows]))
    return tuple(columns)
