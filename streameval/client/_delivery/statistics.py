"""The public counters of a client: what it has sent, and what it has lost."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from streameval._common.result import Result
from streameval.client._delivery.sender import Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval.client._buffer.buffer import Buffer
    from streameval.client._delivery.sender import Sender
    from streameval.client._errors import RefusedBatch


@dataclass(frozen=True, slots=True, eq=False)
class ClientStatistics(Result):
    """Counters of a client since its construction, in rows unless stated otherwise.

    With several servers the counters are sums, ``connected`` is true when all
    servers are connected, and ``revision`` is the highest one of their logs.

    ``added`` equals ``acked + refused + lost + pending`` plus those ``dropped`` rows that
    were lost after the buffer had accepted them.
    """

    added: int
    """Accepted into the buffer."""
    sent: int
    """Handed to gRPC at least once."""
    acked: int
    """Durable on the server."""
    lost: int
    """Acknowledged, and lost by the server since: its log was damaged, or is another one. At
    least this many; the server says which log entries are gone."""
    refused: int
    """In batches that the server refused for good."""
    dropped: int
    """Lost in the client: the buffer was full, or the producer was fenced."""
    retried: int
    """Sent again after a connection broke; a row counts once for each time."""
    pending: int
    """Added, and neither durable nor refused nor dropped yet; includes rows that the client keeps
    until their stream has their segment keys."""
    refused_batches: int
    """Batches that the server refused for good."""
    refusals: tuple[RefusedBatch, ...]
    """The last 100 of them."""
    connections: int
    """Ingest streams opened so far."""
    connected: bool
    """Whether an Ingest stream is open and the server has answered it."""
    revision: int
    """The highest log revision that acknowledged a batch; queries wait for it."""
    last_error: str | None
    """Why the last connection ended; while one is open, why rows are kept and not durable,
    or None."""


def read_statistics(sender: Sender, buffer: Buffer) -> ClientStatistics:
    """Return the counters as they are now."""
    added = buffer.accepted
    return ClientStatistics(
        added=added,
        sent=sender.sent_rows,
        acked=sender.acked_rows,
        lost=sender.lost_rows,
        refused=sender.refused_rows,
        dropped=buffer.dropped + sender.dropped_rows,
        retried=sender.retried_rows,
        pending=added - sender.settled_rows,
        refused_batches=sender.refused_batches,
        refusals=tuple(sender.refusals),
        connections=sender.connections,
        connected=sender.phase is Phase.READY,
        revision=sender.revision,
        last_error=_last_error(sender),
    )


def _last_error(sender: Sender) -> str | None:
    if sender.error is not None:
        return str(sender.error)
    return next((hold.message for hold in sender.holds.values()), None)


def total_statistics(all_of: Sequence[ClientStatistics]) -> ClientStatistics:
    """Return the sum of the counters of one or several connections."""
    if len(all_of) == 1:
        return all_of[0]
    counted = [each.name for each in fields(ClientStatistics) if each.type == "int"]
    totals: dict[str, Any] = {name: sum(getattr(one, name) for one in all_of) for name in counted}
    totals |= {
        "refusals": tuple(refusal for one in all_of for refusal in one.refusals),
        "connected": all(one.connected for one in all_of),
        "revision": max(one.revision for one in all_of),
        "last_error": next((one.last_error for one in all_of if one.last_error is not None), None),
    }
    return ClientStatistics(**totals)


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> count(1, "row"), count(2000, "row"), count(2, "batch", "batches")
    ('1 row', '2,000 rows', '2 batches')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
