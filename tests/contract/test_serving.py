"""Revisions, pages, curves, states, health, reflection of a server."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor_database import DescriptorDatabase
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2

from streameval import Evaluator
from streameval.statistics import Place
from streameval.v1 import ingest_pb2, query_pb2, stream_pb2, types_pb2
from streameval_server import Limits, Settings
from streameval_server._grpc import server
from streameval_server.testing import running_server

from .conftest import Wire, failure, selection

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVICES = [f"streameval.v1.{name}Service" for name in ("Ingest", "Query", "Stream")]
Reason = types_pb2.UndefinedReason


def cases(stream: str, labels: np.ndarray, scores: np.ndarray) -> ingest_pb2.Batch:
    """Return a batch of cases, as bulk loaders send them."""
    return ingest_pb2.Batch(
        stream=stream,
        cases=ingest_pb2.Cases(
            scores_f64le=scores.astype("<f8").tobytes(),
            positives_bits=np.packbits(labels, bitorder="little").tobytes(),
        ),
    )


def loaded(wire: Wire, stream: str, size: int) -> tuple[Evaluator, int]:
    """Send random cases to a stream; return an evaluator with them, and the revision."""
    rng = np.random.default_rng(size)
    expected = Evaluator()
    revision = 0
    for start in range(0, size, 50_000):
        labels = rng.random(min(50_000, size - start)) < 0.1
        scores = rng.normal(labels.astype(float))
        expected.add_cases(labels=labels, scores=scores)
        revision = wire.one(cases(stream, labels, scores)).revision
    return expected, revision


def test_answers_name_their_revision_and_include_it(wire: Wire, fresh: str) -> None:
    """A query with an ack's revision includes its rows; answers have their revision."""
    for size in range(1, 30):
        revision = wire.one(cases(fresh, np.array([size % 2 == 0]), np.array([0.5]))).revision
        chosen = selection(fresh, revision)
        answer = wire.query.GetSnapshot(query_pb2.GetSnapshotRequest(selection=chosen)).snapshot
        assert answer.revision >= revision
        assert answer.stream == fresh
        assert answer.num_positive_ref + answer.num_negative_ref == size
        curve = wire.query.GetCurve(
            query_pb2.GetCurveRequest(selection=chosen, kind=query_pb2.CURVE_KIND_HULL)
        )
        assert (curve.revision, curve.num_negative_ref) >= (revision, answer.num_negative_ref)


def test_undefined_figures_are_absent_with_a_reason(wire: Wire, fresh: str) -> None:
    """No message contains NaN."""
    wire.streams.CreateStream(stream_pb2.CreateStreamRequest(stream=stream_pb2.Stream(name=fresh)))
    for labels, reasons in (
        ([], dict.fromkeys(("auc_roc", "auc_pr", "prevalence"), Reason.UNDEFINED_REASON_EMPTY)),
        ([True], {"auc_roc": Reason.UNDEFINED_REASON_NO_NEGATIVES}),
    ):
        batch = cases(fresh, np.array(labels, bool), np.arange(len(labels), dtype=float))
        revision = wire.one(batch).revision
        request = query_pb2.GetSnapshotRequest(selection=selection(fresh, revision))
        snapshot = wire.query.GetSnapshot(request).snapshot
        metrics = {metric.name: metric for metric in snapshot.metrics}
        assert len(metrics) == 6
        for metric in metrics.values():
            assert metric.HasField("value") == (metric.undefined_reason == 0)
        for name, reason in reasons.items():
            assert metrics[name].undefined_reason == reason
        assert not snapshot.HasField("hull")


