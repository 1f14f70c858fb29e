"""WatchSnapshot over gRPC: changes, until the watcher, the stream or the server ends it."""

from __future__ import annotations

import contextlib
import time

import grpc
from google.protobuf.duration_pb2 import Duration

from streameval.v1 import ingest_pb2, query_pb2, stream_pb2
from streameval_server.testing import running_server

from .conftest import Wire, failure, selection, send

Code = grpc.StatusCode
HOUR = 3_600


def case(wire: Wire, name: str, score: float) -> int:
    rows = ingest_pb2.Cases(scores=[score], positives=[True])
    return send(wire, name, cases=rows)


def test_watching_tells_what_moved(wire: Wire, fresh: str) -> None:
    """A snapshot at once, later ones with the rows counted since, until it is cancelled."""
    first = case(wire, fresh, 0.5)
    request = query_pb2.WatchSnapshotRequest(
        selection=selection(fresh, last=Duration(seconds=HOUR), min_revision=first),
        metrics=["auc_pr"],
    )
    call = wire.query.WatchSnapshot(request, timeout=60)
    answer = next(call).snapshot
    assert answer.revision >= first
    assert answer.num_positive_ref == 1
    for expected in (2, 3):
        revision = case(wire, fresh, 0.6)
        answer = next(call).snapshot
        assert (answer.revision >= revision, answer.num_positive_ref) == (True, expected)
    call.cancel()


def test_watching_ends_with_the_stream(wire: Wire, fresh: str) -> None:
    """NOT_FOUND after the stream is deleted."""
    chosen = selection(fresh, min_revision=case(wire, fresh, 0.5))
    call = wire.query.WatchSnapshot(query_pb2.WatchSnapshotRequest(selection=chosen), timeout=60)
    next(call)
    wire.streams.DeleteStream(stream_pb2.DeleteStreamRequest(name=fresh), timeout=20)
    assert failure(lambda: next(call)).code == Code.NOT_FOUND


def test_watchers_do_not_hold_up_a_stop() -> None:
    """They get UNAVAILABLE, and the server stops at once."""
    with contextlib.ExitStack() as channels:
        with running_server() as address:
            wire = Wire(channels.enter_context(grpc.insecure_channel(address)))
            chosen = selection("s", min_revision=case(wire, "s", 0.5))
            request = query_pb2.WatchSnapshotRequest(
                selection=chosen, min_interval=Duration(seconds=3600)
            )
            calls = [wire.query.WatchSnapshot(request, timeout=60) for _ in range(5)]
            for call in calls:
                next(call)
            begun = time.monotonic()
        assert time.monotonic() - begun < 5
        for call in calls:
            failed = failure(lambda of=call: next(of))
            assert (failed.code, failed.reason) == (Code.UNAVAILABLE, "SERVER_STOPPING")


def test_a_reader_that_stands_still_is_not_queued_for() -> None:
    """After a long pause, a reader soon gets the newest snapshot."""
    with running_server() as address, grpc.insecure_channel(address) as channel:
        wire = Wire(channel)
        # Every score is a vertex of the hull, so that a snapshot is 800 KB.
        size = 50_000
        scores = [float(-i) for i in range(size)]
        for positive, counts in ((True, [1] * size), (False, range(1, size + 1))):
            rows = ingest_pb2.Cases(scores=scores, positives=[positive] * size, counts=counts)
            revision = send(wire, "s", cases=rows)
        chosen = selection("s", min_revision=revision)
        call = wire.query.WatchSnapshot(
            query_pb2.WatchSnapshotRequest(selection=chosen), timeout=60
        )
        first = next(call)
        assert first.ByteSize() > 500_000
        newest = 0
        for _ in range(25):
            newest = case(wire, "s", 1e6)
            time.sleep(0.1)
        behind = 0
        while next(call).snapshot.revision < newest:
            behind += 1
        # No more than the transport buffers, after any time.
        assert behind < 15
        call.cancel()
