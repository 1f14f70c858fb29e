"""Batches: decoded, and checked so that every accepted batch can be applied.

`streameval.wire` checks the columns themselves; this module adds the server's
limits and the settings of the stream. Settings may change while a batch waits for its
commit; the committer then decodes it again (`transaction`). Cost: about 15 us for
1,000 cases.
"""

from __future__ import annotations

import shlex
import textwrap
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NoReturn, TypeVar

import numpy as np
from google.protobuf.message import DecodeError, Message

from streameval import InvalidInputError
from streameval.checks import (
    OTHER_VALUE,
    id_problem,
    quoted,
    segment_key_problem,
    stream_name_problem,
)
from streameval.kernel import check_scores, check_weights_allowed
from streameval.v1 import ingest_pb2
from streameval.wire import RowReader
from streameval_server._log.rows import STREAMED
from streameval_server._model.crossed_keys import parents_of
from streameval_server._model.errors import (
    Code,
    CorruptLogError,
    Refused,
    RefusedError,
    RequestError,
    refused_input,
)
from streameval_server._model.row_kinds import (
    CaseRows,
    LabelRows,
    MissRows,
    PredictionRows,
    RetractionRows,
    Rows,
    is_plain,
)
from streameval_server._model.stream_settings import DEFAULTS, first_settings

if TYPE_CHECKING:
    from streameval_server._model.arrays import IntArray
    from streameval_server._model.limits import Limits
    from streameval_server._model.stream_settings import StreamSettings

M = TypeVar("M", bound=Message)


def parse_message(message: type[M], frame: bytes) -> M:
    """Return a decoded message, or raise the RequestError for a malformed one."""
    try:
        return message.FromString(frame)
    except DecodeError:
        raise RequestError(
            Code.INVALID_ARGUMENT,
            f"the request is not an encoded {message.DESCRIPTOR.full_name}",
            reason="MALFORMED_MESSAGE",
        ) from None


def decode(
    batch: ingest_pb2.Batch,
    nbytes: int,
    now_us: int,
    limits: Limits,
    settings: StreamSettings = DEFAULTS,
    *,
    disputed_us: int | None = None,
) -> Rows | None:
    """Return a batch's rows; None when nothing in it counts.

    Parameters
    ----------
    batch
        As it arrived.
    nbytes
        Its encoded size.
    now_us
        The current time, to refuse rows dated in the future or before retention.
    settings
        The stream's.
    disputed_us
        What the time is otherwise while the clock is in doubt.

    Raises
    ------
    RefusedError
        When the batch breaks a rule.
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
    reader = RowReader(batch)
    if reader.size > limits.max_batch_rows:
        refuse(
            Code.RESOURCE_EXHAUSTED,
            f"batch must have at most {limits.max_batch_rows} rows, got {reader.size}: "
            "send smaller ones",
        )
    # Before the columns are read, so that a small batch cannot take much memory.
    _check_segment_counts(batch, nbytes, limits, settings)
    rows = _rows(reader, batch.source_time_us or None)
    if rows is None:
        _check_uncounted(reader)
    else:
        _check_declared(batch, settings)
        _check(rows, (now_us, now_us if disputed_us is None else disputed_us), limits, settings)
    return rows


def settings_for(
    batch: ingest_pb2.Batch, known: StreamSettings | None, limits: Limits
) -> StreamSettings:
    """Return the settings of a batch's stream; of a new one the defaults, with the batch's keys."""
    if known is not None:
        return known
    keys = [key for _, key in _segment_keys(batch) if key_problem(key) is None]
    return first_settings(keys) if len(keys) <= limits.max_segment_keys else DEFAULTS


def _segment_keys(batch: ingest_pb2.Batch) -> list[tuple[str, str]]:
    """Return the path and the key of each of a batch's segment columns."""
    kind = batch.WhichOneof("rows")
    if kind not in ("cases", "predictions", "misses"):
        return []
    columns = getattr(batch, kind).segments
    return [(f"{kind}.segments[{place}].key", column.key) for place, column in enumerate(columns)]


