"""A call with a stream of requests and one of answers: two tasks around a session.

The reader feeds the session, and pauses while the session has too much that is not settled.
The writer sends the session's replies as fast as the client reads them.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from streameval_server._runtime.open_calls import stopping_error

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

    from streameval_server._model.errors import RequestError
    from streameval_server._runtime.runtime import Runtime

MAX_UNREAD_REQUESTS = 1024
"""Requests that are read while the client leaves an answer unread. Each may be refused, and
refusals, unlike acks, do not merge into one."""

R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


class Session(Protocol[R_co]):
    """What the requests of a stream are fed to."""

    @property
    def full(self) -> bool:
        """Whether the reader must pause until something is settled."""

    @property
    def idle(self) -> bool:
        """Whether everything that was fed is settled."""

    @property
    def error(self) -> RequestError | None:
        """Why the stream must end."""

    def replies(self) -> Sequence[R_co]:
        """Return the messages to send."""


class AnsweredStream(Generic[T]):
    """One call: its reader, its writer, and the events between them.

    Parameters
    ----------
    runtime
        The server's.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._ended = False
        # The client has an answer to read; before the first one, which waits for the disk, it
        # may not send without end either.
        self._writing = True
        self._requests_since_write = 0

    def wake(self) -> None:
        """Wake both tasks."""
        self._changed.set()
        self._room.set()

    @asynccontextmanager
    async def serving(
        self, session: Session[R_co], requests: AsyncIterator[T], feed: Callable[[T], None]
    ) -> AsyncIterator[AsyncGenerator[R_co, None]]:
        """Read within the context, and give the replies until the call's end or its error.

        Parameters
        ----------
        session
            Calls `wake` when it has news.
        requests
            The call's.
        feed
            Feeds one of them to the session.
        """
        reading = asyncio.create_task(self.read(session, requests, feed))
        try:
            with self._runtime.calls.call(self.wake):
                async with aclosing(self.replies(session)) as replies:
                    yield replies
            await reading
        finally:
            reading.cancel()

    async def read(
        self, session: Session[Any], requests: AsyncIterator[T], feed: Callable[[T], None]
    ) -> None:
        """Feed the session until the client has sent everything, or the server stops.

        Raises
        ------
        RequestError
            When the client breaks a rule; what it sent before that still counts.
        """
        runtime = self._runtime
        try:
            async for request in requests:
                if runtime.calls.stopping:
                    return
                feed(request)
                runtime.submitted()
                self._requests_since_write += 1
                while session.full or self._client_stalls():
                    self._room.clear()
                    await self._room.wait()
        finally:
            self._ended = True
            self._changed.set()

    def _client_stalls(self) -> bool:
        """Whether the client sends many requests without reading its answers."""
        return self._writing and self._requests_since_write >= MAX_UNREAD_REQUESTS

    async def replies(self, session: Session[R_co]) -> AsyncGenerator[R_co, None]:
        """Yield replies until everything is settled and the client has sent its last.

        Raises
        ------
        RequestError
            When the server must end the stream before the client does.
        """
        runtime = self._runtime
        while True:
            self._changed.clear()
            replies = session.replies()
            if replies:
                self._writing = True
                self._requests_since_write = 0
                for reply in replies:
                    yield reply  # continues when it is written
                self._writing = False
                self._room.set()
            if session.error is not None:
                raise session.error
            if runtime.failed:
                raise stopping_error()
            if not replies:
                if session.idle and runtime.calls.stopping:
                    raise stopping_error()
                if session.idle and self._ended:
                    return
                await self._changed.wait()
