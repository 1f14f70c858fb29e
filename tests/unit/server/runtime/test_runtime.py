"""The threads around the core, when something goes wrong."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from streameval.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    ingest_pb2,
    ingest_pb2_grpc,
    query_pb2,
    query_pb2_grpc,
    stream_pb2,
    stream_pb2_grpc,
    types_pb2,
)
from streameval_server import Limits, Server, ServerFailedError, Settings
from streameval_server._core.committer import StepResult
from streameval_server._core.engine import Engine
from streameval_server._grpc import server as grpc_server
from streameval_server._grpc.answered_stream import MAX_UNREAD_REQUESTS, AnsweredStream
from streameval_server._ingest.session import IngestSession
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.errors import StorageError
from streameval_server._model.threads import Doorbell
from streameval_server._model.verdict_change import VerdictChange
from streameval_server._queries.stream_summaries import StreamSummaries
from streameval_server._runtime import runtime
from streameval_server._runtime.runtime import Runtime
from streameval_server._state.counting import counts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[tuple[Server, grpc.aio.Channel]]:
    """Run a server and a channel to it."""
    server = Server(settings)
    await server.start()
    try:
        async with grpc.aio.insecure_channel(server.address) as channel:
            yield server, channel
    finally:
        await server.stop()


def batch(sequence: int = 0) -> ingest_pb2.Batch:
    """Return a batch of one case."""
    cases = ingest_pb2.Cases(scores=[0.5], positives=[True])
    return ingest_pb2.Batch(sequence=sequence, stream="s", cases=cases)


class SickDisk(SqliteStorage):
    """A log on a disk that fails for a while."""

    sick = False
    reopened = 0

    def open(self) -> None:
        if type(self).sick:
            raise StorageError("the disk is sick")
        type(self).reopened += 1
        super().open()

    def append(self, rows: Any) -> None:
        if type(self).sick:
            raise StorageError("the disk is sick")
        super().append(rows)


def test_a_failed_commit_is_not_acked_and_the_server_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """NOT_SERVING while the disk fails; afterwards a resumed producer loses nothing."""
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(runtime, "SqliteStorage", SickDisk)
    monkeypatch.setattr(SickDisk, "sick", False)

    async def scenario() -> None:
        settings = Settings(listen="127.0.0.1:0", data=tmp_path)
        async with running(settings) as (_, channel):
            ingest = ingest_pb2_grpc.IngestServiceStub(channel)
            health = health_pb2_grpc.HealthStub(channel)
            watch = health.Watch(health_pb2.HealthCheckRequest()).__aiter__()
            assert (await anext(watch)).status == SERVING
            one = ingest_pb2.IngestBatchRequest(producer="p", epoch=1, batch=batch(1))
            two = ingest_pb2.IngestBatchRequest(producer="p", epoch=1, batch=batch(2))
            assert (await ingest.IngestBatch(one)).revision == 1

            SickDisk.sick = True
            with pytest.raises(grpc.RpcError) as caught:
                await ingest.IngestBatch(two)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
            assert (await anext(watch)).status == NOT_SERVING
            with pytest.raises(grpc.RpcError, match="resume after the last sequence"):
                await ingest.IngestBatch(two)
            # The status says why, and compaction is refused meanwhile.
            admin = admin_pb2_grpc.AdminServiceStub(channel)
            status = await admin.GetServerStatus(admin_pb2.GetServerStatusRequest())
            assert (status.serving, status.problem) == (False, "the disk is sick")
            assert status.warnings[0] == ("commits fail, nothing is acknowledged: the disk is sick")
            assert status.ack_wait.reason == "disk"
            with pytest.raises(grpc.RpcError) as caught:
                await admin.CompactLog(admin_pb2.CompactLogRequest())
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
            # What was visible stays visible.
            query = query_pb2_grpc.QueryServiceStub(channel)
            selection = types_pb2.Selection(stream="s", min_revision=1)
            request = query_pb2.GetSnapshotRequest(selection=selection)
            assert (await query.GetSnapshot(request)).snapshot.num_positive_ref == 1

            SickDisk.sick = False
            assert (await anext(watch)).status == SERVING
            answer = await ingest.IngestBatch(two)
            assert (answer.revision, answer.duplicate) == (2, False)
            selection.min_revision = 2
            request = query_pb2.GetSnapshotRequest(selection=selection)
            assert (await query.GetSnapshot(request)).snapshot.num_positive_ref == 2

    asyncio.run(scenario())
    assert SickDisk.reopened >= 2
    said = [record.message for record in caplog.records]
    assert said[0] == "a commit failed, its fate is unknown: the disk is sick"
    assert said[-1] == "the log is open again, at revision 1"


def test_acked_rows_are_visible_to_other_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query for a stream that is durable but not applied yet waits, without a revision."""
    may_apply = threading.Event()
    wait = Doorbell.wait

    def late(bell: Doorbell, timeout_s: float | None = None) -> bool:
        rung = wait(bell, timeout_s)
        if threading.current_thread().name == "applier":
            assert may_apply.wait(30)
        return rung

    monkeypatch.setattr(Doorbell, "wait", late)

    async def scenario(channel: grpc.aio.Channel) -> None:
        ingest = ingest_pb2_grpc.IngestServiceStub(channel)
        query = query_pb2_grpc.QueryServiceStub(channel)
        streams = stream_pb2_grpc.StreamServiceStub(channel)
        admin = admin_pb2_grpc.AdminServiceStub(channel)
        selection = types_pb2.Selection(stream="s")
        many = {"streams": ["s", "missing"], "metrics": ["prevalence"]}
        request = ingest_pb2.IngestBatchRequest(producer="p", epoch=1, batch=batch(1))
        assert (await ingest.IngestBatch(request)).revision == 1
        asked = [
            asyncio.ensure_future(call)
            for call in (
                streams.GetStream(stream_pb2.GetStreamRequest(name="s")),
                query.GetSnapshot(query_pb2.GetSnapshotRequest(selection=selection)),
                anext(
                    aiter(query.WatchSnapshot(query_pb2.WatchSnapshotRequest(selection=selection)))
                ),
                streams.ListStreams(stream_pb2.ListStreamsRequest()),
                query.BatchGetSnapshots(query_pb2.BatchGetSnapshotsRequest(**many)),
                anext(aiter(query.WatchSnapshots(query_pb2.WatchSnapshotsRequest(**many)))),
                anext(aiter(admin.ExportStream(admin_pb2.ExportStreamRequest(name="s")))),
                streams.GetStream(stream_pb2.GetStreamRequest(name="missing")),
            )
        ]
        # Near its deadline a call ends with what is durable and what is visible.
        selection = types_pb2.Selection(stream="s", min_revision=1)
        with pytest.raises(grpc.RpcError) as caught:
            await query.GetSnapshot(query_pb2.GetSnapshotRequest(selection=selection), timeout=1)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert "durable up to revision 1, answers include revisions up to 0" in (
            caught.value.details()
        )
        assert "1 rows are behind" in caught.value.details()
        _, waiting = await asyncio.wait(asked, timeout=0.2)
        assert len(waiting) == len(asked)
        may_apply.set()
        one, snapshot, seen, listed, batched, watched, exported, missing = await asyncio.gather(
            *asked, return_exceptions=True
        )
        assert [one.stream.name, *(each.name for each in listed.streams)] == ["s", "s"]
        assert snapshot.snapshot.revision == seen.snapshot.revision == exported.revision == 1
        for found in (batched, watched):
            assert [each.snapshot.stream for each in found.snapshots] == ["s"]
        assert list(watched.missing) == ["missing"]
        assert missing.code() is grpc.StatusCode.NOT_FOUND

        # An export includes the last batch.
        may_apply.clear()
        request.batch.sequence = 2
        assert (await ingest.IngestBatch(request)).revision == 2
        export = asyncio.ensure_future(
            anext(aiter(admin.ExportStream(admin_pb2.ExportStreamRequest(name="s"))))
        )
        _, waiting = await asyncio.wait([export], timeout=0.2)
        assert waiting
        may_apply.set()
        assert (await export).revision == 2

    async def main() -> None:
        async with running(Settings(listen="127.0.0.1:0", memory=True)) as (_, channel):
            try:
                await scenario(channel)
            finally:
                may_apply.set()

    asyncio.run(main())


