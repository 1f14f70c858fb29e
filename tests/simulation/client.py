"""A client: the product's verbs, buffer, delivery and sender, with simulated time and network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval.client import ClientError, FencedError, RowsLostError, UnavailableError
from streameval.client._buffer.buffer import Buffer
from streameval.client._buffer.case_verbs import CaseVerbs
from streameval.client._buffer.id_verbs import IdVerbs
from streameval.client._delivery.delivery import Delivery
from streameval.client._delivery.sender import Phase, Sender
from streameval.client._delivery.statistics import read_statistics

from .network import Connection
from .world import Process, S

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval.v1 import ingest_pb2

    from .ledger import Ledger
    from .server import Server
    from .world import World

_LINGER_S = 0.03


class Verbs(CaseVerbs, IdVerbs):
    """The methods that add rows to one stream."""


class Client(Process):
    """One life of a producer.

    Parameters
    ----------
    producer : str
    epoch : int
        Higher than in its earlier lives.
    """

    def __init__(
        self, world: World, ledger: Ledger, server: Server, producer: str, epoch: int
    ) -> None:
        super().__init__(world, f"{producer}/{epoch}")
        dice = world.random
        self.producer = producer
        self.ledger = ledger
        self.buffer = Buffer(
            capacity=dice.choice((20, 100_000)),
            batch_rows=dice.choice((1, 5, 1_000)),
            when_full="drop",
            start=lambda: True,
            wake=self._woken,
            clock_ns=world.clock_ns,
        )
        self.delivery = Delivery(self.buffer, producer, "the simulated server")
        self.sender = self.delivery.sender = Sender(producer, epoch, random=dice.random)
        self._server = server
        self._connection: Connection | None = None
        self._flushes: list[tuple[int, ClientError | None, Callable[[], None]]] = []
        self._next_look_us = 0
        self._epochs = {epoch}
        self._revision = 0

    @property
    def connection(self) -> Connection | None:
        """The connection in use."""
        return self._connection

    @property
    def is_settled(self) -> bool:
        """Whether no row waits to be sent or acknowledged."""
        return self.life > 0 or not (self.sender.pending or self.buffer.has_rows())

    def stream(self, name: str) -> Verbs:
        """Return a stream to add to."""
        return Verbs(self.buffer, name)

    # -- sending

    def _woken(self) -> None:
        self.world.soon(self._connect_or_send)

    def _connect_or_send(self, life: int = 0) -> None:
        """Send what there is to send; connect first if there is no connection."""
        if self.life != life or self.sender.phase is Phase.FENCED:
            return
        if self._connection is not None:
            self._pump(self._connection)
            return
        now_s = self.world.now_us / S
        if now_s < self.sender.retry_at:
            # Try again at `retry_at`, unless that is scheduled already.
            if self._next_look_us < self.sender.retry_at * S:
                wait_us = int((self.sender.retry_at - now_s) * S) + 1
                self._next_look_us = self.world.now_us + wait_us
                self.world.after(wait_us, self._connect_or_send)
        elif self.sender.pending or self._has_rows():
            self._connect()

    def _has_rows(self) -> bool:
        with self.buffer.lock:
            return self.buffer.arm(0.0) is not None

    def _connect(self) -> None:
        message = self.sender.open()
        epoch = message.open.epoch
        self._epochs.add(epoch)
        self._connection = connection = Connection(self, self._server)
        if self._server.is_up:
            self._server.connections[connection] = None
            connection.open(message.SerializeToString(), epoch)
        else:
            self.world.soon(self.ended, connection, UnavailableError("connection refused"))

    def _pump(self, connection: Connection, lingered: bool = False) -> None:
        """Send what may be sent; as in the real client, rows linger to fill a batch."""
        sender = self.sender
        while connection is self._connection and self.life == 0:
            if sender.starved and not lingered:
                with self.buffer.lock:
                    patience_s = self.buffer.arm(_LINGER_S)
                if patience_s is None:
                    return
                if patience_s:
                    self.world.after(int(patience_s * S), self._pump, connection, True)
                    return
            lingered = False
            before = sender.sent_rows + sender.retried_rows
            message = self.delivery.next_message()
            if message is None:
                if sender.starved:
                    continue
                return
            frame = message.SerializeToString()
            rows = sender.sent_rows + sender.retried_rows - before
            key = (self.producer, sender.epoch, message.batch.sequence)
            self.ledger.sends(key, frame, rows)
            self.world.trace(self.name, "sends %s: %s", message.batch.sequence, _brief(message))
            connection.send(frame)

    # -- receiving

    def receive(self, connection: Connection, response: ingest_pb2.IngestResponse) -> None:
        """Process an answer."""
        if connection is not self._connection or self.life:
            return
        self.world.trace(self.name, "hears %s", " ".join(str(response).split())[:100])
        alive = self.delivery.receive(response)
        self.sender.refuse_held()  # as with a full buffer: no application declares segment keys
        self.buffer.settled(self.sender.settled_rows)
        self._check()
        if not alive:
            self.ended(connection, self.sender.error)
            return
        self._answer_flushes()
        self._pump(connection)

    def ended(self, connection: Connection, error: ClientError | None) -> None:
        """Handle the end of a connection."""
        if connection is not self._connection or self.life:
            return
        self.world.trace(self.name, "is disconnected: %s", error)
        self._connection = None
        connection.up.cut()
        if not self.delivery.disconnected(error, self.world.now_us / S):
            self.delivery.discard()
            self.world.tally["fenced clients"] += 1
        self.buffer.settled(self.sender.settled_rows)
        self._check()
        self._answer_flushes()
        self._connect_or_send()

    def _check(self) -> None:
        """Compare its counters with one another, and with the durable rows."""
        sender = self.sender
        seen = read_statistics(sender, self.buffer)
        lost_late = sender.dropped_rows
        assert seen.added == seen.acked + seen.refused + lost_late + seen.pending, seen
        assert seen.pending >= 0
        assert not seen.lost, f"{self.name}: a server that lost nothing lost {seen.lost} rows"
        assert seen.revision >= self._revision, "the client's revision falls"
        self._revision = seen.revision
        counted = sum(self.ledger.counted_rows[self.producer, epoch] for epoch in self._epochs)
        refused = sum(self.ledger.refused_rows[self.producer, epoch] for epoch in self._epochs)
        assert seen.acked <= counted, f"{self.name}: {seen.acked} rows acked, {counted} durable"
        assert seen.refused <= refused, f"{self.name}: {seen.refused} rows refused, {refused} are"
        self.counted, self.refused = counted, refused

    def finish(self) -> None:
        """Check the counters at the end, when nothing is in flight."""
        if self.life:
            return
        self._check()
        seen = self.delivery.statistics()
        if self.sender.phase is not Phase.FENCED:
            assert seen.pending == 0
            assert seen.acked == self.counted, f"{self.name}: {seen.acked} != {self.counted}"
            assert seen.refused == self.refused, f"{self.name}: {seen.refused} != {self.refused}"
            assert self.sender.dropped_rows == 0

    # -- flushing

    def flush(self, done: Callable[[], None]) -> None:
        """Call `done` once all rows added so far are settled, or can no longer be."""
        target = self.delivery.begin_flush()
        self._flushes.append((target, self.sender.error, done))
        self.buffer.wake()
        self.world.soon(self._answer_flushes)

    def _answer_flushes(self) -> None:
        waiting, self._flushes = self._flushes, []
        for flush in waiting:
            target, known, done = flush
            try:
                revision = self.delivery.flush_result(target, known)
            except (RowsLostError, FencedError):
                done()
                continue
            if revision is None and not self.life:
                self._flushes.append(flush)
                continue
            if revision is not None:
                self._check_flushed(revision)
            done()

    def _check_flushed(self, revision: int) -> None:
        """Assert that every settled batch is durable at the flushed revision or before."""
        sender = self.sender
        self.ledger.promises(revision)
        for sequence in range(1, sender.settled_sequence + 1):
            at = self.ledger.revision_of[self.producer, sender.epoch, sequence]
            assert at <= revision, f"{sequence} is durable at {at}, flush returned {revision}"

    def crash(self) -> None:
        """Die: rows that are not durable yet may be lost."""
        super().crash()
        if self._connection is not None:
            self._connection.up.cut()
        self.world.soon(self._answer_flushes)


def _brief(message: ingest_pb2.IngestRequest) -> str:
    batch = message.batch
    kind = batch.WhichOneof("rows")
    return f"{kind} to {batch.stream}"
