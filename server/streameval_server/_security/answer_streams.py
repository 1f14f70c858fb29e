"""Ends streams of answers whose token no longer covers them, also while no answer comes.

The token is checked before each answer. A watch of a stream that does not change has no
answers, so `AnswerStreams.end_refused` checks all open streams as well; the server calls it
once a second.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

from streameval_server._model.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

T = TypeVar("T")


class _AnswerStream:
    """One stream: its check, and the task that waits for its next answer."""

    __slots__ = ("_check", "_refusal", "waiting")

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._refusal: RequestError | None = None
        self.waiting: asyncio.Task[object] | None = None

    def end_if_refused(self) -> None:
        """Wake the waiting task when the check refuses.

        A task that sends an answer is left alone: the check before the next one ends it.
        """
        if self.waiting is None or self._refusal is not None:
            return
        try:
            self._check()
        except RequestError as error:
            self._refusal = error
            self.waiting.cancel()

    async def next_of(self, answers: AsyncGenerator[T, None]) -> T:
        """Return the next answer. Raises RequestError when the check refuses meanwhile."""
        task = self.waiting = asyncio.current_task()
        try:
            return await anext(answers)
        except asyncio.CancelledError:
            # Any other cancellation, by the client or by the server's stop, goes on.
            if self._refusal is None or task is None or task.uncancel():
                raise
            raise self._refusal from None
        finally:
            self.waiting = None


class AnswerStreams:
    """The open streams; belongs to the event loop's thread."""

    def __init__(self) -> None:
        self._open: set[_AnswerStream] = set()

    async def checked(
        self, answers: AsyncGenerator[T, None], check: Callable[[], None]
    ) -> AsyncGenerator[T, None]:
        """Yield a stream's answers, each after `check`; close them at the end.

        Raises
        ------
        RequestError
            What `check` raises: before an answer, or within `end_refused`.
        """
        stream = _AnswerStream(check)
        self._open.add(stream)
        try:
            async with aclosing(answers):
                while True:
                    try:
                        answer = await stream.next_of(answers)
                    except StopAsyncIteration:
                        return
                    check()
                    yield answer
        finally:
            self._open.discard(stream)

    def end_refused(self) -> None:
        """End the streams whose check refuses. O(open streams)."""
        for stream in self._open:
            stream.end_if_refused()
