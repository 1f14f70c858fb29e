"""Waiting for revisions, and sharing computations."""

import asyncio
import threading
from datetime import timedelta

import pytest

from streameval_server import Limits
from streameval_server._model.errors import Code, RequestError
from streameval_server._model.threads import Doorbell, FairLock
from streameval_server._runtime import query_threads
from streameval_server._runtime.query_threads import (
    QueryAbandonedError,
    QueryQuota,
    QueryThreads,
    Visibility,
)


class Clock:
    """A visible revision that a test changes."""

    def __init__(self) -> None:
        self.revision = 0

    def __call__(self) -> int:
        return self.revision


async def turns(count: int = 5) -> None:
    """Let every other task run."""
    for _ in range(count):
        await asyncio.sleep(0)


def test_waiters_wake_when_their_revision_is_visible() -> None:
    """Each caller waits for its own revision, in any order of arrival."""

    async def scenario() -> None:
        visible = Clock()
        visibility = Visibility(visible)
        await visibility.wait(0)
        waiting = {r: asyncio.create_task(visibility.wait(r)) for r in (3, 1, 2, 2**62)}
        await turns()
        assert visibility.first_awaited > 0
        assert visibility.first_awaited <= 1
        visible.revision = 2
        visibility.announce()
        await turns()
        assert {r: task.done() for r, task in waiting.items()} == {
            3: False,
            1: True,
            2: True,
            2**62: False,
        }
        assert visibility.first_awaited > 2
        waiting[3].cancel()
        await turns()
        visible.revision = 3
        visibility.announce()
        assert visibility.first_awaited > 2**61
        visibility.fail()
        with pytest.raises(RequestError, match="the server failed"):
            await waiting[2**62]

    asyncio.run(scenario())


