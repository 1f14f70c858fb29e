"""Reads the requests of methods that need no token, so that strangers cannot hold memory.

gRPC receives a request up to its transport limit, 8 MiB by default, however slowly it
comes. A caller without a token could send the larger part of it in many calls and leave
them unfinished. So these requests are read here: when too many are unfinished the oldest
one is given up, and each has a time limit. A complete request is read at once, so a probe
is answered however many unfinished ones there are.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
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


class OpenRequests:
    """The requests of callers without a token."""

    def __init__(self) -> None:
        self._unfinished: OrderedDict[asyncio.Task[Any], None] = OrderedDict()
        self._num_streams = 0

    async def read(self, requests: AsyncIterator[Any]) -> Any:
        """Return the one request of a call.

        Raises
        ------
        RequestError
            INVALID_ARGUMENT when there is none; RESOURCE_EXHAUSTED when it does not
            arrive in time, or too many others begin before it is complete.
        """
        reading = asyncio.create_task(_first(requests))
        self._unfinished[reading] = None
        if len(self._unfinished) > MAX_UNFINISHED:
            oldest, _ = self._unfinished.popitem(last=False)
            oldest.cancel()
        try:
            await asyncio.wait((reading,), timeout=MAX_REQUEST_S)
        finally:
            reading.cancel()
            self._unfinished.pop(reading, None)
        if not reading.done() or reading.cancelled():
            raise RequestError(
                Code.RESOURCE_EXHAUSTED,
                f"the request was not complete within {MAX_REQUEST_S:g} s, or {MAX_UNFINISHED} "
                "others without a token came after it",
                reason="REQUEST_SLOW",
                retry_after_s=RETRY_AFTER_S,
            )
        request = reading.result()
        if request is None:
            raise RequestError(
                Code.INVALID_ARGUMENT, "the call has no request", reason="REQUEST_EXPECTED"
            )
        return request

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Count a stream of answers for as long as it is open.

        Raises
        ------
        RequestError
            RESOURCE_EXHAUSTED when too many are open.
        """
        if self._num_streams >= MAX_STREAMS:
            raise RequestError(
                Code.RESOURCE_EXHAUSTED,
                f"{MAX_STREAMS} streams are open without a token, the most allowed",
                reason="TOO_MANY_STREAMS",
                retry_after_s=RETRY_AFTER_S,
            )
        self._num_streams += 1
        try:
            yield
        finally:
            self._num_streams -= 1


async def _first(requests: AsyncIterator[Any]) -> Any:
    async for request in requests:
        return request
    return None
