"""The wire form of rows: each column of a batch, encoded and decoded side by side.

The client encodes rows and the server decodes them. Some columns have two forms: a
plain repeated field, which is natural in every language, and a bytes column, which
this library writes because it takes about 1 ns a value instead of 80 ns.

- Scores of cases: little-endian float64. Labels of cases: one bit each, the first
  row in the lowest bit of the first byte.
- Event times: one for all rows, one for each row, or none (the server's time).
- Segments: for each key its distinct values, and a code for each row, or one code for
  all rows. Codes are little-endian uint16 unless a key has more than 65,536 values.

Decoding accepts every form of the contract, and checks that columns fit together and
that values are valid, with the library's own messages. The `field` of an
`InvalidInputError` is the path inside the message of the kind (``segments[0].codes``).
Limits and the settings of a stream are for the server to check.

Cost: O(rows), a few nanoseconds a value; the number of calls does not depend on the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.values import quoted
from streameval._counts.columns import (
    check_columns,
    check_count,
    check_labels,
    check_length,
    check_scores,
)
from streameval.v1 import ingest_pb2, types_pb2

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from streameval._common.arrays import BoolArray, FloatArray, IntArray

    EventTimes = int | IntArray | None
    """In microseconds since 1970: one for all rows, one for each, or none."""
    BatchCodes = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]
    Segments = tuple["SegmentCodes", ...]
    SegmentPairs = tuple[tuple[str, str], ...]
    """Key and value of each segment that one row has."""

MAX_ENVELOPE_BYTES = 512
"""Bytes of a batch besides its rows: stream name, sequence, tags and lengths."""

MAX_CASE_BYTES = 9
"""Bytes of a case: a float64, and a label's bit rounded up to a byte."""

MAX_COUNT_BYTES = 10
"""Bytes of a count: the longest varint."""

MAX_TIME_BYTES = 8
"""Bytes of an event time."""

MAX_SCORE_BYTES = 8
"""Bytes of a score beside an id."""

MAX_ID_OVERHEAD_BYTES = 3
"""Bytes of the tag and the length of an id of at most 128 bytes."""

_MAX_UINT16_VALUES = 1 << 16
# The key, tags and lengths of a segment column; the tag and length of a value.
_MAX_COLUMN_OVERHEAD_BYTES = 80
_MAX_VALUE_OVERHEAD_BYTES = 3

_FLOAT64LE = np.dtype("<f8")
_UINT16LE = np.dtype("<u2")


@dataclass(slots=True, eq=False)
class SegmentCodes:
    """The values of one segment key, dictionary-encoded. Never mutated.

    Attributes
    ----------
    key : str
    values : tuple of str
        "" means no value.
    codes : uint16[n] or uint32[n]
        Index into `values` for each row.
    """

    key: str
    values: tuple[str, ...]
    codes: BatchCodes


def row_count(batch: ingest_pb2.Batch) -> int:
    """Return how many rows a batch has, without reading them. O(1)."""
    kind = batch.WhichOneof("rows")
    if kind == "cases":
        return len(batch.cases.scores) or len(batch.cases.scores_f64le) // 8
    if kind == "predictions":
        return len(batch.predictions.ids)
    if kind == "labels":
        return len(batch.labels.ids)
    return len(batch.retractions.ids) if kind == "retractions" else 1


# --- Kinds of rows ----------------------------------------------------------------------------


def encode_cases(
    positives: BoolArray,
    scores: FloatArray,
    counts: IntArray | None,
    times: EventTimes,
    segments: Segments,
) -> ingest_pb2.Cases:
    """Return cases as a message. O(rows)."""
    return ingest_pb2.Cases(
        scores_f64le=scores.astype(_FLOAT64LE, copy=False).tobytes(),
        positives_bits=np.packbits(positives, bitorder="little").tobytes(),
        counts=None if counts is None else counts.tolist(),
        event_times_us=encode_times(times),
        segments=[encode_segment(column) for column in segments],
    )


def decode_cases(
    cases: ingest_pb2.Cases,
) -> tuple[BoolArray, FloatArray, IntArray | None, int, EventTimes, Segments] | None:
    """Return labels, scores, counts, the sum of the counts, times and segments. O(rows).

    None when the counts add up to nothing. Raises InvalidInputError.
    """
    try:
        scores = _decode_scores(cases)
        labels, scores, counts = check_columns(
            labels=_decode_labels(cases, scores.size),
            scores=scores,
            counts=np.array(cases.counts, dtype=np.uint64) if cases.counts else None,
        )
    except InvalidInputError as error:
        field = error.field
        if field == "labels":
            field = "positives_bits" if cases.positives_bits else "positives"
        elif field == "scores" and cases.scores_f64le:
            field = "scores_f64le"
        raise InvalidInputError(str(error), field=field, index=error.index) from None
    size = scores.size
    total = size if counts is None else int(counts.sum())
    if not total:
        return None
    times = decode_times(cases.event_times_us, size, like="scores")
    segments = decode_segments(cases.segments, size, like="scores")
    return labels, scores, counts, total, times, segments