class Revision(int):
    """A revision that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Revision.compared += 1
        return int(self) == other

    __hash__ = int.__hash__


def test_thousands_of_callers_cancelled_together_are_removed() -> None:
    """Each is compared a few times only; none is kept for long, and none is woken."""

    async def scenario() -> None:
        visible = Clock()
        visibility = Visibility(visible)
        count = 2000
        waiting = [asyncio.create_task(visibility.wait(Revision(1))) for _ in range(count)]
        await turns()
        Revision.compared = 0
        for each in waiting[5:]:
            each.cancel()
        await asyncio.gather(*waiting[5:], return_exceptions=True)
        assert Revision.compared < 50 * count
        assert len(visibility._waiting) <= 10
        visible.revision = 1
        visibility.announce()
        await turns()
        assert all(each.done() and not each.cancelled() for each in waiting[:5])
        assert all(each.cancelled() for each in waiting[5:])
        assert not visibility._waiting

    asyncio.run(scenario())


def test_cancelled_callers_leave_no_entries() -> None:
    """The entries of thousands of cancelled callers are removed while others still wait."""

    async def scenario() -> None:
        visible = Clock()
        visibility = Visibility(visible)
        staying = {r: asyncio.create_task(visibility.wait(r)) for r in (1, 2, 2**62)}
        for _ in range(1000):
            passing = [asyncio.create_task(visibility.wait(r)) for r in (1, 2, 2**61)]
            await turns(1)
            for each in passing:
                each.cancel()
            await asyncio.gather(*passing, return_exceptions=True)
            assert len(visibility._waiting) <= 2 * (len(staying) + len(passing))
        visible.revision = 1
        visibility.announce()
        await turns()
        assert {r: each.done() for r, each in staying.items()} == {1: True, 2: False, 2**62: False}
        # A caller that is cancelled while it is woken leaves no entry either.
        visible.revision = 2
        visibility.announce()
        staying[2].cancel()
        await turns()
        staying[2**62].cancel()
        await turns()
        assert not visibility._waiting
        assert visibility.first_awaited > 2**62

    asyncio.run(scenario())


def test_a_question_that_waits_for_its_turn_is_computed_once() -> None:
    """Ten callers that arrive before the computation starts share one answer."""

    async def scenario() -> None:
        visible = Clock()
        queries = QueryThreads(visible, Limits())
        gate = threading.Event()
        calls: list[int] = []

        def compute() -> int:
            gate.wait()
            calls.append(visible.revision)
            return visible.revision

        busy = [asyncio.create_task(queries.run(i, gate.wait)) for i in range(2)]
        await turns()
        asked = []
        for revision in range(10):
            visible.revision = revision
            asked.append(asyncio.create_task(queries.run("same", compute)))
            await turns()
        asked[0].cancel()
        gate.set()
        assert await asyncio.gather(*asked[1:]) == [9] * 9
        assert calls == [9]
        await asyncio.gather(*busy)
        queries.stop()

    asyncio.run(scenario())


def test_a_running_computation_is_shared_only_until_something_is_applied() -> None:
    """An answer includes what was visible when its query arrived."""

    async def scenario() -> None:
        visible = Clock()
        queries = QueryThreads(visible, Limits())
        gate = threading.Event()
        begun = threading.Semaphore(0)

        def compute() -> int:
            seen = visible.revision
            begun.release()
            gate.wait()
            return seen

        first = asyncio.create_task(queries.run("same", compute))
        await asyncio.to_thread(begun.acquire)
        also = asyncio.create_task(queries.run("same", compute))
        await turns()
        visible.revision = 1
        later = asyncio.create_task(queries.run("same", compute))
        await asyncio.to_thread(begun.acquire)
        gate.set()
        assert await asyncio.gather(first, also, later) == [0, 0, 1]
        queries.stop()

    asyncio.run(scenario())


def test_long_answers_do_not_hold_up_short_ones() -> None:
    """Long computations wait for each other, however many there are."""

    async def scenario() -> None:
        queries = QueryThreads(Clock(), Limits())
        gate = threading.Event()
        long = [
            asyncio.create_task(queries.run(("long", i), gate.wait, is_long=True)) for i in range(5)
        ]
        await turns()
        assert await queries.run("short", lambda: 7) == 7
        gate.set()
        assert all(await asyncio.gather(*long))
        queries.stop()

    asyncio.run(scenario())


def test_an_abandoned_computation_stops() -> None:
    """A running one stops between two windows, and a queued one never starts."""

    async def scenario() -> None:
        queries = QueryThreads(Clock(), Limits())
        begun, go_on, stopped = threading.Event(), threading.Event(), threading.Event()
        computed = []

        def compute() -> None:
            begun.set()
            go_on.wait(30)
            try:
                queries.check()
            except QueryAbandonedError:
                stopped.set()
                raise
            computed.append("running")

        callers = [
            asyncio.create_task(queries.run("running", compute, is_long=True)) for _ in range(2)
        ]
        waits = asyncio.create_task(
            queries.run("waiting", lambda: computed.append("waiting"), is_long=True)
        )
        assert await asyncio.to_thread(begun.wait, 30)
        queries.check()
        callers[0].cancel()
        waits.cancel()
        await turns()
        assert not stopped.is_set(), "a caller still waits"
        callers[1].cancel()
        await turns()
        go_on.set()
        assert await asyncio.to_thread(stopped.wait, 30)
        assert await queries.run("running", lambda: 1, is_long=True) == 1, (
            "the next caller starts anew"
        )
        assert not computed
        queries.stop()

    asyncio.run(scenario())


def test_an_error_reaches_every_caller_of_a_computation() -> None:
    """An error reaches each caller, and the next call computes again."""

    async def scenario() -> None:
        queries = QueryThreads(Clock(), Limits())

        def compute() -> int:
            raise ZeroDivisionError

        for _ in range(2):
            answers = await asyncio.gather(
                queries.run("same", compute), queries.run("same", compute), return_exceptions=True
            )
            assert [type(answer) for answer in answers] == [ZeroDivisionError] * 2
        queries.stop()

    asyncio.run(scenario())


def test_no_ring_is_lost() -> None:
    """The waiter finds everything that was added before a ring."""
    bell = Doorbell()
    work: list[int] = []
    done: list[int] = []

    def wait() -> None:
        while len(done) < 4000:
            bell.wait()
            while work:
                done.append(work.pop())

    def add() -> None:
        for i in range(1000):
            work.append(i)
            bell.ring()

    waiter = threading.Thread(target=wait)
    adders = [threading.Thread(target=add) for _ in range(4)]
    for thread in (waiter, *adders):
        thread.start()
    for thread in (*adders, waiter):
        thread.join(30)
    assert sorted(done) == sorted(list(range(1000)) * 4)


def test_a_fair_lock_passes_a_thread_that_loops() -> None:
    """A thread that takes the lock again at once does not starve the others."""
    lock = FairLock()
    rounds = 0
    stop = threading.Event()

    def loop() -> None:
        nonlocal rounds
        while not stop.is_set():
            with lock:
                rounds += 1
                for _ in range(1000):
                    pass

    thread = threading.Thread(target=loop)
    thread.start()
    waited = []
    for _ in range(50):
        before = rounds
        with lock:
            waited.append(rounds - before)
    stop.set()
    thread.join()
    # One round may be running, and one more may start before this thread queues.
    assert sorted(waited)[25] <= 3, waited


@pytest.mark.parametrize(
    ("limit", "most"), [("max_query", timedelta(seconds=25)), ("max_query_cells", 25)]
)
def test_a_query_above_its_limits_ends_between_two_windows(monkeypatch, limit, most):
    """By time or by the scores that it reads, with the setting to change; others go on."""
    seconds = iter(range(0, 1_000, 10))
    monkeypatch.setattr(query_threads.time, "monotonic", lambda: next(seconds))

    async def scenario() -> None:
        limits = Limits(**{"max_query": "3h", limit: most})
        queries = QueryThreads(Clock(), limits)
        windows: list[int] = []

        def compute() -> None:
            while True:
                queries.check(10)
                windows.append(1)

        with pytest.raises(RequestError, match=f"limits.{limit}") as caught:
            await queries.run("too large", compute, is_long=True)
        assert (caught.value.code, caught.value.reason) == (
            Code.RESOURCE_EXHAUSTED,
            "QUERY_TOO_LARGE",
        )
        assert len(windows) == 2
        assert await queries.run("small", lambda: queries.check(10)) is None
        queries.check(1 << 60)  # outside of a query
        queries.stop()

    asyncio.run(scenario())


def test_queries_under_way_are_counted_by_caller():
    """One too many is refused with a delay, of this caller only; ended ones are forgotten."""
    quota = QueryQuota(2)
    with quota.query("a"), quota.query("b"):
        with quota.query("a"):
            with (
                pytest.raises(RequestError, match="max_queries_per_token") as caught,
                quota.query("a"),
            ):
                pass
            assert caught.value.reason == "TOO_MANY_QUERIES"
            assert caught.value.retry_after_s > 0
            with quota.query("b"):
                pass
        with quota.query("a"):
            pass
    assert quota._under_way == {}