def test_the_state_arrives_in_pieces(wire: Wire, fresh: str) -> None:
    """The pieces join to an evaluator with every metric; each has the total length."""
    expected, revision = loaded(wire, fresh, 200_000)
    request = query_pb2.GetStateRequest(selection=selection(fresh, revision))
    pieces = list(wire.query.GetState(request))
    assert len(pieces) > 1
    assert all(0 < len(piece.data) <= 1 << 20 for piece in pieces)
    assert {piece.revision for piece in pieces} == {revision}
    data = b"".join(piece.data for piece in pieces)
    assert {piece.total_bytes for piece in pieces} == {len(data)}
    state = Evaluator.from_bytes(data)
    assert state.resolution is None
    assert state.auc_pr() == expected.auc_pr()
    assert state.maximum_f_measure() == expected.maximum_f_measure()


def test_curves_are_thinned_around_the_hull(wire: Wire, fresh: str) -> None:
    """The hull's vertices and both ends stay; all points are operating points."""
    expected, revision = loaded(wire, fresh, 50_000)
    hull, points = expected.roc_hull(), expected.operating_points()
    everywhere = set(zip(points.fp.tolist(), points.tp.tolist(), points.thresholds.tolist()))
    chosen = selection(fresh, revision)
    for asked, most in ((0, 2048), (500, 500), (1, len(hull.fp))):
        answer = wire.query.GetCurve(
            query_pb2.GetCurveRequest(
                selection=chosen, kind=query_pb2.CURVE_KIND_OPERATING_POINTS, max_points=asked
            )
        )
        curve = answer.curve
        rows = list(zip(curve.fp, curve.tp, curve.thresholds))
        assert len(rows) == most
        assert set(rows) <= everywhere
        assert {row[:2] for row in rows} >= set(zip(hull.fp.tolist(), hull.tp.tolist()))
        assert rows[0] == (0, 0, np.inf)
        assert rows[-1][:2] == (answer.num_negative_ref, answer.num_positive_ref)
        if most > 1000:  # Even steps: the drawn curve differs by less than a pixel or two.
            x = np.array(curve.fp) / answer.num_negative_ref
            y = np.array(curve.tp) / answer.num_positive_ref
            assert np.max(np.diff(x) + np.diff(y)) < 4 * 2 / most
    answer = wire.query.GetCurve(
        query_pb2.GetCurveRequest(selection=chosen, kind=query_pb2.CURVE_KIND_HULL)
    )
    assert list(answer.curve.fp) == hull.fp.tolist()
    assert list(answer.curve.tp) == hull.tp.tolist()
    assert list(answer.curve.thresholds) == hull.thresholds.tolist()


@pytest.mark.parametrize("positive", [True, False])
def test_curves_of_one_class_are_thinned_too(wire: Wire, fresh: str, positive: bool) -> None:
    """A curve along one axis keeps its ends."""
    scores = np.arange(5000, dtype=float)
    revision = wire.one(cases(fresh, np.full(5000, positive), scores)).revision
    curve = wire.query.GetCurve(
        query_pb2.GetCurveRequest(
            selection=selection(fresh, revision),
            kind=query_pb2.CURVE_KIND_OPERATING_POINTS,
            max_points=64,
        )
    ).curve
    assert len(curve.fp) == 64
    assert (curve.fp[0], curve.tp[0]) == (0, 0)
    assert curve.fp[-1] + curve.tp[-1] == 5000


def pages(wire: Wire, **request: object) -> Iterator[list[str]]:
    """Yield the names on each page of streams."""
    token = ""
    while True:
        answer = wire.streams.ListStreams(
            stream_pb2.ListStreamsRequest(page_token=token, **request)
        )
        yield [stream.name for stream in answer.streams]
        token = answer.next_page_token
        if not token:
            return


