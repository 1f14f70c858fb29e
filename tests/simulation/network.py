"""Connections and calls: messages may be late, arrive twice, or be lost.

Within one direction of one connection messages keep their order, as in gRPC;
calls and connections may overtake one another. When a connection breaks, its ends
notice at different times, and some of the messages in flight still arrive.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from streameval.client import ClientError, UnavailableError
from streameval.client._errors import error_for
from streameval.v1 import ingest_pb2
from streameval_server._ingest.session import IngestSession
from streameval_server._model.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .client import Client
    from .server import Server
    from .world import World


class Channel:
    """One direction of a connection."""

    def __init__(self, world: World, deliver: Callable) -> None:
        self._world = world
        self._deliver = deliver
        self._queue: deque[object] = deque()
        self._last_us = 0
        self._left: int | None = None

    def send(self, message: object) -> None:
        """Deliver a message after a delay, and after the messages before it."""
        if self._left is not None:
            return
        world = self._world
        self._queue.append(message)
        self._last_us = max(self._last_us, world.now_us + world.delay_us())
        world.after(self._last_us - world.now_us, self._arrive)

    def _arrive(self) -> None:
        message = self._queue.popleft()
        if self._left is not None:
            self._left -= 1
        if self._left is None or self._left >= 0:
            self._deliver(message)

    def cut(self) -> None:
        """Lose the last messages in flight, and all later ones."""
        if self._left is None:
            self._left = self._world.random.randint(0, len(self._queue))


class Connection:
    """One Ingest stream: the frames of a client and the answers of the server.

    The server's half reads no more than the session allows, sends all replies, and
    ends with the session's error or its own.
    """

    def __init__(self, client: Client, server: Server) -> None:
        world = client.world
        self.client = client
        self.server = server
        self.up = Channel(world, self._frame)
        self.down = Channel(world, self._answer)
        self._world = world
        self._life = server.life
        self._unread: deque[bytes] = deque()
        self._error: RequestError | None = None
        self._session: IngestSession | None = None
        self._opened: tuple[str, int] = ("", 0)
        self._ended = False
        self._woken = False

    @property
    def is_served(self) -> bool:
        """Whether the server process that it is connected to is still alive."""
        return self.server.life == self._life and not self._ended

    @property
    def _is_read(self) -> bool:
        """Whether the server reads its frames."""
        return self.is_served and self.server.is_up

    # -- the server's half, in its event loop

    def _frame(self, frame: bytes) -> None:
        if self.is_served:
            self.server.loop.soon(self._read, frame)

    def _read(self, frame: bytes) -> None:
        if self._session is None:
            self._session = IngestSession(
                self.server.core.committer, self.server.limits, self._wake
            )
        self._unread.append(frame)
        self._feed()

    def _feed(self) -> None:
        session = self._session
        assert session is not None
        while self._unread and not session.full and self._error is None and self._is_read:
            frame = self._unread.popleft()
            try:
                session.feed(frame, self.server.clock_us())
            except RequestError as error:
                self._error = error
                self._wake()
                return
            self.server.ring_commit()

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            self.server.loop.soon(self._write)

    def _write(self) -> None:
        self._woken = False
        session = self._session
        assert session is not None
        if self._ended:
            return
        for reply in session.replies():
            self._check_reply(reply)
            self.down.send(reply)
            if not reply.HasField("resume") and self._world.trouble(self._world.plan.repeats):
                self._world.tally["repeated messages"] += 1
                self.down.send(reply)
        if session.error is not None:
            self.end(session.error)
        elif self._error is not None and session.idle:
            self.end(self._error)
        else:
            self._feed()

    def _check_reply(self, reply: ingest_pb2.IngestResponse) -> None:
        """Check a reply against the durable rows."""
        ledger, client = self.server.ledger, self.client
        producer, epoch = client.producer, self._epoch
        if reply.HasField("resume"):
            ledger.opens(producer, epoch)
            ledger.acks(producer, epoch, reply.resume.last_sequence, reply.resume.revision)
            for each in reply.resume.refused:
                ledger.refuses(producer, epoch, each.sequence)
        elif reply.HasField("refused"):
            ledger.acks(producer, epoch, reply.refused.sequence, reply.refused.revision)
            ledger.refuses(producer, epoch, reply.refused.sequence)
        else:
            ledger.acks(producer, epoch, reply.ack.last_sequence, reply.ack.revision)

    def end(self, error: RequestError | None) -> None:
        """End it from the server's side; earlier replies arrive first."""
        if not self._ended:
            self._ended = True
            self.server.connections.pop(self, None)
            self.down.send(UnavailableError("stopping") if error is None else to_client(error))

    def flush(self) -> None:
        """Send all replies at once, because the server stops."""
        if self._session is not None and not self._ended:
            self._write()

    # -- the client's half

    def open(self, frame: bytes, epoch: int) -> None:
        """Send the first message."""
        self._epoch = epoch
        self.up.send(frame)

    def send(self, frame: bytes) -> None:
        """Send a batch."""
        self.up.send(frame)
        if self._world.trouble(self._world.plan.repeats):
            self._world.tally["repeated messages"] += 1
            self.up.send(frame)

    def _answer(self, answer: ingest_pb2.IngestResponse | ClientError) -> None:
        if isinstance(answer, ClientError):
            self.client.ended(self, answer)
        else:
            self.client.receive(self, answer)

    # -- failures

    def lose(self) -> None:
        """Break: the ends notice at different times, the server possibly never."""
        self._world.tally["broken connections"] += 1
        self.up.cut()
        self.down.cut()
        self._world.soon(self.client.ended, self, UnavailableError("connection reset"))
        if self._world.chance(0.7):
            self._world.soon(self._hang_up)

    def _hang_up(self) -> None:
        self._ended = True
        self.server.connections.pop(self, None)


def to_client(error: RequestError) -> ClientError:
    """Return an error as the client sees it."""
    return error_for(
        error.code.name, error.message, reason=error.reason, retry_after_s=error.retry_after_s
    )
