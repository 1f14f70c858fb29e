"""Unary calls that end when they are durable: IngestBatch, Merge, CreateStream, ..."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.timestamp_pb2 import Timestamp

from streameval.v1 import (
    admin_pb2,
    alarm_pb2,
    ingest_pb2,
    mark_pb2,
    pair_pb2,
    stream_pb2,
    verdict_pb2,
)
from streameval_server._batch.decode import parse_message
from streameval_server._core.entries import Item, Status
from streameval_server._ingest.session import batch_item, check_producer, forbid_nothing
from streameval_server._log.rows import PAIR_KINDS, Format, Kind
from streameval_server._model.errors import invalid
from streameval_server._model.idempotency import RequestMark, request_mark
from streameval_server._model.names import MAX_UINT, check_new_stream_name, check_stream_name
from streameval_server._model.pair_settings import PairCreation, PairDeletion, check_pair_name
from streameval_server._model.stream_info import StreamInfo
from streameval_server._model.stream_settings import (
    StreamSettings,
    check,
    check_mask,
    settings_of,
    update_of,
)
from streameval_server._model.threads import do_nothing
from streameval_server._state.pairs.pair_file import PairImport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from streameval_server._batch.merge import MergeInbox
    from streameval_server._core.committer import Committer
    from streameval_server._core.entries import Outcome, StateChange, StreamChange
    from streameval_server._ingest.session import Forbids
    from streameval_server._model.alarm_change import AlarmChange
    from streameval_server._model.limits import Limits
    from streameval_server._model.mark import MarkChange
    from streameval_server._model.row_kinds import MergeRows
    from streameval_server._model.verdict_change import VerdictChange
    from streameval_server._state.stream_file import StreamFile

Response = (
    ingest_pb2.IngestBatchResponse
    | ingest_pb2.MergeResponse
    | stream_pb2.CreateStreamResponse
    | stream_pb2.UpdateStreamResponse
    | stream_pb2.DeleteStreamResponse
    | admin_pb2.ImportStreamResponse
    | admin_pb2.ImportPairResponse
    | alarm_pb2.AcknowledgeAlarmResponse
    | pair_pb2.CreatePairResponse
    | pair_pb2.DeletePairResponse
    | mark_pb2.CreateMarkResponse
    | verdict_pb2.AcceptNormalResponse
)


_STATE_RESPONSES: Mapping[int, Callable[..., Response]] = {
    Kind.CHANGE_ALARM: alarm_pb2.AcknowledgeAlarmResponse,
    Kind.CHANGE_MARKS: mark_pb2.CreateMarkResponse,
    Kind.CHANGE_VERDICT: verdict_pb2.AcceptNormalResponse,
}


class UnaryCall:
    """One call that ends when its item is durable.

    Parameters
    ----------
    committer, limits
        The server's.
    wake
        Called when the call is `done`, in the thread that delivers outcomes.
    """

    def __init__(
        self, committer: Committer, limits: Limits, wake: Callable[[], None] = do_nothing
    ) -> None:
        self._committer = committer
        self._limits = limits
        self._wake = wake
        self._outcome: Outcome | None = None

    def ingest_batch(self, frame: bytes, now_us: int, *, forbids: Forbids = forbid_nothing) -> None:
        """Submit an encoded IngestBatchRequest.

        With a producer, a refused batch consumes its sequence, as in IngestSession;
        `forbids` has the same meaning too.

        Raises
        ------
        RequestError
            It ends the call; nothing was changed.
        """
        request = parse_message(ingest_pb2.IngestBatchRequest, frame)
        batch = request.batch
        if request.producer:
            check_producer(request.producer, request.epoch, self._limits)
            if not 0 < batch.sequence <= MAX_UINT:
                raise invalid(
                    "batch.sequence", f"sequence must be from 1 to 2**63 - 1, got {batch.sequence}"
                )
        elif batch.sequence or request.epoch:
            raise invalid("producer", "a sequence or an epoch needs a producer")
        item = batch_item(
            self,
            batch,
            frame,
            format_=Format.INGEST_BATCH_REQUEST,
            producer=request.producer,
            epoch=request.epoch,
            now_us=now_us,
            limits=self._limits,
            committer=self._committer,
            forbids=forbids,
        )
        if item.refused is not None and not item.producer:
            raise item.refused.to_error()
        self._committer.submit(item)

    def merge(self, inbox: MergeInbox, prepared: tuple[MergeRows, bytes]) -> None:
        """Submit a complete merge.

        Parameters
        ----------
        inbox
            The inbox that collected it.
        prepared
            The result of the inbox's `finish`.

        Raises
        ------
        RequestError
            As `Committer.submit`.
        """
        rows, payload = prepared
        assert inbox.header is not None
        item = Item(
            self,
            Kind.MERGE,
            Format.BY_KIND,
            inbox.header.stream,
            producer="",
            epoch=0,
            sequence=0,
            payload=payload,
            rows=rows,
            nbytes=len(payload),
            settings=inbox.settings,
        )
        self._committer.submit(item)

    def import_stream(self, name: str, payload: bytes, file: StreamFile) -> None:
        """Submit an exported stream; `file` is its checked content.

        Raises
        ------
        RequestError
            As `Committer.submit`.
        """
        # Its bytes do not count against the queue's limit: an import has a limit of its own.
        item = Item(self, Kind.IMPORT_STREAM, Format.BY_KIND, name, "", 0, 0, payload)
        item.change = file
        self._committer.submit(item)

    def import_pair(self, change: PairImport) -> None:
        """Submit an exported pair, whose content is checked. Raises RequestError."""
        payload = change.to_bytes()
        item = Item(self, Kind.IMPORT_PAIR, Format.BY_KIND, change.a, "", 0, 0, payload)
        item.change = change
        self._committer.submit(item)

    def create_stream(self, frame: bytes) -> None:
        """Submit an encoded CreateStreamRequest. Raises RequestError."""
        request = parse_message(stream_pb2.CreateStreamRequest, frame)
        name = request.stream.name
        check_new_stream_name(name, "stream.name", self._limits.max_stream_name)
        settings = settings_of(request.stream.settings)
        check(settings, self._limits)
        mark = request_mark(request)
        self._administer(Kind.CREATE_STREAM, name, frame, mark, change=settings)

    def update_stream(self, frame: bytes) -> None:
        """Submit an encoded UpdateStreamRequest. Raises RequestError."""
        request = parse_message(stream_pb2.UpdateStreamRequest, frame)
        check_mask(request)
        update = update_of(request)
        name, mark = request.stream.name, request_mark(request)
        check_stream_name(name, "stream.name", self._limits.max_stream_name)
        self._administer(Kind.UPDATE_STREAM, name, frame, mark, change=update)

    def delete_stream(self, frame: bytes) -> None:
        """Submit an encoded DeleteStreamRequest. Raises RequestError."""
        request = parse_message(stream_pb2.DeleteStreamRequest, frame)
        mark = request_mark(request)
        check_stream_name(request.name, "name", self._limits.max_stream_name)
        self._administer(Kind.DELETE_STREAM, request.name, frame, mark)

    def change_alarm(self, name: str, change: AlarmChange) -> None:
        """Submit a change of an alarm. Raises RequestError."""
        self._change_state(Kind.CHANGE_ALARM, name, change)

    def create_pair(self, frame: bytes) -> None:
        """Submit an encoded CreatePairRequest. Raises RequestError."""
        request = parse_message(pair_pb2.CreatePairRequest, frame)
        creation = PairCreation.of(request)
        creation.check(self._limits)
        mark = request_mark(request)
        self._administer(Kind.CREATE_PAIR, creation.a, frame, mark, change=creation)

    def delete_pair(self, frame: bytes, sides: tuple[str, str] | None) -> None:
        """Submit an encoded DeletePairRequest; `sides` as of `PairDeletion`. Raises RequestError.

        Without such a pair, too: the request may repeat one that has deleted it.
        """
        request = parse_message(pair_pb2.DeletePairRequest, frame)
        check_pair_name(request.name)
        mark = request_mark(request)
        change = PairDeletion(request.name, sides)
        stream = "" if sides is None else sides[0]
        self._administer(Kind.DELETE_PAIR, stream, frame, mark, change=change)

    def change_marks(self, name: str, change: MarkChange) -> None:
        """Submit a mark that is made or deleted. Raises RequestError."""
        self._change_state(Kind.CHANGE_MARKS, name, change)

    def change_verdict(self, name: str, change: VerdictChange) -> None:
        """Submit a change of a verdict's base, or of what was told. Raises RequestError."""
        self._change_state(Kind.CHANGE_VERDICT, name, change)

    def _change_state(self, kind: Kind, name: str, change: StateChange) -> None:
        payload = change.to_bytes()
        item = Item(self, kind, Format.BY_KIND, name, "", 0, 0, payload)
        item.change = change
        self._committer.submit(item)

    def _administer(
        self,
        kind: Kind,
        name: str,
        frame: bytes,
        mark: RequestMark,
        *,
        change: StreamChange | None = None,
    ) -> None:
        item = Item(self, kind, Format.BY_KIND, name, *mark, frame, nbytes=len(frame))
        item.change = change
        self._committer.submit(item)

    @property
    def done(self) -> bool:
        """Whether the outcome is known, so that `response` returns or raises."""
        return self._outcome is not None

    def response(self) -> Response:
        """Return the response once `done`. Raises RequestError when the call failed."""
        outcome = self._outcome
        if outcome is None:
            raise RuntimeError("the call is not done")
        if outcome.error is not None:
            raise outcome.error
        if outcome.refused is not None:
            raise outcome.refused.to_error()
        item = outcome.item
        if item.kind in PAIR_KINDS:
            return _pair_response(outcome)
        if item.kind in {Kind.BATCH, Kind.REFUSED, Kind.MERGE}:
            made = (
                ingest_pb2.MergeResponse
                if item.kind == Kind.MERGE
                else ingest_pb2.IngestBatchResponse
            )
            duplicate = outcome.status is Status.DUPLICATE
            return made(revision=outcome.revision, duplicate=duplicate)
        return _stream_response(outcome)

    def settle(self, outcome: Outcome) -> None:
        """Accept the outcome."""
        self._outcome = outcome
        self._wake()


