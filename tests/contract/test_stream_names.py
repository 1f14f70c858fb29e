"""Names with segments of dots: refused for new streams; streams that have one still work."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import grpc
import pytest

from streameval._common import names
from streameval.client import Client, InvalidRequestError, RowsLostError
from streameval.v1 import admin_pb2, ingest_pb2, query_pb2, stream_pb2
from streameval_server import Settings
from streameval_server.testing import running_server

from .conftest import Wire, failure, selection

if TYPE_CHECKING:
    from pathlib import Path

DOTTED = "fraud/../payments/v1"
PROBLEM = f"stream name must have no segment '.' or '..', got '{DOTTED}'"


def dotted() -> ingest_pb2.Batch:
    """Return a batch of one case for the stream."""
    batch = ingest_pb2.Batch(stream=DOTTED)
    batch.cases.scores.append(0.5)
    batch.cases.positives.append(True)
    return batch


def exported(wire: Wire) -> list[bytes]:
    """Return the pieces of the stream's export."""
    pieces = wire.admin.ExportStream(admin_pb2.ExportStreamRequest(name=DOTTED), timeout=20)
    return [piece.data for piece in pieces]


def imported(wire: Wire, data: list[bytes], name: str) -> str:
    """Import an export; return the stream's name."""
    header = admin_pb2.ImportStreamHeader(name=name, total_bytes=sum(map(len, data)))
    requests = [admin_pb2.ImportStreamRequest(header=header)]
    requests += [admin_pb2.ImportStreamRequest(data=piece) for piece in data]
    return wire.admin.ImportStream(iter(requests), timeout=20).name


def test_a_stream_of_an_old_log_is_read_exported_renamed_and_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name was allowed when the log was written; only a new stream is refused."""
    settings = Settings(listen="127.0.0.1:0", data=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(names, "_DOT_SEGMENT", re.compile("(?!)"))
        with running_server(settings) as address, grpc.insecure_channel(address) as channel:
            Wire(channel).one(dotted())
    with running_server(settings) as address, grpc.insecure_channel(address) as channel:
        wire = Wire(channel)
        revision = wire.one(dotted()).revision  # it exists, so it takes batches
        request = query_pb2.GetSnapshotRequest(selection=selection(DOTTED, revision))
        assert wire.query.GetSnapshot(request, timeout=20).snapshot.stream == DOTTED
        with Client(address) as client:
            assert client.stream(DOTTED).snapshot().num_cases == 2
        data = exported(wire)
        wire.streams.DeleteStream(stream_pb2.DeleteStreamRequest(name=DOTTED), timeout=20)
        assert failure(lambda: imported(wire, data, "")).fields == [("data", PROBLEM)]
        assert failure(lambda: imported(wire, data, DOTTED)).fields == [("header.name", PROBLEM)]
        assert imported(wire, data, "fraud/payments/v1") == "fraud/payments/v1"


def test_no_way_of_creating_takes_one(wire: Wire) -> None:
    """Neither a batch, with or without a producer, nor the client."""
    assert failure(lambda: wire.one(dotted())).fields == [("stream", PROBLEM)]
    batch = dotted()
    batch.sequence = 1
    (answer, _ack) = wire.sent("dots", [batch])
    assert answer.refused.refusal.message == PROBLEM
    missing = failure(lambda: wire.streams.GetStream(stream_pb2.GetStreamRequest(name=DOTTED)))
    assert missing.code == grpc.StatusCode.NOT_FOUND


def test_the_client_reports_the_refusal() -> None:
    """Of a new stream, and of the first rows of one."""
    settings = Settings(listen="127.0.0.1:0", memory=True)
    with running_server(settings) as address, Client(address) as client:
        with pytest.raises(InvalidRequestError, match="no segment"):
            client.create_stream(DOTTED)
        client.stream(DOTTED).add_case(True, 0.5)
        with pytest.raises(RowsLostError, match="no segment"):
            client.flush(timeout_s=20)
