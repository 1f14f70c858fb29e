"""Requests without a token: what one address may have, and what it cannot take from others."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from streameval_server._grpc.open_requests import (
    MAX_ADDRESS_STREAMS,
    MAX_STREAMS,
    MAX_UNFINISHED,
    OpenRequests,
)
from streameval_server._model.errors import Code, RequestError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def unfinished() -> AsyncIterator[Any]:
    """Never yield."""
    await asyncio.Event().wait()
    yield


async def finished(request: str) -> AsyncIterator[Any]:
    """Yield one request."""
    yield request


def test_the_address_with_the_most_gives_up_its_oldest() -> None:
    """Another address keeps its unfinished request, however many the first one begins."""

    async def serve() -> None:
        requests = OpenRequests()
        probe = asyncio.create_task(requests.read(unfinished(), "b"))
        await asyncio.sleep(0)
        attack = []
        for _ in range(3 * MAX_UNFINISHED):
            attack.append(asyncio.create_task(requests.read(unfinished(), "a")))
            await asyncio.sleep(0)
            assert await requests.read(finished("whole"), "a") == "whole"
        for _ in range(5):  # until the last one that gives up has ended
            await asyncio.sleep(0)
        assert not probe.done()
        ended = [task.done() for task in attack]
        kept = MAX_UNFINISHED - 2  # besides the probe's, and room for the whole ones
        assert ended == [True] * (len(attack) - kept) + [False] * kept
        with pytest.raises(RequestError, match="most of them from this address") as caught:
            attack[0].result()
        assert caught.value.code is Code.RESOURCE_EXHAUSTED
        for task in (probe, *attack):
            task.cancel()
        await asyncio.gather(probe, *attack, return_exceptions=True)
        assert not requests._unfinished

    asyncio.run(serve())


def test_streams_of_an_address_are_limited_and_of_all() -> None:
    """An address at its limit leaves room to others; a stream that ends makes room."""
    requests = OpenRequests()
    addresses = [str(number) for number in range(MAX_STREAMS // MAX_ADDRESS_STREAMS)]
    with ExitStack() as stack:
        for address in addresses:
            for _ in range(MAX_ADDRESS_STREAMS - 1):
                stack.enter_context(requests.stream(address))
            with (
                requests.stream(address),
                pytest.raises(RequestError, match="64 of them from this address"),
                requests.stream(address),
            ):
                pass
            stack.enter_context(requests.stream(address))
        with (
            pytest.raises(RequestError, match="256 streams are open without a token, 0 of them"),
            requests.stream("another"),
        ):
            pass
    assert not requests._streams
    with requests.stream("another"):
        pass
