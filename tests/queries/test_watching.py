"""Watching: a snapshot at once, then the newest after each change; nothing is held meanwhile."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextlib import aclosing

import pytest
from google.protobuf.duration_pb2 import Duration

from streameval.v1 import query_pb2, types_pb2
from streameval_server import Limits
from streameval_server._model.errors import Code, RequestError
from streameval_server._queries.overview import parse_overview_request
from streameval_server._queries.query_engine import QueryEngine, parse_snapshot_request
from streameval_server._runtime import watch
from streameval_server._runtime.open_calls import OpenCalls
from streameval_server._runtime.query_threads import QueryThreads, Visibility
from streameval_server._runtime.watch import Heartbeat, interval_s, watch_snapshot, watch_snapshots

from .conftest import MINUTE, NOW, Event, View, invalid_field


class Runtime:
    """Stands in for the server: streams that a test changes."""

    def __init__(self) -> None:
        self.revision = 1
        self.clock_us = NOW
        self.views = {"s": View([Event(True, 0.5, NOW)], revision=1)}
        self.looks = 0
        self.calls = OpenCalls()
        self.visibility = Visibility(self.visible_revision)
        self.queries = QueryThreads(self.visible_revision, Limits())
        self.engine = QueryEngine(self.view, lambda: self.clock_us)

    def visible_revision(self) -> int:
        return self.revision

    durable_revision = visible_revision

    async def visible(self, min_revision: int) -> None:
        await self.visibility.wait(min_revision)

    async def answer(self, question, compute):
        return await self.queries.run(question, compute)  # what is durable is visible here

    def view(self, name: str) -> View:
        self.looks += 1
        if name not in self.views:
            raise RequestError(Code.NOT_FOUND, f"no stream {name}", reason="STREAM_NOT_FOUND")
        return self.views[name]

    def move(self, events: list[Event] | None = None, name: str = "s") -> None:
        """Apply an entry: events of a stream, or an entry without an effect."""
        self.revision += 1
        view = self.views.get(name) or View([], stream=name)
        if events is not None:
            view = View([*view.events, *events], stream=name, revision=self.revision)
        view.revision = self.revision
        self.views[name] = view
        self.visibility.announce()

    def watch_many(self, *names: str, pause_s: float = 0.001, **fields):
        request = query_pb2.WatchSnapshotsRequest(streams=names, metrics=["auc_pr"], **fields)
        return aclosing(
            watch_snapshots(
                self,
                parse_overview_request(request),
                pause_s=pause_s,
                heartbeat=Heartbeat(request),
            )
        )

    def watch(
        self,
        *,
        pause_s: float = 0.001,
        min_revision: int = 0,
        heartbeat: Duration | None = None,
        **window,
    ):
        """Yield the snapshots of the answers."""
        request = query_pb2.WatchSnapshotRequest(
            selection=types_pb2.Selection(stream="s", **window),
            metrics=["auc_pr"],
            heartbeat=heartbeat,
        )
        responses = watch_snapshot(
            self,
            parse_snapshot_request(request),
            pause_s=pause_s,
            heartbeat=Heartbeat(request),
            min_revision=min_revision,
        )

        async def snapshots():
            async with aclosing(responses):
                async for response in responses:
                    yield response.snapshot

        return aclosing(snapshots())


def run(scenario) -> None:
    """Run a scenario with a server of its own."""

    async def main() -> None:
        runtime = Runtime()
        try:
            await scenario(runtime)
        finally:
            runtime.queries.stop()

    asyncio.run(asyncio.wait_for(main(), 20))


async def nothing_comes(stream) -> asyncio.Task:
    """Return the pending next answer, after checking that none arrives."""
    coming = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0.05)
    assert not coming.done()
    return coming


async def leave(coming: asyncio.Task) -> None:
    """Cancel the pending answer."""
    coming.cancel()
    await asyncio.wait({coming})


def test_the_first_comes_at_once_and_the_next_when_the_stream_moves() -> None:
    """Changes of other streams cause no snapshot."""

    async def scenario(runtime: Runtime) -> None:
        async with runtime.watch() as stream:
            first = await anext(stream)
            assert (first.revision, first.num_positive_ref) == (1, 1)
            coming = await nothing_comes(stream)
            runtime.move()
            await asyncio.sleep(0.05)
            assert not coming.done()
            runtime.move([Event(True, 0.9, NOW)])
            second = await coming
            assert (second.revision, second.num_positive_ref) == (3, 2)

    run(scenario)


def test_a_slow_reader_gets_the_newest_and_holds_nothing() -> None:
    """While it does not read, nothing is computed, and no counts are kept for it."""

    async def scenario(runtime: Runtime) -> None:
        async with runtime.watch(last=Duration(seconds=3600)) as stream:
            await anext(stream)
            gone = []
            for i in range(20):
                runtime.move([Event(i % 2 == 0, i / 20, NOW)])
                panes = runtime.views["s"].whole.panes
                gone += [weakref.ref(pane.state) for pane in panes]
                await asyncio.sleep(0.002)
            looks = runtime.looks
            await asyncio.sleep(0.05)
            assert runtime.looks == looks == 1
            gc.collect()
            assert [view() is not None for view in gone] == [False] * 19 + [True]
            newest = await anext(stream)
            assert (newest.revision, newest.num_positive_ref) == (21, 11)
            await leave(await nothing_comes(stream))

    run(scenario)


def test_a_window_moves_with_the_clock(monkeypatch) -> None:
    """A window that ends at the clock changes without new cases."""
    monkeypatch.setattr("streameval_server._runtime.watch.CLOCK_INTERVAL_S", 0.02)

    async def scenario(runtime: Runtime) -> None:
        async with runtime.watch(last=Duration(seconds=1)) as stream:
            first = await anext(stream)
            assert first.num_positive_ref == 1
            coming = await nothing_comes(stream)
            runtime.clock_us = NOW + 5 * MINUTE
            second = await coming
            assert second.num_positive_ref == 0
            assert second.window.start_time.ToMicroseconds() > NOW

    run(scenario)


def test_no_more_often_than_asked() -> None:
    """The next answer includes all changes since the last."""

    async def scenario(runtime: Runtime) -> None:
        loop = asyncio.get_running_loop()
        async with runtime.watch(pause_s=0.2) as stream:
            await anext(stream)
            begun = loop.time()
            moving = asyncio.ensure_future(keep_moving(runtime))
            revisions = [(await anext(stream)).revision for _ in range(3)]
            assert loop.time() - begun > 0.5
            assert revisions[2] - revisions[1] > 1
            moving.cancel()

    run(scenario)


async def keep_moving(runtime: Runtime) -> None:
    while True:
        runtime.move([Event(True, 0.5, NOW)])
        await asyncio.sleep(0.01)


def test_it_waits_for_its_first_revision() -> None:
    """As every query does."""

    async def scenario(runtime: Runtime) -> None:
        async with runtime.watch(min_revision=2) as stream:
            coming = await nothing_comes(stream)
            runtime.move([])
            assert (await coming).revision == 2

    run(scenario)


def test_it_ends_with_the_stream_and_with_the_server() -> None:
    """NOT_FOUND once it is deleted; UNAVAILABLE when the server stops, at once."""

    async def scenario(runtime: Runtime) -> None:
        async with runtime.watch() as stream, runtime.watch(pause_s=60.0) as other:
            await anext(stream)
            await anext(other)
            view = runtime.views.pop("s")
            runtime.revision += 1
            runtime.visibility.announce()
            with pytest.raises(RequestError, match="no stream s"):
                await anext(stream)
            runtime.views["s"] = view
            coming = await nothing_comes(other)
            runtime.calls.stop()
            with pytest.raises(RequestError, match="the server is stopping"):
                await coming
            await runtime.calls.ended(5.0)

    run(scenario)


def test_readers_that_leave_are_forgotten() -> None:
    """A call that ends leaves no task and no waiting future behind."""

    async def scenario(runtime: Runtime) -> None:
        for _ in range(3):
            async with runtime.watch() as stream:
                await anext(stream)
                await leave(await nothing_comes(stream))
        runtime.calls.stop()
        await asyncio.wait_for(runtime.calls.ended(5.0), 1.0)
        assert len(asyncio.all_tasks()) <= 2
        assert runtime.visibility.first_awaited > 1 << 62

    run(scenario)


def told(answer: query_pb2.WatchSnapshotsResponse) -> tuple[dict[str, int], list[str]]:
    """Return the positives of each changed stream, and the deleted streams."""
    moved = {each.snapshot.stream: each.snapshot.num_positive_ref for each in answer.snapshots}
    return moved, list(answer.missing)


def test_watching_many_streams_yields_the_changed_ones() -> None:
    """First all streams, then only changed ones, each with its newest snapshot."""

    async def scenario(runtime: Runtime) -> None:
        runtime.move([Event(True, 0.5, NOW), Event(True, 0.6, NOW)], "t")
        async with runtime.watch_many("s", "t") as stream:
            assert told(await anext(stream)) == ({"s": 1, "t": 2}, [])
            coming = await nothing_comes(stream)
            runtime.move([Event(False, 0.1, NOW)], "other")
            await asyncio.sleep(0.05)
            assert not coming.done()
            runtime.move([Event(True, 0.9, NOW)], "t")
            answer = await coming
            assert told(answer) == ({"t": 3}, [])
            # All entries so far are included; those applied during the computation may be.
            assert runtime.revision - 1 <= answer.revision <= runtime.revision
            for i in range(5):
                runtime.move([Event(True, i / 9, NOW)], "t")
            runtime.move([Event(True, 0.9, NOW)])
            assert told(await anext(stream)) == ({"s": 2, "t": 8}, [])
            await leave(await nothing_comes(stream))

    run(scenario)


def test_watched_streams_may_be_deleted_and_created() -> None:
    """A missing stream is reported as gone, once; it may be created again."""

    async def scenario(runtime: Runtime) -> None:
        async with runtime.watch_many("s", "t") as stream:
            assert told(await anext(stream)) == ({"s": 1}, ["t"])
            coming = await nothing_comes(stream)
            runtime.move([Event(True, 0.5, NOW)], "t")
            assert told(await coming) == ({"t": 1}, [])
            del runtime.views["s"]
            runtime.move(name="other")
            assert told(await anext(stream)) == ({}, ["s"])
            await leave(await nothing_comes(stream))

    run(scenario)


def test_watching_streams_that_do_not_exist() -> None:
    """An answer without streams is sent too, and a stop of the server ends the call."""

    async def scenario(runtime: Runtime) -> None:
        async with runtime.watch_many("x") as stream:
            assert told(await anext(stream)) == ({}, ["x"])
            coming = await nothing_comes(stream)
            runtime.calls.stop()
            with pytest.raises(RequestError, match="the server is stopping"):
                await coming

    run(scenario)


def test_intervals() -> None:
    """At least 100 ms, which is what 0 means; a negative one is refused."""
    request = query_pb2.WatchSnapshotRequest()
    assert interval_s(request) == 0.1
    request.min_interval.FromMilliseconds(2_500)
    assert interval_s(request) == 2.5
    request.min_interval.FromMilliseconds(-5)
    assert invalid_field(lambda: interval_s(request)) == (
        "min_interval",
        "min_interval must not be negative, got -0.005 s",
    )


def test_silence_is_broken_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty answers, until the next one that is not; none to a reader that did not ask."""
    monkeypatch.setattr(watch, "MIN_HEARTBEAT_S", 0.01)
    soon = Duration(nanos=1_000)

    async def scenario(runtime: Runtime) -> None:
        async with (
            runtime.watch(heartbeat=soon) as one,
            runtime.watch_many("s", heartbeat=soon) as many,
            runtime.watch() as quiet,
        ):
            assert (await anext(one)).num_positive_ref == 1
            assert len((await anext(many)).snapshots) == 1
            await anext(quiet)
            for _ in range(3):
                assert (await anext(one)).ByteSize() == 0
                assert (await anext(many)).ByteSize() == 0
            coming = await nothing_comes(quiet)
            runtime.move([Event(True, 0.9, NOW)])
            assert (await anext(one)).num_positive_ref == 2
            assert len((await anext(many)).snapshots) == 1
            assert (await coming).num_positive_ref == 2

    run(scenario)


def test_a_heartbeat_is_not_negative() -> None:
    """The refusal names the field."""
    request = query_pb2.WatchSnapshotRequest(heartbeat=Duration(seconds=-1))
    assert invalid_field(lambda: Heartbeat(request))[0] == "heartbeat"
