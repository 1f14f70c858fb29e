"""Reads the pieces of merges, so that a stalled merge holds only the share of its token.

A merge may be as long as all other requests together, and its pieces are kept until the
last one has arrived. So the bytes of all merges in progress are bounded, one token may hold
at most half of them, and a merge whose next piece does not come in time is ended.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from streameval_server._model.errors import RETRY_AFTER_S, Code, RequestError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from streameval.v1 import ingest_pb2
    from streameval_server._batch.merge import MergeInbox
    from streameval_server._model.limits import Limits

R = TypeVar("R")

MAX_PIECE_S = 30.0
"""Longest time for the next piece."""

_MAX_MERGES = 4
"""Merges in progress at once, if each has the largest size allowed."""

_MAX_TOKEN_MERGES = 2
"""The same for one token; without tokens, for all callers."""


class MergePieces:
    """The pieces of all merges in progress.

    Parameters
    ----------
    limits
        The server's.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._max_bytes = _MAX_MERGES * limits.max_merge_bytes
        self._max_token_bytes = _MAX_TOKEN_MERGES * limits.max_merge_bytes
        self._bytes: Counter[str] = Counter()

    async def collect(
        self, inbox: MergeInbox, requests: AsyncIterator[ingest_pb2.MergeRequest], token_id: str
    ) -> None:
        """Read all pieces of a merge.

        Raises
        ------
        RequestError
            RESOURCE_EXHAUSTED when too many bytes are in progress; ABORTED when a piece
            does not come in time.
        """
        mine, pieces = 0, aiter(requests)
        try:
            while (request := await _next_piece(pieces)) is not None:
                mine += len(request.data)
                self._hold(token_id, len(request.data))
                inbox.feed(request)
        finally:
            self._free(token_id, mine)

    def _hold(self, token_id: str, size: int) -> None:
        """Count bytes of a token; raise RequestError when there are too many."""
        self._bytes[token_id] += size
        self._check(token_id)

    def _free(self, token_id: str, size: int) -> None:
        """Discount bytes of a token that were held."""
        self._bytes[token_id] -= size
        if not self._bytes[token_id]:
            del self._bytes[token_id]

    def _check(self, token_id: str) -> None:
        if self._bytes[token_id] > self._max_token_bytes or self._bytes.total() > self._max_bytes:
            raise RequestError(
                Code.RESOURCE_EXHAUSTED,
                "too many merges are in progress: send it again later",
                reason="MERGES_FULL",
                retry_after_s=RETRY_AFTER_S,
            )


async def _next_piece(pieces: AsyncIterator[R]) -> R | None:
    """Return the next request of a merge; None at the end.

    Raises
    ------
    RequestError
        ABORTED when it does not come in time.
    """
    try:
        async with asyncio.timeout(MAX_PIECE_S):
            return await anext(pieces, None)
    except TimeoutError:
        raise RequestError(
            Code.ABORTED,
            f"the merge's next piece did not come within {MAX_PIECE_S:g} s: send the merge again",
            reason="MERGE_SLOW",
            retry_after_s=RETRY_AFTER_S,
        ) from None
