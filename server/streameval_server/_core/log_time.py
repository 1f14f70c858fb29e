"""The log's time, and the part of it in which things fall due.

While the clock is in doubt the log is *held*: entries still carry a time, which dates their
rows, but nothing falls due after the time at which the hold began. So no id expires, no pane
is dropped and no producer is forgotten. A hold begins and ends with an entry of its own, so
it is a function of the log, and a replay holds the same entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval_server._log.rows import Kind

if TYPE_CHECKING:
    from streameval_server._core.entries import Entry


class LogTime:
    """The time of the last entry, and whether the log is held.

    Attributes
    ----------
    received_us : int
        The last entry's.
    held_us : int or None
        The time up to which things fall due while the log is held; None while it is not.

    Examples
    --------
    >>> from streameval_server._core.entries import Entry
    >>> time = LogTime(received_us=100)
    >>> for kind, received_us in ((Kind.HOLD, 100), (Kind.TICK, 900), (Kind.RELEASE, 950)):
    ...     time.record(Entry(1, received_us, kind, "", "", 0, 0, None))
    ...     print(kind.name, time.due_us)
    HOLD 100
    TICK 100
    RELEASE 950
    """

    __slots__ = ("held_us", "received_us")

    def __init__(self, received_us: int = 0, held_us: int | None = None) -> None:
        self.received_us = received_us
        self.held_us = held_us

    @property
    def due_us(self) -> int:
        """The time up to which everything has fallen due."""
        return self.received_us if self.held_us is None else self.held_us

    def due_before(self, entry: Entry) -> int:
        """Return the time up to which things fall due before the next entry is applied."""
        if self.held_us is None or entry.kind == Kind.RELEASE:
            return entry.received_us
        return self.held_us

    def record(self, entry: Entry) -> None:
        """Pass on to the time of the next entry."""
        if entry.kind == Kind.RELEASE:
            self.held_us = None
        elif entry.kind == Kind.HOLD and self.held_us is None:
            self.held_us = entry.received_us
        self.received_us = entry.received_us