def test_streams_are_made_listed_and_deleted(wire: Wire) -> None:
    """Each change is visible to the next query; pages are in order of names."""
    names = [f"paged/{kind}{i:03}" for kind in ("a", "b") for i in range(12)]
    for name in reversed(names):
        request = stream_pb2.CreateStreamRequest(stream=stream_pb2.Stream(name=name))
        made = wire.streams.CreateStream(request)
        assert made.stream.create_revision == made.revision
        found = wire.streams.GetStream(stream_pb2.GetStreamRequest(name=name))
        assert found.stream.counters.state_bytes > 0
        found.stream.ClearField("counters")
        assert found.stream == made.stream
        assert found.revision >= made.revision
        again = failure(lambda request=request: wire.streams.CreateStream(request))
        assert (again.code, again.reason) == (grpc.StatusCode.ALREADY_EXISTS, "STREAM_EXISTS")
    assert list(pages(wire, prefix="paged/")) == [names]
    assert list(pages(wire, prefix="paged/a", page_size=6)) == [names[:6], names[6:12]]
    assert list(pages(wire, prefix="paged/b", page_size=5)) == [
        names[12:17],
        names[17:22],
        names[22:],
    ]
    assert list(pages(wire, prefix="paged/c")) == [[]]
    for name in names:
        wire.one(cases(name, np.array([True]), np.array([0.5])))
        wire.streams.DeleteStream(stream_pb2.DeleteStreamRequest(name=name))
        gone = failure(
            lambda name=name: wire.streams.GetStream(stream_pb2.GetStreamRequest(name=name))
        )
        assert gone.code == grpc.StatusCode.NOT_FOUND
    # A name may be reused, and the stream starts empty.
    revision = wire.one(cases(names[0], np.array([True]), np.array([0.5]))).revision
    request = query_pb2.GetSnapshotRequest(selection=selection(names[0], revision))
    assert wire.query.GetSnapshot(request).snapshot.num_positive_ref == 1


