"""Reads request bodies, with limits on size, time and the bytes held at once."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import Message
from starlette.requests import ClientDisconnect

from streameval_server._model.errors import BODY_TOO_LONG, RETRY_AFTER_S, Code, RequestError
from streameval_server._web.error_responses import JSON, HttpError
from streameval_server._web.transcoding import from_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from streameval_server._model.limits import Limits

MAX_BODY_S = 30.0
"""Longest time for a body to arrive."""

_MAX_INLINE_BYTES = 1 << 12
"""Bodies up to this size are parsed in the event loop: another thread would cost more."""

_MAX_UNQUEUED_BYTES = 1 << 16
"""Bodies up to this size are parsed at once; longer ones queue for a parser."""

_MAX_CONCURRENT_PARSES = 2
"""Long bodies that are parsed at once. One may take seconds, and other requests need
the threads too."""

M = TypeVar("M", bound=Message)
T = TypeVar("T")


class BodyReader:
    """Reads and parses bodies.

    Parameters
    ----------
    limits
        A body may be twice as long as a batch, as over gRPC. All bodies that are being
        read or parsed may together be as long as the commit queue.

    Attributes
    ----------
    max_body_bytes : int
        The longest body, also once it is unpacked.
    """

    def __init__(self, limits: Limits) -> None:
        self.max_body_bytes = 2 * limits.max_batch_bytes
        self._max_held_bytes = limits.max_queue_bytes
        self._held_bytes = 0
        self._parsing = asyncio.Semaphore(_MAX_CONCURRENT_PARSES)

    async def message(self, kind: type[M], request: Request) -> M:
        """Parse a body of JSON into a message. O(body), off the event loop.

        Raises
        ------
        RequestError
            When the body does not say that it is JSON, or is not such a message, is too
            long, does not come, or too many come at once.
        """
        # Only JSON: a page of another origin can make a browser send texts and forms, but not
        # JSON.
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type != JSON:
            raise HttpError(
                415,
                Code.INVALID_ARGUMENT,
                f"the body must be {JSON} and say so: send 'content-type: {JSON}' (curl: --json)",
                reason="CONTENT_TYPE",
            )
        return await self.parsed(request, partial(from_json, kind))

    async def parsed(
        self,
        request: Request,
        parse: Callable[[bytes], T],
        spend_time: Callable[[float], None] | None = None,
    ) -> T:
        """Return `parse(body)`, for a long body computed off the event loop. O(body).

        `spend_time` is called in the event loop with the seconds of processor time that it took.

        Raises
        ------
        RequestError
            When the body is too long, does not come, or too many come at once; and what
            `parse` raises.
        """
        self._check_length(request)
        body, seconds = bytearray(), 0.0

        def timed() -> T:
            nonlocal seconds
            began_s = time.thread_time()
            try:
                return parse(bytes(body))
            finally:
                seconds = time.thread_time() - began_s

        try:
            await self._read(request, body)
            # A packed body is as long as it unpacks to.
            size = self.max_body_bytes if _is_packed(request) else len(body)
            if size <= _MAX_INLINE_BYTES:
                return timed()
            async with nullcontext() if size <= _MAX_UNQUEUED_BYTES else self._parsing:
                return await asyncio.to_thread(timed)
        finally:
            self._held_bytes -= len(body)
            if spend_time is not None:
                spend_time(seconds)

    def _check_length(self, request: Request) -> None:
        """Refuse a body whose length is above the limit, before it is read."""
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > self.max_body_bytes:
            raise self._too_long()

    async def _read(self, request: Request, body: bytearray) -> None:
        """Read a body to its end; `parsed` releases the bytes read, after errors too."""
        try:
            async with asyncio.timeout(MAX_BODY_S):
                async for chunk in request.stream():
                    body += chunk
                    self._held_bytes += len(chunk)
                    self._check_sizes(body)
        except TimeoutError:
            raise HttpError(
                408,
                Code.ABORTED,
                f"the body did not come within {MAX_BODY_S:g} s",
                reason="BODY_SLOW",
                headers={"connection": "close"},
            ) from None
        except ClientDisconnect:
            raise RequestError(
                Code.ABORTED, "the body ended before its length", reason="BODY_INCOMPLETE"
            ) from None

    def _check_sizes(self, body: bytearray) -> None:
        if len(body) > self.max_body_bytes:
            raise self._too_long()
        if self._held_bytes > self._max_held_bytes:
            raise RequestError(
                Code.RESOURCE_EXHAUSTED,
                "too many request bodies are in progress: send it again later",
                reason="BODIES_FULL",
                retry_after_s=RETRY_AFTER_S,
            )

    def _too_long(self) -> HttpError:
        return HttpError(
            413,
            Code.RESOURCE_EXHAUSTED,
            f"the body must be at most {self.max_body_bytes} bytes: send smaller batches",
            reason=BODY_TOO_LONG,
            headers={"connection": "close"},
        )


def _is_packed(request: Request) -> bool:
    return request.headers.get("content-encoding", "").strip().lower() not in ("", "identity")
