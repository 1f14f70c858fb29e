"""HTTP connections that do not say what they want are closed.

uvicorn waits for ever for the rest of a request's head; whoever opens connections
and says nothing would hold all there may be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

MAX_HEAD_S = 20.0
"""A request's head takes no longer than this, from the connection or its first byte on."""


class HeadTimeoutProtocol(H11Protocol):
    """uvicorn's protocol, which waits so long."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to wait."""
        super().connection_made(transport)
        self._update_timer()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest, if there is one."""
        super().data_received(data)
        self._update_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._cancel_timer()
        super().connection_lost(exc)

    def _update_timer(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._cancel_timer()  # a request is being answered
        elif self._timer is None and not self.transport.is_closing():
            self._timer = self.loop.call_later(MAX_HEAD_S, self._on_timeout)

    def _on_timeout(self) -> None:
        self._timer = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