def test_many_producers_at_once(wire: Wire, fresh: str) -> None:
    """Streams of several producers are committed together, and each case counts once."""
    batch = cases(fresh, np.array([True, False] * 50), np.arange(100, dtype=float))

    def send(number: int) -> None:
        batches = []
        for sequence in range(1, 41):
            numbered = ingest_pb2.Batch()
            numbered.CopyFrom(batch)
            numbered.sequence = sequence
            batches.append(numbered)
        answers = wire.sent(f"{fresh}-{number}", batches)
        acks = [answer.ack.last_sequence for answer in answers]
        assert acks == sorted(acks)
        assert acks[-1] == 40
        last.append(answers[-1].ack.revision)

    last: list[int] = []
    threads = [threading.Thread(target=send, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    request = query_pb2.GetSnapshotRequest(selection=selection(fresh, max(last)))
    assert wire.query.GetSnapshot(request).snapshot.num_positive_ref == 8 * 40 * 50


def test_a_full_window_stops_the_reading_and_not_the_stream() -> None:
    """With less room in flight than one batch needs, all batches are still acknowledged."""
    limits = Limits(max_inflight_bytes=100, apply_rows=10, max_lag_rows=10)
    settings = Settings(listen="127.0.0.1:0", memory=True, limits=limits)
    with running_server(settings) as address, grpc.insecure_channel(address) as channel:
        wire = Wire(channel)
        batches = []
        for sequence in range(1, 201):
            batch = cases("narrow", np.array([True] * 30), np.arange(30, dtype=float))
            batch.sequence = sequence
            batches.append(batch)
        answers = wire.sent("narrow", batches)
        assert answers[-1].ack.last_sequence == 200
        chosen = selection("narrow", answers[-1].ack.revision)
        request = query_pb2.GetSnapshotRequest(selection=chosen)
        assert wire.query.GetSnapshot(request).snapshot.num_positive_ref == 6000


def test_a_full_queue_says_when_to_come_again() -> None:
    """RESOURCE_EXHAUSTED with RetryInfo; rows acknowledged before count."""
    limits = Limits(max_state_bytes=1)
    settings = Settings(listen="127.0.0.1:0", memory=True, limits=limits)
    with running_server(settings) as address, grpc.insecure_channel(address) as channel:
        wire = Wire(channel)
        batch = cases("full", np.array([True]), np.array([0.5]))
        revision = wire.one(batch).revision
        request = query_pb2.GetSnapshotRequest(selection=selection("full", revision))
        assert wire.query.GetSnapshot(request).snapshot.num_positive_ref == 1
        found = failure(lambda: wire.one(batch))
        assert (found.code, found.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "STATE_FULL")
        assert any(box.TypeName() == "google.rpc.RetryInfo" for box in found.details)


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection(wire: Wire, version: str) -> None:
    """It lists the services, itself in both versions, and describes each of them."""
    call = wire.channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        reflection_pb2.ServerReflectionRequest.SerializeToString,
        reflection_pb2.ServerReflectionResponse.FromString,
    )

    def asked(*requests: dict[str, str]) -> list[Any]:
        return list(
            call(
                iter([reflection_pb2.ServerReflectionRequest(**each) for each in requests]),
                timeout=20,
            )
        )

    (listed,) = asked({"list_services": ""})
    names = [service.name for service in listed.list_services_response.service]
    assert set(names) == {
        *server.SERVICES,
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    }
    answers = asked(*({"file_containing_symbol": name} for name in names))
    for name, answer in zip(names, answers, strict=True):
        files = DescriptorDatabase()
        for data in answer.file_descriptor_response.file_descriptor_proto:
            files.Add(descriptor_pb2.FileDescriptorProto.FromString(data))
        service = descriptor_pool.DescriptorPool(files).FindServiceByName(name)
        for method in service.methods:
            for message in (method.input_type, method.output_type):
                assert message.full_name.startswith(name.rpartition(".")[0] + ".")


def test_health(wire: Wire) -> None:
    """Each service has its own health."""
    health = health_pb2_grpc.HealthStub(wire.channel)
    for name in ("", *SERVICES):
        answer = health.Check(health_pb2.HealthCheckRequest(service=name))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_stopping_ends_streams_and_says_so() -> None:
    """A stream in progress is acknowledged, then ended with UNAVAILABLE."""
    answers: list[ingest_pb2.IngestResponse] = []
    hold = threading.Event()

    def requests() -> Iterator[ingest_pb2.IngestRequest]:
        yield ingest_pb2.IngestRequest(open=ingest_pb2.Open(producer="p", epoch=1))
        batch = cases("stopped", np.array([True]), np.array([0.5]))
        batch.sequence = 1
        yield ingest_pb2.IngestRequest(batch=batch)
        hold.wait(30)

    with running_server() as address:
        channel = grpc.insecure_channel(address)
        call = Wire(channel).ingest.Ingest(requests())
        answers += [next(call), next(call)]
    found = failure(lambda: next(call))
    hold.set()
    channel.close()
    assert answers[1].ack.last_sequence == 1
    assert (found.code, found.reason) == (grpc.StatusCode.UNAVAILABLE, "SERVER_STOPPING")


@pytest.mark.parametrize(
    ("positives", "negatives"), [(2**54, 1), (2**54 + 1, 1), (2**61, 1), (1, 2**61), (2**60, 2**60)]
)
def test_counts_beyond_the_doubles_have_every_metric(
    wire: Wire, fresh: str, positives: int, negatives: int
) -> None:
    """No counts that an ingest token may send end in INTERNAL: every metric has a value."""
    batch = ingest_pb2.Batch(
        stream=fresh,
        cases=ingest_pb2.Cases(
            scores=[0.9, 0.1], positives=[True, False], counts=[positives, negatives]
        ),
    )
    revision = wire.one(batch).revision
    for window in ({}, {"last_cases": 10}):
        chosen = selection(fresh, revision, **window)
        request = query_pb2.GetSnapshotRequest(selection=chosen, metrics=Place.REQUEST.names())
        snapshot = wire.query.GetSnapshot(request).snapshot
        assert snapshot.num_positive_ref == positives
        metrics = {metric.name: metric.value for metric in snapshot.metrics}
        assert metrics["auc_prg"] == metrics["auc_pr_normalized"] == 1
        assert all(metric.HasField("value") for metric in snapshot.metrics)