def test_what_cannot_be_applied_stops_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Calls end, health reports NOT_SERVING, and the log still has what was acked."""
    settings = Settings(listen="127.0.0.1:0", data=tmp_path)

    def broken(_engine: Engine, _entries: object, **_how: bool) -> None:
        raise ArithmeticError("two and two is five")

    async def scenario() -> None:
        async with running(settings) as (server, channel):
            ingest = ingest_pb2_grpc.IngestServiceStub(channel)
            call = ingest.Ingest()
            opened = ingest_pb2.Open(producer="p", epoch=1)
            await call.write(ingest_pb2.IngestRequest(open=opened))
            await call.read()
            query = query_pb2_grpc.QueryServiceStub(channel)
            opening = types_pb2.Selection(stream="s", min_revision=1)
            with pytest.raises(grpc.RpcError, match="no stream"):  # once the opening is applied
                await query.GetSnapshot(query_pb2.GetSnapshotRequest(selection=opening))
            with monkeypatch.context() as patch:
                patch.setattr(Engine, "apply", broken)
                await call.write(ingest_pb2.IngestRequest(batch=batch(1)))
                with pytest.raises(
                    ServerFailedError, match="the applier failed with ArithmeticError: see the log"
                ):
                    await server.wait_failed()
                with pytest.raises(grpc.RpcError, match="the server is stopping") as caught:
                    await _read_to_the_end(call)
                assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
                health = health_pb2_grpc.HealthStub(channel)
                answer = await health.Check(health_pb2.HealthCheckRequest())
                assert answer.status == NOT_SERVING
                query = query_pb2_grpc.QueryServiceStub(channel)
                selection = types_pb2.Selection(stream="s", min_revision=2)
                with pytest.raises(grpc.RpcError, match="the server is stopping"):
                    await query.GetSnapshot(query_pb2.GetSnapshotRequest(selection=selection))

    async def afterwards() -> None:
        async with running(settings) as (_, channel):
            query = query_pb2_grpc.QueryServiceStub(channel)
            selection = types_pb2.Selection(stream="s", min_revision=2)
            request = query_pb2.GetSnapshotRequest(selection=selection)
            assert (await query.GetSnapshot(request)).snapshot.num_positive_ref == 1

    asyncio.run(scenario())
    assert "the applier failed; stopping" in {record.message for record in caplog.records}
    asyncio.run(afterwards())


def test_a_query_that_leaves_the_state_half_changed_stops_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query counts the rows that wait: without memory for it they must not be gone."""
    settings = Settings(listen="127.0.0.1:0", data=tmp_path)
    count_effects = counts.StreamCounts._count_effects

    def fail_once(*_arguments: Any) -> None:
        monkeypatch.setattr(counts.StreamCounts, "_count_effects", count_effects)
        raise MemoryError

    async def ask(channel: grpc.aio.Channel) -> int:
        query = query_pb2_grpc.QueryServiceStub(channel)
        selection = types_pb2.Selection(stream="s", min_revision=2)
        request = query_pb2.GetSnapshotRequest(selection=selection)
        return (await query.GetSnapshot(request)).snapshot.num_positive_ref

    async def scenario() -> None:
        async with running(settings) as (server, channel):
            ingest = ingest_pb2_grpc.IngestServiceStub(channel)
            predicted = ingest_pb2.Batch(
                stream="s", predictions=ingest_pb2.Predictions(ids=["a"], scores=[0.5])
            )
            labelled = ingest_pb2.Batch(
                stream="s", labels=ingest_pb2.Labels(ids=["a"], positives=[True])
            )
            for each in (predicted, labelled):
                await ingest.IngestBatch(ingest_pb2.IngestBatchRequest(batch=each))
            monkeypatch.setattr(counts.StreamCounts, "_count_effects", fail_once)
            with pytest.raises(grpc.RpcError):
                await ask(channel)
            with pytest.raises(ServerFailedError, match="failed with MemoryError: see the log"):
                await asyncio.wait_for(server.wait_failed(), 20)
            with pytest.raises(grpc.RpcError):
                await ask(channel)

    async def afterwards() -> None:
        async with running(settings) as (_, channel):
            assert await ask(channel) == 1

    asyncio.run(scenario())
    asyncio.run(afterwards())


