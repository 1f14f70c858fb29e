"""The delivery of one partition's pieces to a server, exactly once.

The partition is a producer of the server, a piece an epoch of it, and the piece's batches the
sequences of that epoch. An epoch names the offsets of its piece, so the server's mark of the
producer says which messages are durable, and which batches of the last piece.

An epoch starts only where this process believes the producer to be (``Open.after_epoch``): of
two processes that hold a partition, after a rebalance that one of them has not noticed, one
fails, and looks again. Every batch carries a checksum of the piece up to its end, so that a
piece that is made again, with other mappings or of a topic that was compacted meanwhile, is not
taken for what is durable.
"""

from __future__ import annotations

import hashlib
import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from streameval._counts.cluster_counts import ClusterCounts
from streameval.client import AlreadyExistsError, ClientError, ClosedError, FencedError
from streameval.client._delivery.merge_upload import RETRYABLE_CODES, retry_pause_s
from streameval.client._delivery.numbered_upload import NumberedUpload
from streameval.client._wire import calls
from streameval.kafka._piece_range import UNUSED_EPOCH, PieceRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeVar

    from streameval.client._wire.transport import Transport
    from streameval.kafka._row_batches import RowBatch
    from streameval.payloads import PayloadMapping

    T = TypeVar("T")

_TIMEOUT_S = 10.0
_PRODUCER_BYTES = 128
_MAX_KNOWN_STREAMS = 10_000


class MovedError(Exception):
    """The producer is not where this process believed it to be: look again with `find`."""


class _ChangedPieceError(Exception):
    """What is durable of a piece is not what it is made of now."""


class Found(NamedTuple):
    """Where a server has a partition.

    Attributes
    ----------
    piece : PieceRange or None
        The last piece, which may be durable in part; None when there is none.
    sequence : int
        Its last durable batch.
    history : int
        Names the server's log; see ``Resume`` in the proto.
    """

    piece: PieceRange | None
    sequence: int
    history: int


class RefusedRows(NamedTuple):
    """Rows that the server refuses, durably."""

    rows: RowBatch
    message: str


def producer_name(group: str, cluster: str, topic: str, partition: int) -> str:
    """Return the name under which the server remembers a partition.

    Examples
    --------
    >>> producer_name("streameval", "5L6g3nShT-eMCtK", "scores", 3)
    'kafka:51cffce6a6c00f43:scores/3'
    """
    about = f"{group}\0{cluster}\0{topic}".encode()
    digest = hashlib.blake2b(about, digest_size=8).hexdigest()
    head, tail = f"kafka:{digest}:", f"/{partition}"
    room = _PRODUCER_BYTES - len(head) - len(tail)
    return f"{head}{topic[:room]}{tail}"