def _pair_response(outcome: Outcome) -> Response:
    change, duplicate = outcome.item.change, outcome.status is Status.DUPLICATE
    if isinstance(change, PairCreation):
        # The service adds the pair's settings.
        return pair_pb2.CreatePairResponse(
            pair=pair_pb2.Pair(name=change.name, a=change.a, b=change.b),
            revision=outcome.revision,
            duplicate=duplicate,
        )
    if isinstance(change, PairImport):
        return admin_pb2.ImportPairResponse(
            revision=outcome.revision, name=change.name, a=change.a, b=change.b
        )
    return pair_pb2.DeletePairResponse(revision=outcome.revision, duplicate=duplicate)


def _stream_response(outcome: Outcome) -> Response:
    item, revision = outcome.item, outcome.revision
    duplicate = outcome.status is Status.DUPLICATE
    if isinstance(item.change, StreamSettings):
        # For a duplicate the service replaces the stream by the present one.
        info = StreamInfo(item.stream, outcome.received_us, revision, item.change)
        return stream_pb2.CreateStreamResponse(
            stream=info_message(info), revision=revision, duplicate=duplicate
        )
    if item.kind == Kind.UPDATE_STREAM:
        # The service adds the stream's current settings.
        stream = stream_pb2.Stream(name=item.stream)
        return stream_pb2.UpdateStreamResponse(
            stream=stream, revision=revision, duplicate=duplicate
        )
    if item.kind == Kind.IMPORT_STREAM:
        return admin_pb2.ImportStreamResponse(revision=revision, name=item.stream)
    made = _STATE_RESPONSES.get(item.kind)
    if made is not None:
        # The service adds what was changed.
        return made(revision=revision)
    return stream_pb2.DeleteStreamResponse(revision=revision, duplicate=duplicate)


def info_message(info: StreamInfo) -> stream_pb2.Stream:
    """Return a stream's description as a message."""
    create_time = Timestamp()
    create_time.FromMicroseconds(info.create_us)
    return stream_pb2.Stream(
        name=info.name,
        create_time=create_time,
        create_revision=info.create_revision,
        settings=info.settings.to_message(),
    )
