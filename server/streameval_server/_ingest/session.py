"""The server's side of an Ingest stream, without the network.

Frames go in, messages come out. The session checks the order of its own stream. The
committer decides whether a sequence is new, when it commits: batches of the same
producer from an older connection may still be queued. Cost: about 20 us for a batch
of 1,000 cases, decoding included.

`batch_item` and `check_producer` are used by unary calls too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval.checks import id_problem, quoted, stream_name_problem
from streameval.v1 import ingest_pb2
from streameval_server._batch.content import content_checksum
from streameval_server._batch.decode import decode, parse_message, settings_for
from streameval_server._core.catalog import settings_in
from streameval_server._core.entries import Item, Status
from streameval_server._core.producer_marks import ProducerMark
from streameval_server._log.failpoints import failpoint
from streameval_server._log.rows import Format, Kind
from streameval_server._model.errors import (
    Code,
    Refused,
    RefusedError,
    RequestError,
    epoch_fenced,
    sequence_gap,
    sequence_reused,
)
from streameval_server._model.idempotency import PRODUCER_PREFIX
from streameval_server._model.names import MAX_UINT
from streameval_server._model.threads import do_nothing

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval_server._core.committer import Committer
    from streameval_server._core.entries import Outcome, Owner
    from streameval_server._model.limits import Limits

    Forbids = Callable[[str], str | None]
    """Returns why the caller must not write to a stream; None when it may."""


def forbid_nothing(_stream: str) -> None:
    """Permit every stream."""


class IngestSession:
    """One Ingest stream.

    Parameters
    ----------
    committer, limits
        The server's.
    wake
        Called when replies, room or an error are new, in the thread that calls
        `feed` or delivers outcomes.
    forbids
        Returns why the client must not write to a stream; such a batch is refused.
    """

    def __init__(
        self,
        committer: Committer,
        limits: Limits,
        wake: Callable[[], None] = do_nothing,
        *,
        forbids: Forbids = forbid_nothing,
    ) -> None:
        self._forbids = forbids
        self._committer = committer
        self._limits = limits
        self._wake = wake
        self._producer = ""
        self._epoch = 0
        self._opened_us = 0
        self._next = 1
        self._inflight_bytes = 0
        self._acked = 0
        self._ack_revision = 0
        self._sent_ack = 0
        self._replies: list[ingest_pb2.IngestResponse] = []
        self._error: RequestError | None = None

    def feed(self, frame: bytes, now_us: int) -> None:
        """Accept the next frame, an encoded IngestRequest.

        Raises
        ------
        RequestError
            The stream must end with it. Batches submitted before may still become
            durable; this frame does not.
        """
        if self._error is not None:
            raise self._error
        request = parse_message(ingest_pb2.IngestRequest, frame)
        if not self._producer:
            self._open(request, frame, now_us)
            return
        if not request.HasField("batch"):
            raise RequestError(
                Code.INVALID_ARGUMENT,
                "every message after the first must be a batch",
                reason="BATCH_EXPECTED",
            )
        batch = request.batch
        sequence = batch.sequence
        if sequence > self._next or sequence < 1:
            raise sequence_gap(sequence, self._next)
        if sequence <= self._acked:
            self._answer_again(sequence, frame)
            return
        # A repetition of a batch that is still in flight is decided where its first copy is.
        item = batch_item(
            self,
            batch,
            frame,
            format_=Format.INGEST_REQUEST,
            producer=self._producer,
            epoch=self._epoch,
            now_us=now_us,
            limits=self._limits,
            committer=self._committer,
            forbids=self._forbids,
        )
        self._committer.submit(item)
        self._next = max(self._next, sequence + 1)
        self._inflight_bytes += item.nbytes

    def _open(self, request: ingest_pb2.IngestRequest, frame: bytes, now_us: int) -> None:
        if not request.HasField("open"):
            raise RequestError(
                Code.INVALID_ARGUMENT, "the first message must be open", reason="OPEN_EXPECTED"
            )
        producer, epoch = request.open.producer, request.open.epoch
        check_producer(producer, epoch, self._limits, prefix="open.")
        self._committer.check_serving()
        # In this order: the revision then includes the mark's sequence.
        mark = self._committer.marks.get(producer)
        revision = self._committer.revision
        if mark is not None and mark.epoch > epoch:
            raise epoch_fenced(producer, epoch, mark.epoch)
        self._producer, self._epoch = producer, epoch
        if mark is not None and mark.epoch == epoch:
            self._resume(mark, revision, now_us)
            self._wake()
            return
        # Answered when it is durable: from then on lower epochs are fenced, after a crash too.
        by_kind = Format.BY_KIND
        item = Item(self, Kind.OPEN, by_kind, "", producer, epoch, 0, frame, nbytes=len(frame))
        self._committer.submit(item)
        self._opened_us = now_us
        self._inflight_bytes += item.nbytes

    def _resume(self, mark: ProducerMark, revision: int, now_us: int) -> None:
        """Answer Open; `revision` includes the mark's sequence."""
        last = mark.last_sequence
        # A client may have sent batches without waiting for the answer.
        self._next = max(self._next, last + 1)
        self._acked = self._sent_ack = last
        self._ack_revision = revision
        limits = self._limits
        self._replies.append(
            ingest_pb2.IngestResponse(
                resume=ingest_pb2.Resume(
                    last_sequence=last,
                    max_batch_rows=limits.max_batch_rows,
                    max_batch_bytes=limits.max_batch_bytes,
                    max_inflight_bytes=limits.max_inflight_bytes,
                    revision=revision,
                    time_us=now_us,
                    refused=[refusal.to_message() for refusal in mark.refusals],
                    history=self._committer.history,
                )
            )
        )

    def _settle_open(self, outcome: Outcome) -> None:
        """Answer Open once the epoch's start is durable."""
        if outcome.status is Status.DURABLE:
            self._resume(
                ProducerMark(self._epoch, 0, self._opened_us), outcome.revision, self._opened_us
            )
            return
        # Another connection of this epoch has started it; a higher epoch may have followed.
        mark = self._committer.marks.get(self._producer)
        revision = self._committer.revision
        if mark is None or mark.epoch != self._epoch:
            current = 0 if mark is None else mark.epoch
            self._error = epoch_fenced(self._producer, self._epoch, current)
            return
        self._resume(mark, revision, self._opened_us)

    def _answer_again(self, sequence: int, frame: bytes) -> None:
        """Answer a batch that is acknowledged as before.

        Raises
        ------
        RequestError
            When it has another content than the batch that was acknowledged.
        """
        mark = self._committer.marks.get(self._producer)
        if mark is not None and mark.epoch == self._epoch:
            refusal = mark.refusal(sequence)
            if refusal is not None:
                self._replies.append(ingest_pb2.IngestResponse(refused=refusal.to_message()))
            elif not mark.agrees(sequence, content_checksum(Format.INGEST_REQUEST, frame)):
                raise sequence_reused(self._producer, self._epoch, sequence)
        self._sent_ack = min(self._sent_ack, sequence - 1)
        self._wake()

    @property
    def full(self) -> bool:
        """Whether the reader must pause until a batch is settled."""
        return self._inflight_bytes >= self._limits.max_inflight_bytes

    @property
    def idle(self) -> bool:
        """Whether all fed batches are settled."""
        return self._inflight_bytes == 0

    @property
    def error(self) -> RequestError | None:
        """Why the stream must end, after `settle` received a failure."""
        return self._error

    def replies(self) -> list[ingest_pb2.IngestResponse]:
        """Return the messages to send: resume or refusals, then one cumulative ack."""
        replies, self._replies = self._replies, []
        if self._acked > self._sent_ack:
            self._sent_ack = self._acked
            failpoint("ack.reply")
            replies.append(
                ingest_pb2.IngestResponse(
                    ack=ingest_pb2.Ack(last_sequence=self._acked, revision=self._ack_revision)
                )
            )
        return replies

    def settle(self, outcome: Outcome) -> None:
        """Accept the outcome of the start or of a batch."""
        self._inflight_bytes -= outcome.item.nbytes
        if outcome.status is Status.FAILED:
            if self._error is None:
                self._error = outcome.error
        elif self._error is None:
            if outcome.item.kind == Kind.OPEN:
                self._settle_open(outcome)
            else:
                self._settle_batch(outcome)
        self._wake()

    def _settle_batch(self, outcome: Outcome) -> None:
        """Acknowledge a batch, and those before it."""
        sequence = outcome.item.sequence
        self._acked = max(self._acked, sequence)
        self._ack_revision = outcome.revision
        if outcome.refused is not None:
            self._replies.append(
                ingest_pb2.IngestResponse(
                    refused=ingest_pb2.BatchRefused(
                        sequence=sequence,
                        refusal=outcome.refused.to_message(),
                        revision=outcome.revision,
                    )
                )
            )


