"""Log entries, and the items and outcomes of the requests that they come from.

A `LogRow` is stored on disk; an `Entry` is the same, decoded, as the engine applies it; an
`Item` is a request on its way into the log, and an `Outcome` its result.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from streameval_server._model.row_kinds import memory_of

if TYPE_CHECKING:
    from streameval_server._model.alarm_change import AlarmChange
    from streameval_server._model.errors import Refused, RequestError
    from streameval_server._model.mark import MarkChange
    from streameval_server._model.pair_settings import PairCreation, PairDeletion
    from streameval_server._model.row_kinds import Rows
    from streameval_server._model.stream_settings import SettingsUpdate, StreamSettings
    from streameval_server._model.verdict_change import VerdictChange
    from streameval_server._state.pairs.pair_file import PairImport
    from streameval_server._state.stream_file import StreamFile

    PairChange = PairCreation | PairImport | PairDeletion
    """What makes a pair of streams, or deletes it."""

    StateChange = AlarmChange | MarkChange | VerdictChange
    """What changes a stream's alarms, marks or verdict."""

    StreamChange = StreamSettings | SettingsUpdate | StreamFile | StateChange | PairChange
    """What creates a stream, updates it or imports it, changes its state, or its pairs."""


@dataclass(slots=True)
class Entry:
    """A log row as the engine applies it.

    Attributes
    ----------
    rows : Rows or None
        The decoded columns of a batch, or states of a merge; None for other
        kinds and for a batch without rows.
    change : StreamChange or None
        The parsed request to create, update or import a stream, to change its alarms, marks or
        verdict, or to make, import or delete a pair; None for other kinds.
    refused : Refused or None
        Why a batch was refused; None for other kinds.
    content : int
        `content_checksum` of a batch; 0 for other kinds.
    memory_bytes : int
        Memory of the rows, an upper bound.
    """

    revision: int
    received_us: int
    kind: int
    stream: str
    producer: str
    epoch: int
    sequence: int
    rows: Rows | None
    change: StreamChange | None = None
    refused: Refused | None = None
    content: int = 0
    memory_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.memory_bytes = memory_of(self.rows)


class Owner(Protocol):
    """The call or session that submitted an item and waits for its outcome."""

    def settle(self, outcome: Outcome) -> None:
        """Receive the outcome of one item; called in the order of submission."""


@dataclass(slots=True)
class Item:
    """A request on its way into the log, validated except for what depends on earlier items.

    Attributes
    ----------
    owner : Owner
        Receives the outcome.
    refused : Refused or None
        Why a batch consumes its sequence without being counted; None for other items.
    rows, change
        As in `Entry`.
    settings : StreamSettings or None
        The stream's settings with which the rows were validated.
    nbytes : int
        Length of the request, which the limit on the queue counts.
    content : int
        `content_checksum` of a batch whose payload is not what arrived, because it was refused
        at once; 0 for all others.
    memory_bytes : int
        Memory of the request and of its rows, an upper bound.
    submitted_s : float
        When it was submitted to the committer, by its monotonic clock.
    revision : int or None
        Its entry's, 0 if it became none; None until its outcome was delivered.
    """

    owner: Owner
    kind: int
    format: int
    stream: str
    producer: str
    epoch: int
    sequence: int
    payload: bytes
    rows: Rows | None = None
    refused: Refused | None = None
    nbytes: int = 0
    change: StreamChange | None = None
    settings: StreamSettings | None = None
    content: int = 0
    memory_bytes: int = field(init=False)
    submitted_s: float = 0.0
    revision: int | None = None

    def __post_init__(self) -> None:
        self.memory_bytes = self.nbytes + memory_of(self.rows)


class Status(enum.IntEnum):
    """The result of an item."""

    DURABLE = 1
    DUPLICATE = 2
    """An earlier item with its sequence is durable; nothing changed."""
    REFUSED = 3
    """Its sequence is durably consumed, by this item or by an earlier one that it repeats."""
    FAILED = 4
    """It ended with an error; after UNAVAILABLE it may or may not be durable."""


@dataclass(slots=True)
class Outcome:
    """The result of an item, with its details.

    Attributes
    ----------
    revision : int
        Log revision that includes it; 0 when it failed.
    received_us : int
        The committer's time of that entry; 0 when it failed or was a duplicate.
    refused : Refused or None
        Set when the status is REFUSED.
    error : RequestError or None
        Set when the status is FAILED.
    """

    item: Item
    status: Status
    revision: int = 0
    received_us: int = 0
    refused: Refused | None = None
    error: RequestError | None = None
