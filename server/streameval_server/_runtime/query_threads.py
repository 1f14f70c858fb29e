"""Waits until a revision is visible, and computes answers in threads, off the event loop.

Equal queries share one computation. A query joins one that has not started. It joins a
running one only if nothing was applied since that one started, because an answer must
include everything that was visible when its query arrived. So any number of callers of one
query cost at most one running and one queued computation.

Long computations, of many windows, have a thread of their own: they wait for each other, and
short ones never wait for them. A long computation calls `QueryThreads.check` between its
windows and stops when all of its callers have left or passed their deadlines.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from streameval_server._model.errors import Code, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from streameval_server._model.limits import Limits

T = TypeVar("T")

_THREADS = 2
_NEVER = 1 << 63


class Visibility:
    """Callers that wait until a revision is applied.

    All methods belong to the event loop's thread.

    Parameters
    ----------
    visible
        Returns the last revision that was applied.

    Attributes
    ----------
    first_awaited : int
        The lowest revision that a caller waits for, above all revisions if none does. The
        applier reads it from its own thread after each step, and if it has reached it, has
        the event loop call `announce`.
    """

    def __init__(self, visible: Callable[[], int]) -> None:
        self._visible = visible
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._num_cancelled = 0  # of the futures in `_waiting`, about
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
        # Publish the awaited revision first, then check the visible one. The applier works in
        # the opposite order, so at least one of the two notices the other.
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (revision, next(self._order), future))
        self.first_awaited = self._waiting[0][0]
        self.announce()
        try:
            await future
        except asyncio.CancelledError:
            self._remove_cancelled()
            raise

    def _remove_cancelled(self) -> None:
        """Record that a caller was cancelled; its future is done. Amortised O(1).

        Thousands may be cancelled together. They are removed in one pass, once they may be
        more than half of all.
        """
        self._num_cancelled += 1
        if 2 * self._num_cancelled > len(self._waiting):
            self._num_cancelled = 0
            self._waiting = [each for each in self._waiting if not each[2].done()]
            heapq.heapify(self._waiting)
            self.first_awaited = self._waiting[0][0] if self._waiting else _NEVER

    def announce(self) -> None:
        """Wake every caller whose revision is visible."""
        visible = self._visible()
        while self._waiting and (self._failed or self._waiting[0][0] <= visible):
            _, _, future = heapq.heappop(self._waiting)
            if future.done():  # its caller was cancelled
                continue
            if self._failed:
                future.set_exception(_server_failed_error())
            else:
                future.set_result(None)
        self.first_awaited = self._waiting[0][0] if self._waiting else _NEVER

    def fail(self) -> None:
        """Wake every caller with an error: nothing will be applied any more."""
        self._failed = True
        self.announce()


def _server_failed_error() -> RequestError:
    return RequestError(
        Code.UNAVAILABLE, "the server failed and is stopping", reason="SERVER_FAILED"
    )


def _too_large(problem: str, limit: str) -> RequestError:
    return RequestError(
        Code.RESOURCE_EXHAUSTED,
        f"{problem} ({limit}): ask for one segment key, a shorter window, fewer rows or fewer "
        "streams",
        reason="QUERY_TOO_LARGE",
    )


class QueryQuota:
    """Counts the queries under way of each caller. Belongs to the event loop's thread.

    Parameters
    ----------
    max_queries : int
        The most of one caller.
    """

    def __init__(self, max_queries: int) -> None:
        self._max_queries = max_queries
        self._under_way: dict[str, int] = {}

    @contextmanager
    def query(self, caller: str) -> Iterator[None]:
        """Count a query of a caller while it runs.

        Raises
        ------
        RequestError
            RESOURCE_EXHAUSTED, to be retried, when the caller has too many under way.
        """
        before = self._under_way.get(caller, 0)
        if before >= self._max_queries:
            raise RequestError(
                Code.RESOURCE_EXHAUSTED,
                f"{before} queries of this token are under way, the most allowed "
                "(limits.max_queries_per_token): wait for their answers",
                reason="TOO_MANY_QUERIES",
                retry_after_s=1.0,
            )
        self._under_way[caller] = before + 1
        try:
            yield
        finally:
            self._under_way[caller] -= 1
            if not self._under_way[caller]:
                del self._under_way[caller]


@dataclass(slots=True, eq=False)
class _Computation(Generic[T]):
    """A computation and its callers."""

    floor: int
    """The visible revision when it was requested; the answer includes it."""
    answer: asyncio.Future[T] | None = None
    started: bool = False
    callers: int = 0
    """How many callers wait for the answer."""
    abandoned: bool = False
    """Whether all callers have left. No new caller joins it then."""
    begin_s: float = 0.0
    """When it started, by the monotonic clock."""
    cells: int = 0
    """Distinct scores that its windows have read."""


class QueryAbandonedError(Exception):
    """All callers of the computation have left, so it stops."""


class QueryThreads:
    """Threads that compute answers; equal queries share one computation.

    Parameters
    ----------
    visible
        Returns the last revision that was applied.
    limits
        The server's.
    """

    def __init__(self, visible: Callable[[], int], limits: Limits) -> None:
        self._visible = visible
        self._limits = limits
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="query")
        self._long_thread = ThreadPoolExecutor(1, thread_name_prefix="long-query")
        self._computations: dict[Hashable, _Computation[object]] = {}
        self._thread_local = threading.local()

    async def run(
        self, question: Hashable, compute: Callable[[], T], *, is_long: bool = False
    ) -> T:
        """Return what `compute` returns, or share the answer to an equal question.

        Parameters
        ----------
        question
            Equal for equal questions; computations of one question return one type.
        compute
            Runs in a query thread. It must read the counts itself, not before it is called.
        is_long
            Whether it may take seconds; then it must call `check` regularly.
        """
        computation = self._computations.get(question)
        if computation is None or (computation.started and self._visible() > computation.floor):
            threads = self._long_thread if is_long else self._threads
            computation = self._start(question, compute, threads)
        answer = computation.answer
        assert answer is not None
        computation.callers += 1
        try:
            # A shield, because cancelling one caller must not cancel the others' answer.
            return cast("T", await asyncio.shield(answer))
        finally:
            computation.callers -= 1
            if not computation.callers and not answer.done():
                # Cancelled before it has started, it never will start.
                computation.abandoned = True
                if self._computations.get(question) is computation:
                    del self._computations[question]
                answer.cancel()

    def check(self, cells: int = 0) -> None:
        """Return if this thread may compute further. Any thread may call it.

        Parameters
        ----------
        cells
            Distinct scores that the computation is about to read.

        Raises
        ------
        QueryAbandonedError
            When no caller waits for the answer.
        RequestError
            RESOURCE_EXHAUSTED when the computation exceeds the limits of one query.
        """
        computation = getattr(self._thread_local, "computation", None)
        if computation is None:
            return
        if computation.abandoned:
            raise QueryAbandonedError
        limits = self._limits
        computation.cells += cells
        if computation.cells > limits.max_query_cells:
            raise _too_large(
                f"the query reads more than {limits.max_query_cells:,} distinct scores",
                "limits.max_query_cells",
            )
        seconds = time.monotonic() - computation.begin_s
        if seconds > limits.max_query_s:
            raise _too_large(
                f"the query has computed for {seconds:.1f} s, the most is {limits.max_query_s:g} s",
                "limits.max_query",
            )

    def _start(
        self, question: Hashable, compute: Callable[[], T], threads: ThreadPoolExecutor
    ) -> _Computation[object]:
        computation: _Computation[object] = _Computation(floor=self._visible())

        def work() -> T:
            computation.started = True
            computation.begin_s = time.monotonic()
            self._thread_local.computation = computation
            try:
                return compute()
            finally:
                self._thread_local.computation = None

        def finished(answer: asyncio.Future[object]) -> None:
            if self._computations.get(question) is computation:
                del self._computations[question]
            if not answer.cancelled():
                answer.exception()  # mark it as retrieved: all callers may have left

        self._computations[question] = computation
        computation.answer = asyncio.get_running_loop().run_in_executor(threads, work)
        computation.answer.add_done_callback(finished)
        return computation

    def stop(self) -> None:
        """Stop the threads once they have nothing to do."""
        for threads in (self._threads, self._long_thread):
            threads.shutdown(wait=True, cancel_futures=True)
