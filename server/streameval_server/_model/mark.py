"""An annotation of a stream's time, and what the log says of one: it was made, or deleted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from google.protobuf.message import DecodeError

from streameval import CorruptStateError
from streameval.v1 import mark_pb2

MAX_TEXT_CHARACTERS = 200
MAX_MARKS = 1_000
"""Most marks that a stream keeps: a further one drops the one that was made first."""


@dataclass(frozen=True, slots=True)
class Mark:
    """An annotation.

    Attributes
    ----------
    number : int
        From 1, ascending in its stream.
    time_us : int
        When what it names happened, in microseconds since 1970.
    text : str
    create_us : int
        When it was made.
    """

    number: int
    time_us: int
    text: str
    create_us: int

    def to_message(self) -> mark_pb2.Mark:
        """Encode it."""
        message = mark_pb2.Mark(number=self.number, text=self.text)
        message.time.FromMicroseconds(self.time_us)
        message.create_time.FromMicroseconds(self.create_us)
        return message

    @classmethod
    def of_message(cls, message: mark_pb2.Mark) -> Self:
        """Return the mark of a message."""
        times = message.time.ToMicroseconds(), message.create_time.ToMicroseconds()
        return cls(message.number, times[0], message.text, times[1])


def mark_problem(text: str) -> str | None:
    """Return what is wrong with a mark's text; None if nothing is.

    Examples
    --------
    >>> mark_problem("v4 deployed"), mark_problem("")
    (None, 'text must have from 1 to 200 characters, got 0')
    """
    if not 1 <= len(text) <= MAX_TEXT_CHARACTERS:
        return f"text must have from 1 to {MAX_TEXT_CHARACTERS} characters, got {len(text)}"
    if not text.isprintable():
        return f"text must be one line of printable characters, got {text!r:.60}"
    return None if text.strip() else "text must not be blank"


@dataclass(frozen=True, slots=True)
class MarkChange:
    """A mark that is made or deleted.

    Attributes
    ----------
    time_us : int
        When a new mark is; 0 for a deletion.
    text : str
        A new mark's text; empty for a deletion.
    deleted : int
        The number of the deleted mark; 0 for a new one.
    """

    time_us: int = 0
    text: str = ""
    deleted: int = 0

    def to_bytes(self) -> bytes:
        """Return it as the log keeps it: a streameval.v1.MarkChange."""
        message = mark_pb2.MarkChange()
        if self.deleted:
            message.deleted = self.deleted
        else:
            message.created.text = self.text
            message.created.time.FromMicroseconds(self.time_us)
        return message.SerializeToString(deterministic=True)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the change whose bytes these are.

        Raises
        ------
        CorruptStateError
            When they are not.
        """
        try:
            message = mark_pb2.MarkChange.FromString(data)
        except DecodeError as error:
            raise CorruptStateError(f"{len(data)} bytes cannot be a change of a mark") from error
        if message.WhichOneof("change") == "deleted" and message.deleted:
            return cls(deleted=message.deleted)
        created = message.created
        if message.WhichOneof("change") != "created" or mark_problem(created.text) is not None:
            raise CorruptStateError(f"{len(data)} bytes cannot be a change of a mark")
        return cls(created.time.ToMicroseconds(), created.text)
