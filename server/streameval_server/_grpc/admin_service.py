"""AdminService over gRPC: status, backup, export and import of a running server."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streameval.v1 import admin_pb2, admin_pb2_grpc
from streameval_server._batch.chunks import MAX_CHUNK_BYTES
from streameval_server._batch.stream_import import PairInbox, StreamInbox
from streameval_server._grpc.pair_service import covered_pair
from streameval_server._log.backup import LogCopy
from streameval_server._model.errors import Code, RequestError, StorageError
from streameval_server._model.names import check_stream_name
from streameval_server._model.pair_settings import check_pair_name
from streameval_server._runtime import machine_time
from streameval_server._runtime.open_calls import stopping_error
from streameval_server._runtime.server_status import server_status
from streameval_server._security.access import current_access

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path
    from typing import Any

    import grpc

    from streameval_server._model.limits import Limits
    from streameval_server._runtime.runtime import Runtime

    Context = grpc.aio.ServicerContext[Any, Any]

_log = logging.getLogger(__name__)


class AdminService(admin_pb2_grpc.AdminServiceServicer):
    """The methods for operators."""

    def __init__(self, runtime: Runtime, limits: Limits, address: Callable[[], str]) -> None:
        self._runtime = runtime
        self._address = address
        self._limits = limits
        self._start_us = machine_time.wall_us()
        self._backing_up = False
        self._importing = False

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register the service's methods."""
        admin_pb2_grpc.add_AdminServiceServicer_to_server(self, server)

    async def GetServerStatus(  # noqa: N802 - the contract's name
        self, _request: admin_pb2.GetServerStatusRequest, _context: Context
    ) -> admin_pb2.GetServerStatusResponse:
        """Return the server's status."""
        runtime = self._runtime
        with runtime.calls.call():
            return await runtime.queries.run(
                "server status",
                lambda: server_status(
                    runtime,
                    self._limits,
                    address=self._address(),
                    start_us=self._start_us,
                    now_us=machine_time.wall_us(),
                ),
            )

    async def GetStateHash(  # noqa: N802 - the contract's name
        self, request: admin_pb2.GetStateHashRequest, _context: Context
    ) -> admin_pb2.GetStateHashResponse:
        """Return the hash of the state."""
        runtime = self._runtime
        with runtime.calls.call():
            await runtime.visible(request.min_revision)
            revision, digest = await runtime.queries.run("state hash", runtime.state_hash)
        return admin_pb2.GetStateHashResponse(revision=revision, sha256=digest)

    async def CompactLog(  # noqa: N802 - the contract's name
        self, _request: admin_pb2.CompactLogRequest, _context: Context
    ) -> admin_pb2.CompactLogResponse:
        """Take a checkpoint and drop the log before it."""
        done = await self._runtime.compact()
        _log.info(
            "the log begins at revision %d now, %d rows were dropped", done.revision, done.dropped
        )
        return admin_pb2.CompactLogResponse(
            log_start_revision=done.revision, dropped_rows=done.dropped
        )

    async def AcceptClock(  # noqa: N802 - the contract's name
        self, _request: admin_pb2.AcceptClockRequest, _context: Context
    ) -> admin_pb2.AcceptClockResponse:
        """Believe the wall clock."""
        response = admin_pb2.AcceptClockResponse()
        response.time.FromMicroseconds(self._runtime.accept_clock())
        _log.warning("an operator has confirmed the clock")
        return response

    async def Backup(  # noqa: N802 - the contract's name
        self, _request: admin_pb2.BackupRequest, _context: Context
    ) -> AsyncIterator[admin_pb2.BackupResponse]:
        """Yield a copy of the log, in pieces."""
        runtime, directory = self._runtime, self._runtime.directory
        if directory is None:
            raise RequestError(
                Code.FAILED_PRECONDITION,
                "this server keeps nothing on disk: there is nothing to back up",
                reason="NOTHING_KEPT",
            )
        if self._backing_up:
            raise RequestError(
                Code.RESOURCE_EXHAUSTED,
                "a backup is being made already: wait for it",
                reason="BACKUP_IN_PROGRESS",
                retry_after_s=10.0,
            )
        # A copy takes as much disk space as the log: one at a time.
        self._backing_up = True
        cancelled = threading.Event()
        try:
            with runtime.calls.call(cancelled.set):
                copy = await self._copy(directory, cancelled)
                try:
                    while data := await asyncio.to_thread(copy.read, MAX_CHUNK_BYTES):
                        if runtime.calls.stopping:
                            raise stopping_error()
                        yield admin_pb2.BackupResponse(
                            revision=copy.revision,
                            total_bytes=copy.size,
                            data=data,
                            sha256=copy.sha256 if copy.ended else "",
                        )
                    _log.info("a backup of the whole log, revision %d, was sent", copy.revision)
                finally:
                    copy.close()
        finally:
            self._backing_up = False

    async def ExportStream(  # noqa: N802 - the contract's name
        self, request: admin_pb2.ExportStreamRequest, _context: Context
    ) -> AsyncIterator[admin_pb2.ExportStreamResponse]:
        """Yield everything about a stream that is durable now, in pieces."""
        runtime, name = self._runtime, request.name
        check_stream_name(name, "name")
        with runtime.calls.call():
            await runtime.visible(runtime.durable_revision())
            revision, data = await runtime.queries.run(
                ("export", name), lambda: runtime.export(name)
            )
            known = runtime.core.engine.pairs.with_stream(name)
            pairs = [info.name for info in known if current_access().covers_pair(info)]
        for start in range(0, len(data), MAX_CHUNK_BYTES):
            yield admin_pb2.ExportStreamResponse(
                revision=revision,
                total_bytes=len(data),
                data=data[start : start + MAX_CHUNK_BYTES],
                pairs=() if start else pairs,
            )

    async def ExportPair(  # noqa: N802 - the contract's name
        self, request: admin_pb2.ExportPairRequest, _context: Context
    ) -> AsyncIterator[admin_pb2.ExportPairResponse]:
        """Yield everything about a pair that is durable now, in pieces."""
        runtime = self._runtime
        check_pair_name(request.name)
        with runtime.calls.call():
            await runtime.visible(runtime.durable_revision())
            info = await covered_pair(runtime, request.name)
            revision, data = await runtime.queries.run(
                ("export pair", info), lambda: runtime.export_pair(info)
            )
        for start in range(0, len(data), MAX_CHUNK_BYTES):
            current_access().check_pair(info, info.name)
            yield admin_pb2.ExportPairResponse(
                revision=revision, total_bytes=len(data), data=data[start : start + MAX_CHUNK_BYTES]
            )

    async def ImportStream(  # noqa: N802 - the contract's name
        self, requests: AsyncIterator[admin_pb2.ImportStreamRequest], _context: Context
    ) -> admin_pb2.ImportStreamResponse:
        """Make a stream from an export; answer once it is durable and visible."""
        runtime = self._runtime
        with self._import():
            with runtime.calls.call():
                inbox = StreamInbox(self._limits)
                async for request in requests:
                    inbox.feed(request)
                # Off the event loop: checking takes O(bytes of the export).
                name, file, payload = await asyncio.to_thread(inbox.finish)
            response = await runtime.settled(lambda call: call.import_stream(name, payload, file))
            assert isinstance(response, admin_pb2.ImportStreamResponse)
            await runtime.visible(response.revision)
            _log.info("%s was imported at revision %d", response.name, response.revision)
        return response

    async def ImportPair(  # noqa: N802 - the contract's name
        self, requests: AsyncIterator[admin_pb2.ImportPairRequest], _context: Context
    ) -> admin_pb2.ImportPairResponse:
        """Make a pair from an export; answer once it is durable and visible."""
        runtime = self._runtime
        with self._import():
            with runtime.calls.call():
                inbox = PairInbox(self._limits)
                async for request in requests:
                    inbox.feed(request)
                # Off the event loop: checking takes O(bytes of the export).
                change = await asyncio.to_thread(inbox.finish)
            response = await runtime.settled(lambda call: call.import_pair(change))
            assert isinstance(response, admin_pb2.ImportPairResponse)
            await runtime.visible(response.revision)
            _log.info("the pair %s was imported at revision %d", response.name, response.revision)
        return response

    @contextmanager
    def _import(self) -> Iterator[None]:
        """Allow one import at a time: each takes as much memory as its content."""
        if self._importing:
            raise RequestError(
                Code.RESOURCE_EXHAUSTED,
                "an import is being made already: wait for it",
                reason="IMPORT_IN_PROGRESS",
                retry_after_s=1.0,
            )
        self._importing = True
        try:
            yield
        finally:
            self._importing = False

    async def _copy(self, directory: Path, cancelled: threading.Event) -> LogCopy:
        making = asyncio.ensure_future(asyncio.to_thread(LogCopy, directory, cancelled))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            # The client disconnected: the thread stops early, or its copy is closed unread.
            cancelled.set()
            making.add_done_callback(_close_abandoned)
            raise
        except StorageError as error:
            if self._runtime.calls.stopping:
                raise stopping_error() from None
            raise RequestError(
                Code.FAILED_PRECONDITION, str(error), reason="BACKUP_FAILED"
            ) from error


def _close_abandoned(making: asyncio.Future[LogCopy]) -> None:
    if making.exception() is None:
        making.result().close()
