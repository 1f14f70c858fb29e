"""A merge that stalls is ended, and holds no more than the share of its token."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from streameval.v1 import ingest_pb2 as pb
from streameval_server._batch.merge import MergeInbox
from streameval_server._grpc import merge_pieces
from streameval_server._grpc.merge_pieces import MergePieces
from streameval_server._model.errors import RequestError
from streameval_server._model.limits import Limits

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


def header(size: int = 4, **fields) -> pb.MergeHeader:
    """Return the header of a merge of some bytes."""
    named = {"stream": "s", "source": "x", "epoch": 1, "total_bytes": size} | fields
    return pb.MergeHeader(**named)


async def sent(*requests: pb.MergeManyRequest) -> AsyncIterator[pb.MergeManyRequest]:
    """Yield requests."""
    for request in requests:
        yield request


def test_merges_of_one_call_are_told_apart() -> None:
    """By the length that each header announces; one whose header is refused is skipped."""

    async def run() -> None:
        pieces = MergePieces(LIMITS)
        requests = sent(
            pb.MergeManyRequest(header=header(), data=b"abcd"),
            pb.MergeManyRequest(header=header(epoch=2)),
            pb.MergeManyRequest(data=b"ef"),
            pb.MergeManyRequest(data=b"gh"),
            pb.MergeManyRequest(header=header(epoch=0), data=b"ij"),
            pb.MergeManyRequest(data=b"kl"),
            pb.MergeManyRequest(header=header(101, epoch=3), data=bytes(50)),
            pb.MergeManyRequest(data=bytes(51)),
            pb.MergeManyRequest(header=header(0, epoch=4)),
        )
        found = []
        async for inbox, refusal in pieces.merges(requests, "a"):
            assert pieces._bytes == {}
            assert inbox.header is not None
            text = inbox._chunks.joined() if refusal is None else refusal.reason
            found.append((inbox.header.epoch, text))
        assert found == [
            (1, b"abcd"),
            (2, b"efgh"),
            (0, "INVALID_MERGE"),
            (3, "MERGE_TOO_LARGE"),
            (4, b""),
        ]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("requests", "text"),
    [
        ([pb.MergeManyRequest(data=b"x")], "must begin with its header"),
        ([pb.MergeManyRequest(header=header(), data=b"abc")], "the last merge lacks 1 bytes"),
        (
            [
                pb.MergeManyRequest(header=header(), data=b"abc"),
                pb.MergeManyRequest(header=header()),
            ],
            "a merge begins, but the one before lacks 1 bytes",
        ),
        ([pb.MergeManyRequest(header=header(), data=b"abcde")], "more than the 4 bytes announced"),
    ],
)
def test_a_call_ends_where_it_is_unclear_where_a_merge_ends(
    requests: list[pb.MergeManyRequest], text: str
) -> None:
    """INVALID_ARGUMENT; the merges before it have been taken."""

    async def run() -> None:
        pieces = MergePieces(LIMITS)
        good = pb.MergeManyRequest(header=header(), data=b"abcd")
        merges = pieces.merges(sent(good, *requests), "a")
        _, refusal = await anext(merges)
        assert refusal is None
        with pytest.raises(RequestError, match=text):
            await anext(merges)
        assert pieces._bytes == {}

    asyncio.run(run())


def test_pieces_of_a_stream_share_the_room_of_their_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of single merges; a rest between merges may last, one within a merge may not."""
    monkeypatch.setattr(merge_pieces, "MAX_PIECE_S", 0.01)
    resting = asyncio.Event()

    async def requests(size: int) -> AsyncIterator[pb.MergeManyRequest]:
        yield pb.MergeManyRequest(header=header(), data=b"abcd")
        await resting.wait()
        yield pb.MergeManyRequest(header=header(100), data=bytes(size))
        await asyncio.Event().wait()

    async def run() -> None:
        pieces = MergePieces(LIMITS)
        merges = pieces.merges(requests(90), "a")
        await anext(merges)
        coming = asyncio.ensure_future(anext(merges))
        await asyncio.wait((coming,), timeout=0.05)
        assert not coming.done()
        resting.set()
        with pytest.raises(RequestError, match="next piece did not come"):
            await coming
        assert pieces._bytes == {}
        pieces._bytes["a"] = 150
        merges = pieces.merges(requests(90), "a")
        await anext(merges)
        with pytest.raises(RequestError, match="too many merges are in progress"):
            await anext(merges)
        assert pieces._bytes == {"a": 150}

    asyncio.run(run())
