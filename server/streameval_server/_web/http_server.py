"""Serves HTTP with uvicorn, in the event loop that also serves gRPC."""

from __future__ import annotations

import socket
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import uvicorn

from streameval_server._model.server_settings import SettingsError, split_address
from streameval_server._web.connection_limits import LimitedProtocol, TlsLine

if TYPE_CHECKING:
    import asyncio
    from contextlib import AbstractContextManager

    from starlette.applications import Starlette

    from streameval_server._model.connections import ConnectionLimits
    from streameval_server._security.tls import Certificates

_SEND_TIMEOUT_MS = 60_000
"""A connection whose peer acknowledges no bytes for this long is closed."""


class _Uvicorn(uvicorn.Server):
    """A uvicorn server that leaves signal handlers to `_service`."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]  # not a generator
        return nullcontext()


class HttpServer:
    """Serves an application.

    Parameters
    ----------
    app
        The application; its lifespan is entered before the first request, and exited after
        the last one.
    listen
        ``HOST:PORT``.
    certificates
        The server's; None for plain HTTP.
    limits
        Limits its connections.
    stop_grace_s
        Seconds that requests in progress get when it stops.

    Attributes
    ----------
    url : str
        The URL, with the actual port.

    Raises
    ------
    SettingsError
        When it cannot listen on the address.
    """

    def __init__(
        self,
        app: Starlette,
        listen: str,
        certificates: Certificates | None = None,
        *,
        limits: ConnectionLimits,
        stop_grace_s: float,
    ) -> None:
        host, _ = split_address(listen)
        self._socket = _bound(listen, limits.backlog)
        scheme = "http" if certificates is None else "https"
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{scheme}://{shown}:{self._socket.getsockname()[1]}"
        self._limits = limits
        self._context = None if certificates is None else certificates.ssl_context()
        config = uvicorn.Config(
            app,
            http=self._connection,  # type: ignore[arg-type]  # it makes protocols
            backlog=limits.backlog,
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=max(1, round(stop_grace_s)),
        )
        config.load()
        self._uvicorn = _Uvicorn(config)

    def _connection(self, **of_uvicorn: Any) -> asyncio.BaseProtocol:
        http = LimitedProtocol(limits=self._limits, **of_uvicorn)
        return http if self._context is None else TlsLine(http, self._context)

    async def serve(self) -> None:
        """Serve until `stop`."""
        await self._uvicorn.serve([self._socket])

    def stop(self) -> None:
        """Make `serve` return: no new connections, requests in progress are answered."""
        self._uvicorn.should_exit = True


def _bound(listen: str, backlog: int) -> socket.socket:
    host, port = split_address(listen)
    try:
        (family, _, _, _, address), *_ = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            # Recently closed connections do not block the port; a listening socket does.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SEND_TIMEOUT_MS)
            bound.bind(address)
            bound.listen(backlog)
        except BaseException:
            bound.close()
            raise
    except OSError as error:
        raise SettingsError(f"cannot serve HTTP on {listen}: {error.strerror or error}") from error
    return bound
