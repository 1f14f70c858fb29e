"""The gRPC server around a runtime: services, health, reflection, and a clean stop."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from streameval.v1 import admin_pb2, ingest_pb2, pair_pb2, query_pb2, stream_pb2
from streameval_server._core.committer import CommitterState
from streameval_server._grpc.admin_service import AdminService
from streameval_server._grpc.call_log import CallLog
from streameval_server._grpc.ingest_service import IngestService
from streameval_server._grpc.interceptor import CallInterceptor
from streameval_server._grpc.methods import Methods
from streameval_server._grpc.pair_service import PairService
from streameval_server._grpc.query_service import QueryService
from streameval_server._grpc.reflection import add_reflection
from streameval_server._grpc.stream_service import StreamService
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._model.connections import connection_limits
from streameval_server._model.errors import RequestError
from streameval_server._model.server_settings import SettingsError, is_loopback, split_address
from streameval_server._runtime.runtime import Runtime
from streameval_server._security.access import Guard
from streameval_server._security.tls import Certificates, TlsFiles

if TYPE_CHECKING:
    from streameval_server._model.connections import ConnectionLimits
    from streameval_server._model.server_settings import Settings

_log = logging.getLogger(__name__)

SERVICES = tuple(
    module.DESCRIPTOR.services_by_name[name].full_name
    for module, name in (
        (admin_pb2, "AdminService"),
        (ingest_pb2, "IngestService"),
        (pair_pb2, "PairService"),
        (query_pb2, "QueryService"),
        (stream_pb2, "StreamService"),
    )
)
"""Full names of the services, each with a health status of its own."""

_SEND_GRACE_S = 0.5
"""Time for the last bytes to be sent after all calls have ended."""

_HANDSHAKE_MS = 20_000
"""A connection whose handshake takes longer is closed."""

_PING_AFTER_MS, _PING_TIMEOUT_MS = 60_000, 20_000
"""A silent connection is pinged after the first time, and closed when no answer comes
within the second."""

_MIN_PING_INTERVAL_MS = 5_000
"""A client that pings faster is sent away. Clients in Go and Java ping every 10 s at most: half
of it, because their pings arrive with jitter."""

_MAX_CONCURRENT_STREAMS = 128
"""Calls in progress on one connection; a client queues further ones. Without this limit a
client that begins calls and cancels them at once takes all of the event loop."""

_MAX_UNREAD_BYTES = 1 << 20
"""Bytes of a call that gRPC receives before the call is accepted. Without this limit gRPC
raises it to 4 MiB and more by the connection's speed."""

_MAX_PENDING_CALLS = 512
"""Calls of all connections that wait to be accepted; gRPC cancels further ones. Each holds up
to `_MAX_UNREAD_BYTES`. By default 1,000 to 3,000 wait: calls that came faster than the event
loop accepts them took 860 MiB."""

_STATE_CHECK_INTERVAL_S = 300.0
"""Between two checks, each of one stream, that its state in memory is what the log gives."""

_TOKENS_REFRESH_S = 1.0
"""Interval at which the tokens file is checked for changes, and open streams for their tokens."""

_CALL_VERDICTS_S, _CALL_AGAIN_S = 2.0, 30.0
"""Between two looks for verdicts of another quality, and after one that failed."""
_CALLED_AT_ONCE = 100

