"""Many merges of one call: each counts once, whatever breaks, and a bad one harms no other."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval import Evaluator, InvalidInputError
from streameval.client import (
    AsyncClient,
    Client,
    Merge,
    MergesRefusedError,
    MergeState,
    UnavailableError,
)
from streameval.client._delivery import merge_window
from streameval.v1 import ingest_pb2
from streameval_server._model.server_settings import Settings
from streameval_server.testing import running_server

from .test_client_cuts import Cutter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from .conftest import Wire

TOMORROW = datetime.now(UTC) + timedelta(days=1)


def one(epoch: int, *, negatives: int = 3) -> Evaluator:
    """Return a positive whose score is the epoch, and some negatives."""
    counted = Evaluator()
    counted.add_cases(labels=np.zeros(negatives), scores=np.arange(negatives) - 1e6)
    counted.add_case(True, float(epoch))
    return counted


def merges(source: str, count: int, *, first: int = 1, negatives: int = 3) -> Iterator[Merge]:
    """Yield merges of one source."""
    for epoch in range(first, first + count):
        yield Merge(one(epoch, negatives=negatives), source, epoch)


def counted(client: Client, name: str) -> dict[int, int]:
    """Return how often each epoch counts."""
    points = client.stream(name).evaluator().operating_points()
    pairs = zip(points.thresholds[1:], np.diff(points.tp), strict=True)
    return {int(epoch): int(times) for epoch, times in pairs if times}


def test_many_merges_count_once_each(client: Client) -> None:
    """Of several sources, with states of all kinds; a repetition changes nothing."""
    client.create_stream("many/once", segment_keys=["country"])
    stream = client.stream("many/once")
    now = datetime.now(UTC)
    states = [MergeState(one(7), now, {"country": "DE"}), MergeState(one(7), None)]
    sent = [
        *merges("a", 5),
        Merge(states, "b", 1),
        Merge(one(8), "b", 2, at=now, segments={"country": "US"}),
        # More than one piece.
        Merge(one(9, negatives=400_000), "b", 3),
        *merges("a", 1, first=6),
    ]
    for _ in range(2):
        revision = stream.merge_many(sent)
        snapshot = stream.snapshot()
        assert snapshot.revision >= revision > 0
        assert snapshot.num_cases == 6 * 4 + 2 * 4 + 4 + 400_001
        assert counted(client, "many/once") == {**dict.fromkeys((*range(1, 7), 8, 9), 1), 7: 2}
        assert stream.snapshot(segment=("country", "US")).num_cases == 4
        assert stream.snapshot(window=timedelta(hours=1)).num_cases == 8
    assert stream.merge_many([]) == 0
    # The same epochs as by single merges.
    stream.merge(one(6), source="a", epoch=6)
    assert stream.snapshot().num_cases == snapshot.num_cases


def test_more_merges_than_may_be_under_way(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read from the iterable as others are settled."""
    monkeypatch.setattr(merge_window, "MAX_WINDOW_MERGES", 4)
    stream = client.stream("many/window")
    stream.merge_many(merges("a", 40))
    assert counted(client, "many/window") == dict.fromkeys(range(1, 41), 1)
    monkeypatch.setattr(merge_window, "MAX_WINDOW_MERGES", 512)
    monkeypatch.setattr(merge_window, "MAX_WINDOW_BYTES", 1_000)
    stream.merge_many(merges("a", 40, first=41))
    assert counted(client, "many/window") == dict.fromkeys(range(1, 81), 1)


def test_a_refused_merge_harms_no_other_source(client: Client) -> None:
    """It is named; later ones of its source wait for it, and count when it is corrected."""
    stream = client.stream("many/refused")
    sent = [
        Merge(one(1), "a", 1),
        Merge(one(2), "a", 2, at=TOMORROW),
        Merge(one(11), "b", 1),
        Merge(one(3), "a", 3),
        Merge(one(12), "b", 2),
    ]
    with pytest.raises(MergesRefusedError) as caught:
        stream.merge_many(sent)
    error = caught.value
    assert str(error).startswith(
        "2 merges were refused, all others count; the first is merge 1, epoch 2 of source a: "
    )
    assert (error.num_refused, len(error.refused)) == (2, 2)
    bad, stopped = error.refused
    assert (bad.index, bad.source, bad.epoch, bad.code) == (1, "a", 2, "INVALID_ARGUMENT")
    assert bad.violations[0].field == "states[0].event_time_us"
    assert (stopped.index, stopped.epoch, stopped.reason) == (3, 3, "SOURCE_STOPPED")
    assert stream.snapshot().revision >= error.revision > 0
    assert counted(client, "many/refused") == {1: 1, 11: 1, 12: 1}
    sent[1] = Merge(one(2), "a", 2)
    stream.merge_many(sent)
    assert counted(client, "many/refused") == {1: 1, 2: 1, 3: 1, 11: 1, 12: 1}


