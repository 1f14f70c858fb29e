"""From a storage back to an engine: restore a checkpoint, decode log rows, replay them.

The server's start, `maintenance` and the committer's recovery from a failed write use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from streameval import CorruptStateError
from streameval.kernel import MAX_TIME_US
from streameval.v1 import pair_pb2, status_pb2, stream_pb2
from streameval_server._batch.content import content_checksum
from streameval_server._batch.decode import stored
from streameval_server._batch.merge import stored_merge
from streameval_server._core.engine import Engine
from streameval_server._core.entries import Entry
from streameval_server._log.checkpoint import Manifest
from streameval_server._log.rows import Format, Kind
from streameval_server._model.alarm_change import AlarmChange
from streameval_server._model.alarm_settings import with_current_names
from streameval_server._model.errors import CorruptLogError, Refused, RequestError, StorageError
from streameval_server._model.mark import MarkChange
from streameval_server._model.pair_settings import PairCreation, PairDeletion
from streameval_server._model.stream_settings import settings_of, update_of
from streameval_server._model.verdict_change import VerdictChange
from streameval_server._state.pairs.pair_file import PairImport
from streameval_server._state.stream_file import StreamFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from streameval_server._core.applier import Applier
    from streameval_server._core.entries import PairChange, StreamChange
    from streameval_server._log.rows import LogRow
    from streameval_server._log.storage import Storage
    from streameval_server._model.limits import Limits
    from streameval_server._model.row_kinds import Rows

_FORMATS: dict[int, frozenset[int]] = dict.fromkeys(Kind, frozenset({Format.BY_KIND}))
"""The formats that this version can replay, by kind."""
_FORMATS[Kind.BATCH] = frozenset(Format) - {Format.BY_KIND}

_CHANGES: dict[int, Callable[[bytes], StreamChange]] = {
    Kind.IMPORT_STREAM: StreamFile.from_bytes,
    Kind.IMPORT_PAIR: PairImport.from_bytes,
    Kind.CHANGE_ALARM: AlarmChange.from_bytes,
    Kind.CHANGE_MARKS: MarkChange.from_bytes,
    Kind.CHANGE_VERDICT: VerdictChange.from_bytes,
}
"""What decodes a change of a stream or pair that is no request, by kind."""

_CHUNK_ENTRIES, _CHUNK_ROWS = 4_096, 65_536
"""Entries, and rows of them, that `replay` decodes before it applies them."""


def restore(storage: Storage, manifest: Manifest, limits: Limits) -> Engine:
    """Return the engine as a manifest's checkpoint has it. O(bytes).

    Raises
    ------
    CorruptLogError
        When a part is not what was written.
    """
    parts = manifest.read(storage)
    return Engine.restore(limits, manifest.revision, manifest.received_us, parts)


def engine_at_base(storage: Storage, base: Manifest | None, limits: Limits) -> Engine:
    """Return the engine where the log begins: empty when the log is whole. O(bytes).

    Raises
    ------
    CorruptLogError
        When the base is not what was written.
    """
    if base is None:
        return Engine(limits)
    try:
        return restore(storage, base, limits)
    except CorruptLogError as error:
        raise CorruptLogError(
            f"the log begins at revision {base.revision}, where {error}"
        ) from error


def engine_at_checkpoint(
    storage: Storage, base: Manifest | None, limits: Limits
) -> tuple[Engine, Manifest | None, str | None]:
    """Return the engine at the current checkpoint, else at the log's base. O(bytes).

    Parameters
    ----------
    base
        As `read_base` returns it.

    Returns
    -------
    engine : Engine
    manifest : Manifest or None
        What the engine was restored from; None for an empty engine.
    error : str or None
        Why the current checkpoint could not be used; None when it could, or there is none.

    Raises
    ------
    CorruptLogError
        When neither is what was written.
    """
    try:
        data = storage.manifest()
        if data is None:
            return engine_at_base(storage, base, limits), base, None
        manifest = Manifest.from_bytes(data)
        engine = restore(storage, manifest, limits)
    except CorruptLogError as error:
        # The log from its beginning gives the same state, more slowly. The damaged manifest
        # is dropped: the next checkpoint must not rely on its parts.
        return engine_at_base(storage, base, limits), base, str(error)
    return engine, manifest, None


def entry_of(row: LogRow) -> Entry:
    """Decode a log row. O(payload).

    Raises
    ------
    StorageError
        When its kind or format is unknown: a newer version wrote it.
    CorruptLogError
        When its payload is not of its format.
    """
    if row.format not in _FORMATS.get(row.kind, ()):
        raise StorageError(
            f"log row {row.revision} has kind {row.kind} and format {row.format}, "
            "which this version does not know: start the release that wrote it, or a newer one"
        )
    rows: Rows | None = None
    change: StreamChange | None = None
    refused: Refused | None = None
    try:
        if row.kind == Kind.BATCH:
            rows = stored(row.format, row.payload)
        elif row.kind == Kind.MERGE:
            rows = stored_merge(row.payload)
        elif row.kind == Kind.REFUSED:
            refused = Refused.from_message(status_pb2.Refusal.FromString(row.payload))
        else:
            change = _change_of(row)
    except (
        CorruptLogError,
        CorruptStateError,
        DecodeError,
        RequestError,
        ValueError,
    ) as error:
        raise CorruptLogError(f"log row {row.revision}: {error}") from error
    return Entry(
        row.revision,
        row.received_us,
        row.kind,
        row.stream,
        row.producer,
        row.epoch,
        row.sequence,
        rows,
        change,
        refused,
        content_checksum(row.format, row.payload) if row.producer else 0,
    )


def _change_of(row: LogRow) -> StreamChange | None:
    """Decode what a row changes of streams and pairs; None for a row of another kind."""
    if row.kind == Kind.CREATE_STREAM:
        created = stream_pb2.CreateStreamRequest.FromString(row.payload)
        return settings_of(with_current_names(created.stream.settings))
    if row.kind == Kind.UPDATE_STREAM:
        updated = stream_pb2.UpdateStreamRequest.FromString(row.payload)
        with_current_names(updated.stream.settings)
        return update_of(updated)
    if row.kind in _CHANGES:
        return _CHANGES[row.kind](row.payload)
    return _pair_change_of(row)


def _pair_change_of(row: LogRow) -> PairChange | None:
    if row.kind == Kind.CREATE_PAIR:
        created = pair_pb2.CreatePairRequest.FromString(row.payload)
        return PairCreation.of(created)
    if row.kind == Kind.DELETE_PAIR:
        deleted = pair_pb2.DeletePairRequest.FromString(row.payload)
        return PairDeletion(deleted.name)
    return None


def replay(rows: Iterable[LogRow], applier: Applier) -> int:
    """Apply log rows, a chunk at a time; return how many there were. O(bytes).

    Raises
    ------
    CorruptLogError, StorageError
        As `entry_of`; also when time runs backwards or beyond `MAX_TIME_US`.
    """
    replayed = nbytes = num_rows = 0
    applier.replays = True
    entries: list[Entry] = []
    now_us = applier.engine.received_us
    for row in rows:
        if not now_us <= row.received_us <= MAX_TIME_US:
            raise CorruptLogError(
                f"log row {row.revision} was received at {row.received_us} us, "
                f"and the one before at {now_us} us"
            )
        now_us = row.received_us
        entry = entry_of(row)
        entries.append(entry)
        nbytes += len(row.payload)
        num_rows += 0 if entry.rows is None else entry.rows.size
        if len(entries) == _CHUNK_ENTRIES or num_rows >= _CHUNK_ROWS:
            _apply(applier, entries, nbytes)
            replayed += len(entries)
            entries, nbytes, num_rows = [], 0, 0
    _apply(applier, entries, nbytes)
    applier.replays = False
    applier.engine.measure()
    applier.finish_step()
    return replayed + len(entries)


def _apply(applier: Applier, entries: list[Entry], nbytes: int) -> None:
    applier.push(entries, nbytes)
    try:
        applier.finish()
    except Exception as error:
        # Whatever was accepted can be applied, so these are not the rows that were accepted.
        raise CorruptLogError(
            f"the log cannot be applied after revision {applier.engine.revision}: {error!r}"
        ) from error
