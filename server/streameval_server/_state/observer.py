"""Observers of a stream: what they are given, and what the stream asks of them.

A stream calls its observers in one order (`StreamState.observers`), so the same log gives the
same state. A new observer is a class and an entry in that order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from streameval.kernel import Effects
from streameval_server._state.counting.collected_rows import TimedCases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from streameval.kernel import State, StoredCounts
    from streameval_server._state.views import FrozenStream


class Misses(NamedTuple):
    """References without a score, of one time and segment; see `Merged`."""

    positives: int
    negatives: int
    event_us: int
    codes: Sequence[int]


class Merged(NamedTuple):
    """Counts made elsewhere.

    Attributes
    ----------
    state : State
    event_us : int
        The time of all of them; 0 for no time.
    codes : sequence of int
        The code of each key.
    """

    state: State
    event_us: int
    codes: Sequence[int]


Taken: TypeAlias = TimedCases | Effects | Misses | Merged
"""What a stream reads from an entry: rows without an id, or what the joiner did."""


class PartEncoder(Protocol):
    """Encodes a part of a checkpoint from what does not change any more. Needs no lock."""

    def merge(self) -> None:
        """Merge what is pending, so that encoding is fast."""

    def __call__(self) -> bytes:
        """Return the part."""


class CheckpointPart(NamedTuple):
    """A part of a checkpoint.

    Attributes
    ----------
    name : str
        Its kind and number, without the stream's name.
    revision : int
        Log revision of its last change.
    encoder : callable
        Returns what encodes it.
    """

    name: str
    revision: int
    encoder: Callable[[], PartEncoder]


class MadePart(NamedTuple):
    """A part of which nothing is pending: bytes, or what encodes immutable counts."""

    encode: Callable[[], bytes]

    def merge(self) -> None:
        """Do nothing: all is merged."""

    def __call__(self) -> bytes:
        """Return the part."""
        return self.encode()


class Restoring(NamedTuple):
    """A checkpoint from which a stream is restored.

    Attributes
    ----------
    revision : int
    names : callable
        Returns the number of each slice, by key and value.
    unverified : list of StoredCounts or None
        As for `restore_stream`.
    """

    revision: int
    names: Callable[[], Mapping[tuple[str, str], int]]
    unverified: list[StoredCounts] | None


class Observer:
    """Follows a stream. By default it takes nothing, is never due and has no parts.

    Attributes
    ----------
    KINDS : tuple of str
        The kinds of its parts of a checkpoint.
    """

    __slots__ = ()
    KINDS: tuple[str, ...] = ()

    def take(self, taken: Taken, received_us: int) -> None:
        """Take what the stream has read of an entry, after the observers before."""

    @property
    def due_us(self) -> int | None:
        """When `pass_time` is needed next; None while nothing is due at any time. O(1)."""
        return None

    def is_due(self, now_us: int) -> bool:
        """Return whether `pass_time` is needed by a time. O(1)."""
        due_us = self.due_us
        return due_us is not None and due_us <= now_us

    def pass_time(self, now_us: int, frozen: Callable[[], FrozenStream]) -> int:
        """Do what is due; return what that took, in ids that expire, and 0 for no change.

        `frozen`: returns the stream's counts as they are now.
        """
        raise NotImplementedError

    @property
    def memory_bytes(self) -> int:
        """Memory, an upper bound."""
        raise NotImplementedError

    def to_parts(self) -> Iterable[CheckpointPart]:
        """Yield its parts of a checkpoint, after all rows are counted."""
        return ()

    def from_part(self, kind: str, number: int, data: bytes, origin: Restoring) -> None:
        """Take back what a part of one of its kinds has.

        Raises
        ------
        CorruptStateError, LookupError, TypeError, ValueError, struct.error
            When the data is not what `to_parts` gave.
        """
        raise NotImplementedError
