"""Any bytes at any method: an answer with a message, nothing in the log, and on it goes."""

from __future__ import annotations

import grpc
import pytest

from streameval.v1 import query_pb2, stream_pb2, types_pb2

SERVICE = "/streameval.v1."


def path_of(method) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


def fire(target, hostile, method, calls: int) -> None:
    """Call a method that often with one or more messages each."""
    path = path_of(method)
    for _ in range(calls):
        count = hostile.rng.choice((1, 1, 2, 4)) if method.client_streaming else 1
        frames = [hostile.frame(method.input_type) for _ in range(count)]
        answer = target.call(path, frames)
        try:
            target.check(path, answer)
        except AssertionError:
            print(path, [frame[:300] for frame in frames])
            raise
    target.check_alive()


def test_any_method_bears_anything(target, hostile, method):
    """Sound, mutated and random messages."""
    fire(target, hostile, method, 60)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(3))
def test_any_method_bears_much_more(target, hostile, method, seed):  # noqa: ARG001 - a part of the test's name
    """The same with other seeds, many times over."""
    fire(target, hostile, method, 500)


@pytest.mark.parametrize(
    "frame",
    [b"\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x0b" * 5000, b"\x07"],
    ids=["tag", "length", "groups", "wire-type"],
)
def test_bytes_that_are_no_message_are_refused_as_such(target, method, frame):
    """Never UNKNOWN with a traceback in the log, whichever package wrote the service."""
    path = path_of(method)
    answer = target.call(path, [frame])
    target.check(path, answer)
    assert answer.code in {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED}


@pytest.mark.parametrize("size", [500, 5000, 1 << 20])
@pytest.mark.parametrize("letter", ["a", "/", "\N{RIGHT-TO-LEFT OVERRIDE}", "\N{PILE OF POO}"])
def test_long_names_do_not_cost_the_status(target, size, letter):
    """A message that quotes a long name must fit the headers that carry it."""
    name = letter * (size // len(letter.encode()))
    selection = types_pb2.Selection(stream=name)
    for path, request, code in (
        ("StreamService/GetStream", stream_pb2.GetStreamRequest(name=name), "NOT_FOUND"),
        ("StreamService/DeleteStream", stream_pb2.DeleteStreamRequest(name=name), ""),
        ("StreamService/ListStreams", stream_pb2.ListStreamsRequest(page_token=name), ""),
        ("QueryService/GetSnapshot", query_pb2.GetSnapshotRequest(selection=selection), ""),
        ("QueryService/GetState", query_pb2.GetStateRequest(selection=selection), ""),
    ):
        answer = target.call(SERVICE + path, [request.SerializeToString()])
        target.check(path, answer)
        assert answer.code in {grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT}
        assert not code or answer.code.name == code
        assert answer.details, answer
        assert len(answer.message.encode()) < 500
