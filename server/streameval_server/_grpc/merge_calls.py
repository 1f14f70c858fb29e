"""Merge: the pieces of one merge are read, checked and submitted; answered when it is visible."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from streameval.v1 import ingest_pb2
from streameval_server._batch.merge import MergeInbox
from streameval_server._core.catalog import is_merged, settings_in
from streameval_server._grpc.merge_pieces import MergePieces
from streameval_server._security.access import current_access

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import grpc

    from streameval_server._model.limits import Limits
    from streameval_server._model.row_kinds import MergeRows
    from streameval_server._runtime.runtime import Runtime

    Context = grpc.aio.ServicerContext[Any, Any]


class MergeCalls:
    """The handler of the method.

    Parameters
    ----------
    runtime, limits
        The server's.
    """

    def __init__(self, runtime: Runtime, limits: Limits) -> None:
        self._runtime = runtime
        self._limits = limits
        self._pieces = MergePieces(limits)

    async def merge(
        self, requests: AsyncIterator[ingest_pb2.MergeRequest], _context: Context
    ) -> ingest_pb2.MergeResponse:
        """Answer once the merge is durable and visible."""
        runtime, inbox = self._runtime, MergeInbox(self._limits)
        with runtime.calls.call():
            await self._pieces.collect(inbox, requests, current_access().token_id)
            prepared = await self._prepared(inbox)
        if prepared is None:
            return ingest_pb2.MergeResponse(revision=runtime.durable_revision(), duplicate=True)
        response = await runtime.settled(lambda call: call.merge(inbox, prepared))
        assert isinstance(response, ingest_pb2.MergeResponse)
        await runtime.visible(response.revision)
        return response

    async def _prepared(self, inbox: MergeInbox) -> tuple[MergeRows, bytes] | None:
        """Return what a complete merge adds to the log; None when it is a duplicate.

        Raises
        ------
        RequestError
            When the stream does not accept it.
        """
        runtime = self._runtime
        catalog = runtime.core.committer.catalog
        if is_merged(catalog, inbox.header):
            return None
        settings = settings_in(catalog, inbox.header)
        now_us, disputed_us = runtime.now()
        if inbox.is_small():
            return inbox.finish(now_us, settings, disputed_us=disputed_us)
        # Off the event loop: checking takes O(bytes of the states).
        return await asyncio.to_thread(inbox.finish, now_us, settings, disputed_us=disputed_us)
