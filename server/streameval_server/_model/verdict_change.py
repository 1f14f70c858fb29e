"""What the log says of a verdict: another quality, what is accepted, what a webhook has taken.

What a stream was called follows from it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple, Self

from streameval import CorruptStateError
from streameval.kernel import MAX_TIME_US

QUALITIES: Final = ("", "worse", "better", "recovered", "steady", "unsure", "immature")
"""By their numbers in the contract."""
MAX_CALLED: Final = 24
"""The most former qualities that are kept of a stream."""

_QUIET: Final = frozenset({"steady", "unsure", "immature"})
_CHANGE = struct.Struct("<BBQ")
_CALLED = struct.Struct("<BII")
_MINUTE_US: Final = 60_000_000


@dataclass(frozen=True, slots=True)
class VerdictChange:
    """A change of a verdict, of what it compares with, or of what was told of it.

    Attributes
    ----------
    called : str
        The quality that the verdict has from now on.
    told : str
        The quality that a webhook has taken. Without either, what is now is accepted as normal.
    from_us : int
        Since when it is so, in event time: what is accepted, or what is called, of which it may
        be 0; 0 for what was told.
    """

    called: str = ""
    told: str = ""
    from_us: int = 0

    def to_bytes(self) -> bytes:
        """Return it as the log keeps it."""
        return _CHANGE.pack(QUALITIES.index(self.called), QUALITIES.index(self.told), self.from_us)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the change whose bytes these are.

        Raises
        ------
        CorruptStateError
            When they are not.
        """
        message = f"{len(data)} bytes cannot be a change of a verdict"
        if len(data) != _CHANGE.size:
            raise CorruptStateError(message)
        called, told, from_us = _CHANGE.unpack(data)
        is_one = not told if called else bool(told) != bool(from_us)
        if max(called, told) >= len(QUALITIES) or from_us > MAX_TIME_US or not is_one:
            raise CorruptStateError(message)
        return cls(QUALITIES[called], QUALITIES[told], from_us)


class CalledRow(NamedTuple):
    """What a stream was called at a time. It is kept with its times to the minute.

    Attributes
    ----------
    quality : str
        Empty where what was then was accepted as normal: from then on it was too early.
    at_us : int
        By the log's time.
    from_us : int
        Since when it was so, in event time; 0 if it is not known.
    """

    quality: str
    at_us: int
    from_us: int


def called_of(data: bytes) -> list[CalledRow]:
    """Return what a stream was called, oldest first, from its bytes. O(`MAX_CALLED`).

    Raises
    ------
    CorruptStateError
        When they are not.
    """
    if len(data) % _CALLED.size or len(data) > MAX_CALLED * _CALLED.size:
        raise CorruptStateError(f"{len(data)} bytes cannot be what a stream was called")
    rows = list(_CALLED.iter_unpack(data))
    if any(row[0] >= len(QUALITIES) or max(row) * _MINUTE_US > MAX_TIME_US for row in rows):
        raise CorruptStateError("what a stream was called has no such quality or time")
    return [
        CalledRow(QUALITIES[number], at * _MINUTE_US, start * _MINUTE_US)
        for number, at, start in rows
    ]


def quality_in(called: list[CalledRow]) -> str:
    """Return what a stream is called now."""
    return (called[-1].quality if called else "") or "immature"


def with_called(data: bytes, new: CalledRow) -> bytes:
    """Return the bytes with one more; the same quality again is no change.

    Of more than `MAX_CALLED` the oldest goes that is quiet after a quiet one, so that steps
    between steady and unsure do not displace a fall; without one, the oldest of all.
    """
    found = called_of(data)
    if new.quality and new.quality == quality_in(found):
        return data
    found.append(new)
    if len(found) > MAX_CALLED:
        # The newest stays, whatever it is.
        is_quiet = [each.quality in _QUIET for each in found[:-1]]
        quiet = (at + 1 for at, both in enumerate(pairwise(is_quiet)) if all(both))
        del found[next(quiet, 0)]
    return b"".join(
        _CALLED.pack(QUALITIES.index(quality), at_us // _MINUTE_US, from_us // _MINUTE_US)
        for quality, at_us, from_us in found
    )
