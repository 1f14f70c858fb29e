"""Closes HTTP connections that do not send a request's head in time.

uvicorn has no such limit: a client that opens connections and sends nothing could
hold all that the server allows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

MAX_HEAD_S = 20.0
"""Longest time for a request's head, from the connection's start or its first byte."""


class HeadTimeoutProtocol(H11Protocol):
    """uvicorn's protocol with a timeout for the head.

    The timer runs from the connection's start, or a head's first byte, until the head is
    complete.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's signature
        """Start the timer."""
        super().connection_made(transport)
        self._update_timer()

    def data_received(self, data: bytes) -> None:
        """Start the timer at a head's first byte; stop it once the head is complete."""
        super().data_received(data)
        self._update_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._cancel_timer()
        super().connection_lost(exc)

    @property
    def is_waiting(self) -> bool:
        """Whether no request is in progress: a head has not come, or not completely."""
        return self.cycle is None or self.cycle.response_complete

    def _update_timer(self) -> None:
        if not self.is_waiting:
            self._cancel_timer()  # a request is in progress
        elif self._timer is None and not self.transport.is_closing():
            self._timer = self.loop.call_later(MAX_HEAD_S, self._on_timeout)

    def _on_timeout(self) -> None:
        self._timer = None
        if self.is_waiting:
            self.transport.close()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
