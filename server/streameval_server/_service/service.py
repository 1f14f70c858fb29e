"""Starts and stops gRPC and HTTP together, in order, and keeps the reason of a failure.

An ASGI lifespan owns the gRPC server, whether HTTP is served or not: it starts the
server before the first HTTP request and stops it after the last one. Signal handlers
call `stop`. It makes gRPC and HTTP refuse new calls at once and tells those in progress
to end; then HTTP ends, and then the lifespan.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from streameval_server._grpc.server import Server
from streameval_server._model.connections import MAX_CONNECTIONS, connection_limits
from streameval_server._model.server_settings import split_address
from streameval_server._payloads.intake import PayloadIntake
from streameval_server._service.alarm_webhook import AlarmWebhook
from streameval_server._web.app import make_app
from streameval_server._web.http_server import HttpServer
from streameval_server._web.intake_app import make_intake_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from streameval_server._model.connections import ConnectionLimits
    from streameval_server._model.server_settings import Settings


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of a server, with the actual ports.

    Attributes
    ----------
    grpc : str
        ``HOST:PORT``.
    http : str or None
        ``http://HOST:PORT`` or ``https://HOST:PORT``; None where HTTP is off.
    intake : str or None
        ``http://HOST:PORT`` for senders without tokens; None where they may send nothing.
    """

    grpc: str
    http: str | None
    intake: str | None = None


class Service:
    """A server with its HTTP, for one event loop: `serve` and `stop`.

    Parameters
    ----------
    settings
        The server's settings.
    on_ready
        Called once, when the server answers requests.

    Raises
    ------
    SettingsError
        When the tokens file or the certificates cannot be used, or HTTP cannot
        listen on its address.
    """

    def __init__(self, settings: Settings, on_ready: Callable[[Addresses], None]) -> None:
        listen = settings.http_address()
        limits = connection_limits((listen is not None) + (settings.intake is not None))
        _log_limits(limits)
        self._server = Server(settings, limits)
        self._http: HttpServer | None = None
        self._intake_http: HttpServer | None = None
        server, grace_s = self._server, settings.stop_grace_s
        self._webhook: AlarmWebhook | None = None
        if settings.webhook is not None and settings.webhook_secret is not None:
            self._webhook = AlarmWebhook(server.runtime, settings.webhook, settings.webhook_secret)
        intake = None
        if settings.ingest:
            intake = PayloadIntake(
                settings.ingest, server.runtime, auto_create=settings.auto_create
            )
        if listen is not None:
            host, _ = split_address(listen)
            app = make_app(server, settings, host, self._lifespan, intake)
            self._http = HttpServer(
                app, listen, server.certificates, limits=limits, stop_grace_s=grace_s
            )
        if settings.intake is not None and intake is not None:
            app = make_intake_app(server, settings, intake)
            self._intake_http = HttpServer(
                app, settings.intake, limits=limits, stop_grace_s=grace_s
            )
        self._on_ready = on_ready
        self._stop_requested = asyncio.Event()
        self._ended = asyncio.Event()
        self._failure: BaseException | None = None

    def stop(self) -> None:
        """Make `serve` return."""
        self._stop_requested.set()

    async def serve(self) -> None:
        """Start, serve until `stop` or a failure, and stop cleanly.

        Raises
        ------
        StreamEvalError
            When it cannot start (see `Server.start`), or fails while it runs.
        """
        if self._http is not None:
            await self._http.serve()
        else:
            async with self._lifespan():
                await self._ended.wait()
        if self._failure is not None:
            raise self._failure

    @asynccontextmanager
    async def _lifespan(self, _app: object = None) -> AsyncIterator[None]:
        try:
            await self._server.start()
        except Exception as error:  # noqa: BLE001 - `serve` raises it; uvicorn would exit the process
            self._failure = error
            self._end()
            yield
            return
        waiting = asyncio.create_task(self._run_until_stopped())
        taking = None
        if self._intake_http is not None:
            taking = asyncio.create_task(self._intake_http.serve())
        sending = None
        if self._webhook is not None:
            sending = asyncio.create_task(self._webhook.run())
        http = None if self._http is None else self._http.url
        intake = None if self._intake_http is None else self._intake_http.url
        addresses = Addresses(self._server.address, http, intake)
        _log.info("serving", extra={"fields": asdict(addresses)})
        self._on_ready(addresses)
        try:
            yield
        finally:
            waiting.cancel()
            if sending is not None:
                sending.cancel()
            if self._intake_http is not None and taking is not None:
                # Before the server: requests in progress are answered.
                self._intake_http.stop()
                await taking
            began = time.monotonic()
            await self._server.stop()
            revision, seconds = self._server.runtime.durable_revision(), time.monotonic() - began
            _log.info(
                "stopped", extra={"fields": {"revision": revision, "seconds": round(seconds, 3)}}
            )

    async def _run_until_stopped(self) -> None:
        stop_requested = asyncio.create_task(self._stop_requested.wait())
        failed = asyncio.create_task(self._server.wait_failed())
        await asyncio.wait((stop_requested, failed), return_when=asyncio.FIRST_COMPLETED)
        stop_requested.cancel()
        if failed.done():
            self._failure = failed.exception()
        failed.cancel()
        await self._server.begin_stop()
        self._end()

    def _end(self) -> None:
        self._ended.set()
        if self._http is not None:
            self._http.stop()


def _log_limits(limits: ConnectionLimits) -> None:
    """Say where the system allows fewer open files than the server could use."""
    if limits.connections < MAX_CONNECTIONS:
        _log.warning(
            "the system allows few open files, so each port serves %d connections, and HTTP %d "
            "probes more: allow more with 'ulimit -n 4096'",
            limits.connections,
            limits.probes,
        )
