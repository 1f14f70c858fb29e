"""A token that is revoked or narrowed during a call ends it: every method, every answer."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf import message_factory
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from streameval.v1 import admin_pb2, ingest_pb2, pair_pb2, query_pb2, stream_pb2, types_pb2
from streameval_server import Limits, Server, Settings, create_token
from streameval_server._grpc.admin_service import AdminService
from streameval_server._grpc.call_log import CallLog
from streameval_server._grpc.interceptor import CallInterceptor, behaviour_of
from streameval_server._grpc.pair_service import PairService
from streameval_server._grpc.stream_service import StreamService
from streameval_server._model.pair_settings import PairInfo
from streameval_server._model.stream_info import StreamInfo
from streameval_server._runtime.open_calls import OpenCalls
from streameval_server._security.access import Guard
from streameval_server._security.rules import rule_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

METHODS = [
    method
    for module in (admin_pb2, ingest_pb2, query_pb2, stream_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]
STREAMED = [method for method in METHODS if method.server_streaming]
UNARY = [method for method in METHODS if not method.server_streaming]
UPLOADS = [method for method in METHODS if method.client_streaming]
ENCODED = {"Ingest", "IngestBatch", "CreateStream", "UpdateStream", "DeleteStream"}
"""Methods whose handlers take encoded frames."""


def full_name(method: Any) -> str:
    """Return a method's full name."""
    return f"{method.containing_service.full_name}/{method.name}"


def request_for(method: Any, stream: str) -> Any:
    """Return a request that names a stream in each field that can."""
    request = message_factory.GetMessageClass(method.input_type)()
    for path in rule_of(full_name(method)).streams:
        target: Any = request
        *parents, last = path.split(".")
        for parent in parents:
            target = getattr(target, parent)
        if isinstance(getattr(target, last), str):
            setattr(target, last, stream)
        else:
            getattr(target, last).append(stream)
    return request


class Context:
    """The part of gRPC's context that the interceptor uses."""

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.status: Any = None

    def code(self) -> Any:
        return self.status

    def peer(self) -> str:
        return "test"

    def time_remaining(self) -> float | None:
        return None

    async def write(self, answer: Any) -> None:
        self.written.append(answer)

    async def abort(self, code: Any, *_: Any) -> None:
        self.status = code
        raise grpc.aio.AbortError


class Details:
    """The part of gRPC's call details that the interceptor uses."""

    def __init__(self, method: str, token: str) -> None:
        self.method = f"/{method}"
        self.invocation_metadata = (("authorization", f"Bearer {token}"),)


EXPIRY = datetime(2026, 5, 1, tzinfo=UTC)


