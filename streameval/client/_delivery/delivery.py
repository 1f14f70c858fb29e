"""From buffer to sender, whoever moves the sender's messages: what both shells do.

The thread (`_worker`) and the task (`_async_worker`) hold connections and wait;
what they wait for, and what there is to tell, is here. It neither waits nor
locks: where several threads are at work, the shell holds its lock.
"""

from __future__ import annotations

import logging
import random
import uuid
from typing import TYPE_CHECKING

from streameval.client._buffer.clock import clock_ns, offset_us
from streameval.client._delivery.epochs import next_epoch
from streameval.client._delivery.sender import Phase, Sender
from streameval.client._delivery.statistics import ClientStatistics, Losses, count, read_statistics
from streameval.client._errors import DeadlineError, FencedError

if TYPE_CHECKING:
    from streameval.client._buffer.buffer import Buffer
    from streameval.client._errors import ClientError
    from streameval.v1 import ingest_pb2

_log = logging.getLogger("streameval.client")

# Losses are logged at most once in so many seconds.
_LOG_EVERY_S = 10.0

# Waiting will not help a flush: somebody has to change something first.
_HOPELESS = frozenset({"INVALID_ARGUMENT", "UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED"})


class Delivery:
    """One producer's rows on their way.

    Parameters
    ----------
    buffer : Buffer
    producer : str or None
        A new UUID when None.
    address : str
        For the log.

    Attributes
    ----------
    buffer, sender
    """

    def __init__(self, buffer: Buffer, producer: str | None, address: str) -> None:
        self.buffer = buffer
        self.sender = Sender(
            producer or str(uuid.uuid4()),
            next_epoch(),
            random=random.random,
            offset_us=offset_us(),
        )
        self._address = address
        self._flushed = Losses()
        self._logged = Losses()
        self._log_at = 0.0

    @property
    def revision(self) -> int:
        """The highest log revision that acknowledged a batch."""
        return self.sender.revision

    def saw(self, revision: int) -> None:
        """Take note of a revision that another call returned: queries wait for it too."""
        self.sender.revision = max(self.sender.revision, revision)

    def statistics(self) -> ClientStatistics:
        """Return the counters."""
        return read_statistics(self.sender, self.buffer)

    # --- Moving ---------------------------------------------------------------------------------

    def take(self) -> None:
        """Move what is in the buffer to the sender."""
        self.sender.put(self.buffer.take())

    def next_message(self) -> ingest_pb2.IngestRequest | None:
        """Return the next batch; None when there are no rows, or no room for more."""
        if self.sender.starved:
            self.take()
        return self.sender.next_message()

    def receive(self, response: ingest_pb2.IngestResponse) -> bool:
        """Take a message from the server; whether the connection goes on.

        Raises
        ------
        ProtocolError
            When it makes no sense.
        """
        self.sender.receive(response, clock_ns() // 1_000)
        return self.sender.phase is Phase.READY

    def disconnected(self, error: ClientError | None, now_s: float) -> bool:
        """Take note that the connection has ended; whether there may be another one."""
        self.sender.disconnected(error, now_s)
        return self.sender.phase is not Phase.FENCED

    # --- Telling --------------------------------------------------------------------------------

    def begin_flush(self) -> int:
        """Return how many rows must be settled for all that was added so far to be."""
        self.take()
        return self.sender.put_rows

    def flushed(self, target: int, known: ClientError | None) -> int | None:
        """Return the revision once so many rows are settled, None before that.

        Raises
        ------
        ClientError
            What `Client.flush` raises. An error that was `known` before is not
            news: things may have changed since.
        """
        sender = self.sender
        if sender.settled_rows < target:
            error = sender.error
            if error is not None and error is not known and error.code in _HOPELESS:
                raise error
            return None
        if isinstance(sender.error, FencedError):
            raise sender.error
        lost = self._flushed.news(sender, self.buffer)
        if lost is not None:
            raise lost
        return sender.revision

    def too_late(self, timeout_s: float | None, target: int) -> DeadlineError:
        """Return the error of a flush that took too long."""
        left = target - self.sender.settled_rows
        error = self.sender.error
        why = "" if error is None else f"; the last connection ended with: {error}"
        return DeadlineError(f"{count(left, 'row')} not durable after {timeout_s:.3g} s{why}")

    def log_losses(self, now_s: float) -> None:
        """Say what was lost, not too often."""
        if now_s < self._log_at:
            return
        lost = self._logged.news(self.sender, self.buffer)
        if lost is not None:
            self._log_at = now_s + _LOG_EVERY_S
            _log.warning("streameval client of %s: %s", self._address, lost)

    def give_up(self) -> None:
        """Drop what is here and whatever else will come: this producer is fenced."""
        self.buffer.discard()
        self.take()
        _log.error(
            "streameval client of %s: %s; further rows are dropped",
            self._address,
            self.sender.error,
        )
