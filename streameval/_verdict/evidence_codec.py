"""Evidence as bytes, at most 16 KB.

Layout, little-endian: numbers; the base's counts; means, errors and thetas of the whole; stretches;
thetas, names, evidence of segments, and how many steps ago each was observed; evidence of the
whole; calls; rows of the search. Equal evidence has equal bytes.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from streameval._common.frame import Frame, raise_corrupt
from streameval._counts.codec import decode_evaluator
from streameval._drift.evidence import FRACTIONS
from streameval._drift.frozen import FrozenReference
from streameval._drift.processes import SUMMARIES
from streameval._drift.reference import bands_of, cells_of_state
from streameval._drift.watches import UNITS
from streameval._time.times import MAX_TIME_US
from streameval._verdict.base import BaseSpan
from streameval._verdict.evidence import Evidence
from streameval._verdict.evidence_base import (
    CALLS,
    MAX_SEGMENTS,
    SEGMENT_SIDES,
    SHARES,
    SIDES,
    base_bytes,
)
from streameval._verdict.level_sums import MAX_DAYS, MAX_FINE, ROW, SPANNED, Level

if TYPE_CHECKING:
    import numpy.typing as npt

    from streameval._common.frame import Reader

FRAME: Final = Frame(b"SVEV", 1, "evidence")
_HEAD = struct.Struct("<qqBqqqqqq")
_SIZES = struct.Struct("<IHHH")
_LEVEL = struct.Struct("<9q")
_TEXT = struct.Struct("<H")
_MAX_AGE: Final = 65_535
"""Steps; a bet knows an hour of them, which has fewer."""


def encode_evidence(evidence: Evidence) -> bytes:
    """Return evidence as bytes. O(state)."""
    frozen, processes, levels = evidence.frozen, evidence.processes, evidence.levels
    base = base_bytes(evidence.base)
    start = int(processes.starts[0]) if processes.starts.size else -1
    fine = processes.fine.sum(axis=2)  # of the one block
    parts = processes.parts[1:, :SEGMENT_SIDES]
    return FRAME.sealed(
        _HEAD.pack(
            evidence.base.start_us,
            evidence.base.end_us,
            evidence.is_declared,
            evidence.step_us,
            evidence.longest_gap_us,
            evidence.next_us,
            processes.hour,
            start,
            levels.first,
        ),
        _SIZES.pack(
            len(base),
            len(frozen.segments),
            levels.fine.size,
            levels.days.size,
        ),
        base,
        *(each.astype("<f8").tobytes() for each in (frozen.means, frozen.errors, frozen.thetas[0])),
        evidence.stretch.astype("<f8").tobytes(),
        np.rint(frozen.thetas[1:, :SEGMENT_SIDES] * UNITS).astype("<u2").tobytes(),
        *map(_text_bytes, frozen.segments),
        parts.astype("<f4").tobytes(),
        _ages(evidence).astype("<u2").tobytes(),
        *(each.astype("<f8").tobytes() for each in (fine, processes.coarse, processes.hour_sums)),
        processes.hour_counts.astype("<i8").tobytes(),
        processes.last[0].astype("<i8").tobytes(),
        processes.restarts.astype("<i8").tobytes(),
        evidence.called_us.astype("<i8").tobytes(),
        _LEVEL.pack(*levels.open),
        _LEVEL.pack(*evidence.since),
        levels.fine.tobytes(),
        levels.days.tobytes(),
    )


def _ages(evidence: Evidence) -> npt.NDArray[np.int64]:
    """Return how many steps ago each segment was observed last; 0 if it was not."""
    last = evidence.processes.last[1:, 0]
    ages = np.minimum(evidence.next_us // evidence.step_us - last, _MAX_AGE)
    return np.where(last < 0, 0, ages)


def decode_evidence(data: bytes | bytearray | memoryview) -> Evidence:
    """Return the evidence whose bytes these are, or raise CorruptStateError. O(state)."""
    reader = FRAME.reader(data)
    start_us, end_us, is_declared, step_us, gap_us, next_us, hour, start, first = reader.fields(
        _HEAD
    )
    size, segments, fine, days = reader.fields(_SIZES)
    is_time = 0 <= start_us < end_us <= next_us <= MAX_TIME_US and gap_us >= 0
    is_small = segments <= MAX_SEGMENTS and fine <= MAX_FINE and days <= MAX_DAYS
    if not is_time or not is_small or step_us <= 0 or is_declared > 1 or start < -1 or first < 0:
        raise_corrupt("the evidence's times or sizes are out of range")
    base = BaseSpan(start_us, end_us, decode_evaluator(bytes(reader.blob(size))))
    frozen, stretch = _frozen(reader, base, segments)
    evidence = Evidence(base, bool(is_declared), step_us, frozen, stretch, gap_us, next_us)
    _read_processes(reader, evidence, hour, start)
    evidence.called_us = _column(reader, "<i8", len(CALLS))
    levels = evidence.levels
    levels.open, evidence.since = (Level(*reader.fields(_LEVEL)) for _ in range(2))
    levels.first, levels.until_us = first, next_us
    levels.fine = np.frombuffer(reader.blob(fine * ROW.itemsize), dtype=ROW)
    levels.days = np.frombuffer(reader.blob(days * SPANNED.itemsize), dtype=SPANNED)
    reader.end()
    return evidence


def _frozen(
    reader: Reader, base: BaseSpan, segments: int
) -> tuple[FrozenReference, npt.NDArray[np.float64]]:
    means, errors, of_whole = (_column(reader, "<f8", SIDES) for _ in range(3))
    stretch = _column(reader, "<f8", len(SHARES))
    thetas = np.zeros((segments + 1, SIDES))
    thetas[0] = of_whole
    of_segments = _column(reader, "<u2", segments * SEGMENT_SIDES)
    thetas[1:, :SEGMENT_SIDES] = of_segments.reshape(segments, SEGMENT_SIDES) / UNITS
    if not ((thetas >= 0) & (thetas < 1)).all() or not (stretch >= 1).all():
        raise_corrupt("the evidence's thetas are out of range")
    names = tuple(_text(reader) for _ in range(segments))
    bands = bands_of(cells_of_state(base.counts), math.inf)
    return FrozenReference(bands, means, errors, thetas, names), stretch


def _read_processes(reader: Reader, evidence: Evidence, hour: int, start: int) -> None:
    processes, segments = evidence.processes, len(evidence.frozen.segments)
    bets = len(FRACTIONS)
    parts = _column(reader, "<f4", segments * SEGMENT_SIDES * bets).astype(np.float64)
    processes.parts[1:, :SEGMENT_SIDES] = parts.reshape(segments, SEGMENT_SIDES, bets)
    ages = _column(reader, "<u2", segments).astype(np.int64)
    last = np.where(ages > 0, evidence.next_us // evidence.step_us - ages, -1)
    processes.last[1:] = last[:, None]
    fine, processes.coarse = (
        _column(reader, "<f8", SIDES * bets).reshape(SIDES, bets) for _ in range(2)
    )
    processes.hour_sums = _column(reader, "<f8", SIDES)
    processes.hour_counts = _column(reader, "<i8", SIDES)
    processes.last[0] = _column(reader, "<i8", SIDES)
    processes.restarts = _column(reader, "<i8", SIDES)
    if start >= 0:
        processes.starts = np.array([start])
        processes.fine = fine[..., None]
        processes.summaries = np.zeros((SUMMARIES, SIDES, 1))
    processes.hour = hour
    for each in (processes.parts, fine, processes.coarse, processes.hour_sums):
        if not ((each >= 0) & np.isfinite(each)).all():
            raise_corrupt("the evidence is out of range")


def _column(reader: Reader, dtype: str, rows: int) -> npt.NDArray[Any]:
    """Read an array that may be changed, in the machine's byte order."""
    column = reader.column(dtype, rows)
    return column.astype(column.dtype.newbyteorder("="))


def _text_bytes(text: str) -> bytes:
    return _TEXT.pack(len(text.encode())) + text.encode()


def _text(reader: Reader) -> str:
    (size,) = reader.fields(_TEXT)
    try:
        return bytes(reader.blob(size)).decode()
    except UnicodeDecodeError:
        raise_corrupt("a text of the evidence is not UTF-8")