class Call:
    """A call of one method with a handler of the test's, and a token that can change."""

    def __init__(self, method: Any, directory: Path) -> None:
        self.method = method
        self.path = directory / "tokens.toml"
        self.token = create_token(self.path, "x", ["admin", "ingest", "query", "sample"])
        self.path.write_text(f"{self.path.read_text()}expires = {EXPIRY.isoformat()}\n")
        self.now = EXPIRY - timedelta(seconds=1)
        self.guard = Guard(self.path, lambda: self.now)
        self.context = Context()
        self.requests = 0
        self.is_done = False

    def change(self, kind: str) -> None:
        """Revoke the token, narrow what it covers, or let it expire."""
        if kind == "expired":
            self.now = EXPIRY
            self.guard.refresh()
            return
        text = self.path.read_text()
        other = "query" if rule_of(full_name(self.method)).scope == "ingest" else "ingest"
        changed = {
            "revoked": text.replace('id = "x"', 'id = "another"'),
            "scopes": text.replace('"admin", "ingest", "query", "sample"', f'"{other}"'),
            "streams": text.replace("scopes", 'streams = ["elsewhere"]\nscopes'),
        }[kind]
        assert changed != text
        self.path.unlink()
        self.path.write_text(changed)
        self.guard.refresh()

    def run(self, between: Callable[[], None]) -> Any:
        """Serve the call; `between` is called between two answers, or two requests."""
        return asyncio.run(self.serve(between))

    async def serve(
        self, between: Callable[[], None], idle: Callable[[], Awaitable[None]] | None = None
    ) -> Any:
        """Serve the call; a stream waits for `idle` between its two answers."""
        method, name = self.method, full_name(self.method)
        request: Any = request_for(method, "payments/v1")
        is_encoded = method.name in ENCODED
        if is_encoded:
            request = request.SerializeToString()

        async def requests() -> AsyncIterator[Any]:
            yield request
            between()
            yield message_factory.GetMessageClass(method.input_type)()

        async def stream(_request: Any, _context: Any) -> AsyncIterator[str]:
            yield "first"
            between()
            if idle is not None:
                await idle()
            yield "second"

        async def unary(request: Any, _context: Any) -> str:
            if method.client_streaming:
                async for _ in request:
                    self.requests += 1
            else:
                between()
            self.is_done = True
            return "answer"

        make: Any = {
            (False, False): grpc.unary_unary_rpc_method_handler,
            (False, True): grpc.unary_stream_rpc_method_handler,
            (True, False): grpc.stream_unary_rpc_method_handler,
            (True, True): grpc.stream_stream_rpc_method_handler,
        }[method.client_streaming, method.server_streaming]
        handler = make(
            stream if method.server_streaming else unary,
            None if is_encoded else type(request).FromString,
            None,
        )

        async def found(_details: Any) -> Any:
            return handler

        interceptor = CallInterceptor(self.guard, CallLog())
        wrapped = await interceptor.intercept_service(found, Details(name, self.token))  # type: ignore[arg-type]
        assert wrapped is not None
        sent = requests() if method.client_streaming else request
        return await behaviour_of(wrapped)(sent, self.context)


def changes_for(method: Any) -> list[str]:
    """Return the changes of a token that concern a method."""
    rule = rule_of(full_name(method))
    limited = ["streams"] if rule.streams or rule.everything else []
    return ["revoked", "expired", "scopes", *limited]


def cases(methods: list[Any]) -> list[Any]:
    """Return each method with each change that concerns it."""
    return [
        pytest.param(method, kind, id=f"{method.name}-{kind}")
        for method in methods
        for kind in changes_for(method)
    ]


@pytest.mark.parametrize(("method", "kind"), cases(STREAMED))
def test_each_answer_of_a_stream_asks_again(method: Any, kind: str, tmp_path: Path) -> None:
    """Whatever the method: the answer after the change is not sent."""
    call = Call(method, tmp_path)
    with pytest.raises(grpc.aio.AbortError):
        call.run(partial(call.change, kind))
    assert call.context.written == ["first"]
    codes = grpc.StatusCode
    lost = kind in {"revoked", "expired"}
    assert call.context.status == (codes.UNAUTHENTICATED if lost else codes.PERMISSION_DENIED)


@pytest.mark.parametrize(("method", "kind"), cases(STREAMED))
def test_a_stream_without_answers_ends_too(method: Any, kind: str, tmp_path: Path) -> None:
    """When the tokens are checked next, which is once a second; its handler is closed."""
    call = Call(method, tmp_path)
    closed = []

    async def serve() -> None:
        waiting = asyncio.Event()

        async def idle() -> None:
            waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                closed.append(True)

        serving = asyncio.create_task(call.serve(lambda: None, idle))
        await waiting.wait()
        call.guard.refresh()
        await asyncio.sleep(0)
        assert not serving.done()
        call.change(kind)
        with pytest.raises(grpc.aio.AbortError):
            await serving
        assert not serving.cancelling()

    asyncio.run(serve())
    assert call.context.written == ["first"]
    lost = kind in {"revoked", "expired"}
    codes = grpc.StatusCode
    assert call.context.status == (codes.UNAUTHENTICATED if lost else codes.PERMISSION_DENIED)
    assert closed == [True]
    assert not call.guard.streams._open


def test_an_idle_stream_that_is_cancelled_stays_cancelled(tmp_path: Path) -> None:
    """Also when its token is revoked at the same moment: nothing is left to answer."""
    (method,) = [method for method in METHODS if method.name == "WatchSnapshot"]
    call = Call(method, tmp_path)

    async def serve() -> None:
        waiting = asyncio.Event()

        async def idle() -> None:
            waiting.set()
            await asyncio.Event().wait()

        serving = asyncio.create_task(call.serve(lambda: None, idle))
        await waiting.wait()
        call.change("expired")
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving

    asyncio.run(serve())
    assert call.context.status is None


