"""Answering: wait until a revision is visible, then compute beside the event loop, once.

Whoever asks while the same question is still waiting for its turn shares its
answer. A computation that has begun is shared only while nothing was applied
since: an answer always includes everything that was visible when it was asked
for, and a crowd that asks the same costs one running and one waiting
computation.

Long answers, of many windows, have a thread of their own: they wait for one
another, and short ones never wait for them. Between its windows a computation
that nobody waits for any more stops: a caller whose deadline has passed, or who
has gone, leaves nothing running.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from streameval_server._model.errors import Code, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

T = TypeVar("T")

_THREADS = 2
_NEVER = 1 << 63


class Visibility:
    """Who waits for which revision.

    All methods belong to the event loop's thread, except `wanted`.

    Parameters
    ----------
    visible
        Returns the last revision that was applied.
    """

    def __init__(self, visible: Callable[[], int]) -> None:
        self._visible = visible
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._given_up = 0  # since all that had were taken out
        self._order = itertools.count()
        self.first_awaited = _NEVER
        self._failed = False

    async def wait(self, revision: int) -> None:
        """Return once `revision` is visible. O(log(waiting)).

        Raises
        ------
        RequestError
            UNAVAILABLE when it never will be, because the server failed.
        """
        # Announce the wish before looking: the applier does it the other way
        # round, so that one of the two sees the other.
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (revision, next(self._order), future))
        self.first_awaited = self._waiting[0][0]
        self.announce()
        try:
            await future
        except asyncio.CancelledError:
            self._forget()
            raise

    def _forget(self) -> None:
        """Forget somebody who has given up, whose future is done. O(1) in the mean.

        Thousands may end together: they are taken out at once, when they may be more
        than half of all.
        """
        self._given_up += 1
        if 2 * self._given_up > len(self._waiting):
            self._given_up = 0
            self._waiting = [each for each in self._waiting if not each[2].done()]
            heapq.heapify(self._waiting)
            self.first_awaited = self._waiting[0][0] if self._waiting else _NEVER

    def announce(self) -> None:
        """Wake everybody whose revision is visible."""
        visible = self._visible()
        while self._waiting and (self._failed or self._waiting[0][0] <= visible):
            _, _, future = heapq.heappop(self._waiting)
            if future.done():  # its caller has given up
                continue
            if self._failed:
                future.set_exception(_failed())
            else:
                future.set_result(None)
        self.first_awaited = self._waiting[0][0] if self._waiting else _NEVER

    def fail(self) -> None:
        """Wake everybody: nothing will be applied any more."""
        self._failed = True
        self.announce()


def _failed() -> RequestError:
    return RequestError(
        Code.UNAVAILABLE, "the server failed and is stopping", reason="SERVER_FAILED"
    )


@dataclass(slots=True, eq=False)
class _Computation(Generic[T]):
    """A computation and those who wait for it."""

    floor: int
    """Visible revision when it was asked for; the answer includes it."""
    answer: asyncio.Future[T] | None = None
    started: bool = False
    waiting: int = 0
    """Callers."""
    abandoned: bool = False
    """Whether all of them have given up; nobody joins it then."""


class QueryAbandonedError(Exception):
    """Nobody waits for the answer any more."""


class QueryThreads:
    """Threads that compute answers; equal questions share one computation.

    Parameters
    ----------
    visible
        Returns the last revision that was applied.
    """

    def __init__(self, visible: Callable[[], int]) -> None:
        self._visible = visible
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="query")
        self._long_thread = ThreadPoolExecutor(1, thread_name_prefix="long-query")
        self._shared: dict[Hashable, _Computation[object]] = {}
        self._mine = threading.local()

    async def run(
        self, question: Hashable, compute: Callable[[], T], *, is_long: bool = False
    ) -> T:
        """Return what `compute` returns, or what it returned to somebody who asked the same.

        Parameters
        ----------
        question
            Equal for equal questions; computations of one question return one type.
        compute
            Runs in a query thread. It takes the counts that it reads itself.
        is_long
            Whether it may take seconds; then it calls `check` now and then.
        """
        shared = self._shared.get(question)
        if shared is None or (shared.started and self._visible() > shared.floor):
            shared = self._start(question, compute, self._long_thread if is_long else self._threads)
        answer = shared.answer
        assert answer is not None
        shared.waiting += 1
        try:
            # Somebody who gives up does not take the answer from the others.
            return cast("T", await asyncio.shield(answer))
        finally:
            shared.waiting -= 1
            if not shared.waiting and not answer.done():
                # If it has not begun, it never will.
                shared.abandoned = True
                if self._shared.get(question) is shared:
                    del self._shared[question]
                answer.cancel()

    def check(self) -> None:
        """Go on if somebody waits for what this thread computes. Any thread may ask.

        Raises
        ------
        QueryAbandonedError
            When nobody does.
        """
        shared = getattr(self._mine, "shared", None)
        if shared is not None and shared.abandoned:
            raise QueryAbandonedError

    def _start(
        self, question: Hashable, compute: Callable[[], T], threads: ThreadPoolExecutor
    ) -> _Computation[object]:
        shared: _Computation[object] = _Computation(floor=self._visible())

        def work() -> T:
            shared.started = True
            self._mine.shared = shared
            try:
                return compute()
            finally:
                self._mine.shared = None

        def finished(answer: asyncio.Future[object]) -> None:
            if self._shared.get(question) is shared:
                del self._shared[question]
            if not answer.cancelled():
                answer.exception()  # whoever asked may be gone

        self._shared[question] = shared
        shared.answer = asyncio.get_running_loop().run_in_executor(threads, work)
        shared.answer.add_done_callback(finished)
        return shared

    def stop(self) -> None:
        """Stop the threads once they have nothing to do."""
        for threads in (self._threads, self._long_thread):
            threads.shutdown(wait=True, cancel_futures=True)
