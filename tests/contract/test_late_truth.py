"""Predictions, labels, segments, settings and merges over gRPC."""

from __future__ import annotations

import threading
import time
import zlib
from typing import TYPE_CHECKING

import grpc
import pytest

from streameval import Evaluator
from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import query_pb2, stream_pb2, types_pb2

from .conftest import Wire, failure

if TYPE_CHECKING:
    from collections.abc import Iterator

Code = grpc.StatusCode
US = types_pb2.Segment(key="country", value="US")


def created(wire: Wire, name: str, **settings: object) -> stream_pb2.Stream:
    """Make a stream."""
    stream = stream_pb2.Stream(name=name, settings=stream_pb2.StreamSettings(**settings))
    return wire.streams.CreateStream(stream_pb2.CreateStreamRequest(stream=stream)).stream


def snapshot(wire: Wire, revision: int, **selection: object) -> types_pb2.Snapshot:
    """Return the figures of a selection."""
    chosen = types_pb2.Selection(min_revision=revision, **selection)
    return wire.query.GetSnapshot(query_pb2.GetSnapshotRequest(selection=chosen)).snapshot


def counts(found: types_pb2.Snapshot) -> tuple[int, int]:
    """Return the references of each class."""
    return found.num_positive_ref, found.num_negative_ref


def test_labels_meet_predictions_in_either_order(wire: Wire, fresh: str) -> None:
    """They count in the pane and slices of the prediction; coverage counts missing labels."""
    created(wire, fresh, segment_keys=["country"])
    then = time.time_ns() // 1000 - 2 * 3_600_000_000
    country = pb.SegmentColumn(key="country", values=["US", "DE"], codes=[0, 1, 0])
    batches = [
        pb.Batch(
            sequence=1,
            stream=fresh,
            predictions=pb.Predictions(
                ids=["a", "b", "c"],
                scores=[0.9, 0.2, 0.7],
                event_times_us=[then],
                segments=[country],
            ),
        ),
        pb.Batch(
            sequence=2, stream=fresh, labels=pb.Labels(ids=["a", "b", "d"], positives=[1, 0, 1])
        ),
        pb.Batch(sequence=3, stream=fresh, predictions=pb.Predictions(ids=["d"], scores=[0.1])),
    ]
    revision = wire.sent(fresh, batches)[-1].ack.revision
    whole = snapshot(wire, revision, stream=fresh)
    assert counts(whole) == (2, 1)
    assert whole.coverage.predictions == 4
    assert (whole.coverage.labelled, whole.coverage.pending) == (3, 1)
    assert counts(snapshot(wire, revision, stream=fresh, segment=US)) == (1, 0)
    last = snapshot(wire, revision, stream=fresh, last={"seconds": 3600})
    assert counts(last) == (1, 0)
    hour = types_pb2.Selection(stream=fresh, last={"seconds": 3600})
    (piece,) = wire.query.GetState(query_pb2.GetStateRequest(selection=hour))
    assert piece.coverage == last.coverage
    assert piece.coverage.predictions == 1
    relabelled = pb.Batch(stream=fresh, labels=pb.Labels(ids=["a"], positives=[False]))
    revision = wire.one(relabelled).revision
    assert counts(snapshot(wire, revision, stream=fresh)) == (1, 2)
    retracted = pb.Batch(stream=fresh, retractions=pb.Retractions(ids=["a", "unknown"]))
    revision = wire.one(retracted).revision
    after = snapshot(wire, revision, stream=fresh)
    assert counts(after) == (1, 1)
    assert after.coverage.retracted == 1
    counters = wire.streams.GetStream(stream_pb2.GetStreamRequest(name=fresh)).stream.counters
    assert (counters.relabelled, counters.unknown_retractions, counters.kept_ids) == (1, 1, 3)