def test_methods_that_only_read_are_known_by_their_names() -> None:
    """By a rule of its own: a read whose rule does not say so would be answered unchecked."""
    verbs = ("Get", "BatchGet", "List", "Compare", "Rank", "Sample", "Watch", "Backup", "Export")
    for method in METHODS:
        rule = rule_of(full_name(method))
        assert rule.reads == method.name.startswith(verbs), method.name


@pytest.mark.parametrize(("method", "kind"), cases(UNARY))
def test_the_answer_of_a_query_asks_again(method: Any, kind: str, tmp_path: Path) -> None:
    """It may have waited. The answer to a change is sent: the change has happened."""
    call = Call(method, tmp_path)
    rule = rule_of(full_name(method))
    if rule.reads or method.client_streaming:
        with pytest.raises(grpc.aio.AbortError):
            call.run(partial(call.change, kind))
    else:
        assert call.run(partial(call.change, kind)) == "answer"
    assert call.context.written == []


@pytest.mark.parametrize(("method", "kind"), cases([m for m in UPLOADS if not m.server_streaming]))
def test_each_request_of_a_stream_asks_again(method: Any, kind: str, tmp_path: Path) -> None:
    """An upload whose token is taken away is not applied, also after its header."""
    call = Call(method, tmp_path)
    with pytest.raises(grpc.aio.AbortError):
        call.run(partial(call.change, kind))
    assert (call.requests, call.is_done) == (1, False)


@pytest.mark.parametrize("method", METHODS, ids=full_name)
def test_an_unchanged_token_is_served(method: Any, tmp_path: Path) -> None:
    """To the end."""
    call = Call(method, tmp_path)
    answer = call.run(lambda: None)
    served = call.context.written if method.server_streaming else [answer]
    assert served == (["first", "second"] if method.server_streaming else ["answer"])


def test_every_handler_yields_its_answers() -> None:
    """A handler that writes answers itself would pass the check; health.Watch is open."""
    methods = Server(Settings(memory=True)).methods
    for method in STREAMED:
        name = full_name(method)
        found = [
            handler
            for handlers in methods._handlers
            if (handler := handlers.service(Details(name, ""))) is not None  # type: ignore[arg-type]
        ]
        assert len(found) == 1
        assert inspect.isasyncgenfunction(behaviour_of(found[0])), name


def test_a_handler_that_writes_itself_is_refused(tmp_path: Path) -> None:
    """INTERNAL, before it sends anything."""
    (method,) = [method for method in METHODS if method.name == "WatchSnapshot"]
    call = Call(method, tmp_path)

    async def writing(_request: Any, context: Any) -> None:
        await context.write("first")

    async def found(_details: Any) -> Any:
        return grpc.unary_stream_rpc_method_handler(
            writing, query_pb2.WatchSnapshotRequest.FromString
        )

    async def run() -> None:
        interceptor = CallInterceptor(call.guard, CallLog())
        details: Any = Details(full_name(method), call.token)
        wrapped = await interceptor.intercept_service(found, details)
        assert wrapped is not None
        await behaviour_of(wrapped)(query_pb2.WatchSnapshotRequest(), call.context)

    with pytest.raises(grpc.aio.AbortError):
        asyncio.run(run())
    assert call.context.written == []


class NarrowingRuntime:
    """A runtime in which the caller's token is narrowed while streams are listed."""

    def __init__(self, narrow: Callable[[], None]) -> None:
        self.calls = OpenCalls()
        self.queries = self
        self._narrow = narrow
        self.listings = 0

    def durable_revision(self) -> int:
        return 1

    async def visible(self, _revision: int) -> None:
        return

    async def run(self, _question: Any, compute: Callable[[], Any]) -> Any:
        found = compute()
        self.listings += 1
        if self.listings == 1:
            self._narrow()
        return found

    def list_streams(self, *, after: str, **_: Any) -> tuple[list[StreamInfo], int]:
        names = ("elsewhere", "payments/v1")
        return [StreamInfo(name, 0, 1) for name in names if name > after], 1


