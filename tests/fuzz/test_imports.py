"""Altered exports with correct checksums: refused with a message, or usable streams."""

from __future__ import annotations

import grpc
import pytest

from streameval.v1 import admin_pb2, ingest_pb2, pair_pb2, query_pb2, stream_pb2, types_pb2

IMPORT = "/streameval.v1.AdminService/ImportStream"
EXPORT = "/streameval.v1.AdminService/ExportStream"
BATCH = "/streameval.v1.IngestService/IngestBatch"
QUERY = "/streameval.v1.QueryService/"
DELETE = "/streameval.v1.StreamService/DeleteStream"
GOOD = {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION}


def brought(target, exemplars, data: bytes) -> bool:
    """Import an export; return whether it was accepted."""
    frames = exemplars.import_frames("brought", data)
    answer = target.call(IMPORT, [frame.SerializeToString() for frame in frames])
    target.check(IMPORT, answer)
    return answer.code is grpc.StatusCode.OK


def go_on(target, exemplars) -> None:
    """Query the imported stream, add to it, and delete it."""
    for chosen in exemplars.selections():
        chosen.stream = "brought"
        asked = query_pb2.GetSnapshotRequest(selection=chosen)
        answer = target.call(QUERY + "GetSnapshot", [asked.SerializeToString()])
        target.check(QUERY, answer)
    for batch in exemplars.batches("brought", 3):
        request = ingest_pb2.IngestBatchRequest(batch=batch)
        answer = target.call(BATCH, [request.SerializeToString()])
        target.check(BATCH, answer)
    chosen = types_pb2.Selection(stream="brought")
    asked = query_pb2.GetSnapshotRequest(selection=chosen)
    target.check(QUERY, target.call(QUERY + "GetSnapshot", [asked.SerializeToString()]))
    again = admin_pb2.ExportStreamRequest(name="brought")
    target.check(EXPORT, target.call(EXPORT, [again.SerializeToString()]))
    gone = stream_pb2.DeleteStreamRequest(name="brought")
    assert target.call(DELETE, [gone.SerializeToString()]).code is grpc.StatusCode.OK


def assault(target, hostile, exemplars, times: int) -> tuple[int, int]:
    """Import altered exports; return how many were refused and how many accepted."""
    sound, refused = exemplars.exported(), 0
    assert brought(target, exemplars, sound)
    go_on(target, exemplars)
    for _ in range(times):
        if hostile.rng.random() < 0.3:
            altered = hostile.resealed(hostile.mutated(sound))
        else:
            altered = hostile.resealed_in_place(sound)
        try:
            if brought(target, exemplars, altered):
                go_on(target, exemplars)
            else:
                refused += 1
        except AssertionError:
            print(repr(altered))
            raise
    target.check_alive()
    return refused, times - refused


def test_altered_exports(target, hostile, exemplars):
    """The checksums match the altered content."""
    refused, taken = assault(target, hostile, exemplars, 100)
    assert refused > 50
    assert taken > 5


@pytest.mark.nightly
def test_many_altered_exports(target, hostile, exemplars):
    """The same with many more exports."""
    assault(target, hostile, exemplars, 300)


def test_altered_exports_of_pairs(target, hostile, exemplars):
    """The same with a pair of two streams: refused, or a pair that answers and goes on."""
    method = "/streameval.v1.AdminService/ImportPair"
    names = ("pair/a", "pair/b")
    for name in names:
        made = stream_pb2.CreateStreamRequest(stream=exemplars.stream(name))
        target.call("/streameval.v1.StreamService/CreateStream", [made.SerializeToString()])
    sound, taken = exemplars.exported_pair(), 0
    for number in range(300):
        altered = hostile.resealed_in_place(sound) if number else sound
        frames = exemplars.pair_import_frames("altered", *names, altered)
        answer = target.call(method, [frame.SerializeToString() for frame in frames])
        target.check(method, answer)
        if answer.code is not grpc.StatusCode.OK:
            assert number
            continue
        taken += 1
        asked = pair_pb2.GetPairComparisonRequest(name="altered")
        compare = "/streameval.v1.PairService/GetPairComparison"
        target.check(compare, target.call(compare, [asked.SerializeToString()]))
        for batch in exemplars.batches(names[1], 3):
            request = ingest_pb2.IngestBatchRequest(batch=batch)
            target.check(BATCH, target.call(BATCH, [request.SerializeToString()]))
        gone = pair_pb2.DeletePairRequest(name="altered")
        deleted = target.call("/streameval.v1.PairService/DeletePair", [gone.SerializeToString()])
        assert deleted.code is grpc.StatusCode.OK
    target.check_alive()
    assert 3 < taken < 250