def batch_item(
    owner: Owner,
    batch: ingest_pb2.Batch,
    frame: bytes,
    *,
    format_: Format,
    producer: str,
    epoch: int,
    now_us: int,
    limits: Limits,
    committer: Committer,
    forbids: Forbids = forbid_nothing,
) -> Item:
    """Decode and check a batch; return the item to submit to the committer.

    A batch that breaks a rule becomes a refusal item, which consumes its sequence. A
    batch for a stream that the caller must not write to is logged without the stream's
    name, so that it leaves no trace in that stream.
    """

    def refused(refusal: Refused, stream: str) -> Item:
        payload = refusal.to_message().SerializeToString()
        return Item(
            owner,
            Kind.REFUSED,
            Format.BY_KIND,
            stream,
            producer,
            epoch,
            batch.sequence,
            payload,
            None,
            refusal,
            len(payload),
            content=content_checksum(format_, frame),
        )

    is_valid_name = stream_name_problem(batch.stream, limits.max_stream_name) is None
    problem = forbids(batch.stream) if is_valid_name else None
    if problem is not None:
        return refused(Refused(Code.PERMISSION_DENIED, problem, (("stream", problem),)), "")
    nbytes = len(frame)
    # The settings may change before the commit; the committer then checks again.
    settings = settings_for(batch, settings_in(committer.catalog, batch), limits)
    disputed_us = committer.disputed_us
    try:
        rows = decode(batch, nbytes, now_us, limits, settings, disputed_us=disputed_us)
    except RefusedError as error:
        return refused(error.refused, batch.stream if is_valid_name else "")
    item = Item(
        owner,
        Kind.BATCH,
        format_,
        batch.stream,
        producer,
        epoch,
        batch.sequence,
        frame,
        rows,
        None,
        nbytes,
    )
    item.settings = settings
    return item


def check_producer(producer: str, epoch: int, limits: Limits, *, prefix: str = "") -> None:
    """Refuse a producer's name or epoch that the log cannot store."""
    field = f"{prefix}producer"
    problem = id_problem("producer", producer, limits.max_id_bytes)
    if problem is None and producer.startswith(PRODUCER_PREFIX):
        problem = f"producer must not begin with {PRODUCER_PREFIX!r}, got {quoted(producer)}"
    if problem is None and epoch > MAX_UINT:
        field = f"{prefix}epoch"
        problem = f"epoch must be below 2**63, got {epoch}"
    if problem is not None:
        raise RequestError(
            Code.INVALID_ARGUMENT,
            problem,
            reason="INVALID_PRODUCER",
            violations=((field, problem),),
        )
