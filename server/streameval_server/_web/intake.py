"""Bodies of requests, no larger, slower or more at once than a server can bear."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect

from streameval_server._core.committer import RETRY_AFTER_S
from streameval_server._core.errors import Code, RequestError
from streameval_server._web.refusals import JSON, HttpError

if TYPE_CHECKING:
    from starlette.requests import Request

    from streameval_server._core.limits import Limits

PATIENCE_S = 30.0
"""A body that has not come after so long is given up."""


class Intake:
    """Reads bodies.

    Parameters
    ----------
    limits
        One body may be twice as long as a batch, as over gRPC; all that are being
        read as long as what may wait for the disk.
    """

    def __init__(self, limits: Limits) -> None:
        self._most = 2 * limits.max_batch_bytes
        self._most_at_once = limits.max_queue_bytes
        self._held = 0

    async def json(self, request: Request) -> bytes:
        """Return a body that says that it is JSON.

        Only such: a page of another origin can make a browser send texts and
        forms, but not this.

        Raises
        ------
        RequestError
            When it is not, is too long, does not come, or too many come at once.
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
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self._read(request)
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

    async def _read(self, request: Request) -> bytes:
        body = bytearray()
        try:
            async for chunk in request.stream():
                body += chunk
                self._held += len(chunk)
                if len(body) > self._most:
                    raise self._too_long()
                if self._held > self._most_at_once:
                    raise RequestError(
                        Code.RESOURCE_EXHAUSTED,
                        "too many requests are being read: send it again later",
                        reason="BODIES_FULL",
                        retry_after_s=RETRY_AFTER_S,
                    )
        finally:
            self._held -= len(body)
        return bytes(body)

    def _too_long(self) -> HttpError:
        return HttpError(
            413,
            Code.RESOURCE_EXHAUSTED,
            f"the body must be at most {self._most} bytes: send smaller batches",
            reason="BODY_TOO_LONG",
            headers={"connection": "close"},
        )
