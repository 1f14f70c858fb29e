"""Access control: every scope against every method, streams, rotation of tokens."""

from __future__ import annotations

import queue
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2

from streameval.v1 import admin_pb2, ingest_pb2, pair_pb2, query_pb2, status_pb2, stream_pb2
from streameval_server import Settings, create_token
from streameval_server._security.rules import RULES
from streameval_server._security.tokens import Scope
from streameval_server.testing import running_server

from .conftest import Failure, Wire, failure, selection
from .security import Certificates, bearer, secure_channel, secured, tokens_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SERVICES = (
    (admin_pb2, "AdminService"),
    (ingest_pb2, "IngestService"),
    (pair_pb2, "PairService"),
    (query_pb2, "QueryService"),
    (stream_pb2, "StreamService"),
)
METHODS = [
    method
    for module, service in SERVICES
    for method in module.DESCRIPTOR.services_by_name[service].methods
]
DENIED = {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}
NAMES = {
    "ingest": ("ingest",),
    "query": ("query",),
    "sample": ("sample",),
    "admin": ("admin",),
    "all": ("admin", "ingest", "query", "sample"),
}


def full_name(method: Any) -> str:
    """Return a method's full name."""
    return f"{method.containing_service.full_name}/{method.name}"


def outcome(channel: grpc.Channel, method: Any, metadata: Any) -> Failure | None:
    """Call a method with an empty request, up to its first answer; return its error, or None."""
    kind = {
        (False, False): channel.unary_unary,
        (False, True): channel.unary_stream,
        (True, False): channel.stream_unary,
        (True, True): channel.stream_stream,
    }[method.client_streaming, method.server_streaming]
    request = iter([b""]) if method.client_streaming else b""
    try:
        answer = kind(f"/{full_name(method)}")(request, metadata=metadata, timeout=20)
        if method.server_streaming:
            next(answer, None)
            answer.cancel()  # watching never ends by itself
    except grpc.RpcError as error:
        return Failure(error)
    return None


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Return the files of a certificate authority."""
    return Certificates.made(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return tokens by the names of their scopes; `file` is the token file."""
    path = tmp_path_factory.mktemp("tokens") / "tokens.toml"
    made = tokens_for(path, **NAMES)
    made["fraud"] = create_token(path, "fraud", NAMES["all"], ["fraud", "spam/v1"])
    return made | {"file": str(path)}


@pytest.fixture(scope="module")
def channel(certificates: Certificates, tokens: dict[str, str]) -> Iterator[grpc.Channel]:
    """Return a channel to a server with TLS and tokens."""
    with (
        secured(certificates, Path(tokens["file"])) as address,
        secure_channel(certificates, address) as channel,
    ):
        yield channel


def batch(stream: str, sequence: int = 0) -> ingest_pb2.Batch:
    """Return a batch of one case."""
    cases = ingest_pb2.Cases(scores=[0.5], positives=[True])
    return ingest_pb2.Batch(stream=stream, sequence=sequence, cases=cases)


# --- Scopes -----------------------------------------------------------------------------------


def test_every_method_has_a_rule_of_its_own() -> None:
    """A new method needs a rule; without one it is open to admins only."""
    assert {full_name(method) for method in METHODS} <= RULES.keys()


@pytest.mark.parametrize("method", METHODS, ids=full_name)
def test_each_scope_opens_its_methods_and_no_others(
    channel: grpc.Channel, tokens: dict[str, str], method: Any
) -> None:
    """A call passes the gate if and only if its token has the method's scope."""
    needed = RULES[full_name(method)].scope
    assert needed is not None
    for name, scopes in NAMES.items():
        ended = outcome(channel, method, bearer(tokens[name]))
        if needed in scopes:
            assert ended is None or ended.code not in DENIED
        else:
            assert ended.code == grpc.StatusCode.PERMISSION_DENIED
            assert ended.message == (
                f"this needs the scope {needed}; the token {name} has {', '.join(scopes)}"
            )
            assert ended.reason == "SCOPE_MISSING"


