"""Examples of the client for the type checker; never run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import assert_type

from streameval import Evaluator, Snapshot
from streameval.client import (
    AsyncClient,
    Client,
    SegmentRanking,
    StreamComparison,
    StreamInfo,
    StreamSeries,
)


def thread() -> None:
    with Client("localhost:50051") as client:
        info = client.create_stream(
            "fraud/v3", pane=timedelta(minutes=5), orphans="miss", segment_keys=["country"]
        )
        assert_type(info, StreamInfo)
        client.update_stream("fraud/v3", label_ttl=timedelta(days=7))
        stream = client.stream("fraud/v3")
        now = datetime.now(UTC)
        stream.log("order-17", 0.93, at=now, segments={"country": "US"})
        stream.label(b"order-17", True)
        stream.label_cases(ids=["a"], labels=[True], scores=[0.4], at=now)
        stream.merge(Evaluator(), source="edge-7", epoch=1)
        assert_type(stream.flush(), int)
        assert_type(stream.snapshot(window=timedelta(hours=1)), Snapshot)
        assert_type(stream.snapshot(window=(now, now), segment=("country", "US")), Snapshot)
        assert_type(stream.evaluator(window=1000), Evaluator)
        assert_type(stream.rank_segments("country"), SegmentRanking)
        series = stream.series(now, now, timedelta(hours=1))
        assert_type(series, StreamSeries)
        assert_type(series[0], Snapshot)
        found = client.compare(stream.select(segment=("country", "US")), "fraud/v2")
        assert_type(found, StreamComparison)
        assert_type(found.difference, float)
        for snapshot in stream.watch():
            assert_type(snapshot, Snapshot)


def servers() -> None:
    with Client(["eval-1:50051", "eval-2:50051"]) as client:
        assert_type(client.evaluator("fraud/v3", window=timedelta(hours=1)), Evaluator)
        for shard in client.shards("fraud/v3"):
            shard.add_case(True, 0.5)


async def task() -> None:
    async with AsyncClient("localhost:50051") as client:
        await client.create_stream("fraud/v3", scale="probability")
        stream = client.stream("fraud/v3")
        stream.log("order-17", 0.93)
        stream.add_case(True, 0.5)
        assert_type(await stream.flush(), int)
        assert_type(await stream.snapshot(half_life=timedelta(days=1)), Snapshot)
        async for snapshot in stream.watch():
            assert_type(snapshot, Snapshot)
