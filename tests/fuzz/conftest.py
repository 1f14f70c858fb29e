"""A server that receives hostile input.

The input is generated from seeds, so running a failed test again reproduces the failure.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from grpc_status import rpc_status

from streameval import Evaluator
from streameval.v1 import admin_pb2, ingest_pb2, pair_pb2, query_pb2, stream_pb2, types_pb2
from streameval_server import Limits, Settings
from streameval_server.testing import running_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

    from google.protobuf.descriptor import MethodDescriptor
    from google.protobuf.message import Message


def _beside(name: str) -> ModuleType:
    """Import a module of this directory."""
    spec = importlib.util.spec_from_file_location(
        f"{__name__}_{name}", Path(__file__).with_name(f"{name}.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hostile_module = _beside("hostile")
exemplars_module = _beside("exemplars")

FILES = (
    admin_pb2.DESCRIPTOR,
    ingest_pb2.DESCRIPTOR,
    pair_pb2.DESCRIPTOR,
    query_pb2.DESCRIPTOR,
    stream_pb2.DESCRIPTOR,
    health_pb2.DESCRIPTOR,
    reflection_pb2.DESCRIPTOR,
)
METHODS: dict[str, MethodDescriptor] = {
    f"/{service.full_name}/{method.name}": method
    for file in FILES
    for service in file.services_by_name.values()
    for method in service.methods
}
"""Every method of every service, by its path."""

ENDLESS = {
    path
    for path in METHODS
    if path.endswith(("/Watch", "/WatchSnapshot", "/WatchSnapshots", "/WatchStreamSummaries"))
}
"""Methods that stream responses until the client cancels."""

BAD_CODES = {
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
}
"""Status codes that no request may get."""


class Answer(NamedTuple):
    """The outcome of a call."""

    code: grpc.StatusCode
    message: str
    replies: list[bytes]
    details: int


@dataclass
class Target:
    """A server under test.

    Attributes
    ----------
    problems
        Log records of level WARNING or above, and uncaught exceptions.
    """

    channel: grpc.Channel
    limits: Limits
    problems: list[str] = field(default_factory=list)

    def call(self, path: str, frames: Sequence[bytes]) -> Answer:
        """Send messages to any method, unary or streaming."""
        replies: list[bytes] = []
        call = self.channel.stream_stream(path)(iter(frames), timeout=20)
        try:
            for reply in call:
                replies.append(reply)
                if path in ENDLESS:
                    call.cancel()
                    return Answer(grpc.StatusCode.OK, "", replies, 0)
        except grpc.RpcError as error:
            status = rpc_status.from_call(error)
            details = 0 if status is None else len(status.details)
            return Answer(error.code(), error.details(), replies, details)
        return Answer(grpc.StatusCode.OK, "", replies, 0)

    def check(self, path: str, answer: Answer) -> None:
        """Check that an answer is a success or a proper refusal."""
        assert answer.code not in BAD_CODES, answer
        if answer.code is not grpc.StatusCode.OK and path.startswith("/streameval."):
            assert answer.message, answer
            assert "metadata size" not in answer.message, answer  # else the status was lost
        found, self.problems[:] = list(self.problems), []
        if path == "/streameval.v1.AdminService/AcceptClock" and answer.code is grpc.StatusCode.OK:
            # What an operator confirms is logged as a warning.
            found = [each for each in found if each != "an operator has confirmed the clock"]
        assert not found, found

    def check_alive(self) -> None:
        """Query a stream that no request changed: its figures must be unchanged."""
        request = query_pb2.GetStateRequest(selection=types_pb2.Selection(stream="untouched"))
        answer = self.call("/streameval.v1.QueryService/GetState", [request.SerializeToString()])
        pieces = [query_pb2.GetStateResponse.FromString(reply) for reply in answer.replies]
        evaluator = Evaluator.from_bytes(b"".join(piece.data for piece in pieces))
        assert evaluator.num_cases == 4
        assert evaluator.auc_roc() == 0.75


class _Problems(logging.Handler):
    def __init__(self, found: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        self._found.append(logging.Formatter().format(record))


@contextmanager
def listening(found: list[str]) -> Iterator[None]:
    """Collect warnings of all loggers, and uncaught exceptions of all threads."""
    handler = _Problems(found)
    hooks = threading.excepthook, sys.unraisablehook
    threading.excepthook = lambda args: found.append(f"thread: {args.exc_value!r}")
    sys.unraisablehook = lambda args: found.append(f"unraisable: {args.exc_value!r}")
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        threading.excepthook, sys.unraisablehook = hooks


def fill(target: Target) -> None:
    """Create streams with panes and slices, so that queries have answers."""
    for name in exemplars_module.STREAMS:
        made = stream_pb2.CreateStreamRequest(stream=exemplars_module.stream(name))
        path = "/streameval.v1.StreamService/CreateStream"
        answer = target.call(path, [made.SerializeToString()])
        assert answer.code is grpc.StatusCode.OK, answer
    pair = exemplars_module.pair_request()
    answer = target.call("/streameval.v1.PairService/CreatePair", [pair.SerializeToString()])
    assert answer.code is grpc.StatusCode.OK, answer
    for name in exemplars_module.STREAMS:
        for batch in exemplars_module.batches(name):
            request = ingest_pb2.IngestBatchRequest(batch=batch)
            path = "/streameval.v1.IngestService/IngestBatch"
            answer = target.call(path, [request.SerializeToString()])
            assert answer.code is grpc.StatusCode.OK, answer


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    """Start a server with limits small enough to be reached, and an untouched stream."""
    limits = Limits(max_batch_rows=1000, max_streams=50)
    found: list[str] = []
    settings = Settings(listen="127.0.0.1:0", memory=True, limits=limits)
    with (
        listening(found),
        running_server(settings) as address,
        grpc.insecure_channel(address) as channel,
    ):
        target = Target(channel, limits, found)
        cases = ingest_pb2.Cases(scores=[0.9, 0.8, 0.7, 0.1], positives=[1, 0, 1, 0])
        batch = ingest_pb2.Batch(stream="untouched", cases=cases)
        request = ingest_pb2.IngestBatchRequest(batch=batch)
        target.call("/streameval.v1.IngestService/IngestBatch", [request.SerializeToString()])
        target.check_alive()
        fill(target)
        yield target
    assert not found


@pytest.fixture
def hostile(request: pytest.FixtureRequest) -> Any:
    """Return a generator of hostile input, seeded by the test's name."""
    return hostile_module.Hostile(request.node.name)


@pytest.fixture(scope="session")
def exemplars() -> ModuleType:
    """Return the module of valid requests."""
    return exemplars_module


@pytest.fixture(scope="session")
def sound() -> Callable[[MethodDescriptor], list[list[Message]]]:
    """Return a function that makes valid calls of a method, each a list of messages."""
    return exemplars_module.requests


@pytest.fixture
def quiet() -> Iterator[list[str]]:
    """Collect log records of level WARNING or above; at the end there must be none."""
    found: list[str] = []
    with listening(found):
        yield found
    assert not found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize tests with a `method` argument over all methods of all services."""
    if "method" in metafunc.fixturenames:
        metafunc.parametrize(
            "method", METHODS.values(), ids=[path.lstrip("/") for path in METHODS], scope="module"
        )


@pytest.fixture(scope="session")
def texts() -> tuple[str, ...]:
    """Return names, ids and values at the edges of the rules."""
    return hostile_module.TEXTS


@pytest.fixture(scope="session")
def floats() -> tuple[float, ...]:
    """Return extreme scores, and some that are invalid."""
    return hostile_module.FLOATS
