"""The engine: what the log means. The same log gives the same state bytes.

No clocks, threads or disks: an entry carries its time. One thread applies;
`view` and `checkpoint` must not run at the same time as `apply` (the shell
holds one lock around each of them), and what they return is immutable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streameval._evaluator import Evaluator

    from streameval_server._checkpoint import Checkpoint
    from streameval_server._entries import Entry
    from streameval_server._limits import Limits
    from streameval_server._marks import Marks


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """A stream's description.

    Attributes
    ----------
    name : str
    create_us : int
        When it was made, in microseconds since 1970.
    create_revision : int
        Log revision at which it was made.
    """

    name: str
    create_us: int
    create_revision: int


@dataclass(frozen=True, slots=True)
class StreamView:
    """A stream's counts at one revision. Immutable: read it without a lock.

    Attributes
    ----------
    info : StreamInfo
    revision : int
        Log revision that it includes (the engine's, not the stream's last change).
    evaluator : Evaluator
        All-time counts; the same object while the stream does not change, so
        its cached answers are shared. Never mutate it.
    """

    info: StreamInfo
    revision: int
    evaluator: Evaluator


class Engine:
    """All streams, and how far each producer has come."""

    marks: Marks
    """At the applied revision."""

    def __init__(self, limits: Limits) -> None:
        raise NotImplementedError

    @property
    def revision(self) -> int:
        """The last log revision that was applied. Safe to read from any thread."""
        raise NotImplementedError

    @property
    def state_bytes(self) -> int:
        """Memory that the counts take, in bytes, about. Safe to read from any thread."""
        raise NotImplementedError

    def apply(self, entries: Sequence[Entry]) -> None:
        """Apply entries in order; each must carry the revision after the one before.

        The result does not depend on how entries are grouped into calls.
        """
        raise NotImplementedError

    def stream(self, name: str) -> StreamInfo | None:
        """Return a stream's description; None when there is none. O(1), safe in any thread."""
        raise NotImplementedError

    def streams(self, *, prefix: str = "", after: str = "", limit: int = 100) -> list[StreamInfo]:
        """Return streams in order of their names. O(log(streams) + limit).

        Parameters
        ----------
        prefix
            Only names that begin with it.
        after
            Only names above it.
        limit
            At most so many.
        """
        raise NotImplementedError

    def view(self, name: str) -> StreamView | None:
        """Return a stream's counts now; None when there is no such stream."""
        raise NotImplementedError

    def totals(self) -> Mapping[str, int]:
        """Return the references counted in each stream. O(streams)."""
        raise NotImplementedError

    def checkpoint(self, since: int) -> Checkpoint:
        """Copy what changed after revision `since`. O(bytes that changed)."""
        raise NotImplementedError

    def state_hash(self) -> str:
        """Return the SHA-256 of the whole state, in hexadecimal. O(bytes)."""
        raise NotImplementedError
