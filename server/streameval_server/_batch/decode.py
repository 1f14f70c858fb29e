"""A batch, decoded and checked: what passes here can be applied.

Checked are the columns themselves (`batch_columns`), the server's limits, and
the settings of the stream. Settings may change while a batch waits for its
commit; the committer then checks again (`draft`). Cost: about 15 us for 1,000
cases.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
from google.protobuf.message import DecodeError

from streameval import InvalidInputError
from streameval._common import quoted, truncated
from streameval._counts import check_scores
from streameval.v1 import ingest_pb2
from streameval_server._batch.columns import (
    case_rows,
    check_uncounted,
    label_rows,
    miss_rows,
    prediction_rows,
    refuse,
    retraction_rows,
)
from streameval_server._log.entries import Format
from streameval_server._model.errors import Code, CorruptLogError, RefusedError, refused_input
from streameval_server._model.names import id_problem, stream_name_problem
from streameval_server._model.rows import (
    CaseRows,
    LabelRows,
    MissRows,
    PredictionRows,
    RetractionRows,
    Rows,
)
from streameval_server._model.stream_settings import DEFAULTS
from streameval_server._state.views import OTHER

if TYPE_CHECKING:
    from streameval._common import IntArray
    from streameval_server._model.limits import Limits
    from streameval_server._model.stream_settings import StreamSettings


def decode(
    batch: ingest_pb2.Batch,
    nbytes: int,
    now_us: int,
    limits: Limits,
    settings: StreamSettings = DEFAULTS,
) -> Rows | None:
    """Return a batch's rows; None when it has none.

    Parameters
    ----------
    batch
        As it arrived.
    nbytes
        Its encoded size.
    now_us
        The clock, to refuse rows from the future and rows that retention has passed.
    settings
        The stream's.

    Raises
    ------
    RefusedError
        When anything in it breaks a rule.
    """
    if nbytes > limits.max_batch_bytes:
        refuse(
            Code.RESOURCE_EXHAUSTED,
            f"batch must be at most {limits.max_batch_bytes} bytes, got {nbytes}: "
            "send smaller ones",
        )
    problem = stream_name_problem(batch.stream, limits.max_stream_name)
    if problem is not None:
        refuse(Code.INVALID_ARGUMENT, problem, "stream")
    size = _size(batch)
    if size > limits.max_batch_rows:
        refuse(
            Code.RESOURCE_EXHAUSTED,
            f"batch must have at most {limits.max_batch_rows} rows, got {size}: send smaller ones",
        )
    # Before they are read: a row has one value.
    _check_sizes(batch, limits, settings)
    rows = _rows(batch)
    if rows is None:
        check_uncounted(batch)
    else:
        _check(rows, now_us, limits, settings)
    return rows


def stored(format_: int, payload: bytes) -> Rows | None:
    """Return the rows of a batch that was accepted before, from its log row.

    Limits and settings of today do not apply: what was accepted counts.

    Raises
    ------
    CorruptLogError
        When the payload is not such a batch.
    """
    try:
        return _rows(batch_of(format_, payload))
    except (DecodeError, RefusedError) as error:
        raise CorruptLogError(f"not a batch that this version accepts: {error}") from error


def batch_of(format_: int, payload: bytes) -> ingest_pb2.Batch:
    """Return the batch of a log row's payload. Raises DecodeError."""
    if format_ == Format.INGEST_REQUEST:
        return ingest_pb2.IngestRequest.FromString(payload).batch
    return ingest_pb2.IngestBatchRequest.FromString(payload).batch


def _size(batch: ingest_pb2.Batch) -> int:
    kind = batch.WhichOneof("rows")
    if kind == "cases":
        return len(batch.cases.scores) or len(batch.cases.scores_f64le) // 8
    if kind == "predictions":
        return len(batch.predictions.ids)
    if kind == "labels":
        return len(batch.labels.ids)
    return len(batch.retractions.ids) if kind == "retractions" else 1


def _check_sizes(batch: ingest_pb2.Batch, limits: Limits, settings: StreamSettings) -> None:
    """Refuse more segment keys than a stream has, and more values than rows fit. O(keys)."""
    kind = batch.WhichOneof("rows")
    if kind not in ("cases", "predictions", "misses"):
        return
    segments = getattr(batch, kind).segments
    # A stream may have declared more when more were allowed.
    most = max(limits.max_segment_keys, len(settings.segment_keys))
    if len(segments) > most:
        refuse(
            Code.INVALID_ARGUMENT,
            f"batch must have at most {most} segment keys, got {len(segments)}",
            f"{kind}.segments",
        )
    if kind == "misses":  # one value for each key
        return
    for place, column in enumerate(segments):
        if len(column.values) > limits.max_batch_rows:
            refuse(
                Code.INVALID_ARGUMENT,
                f"a segment column must have at most {limits.max_batch_rows} values, "
                f"got {len(column.values)}",
                f"{kind}.segments[{place}].values",
            )


