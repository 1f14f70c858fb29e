"""Chunks of a payload that is larger than a message and whose length was announced."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval_server._model.errors import RequestError

MAX_CHUNK_BYTES = 1 << 20
"""Largest chunk that the server accepts or sends."""


class ChunkJoiner:
    """Joins chunks and checks their length.

    Parameters
    ----------
    total_bytes
        The announced length.
    refusal
        Makes the error that ends the call, from a field and a message.
    """

    def __init__(self, total_bytes: int, refusal: Callable[[str, str], RequestError]) -> None:
        self._total_bytes = total_bytes
        self._refusal = refusal
        self._data: bytes | bytearray = b""

    def add(self, data: bytes) -> None:
        """Append the next chunk. O(its bytes).

        Raises
        ------
        RequestError
            When it is too long, or exceeds the announced length.
        """
        if len(data) > MAX_CHUNK_BYTES:
            raise self._refusal(
                "data", f"data must be at most {MAX_CHUNK_BYTES} bytes, got {len(data)}"
            )
        if len(self._data) + len(data) > self._total_bytes:
            raise self._refusal(
                "data", f"the data has more than the {self._total_bytes} bytes announced"
            )
        if not self._data:
            self._data = data
            return
        if isinstance(self._data, bytes):
            self._data = bytearray(self._data)
        self._data += data

    def joined(self) -> bytes:
        """Return the payload after its last chunk. O(bytes); O(1) if it came in one.

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