def encode_predictions(
    ids: list[str], scores: FloatArray, times: EventTimes, segments: Segments
) -> ingest_pb2.Predictions:
    """Return predictions as a message. O(rows)."""
    return ingest_pb2.Predictions(
        ids=ids,
        scores=scores.tolist(),
        event_times_us=encode_times(times),
        segments=[encode_segment(column) for column in segments],
    )


def decode_predictions(
    predictions: ingest_pb2.Predictions,
) -> tuple[list[bytes], FloatArray, EventTimes, Segments] | None:
    """Return ids, scores, times and segments; None without rows. O(rows).

    Raises InvalidInputError.
    """
    ids = [each.encode() for each in predictions.ids]
    size = len(ids)
    scores = check_scores(np.array(predictions.scores, dtype=np.float64))
    check_length("scores", scores.size, like="ids", length=size)
    if not size:
        return None
    times = decode_times(predictions.event_times_us, size, like="ids")
    return ids, scores, times, decode_segments(predictions.segments, size, like="ids")


def encode_labels(
    ids: list[str], positives: BoolArray, times: EventTimes, scores: FloatArray | None
) -> ingest_pb2.Labels:
    """Return labels as a message. O(rows)."""
    return ingest_pb2.Labels(
        ids=ids,
        positives=positives.tolist(),
        event_times_us=encode_times(times),
        scores=None if scores is None else scores.tolist(),
    )


def decode_labels(
    labels: ingest_pb2.Labels,
) -> tuple[list[bytes], BoolArray, EventTimes, FloatArray | None] | None:
    """Return ids, labels, times and scores; None without rows. O(rows).

    Raises InvalidInputError.
    """
    ids = [each.encode() for each in labels.ids]
    size = len(ids)
    scores = None
    positives = check_labels(np.array(labels.positives, dtype=np.bool_))
    check_length("positives", positives.size, like="ids", length=size)
    if labels.scores:
        scores = check_scores(np.array(labels.scores, dtype=np.float64))
        check_length("scores", scores.size, like="ids", length=size)
    if not size:
        return None
    return ids, positives, decode_times(labels.event_times_us, size, like="ids"), scores


def encode_misses(
    positives: int, negatives: int, time_us: int | None, segments: SegmentPairs
) -> ingest_pb2.Misses:
    """Return misses as a message. O(keys)."""
    return ingest_pb2.Misses(
        positives=positives,
        negatives=negatives,
        event_time_us=time_us or 0,
        segments=[types_pb2.Segment(key=key, value=value) for key, value in segments],
    )


def decode_misses(misses: ingest_pb2.Misses) -> tuple[int, int, int | None, SegmentPairs] | None:
    """Return positives, negatives, the time and the segments; None without misses. O(keys).

    Raises InvalidInputError.
    """
    positives, negatives = misses.positives, misses.negatives
    try:
        check_count(positives + negatives)
    except InvalidInputError as error:
        field = "negatives" if negatives > positives else "positives"
        raise InvalidInputError(str(error), field=field) from None
    if not positives and not negatives:
        return None
    segments = tuple((each.key, each.value) for each in misses.segments)
    check_distinct([key for key, _ in segments])
    return positives, negatives, misses.event_time_us or None, segments


# --- Columns ----------------------------------------------------------------------------------


def _decode_scores(cases: ingest_pb2.Cases) -> FloatArray:
    packed = cases.scores_f64le
    if not packed:
        return np.array(cases.scores, dtype=np.float64)
    if cases.scores:
        raise InvalidInputError(
            "scores and scores_f64le must not both be given", field="scores_f64le"
        )
    if len(packed) % 8:
        raise InvalidInputError(
            f"scores_f64le must have 8 bytes for each score, got {len(packed)} bytes",
            field="scores_f64le",
        )
    return np.frombuffer(packed, _FLOAT64LE).astype(np.float64, copy=False)


def _decode_labels(cases: ingest_pb2.Cases, size: int) -> BoolArray:
    packed = cases.positives_bits
    if not packed:
        return np.array(cases.positives, dtype=np.bool_)
    if cases.positives:
        raise InvalidInputError(
            "positives and positives_bits must not both be given", field="positives_bits"
        )
    if len(packed) != (size + 7) // 8:
        raise InvalidInputError(
            f"positives_bits must have one bit for each of scores, "
            f"got {len(packed)} bytes and {size} rows",
            field="positives_bits",
        )
    bits = np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little")
    if bits[size:].any():
        raise InvalidInputError(
            "positives_bits must have zeros after the last row", field="positives_bits"
        )
    return bits[:size].view(np.bool_)


