"""What the log says of an alarm: it was acknowledged, or a webhook has taken it."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Self

from streameval import CorruptStateError

_CHANGE = struct.Struct("<IB")


@dataclass(frozen=True, slots=True)
class AlarmChange:
    """A change of one alarm.

    Attributes
    ----------
    number : int
        The alarm's.
    is_delivery : bool
        Whether a webhook has taken it; else it is acknowledged.
    """

    number: int
    is_delivery: bool

    def to_bytes(self) -> bytes:
        """Return it as the log keeps it."""
        return _CHANGE.pack(self.number, self.is_delivery)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the change whose bytes these are.

        Raises
        ------
        CorruptStateError
            When they are not.
        """
        if len(data) != _CHANGE.size or data[-1] > 1:
            raise CorruptStateError(f"{len(data)} bytes cannot be a change of an alarm")
        number, is_delivery = _CHANGE.unpack(data)
        return cls(number, bool(is_delivery))