@pytest.mark.parametrize("method", METHODS, ids=full_name)
def test_without_a_token_nothing_is_answered(
    channel: grpc.Channel, tokens: dict[str, str], method: Any
) -> None:
    """No token, a wrong one, another scheme, two at once: each is UNAUTHENTICATED."""
    good = tokens["all"]
    wrong = good[:-2] + ("AA" if good[-2:] != "AA" else "BB")
    for metadata, reason in (
        ((), "TOKEN_MISSING"),
        ((("authorization", "Basic dXNlcjpwYXNz"),), "TOKEN_MISSING"),
        (bearer(good) + bearer(good), "TOKEN_MISSING"),
        (bearer(""), "TOKEN_UNKNOWN"),
        (bearer(wrong), "TOKEN_UNKNOWN"),
        (bearer("sv1.all"), "TOKEN_UNKNOWN"),
        (bearer(good.replace("sv1.all.", "sv1.query.")), "TOKEN_UNKNOWN"),
    ):
        ended = outcome(channel, method, metadata)
        assert (ended.code, ended.reason) == (grpc.StatusCode.UNAUTHENTICATED, reason)
        assert good not in ended.message


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_health_is_open_and_reflection_wants_a_token(
    channel: grpc.Channel, tokens: dict[str, str], version: str
) -> None:
    """Health checks need no token; reflection needs one."""
    health = health_pb2_grpc.HealthStub(channel)
    answer = health.Check(health_pb2.HealthCheckRequest(), timeout=20)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    service = f"grpc.reflection.{version}.ServerReflection"
    reflect = channel.stream_stream(
        f"/{service}/ServerReflectionInfo",
        reflection_pb2.ServerReflectionRequest.SerializeToString,
        reflection_pb2.ServerReflectionResponse.FromString,
    )

    def services(metadata: Any) -> list[str]:
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        (answer,) = reflect(iter([request]), metadata=metadata, timeout=20)
        return [service.name for service in answer.list_services_response.service]

    assert failure(lambda: services(())).code == grpc.StatusCode.UNAUTHENTICATED
    assert service in services(bearer(tokens["ingest"]))


def test_a_refusal_names_the_call(channel: grpc.Channel) -> None:
    """The error has the call id of the log; a caller may set the id."""
    call = channel.unary_unary("/streameval.v1.QueryService/GetSnapshot")
    mine = failure(lambda: call(b"", metadata=(("x-request-id", "job-7"),), timeout=20))
    assert mine.detail(error_details_pb2.RequestInfo).request_id == "job-7"
    evil = failure(lambda: call(b"", metadata=(("x-request-id", "a b " * 99),), timeout=20))
    assert len(evil.detail(error_details_pb2.RequestInfo).request_id) == 16


def test_tokens_on_loopback_need_no_tls(tmp_path: Path) -> None:
    """For a proxy on the same machine that ends TLS."""
    path = tmp_path / "tokens.toml"
    token = create_token(path, "proxy", [Scope.QUERY])
    settings = Settings(listen="127.0.0.1:0", memory=True, tokens=path)
    with running_server(settings) as address, grpc.insecure_channel(address) as channel:
        wire = Wire(channel)
        request = stream_pb2.ListStreamsRequest()
        ended = failure(lambda: wire.streams.ListStreams(request, timeout=20))
        assert ended.reason == "TOKEN_MISSING"
        wire.streams.ListStreams(request, metadata=bearer(token), timeout=20)


# --- Streams ----------------------------------------------------------------------------------


