"""Watching the list: known rows at once, then figures; each reader gets what it does not have."""

from __future__ import annotations

from contextlib import aclosing
from datetime import timedelta

import numpy as np
import pytest

from streameval.v1 import overview_pb2
from streameval_server._queries.stream_list import stream_list
from streameval_server._queries.stream_list_request import parse_list_request
from streameval_server._runtime import watch
from streameval_server._runtime.watch import Heartbeat
from streameval_server._runtime.watch_summaries import watch_summaries

from .conftest import View
from .summaries import WINDOW, Server, duration, stream
from .test_watching import Runtime, run

SEED = 20_242


@pytest.fixture
def server() -> Server:
    """Return a server with six streams, of which nothing is known."""
    rng = np.random.default_rng(SEED)
    return Server(*(stream(rng, f"s{number}", 40) for number in range(6)))


def known_list(server: Server) -> overview_pb2.ListStreamSummariesResponse:
    """Return the list of what is known."""
    request = overview_pb2.ListStreamSummariesRequest(last=duration(WINDOW))
    return stream_list(
        server.summaries, lambda _: True, parse_list_request(request), is_known_only=True
    )


def watched(runtime: Runtime, server: Server, **fields: object):
    """Watch a server's list."""
    request = overview_pb2.WatchStreamSummariesRequest(**fields)

    async def compute() -> overview_pb2.ListStreamSummariesResponse:
        return server.list()

    async def known() -> overview_pb2.ListStreamSummariesResponse:
        return known_list(server)

    heartbeat = Heartbeat(request)
    return aclosing(watch_summaries(runtime, compute, known, pause_s=0.001, heartbeat=heartbeat))


def test_the_first_list_waits_for_nothing(server: Server) -> None:
    """Neither for rows that are durable and not applied, nor for figures: these come next."""

    async def scenario(runtime: Runtime) -> None:
        runtime.durable_revision = lambda: runtime.revision + 1_000
        async with watched(runtime, server) as lists:
            first = await anext(lists)
            assert server.read == []
            assert list(first.streams) == sorted(server.views)
            assert (first.list.num_streams, first.list.num_pending) == (6, 6)
            assert all(each.outdated and not each.snapshot.metrics for each in first.list.summaries)
            second = await anext(lists)
            assert list(second.streams) == server.names()
            assert {each.stream: each for each in second.list.summaries} == {
                each.stream: each for each in server.list().summaries
            }

    run(scenario)


def test_what_is_known_is_sent_once(server: Server) -> None:
    """After a first list with all figures, only what changes since comes."""

    async def scenario(runtime: Runtime) -> None:
        known = server.list()
        async with watched(runtime, server) as lists:
            first = await anext(lists)
            assert list(first.list.summaries) == list(known.summaries)
            server.put(stream(np.random.default_rng(SEED + 1), "s3", 60))
            runtime.move()
            second = await anext(lists)
            assert [each.stream for each in second.list.summaries] == ["s3"]
            server.put(View([], stream="new"))
            runtime.move()
            third = await anext(lists)
            assert [each.stream for each in third.list.summaries] == ["new"]
            assert set(third.streams) == set(server.views)

    run(scenario)


def test_silence_is_broken_where_it_is_asked_for(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By empty answers, until the list changes."""
    monkeypatch.setattr(watch, "MIN_HEARTBEAT_S", 0.01)

    async def scenario(runtime: Runtime) -> None:
        server.list()
        async with watched(runtime, server, heartbeat=duration(timedelta(microseconds=1))) as lists:
            await anext(lists)
            for _ in range(3):
                assert (await anext(lists)).ByteSize() == 0
            server.put(stream(np.random.default_rng(SEED + 1), "s3", 60))
            runtime.move()
            changed = await anext(lists)
            assert [each.stream for each in changed.list.summaries] == ["s3"]

    run(scenario)


def test_the_background_work_gives_way_to_a_list(server: Server) -> None:
    """A step computes nothing further while a list is answered, and goes on after it."""
    server.summaries.step()
    server.list()
    rng = np.random.default_rng(SEED + 2)
    for name in list(server.views):
        server.put(stream(rng, name, 40))
    server.read.clear()
    with server.summaries.answering():
        server.summaries.step()
        assert server.read == []
    for _ in range(100):
        server.summaries.step()
        if set(server.read) == set(server.views):
            return
    raise AssertionError("the steps after it compute nothing")
