"""The asyncio client against a real server: the same verbs, the same guarantees."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pytest

from streameval import Evaluator, InvalidInputError
from streameval.client import (
    AsyncClient,
    AsyncStream,
    Client,
    ClientError,
    ClosedError,
    DeadlineError,
    FencedError,
    NotFoundError,
    RowsLostError,
    Stream,
    UnavailableError,
)
from streameval_server import Limits, Settings
from streameval_server.testing import running_server

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

T = TypeVar("T")
HOUR = timedelta(hours=1)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine; nothing may hang, and no task of the client may be left."""

    async def watched() -> T:
        async with asyncio.timeout(60):
            result = await main
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("stream")]
        return result

    return asyncio.run(watched())


@pytest.mark.parametrize(("twin", "kind"), [(AsyncClient, Client), (AsyncStream, Stream)])
def test_the_twins_have_the_same_verbs(twin: type, kind: type) -> None:
    """Both classes have the same public verbs and parameters; those with I/O are awaited."""
    names = {name for name in dir(kind) if not name.startswith("_")}
    assert names == {name for name in dir(twin) if not name.startswith("_")}
    for name in names - {"name"}:
        theirs = inspect.signature(getattr(kind, name)).parameters
        ours = inspect.signature(getattr(twin, name)).parameters
        assert [(p.name, p.kind, p.default) for p in ours.values()] == [
            (p.name, p.kind, p.default) for p in theirs.values()
        ]
    ours = inspect.signature(AsyncClient).parameters.keys()
    assert inspect.signature(Client).parameters.keys() - ours == {"when_full"}


def test_reads_its_own_writes(address: str) -> None:
    """Each snapshot after a flush includes everything before it."""

    async def main() -> None:
        async with AsyncClient(address) as client:
            stream = client.stream("aio/writes")
            for expected in range(1, 30):
                stream.add_case(expected % 2 == 0, float(expected))
                revision = await stream.flush()
                snapshot = await stream.snapshot()
                assert snapshot.num_cases == expected
                assert snapshot.revision >= revision

    run(main())


def test_every_verb(address: str) -> None:
    """Rows by id and time, and every kind of query."""

    async def main() -> None:
        now = datetime.now(UTC)
        async with AsyncClient(address) as client:
            made = await client.create_stream("aio/verbs", segment_keys=["country"])
            assert (await client.get_stream("aio/verbs")).settings == made.settings
            stream = client.stream("aio/verbs")
            assert repr(stream) == f"<AsyncStream 'aio/verbs' of '{address}'>"
            stream.log_cases(
                ids=["a", "b"], scores=[0.9, 0.1], segments={"country": "US"}, at=now - 2 * HOUR
            )
            stream.log("c", 0.5, segments={"country": "DE"})
            stream.label_cases(ids=["a", "b", "c"], labels=[1, 0, 1])
            stream.retract("c")
            stream.add_cases(labels=[1, 0], scores=[2, 1], segments={"country": "DE"})
            stream.add_misses(1)
            await client.flush()
            assert (await stream.snapshot(window=HOUR)).num_scored == 2
            assert (await stream.evaluator(segment=("country", "US"))).num_scored == 2
            assert (await stream.operating_points(window=3 * HOUR)).P == 3
            few = await stream.operating_points(max_points=2)
            assert few.tp[-1] == (await stream.operating_points()).tp[-1]
            assert (await stream.roc_hull()).N == 2
            rows = await stream.series(now - 3 * HOUR, now, timedelta(hours=1))
            assert sum(row.num_cases for row in rows) >= 2
            ranking = await stream.rank_segments("country")
            assert {row.segment[1] for row in ranking} >= {"US", "DE"}
            american = stream.select(segment=("country", "US"))
            found = await client.compare(american, stream, metric="auc_roc")
            assert found.complement
            ev = Evaluator()
            ev.add_case(True, 1.0)
            for _ in range(2):
                await stream.merge(ev, source="edge", epoch=1)
            assert (await stream.snapshot()).num_positive_ref == 4
            changed = await client.update_stream("aio/verbs", relabel_ttl=2 * HOUR)
            assert changed.settings.relabel_ttl == 2 * HOUR
            assert [info.name for info in await client.list_streams("aio/verbs")] == ["aio/verbs"]
            await client.delete_stream("aio/verbs")
            with pytest.raises(NotFoundError):
                await stream.snapshot()
            assert client.statistics().acked == client.statistics().added == 10

    run(main())


