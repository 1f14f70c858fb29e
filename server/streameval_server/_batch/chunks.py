"""Pieces of something larger than a message, of a length that was announced."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval_server._model.errors import RequestError

PIECE_BYTES = 1 << 20
"""Longest piece that is taken or sent."""


class Pieces:
    """Joins what comes.

    Parameters
    ----------
    total_bytes
        What was announced.
    refusal
        Makes the error that ends the call, of a field and what is wrong with it.
    """

    def __init__(self, total_bytes: int, refusal: Callable[[str, str], RequestError]) -> None:
        self._total_bytes = total_bytes
        self._refusal = refusal
        self._data = bytearray()

    def add(self, data: bytes) -> None:
        """Take the next piece. O(its bytes).

        Raises
        ------
        RequestError
            When it is too long, or more than was announced.
        """
        if len(data) > PIECE_BYTES:
            raise self._refusal(
                "data", f"data must be at most {PIECE_BYTES} bytes, got {len(data)}"
            )
        if len(self._data) + len(data) > self._total_bytes:
            raise self._refusal(
                "data", f"the pieces have more than the {self._total_bytes} bytes announced"
            )
        self._data += data

    def whole(self) -> bytes:
        """Return all of it. O(bytes).

        Raises
        ------
        RequestError
            When some is missing.
        """
        if len(self._data) != self._total_bytes:
            raise self._refusal(
                "data",
                f"{self._total_bytes} bytes are announced, got {len(self._data)}: truncated?",
            )
        return bytes(self._data)
