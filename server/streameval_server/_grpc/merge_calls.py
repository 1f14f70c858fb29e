"""Merge and MergeMany: one merge a call, and many merges of one call.

Both read the pieces of a merge, check it and submit it in the same way. Merge answers when
its merge is visible to every query, MergeMany when its merges are durable.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from streameval.v1 import ingest_pb2
from streameval_server._batch.merge import MergeInbox
from streameval_server._grpc.answered_stream import AnsweredStream
from streameval_server._grpc.merge_pieces import MergePieces
from streameval_server._ingest.merge_session import CheckedMerge, MergeSession
from streameval_server._model.errors import Code, RequestError
from streameval_server._security.access import current_access

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import grpc

    from streameval_server._model.limits import Limits
    from streameval_server._model.rows import MergeRows
    from streameval_server._runtime.runtime import Runtime
    from streameval_server._security.access import Access

    Context = grpc.aio.ServicerContext[Any, Any]


class MergeCalls:
    """The handlers of the two methods.

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

    async def merge_many(
        self, requests: AsyncIterator[ingest_pb2.MergeManyRequest], _context: Context
    ) -> AsyncIterator[ingest_pb2.MergeManyResponse]:
        """Serve one stream of merges until its end, its error or the server's stop."""
        stream: AnsweredStream[CheckedMerge] = AnsweredStream(self._runtime)
        session = MergeSession(self._runtime.core.committer, self._limits, stream.wake)
        checked = self._checked(requests, current_access())
        async with stream.serving(session, checked, session.feed) as replies:
            async for reply in replies:
                yield reply

    async def _checked(
        self, requests: AsyncIterator[ingest_pb2.MergeManyRequest], access: Access
    ) -> AsyncIterator[CheckedMerge]:
        """Yield each merge once it is complete, checked or with the reason to refuse it."""
        async for inbox, refusal in self._pieces.merges(requests, access.token_id):
            error, prepared = refusal or _forbidden(inbox, access), None
            if error is None:
                try:
                    prepared = await self._prepared(inbox)
                except RequestError as refused:
                    error = refused
            yield CheckedMerge(inbox, prepared, error)

    async def _prepared(self, inbox: MergeInbox) -> tuple[MergeRows, bytes] | None:
        """Return what a complete merge adds to the log; None when it is a duplicate.

        Raises
        ------
        RequestError
            When the stream does not accept it.
        """
        runtime = self._runtime
        catalog = runtime.core.committer.catalog
        if inbox.is_duplicate(catalog):
            return None
        settings = inbox.settings_in(catalog)
        now_us, disputed_us = runtime.now()
        if inbox.is_small():
            return inbox.finish(now_us, settings, disputed_us=disputed_us)
        # Off the event loop: checking takes O(bytes of the states).
        return await asyncio.to_thread(inbox.finish, now_us, settings, disputed_us=disputed_us)


def _forbidden(inbox: MergeInbox, access: Access) -> RequestError | None:
    """Return the error when the token does not cover a merge's stream."""
    assert inbox.header is not None
    problem = access.forbids(inbox.header.stream)
    if problem is None:
        return None
    return RequestError(Code.PERMISSION_DENIED, problem, reason="STREAM_FORBIDDEN")
