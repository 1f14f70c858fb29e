"""The calls in progress: wakes them when the server stops, and tells when all have ended.

A stop waits for these calls only. Health checks are not among them: a client that watches the
server's health keeps its call open for ever, and must not delay the stop.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from streameval_server._model.errors import Code, RequestError
from streameval_server._model.threads import do_nothing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

call_deadline: ContextVar[float | None] = ContextVar("call_deadline", default=None)
"""When a call stops to wait for a revision, in the event loop's time; None for never. It is
before the caller's own deadline, so that the answer, which says why, still arrives."""


class OpenCalls:
    """Calls in progress; belongs to the event loop's thread.

    Attributes
    ----------
    stopping : bool
        Whether calls in progress should end, and new ones are refused.
    """

    def __init__(self) -> None:
        self.stopping = False
        self._wakes: dict[object, Callable[[], None]] = {}
        self._all_ended = asyncio.Event()

    @contextmanager
    def call(self, wake: Callable[[], None] = do_nothing) -> Iterator[None]:
        """Count a call within the context, and call `wake` when the server starts to stop.

        Raises
        ------
        RequestError
            UNAVAILABLE when it is stopping already.
        """
        if self.stopping:
            raise stopping_error()
        key = object()
        self._wakes[key] = wake
        try:
            yield
        finally:
            del self._wakes[key]
            self._check_all_ended()

    def __len__(self) -> int:
        return len(self._wakes)

    def stop(self) -> None:
        """Refuse new calls, and wake all calls in progress, so that they end."""
        self.stopping = True
        for wake in self._wakes.values():
            wake()
        self._check_all_ended()

    def _check_all_ended(self) -> None:
        if self.stopping and not self._wakes:
            self._all_ended.set()

    async def ended(self, timeout_s: float) -> None:
        """Wait until all calls have ended after `stop`, but no longer than `timeout_s`."""
        ending = asyncio.create_task(self._all_ended.wait())
        await asyncio.wait((ending,), timeout=timeout_s)
        ending.cancel()


def stopping_error() -> RequestError:
    """Return the error that ends a call because the server stops."""
    return RequestError(
        Code.UNAVAILABLE, "the server is stopping", reason="SERVER_STOPPING", retry_after_s=1.0
    )
