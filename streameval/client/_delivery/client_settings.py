"""What the constructor of a client takes besides addresses and credentials, checked."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval._common.errors import InvalidInputError
from streameval._common.values import real, shown

if TYPE_CHECKING:
    from streameval.client._buffer.buffer import WhenFull


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """How a client buffers, sends and waits; the attributes are as of `Client`.

    Raises
    ------
    InvalidInputError
        When one is invalid.
    """

    producer: str | None
    max_buffered_rows: int
    batch_rows: int
    linger_s: float
    timeout_s: float
    close_timeout_s: float
    when_full: WhenFull = "drop"

    def __post_init__(self) -> None:
        for field in ("linger_s", "timeout_s", "close_timeout_s"):
            number = real(getattr(self, field), field)
            if not 0.0 <= number < math.inf:
                message = f"{field} must be finite seconds and not negative, got {number}"
                raise InvalidInputError(message, field=field)
        if self.when_full not in ("drop", "block"):
            message = f"when_full must be 'drop' or 'block', got {shown(self.when_full)}"
            raise InvalidInputError(message, field="when_full")
        if self.producer is not None:
            _check_producer(self.producer)
        for field in ("max_buffered_rows", "batch_rows"):
            value = getattr(self, field)
            if not isinstance(value, numbers.Integral):
                message = f"{field} must be a whole number, got {shown(value)}"
                raise InvalidInputError(message, field=field)
            if value < 1:
                raise InvalidInputError(f"{field} must be at least 1, got {value}", field=field)


def _check_producer(producer: object) -> None:
    if not isinstance(producer, str):
        message = f"producer must be text, got {shown(producer)}"
        raise InvalidInputError(message, field="producer")
    if not 1 <= len(producer.encode()) <= 128:
        message = f"producer must have 1 to 128 bytes of UTF-8, got {len(producer.encode())}"
        raise InvalidInputError(message, field="producer")
