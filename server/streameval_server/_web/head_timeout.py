"""HTTP connections that do not say what they want are closed.

uvicorn waits for ever for the rest of a request's head; whoever opens connections
and says nothing would hold all there may be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

HEAD_S = 20.0
"""A request's head takes no longer than this, from the connection or its first byte on."""


class PatientProtocol(H11Protocol):
    """uvicorn's protocol, which waits so long."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to wait."""
        super().connection_made(transport)
        self._look()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest, if there is one."""
        super().data_received(data)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._forget()
        super().connection_lost(exc)

    def _look(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()  # a request is being answered
        elif self._waiting is None and not self.transport.is_closing():
            self._waiting = self.loop.call_later(HEAD_S, self._close)

    def _close(self) -> None:
        self._waiting = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    def _forget(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
