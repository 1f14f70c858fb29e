"""Reads the requests of methods that need no token, so that strangers cannot hold memory.

gRPC receives a request up to its transport limit, 8 MiB by default, however slowly it
comes. A caller without a token could send the larger part of it in many calls and leave
them unfinished. So these requests are read here: when too many are unfinished, the address
that has the most gives up its oldest one, and each has a time limit. A complete request is
read at once, so a probe is answered however many unfinished ones there are.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from streameval_server._model.errors import RETRY_AFTER_S, Code, RequestError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

MAX_UNFINISHED = 16
"""Requests without a token that are received at once."""

MAX_REQUEST_S = 5.0
"""Longest time for such a request to arrive."""

MAX_STREAMS = 256
"""Streams of answers (health.Watch) that callers without a token have open at once."""

MAX_ADDRESS_STREAMS = 64
"""The same for callers of one address."""


class OpenRequests:
    """The requests of callers without a token."""

    def __init__(self) -> None:
        # The address of each, in the order in which they began.
        self._unfinished: dict[asyncio.Task[Any], str] = {}
        self._streams: Counter[str] = Counter()

    async def read(self, requests: AsyncIterator[Any], address: str) -> Any:
        """Return the one request of a call from an address. O(unfinished requests).

        Raises
        ------
        RequestError
            INVALID_ARGUMENT when there is none; RESOURCE_EXHAUSTED when it does not
            arrive in time, or too many others begin before it is complete.
        """
        reading = asyncio.create_task(_first(requests))
        self._unfinished[reading] = address
        if len(self._unfinished) > MAX_UNFINISHED:
            self._give_up_one()
        try:
            await asyncio.wait((reading,), timeout=MAX_REQUEST_S)
        finally:
            reading.cancel()
            self._unfinished.pop(reading, None)
        if not reading.done() or reading.cancelled():
            raise RequestError(
                Code.RESOURCE_EXHAUSTED,
                f"the request was not complete within {MAX_REQUEST_S:g} s, or more than "
                f"{MAX_UNFINISHED} without a token began, most of them from this address",
                reason="REQUEST_SLOW",
                retry_after_s=RETRY_AFTER_S,
            )
        request = reading.result()
        if request is None:
            raise RequestError(
                Code.INVALID_ARGUMENT, "the call has no request", reason="REQUEST_EXPECTED"
            )
        return request

    def _give_up_one(self) -> None:
        """End the oldest request of the address that has the most."""
        unfinished = self._unfinished
        (address, _), *_ = Counter(unfinished.values()).most_common(1)
        oldest = next(task for task, each in unfinished.items() if each == address)
        del unfinished[oldest]
        oldest.cancel()

    @contextmanager
    def stream(self, address: str) -> Iterator[None]:
        """Count a stream of answers to an address for as long as it is open.

        Raises
        ------
        RequestError
            RESOURCE_EXHAUSTED when too many are open.
        """
        streams = self._streams
        if streams.total() >= MAX_STREAMS or streams[address] >= MAX_ADDRESS_STREAMS:
            raise RequestError(
                Code.RESOURCE_EXHAUSTED,
                f"{streams.total()} streams are open without a token, {streams[address]} of them "
                f"from this address; at most {MAX_STREAMS} and {MAX_ADDRESS_STREAMS} may be",
                reason="TOO_MANY_STREAMS",
                retry_after_s=RETRY_AFTER_S,
            )
        streams[address] += 1
        try:
            yield
        finally:
            streams[address] -= 1
            if not streams[address]:
                del streams[address]


def address_of(peer: str) -> str:
    """Return the address of a gRPC peer, without its port.

    Examples
    --------
    >>> address_of("ipv4:10.0.0.7:35032"), address_of("ipv6:%5B::1%5D:50123")
    ('ipv4:10.0.0.7', 'ipv6:%5B::1%5D')
    """
    return peer.rpartition(":")[0]


async def _first(requests: AsyncIterator[Any]) -> Any:
    async for request in requests:
        return request
    return None