def test_watching_sees_what_moves(address: str) -> None:
    """A snapshot at once, then the newest after each change; leaving the loop ends it."""

    async def main() -> None:
        async with AsyncClient(address) as client:
            stream = client.stream("aio/watched")
            stream.add_case(True, 0.9)
            await stream.flush()
            seen = []
            watching = stream.watch()
            async for snapshot in watching:
                seen.append(snapshot.num_cases)
                if len(seen) == 2:
                    break
                stream.add_case(False, 0.1)
                await stream.flush()
            await watching.aclose()
            assert seen == [1, 2]
            with pytest.raises(NotFoundError):
                async for _ in client.stream("no/such").watch():
                    pass

    run(main())


def test_resumes_after_a_restart(free_address: str, tmp_path: Path) -> None:
    """A restarted server gets the rows that it lacks, and none twice."""

    async def main() -> None:
        async with AsyncClient(free_address) as client:
            stream = client.stream("aio/restarted")
            stream.add_cases(labels=[1, 0, 1], scores=[0.1, 0.2, 0.3])
            with pytest.raises(DeadlineError, match=r"^3 rows not durable after 0.1 s"):
                await client.flush(timeout_s=0.1)
            with pytest.raises(UnavailableError):
                await stream.snapshot()
            for round_ in range(2):
                async with served(Settings(listen=free_address, data=tmp_path)):
                    stream.add_cases(labels=[1, 0] * 500, scores=np.arange(1000.0))
                    await stream.flush()
                    assert (await stream.snapshot()).num_cases == 2000 * round_ + 1003
                    # In flight when the server stops, or still in the buffer: both can happen.
                    stream.add_cases(labels=[1, 0] * 500, scores=np.arange(1000.0))
            async with served(Settings(listen=free_address, data=tmp_path)):
                await stream.flush()
                assert (await stream.snapshot()).num_cases == 4003
                assert client.statistics().connections >= 3
                await client.close()

    run(main())


class served:  # noqa: N801 - used like a function
    """Run a server that starts and stops in a thread, so that the event loop keeps running."""

    def __init__(self, settings: Settings) -> None:
        self._running = running_server(settings)

    async def __aenter__(self) -> str:
        return await asyncio.to_thread(self._running.__enter__)

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self._running.__exit__, None, None, None)


def test_what_is_refused_is_reported_once(address: str) -> None:
    """Flush lists a refused batch; the others count."""

    async def main() -> None:
        async with AsyncClient(address) as client:
            client.stream("aio/good").add_case(True, 1.0)
            bad = client.stream("aio/bad")
            bad.log("x", 1.0, at=datetime.now(UTC) + 24 * HOUR)
            with pytest.raises(RowsLostError, match="1 row in 1 batch refused"):
                await client.flush()
            await client.flush()
            assert (await client.stream("aio/good").snapshot()).num_cases == 1
            statistics = client.statistics()
            assert (statistics.acked, statistics.refused, statistics.retried) == (1, 1, 0)

    run(main())


def test_many_batches_within_the_window() -> None:
    """Many more rows than the window holds arrive, with small limits."""
    limits = Limits(max_batch_rows=7, max_batch_bytes=600, max_inflight_bytes=2000)

    async def main() -> None:
        settings = Settings(listen="127.0.0.1:0", memory=True, limits=limits)
        async with served(settings) as address, AsyncClient(address) as client:
            stream = client.stream("aio/small")
            stream.log_cases(ids=[f"order-{i}" for i in range(500)], scores=np.arange(500.0))
            stream.label_cases(ids=[f"order-{i}" for i in range(500)], labels=[1] * 500)
            await stream.flush()
            assert (await stream.snapshot()).num_positive_ref == 500
            await client.close()

    run(main())


