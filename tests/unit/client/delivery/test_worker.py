"""The client's thread against servers that misbehave."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from streameval.client import AccessError, Client, DeadlineError, RowsLostError
from streameval.v1 import ingest_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def serving(behaviour: Any) -> Iterator[str]:
    """Serve a test's function as the Ingest method; yield the address."""
    handler = grpc.stream_stream_rpc_method_handler(
        behaviour,
        request_deserializer=ingest_pb2.IngestRequest.FromString,
        response_serializer=ingest_pb2.IngestResponse.SerializeToString,
    )
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_registered_method_handlers("streameval.v1.IngestService", {"Ingest": handler})
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(0).wait()


RESUME = ingest_pb2.IngestResponse(resume=ingest_pb2.Resume())


def test_a_token_that_is_wrong_is_reported_at_once() -> None:
    """The token is sent as a bearer token; a flush fails without waiting."""
    seen = []

    def behave(_: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        seen.append(dict(context.invocation_metadata()).get("authorization"))
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "unknown token")
        yield from ()

    with serving(behave) as address:
        client = Client(address, token="secret")
        client.stream("a/b").add_case(True, 1.0)
        with pytest.raises(AccessError, match=r"^unknown token$"):
            client.flush(timeout_s=20)
        assert seen[0] == "Bearer secret"
        assert client.statistics().last_error == "unknown token"
        assert not client.statistics().connected
        with pytest.raises(AccessError):
            client.close(timeout_s=20)


@pytest.mark.slow
def test_a_server_that_never_acknowledges_holds_nobody_up() -> None:
    """Flush and close end in time; nothing is counted as durable."""

    def behave(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        yield RESUME
        for _ in requests:
            pass
        while context.is_active():
            time.sleep(0.01)

    with serving(behave) as address:
        client = Client(address)
        client.stream("a/b").add_case(True, 1.0)
        began = time.monotonic()
        with pytest.raises(DeadlineError, match=r"^1 row not durable after 0.2 s$"):
            client.flush(timeout_s=0.2)
        with pytest.raises(DeadlineError):
            client.close(timeout_s=0.1)
        assert time.monotonic() - began < 10
        statistics = client.statistics()
        assert (statistics.sent, statistics.acked, statistics.pending) == (1, 0, 1)


def test_a_server_that_talks_nonsense_is_left_and_tried_again() -> None:
    """An answer out of order ends the connection; the client connects again."""
    calls = []

    def behave(requests: Iterator[Any], _: grpc.ServicerContext) -> Iterator[Any]:
        calls.append(1)
        if len(calls) == 1:
            yield ingest_pb2.IngestResponse(ack=ingest_pb2.Ack(last_sequence=9))
        for request in requests:
            if request.HasField("open"):
                yield RESUME
            else:
                ack = ingest_pb2.Ack(last_sequence=request.batch.sequence, revision=3)
                yield ingest_pb2.IngestResponse(ack=ack)

    with serving(behave) as address, Client(address) as client:
        client.stream("a/b").add_case(True, 1.0)
        assert client.flush() == 3
        assert client.statistics().connections == len(calls) == 2


def test_a_batch_that_kills_the_server_is_given_up() -> None:
    """A batch that ends every connection is refused at last; the others arrive."""
    marks: dict[int, int] = {}

    def behave(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        epoch = next(requests).open.epoch
        yield ingest_pb2.IngestResponse(
            resume=ingest_pb2.Resume(last_sequence=marks.setdefault(epoch, 0))
        )
        for request in requests:
            if request.batch.stream == "kil/ler":
                context.abort(grpc.StatusCode.INTERNAL, "out of order")
            marks[epoch] = request.batch.sequence
            ack = ingest_pb2.Ack(last_sequence=request.batch.sequence)
            yield ingest_pb2.IngestResponse(ack=ack)

    with serving(behave) as address, Client(address) as client:
        client.stream("a/b").add_case(True, 1.0)
        client.stream("kil/ler").add_case(True, 2.0)
        client.stream("c/d").add_case(True, 3.0)
        with pytest.raises(RowsLostError, match="given up after 3 attempts: out of order"):
            client.flush()
        statistics = client.statistics()
        assert (statistics.acked, statistics.refused) == (2, 1)