def test_a_description_says_whether_its_reader_may_change_the_stream(
    channel: grpc.Channel, tokens: dict[str, str]
) -> None:
    """The scope admin, for this stream; a page shows its button by it."""
    wire = Wire(channel)
    name = "fraud/may-update"
    made = stream_pb2.CreateStreamRequest(stream=stream_pb2.Stream(name=name))
    called(wire, "streams.CreateStream", made, tokens["all"])
    request = stream_pb2.GetStreamRequest(name=name)
    for token, may in (("all", True), ("query", False), ("fraud", True)):
        assert called(wire, "streams.GetStream", request, tokens[token]).may_update is may
    deletion = stream_pb2.DeleteStreamRequest(name=name)
    called(wire, "streams.DeleteStream", deletion, tokens["all"])


def naming(stream: str) -> list[tuple[str, Any]]:
    """Return a call for each field of a request that can name a stream."""
    chosen, mine, named = selection(stream), selection("fraud/v1"), stream_pb2.Stream(name=stream)
    return [
        ("query.GetSnapshot", query_pb2.GetSnapshotRequest(selection=chosen)),
        ("query.BatchGetSnapshots", query_pb2.BatchGetSnapshotsRequest(streams=[stream])),
        (
            "query.BatchGetSnapshots",
            query_pb2.BatchGetSnapshotsRequest(streams=["fraud/v1", stream]),
        ),
        ("query.GetCurve", query_pb2.GetCurveRequest(selection=chosen)),
        ("query.GetHistogram", query_pb2.GetHistogramRequest(selection=chosen)),
        ("query.GetReliability", query_pb2.GetReliabilityRequest(selection=chosen)),
        ("query.GetDecision", query_pb2.GetDecisionRequest(selection=chosen)),
        ("query.GetState", query_pb2.GetStateRequest(selection=chosen)),
        ("query.WatchSnapshots", query_pb2.WatchSnapshotsRequest(streams=["fraud/v1", stream])),
        ("query.ListWindows", query_pb2.ListWindowsRequest(selection=chosen)),
        ("query.RankSegments", query_pb2.RankSegmentsRequest(selection=chosen)),
        ("query.SampleForLabels", query_pb2.SampleForLabelsRequest(selection=chosen, size=1)),
        ("query.WatchSnapshot", query_pb2.WatchSnapshotRequest(selection=chosen)),
        ("query.CompareStreams", query_pb2.CompareStreamsRequest(a=chosen, b=mine)),
        ("query.CompareStreams", query_pb2.CompareStreamsRequest(a=mine, b=chosen)),
        ("streams.GetStream", stream_pb2.GetStreamRequest(name=stream)),
        ("streams.CreateStream", stream_pb2.CreateStreamRequest(stream=named)),
        ("streams.UpdateStream", stream_pb2.UpdateStreamRequest(stream=named)),
        ("streams.DeleteStream", stream_pb2.DeleteStreamRequest(name=stream)),
        ("admin.ExportStream", admin_pb2.ExportStreamRequest(name=stream)),
    ]


def called(wire: Wire, name: str, request: Any, token: str) -> Any:
    """Make a call; return its response, or the list of streamed responses."""
    service, _, method = name.partition(".")
    call = getattr(getattr(wire, service), method)
    answer = call(request, metadata=bearer(token), timeout=20)
    return list(answer) if hasattr(answer, "__next__") else answer


@pytest.mark.parametrize(
    "stream", ["spam/v2", "fraudulent", "fraud.x", "spam", "", "x" * 1_000_000]
)
def test_requests_for_other_streams_are_refused(
    channel: grpc.Channel, tokens: dict[str, str], stream: str
) -> None:
    """A request passes only if its stream is one of the token's, or below one."""
    wire = Wire(channel)
    for name in ("fraud/v1", "spam/v2", "fraudulent"):
        request = ingest_pb2.IngestBatchRequest(batch=batch(name))
        called(wire, "ingest.IngestBatch", request, tokens["all"])
    for name, request in naming(stream):
        ended = failure(
            lambda name=name, request=request: called(wire, name, request, tokens["fraud"])
        )
        assert ended.code == grpc.StatusCode.PERMISSION_DENIED, name
        assert ended.reason == "STREAM_FORBIDDEN"
        assert ended.message.startswith(f"the token fraud is not for the stream '{stream[:99]}")
        assert ended.message.endswith(", but for fraud, spam/v1 and below")
        assert len(ended.message) < 300
    request = query_pb2.GetSnapshotRequest(selection=selection("fraud/v1"))
    called(wire, "query.GetSnapshot", request, tokens["fraud"])


