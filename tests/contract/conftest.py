"""A server in memory and raw stubs, as a client in another language would see them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from streameval.client import Client
from streameval.v1 import (
    admin_pb2_grpc,
    ingest_pb2,
    ingest_pb2_grpc,
    pair_pb2_grpc,
    query_pb2,
    query_pb2_grpc,
    stream_pb2_grpc,
    types_pb2,
)
from streameval_server.testing import running_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from google.protobuf.message import Message


class Wire:
    """Raw stubs of one server, and helpers for calls that many tests make."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.channel = channel
        self.ingest = ingest_pb2_grpc.IngestServiceStub(channel)
        self.query = query_pb2_grpc.QueryServiceStub(channel)
        self.streams = stream_pb2_grpc.StreamServiceStub(channel)
        self.pairs = pair_pb2_grpc.PairServiceStub(channel)
        self.admin = admin_pb2_grpc.AdminServiceStub(channel)

    def one(self, batch: ingest_pb2.Batch) -> ingest_pb2.IngestBatchResponse:
        """Send one batch without a producer."""
        return self.ingest.IngestBatch(ingest_pb2.IngestBatchRequest(batch=batch), timeout=20)

    def sent(
        self, producer: str, batches: Sequence[ingest_pb2.Batch], *, epoch: int = 1
    ) -> list[ingest_pb2.IngestResponse]:
        """Send batches on a new Ingest stream; return all answers but the first."""
        opened = ingest_pb2.Open(producer=producer, epoch=epoch)
        requests = [ingest_pb2.IngestRequest(open=opened)]
        requests += [ingest_pb2.IngestRequest(batch=batch) for batch in batches]
        resume, *answers = self.ingest.Ingest(iter(requests), timeout=20)
        assert resume.HasField("resume")
        return answers


def selection(
    stream: str, min_revision: int = 0, *, segment: tuple[str, str] | None = None, **fields: object
) -> types_pb2.Selection:
    """Return a selection."""
    chosen = types_pb2.Selection(stream=stream, min_revision=min_revision, **fields)
    if segment is not None:
        chosen.segment.key, chosen.segment.value = segment
    return chosen


def send(wire: Wire, stream: str, **rows: Message) -> int:
    """Send a batch, and wait until it is visible."""
    revision = wire.one(ingest_pb2.Batch(stream=stream, **rows)).revision
    request = query_pb2.GetSnapshotRequest(
        selection=selection(stream, revision), metrics=["prevalence"]
    )
    wire.query.GetSnapshot(request, timeout=20)
    return revision


class Failure:
    """The error of a call, with its details."""

    def __init__(self, error: grpc.RpcError) -> None:
        self.code = error.code()
        self.message = error.details()
        status = rpc_status.from_call(error)
        self.details = [] if status is None else list(status.details)

    def detail(self, kind: type[Message]) -> Message:
        """Return the only detail of a kind."""
        (found,) = (box for box in self.details if box.Is(kind.DESCRIPTOR))
        message = kind()
        found.Unpack(message)
        return message

    @property
    def reason(self) -> str:
        """ErrorInfo's reason."""
        info = self.detail(error_details_pb2.ErrorInfo)
        assert info.domain == "streameval"
        return info.reason

    @property
    def fields(self) -> list[tuple[str, str]]:
        """BadRequest's fields and descriptions."""
        violations = self.detail(error_details_pb2.BadRequest).field_violations
        return [(violation.field, violation.description) for violation in violations]


def failure(call: Callable[[], object]) -> Failure:
    """Return the failure of a call."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return Failure(caught.value)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Return the address of a server in memory."""
    with running_server() as address:
        yield address


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[Client]:
    """Return a client of that server."""
    with Client(address) as client:
        yield client


@pytest.fixture(scope="session")
def wire() -> Iterator[Wire]:
    """Return the stubs of a server in memory."""
    with running_server() as address, grpc.insecure_channel(address) as channel:
        yield Wire(channel)


_numbers = itertools.count()


@pytest.fixture
def fresh() -> str:
    """Return an unused name for a stream or a producer."""
    return f"fresh/{next(_numbers)}"