def test_an_outcome_that_cannot_be_delivered_stops_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else would answer the calls that wait for it."""

    def fail(_result: StepResult) -> None:
        raise MemoryError

    async def scenario() -> None:
        async with running(Settings(listen="127.0.0.1:0", data=tmp_path)) as (server, channel):
            ingest = ingest_pb2_grpc.IngestServiceStub(channel)
            with monkeypatch.context() as patch:
                patch.setattr(StepResult, "deliver", fail)
                request = ingest_pb2.IngestBatchRequest(batch=batch())
                with pytest.raises(grpc.RpcError, match="the server is stopping"):
                    await ingest.IngestBatch(request, timeout=20)
                with pytest.raises(ServerFailedError, match="failed with MemoryError: see the log"):
                    await server.wait_failed()

    asyncio.run(scenario())


async def _read_to_the_end(call: grpc.aio.StreamStreamCall) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass


def test_a_stop_does_not_wait_for_health_watches() -> None:
    """A health watch, which stays open for ever, gets the new status and ends."""

    async def scenario() -> None:
        server = Server(Settings(listen="127.0.0.1:0", memory=True, stop_grace="10m"))
        await server.start()
        async with grpc.aio.insecure_channel(server.address) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            watch = health.Watch(health_pb2.HealthCheckRequest()).__aiter__()
            assert (await anext(watch)).status == SERVING
            await server.stop()
            assert (await anext(watch)).status == NOT_SERVING
            with pytest.raises(grpc.RpcError):
                await anext(watch)

    asyncio.run(scenario())


def test_a_verdict_that_a_stop_overtakes_is_no_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next server writes it; its task ends instead of asking again."""
    changed = [("a", VerdictChange(called="worse"))]

    async def scenario() -> None:
        async with running(Settings(listen="127.0.0.1:0", memory=True)) as (server, _):
            await server.begin_stop()
            monkeypatch.setattr(Runtime, "uncalled_verdicts", lambda *_: changed)
            monkeypatch.setattr(grpc_server, "_CALL_VERDICTS_S", 0)
            await asyncio.wait_for(server._call_verdicts(), 20)

    asyncio.run(scenario())
    assert not caplog.records