def test_what_is_about_the_whole_server_needs_a_token_for_all_streams(
    channel: grpc.Channel, tokens: dict[str, str]
) -> None:
    """An admin of some streams gets no data of others: no copy, no hash, no numbers."""
    wire = Wire(channel)
    header = admin_pb2.ImportStreamHeader(name="fraud/mine", total_bytes=1)
    pair = admin_pb2.ImportPairHeader(a="fraud/mine", b="fraud/other", total_bytes=1)
    for name, request in (
        ("GetServerStatus", admin_pb2.GetServerStatusRequest()),
        ("GetStateHash", admin_pb2.GetStateHashRequest()),
        ("Backup", admin_pb2.BackupRequest()),
        ("CompactLog", admin_pb2.CompactLogRequest()),
        ("ImportStream", iter([admin_pb2.ImportStreamRequest(header=header)])),
        ("ImportPair", iter([admin_pb2.ImportPairRequest(header=pair)])),
    ):
        ended = failure(
            lambda name=name, request=request: called(
                wire, f"admin.{name}", request, tokens["fraud"]
            )
        )
        assert ended.code == grpc.StatusCode.PERMISSION_DENIED, name
        assert ended.reason == "STREAM_FORBIDDEN"
        assert ended.message == (
            "this is about all streams; the token fraud is for fraud, spam/v1 and below"
        )
    status = called(
        wire, "admin.GetServerStatus", admin_pb2.GetServerStatusRequest(), tokens["admin"]
    )
    assert status.serving


def test_a_list_shows_what_the_token_is_for(channel: grpc.Channel, tokens: dict[str, str]) -> None:
    """Pages of any size leave out the streams of others."""
    wire = Wire(channel)
    names = [f"{kind}/{number}" for kind in ("fraud", "list") for number in range(5)]
    for name in names:
        request = ingest_pb2.IngestBatchRequest(batch=batch(name))
        added = called(wire, "ingest.IngestBatch", request, tokens["all"])
    # An ack means durable; a list shows what is visible.
    seen = admin_pb2.GetStateHashRequest(min_revision=added.revision)
    called(wire, "admin.GetStateHash", seen, tokens["admin"])

    def listed(token: str, size: int) -> list[str]:
        found: list[str] = []
        request = stream_pb2.ListStreamsRequest(page_size=size)
        while True:
            page = called(wire, "streams.ListStreams", request, token)
            found += [stream.name for stream in page.streams]
            request.page_token = page.next_page_token
            if not request.page_token:
                return found

    everything = listed(tokens["all"], 100)
    assert set(names) <= set(everything)
    mine = [name for name in everything if name.startswith("fraud/") or name == "spam/v1"]
    assert listed(tokens["fraud"], 100) == listed(tokens["fraud"], 2) == mine