def _rows(batch: ingest_pb2.Batch) -> Rows | None:
    kind = batch.WhichOneof("rows")
    if kind == "cases":
        return case_rows(batch.cases)
    if kind == "predictions":
        return prediction_rows(batch.predictions)
    if kind == "labels":
        return label_rows(batch.labels)
    if kind == "retractions":
        return retraction_rows(batch.retractions)
    return miss_rows(batch.misses) if kind == "misses" else None


def _check(rows: Rows, now_us: int, limits: Limits, settings: StreamSettings) -> None:
    """Refuse rows that a limit or the stream's settings do not allow."""
    kind = rows.KIND
    if isinstance(rows, MissRows):
        check_segments(rows.segments, "misses.segments", limits, settings)
        if rows.event_us is not None:
            check_times(rows.event_us, "misses.event_time_us", now_us, limits, settings)
    if isinstance(rows, CaseRows | PredictionRows):
        _check_columns(rows, limits, settings)
    if isinstance(rows, PredictionRows | LabelRows | RetractionRows):
        _check_ids(rows.ids, f"{kind}.ids", limits)
    if isinstance(rows, CaseRows | PredictionRows | LabelRows):
        if rows.event_us is not None:
            check_times(rows.event_us, f"{kind}.event_times_us", now_us, limits, settings)
        if settings.scale == "probability" and rows.scores is not None:
            try:
                check_scores(rows.scores, scale=settings.scale)
            except InvalidInputError as error:
                raise RefusedError(refused_input(error, kind, {})) from None


def _check_columns(
    rows: CaseRows | PredictionRows, limits: Limits, settings: StreamSettings
) -> None:
    for place, column in enumerate(rows.segments):
        path = f"{rows.KIND}.segments[{place}]"
        _check_key(column.key, path, settings)
        # A character has at most 4 bytes: most values need no closer look.
        longest = max(map(len, column.values), default=0)
        if 4 * longest > limits.max_id_bytes or OTHER in column.values:
            for index, value in enumerate(column.values):
                _check_value(value, f"{path}.values[{index}]", limits)


def check_segments(
    segments: tuple[tuple[str, str], ...], path: str, limits: Limits, settings: StreamSettings
) -> None:
    """Refuse undeclared keys, and values that are too long or reserved."""
    for place, (key, value) in enumerate(segments):
        _check_key(key, f"{path}[{place}]", settings)
        _check_value(value, f"{path}[{place}].value", limits)


def _check_key(key: str, path: str, settings: StreamSettings) -> None:
    if key not in settings.segment_keys:
        declared = truncated(", ".join(settings.segment_keys) or "none")
        refuse(
            Code.INVALID_ARGUMENT,
            f"segment key {quoted(key)} is not declared: the stream has {declared}; "
            "add it with UpdateStream",
            f"{path}.key",
        )


def _check_value(value: str, path: str, limits: Limits) -> None:
    """Refuse a segment value that is too long or reserved."""
    if len(value) * 4 > limits.max_id_bytes:
        size = len(value.encode())
        if size > limits.max_id_bytes:
            refuse(
                Code.INVALID_ARGUMENT,
                f"segment value must be at most {limits.max_id_bytes} bytes of UTF-8, got {size}",
                path,
            )
    if value == OTHER:
        refuse(
            Code.INVALID_ARGUMENT,
            f"segment value {OTHER} is reserved for values beyond the most that a key may have",
            path,
        )


def _check_ids(ids: list[bytes], path: str, limits: Limits) -> None:
    lengths = list(map(len, ids))
    if min(lengths) < 1 or max(lengths) > limits.max_id_bytes:
        index = next(i for i, n in enumerate(lengths) if not 1 <= n <= limits.max_id_bytes)
        problem = id_problem("id", ids[index].decode(), limits.max_id_bytes)
        refuse(Code.INVALID_ARGUMENT, f"{problem} at index {index}", f"{path}[{index}]")


def check_times(
    times: int | IntArray, path: str, now_us: int, limits: Limits, settings: StreamSettings
) -> None:
    """Refuse event times in the future, and those that retention has passed.

    `path` names one time; a column's is completed with the row at fault.
    """
    latest, oldest = now_us + limits.max_future_us, now_us - settings.retention_us
    column = np.atleast_1d(np.asarray(times, dtype=np.int64))
    wrong = (column > latest) | (column < oldest)
    if not wrong.any():
        return
    index = int(np.argmax(wrong))
    time_us, where = int(column[index]), ""
    if path.endswith("times_us"):
        path, where = f"{path}[{index}]", f" at index {index}"
    if time_us > latest:
        rule = f"event time must not lie in the future, got {_shown(time_us)}{where}"
    else:
        rule = (
            f"event time must not be older than retention, got {_shown(time_us)}{where}, "
            f"kept since {_shown(oldest)}"
        )
    refuse(Code.INVALID_ARGUMENT, rule, path)


def _shown(time_us: int) -> str:
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)).isoformat()
    except OverflowError:
        return f"{time_us} us"
