"""What the log says of a verdict: what is now is accepted, or a webhook has taken a quality."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Self

from streameval import CorruptStateError
from streameval.kernel import MAX_TIME_US

QUALITIES: Final = ("", "worse", "better", "recovered", "steady", "unsure", "immature")
"""By their numbers in the contract."""

_CHANGE = struct.Struct("<BQ")


@dataclass(frozen=True, slots=True)
class VerdictChange:
    """A change of what a stream's verdict compares with, or of what was told of it.

    Attributes
    ----------
    told : str
        The quality that a webhook has taken; empty if what is now is accepted as normal.
    from_us : int
        From when on what is accepted has been so, in event time; 0 for what was told.
    """

    told: str = ""
    from_us: int = 0

    def to_bytes(self) -> bytes:
        """Return it as the log keeps it."""
        return _CHANGE.pack(QUALITIES.index(self.told), self.from_us)

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
        number, from_us = _CHANGE.unpack(data)
        if number >= len(QUALITIES) or from_us > MAX_TIME_US or bool(number) == bool(from_us):
            raise CorruptStateError(message)
        return cls(QUALITIES[number], from_us)