def _check_declared(batch: ingest_pb2.Batch, settings: StreamSettings) -> None:
    """Refuse a batch with keys that its stream lacks, with what declares them. O(keys)."""
    found = _segment_keys(batch)
    missing: dict[str, str] = {}
    for path, key in found:
        if parents_of(key) is not None or key not in settings.segment_keys:
            missing.setdefault(key, path)
    for key, path in missing.items():
        problem = key_problem(key)
        if problem is not None:
            refuse(Code.INVALID_ARGUMENT, problem, path)
    if missing:
        key, path = next(iter(missing.items()))
        message = undeclared(batch.stream, tuple(missing), settings)
        raise RefusedError(
            Refused(
                Code.INVALID_ARGUMENT,
                message,
                ((path, message),),
                (*settings.segment_keys, *missing),
            )
        )


def stored(format_: int, payload: bytes) -> Rows | None:
    """Return the rows of an accepted batch from its log row.

    Today's limits and settings do not apply: an accepted batch counts.

    Raises
    ------
    CorruptLogError
        When the payload is not such a batch.
    """
    try:
        batch = batch_of(format_, payload)
        return _rows(RowReader(batch), batch.source_time_us or None)
    except (DecodeError, RefusedError) as error:
        raise CorruptLogError(f"not a batch that this version accepts: {error}") from error


def batch_of(format_: int, payload: bytes) -> ingest_pb2.Batch:
    """Return the batch of a log row's payload. Raises DecodeError."""
    if format_ in STREAMED:
        return ingest_pb2.IngestRequest.FromString(payload).batch
    return ingest_pb2.IngestBatchRequest.FromString(payload).batch


def _check_segment_counts(
    batch: ingest_pb2.Batch, nbytes: int, limits: Limits, settings: StreamSettings
) -> None:
    """Refuse more segment keys than a stream may have, or more values than rows. O(keys)."""
    kind = batch.WhichOneof("rows")
    if kind not in ("cases", "predictions", "misses"):
        return
    segments = getattr(batch, kind).segments
    # A stream may have declared more keys under a higher limit.
    allowed = max(limits.max_segment_keys, len(settings.segment_keys))
    if len(segments) > allowed:
        refuse(
            Code.INVALID_ARGUMENT,
            f"batch must have at most {allowed} segment keys, got {len(segments)}",
            f"{kind}.segments",
        )
    # Each key of misses has one value; and a value of a column takes two bytes at least.
    if kind == "misses" or nbytes <= 2 * limits.max_batch_rows:
        return
    for place, column in enumerate(segments):
        if len(column.values) > limits.max_batch_rows:
            refuse(
                Code.INVALID_ARGUMENT,
                f"a segment column must have at most {limits.max_batch_rows} values, "
                f"got {len(column.values)}",
                f"{kind}.segments[{place}].values",
            )


def _rows(reader: RowReader, source_us: int | None) -> Rows | None:
    """Return the rows, with the library's complaints as refusals; None when nothing counts."""
    try:
        if reader.kind == "cases":
            return _case_rows(reader)
        if reader.kind == "predictions":
            return _prediction_rows(reader, source_us)
        if reader.kind == "labels":
            return _label_rows(reader, source_us)
        if reader.kind == "retractions":
            return RetractionRows(reader.ids(), reader.size) if reader.size else None
        if reader.kind == "misses":
            return _miss_rows(reader)
    except InvalidInputError as error:
        assert reader.kind is not None
        raise RefusedError(refused_input(error, reader.kind)) from None
    return None


def _case_rows(reader: RowReader) -> CaseRows | None:
    columns = reader.cases()
    if columns is None:
        return None
    labels, scores, counts, total = columns
    event_us, segments = reader.times(), reader.segments()
    units, clusters = reader.units(counts), reader.clusters()
    return CaseRows(labels, scores, counts, reader.size, total, event_us, segments, units, clusters)


