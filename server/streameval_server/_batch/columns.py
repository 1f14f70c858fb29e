"""A batch's columns as arrays: every way to write them, and every way to get one wrong.

Texts about bad values are the library's own, so that they read the same over
Python and over gRPC. Cost: O(rows), a few nanoseconds a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import numpy as np

from streameval import InvalidInputError
from streameval._common import quoted
from streameval._counts import (
    check_columns,
    check_count,
    check_labels,
    check_length,
    check_scores,
)
from streameval_server._model.errors import Code, Refused, RefusedError, refused_input
from streameval_server._model.rows import (
    CaseRows,
    LabelRows,
    MissRows,
    PredictionRows,
    RetractionRows,
    SegmentCodes,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from streameval.v1 import ingest_pb2
    from streameval_server._model.rows import BatchCodes, EventTimes

_FLOAT64LE = np.dtype("<f8")
_UINT16LE = np.dtype("<u2")


def case_rows(cases: ingest_pb2.Cases) -> CaseRows | None:
    """Return cases; None when their counts add up to nothing. Raises RefusedError."""
    names = {
        "labels": "positives_bits" if cases.positives_bits else "positives",
        "scores": "scores_f64le" if cases.scores_f64le else "scores",
    }
    try:
        scores = _scores(cases)
        labels, scores, counts = check_columns(
            labels=_labels(cases, scores.size),
            scores=scores,
            counts=np.array(cases.counts, dtype=np.uint64) if cases.counts else None,
        )
    except InvalidInputError as error:
        raise RefusedError(refused_input(error, "cases", names)) from None
    size = scores.size
    total = size if counts is None else int(counts.sum())
    if not total:
        return None
    event_us = _event_times(cases.event_times_us, size, "cases", like="scores")
    segments = _segments(cases.segments, size, "cases", like="scores")
    return CaseRows(labels, scores, counts, size, total, event_us, segments)


def prediction_rows(predictions: ingest_pb2.Predictions) -> PredictionRows | None:
    """Return predictions; None when there are none. Raises RefusedError."""
    ids = _ids(predictions.ids)
    size = len(ids)
    try:
        scores = check_scores(np.array(predictions.scores, dtype=np.float64))
        check_length("scores", scores.size, like="ids", length=size)
    except InvalidInputError as error:
        raise RefusedError(refused_input(error, "predictions", {})) from None
    if not size:
        return None
    event_us = _event_times(predictions.event_times_us, size, "predictions", like="ids")
    segments = _segments(predictions.segments, size, "predictions", like="ids")
    return PredictionRows(ids, scores, size, size, event_us, segments)


def label_rows(labels: ingest_pb2.Labels) -> LabelRows | None:
    """Return labels; None when there are none. Raises RefusedError."""
    ids = _ids(labels.ids)
    size = len(ids)
    scores = None
    try:
        positives = check_labels(np.array(labels.positives, dtype=np.bool_))
        check_length("positives", positives.size, like="ids", length=size)
        if labels.scores:
            scores = check_scores(np.array(labels.scores, dtype=np.float64))
            check_length("scores", scores.size, like="ids", length=size)
    except InvalidInputError as error:
        raise RefusedError(refused_input(error, "labels", {})) from None
    if not size:
        return None
    event_us = _event_times(labels.event_times_us, size, "labels", like="ids")
    return LabelRows(ids, positives, size, size, event_us, scores)


def retraction_rows(retractions: ingest_pb2.Retractions) -> RetractionRows | None:
    """Return retractions; None when there are none."""
    ids = _ids(retractions.ids)
    return RetractionRows(ids, len(ids)) if ids else None


def miss_rows(misses: ingest_pb2.Misses) -> MissRows | None:
    """Return misses; None when there are none. Raises RefusedError."""
    positives, negatives = misses.positives, misses.negatives
    total = positives + negatives
    field = "negatives" if negatives > positives else "positives"
    try:
        check_count(total)
    except InvalidInputError as error:
        refuse(Code.INVALID_ARGUMENT, str(error), f"misses.{field}")
    if not total:
        return None
    segments = tuple((each.key, each.value) for each in misses.segments)
    check_distinct([key for key, _ in segments], "misses.segments")
    return MissRows(positives, negatives, 1, total, misses.event_time_us or None, segments)


def check_uncounted(batch: ingest_pb2.Batch) -> None:
    """Refuse a batch that counts nothing, when its columns do not fit together.

    Not asked of what is in the log: such batches were once accepted.
    """
    if batch.HasField("cases"):
        size = len(batch.cases.scores) or len(batch.cases.scores_f64le) // 8
        _check_beside(batch.cases.event_times_us, size, "cases", like="scores")
        _segments(batch.cases.segments, size, "cases", like="scores")
    elif batch.HasField("predictions"):
        size = len(batch.predictions.ids)
        _check_beside(batch.predictions.event_times_us, size, "predictions", like="ids")
        _segments(batch.predictions.segments, size, "predictions", like="ids")
    elif batch.HasField("labels"):
        size = len(batch.labels.ids)
        _check_beside(batch.labels.event_times_us, size, "labels", like="ids")


def _check_beside(times: Sequence[int], size: int, kind: str, *, like: str) -> None:
    """Refuse times that are neither one for all rows nor one for each."""
    if len(times) not in ((0, 1, size) if size else (0,)):
        refuse(
            Code.INVALID_ARGUMENT,
            f"event_times_us must have one row, or one for each of {like}, "
            f"got {len(times)} rows and {size}",
            f"{kind}.event_times_us",
        )


def _ids(ids: Sequence[str]) -> list[bytes]:
    return [each.encode() for each in ids]


def _scores(cases: ingest_pb2.Cases) -> npt.NDArray[np.float64]:
    packed = cases.scores_f64le
    if not packed:
        return np.array(cases.scores, dtype=np.float64)
    if cases.scores:
        refuse(
            Code.INVALID_ARGUMENT,
            "scores and scores_f64le must not both be given",
            "cases.scores_f64le",
        )
    if len(packed) % 8:
        refuse(
            Code.INVALID_ARGUMENT,
            f"scores_f64le must have 8 bytes for each score, got {len(packed)} bytes",
            "cases.scores_f64le",
        )
    return np.frombuffer(packed, _FLOAT64LE).astype(np.float64, copy=False)


def _labels(cases: ingest_pb2.Cases, size: int) -> npt.NDArray[np.bool_]:
    packed = cases.positives_bits
    if not packed:
        return np.array(cases.positives, dtype=np.bool_)
    if cases.positives:
        refuse(
            Code.INVALID_ARGUMENT,
            "positives and positives_bits must not both be given",
            "cases.positives_bits",
        )
    if len(packed) != (size + 7) // 8:
        refuse(
            Code.INVALID_ARGUMENT,
            f"positives_bits must have one bit for each of scores, "
            f"got {len(packed)} bytes and {size} rows",
            "cases.positives_bits",
        )
    bits = np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little")
    if bits[size:].any():
        refuse(
            Code.INVALID_ARGUMENT,
            "positives_bits must have zeros after the last row",
            "cases.positives_bits",
        )
    return bits[:size].view(np.bool_)


def _event_times(times: Sequence[int], size: int, kind: str, *, like: str) -> EventTimes:
    _check_beside(times, size, kind, like=like)
    if len(times) == 0:
        return None
    if len(times) == 1:
        return times[0]
    return np.array(times, dtype=np.int64)


def _segments(
    columns: Sequence[ingest_pb2.SegmentColumn], size: int, kind: str, *, like: str
) -> tuple[SegmentCodes, ...]:
    if not columns:
        return ()
    check_distinct([column.key for column in columns], f"{kind}.segments")
    given = [
        _codes(column, size, f"{kind}.segments[{place}]", like=like)
        for place, column in enumerate(columns)
    ]
    codes = _together(columns, given, size)
    found = [
        SegmentCodes(column.key, tuple(column.values), own)
        for column, own in zip(columns, codes, strict=True)
    ]
    largest = codes.max(axis=1, initial=0).tolist()
    for place, (most, each) in enumerate(zip(largest, found, strict=True)):
        if size and most >= len(each.values):
            index = int(np.argmax(each.codes >= len(each.values)))
            refuse(
                Code.INVALID_ARGUMENT,
                f"code must be below {len(each.values)}, the number of values, "
                f"got {each.codes[index]} at index {index}",
                f"{kind}.segments[{place}].codes[{index}]",
            )
    return tuple(found)


def _together(
    columns: Sequence[ingest_pb2.SegmentColumn], given: Sequence[BatchCodes], size: int
) -> BatchCodes:
    """Return the codes of all columns, each for all rows: uint[keys, n]."""
    if all(codes.dtype == _UINT16LE and codes.size == size for codes in given):
        # Steps over arrays let go of the interpreter, each of them; this one does not.
        packed = b"".join([column.codes_u16le for column in columns])
        return np.frombuffer(packed, _UINT16LE).reshape(len(columns), size)
    together = np.empty((len(columns), size), dtype=np.uint32)
    for own, codes in zip(together, given, strict=True):
        own[:] = codes
    return together


def _codes(column: ingest_pb2.SegmentColumn, size: int, path: str, *, like: str) -> BatchCodes:
    """Return the codes of a column: one for each row, or one for all."""
    packed, field = column.codes_u16le, "codes"
    codes: BatchCodes
    if packed:
        field = "codes_u16le"
        if column.codes:
            refuse(
                Code.INVALID_ARGUMENT,
                "codes and codes_u16le must not both be given",
                f"{path}.codes_u16le",
            )
        if len(packed) % 2:
            refuse(
                Code.INVALID_ARGUMENT,
                f"codes_u16le must have 2 bytes for each code, got {len(packed)} bytes",
                f"{path}.codes_u16le",
            )
        codes = np.frombuffer(packed, _UINT16LE)
    else:
        codes = np.array(column.codes, dtype=np.uint32)
    if len(codes) not in ((1, size) if size else (0,)):
        refuse(
            Code.INVALID_ARGUMENT,
            f"{field} must have one row, or one for each of {like}, "
            f"got {len(codes)} rows and {size}",
            f"{path}.{field}",
        )
    return codes


def check_distinct(keys: list[str], path: str) -> None:
    """Refuse a segment key that is given twice. O(keys)."""
    seen: set[str] = set()
    for place, key in enumerate(keys):
        if key in seen:
            refuse(
                Code.INVALID_ARGUMENT,
                f"segment key {quoted(key)} must be given once",
                f"{path}[{place}].key",
            )
        seen.add(key)


def refuse(code: Code, message: str, field: str | None = None) -> NoReturn:
    """Refuse the batch."""
    violations = () if field is None else ((field, message),)
    raise RefusedError(Refused(code, message, violations))