class PartitionDelivery:
    """Sends one partition's pieces; its methods are called by one thread at a time.

    Parameters
    ----------
    transport : Transport
    producer : str
        From `producer_name`.
    on_trouble : callable
        Called with each error that will pass, before it is tried again.
    """

    def __init__(
        self, transport: Transport, producer: str, on_trouble: Callable[[ClientError], None]
    ) -> None:
        self.producer = producer
        self.history = 0
        self._transport = transport
        self._on_trouble = on_trouble
        self._at = (UNUSED_EPOCH, 0)
        self._known_streams: set[str] = set()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._upload: NumberedUpload | None = None

    def close(self) -> None:
        """End what runs: it raises ClosedError. Any thread may call it."""
        self._closed.set()
        with self._lock:
            upload = self._upload
        if upload is not None:
            upload.close()

    def find(self) -> Found:
        """Return where the server has the partition; wait while it is away.

        Raises
        ------
        ClientError
            When the server refuses the connection.
        """
        return self._persist(self._find)

    def send(
        self,
        piece: PieceRange,
        batches: Sequence[RowBatch],
        mappings: dict[str, PayloadMapping],
        *,
        is_begun: bool,
    ) -> list[RefusedRows]:
        """Send a piece; return once all of it is durable, with what the server refuses.

        Parameters
        ----------
        piece : PieceRange
        batches : sequence of RowBatch
            At least one.
        mappings : dict of str to PayloadMapping
            Of the batches' streams, which are created if they do not exist.
        is_begun : bool
            Whether `find` returned this piece: its batches that are durable are not sent again.

        Raises
        ------
        MovedError
            When another process has sent something of the partition, or the server has lost
            some.
        ClientError
            When the server refuses the connection.
        """
        for stream, mapping in mappings.items():
            self._persist(partial(self._create, stream, mapping))
        while True:
            try:
                return self._persist(partial(self._send, piece, batches, is_begun=is_begun))
            except _ChangedPieceError:
                piece, is_begun = piece.again(), False
            except FencedError as error:
                raise MovedError(str(error)) from error

    def _persist(self, attempt: Callable[[], T]) -> T:
        """Repeat what fails for a while: the server restarts, or its disk is full."""
        attempts = 0
        while True:
            try:
                return attempt()
            except ClientError as error:
                if error.code == "DATA_LOSS":
                    raise MovedError(str(error)) from error
                is_passing = error.code in RETRYABLE_CODES or error.retry_after_s is not None
                if not is_passing or self._closed.is_set():
                    raise
                self._on_trouble(error)
                attempts += 1
                self._closed.wait(retry_pause_s(attempts, error))
            if self._closed.is_set():
                raise ClosedError("the partition was given up")

    def _find(self) -> Found:
        with self._opened(UNUSED_EPOCH) as upload:
            try:
                upload.begin()
            except FencedError as error:
                epoch = int(error.metadata["current_epoch"])
            else:
                self._at, self.history = (UNUSED_EPOCH, 0), upload.history
                return Found(None, 0, upload.history)
        with self._opened(epoch) as upload:
            try:
                sequence = upload.begin()
            except FencedError as error:
                raise ClientError(str(error), code="ABORTED") from None  # it moved on meanwhile
            self._at, self.history = (epoch, sequence), upload.history
            return Found(PieceRange.of_epoch(epoch), sequence, upload.history)

    def _create(self, stream: str, mapping: PayloadMapping) -> None:
        """Create a stream as its mapping wants it; its first row creates any other."""
        if stream in self._known_streams or not (mapping.segments or mapping.cluster):
            return
        settings: dict[str, object] = {"segment_keys": list(mapping.segments)}
        if mapping.cluster:
            settings["cluster_groups"] = ClusterCounts.DEFAULT_GROUPS
        try:
            self._transport.ask(calls.create_stream(stream, settings), _TIMEOUT_S)
        except AlreadyExistsError:
            pass
        except ClientError as error:
            # Without the permission, or room for it: the rows are refused if it does not exist.
            if error.code in RETRYABLE_CODES:
                raise
        if len(self._known_streams) >= _MAX_KNOWN_STREAMS:
            self._known_streams.clear()
        self._known_streams.add(stream)

    @contextmanager
    def _opened(self, epoch: int, after: tuple[int, int] | None = None) -> Iterator[NumberedUpload]:
        """Yield an upload that `close` ends too."""
        # Given up at once, so that `on_trouble` is told; `_persist` tries again.
        upload = NumberedUpload(self._transport, self.producer, epoch, after=after, max_away_s=0.0)
        with self._lock:
            self._upload = upload
        try:
            if self._closed.is_set():
                raise ClosedError("the partition was given up")
            yield upload
        finally:
            upload.close()

    def _send(
        self, piece: PieceRange, batches: Sequence[RowBatch], *, is_begun: bool
    ) -> list[RefusedRows]:
        epoch = piece.epoch
        after = None if is_begun or self._at[0] == epoch else self._at
        with self._opened(epoch, after) as upload:
            durable = upload.begin()
            self.history = upload.history
            self._at = (epoch, durable)
            try:
                return _Sending(upload, batches).run(durable)
            finally:
                self._at = (epoch, upload.durable_sequence)


class _Sending:
    """One connection's part in a piece.

    It sends the piece's batches, then the batches that replace refused ones, in the order of
    the refusals. After a crash the server reports the refusals again, so the order is the same;
    of more than 64 it reports the newest, and then the checksums differ.
    """

    def __init__(self, upload: NumberedUpload, batches: Iterable[RowBatch]) -> None:
        self._upload = upload
        self._batches = list(batches)
        self._content = hashlib.blake2b(digest_size=8)

    def run(self, durable: int) -> list[RefusedRows]:
        """Send what is above the last durable sequence; return what is refused of the whole."""
        upload, batches = self._upload, self._batches
        refused: list[RefusedRows] = []
        sent = settled = 0
        while sent < len(batches):
            for sequence in range(sent + 1, len(batches) + 1):
                message = batches[sequence - 1].message(sequence)
                self._content.update(message.SerializeToString(deterministic=True))
                message.source_checksum = int.from_bytes(self._content.digest(), "little")
                if sequence > durable:
                    upload.put(message)
                elif sequence == durable and not upload.check(message):
                    raise _ChangedPieceError
            sent = len(batches)
            upload.finish()
            refusals = {each.sequence: each for each in upload.refusals}
            for sequence in range(settled + 1, sent + 1):
                if sequence in refusals:
                    parts, wrong = batches[sequence - 1].split(refusals[sequence])
                    batches += parts
                    if len(wrong):
                        refused.append(RefusedRows(wrong, refusals[sequence].message))
            settled = sent
        if durable > sent:
            raise _ChangedPieceError
        return refused