def _prediction_rows(reader: RowReader, source_us: int | None) -> PredictionRows | None:
    scores, size = reader.scores(), reader.size
    if not size:
        return None
    event_us, segments, clusters = reader.times(), reader.segments(), reader.clusters()
    return PredictionRows(reader.ids(), scores, size, size, event_us, segments, clusters, source_us)


def _label_rows(reader: RowReader, source_us: int | None) -> LabelRows | None:
    positives, scores, size = reader.labels(), reader.label_scores(), reader.size
    if not size:
        return None
    event_us, units, at_us = reader.times(), reader.units(), reader.times("label_times_us")
    ids = reader.ids()
    return LabelRows(ids, positives, size, size, event_us, scores, units, at_us, source_us)


def _miss_rows(reader: RowReader) -> MissRows | None:
    columns = reader.misses()
    if columns is None:
        return None
    positives, negatives, event_us, segments = columns
    return MissRows(positives, negatives, 1, positives + negatives, event_us, segments)


def _check_uncounted(reader: RowReader) -> None:
    """Refuse a batch that counts nothing and whose columns do not fit together.

    Logged batches are not checked: older versions accepted such batches.
    """
    kind = reader.kind
    if kind not in ("cases", "predictions", "labels"):
        return
    try:
        reader.times()
        if kind == "labels":
            reader.times("label_times_us")
        else:
            reader.segments()
            reader.clusters()
        if kind != "predictions":
            reader.units()
    except InvalidInputError as error:
        raise RefusedError(refused_input(error, kind)) from None


def _check(
    rows: Rows, clocks_us: tuple[int, int], limits: Limits, settings: StreamSettings
) -> None:
    """Refuse rows that a limit or the stream's settings do not allow."""
    kind = rows.KIND
    if settings.cluster_groups or not is_plain(rows):
        _check_clusters(rows, settings)
    if isinstance(rows, MissRows):
        check_segment_values(rows.segments, "misses.segments", limits)
        if rows.event_us is not None:
            check_times(rows.event_us, "misses.event_time_us", clocks_us, limits, settings)
    if isinstance(rows, CaseRows | PredictionRows):
        _check_columns(rows, limits)
    if isinstance(rows, PredictionRows | LabelRows | RetractionRows):
        _check_ids(rows.ids, f"{kind}.ids", limits)
    if isinstance(rows, CaseRows | PredictionRows | LabelRows):
        if rows.event_us is not None:
            check_times(rows.event_us, f"{kind}.event_times_us", clocks_us, limits, settings)
        if settings.scale == "probability" and rows.scores is not None:
            try:
                check_scores(rows.scores, scale=settings.scale)
            except InvalidInputError as error:
                raise RefusedError(refused_input(error, kind)) from None


def _check_clusters(rows: Rows, settings: StreamSettings) -> None:
    """Refuse clusters that are not declared; where they are, rows without one, and weights."""
    kind, groups = rows.KIND, settings.cluster_groups or None
    if isinstance(rows, CaseRows | PredictionRows) and (rows.clusters is None) != (groups is None):
        if groups is None:
            text = "the stream declares no clusters: create one with cluster_key"
        else:
            key = f", by {settings.cluster_key}" if settings.cluster_key else ""
            text = f"the stream declares clusters{key}, so every row needs one: give clusters"
        refuse(Code.INVALID_ARGUMENT, text, f"{kind}.clusters")
    if isinstance(rows, CaseRows | LabelRows) and rows.units is not None:
        try:
            check_weights_allowed(groups, field="weights", holder="a stream")
        except InvalidInputError as error:
            raise RefusedError(refused_input(error, kind)) from None
        if isinstance(rows, LabelRows) and settings.orphans == "miss":
            text = "labels of a stream whose orphans are misses take no weights: a miss weighs 1"
            refuse(Code.INVALID_ARGUMENT, text, "labels.weights")
    if groups is None:
        return
    if isinstance(rows, LabelRows) and rows.scores is not None:
        text = (
            "labels with scores have no cluster, which the stream declares: "
            "send the scores as predictions"
        )
        refuse(Code.INVALID_ARGUMENT, text, "labels.scores")
    if isinstance(rows, MissRows):
        text = "misses have no cluster, which the stream declares for every row"
        refuse(Code.INVALID_ARGUMENT, text, "misses")


