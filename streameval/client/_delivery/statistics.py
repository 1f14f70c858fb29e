"""What a client has done, and what it has lost, in numbers that anyone may read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval.client._delivery.sender import Phase
from streameval.client._errors import RefusedBatch, RowsLostError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval.client._buffer.buffer import Buffer
    from streameval.client._delivery.sender import Sender


@dataclass(frozen=True, slots=True)
class ClientStatistics:
    """What a client has done since it was made, in rows unless it says otherwise.

    Of a client of several servers the counters are sums, ``connected`` says that
    all are, and ``revision`` is the highest of their logs'.

    ``added`` is ``acked + refused + pending`` and those of the ``dropped`` that
    were lost after they had been accepted.
    """

    added: int
    """Accepted into the buffer."""
    sent: int
    """Handed to gRPC at least once."""
    acked: int
    """Durable on the server."""
    refused: int
    """In batches that the server refused for good."""
    dropped: int
    """Lost here: the buffer was full, or the producer was fenced."""
    retried: int
    """Sent again after a connection broke; a row counts each time."""
    pending: int
    """Added, and their fate not known yet."""
    refused_batches: int
    """Batches that the server refused for good."""
    refusals: tuple[RefusedBatch, ...]
    """The last 100 of them."""
    connections: int
    """Ingest streams that were opened."""
    connected: bool
    """Whether an Ingest stream is open and answered."""
    revision: int
    """The highest log revision that acknowledged a batch; queries wait for it."""
    last_error: str | None
    """Why the last connection ended; None while one works."""


def read_statistics(sender: Sender, buffer: Buffer) -> ClientStatistics:
    """Return the counters as they are now."""
    buffer.collect_unlocked()
    added = buffer.accepted
    return ClientStatistics(
        added=added,
        sent=sender.sent_rows,
        acked=sender.acked_rows,
        refused=sender.refused_rows,
        dropped=buffer.dropped + sender.dropped_rows,
        retried=sender.retried_rows,
        pending=added - sender.settled_rows,
        refused_batches=sender.refused_batches,
        refusals=tuple(sender.refusals),
        connections=sender.connections,
        connected=sender.phase is Phase.READY,
        revision=sender.revision,
        last_error=None if sender.error is None else str(sender.error),
    )


def total_statistics(each: Sequence[ClientStatistics]) -> ClientStatistics:
    """Return the counters of several connections together; of one, its own."""
    if len(each) == 1:
        return each[0]
    return ClientStatistics(
        added=sum(one.added for one in each),
        sent=sum(one.sent for one in each),
        acked=sum(one.acked for one in each),
        refused=sum(one.refused for one in each),
        dropped=sum(one.dropped for one in each),
        retried=sum(one.retried for one in each),
        pending=sum(one.pending for one in each),
        refused_batches=sum(one.refused_batches for one in each),
        refusals=tuple(refusal for one in each for refusal in one.refusals),
        connections=sum(one.connections for one in each),
        connected=all(one.connected for one in each),
        revision=max(one.revision for one in each),
        last_error=next((one.last_error for one in each if one.last_error is not None), None),
    )


class Losses:
    """What one listener has been told of the rows that were lost."""

    def __init__(self) -> None:
        self._refused = self._batches = self._dropped = 0

    def news(self, sender: Sender, buffer: Buffer) -> RowsLostError | None:
        """Return what was refused or dropped since the last time, once; None if nothing."""
        refused = sender.refused_rows - self._refused
        batches = sender.refused_batches - self._batches
        dropped = buffer.dropped - self._dropped
        if not (refused or dropped):
            return None
        self._refused, self._batches = sender.refused_rows, sender.refused_batches
        self._dropped = buffer.dropped
        refusals = tuple(sender.refusals)[-batches:] if batches else ()
        parts = []
        if refusals:
            first = refusals[0]
            parts.append(
                f"{count(refused, 'row')} in {count(batches, 'batch', 'batches')} refused, "
                f"the first of {first.stream}: {first.message}"
            )
        if dropped:
            parts.append(f"{count(dropped, 'row')} dropped because the buffer was full")
        return RowsLostError(
            "; ".join(parts), refusals=refusals, refused_rows=refused, dropped_rows=dropped
        )


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> count(1, "row"), count(2000, "row"), count(2, "batch", "batches")
    ('1 row', '2,000 rows', '2 batches')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
