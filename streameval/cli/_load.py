"""Loads files into a stream exactly once, continuing where an earlier process was broken off.

Piece k of the files is sequence k of the load's producer, so reading continues after the
server's last durable sequence; nothing is written here. The producer has the load's name. Its
epoch is the time of the stream's creation, so that the load starts from the first piece when the
stream was deleted and created again.

Every batch carries a checksum of all content up to its end. On resumption the last durable
batch is sent once more, and the server says whether it is the same: if not, content up to its
end was changed.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from streameval._common.errors import StreamEvalError
from streameval._evaluator import Evaluator
from streameval.cli._connection import command as command_of
from streameval.client import AccessError, AlreadyExistsError, FencedError, NotFoundError
from streameval.client._delivery.merge_upload import Upload
from streameval.client._delivery.numbered_upload import NumberedUpload
from streameval.client._wire import calls
from streameval.client._wire.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from streameval.cli._pieces import FilePiece
    from streameval.cli._rows import FileColumns
    from streameval.client import StreamInfo
    from streameval.client._wire.transport import Transport

_MAX_EPOCHS = 64
"""Loads of which all rows were refused, and that were begun again, are at most one less."""

_DEFAULT_RETENTION = timedelta(days=30)
_TIMEOUT_S = 10.0
_VISIBLE_TIMEOUT_S = 120.0
"""How long rows that are durable may take until they are counted."""

_EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class LoadResult:
    """What became of a load.

    Attributes
    ----------
    revision : int
        Log revision that includes all its rows.
    known_rows : int
        Rows that were durable before this process.
    sent_labels : int
        Labels by id that this process sent.
    joined : int
        How many labels met a prediction meanwhile, including other senders' labels.
    refusals : list of str
        For each refused batch its rows, and why they do not count.
    refused_rows : int
    """

    revision: int = 0
    known_rows: int = 0
    sent_labels: int = 0
    joined: int = 0
    refusals: list[str] = field(default_factory=list)
    refused_rows: int = 0


def load_name(stream: str, files: Iterable[tuple[Path, FileColumns]], source: str | None) -> str:
    """Return the name of a load: by its `source`, or by the files' paths and columns."""
    content: Any = source
    if source is None:
        content = [
            [str(path.resolve()), columns.id, columns.columns, columns.positive]
            for path, columns in files
        ]
    text = json.dumps([stream, content])
    return f"push:{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"


