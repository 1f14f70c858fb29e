"""Bounds the number of HTTP connections so that strangers cannot keep others, or probes, out.

A connection costs a stranger nothing. So above the limit the server closes connections that wait
for a request: first the oldest one of the address that has the most connections. When all
connections have a request in progress, a few more are open to the probes only: a liveness
probe that fails because the server is busy would make it restart.
"""

from __future__ import annotations

from asyncio.sslproto import SSLProtocol
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, Any

from streameval_server._model.errors import RETRY_AFTER_S, Code, RequestError
from streameval_server._web.error_responses import error_response
from streameval_server._web.head_timeout import HeadTimeoutProtocol

if TYPE_CHECKING:
    import asyncio
    import ssl

    from starlette.types import ASGIApp, Receive, Scope, Send

    from streameval_server._model.connections import ConnectionLimits

PROBES = ("/healthz", "/readyz")

_PROBES_ONLY = "streameval_probes_only"
"""In the state of a connection above the limit: the limit."""

_CLOSE_S = 5.0
"""How long a peer may take to agree to the end of TLS."""

_numbers = count()


class LimitedProtocol(HeadTimeoutProtocol):
    """An HTTP connection, which makes room for itself or is limited to probes.

    Parameters
    ----------
    limits
        Its port's.
    others
        As of uvicorn's protocol.
    """

    line: asyncio.Transport | None = None
    """What the bytes of the network come by: with TLS not what requests come by."""

    is_ended = False

    def __init__(self, *others: Any, limits: ConnectionLimits, **named: Any) -> None:
        super().__init__(*others, **named)
        self._limits = limits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's signature
        """Accept requests, which come by a transport."""
        if self.line is None:
            self.begin(transport)
        super().connection_made(transport)

    def begin(self, line: asyncio.Transport) -> None:
        """Count a connection from its first byte; end another above the limit. O(connections) then.

        Its time for the first head begins.
        """
        self.line = self.transport = line
        self.number = next(_numbers)
        self.address = (line.get_extra_info("peername") or ("",))[0]
        self.connections.add(self)
        self._update_timer()
        most = self._limits.connections
        if len(self.connections) <= most:
            return
        others: list[LimitedProtocol] = [
            each
            for each in self.connections
            if isinstance(each, LimitedProtocol)
            and each is not self
            and each.is_waiting
            and not each.is_ended
        ]
        if others:
            num_of = Counter(each.address for each in others)
            min(others, key=lambda each: (-num_of[each.address], each.number)).end()
        elif len(self.connections) <= most + self._limits.probes:
            self.app_state = {**self.app_state, _PROBES_ONLY: most}
        else:
            self.end()

    def end(self) -> None:
        """Close it at once, also where its peer does not agree to the end or reads nothing."""
        self.is_ended = True
        if self.line is not None:
            self.line.abort()

    def forget(self) -> None:
        """Count it no longer: it is lost."""
        self.connections.discard(self)
        self._cancel_timer()


class TlsLine(SSLProtocol):
    """TLS below an HTTP connection, which counts before its handshake.

    asyncio itself would make the connection's protocol known after the handshake only, so
    that strangers who never begin one could take every file the system allows.

    Parameters
    ----------
    http
        The connection.
    context
        Has its certificates.
    """

    max_size = 1 << 16  # of the buffer that every connection has; asyncio's is four times as long

    def __init__(self, http: LimitedProtocol, context: ssl.SSLContext) -> None:
        awaited: Any = None  # the end of the handshake is, by none
        super().__init__(
            http.loop, http, context, awaited, server_side=True, ssl_shutdown_timeout=_CLOSE_S
        )
        self._http = http

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # asyncio's signature
        """Count the connection, then begin the handshake."""
        self._http.begin(transport)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Count it no longer, also where the handshake did not end."""
        self._http.forget()
        super().connection_lost(exc)


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