_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Server:
    """A server in this process and event loop; call `start`, then `stop`.

    Attributes
    ----------
    address : str
        ``HOST:PORT`` with the actual port; set by `start`.
    guard : Guard
        Authorises calls.
    call_log : CallLog
        Records all calls, over gRPC and HTTP.
    runtime : Runtime
        The threads around the core.
    methods : Methods
        The services' methods, for HTTP.
    certificates : Certificates or None
        None without TLS.

    Raises
    ------
    SettingsError
        When the tokens file or the certificates cannot be used.
    """

    def __init__(self, settings: Settings, limits: ConnectionLimits | None = None) -> None:
        self.address = ""
        self.guard = Guard(settings.tokens)
        self.call_log = CallLog()
        self._settings = settings
        self._limits = limits or connection_limits(0)
        self.certificates = _certificates(settings)
        self.runtime = Runtime(
            settings.directory(),
            settings.limits,
            auto_create=settings.auto_create,
            accept_loss=settings.accept_loss,
        )
        self._services = (
            IngestService(self.runtime, settings.limits),
            QueryService(self.runtime),
            StreamService(self.runtime),
            PairService(self.runtime),
            AdminService(self.runtime, settings.limits, lambda: self.address),
        )
        self.methods = Methods()
        self._add_services_to(self.methods)
        self._serving = False
        self._health = health.aio.HealthServicer()
        self._grpc: grpc.aio.Server | None = None
        self._health_changes: asyncio.Queue[bool] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Recover the state from the log, then listen.

        Raises
        ------
        SettingsError
            When it cannot listen on the address.
        DataDirectoryInUseError
            When another server uses the data directory.
        StorageError
            When the log cannot be read, is of an unknown format, or has lost acknowledged
            rows and `accept_loss` is not set.
        """
        await self.runtime.start(on_serving=self._health_changes.put_nowait)
        try:
            self._grpc = self._bind()
            await self._grpc.start()
        except BaseException:
            await self.runtime.stop()
            raise
        self._tasks = [
            asyncio.create_task(self._report_health()),
            asyncio.create_task(self._refresh_tokens()),
            asyncio.create_task(self._check_states()),
            asyncio.create_task(self._call_verdicts()),
        ]
        await self._set_health(serving=self.runtime.core.committer.state is CommitterState.SERVING)

    def _add_services_to(self, server: Any) -> None:
        for service in self._services:
            service.add_to(server)

    def _bind(self) -> grpc.aio.Server:
        # The transport lets twice the limit of a batch pass, so that a larger batch is
        # refused with a reason, and does not end its stream.
        max_message_bytes = 2 * self._settings.limits.max_batch_bytes
        server = grpc.aio.server(
            interceptors=(CallInterceptor(self.guard, self.call_log),),
            options=(
                ("grpc.max_receive_message_length", max_message_bytes),
                ("grpc.so_reuseport", 0),  # two servers on one port are a mistake
                ("grpc.max_concurrent_streams", _MAX_CONCURRENT_STREAMS),
                ("grpc.http2.bdp_probe", 0),
                ("grpc.http2.lookahead_bytes", _MAX_UNREAD_BYTES),
                ("grpc.server.max_pending_requests", _MAX_PENDING_CALLS),
                ("grpc.server.max_pending_requests_hard_limit", _MAX_PENDING_CALLS),
                ("grpc.max_allowed_incoming_connections", self._limits.connections),
                ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
                ("grpc.keepalive_time_ms", _PING_AFTER_MS),
                ("grpc.keepalive_timeout_ms", _PING_TIMEOUT_MS),
                ("grpc.http2.ping_timeout_ms", _PING_TIMEOUT_MS),
                ("grpc.keepalive_permit_without_calls", 1),
                (
                    "grpc.http2.min_ping_interval_without_data_ms",
                    _MIN_PING_INTERVAL_MS,
                ),
            ),
        )
        self._add_services_to(server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        add_reflection(server, (*SERVICES, health.SERVICE_NAME))
        host, _ = split_address(self._settings.listen)
        if not is_loopback(host):
            self._warn_about_exposure()
        try:
            if self.certificates is None:
                port = server.add_insecure_port(self._settings.listen)
            else:
                port = server.add_secure_port(
                    self._settings.listen, self.certificates.credentials()
                )
        except RuntimeError as error:
            raise SettingsError(f"cannot listen on {self._settings.listen}: {error}") from error
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return server

    @property
    def is_ready(self) -> bool:
        """Whether the server answers requests now."""
        return self._serving and not self.runtime.calls.stopping

    async def wait_failed(self) -> None:
        """Wait until the server fails, and raise the reason."""
        await self.runtime.wait_failed()

    async def begin_stop(self) -> None:
        """Refuse new calls, and tell those in progress to end. Idempotent."""
        await self._health.enter_graceful_shutdown()
        self.runtime.calls.stop()

    async def stop(self) -> None:
        """Stop cleanly: refuse new calls, end streams, commit, apply, checkpoint, close.

        Takes at most the settings' grace and the time of the last writes. Idempotent.
        """
        server, self._grpc = self._grpc, None
        if server is None:
            return
        await self.begin_stop()
        await self.runtime.calls.ended(self._settings.stop_grace_s)
        await server.stop(_SEND_GRACE_S)
        await self.runtime.stop()
        for task in self._tasks:
            task.cancel()

    async def _refresh_tokens(self) -> None:
        while True:
            await asyncio.sleep(_TOKENS_REFRESH_S)
            self.guard.refresh()

    async def _check_states(self) -> None:
        """Compare the state with the log, one stream at a time."""
        checks = self.runtime.state_checks
        while checks is not None:
            await asyncio.sleep(_STATE_CHECK_INTERVAL_S)
            await asyncio.to_thread(checks.step)

    async def _call_verdicts(self) -> None:
        """Write to the log when the quality of a verdict is another one."""
        runtime, pause_s = self.runtime, _CALL_VERDICTS_S
        while True:
            await asyncio.sleep(pause_s)
            pause_s = _CALL_VERDICTS_S
            try:
                for name, change in await asyncio.to_thread(
                    runtime.uncalled_verdicts, _CALLED_AT_ONCE
                ):
                    await runtime.settled(
                        partial(UnaryCall.change_verdict, name=name, change=change)
                    )
            except RequestError as error:  # it was deleted meanwhile, or the disk is full
                if error.reason == "SERVER_STOPPING":  # the next server writes it
                    return
                _log.warning("a changed verdict could not be recorded yet: %s", error)
                pause_s = _CALL_AGAIN_S
            except Exception:  # noqa: BLE001 - without this task no change is recorded any more
                _log.exception("changed verdicts could not be recorded, which is tried again")
                pause_s = _CALL_AGAIN_S

    def _warn_about_exposure(self) -> None:
        if self.certificates is None:
            _log.warning(
                "the server listens beyond this machine without TLS: its traffic can be read"
            )
        if self.guard.is_open:
            _log.warning(
                "the server listens beyond this machine without tokens: any client may do anything"
            )

    async def _report_health(self) -> None:
        while True:
            await self._set_health(serving=await self._health_changes.get())

    async def _set_health(self, *, serving: bool) -> None:
        self._serving = serving
        status = _SERVING if serving else _NOT_SERVING
        for name in ("", *SERVICES):
            await self._health.set(name, status)


def _certificates(settings: Settings) -> Certificates | None:
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    return Certificates(
        TlsFiles(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
    )