def test_a_newer_producer_fences(address: str) -> None:
    """A second user of a producer's name takes it over; the first stops with an error."""

    async def main() -> None:
        older = AsyncClient(address, producer="aio-fenced")
        async with AsyncClient(address, producer="aio-fenced") as newer:
            newer.stream("aio/fenced").add_case(True, 1.0)
            await newer.flush()
        older.stream("aio/fenced").add_case(True, 2.0)
        with pytest.raises(FencedError):
            await older.flush()
        older.stream("aio/fenced").add_case(True, 3.0)
        assert older.statistics().dropped == 2
        with pytest.raises(FencedError):
            await older.close()

    run(main())


def test_a_closed_client_says_so(address: str) -> None:
    """Every verb raises ClosedError after close, also one that is waiting."""

    async def main() -> None:
        client = AsyncClient(address)
        stream = client.stream("aio/closed")
        stream.add_case(True, 1.0)
        await client.flush()

        async def watch() -> None:
            async for _ in stream.watch():
                watching.set()

        watching = asyncio.Event()
        task = asyncio.create_task(watch())
        await watching.wait()
        await client.close()
        await client.close()
        with pytest.raises(ClosedError):
            await task
        with pytest.raises(ClosedError, match=r"^the client is closed$"):
            stream.add_case(True, 1.0)
        with pytest.raises(ClosedError):
            await stream.snapshot()
        assert client.statistics().acked == 1

    run(main())


def test_cancelling_who_waits_changes_nothing(free_address: str) -> None:
    """A cancelled flush, query or watch ends; the rows stay."""

    async def main() -> None:
        client = AsyncClient(free_address)
        stream = client.stream("aio/cancelled")
        stream.add_case(True, 1.0)
        flushing = asyncio.create_task(client.flush())
        await asyncio.sleep(0.05)
        flushing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await flushing
        async with served(Settings(listen=free_address, memory=True)):
            await client.flush()
            watching = asyncio.create_task(anext(aiter(stream.watch(window=HOUR))))
            asking = asyncio.create_task(stream.snapshot())
            await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            assert (await watching).num_cases == 1
            await client.close()

    run(main())


def test_rows_may_come_before_the_loop_and_from_threads(address: str) -> None:
    """Rows added without a loop wait for one; threads may add rows once it runs."""
    client = AsyncClient(address)
    stream = client.stream("aio/threads")
    stream.add_case(True, 1.0)

    async def main() -> None:
        await client.flush()

        def add() -> None:
            for score in range(1000):
                stream.add_case(False, float(score))

        threads = [threading.Thread(target=add) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        await client.flush()
        assert (await stream.snapshot()).num_cases == 4001
        stream.add_case(True, 2.0)
        deadline = time.monotonic() + 20
        while client.statistics().pending and time.monotonic() < deadline:
            await asyncio.sleep(0.01)  # sent although no task waits for it
        assert client.statistics().acked == 4002
        await client.close()

    run(main())


def test_a_client_belongs_to_one_loop(address: str) -> None:
    """Use on another event loop raises ClientError."""
    client = AsyncClient(address)
    client.stream("aio/loops").add_case(True, 1.0)
    run(closing(client))

    async def main() -> AsyncClient:
        other = AsyncClient(address)
        other.stream("aio/loops").add_case(True, 1.0)
        await other.flush()
        return other

    async def again(other: AsyncClient) -> None:
        with pytest.raises(ClientError, match="belongs to one event loop"):
            await other.flush()

    other = asyncio.run(main())
    run(again(other))


async def closing(client: AsyncClient) -> None:
    """Close a client."""
    await client.close()


def test_an_error_inside_with_is_not_masked(free_address: str) -> None:
    """An error inside the block is raised; bad arguments raise the library's errors."""

    async def main() -> None:
        async with AsyncClient(free_address) as client:
            with pytest.raises(InvalidInputError, match="id must not be empty"):
                client.stream("aio/bad").log("", 1.0)
            with pytest.raises(InvalidInputError, match=r"window .1x.: use"):
                await client.stream("aio/bad").snapshot(window="1x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(main())