class DeafContext:
    """A call whose client reads no answers until the test lets it."""

    def __init__(self) -> None:
        self.listens = asyncio.Event()
        self.answers: list[ingest_pb2.IngestResponse] = []

    async def write(self, answer: ingest_pb2.IngestResponse) -> None:
        await self.listens.wait()
        self.answers.append(answer)


@pytest.mark.parametrize("good", [True, False])
def test_a_client_that_never_reads_costs_nothing(good: bool) -> None:
    """Acks accumulate as one number, and unread refusals stop the server from reading."""
    read = 0
    total = 5 * MAX_UNREAD_REQUESTS

    async def requests() -> AsyncIterator[bytes]:
        nonlocal read
        opened = ingest_pb2.Open(producer="deaf", epoch=1)
        yield ingest_pb2.IngestRequest(open=opened).SerializeToString()
        for sequence in range(1, total + 1):
            read = sequence
            frame = ingest_pb2.IngestRequest(batch=batch(sequence))
            if not good:
                frame.batch.cases.scores[0] = np.nan
            yield frame.SerializeToString()
            await asyncio.sleep(0)

    async def scenario() -> None:
        runtime = Runtime(None, Limits())
        await runtime.start(on_serving=lambda _: None)
        context = DeafContext()
        stream: AnsweredStream[bytes] = AnsweredStream(runtime)
        session = IngestSession(runtime.core.committer, Limits(), stream.wake)

        def feed(frame: bytes) -> None:
            session.feed(frame, runtime.now_us())

        reading = asyncio.create_task(stream.read(session, requests(), feed))

        async def write() -> None:
            async for reply in stream.replies(session):
                await context.write(reply)

        writing = asyncio.create_task(write())
        # Wait until the server has stopped reading and everything is settled.
        while read < MAX_UNREAD_REQUESTS or not session.idle:
            await asyncio.sleep(0)
        for _ in range(1000):
            await asyncio.sleep(0)
        assert read <= 2 * MAX_UNREAD_REQUESTS
        assert len(session._replies) <= 2 * MAX_UNREAD_REQUESTS
        context.listens.set()
        await writing
        await reading
        kinds = [answer.WhichOneof("message") for answer in context.answers]
        assert kinds.count("refused") == (0 if good else total)
        assert context.answers[-1].ack.last_sequence == total
        await runtime.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize("query", ["view", "waiting"])
