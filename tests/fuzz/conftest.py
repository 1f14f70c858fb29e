"""Hostile input, and a server that must bear it.

All of it is made from seeds: a failure is reproduced by running its test again.
"""

from __future__ import annotations

import logging
import random
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from grpc_status import rpc_status

from streameval import Evaluator
from streameval.v1 import ingest_pb2, query_pb2, stream_pb2, types_pb2
from streameval_server._limits import Limits
from streameval_server._settings import Settings
from streameval_server.testing import running_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from google.protobuf.descriptor import Descriptor, MethodDescriptor
    from google.protobuf.message import Message

FILES = (
    ingest_pb2.DESCRIPTOR,
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

ENDLESS = {path for path in METHODS if path.endswith("/Watch")}
"""Methods that answer until the client goes."""

BAD_CODES = {
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
}
"""What no request may be answered with, however bad it is."""

TEXTS = (
    "",
    "s",
    "fraud/v3",
    "healthy",
    "a" * 128,
    "a" * 129,
    "a//b",
    "../../etc/passwd",
    "s\n",
    "s\0t",
    "\0",
    " ",
    "a b",
    "__other__",
    "é",
    "e\N{COMBINING ACUTE ACCENT}",
    "\N{ANGSTROM SIGN}",
    "\N{RIGHT-TO-LEFT OVERRIDE}abc\N{POP DIRECTIONAL FORMATTING}",
    "\N{ZERO WIDTH JOINER}",
    "\N{ZERO WIDTH NO-BREAK SPACE}s",
    "\N{REPLACEMENT CHARACTER}",
    "\N{LINE SEPARATOR}",
    "\N{FULLWIDTH LATIN SMALL LETTER S}",
    "\N{PILE OF POO}" * 32,
    "\N{PILE OF POO}" * 33,
    "Z" + "\N{COMBINING GRAVE ACCENT}" * 100,
    "\U0010ffff\ufdd0",
    "%n%s{0}{x!r}",
    "'; DROP TABLE log; --",
    "\x1b[31mred\x1b[0m\r",
    "\N{LATIN SMALL LETTER DOTLESS I}\N{LATIN SMALL LETTER SHARP S}",
    "\N{MATHEMATICAL DOUBLE-STRUCK DIGIT ZERO}",
    "9" * 400,
)
"""Names, ids and values that something may stumble over."""

LONG_TEXTS = ("x" * (1 << 20), "\N{RIGHT-TO-LEFT OVERRIDE}" * 40_000, "/" * 70_000)

FLOATS = (
    0.0,
    -0.0,
    0.5,
    0.25,
    1.0,
    5e-324,
    -5e-324,
    2.2250738585072014e-308,
    1e308,
    -1.7976931348623157e308,
    1.7976931348623157e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    2.0**63,
    2.0**53 + 1,
    0.1 + 0.2,
)


def _integers(bits: int, *, signed: bool) -> tuple[int, ...]:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    values = {0, 1, 2, 3, 100, -1, low, low + 1, high, high - 1}
    values |= {1 << power for power in (31, 32, 53, 61, 62, 63)}
    values |= {(1 << power) - 1 for power in (31, 32, 53, 61, 62, 63)}
    values |= {1_800_000_000_000_000, -62_135_596_800, 253_402_300_800}  # ends of datetime
    return tuple(sorted(value for value in values if low <= value <= high))


_Type = FieldDescriptor
INTEGERS = {
    _Type.TYPE_INT32: _integers(32, signed=True),
    _Type.TYPE_SFIXED32: _integers(32, signed=True),
    _Type.TYPE_UINT32: _integers(32, signed=False),
    _Type.TYPE_INT64: _integers(64, signed=True),
    _Type.TYPE_SFIXED64: _integers(64, signed=True),
    _Type.TYPE_UINT64: _integers(64, signed=False),
}


class Hostile:
    """Makes messages and bytes, nearly right or not at all.

    Parameters
    ----------
    seed
        The same seed makes the same input.
    """

    def __init__(self, seed: object) -> None:
        self.rng = random.Random(str(seed))

    def message(self, descriptor: Descriptor, depth: int = 0) -> Message:
        """Return a message with about half of its fields set, to anything."""
        message = GetMessageClass(descriptor)()
        for each in descriptor.fields:
            if depth > 6 or self.rng.random() < 0.45:
                continue
            if not each.is_repeated:
                self._set(message, each, depth)
                continue
            column = getattr(message, each.name)
            count = self.rng.choice((0, 1, 1, 2, 2, 3, 3, 5, 40))
            if each.type == _Type.TYPE_MESSAGE:
                made = [self.message(each.message_type, depth + 1) for _ in range(min(count, 5))]
                column.extend(made)
            else:
                column.extend(self.value(each) for _ in range(count))
        return message

    def _set(self, message: Message, each: FieldDescriptor, depth: int) -> None:
        if each.type == _Type.TYPE_MESSAGE:
            getattr(message, each.name).MergeFrom(self.message(each.message_type, depth + 1))
        else:
            setattr(message, each.name, self.value(each))

    def value(self, each: FieldDescriptor) -> object:
        """Return a value for a scalar field."""
        rng = self.rng
        if each.type in INTEGERS:
            return rng.choice(INTEGERS[each.type])
        if each.type in {_Type.TYPE_DOUBLE, _Type.TYPE_FLOAT}:
            return rng.choice(FLOATS)
        if each.type == _Type.TYPE_BOOL:
            return rng.random() < 0.5
        if each.type == _Type.TYPE_ENUM:
            return rng.choice((0, 1, 2, 3, 99, -1, 2**31 - 1))
        if each.type == _Type.TYPE_STRING:
            return self.text(each.name)
        return rng.choice((b"", b"\0", b"\xff" * 9, rng.randbytes(16), bytes(64)))

    def text(self, name: str) -> str:
        """Return a text; mostly a sound one where it names a stream or a metric."""
        rng = self.rng
        if rng.random() < 0.01:
            return rng.choice(LONG_TEXTS)
        if name in {"stream", "name"} and rng.random() < 0.6:
            return rng.choice(("s", "t/1", "t/2"))
        if name in {"metric", "metrics"} and rng.random() < 0.6:
            return rng.choice(("auc_pr", "auc_roc", "brier_score", "maximum_f_measure"))
        if name in {"key", "segment_keys"} and rng.random() < 0.6:
            return rng.choice(("country", "k"))
        return rng.choice(TEXTS)

    def mutated(self, frame: bytes) -> bytes:
        """Return bytes with one to four changes."""
        data = bytearray(frame)
        rng = self.rng
        for _ in range(rng.choice((1, 1, 2, 4))):
            at, end = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
            change = rng.randrange(8)
            if change == 0 and data:
                data[at % len(data)] ^= 1 << rng.randrange(8)
            elif change == 1 and data:
                data[at % len(data)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
            elif change == 2:
                del data[at:end]
            elif change == 3:
                data[at:at] = rng.randbytes(rng.choice((1, 4, 10)))
            elif change == 4:
                data[at:at] = data[at:end]
            elif change == 5:  # a varint, or a length, far too large
                data[at:at] = rng.choice((b"\xff" * 9 + b"\x01", b"\xff" * 11, b"\xff\xff\xff\x7f"))
            elif change == 6:  # groups within groups, and an end of one that never began
                data[at:at] = rng.choice((b"\x0b" * 200, b"\x0c", b"\x0b\x0c" * 9))
            else:
                del data[at:]
        return bytes(data)

    def frame(self, descriptor: Descriptor) -> bytes:
        """Return an encoded request: sound, mutated or random."""
        kind = self.rng.random()
        if kind < 0.1:
            return self.rng.randbytes(self.rng.choice((0, 1, 5, 60)))
        frame = self.message(descriptor).SerializeToString()
        return frame if kind < 0.6 else self.mutated(frame)


class Answer(NamedTuple):
    """What came of a call."""

    code: grpc.StatusCode
    message: str
    replies: list[bytes]
    details: int


@dataclass
class Target:
    """A server under fire.

    Attributes
    ----------
    problems
        What it logged as a warning or worse, and what nobody caught.
    """

    channel: grpc.Channel
    limits: Limits
    problems: list[str] = field(default_factory=list)

    def call(self, path: str, frames: Sequence[bytes]) -> Answer:
        """Send any number of messages to any method, whether it streams or not."""
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
        """Say whether an answer is one that a refusal may have."""
        assert answer.code not in BAD_CODES, answer
        if answer.code is not grpc.StatusCode.OK and path.startswith("/streameval."):
            assert answer.message, answer
            assert "metadata size" not in answer.message, answer  # else the status was lost
        assert not self.problems, self.problems

    def check_alive(self) -> None:
        """Ask about a stream that nobody touched: the figures must be right."""
        request = query_pb2.GetStateRequest(selection=types_pb2.Selection(stream="healthy"))
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
    """Collect warnings of any logger, and what no thread catches."""
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


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    """Start a server with small limits, which are reached that way, and a healthy stream."""
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
        batch = ingest_pb2.Batch(stream="healthy", cases=cases)
        request = ingest_pb2.IngestBatchRequest(batch=batch)
        target.call("/streameval.v1.IngestService/IngestBatch", [request.SerializeToString()])
        target.check_alive()
        yield target
    assert not found


@pytest.fixture
def hostile(request: pytest.FixtureRequest) -> Hostile:
    """Return a maker of hostile input, seeded by the test's name."""
    return Hostile(request.node.name)


@pytest.fixture
def quiet() -> Iterator[list[str]]:
    """Collect what is logged as a warning or worse; there must be nothing in the end."""
    found: list[str] = []
    with listening(found):
        yield found
    assert not found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes a method once for each method of each service."""
    if "method" in metafunc.fixturenames:
        metafunc.parametrize(
            "method", METHODS.values(), ids=[path.lstrip("/") for path in METHODS], scope="module"
        )


@pytest.fixture(scope="session")
def texts() -> tuple[str, ...]:
    """Return names, ids and values that something may stumble over."""
    return TEXTS


@pytest.fixture(scope="session")
def floats() -> tuple[float, ...]:
    """Return scores that are hard to bear, and some that are none."""
    return FLOATS