def test_settings_are_shown_complete_and_change_by_mask(wire: Wire, fresh: str) -> None:
    """Settings that were not given have their defaults; others change by the mask."""
    made = created(wire, fresh, retention={"seconds": 86_400})
    assert made.settings.retention.seconds == 86_400
    assert made.settings.label_ttl.seconds == 86_400
    assert made.settings.pane.seconds == 60
    request = stream_pb2.UpdateStreamRequest(stream=stream_pb2.Stream(name=fresh))
    request.stream.settings.label_ttl.seconds = 3600
    request.stream.settings.segment_keys.append("country")
    request.update_mask.paths.extend(["settings.label_ttl", "settings.segment_keys"])
    changed = wire.streams.UpdateStream(request)
    assert changed.stream.settings.label_ttl.seconds == 3600
    assert changed.stream.settings.retention.seconds == 86_400
    found = wire.streams.GetStream(stream_pb2.GetStreamRequest(name=fresh))
    assert found.stream.settings == changed.stream.settings
    assert found.revision >= changed.revision
    request.stream.settings.pane.seconds = 3600
    request.update_mask.paths.append("settings.pane")
    refused = failure(lambda: wire.streams.UpdateStream(request))
    assert refused.code == Code.FAILED_PRECONDITION
    assert refused.fields == [
        ("stream.settings.pane", "pane cannot change: panes cannot be divided")
    ]
    request.stream.name = f"{fresh}/absent"
    assert failure(lambda: wire.streams.UpdateStream(request)).code == Code.NOT_FOUND
    bad = stream_pb2.Stream(name=f"{fresh}/bad")
    bad.settings.resolution = 99
    refused = failure(lambda: wire.streams.CreateStream(stream_pb2.CreateStreamRequest(stream=bad)))
    assert refused.fields == [
        ("stream.settings.resolution", "resolution must be from 1 to 53, got 99")
    ]


@pytest.mark.parametrize(
    ("path", "settings", "text"),
    [
        (
            "pane",
            {"pane": {"seconds": 3600}},
            "pane cannot change: panes cannot be divided",
        ),
        (
            "resolution",
            {"resolution": 8},
            "resolution cannot change: panes have dropped the other bits",
        ),
        (
            "scale",
            {"scale": stream_pb2.SCALE_PROBABILITY},
            "scale cannot change: panes have dropped the scores",
        ),
        (
            "segment_keys",
            {"segment_keys": ["plan"]},
            "segment_keys can only be added: 'country' has slices already",
        ),
    ],
)
def test_what_cannot_change_says_why(
    wire: Wire, fresh: str, path: str, settings: dict[str, object], text: str
) -> None:
    """The error gives the reason, and no setting of the request changes."""
    created(wire, fresh, segment_keys=["country"])
    request = stream_pb2.UpdateStreamRequest(
        stream=stream_pb2.Stream(
            name=fresh, settings=stream_pb2.StreamSettings(max_pending=5, **settings)
        )
    )
    request.update_mask.paths.extend(["settings.max_pending", f"settings.{path}"])
    refused = failure(lambda: wire.streams.UpdateStream(request))
    assert (refused.code, refused.fields) == (
        Code.FAILED_PRECONDITION,
        [(f"stream.settings.{path}", text)],
    )
    found = wire.streams.GetStream(stream_pb2.GetStreamRequest(name=fresh))
    assert found.stream.settings.max_pending == 2_000_000


@pytest.mark.parametrize("paths", [[], ["settings.color"], ["name"]])
def test_masks_name_settings(wire: Wire, fresh: str, paths: list[str]) -> None:
    """An empty mask does not mean all settings, and unknown names are refused."""
    created(wire, fresh)
    request = stream_pb2.UpdateStreamRequest(stream=stream_pb2.Stream(name=fresh))
    request.update_mask.paths.extend(paths)
    refused = failure(lambda: wire.streams.UpdateStream(request))
    assert refused.code == Code.INVALID_ARGUMENT
    assert refused.fields[0][0] == "update_mask"


def merge_requests(
    stream: str, epoch: int, evaluator: Evaluator, *, size: int = 50, **header: object
) -> Iterator[pb.MergeRequest]:
    """Yield a merge of one state."""
    at = time.time_ns() // 1000
    state = pb.PaneState(event_time_us=at, evaluator=evaluator.to_bytes())
    data = pb.MergeStates(states=[state]).SerializeToString()
    fields = {"total_bytes": len(data), "crc32": zlib.crc32(data)} | header
    yield pb.MergeRequest(
        header=pb.MergeHeader(stream=stream, source="edge", epoch=epoch, **fields)
    )
    for start in range(0, len(data), size):
        yield pb.MergeRequest(data=data[start : start + size])


@pytest.fixture
def counted() -> Evaluator:
    """Return an evaluator with a few cases."""
    evaluator = Evaluator()
    evaluator.add_cases(labels=[1, 0, 0], scores=[0.9, 0.5, 0.1])
    return evaluator


