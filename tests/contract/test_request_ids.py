"""request_id: a change of a stream that is sent again is applied once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask

from streameval.v1 import admin_pb2, ingest_pb2, stream_pb2
from streameval_server import Settings
from streameval_server.testing import running_server

from .conftest import Wire, failure, send

if TYPE_CHECKING:
    from pathlib import Path


def create(name: str, request_id: str = "", **settings: Any) -> stream_pb2.CreateStreamRequest:
    stream = stream_pb2.Stream(name=name, settings=stream_pb2.StreamSettings(**settings))
    return stream_pb2.CreateStreamRequest(stream=stream, request_id=request_id)


def update(name: str, request_id: str, retention_s: int) -> stream_pb2.UpdateStreamRequest:
    settings = stream_pb2.StreamSettings(retention=Duration(seconds=retention_s))
    return stream_pb2.UpdateStreamRequest(
        stream=stream_pb2.Stream(name=name, settings=settings),
        update_mask=FieldMask(paths=["settings.retention"]),
        request_id=request_id,
    )


def delete(name: str, request_id: str = "") -> stream_pb2.DeleteStreamRequest:
    return stream_pb2.DeleteStreamRequest(name=name, request_id=request_id)


def retention_s(wire: Wire, name: str) -> int:
    found = wire.streams.GetStream(stream_pb2.GetStreamRequest(name=name), timeout=20)
    return found.stream.settings.retention.seconds


def test_a_repeated_creation_is_answered_as_a_duplicate(wire: Wire, fresh: str) -> None:
    """It neither fails with ALREADY_EXISTS nor changes the log."""
    request = create(fresh, f"make {fresh}", segment_keys=["country"])
    first = wire.streams.CreateStream(request, timeout=20)
    again = wire.streams.CreateStream(request, timeout=20)
    assert (first.duplicate, again.duplicate) == (False, True)
    assert again.stream == first.stream
    assert again.revision == first.revision
    assert failure(lambda: wire.streams.CreateStream(create(fresh))).reason == "STREAM_EXISTS"


def test_a_repeated_update_does_not_undo_a_later_one(wire: Wire, fresh: str) -> None:
    """The answer has the settings of now."""
    wire.streams.CreateStream(create(fresh), timeout=20)
    early = update(fresh, f"early {fresh}", 86_400 * 40)
    assert not wire.streams.UpdateStream(early, timeout=20).duplicate
    wire.streams.UpdateStream(update(fresh, f"late {fresh}", 86_400 * 50), timeout=20)
    again = wire.streams.UpdateStream(early, timeout=20)
    assert again.duplicate
    assert again.stream.settings.retention.seconds == retention_s(wire, fresh) == 86_400 * 50


def test_a_repeated_deletion_leaves_the_next_stream_of_that_name(wire: Wire, fresh: str) -> None:
    """Without an id it would delete what was created since."""
    made = create(fresh, f"make {fresh}")
    wire.streams.CreateStream(made, timeout=20)
    request = delete(fresh, f"delete {fresh}")
    assert not wire.streams.DeleteStream(request, timeout=20).duplicate
    failed = failure(lambda: wire.streams.CreateStream(made, timeout=20))
    assert (failed.code, failed.reason) == (grpc.StatusCode.NOT_FOUND, "NO_STREAM")
    send(wire, fresh, cases=ingest_pb2.Cases(scores=[0.5], positives=[True]))
    assert wire.streams.DeleteStream(request, timeout=20).duplicate
    assert retention_s(wire, fresh) > 0


def test_an_id_belongs_to_one_request(wire: Wire, fresh: str) -> None:
    """Other content, another method and another stream are refused; nothing changes."""
    request_id = f"once {fresh}"
    wire.streams.CreateStream(create(fresh, request_id), timeout=20)
    before = retention_s(wire, fresh)
    for call, request in (
        (wire.streams.CreateStream, create(fresh, request_id, segment_keys=["plan"])),
        (wire.streams.CreateStream, create(f"{fresh}/b", request_id)),
        (wire.streams.UpdateStream, update(fresh, request_id, 86_400 * 60)),
        (wire.streams.DeleteStream, delete(fresh, request_id)),
    ):
        failed = failure(lambda call=call, request=request: call(request, timeout=20))
        assert (failed.code, failed.reason) == (
            grpc.StatusCode.INVALID_ARGUMENT,
            "REQUEST_ID_REUSED",
        )
        assert failed.fields[0][0] == "request_id"
    assert retention_s(wire, fresh) == before


def test_a_failed_request_may_be_repeated(wire: Wire, fresh: str) -> None:
    """Only what is durable is remembered."""
    request = delete(fresh, f"delete {fresh}")
    assert failure(lambda: wire.streams.DeleteStream(request, timeout=20)).reason == "NO_STREAM"
    wire.streams.CreateStream(create(fresh), timeout=20)
    assert not wire.streams.DeleteStream(request, timeout=20).duplicate


def test_ids_are_at_most_64_bytes(wire: Wire, fresh: str) -> None:
    """They are kept in memory."""
    failed = failure(lambda: wire.streams.CreateStream(create(fresh, "x" * 65), timeout=20))
    assert failed.reason == "INVALID_REQUEST_ID"
    assert "at most 64 bytes of UTF-8, got 65" in failed.message


def test_a_producer_cannot_take_the_name_of_a_request(wire: Wire, fresh: str) -> None:
    """Its batches would share the mark of the request."""
    batch = ingest_pb2.Batch(sequence=1, stream=fresh)
    request = ingest_pb2.IngestBatchRequest(producer="request:1", epoch=1, batch=batch)
    failed = failure(lambda: wire.ingest.IngestBatch(request, timeout=20))
    assert failed.reason == "INVALID_PRODUCER"
    assert "must not begin with 'request:'" in failed.message


@pytest.mark.parametrize("compacted", [False, True])
def test_ids_survive_a_restart(tmp_path: Path, *, compacted: bool) -> None:
    """From the log, and from the checkpoint where the log before it was dropped."""
    settings = Settings(listen="127.0.0.1:0", data=tmp_path)
    made, kept = create("s", "make"), create("kept", "keep")
    with running_server(settings) as address, grpc.insecure_channel(address) as channel:
        wire = Wire(channel)
        wire.streams.CreateStream(made, timeout=20)
        wire.streams.CreateStream(kept, timeout=20)
        wire.streams.DeleteStream(delete("s", "delete"), timeout=20)
        if compacted:
            wire.admin.CompactLog(admin_pb2.CompactLogRequest(), timeout=20)
    with running_server(settings) as address, grpc.insecure_channel(address) as channel:
        wire = Wire(channel)
        assert wire.streams.CreateStream(kept, timeout=20).duplicate
        assert wire.streams.DeleteStream(delete("s", "delete"), timeout=20).duplicate
        assert failure(lambda: wire.streams.CreateStream(made, timeout=20)).reason == "NO_STREAM"