def test_an_invalid_merge_is_named_and_those_before_it_are_settled(client: Client) -> None:
    """So are those before an exception of the iterable."""
    stream = client.stream("many/invalid")
    with pytest.raises(InvalidInputError, match=r"merges\[2\]: epoch must be") as caught:
        stream.merge_many([*merges("a", 2), Merge(one(3), "a", 0)])
    assert (caught.value.field, caught.value.index) == ("merges", 2)
    assert counted(client, "many/invalid") == {1: 1, 2: 1}

    def failing() -> Iterator[Merge]:
        yield from merges("a", 1, first=3)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        stream.merge_many(failing())
    assert counted(client, "many/invalid") == {1: 1, 2: 1, 3: 1}
    for wrong, text in (
        (3, "merge_many takes an iterable of Merge, got int"),
        ([one(1)], "merges must be Merges, got Evaluator at index 0"),
        (_forever(), "merges must be an iterable, got an asynchronous one"),
    ):
        with pytest.raises(InvalidInputError, match=text):
            stream.merge_many(wrong)


async def _forever() -> AsyncIterator[Merge]:
    for epoch in range(1, 31):
        await asyncio.sleep(0)
        yield Merge(one(epoch), "async", epoch)


def test_an_async_client_takes_both_kinds_of_iterables(address: str, client: Client) -> None:
    """And raises the same errors."""

    async def run() -> None:
        async with AsyncClient(address) as asynchronous:
            stream = asynchronous.stream("many/async")
            revision = await stream.merge_many(_forever())
            assert (await stream.snapshot()).revision >= revision > 0
            await stream.merge_many(merges("other", 5, first=31))
            with pytest.raises(MergesRefusedError, match="epoch 9 of source c"):
                await stream.merge_many([Merge(one(9), "c", 9, at=TOMORROW)])
            with pytest.raises(InvalidInputError, match="got int at index 1"):
                await stream.merge_many([*merges("d", 1, first=36), 3])

    asyncio.run(run())
    client.stream("many/async").merge(Evaluator(), source="reader", epoch=1)  # all is visible
    assert counted(client, "many/async") == dict.fromkeys(range(1, 37), 1)


def test_merges_wait_for_a_server_that_is_away(free_address: str, tmp_path: Path) -> None:
    """For `timeout_s` without an answer; those that were durable are not counted again."""
    settings = Settings(listen=free_address, data=tmp_path)
    stopped, restart = threading.Event(), threading.Event()

    def serve() -> None:
        restart.wait()
        served.enter_context(running_server(settings))

    def interrupted() -> Iterator[Merge]:
        yield from merges("a", 20)
        first.close()
        stopped.set()
        restart.set()
        yield from merges("a", 20, first=21)

    with Client(free_address) as client, contextlib.ExitStack() as served:
        stream = client.stream("many/away")
        with pytest.raises(UnavailableError):
            stream.merge_many(merges("a", 2), timeout_s=0.3)
        first = contextlib.ExitStack()
        first.enter_context(running_server(settings))
        starting = threading.Thread(target=serve)
        starting.start()
        stream.merge_many(interrupted())
        starting.join()
        assert stopped.is_set()
        assert counted(client, "many/away") == dict.fromkeys(range(1, 41), 1)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_connections_that_are_cut_lose_no_merge(address: str, asynchronous: bool) -> None:
    """Each counts once, at whichever byte connections break; a refused one is still named."""
    seeded = random.Random(7)
    name = f"many/cut-{asynchronous}"
    cutter = Cutter(address, lambda: seeded.randrange(2_000, 20_000))
    bad = {"a": 60, "b": 0}
    sent = [
        Merge(
            one(100 * number + epoch), source, epoch, at=TOMORROW if epoch == bad[source] else None
        )
        for epoch in range(1, 81)
        for number, source in enumerate("ab")
    ]

    async def run() -> None:
        async with AsyncClient(cutter.address) as client:
            await client.stream(name).merge_many(sent)

    def run_blocking() -> None:
        with Client(cutter.address) as client:
            client.stream(name).merge_many(sent)

    with pytest.raises(MergesRefusedError) as caught:
        asyncio.run(run()) if asynchronous else run_blocking()
    assert cutter.cuts > 0
    cutter.close()
    assert [(each.source, each.epoch) for each in caught.value.refused] == [
        ("a", epoch) for epoch in range(60, 81)
    ]
    assert {each.reason for each in caught.value.refused[1:]} == {"SOURCE_STOPPED"}
    with Client(address) as client:
        client.stream(name).merge(Evaluator(), source="reader", epoch=1)  # all before is visible
        expected = [*range(1, 60), *range(101, 181)]
        assert counted(client, name) == dict.fromkeys(expected, 1)


def test_a_call_of_many_merges_ends_with_the_reason(wire: Wire, fresh: str) -> None:
    """When a message is out of place; the merges before it count."""
    with pytest.raises(Exception, match="a merge must begin with its header"):
        list(wire.ingest.MergeMany(iter([ingest_pb2.MergeManyRequest(data=b"x")]), timeout=20))
    header = ingest_pb2.MergeHeader(stream=fresh, source="s", epoch=1)
    requests = [ingest_pb2.MergeManyRequest(header=header)] * 3
    answers = list(wire.ingest.MergeMany(iter(requests), timeout=20))
    assert answers[-1].num_settled == 3
    assert [number for answer in answers for number in answer.duplicates] == [2, 3]