def encode_times(times: EventTimes) -> list[int]:
    """Return event times as a repeated field. O(times)."""
    if times is None:
        return []
    if isinstance(times, int):
        return [times]
    listed: list[int] = times.tolist()
    return listed


def decode_times(times: Sequence[int], size: int, *, like: str) -> EventTimes:
    """Return event times; `like` is the column that has `size` rows. Raises InvalidInputError."""
    given = len(times)
    if given not in ((0, 1, size) if size else (0,)):
        raise InvalidInputError(
            f"event_times_us must have one row, or one for each of {like}, "
            f"got {given} rows and {size}",
            field="event_times_us",
        )
    if given == 0:
        return None
    return times[0] if given == 1 else np.array(times, dtype=np.int64)


def segment_bytes(column: SegmentCodes) -> int:
    """Return an upper bound of a segment column's encoded size. O(values)."""
    code_bytes = 2 if len(column.values) <= _MAX_UINT16_VALUES else 3
    text = sum(4 * len(value) + _MAX_VALUE_OVERHEAD_BYTES for value in column.values)
    return _MAX_COLUMN_OVERHEAD_BYTES + text + code_bytes * column.codes.size


def encode_segment(column: SegmentCodes) -> ingest_pb2.SegmentColumn:
    """Return a segment column as a message. O(rows)."""
    message = ingest_pb2.SegmentColumn(key=column.key, values=column.values)
    if len(column.values) == 1:
        message.codes.append(0)  # for all rows
    elif len(column.values) <= _MAX_UINT16_VALUES:
        message.codes_u16le = column.codes.astype(_UINT16LE).tobytes()
    else:
        message.codes.extend(column.codes.tolist())
    return message


def decode_segments(
    columns: Sequence[ingest_pb2.SegmentColumn], size: int, *, like: str
) -> Segments:
    """Return segment columns, each with a code for every row. O(rows) for each key.

    Raises InvalidInputError.
    """
    if not columns:
        return ()
    check_distinct([column.key for column in columns])
    given = [_decode_codes(column, size, place, like) for place, column in enumerate(columns)]
    codes = _stack_codes(columns, given, size)
    found = tuple(
        SegmentCodes(column.key, tuple(column.values), own)
        for column, own in zip(columns, codes, strict=True)
    )
    largest = codes.max(axis=1, initial=0).tolist()
    for place, (highest, each) in enumerate(zip(largest, found, strict=True)):
        if size and highest >= len(each.values):
            index = int(np.argmax(each.codes >= len(each.values)))
            raise InvalidInputError(
                f"code must be below {len(each.values)}, the number of values, "
                f"got {each.codes[index]} at index {index}",
                field=f"segments[{place}].codes",
                index=index,
            )
    return found


def _stack_codes(
    columns: Sequence[ingest_pb2.SegmentColumn], given: Sequence[BatchCodes], size: int
) -> BatchCodes:
    """Return the codes of all columns, expanded to all rows: uint[keys, n]."""
    if all(codes.dtype == _UINT16LE and codes.size == size for codes in given):
        # numpy releases the interpreter's lock in each operation; joining bytes does not.
        packed = b"".join([column.codes_u16le for column in columns])
        return np.frombuffer(packed, _UINT16LE).reshape(len(columns), size)
    stacked = np.empty((len(columns), size), dtype=np.uint32)
    for own, codes in zip(stacked, given, strict=True):
        own[:] = codes
    return stacked


def _decode_codes(column: ingest_pb2.SegmentColumn, size: int, place: int, like: str) -> BatchCodes:
    """Return the codes of the column at a place: one for each row, or one for all."""
    packed, name = column.codes_u16le, "codes"
    codes: BatchCodes
    if packed:
        name = "codes_u16le"
        if column.codes:
            raise InvalidInputError(
                "codes and codes_u16le must not both be given",
                field=f"segments[{place}].codes_u16le",
            )
        if len(packed) % 2:
            raise InvalidInputError(
                f"codes_u16le must have 2 bytes for each code, got {len(packed)} bytes",
                field=f"segments[{place}].codes_u16le",
            )
        codes = np.frombuffer(packed, _UINT16LE)
    else:
        codes = np.array(column.codes, dtype=np.uint32)
    if len(codes) not in ((1, size) if size else (0,)):
        raise InvalidInputError(
            f"{name} must have one row, or one for each of {like}, "
            f"got {len(codes)} rows and {size}",
            field=f"segments[{place}].{name}",
        )
    return codes


def check_distinct(keys: list[str]) -> None:
    """Refuse a segment key that is given twice. O(keys)."""
    found: set[str] = set()
    for place, key in enumerate(keys):
        if key in found:
            raise InvalidInputError(
                f"segment key {quoted(key)} must be given once", field=f"segments[{place}].key"
            )
        found.add(key)