class Load:
    """The load of one stream.

    Parameters
    ----------
    transport : Transport
    stream : str
    name : str
        From `load_name`.
    """

    def __init__(self, transport: Transport, stream: str, name: str) -> None:
        self._transport = transport
        self._stream = stream
        self._name = name

    def check(
        self, settings: Mapping[str, Any], oldest: tuple[Any, Path] | None, *, create: bool
    ) -> None:
        """Refuse rows that the stream would refuse, while nothing is created. O(1).

        Parameters
        ----------
        settings : mapping
            Those with which the stream is made unless it exists.
        oldest : tuple of datetime64 and Path, optional
            The earliest event time, and the file that has it.
        create : bool
            Whether the user said that the stream is to be made.

        Raises
        ------
        StreamEvalError
            With the command to run first.
        """
        try:
            info = self._info()
        except NotFoundError:
            if oldest is not None:
                kept = settings.get("retention", _DEFAULT_RETENTION)
                keys = _segment_options(settings.get("segment_keys", ()))
                if "cluster_key" in settings:
                    keys += ["--cluster-key", settings["cluster_key"]]
                command = [] if create else ["create", *keys]
                self._check_retention(oldest, kept, time.time_ns() // 1000, command)
            return
        known = set(info.settings.segment_keys)
        lacking = [each for each in settings.get("segment_keys", ()) if each not in known]
        if lacking and not create:
            raise StreamEvalError(
                f"no row was pushed: segment key {lacking[0]!r} is not declared by {self._stream}: "
                f"run {self._command('update', *_segment_options(lacking))}"
            )

    def create(self, settings: Mapping[str, Any]) -> None:
        """Create the stream; a repetition by the same load finds it created.

        Raises
        ------
        StreamEvalError
            When it exists, and this load has not created it.
        """
        about = json.dumps({key: str(value) for key, value in settings.items()}, sort_keys=True)
        digest = hashlib.blake2b(about.encode(), digest_size=8).hexdigest()
        request_id = f"{self._name.removeprefix('push:')}:{digest}"
        try:
            try:
                self._ask(calls.create_stream(self._stream, settings, request_id=request_id))
            except NotFoundError:
                # This load had created it, and it was deleted since.
                self._ask(calls.create_stream(self._stream, settings))
        except AlreadyExistsError as error:
            raise StreamEvalError(f"{error}: leave out --create to add rows to it") from None

    def create_if_missing(self, settings: Mapping[str, Any]) -> None:
        """Create the stream unless it exists: as its first row would if there are no settings.

        Settings need a token that may create streams; the first row needs only one that may
        write it.
        """
        try:
            self._info()
        except NotFoundError:
            try:
                if settings:
                    self._ask(calls.create_stream(self._stream, settings))
                else:
                    first = Upload(
                        self._stream, Evaluator(), source="push", epoch=1, at=None, segments=None
                    )
                    self._transport.merge(first.requests(), _TIMEOUT_S)
            except AlreadyExistsError:
                return  # by another process meanwhile

    def send(
        self,
        pieces: Iterable[FilePiece],
        *,
        oldest: tuple[Any, Path] | None,
        joins: bool,
    ) -> LoadResult:
        """Send the pieces that are not durable yet; return once all are.

        Parameters
        ----------
        pieces
            All pieces, from the first.
        oldest : tuple of datetime64 and Path, optional
            The earliest event time, and the file that has it.
        joins : bool
            Whether there are labels by id: then the load counts how many meet a prediction.

        Raises
        ------
        StreamEvalError
            When what is durable is not what the files begin with, or no row may count.
        """
        info = self._info()
        upload = self._begin(info)
        try:
            first = upload.durable_sequence
            if not first and oldest is not None:
                self._check_retention(oldest, info.settings.retention, upload.time_us, ["update"])
            before = self._met(0) if joins else 0
            result = self._send(upload, first, pieces)
            if result.sent_labels:
                result.joined = self._met(result.revision) - before
            return result
        finally:
            upload.close()

    def _send(
        self,
        upload: NumberedUpload,
        durable: int,
        pieces: Iterable[FilePiece],
    ) -> LoadResult:
        result = LoadResult()
        content = hashlib.blake2b(digest_size=8)
        unsettled: dict[int, FilePiece] = {}
        sequence = 0
        for sequence, piece in enumerate(pieces, start=1):
            batch = piece.columns.batch(sequence)
            content.update(batch.SerializeToString(deterministic=True))
            batch.source_checksum = int.from_bytes(content.digest(), "little")
            unsettled[sequence] = piece
            if sequence > durable:
                upload.put(batch)
                if sequence == 1:
                    self._refuse_all(upload)
                result.sent_labels += piece.labels
            else:
                result.known_rows += piece.rows
                if sequence == durable and not upload.check(batch):
                    raise StreamEvalError(
                        f"{piece.path}: row {piece.first_row}: the rows up to here are not those "
                        f"that were pushed to {self._stream} before: a file was added, changed or "
                        "removed; undo it, or push these files as another load: --source NAME"
                    )
            _drop_settled(unsettled, upload, result)
        if sequence < durable:
            raise StreamEvalError(
                f"{result.known_rows:,} rows are there, and more were pushed to {self._stream} "
                "before: a file was changed or removed; undo it, or push these files as another "
                "load: --source NAME"
            )
        result.revision = upload.finish()
        _drop_settled(unsettled, upload, result)
        return result

    def _refuse_all(self, upload: NumberedUpload) -> None:
        """Wait for the first batch: when it is refused, none is sent, and nothing counts."""
        upload.finish()
        if upload.refusals:
            raise StreamEvalError(f"no row was pushed: {upload.refusals[0].message}")

    def _begin(self, info: StreamInfo) -> NumberedUpload:
        """Connect under the epoch of this stream; under the next one where nothing counts."""
        created_us = (info.create_time - _EPOCH_START) // timedelta(microseconds=1)
        for attempt in range(_MAX_EPOCHS):
            upload = NumberedUpload(self._transport, self._name, created_us + attempt)
            try:
                last = upload.begin()
            except FencedError:
                upload.close()
                continue
            except BaseException:
                upload.close()
                raise
            if not last or len(upload.refusals) < last:
                return upload
            upload.close()
        raise StreamEvalError(
            f"this load was refused {_MAX_EPOCHS} times: push it as another one: --source NAME"
        )

    def _info(self) -> StreamInfo:
        try:
            return self._transport.ask(calls.get_stream(self._stream), _TIMEOUT_S)
        except AccessError as error:
            if error.code != "PERMISSION_DENIED":
                raise
            raise StreamEvalError(
                f"{error}; push asks when the stream was created, to go on where it was broken "
                "off: its token needs the scopes ingest and query"
            ) from None

    def _met(self, revision: int) -> int:
        """Return how many labels have met a prediction at a revision or later."""
        selection = Selection(stream=self._stream)
        call = calls.snapshot(selection, revision, ["auc_roc"])
        coverage = self._transport.ask(call, _VISIBLE_TIMEOUT_S).coverage
        counters = self._info().counters
        assert counters is not None  # in every answer to GetStream
        joined = 0 if coverage is None else coverage.labelled
        return int(joined) + counters.duplicate_labels + counters.relabelled

    def _command(self, verb: str, *options: str) -> str:
        """Return a command on the stream, as it can be pasted."""
        return command_of("streams", verb, self._stream, *options)

    def _check_retention(
        self, oldest: tuple[Any, Path], retention: timedelta, now_us: int, command: list[str]
    ) -> None:
        """Refuse rows older than a retention; no command is the one that the user gave."""
        at, path = oldest
        now = _EPOCH_START + timedelta(microseconds=now_us)
        first = _EPOCH_START + timedelta(microseconds=int(at.astype("datetime64[us]").astype(int)))
        if first >= now - retention:
            return
        # A month more: time goes on until the rows are pushed.
        span = f"{(now - first + timedelta(days=30)) // timedelta(days=365) + 1}y"
        remedy = f"run {self._command(*command, '--retention', span)}"
        if not command:
            remedy = f"give --retention {span}"
        raise StreamEvalError(
            f"{path}: event time must not be older than retention, got {first.isoformat()}, kept "
            f"since {(now - retention).isoformat()}: {remedy}, or leave the rows out"
        )

    def _ask(self, call: calls.Call[Any]) -> Any:
        return self._transport.ask(call, _TIMEOUT_S)


def _segment_options(keys: Iterable[str]) -> list[str]:
    return [part for key in keys for part in ("--segment", key)]


def _drop_settled(
    unsettled: dict[int, FilePiece], upload: NumberedUpload, result: LoadResult
) -> None:
    """Remove durable pieces from `unsettled`; record refused ones in the result."""
    settled = upload.durable_sequence
    if next(iter(unsettled), settled + 1) > settled:
        return
    refused = {each.sequence: each.message for each in upload.refusals}
    for sequence in [each for each in unsettled if each <= settled]:
        piece = unsettled.pop(sequence)
        if sequence in refused:
            result.refused_rows += piece.rows
            place = f"{piece.path}: rows {piece.first_row} to {piece.last_row}"
            result.refusals.append(f"{place}: {refused[sequence]}")