def test_merges_count_once(wire: Wire, fresh: str, counted: Evaluator) -> None:
    """An epoch that is not above the last is a duplicate; the counts are visible."""
    first = wire.ingest.Merge(merge_requests(fresh, 1, counted))
    assert (first.duplicate, first.revision > 0) == (False, True)
    assert counts(snapshot(wire, 0, stream=fresh)) == (1, 2)
    again = wire.ingest.Merge(merge_requests(fresh, 1, counted))
    assert again.duplicate
    assert again.revision >= first.revision
    wire.ingest.Merge(merge_requests(fresh, 2, counted))
    assert counts(snapshot(wire, 0, stream=fresh)) == (2, 4)
    assert counts(snapshot(wire, 0, stream=fresh, last={"seconds": 600})) == (2, 4)


def test_a_merge_that_breaks_off_changes_nothing(
    wire: Wire, fresh: str, counted: Evaluator
) -> None:
    """Neither when it ends early nor when its bytes differ from the header."""
    requests = list(merge_requests(fresh, 1, counted))
    torn = failure(lambda: wire.ingest.Merge(iter(requests[:-1])))
    assert (torn.code, torn.fields[0][0]) == (Code.INVALID_ARGUMENT, "data")
    altered = failure(lambda: wire.ingest.Merge(merge_requests(fresh, 1, counted, crc32=5)))
    assert (altered.code, altered.fields[0][0]) == (Code.INVALID_ARGUMENT, "header.crc32")
    nothing = failure(lambda: wire.ingest.Merge(iter(())))
    assert nothing.reason == "HEADER_EXPECTED"
    under_way, gone = threading.Event(), threading.Event()

    def hesitating() -> Iterator[pb.MergeRequest]:
        yield from requests[:-1]
        under_way.set()
        gone.wait(20)

    call = wire.ingest.Merge.future(hesitating())
    assert under_way.wait(20)
    call.cancel()
    gone.set()
    missing = stream_pb2.GetStreamRequest(name=fresh)
    assert failure(lambda: wire.streams.GetStream(missing)).code == Code.NOT_FOUND
    assert not wire.ingest.Merge(iter(requests)).duplicate
    assert counts(snapshot(wire, 0, stream=fresh)) == (1, 2)


def test_merges_go_with_the_streams_settings(wire: Wire, fresh: str, counted: Evaluator) -> None:
    """States with undeclared keys or times beyond retention are refused, all or none."""
    created(wire, fresh, segment_keys=["country"])
    good = pb.PaneState(evaluator=counted.to_bytes())
    country = types_pb2.Segment(key="country", value="US")
    plan = types_pb2.Segment(key="plan", value="pro")
    for bad, at in (
        (pb.PaneState(segments=[plan], evaluator=counted.to_bytes()), "segments[0].key"),
        (pb.PaneState(event_time_us=1, evaluator=counted.to_bytes()), "event_time_us"),
        (pb.PaneState(segments=[country], evaluator=b"none"), "evaluator"),
    ):
        data = pb.MergeStates(states=[good, bad]).SerializeToString()
        header = pb.MergeHeader(
            stream=fresh, source="edge", epoch=1, total_bytes=len(data), crc32=zlib.crc32(data)
        )
        requests = [pb.MergeRequest(header=header), pb.MergeRequest(data=data)]
        refused = failure(lambda requests=requests: wire.ingest.Merge(iter(requests)))
        assert refused.code == Code.INVALID_ARGUMENT
        assert refused.fields[0][0] == f"states[1].{at}"
    assert counts(snapshot(wire, 0, stream=fresh)) == (0, 0)


def test_a_state_that_was_read_can_be_merged(wire: Wire, fresh: str, counted: Evaluator) -> None:
    """GetState and Merge are inverse."""
    wire.ingest.Merge(merge_requests(fresh, 1, counted))
    request = query_pb2.GetStateRequest(selection=types_pb2.Selection(stream=fresh))
    data = b"".join(piece.data for piece in wire.query.GetState(request))
    copy = f"{fresh}/copy"
    wire.ingest.Merge(merge_requests(copy, 1, Evaluator.from_bytes(data)))
    assert counts(snapshot(wire, 0, stream=copy)) == (1, 2)