def test_a_batch_for_another_stream_is_refused_and_the_stream_lives(
    channel: grpc.Channel, tokens: dict[str, str]
) -> None:
    """Its sequence is consumed, the other batches count, and it leaves no trace."""
    wire = Wire(channel)
    names = ["fraud/mixed", "other/mixed", "fraud/mixed", "fraudulent", "spam/v1/x"]
    requests = [
        ingest_pb2.IngestRequest(open=ingest_pb2.Open(producer="mixed", epoch=1)),
        *(ingest_pb2.IngestRequest(batch=batch(n, i)) for i, n in enumerate(names, 1)),
    ]
    answers = called(wire, "ingest.Ingest", iter(requests), tokens["fraud"])
    refused = [answer.refused for answer in answers if answer.HasField("refused")]
    assert [one.sequence for one in refused] == [2, 4]
    text = "the token fraud is not for the stream 'other/mixed', but for fraud, spam/v1 and below"
    assert refused[0].refusal == status_pb2.Refusal(
        code=grpc.StatusCode.PERMISSION_DENIED.value[0],
        message=text,
        violations=[status_pb2.FieldViolation(field="stream", description=text)],
    )
    assert answers[-1].ack.last_sequence == 5
    chosen = selection("fraud/mixed", answers[-1].ack.revision)
    request = query_pb2.GetSnapshotRequest(selection=chosen)
    snapshot = called(wire, "query.GetSnapshot", request, tokens["all"]).snapshot
    assert snapshot.num_positive_ref == 2
    gone = stream_pb2.GetStreamRequest(name="other/mixed")
    ended = failure(lambda: called(wire, "streams.GetStream", gone, tokens["all"]))
    assert ended.code == grpc.StatusCode.NOT_FOUND
    # A unary call ends with the same message.
    one = ingest_pb2.IngestBatchRequest(batch=batch("other/mixed"))
    ended = failure(lambda: called(wire, "ingest.IngestBatch", one, tokens["fraud"]))
    assert (ended.code, ended.message) == (grpc.StatusCode.PERMISSION_DENIED, text)


def test_a_merge_into_another_stream_is_refused(
    channel: grpc.Channel, tokens: dict[str, str]
) -> None:
    """The header names the stream."""
    header = ingest_pb2.MergeHeader(stream="other/m", source="s", epoch=1)
    requests = [ingest_pb2.MergeRequest(header=header), ingest_pb2.MergeRequest(data=b"x")]
    ended = failure(lambda: called(Wire(channel), "ingest.Merge", iter(requests), tokens["fraud"]))
    assert (ended.code, ended.reason) == (grpc.StatusCode.PERMISSION_DENIED, "STREAM_FORBIDDEN")


def test_a_server_may_leave_the_making_of_streams_to_admins(tmp_path: Path) -> None:
    """Without auto_create a batch for an unknown stream is refused."""
    path = tmp_path / "tokens.toml"
    made = tokens_for(path, **NAMES)
    settings = Settings(listen="127.0.0.1:0", memory=True, tokens=path, auto_create=False)
    with running_server(settings) as address, grpc.insecure_channel(address) as channel:
        wire = Wire(channel)
        one = ingest_pb2.IngestBatchRequest(batch=batch("new"))
        ended = failure(lambda: called(wire, "ingest.IngestBatch", one, made["ingest"]))
        assert ended.code == grpc.StatusCode.NOT_FOUND
        request = stream_pb2.CreateStreamRequest(stream=stream_pb2.Stream(name="new"))
        called(wire, "streams.CreateStream", request, made["admin"])
        called(wire, "ingest.IngestBatch", one, made["ingest"])


# --- Rotation ---------------------------------------------------------------------------------


class Feed:
    """An Ingest stream that sends when it is told to."""

    def __init__(self, wire: Wire, token: str) -> None:
        self._queue: queue.Queue[Any] = queue.Queue()
        opened = ingest_pb2.Open(producer="web", epoch=1)
        self._queue.put(ingest_pb2.IngestRequest(open=opened))
        requests = iter(self._queue.get, None)
        self._answers = wire.ingest.Ingest(requests, metadata=bearer(token), timeout=60)
        self.last_sequence = next(self._answers).resume.last_sequence

    def send(self, sequence: int) -> int:
        """Send a batch of one case and wait for its ack."""
        self._queue.put(ingest_pb2.IngestRequest(batch=batch("feed", sequence)))
        return next(self._answers).ack.last_sequence

    def end(self) -> None:
        """Release gRPC's thread, which waits for the next request."""
        self._queue.put(None)