def test_a_list_holds_what_the_token_covers_at_its_end(tmp_path: Path) -> None:
    """A token that is narrowed while streams are listed gets the narrowed list."""
    method = stream_pb2.DESCRIPTOR.services_by_name["StreamService"].methods_by_name["ListStreams"]
    call = Call(method, tmp_path)
    runtime: Any = NarrowingRuntime(lambda: call.change("streams"))
    handler = StreamService(runtime).list

    async def serve() -> Any:
        interceptor = CallInterceptor(call.guard, CallLog())
        served = grpc.unary_unary_rpc_method_handler(handler)

        async def continuation(_details: Any) -> Any:
            return served

        details: Any = Details(full_name(method), call.token)
        wrapped = await interceptor.intercept_service(continuation, details)
        return await behaviour_of(wrapped)(stream_pb2.ListStreamsRequest(), call.context)

    answer = asyncio.run(serve())
    assert [stream.name for stream in answer.streams] == ["elsewhere"]
    assert runtime.listings == 2


class NarrowedPairs(NarrowingRuntime):
    """A runtime with a pair, in which the caller's token is narrowed while it computes."""

    def __init__(self, narrow: Callable[[], None]) -> None:
        super().__init__(narrow)
        self.core = self.engine = self.pairs = self.quota = self

    def info(self, name: str) -> PairInfo:
        settings: Any = None
        return PairInfo(name, "elsewhere", "payments/v1", 0, 1, settings)

    def query(self, _token_id: str) -> Any:
        return nullcontext()

    def export_pair(self, _info: PairInfo) -> tuple[int, bytes]:
        return 1, b"all of it"

    async def answer(self, question: Any, _compute: Any, *, is_long: bool = False) -> Any:
        del is_long
        return await self.run(question, lambda: "counted")


SPAN = types_pb2.TimeRange(start_time=Timestamp(seconds=0), end_time=Timestamp(seconds=60))


@pytest.mark.parametrize(
    "request_",
    [
        pair_pb2.GetPairRequest(name="p"),
        pair_pb2.GetPairComparisonRequest(name="p"),
        pair_pb2.ListPairComparisonsRequest(
            name="p", step=Duration(seconds=60), selection=types_pb2.Selection(between=SPAN)
        ),
        admin_pb2.ExportPairRequest(name="p"),
    ],
    ids=lambda request: request.DESCRIPTOR.name,
)
def test_a_pair_is_answered_while_the_token_covers_both_streams(
    request_: Any, tmp_path: Path
) -> None:
    """A token that is narrowed to one of them meanwhile is told that there is no such pair."""
    name = request_.DESCRIPTOR.name.removesuffix("Request")
    file, service = (
        (admin_pb2, "AdminService") if name == "ExportPair" else (pair_pb2, "PairService")
    )
    method = file.DESCRIPTOR.services_by_name[service].methods_by_name[name]
    call = Call(method, tmp_path)
    runtime: Any = NarrowedPairs(lambda: call.change("streams"))
    pairs, admin = PairService(runtime), AdminService(runtime, Limits(), str)
    handlers: dict[str, Any] = {
        "GetPair": pairs.get,
        "GetPairComparison": pairs.compare,
        "ListPairComparisons": pairs.series,
        "ExportPair": admin.ExportPair,
    }

    async def serve() -> Any:
        make = grpc.unary_unary_rpc_method_handler
        if method.server_streaming:
            make = grpc.unary_stream_rpc_method_handler

        async def continuation(_details: Any) -> Any:
            return make(handlers[name])

        interceptor = CallInterceptor(call.guard, CallLog())
        details: Any = Details(full_name(method), call.token)
        wrapped = await interceptor.intercept_service(continuation, details)
        return await behaviour_of(wrapped)(request_, call.context)

    with pytest.raises(grpc.aio.AbortError):
        asyncio.run(serve())
    assert runtime.listings == 1
    assert call.context.written == []
    assert call.context.status is grpc.StatusCode.NOT_FOUND