def _check_columns(rows: CaseRows | PredictionRows, limits: Limits) -> None:
    for place, column in enumerate(rows.segments):
        path = f"{rows.KIND}.segments[{place}]"
        # A character has at most 4 bytes, so short values pass without being encoded.
        longest = max(map(len, column.values), default=0)
        if 4 * longest > limits.max_id_bytes or OTHER_VALUE in column.values:
            for index, value in enumerate(column.values):
                _check_value(value, f"{path}.values[{index}]", limits)


def check_segment_values(segments: tuple[tuple[str, str], ...], path: str, limits: Limits) -> None:
    """Refuse values that are too long or reserved. O(keys)."""
    for place, (_, value) in enumerate(segments):
        _check_value(value, f"{path}[{place}].value", limits)


def key_problem(key: str) -> str | None:
    """Return why rows cannot have a segment key, whatever their stream declares."""
    if parents_of(key) is not None:
        return f"segment key {quoted(key)} is crossed: its values are computed, leave it out"
    return segment_key_problem(key)


def undeclared(stream: str, missing: tuple[str, ...], settings: StreamSettings) -> str:
    """Return the message of rows whose keys a stream lacks, with the command that adds them."""
    declared = textwrap.shorten(", ".join(settings.segment_keys) or "none", 200, placeholder="...")
    options = "".join(f" --segment {key}" for key in missing)
    return (
        f"segment key {quoted(missing[0])} is not declared: the stream has {declared}; add it: "
        f"streameval streams update {shlex.quote(stream)}{options}"
    )


def _check_value(value: str, path: str, limits: Limits) -> None:
    """Refuse a segment value that is too long or reserved."""
    problem = id_problem("segment value", value, limits.max_id_bytes) if value else None
    if value == OTHER_VALUE:
        problem = f"segment value {OTHER_VALUE} is reserved for values beyond the maximum of a key"
    if problem is not None:
        refuse(Code.INVALID_ARGUMENT, problem, path)


def _check_ids(ids: list[bytes], path: str, limits: Limits) -> None:
    lengths = set(map(len, ids))
    if min(lengths) < 1 or max(lengths) > limits.max_id_bytes:
        index = next(i for i, id_ in enumerate(ids) if not 1 <= len(id_) <= limits.max_id_bytes)
        problem = id_problem("id", ids[index].decode(), limits.max_id_bytes)
        refuse(Code.INVALID_ARGUMENT, f"{problem} at index {index}", f"{path}[{index}]")


def check_times(
    times: int | IntArray,
    path: str,
    clocks_us: tuple[int, int],
    limits: Limits,
    settings: StreamSettings,
) -> None:
    """Refuse event times in the future or before retention. O(rows).

    `path` names the field; for a column the index of the first row at fault is appended.
    `clocks_us` has the time twice, or both times while the clock is in doubt: a row is refused
    only if it is wrong by both, so that no refusal is due to the clock.
    """
    latest, oldest = max(clocks_us) + limits.max_future_us, min(clocks_us) - settings.retention_us
    if isinstance(times, int) and oldest <= times <= latest:
        return
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
            f"kept since {_shown(oldest)}: give the stream a longer retention "
            "('streameval streams update --retention 10y'), or leave the row out"
        )
    refuse(Code.INVALID_ARGUMENT, rule, path)


def _shown(time_us: int) -> str:
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)).isoformat()
    except OverflowError:
        return f"{time_us} us"


def refuse(code: Code, message: str, field: str | None = None) -> NoReturn:
    """Refuse the batch."""
    violations = () if field is None else ((field, message),)
    raise RefusedError(Refused(code, message, violations))