def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_tokens_change_without_a_restart(
    certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Old and new tokens overlap, removal ends streams, a broken file changes nothing."""
    path = tmp_path / "tokens.toml"
    old = create_token(path, "web-1", ["ingest", "query"])
    with (
        secured(certificates, path) as address,
        secure_channel(certificates, address) as channel,
    ):
        wire = Wire(channel)

        def known(token: str) -> bool:
            try:
                called(wire, "streams.ListStreams", stream_pb2.ListStreamsRequest(), token)
            except grpc.RpcError as error:
                return error.code() != grpc.StatusCode.UNAUTHENTICATED
            return True

        assert known(old)
        new = create_token(path, "web-2", ["ingest", "query"])
        until(lambda: known(new))
        assert known(old)

        # A file in the middle of a change has no effect.
        good = path.read_text()
        path.write_text(good + "[[token]]\nid = ")
        until(lambda: "the tokens stay as they were" in caplog.text)
        assert (known(old), known(new)) == (True, True)

        # The stream of a removed token ends at its next batch.
        feed = Feed(wire, old)
        assert feed.send(1) == 1
        path.write_text(good[good.index("[[token]]", 1) :])
        until(lambda: not known(old))
        assert known(new)
        ended = failure(lambda: feed.send(2))
        feed.end()
        assert (ended.code, ended.reason) == (grpc.StatusCode.UNAUTHENTICATED, "TOKEN_REVOKED")
        # The next stream of the producer continues where it ended.
        feed = Feed(wire, new)
        assert feed.last_sequence == 1
        assert feed.send(2) == 2
        feed.end()


@pytest.mark.parametrize("reason", ["TOKEN_REVOKED", "TOKEN_EXPIRED", "STREAM_FORBIDDEN"])
def test_watching_ends_with_the_token(tmp_path: Path, reason: str) -> None:
    """Within about a second, whatever takes it away, and although there is nothing to send.

    An Ingest stream ends with the token; of other streams than its own it refuses each batch.
    """
    path = tmp_path / "tokens.toml"
    create_token(path, "writer", ["ingest"])
    before = path.read_text()
    token = create_token(path, "reader", ["ingest", "query"], streams=["a"])
    settings = Settings(listen="127.0.0.1:0", memory=True, tokens=path)
    with running_server(settings) as address, grpc.insecure_channel(address) as channel:
        wire = Wire(channel)
        writer = create_token(path, "other", ["ingest"])

        def send() -> None:
            request = ingest_pb2.IngestBatchRequest(batch=batch("a"))
            wire.ingest.IngestBatch(request, metadata=bearer(writer), timeout=20)

        def sends() -> bool:
            try:
                send()
            except grpc.RpcError:
                return False
            return True

        until(sends)
        metadata = bearer(token)
        watched = query_pb2.WatchSnapshotRequest(selection=selection("a"))
        listed = query_pb2.WatchSnapshotsRequest(streams=["a"])
        calls = [
            wire.query.WatchSnapshot(watched, metadata=metadata, timeout=60),
            wire.query.WatchSnapshots(listed, metadata=metadata, timeout=60),
        ]
        for call in calls:
            next(call)
        feed = Feed(wire, token)
        text = path.read_text()
        streams = 'streams = ["a"]'
        changed = {
            "TOKEN_REVOKED": before + text[text.index("[[token]]", text.index("reader")) :],
            "TOKEN_EXPIRED": text.replace(streams, f"{streams}\nexpires = 2020-01-01T00:00:00Z"),
            "STREAM_FORBIDDEN": text.replace(streams, 'streams = ["b"]'),
        }
        path.write_text(changed[reason])
        for call in calls:
            ended = failure(lambda call=call: list(call))
            assert ended.reason == reason
        if reason != "STREAM_FORBIDDEN":
            assert failure(lambda: next(feed._answers)).reason == reason
        feed.end()
