"""Bodies of requests, no larger, slower or more at once than a server can bear."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import Message
from starlette.requests import ClientDisconnect

from streameval_server._model.errors import RETRY_AFTER_S, Code, RequestError
from streameval_server._web.error_responses import JSON, HttpError
from streameval_server._web.transcoding import from_json

if TYPE_CHECKING:
    from starlette.requests import Request

    from streameval_server._model.limits import Limits

PATIENCE_S = 30.0
"""A body that has not come after so long is given up."""

_SHORT = 1 << 16
"""Longer bodies than these wait for one another..."""

_PARSED_AT_ONCE = 2
"""...so many have their turn: they may take seconds, and others need the threads too."""

M = TypeVar("M", bound=Message)


class Intake:
    """Reads and parses bodies.

    Parameters
    ----------
    limits
        One body may be twice as long as a batch, as over gRPC; all that are being
        read, or wait to be parsed, as long as what may wait for the disk.
    """

    def __init__(self, limits: Limits) -> None:
        self._most = 2 * limits.max_batch_bytes
        self._most_at_once = limits.max_queue_bytes
        self._held = 0
        self._parsing = asyncio.Semaphore(_PARSED_AT_ONCE)

    async def message(self, kind: type[M], request: Request) -> M:
        """Return the message that a body of JSON is. O(body), beside the event loop.

        Raises
        ------
        RequestError
            When the body does not say that it is JSON, or is not such a message, is too
            long, does not come, or too many come at once.
        """
        self._check_head(request)
        body = bytearray()
        try:
            await self._read(request, body)
            async with nullcontext() if len(body) <= _SHORT else self._parsing:
                return await asyncio.to_thread(from_json, kind, bytes(body))
        finally:
            self._held -= len(body)

    def _check_head(self, request: Request) -> None:
        """Refuse what is not JSON, or says that it is too long.

        Only JSON: a page of another origin can make a browser send texts and forms,
        but not this.
        """
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON:
            raise HttpError(
                415,
                Code.INVALID_ARGUMENT,
                f"the body must be {JSON} and say so: send 'content-type: {JSON}' (curl: --json)",
                reason="CONTENT_TYPE",
            )
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._most:
            raise self._too_long()

    async def _read(self, request: Request, body: bytearray) -> None:
        """Read a body to its end; what has been read counts as held, come what may."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                async for chunk in request.stream():
                    body += chunk
                    self._held += len(chunk)
                    self._check_sizes(body)
        except TimeoutError:
            raise HttpError(
                408,
                Code.ABORTED,
                f"the body did not come within {PATIENCE_S:g} s",
                reason="BODY_SLOW",
                headers={"connection": "close"},
            ) from None
        except ClientDisconnect:
            raise RequestError(
                Code.ABORTED, "the body ended before its length", reason="BODY_INCOMPLETE"
            ) from None

    def _check_sizes(self, body: bytearray) -> None:
        if len(body) > self._most:
            raise self._too_long()
        if self._held > self._most_at_once:
            raise RequestError(
                Code.RESOURCE_EXHAUSTED,
                "too many requests are being read: send it again later",
                reason="BODIES_FULL",
                retry_after_s=RETRY_AFTER_S,
            )

    def _too_long(self) -> HttpError:
        return HttpError(
            413,
            Code.RESOURCE_EXHAUSTED,
            f"the body must be at most {self._most} bytes: send smaller batches",
            reason="BODY_TOO_LONG",
            headers={"connection": "close"},
        )