def test_panes_that_a_query_counted_are_packed_though_no_rows_follow(
    query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The applier sleeps then: each query wakes it, whatever it asks for."""
    packed = threading.Event()
    count = Engine.count

    def counting(engine: Engine) -> None:
        count(engine)
        if not engine.has_collected:
            packed.set()

    monkeypatch.setattr(Engine, "count", counting)
    # The background's queries for the list of streams would come first, and wake it too.
    monkeypatch.setattr(StreamSummaries, "step", lambda _summaries: 3_600.0)

    async def scenario() -> None:
        async with running(Settings(listen="127.0.0.1:0", memory=True)) as (server, channel):
            ingest = ingest_pb2_grpc.IngestServiceStub(channel)
            now_us = time.time_ns() // 1_000
            for stream in ("s", "t"):
                rows = ingest_pb2.Cases(scores=[0.5] * 5, positives=[True] * 5)
                rows.event_times_us.extend(now_us - minute * 60_000_000 for minute in range(5))
                given = ingest_pb2.Batch(stream=stream, cases=rows)
                answer = await ingest.IngestBatch(ingest_pb2.IngestBatchRequest(batch=given))
            await server.runtime.visible(answer.revision)
            assert not packed.is_set()
            for stream in ("s", "t"):
                await asyncio.to_thread(getattr(server.runtime, query), stream)
                assert await asyncio.to_thread(packed.wait, 10)
                packed.clear()

    asyncio.run(scenario())


def test_collected_rows_are_counted_in_idle_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that queries and acks do not wait for all of it at once."""
    monkeypatch.setattr(counts, "MIN_IDLE_COUNT_ROWS", 3)
    # A query for the list of streams would count them first.
    monkeypatch.setattr(StreamSummaries, "step", lambda _summaries: 3_600.0)
    counted = threading.Event()
    count = Engine.count

    def counting(engine: Engine) -> None:
        assert engine.has_collected
        count(engine)
        assert not engine.has_collected
        counted.set()

    monkeypatch.setattr(Engine, "count", counting)

    async def scenario() -> None:
        async with running(Settings(listen="127.0.0.1:0", memory=True)) as (_, channel):
            ingest = ingest_pb2_grpc.IngestServiceStub(channel)
            for _ in range(2):
                await ingest.IngestBatch(ingest_pb2.IngestBatchRequest(batch=batch()))
            assert not counted.is_set()
            await ingest.IngestBatch(ingest_pb2.IngestBatchRequest(batch=batch()))
            assert await asyncio.to_thread(counted.wait, 10)

    asyncio.run(scenario())
