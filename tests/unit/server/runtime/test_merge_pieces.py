"""A merge that stalls is ended, and holds no more than the share of its token."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from streameval.v1 import ingest_pb2 as pb
from streameval_server import Limits
from streameval_server._batch.merge import MergeInbox
from streameval_server._grpc import merge_pieces
from streameval_server._grpc.merge_pieces import MergePieces
from streameval_server._model.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LIMITS = Limits(max_merge_bytes=100)


async def stalling(size: int) -> AsyncIterator[pb.MergeRequest]:
    """Yield a header and a part of the data, and then nothing more."""
    header = pb.MergeHeader(stream="s", source="x", epoch=1, total_bytes=100)
    yield pb.MergeRequest(header=header)
    yield pb.MergeRequest(data=b"x" * size)
    await asyncio.Event().wait()


def reason(task: asyncio.Task[None]) -> str:
    """Return why a merge was ended."""
    error = task.exception()
    assert isinstance(error, RequestError)
    return error.reason


def test_a_stalled_merge_holds_the_share_of_its_token() -> None:
    """Two whole merges of one token; another token's are still taken."""

    async def run() -> None:
        pieces = MergePieces(LIMITS)

        def begin(token: str) -> asyncio.Task[None]:
            merge = pieces.collect(MergeInbox(LIMITS), stalling(90), token)
            return asyncio.ensure_future(merge)

        stalled = [begin("a") for _ in range(3)]
        while not stalled[2].done():
            await asyncio.sleep(0)
        assert [each.done() for each in stalled] == [False, False, True]
        assert reason(stalled[2]) == "MERGES_FULL"
        other = begin("b")
        for _ in range(10):
            await asyncio.sleep(0)
        assert not other.done()
        assert pieces._bytes == {"a": 180, "b": 90}
        for each in (*stalled, other):
            each.cancel()
        await asyncio.gather(*stalled, other, return_exceptions=True)
        assert pieces._bytes == {}

    asyncio.run(run())


def test_a_merge_whose_next_piece_does_not_come_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """ABORTED, and its bytes are free again."""
    monkeypatch.setattr(merge_pieces, "MAX_PIECE_S", 0.01)

    async def run() -> None:
        pieces = MergePieces(LIMITS)
        with pytest.raises(RequestError, match="next piece did not come") as caught:
            await pieces.collect(MergeInbox(LIMITS), stalling(90), "a")
        assert caught.value.reason == "MERGE_SLOW"
        assert pieces._bytes == {}

    asyncio.run(run())
