"""Bounds the number of HTTP connections so that strangers cannot keep others, or probes, out.

A connection costs a stranger nothing, so above the limit those that wait for a request are
closed first, of the address that has the most connections the oldest one. When all
connections have a request in progress, a few more are open to the probes only: a liveness
probe that fails because the server is busy would make it restart.
"""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, Any

from streameval_server._model.errors import RETRY_AFTER_S, Code, RequestError
from streameval_server._web.error_responses import error_response
from streameval_server._web.head_timeout import HeadTimeoutProtocol

if TYPE_CHECKING:
    import asyncio

    from starlette.types import ASGIApp, Receive, Scope, Send

    from streameval_server._model.connections import ConnectionLimits

PROBES = ("/healthz", "/readyz")

_PROBES_ONLY = "streameval_probes_only"
"""In the state of a connection above the limit: the limit."""

_numbers = count()


class LimitedProtocol(HeadTimeoutProtocol):
    """An HTTP connection, which makes room for itself or is limited to probes.

    Parameters
    ----------
    limits
        Of its port.
    others
        As of uvicorn's protocol.
    """

    def __init__(self, *others: Any, limits: ConnectionLimits, **named: Any) -> None:
        super().__init__(*others, **named)
        self._limits = limits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's signature
        """Accept a connection; close another one above the limit. O(connections) then."""
        self.number = next(_numbers)
        self.address = (transport.get_extra_info("peername") or ("",))[0]
        super().connection_made(transport)
        most = self._limits.connections
        if len(self.connections) <= most:
            return
        others: list[LimitedProtocol] = [
            each
            for each in self.connections
            if isinstance(each, LimitedProtocol)
            and each is not self
            and each.is_waiting
            and not each.transport.is_closing()
        ]
        if others:
            num_of = Counter(each.address for each in others)
            worst = min(others, key=lambda each: (-num_of[each.address], each.number))
            worst.transport.abort()
        elif len(self.connections) <= most + self._limits.probes:
            self.app_state = {**self.app_state, _PROBES_ONLY: most}
        else:
            self.transport.abort()


class ProbesOnly:
    """Refuses all requests but the probes' on connections above the limit."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        app = self._app
        most = scope.get("state", {}).get(_PROBES_ONLY)
        if most and scope["path"] not in PROBES:
            app = error_response(
                RequestError(
                    Code.UNAVAILABLE,
                    f"{most} requests are in progress, the most allowed: send it again later",
                    reason="CONNECTIONS_FULL",
                    retry_after_s=RETRY_AFTER_S,
                )
            )
        await app(scope, receive, send)
