"""Any bytes at any method: an answer with a message, no warning, and the server continues."""

from __future__ import annotations

import grpc
import pytest

from streameval.v1 import query_pb2, stream_pb2, types_pb2

SERVICE = "/streameval.v1."
REACHED = {
    grpc.StatusCode.OK,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.ALREADY_EXISTS,  # the stream of the previous call
    grpc.StatusCode.FAILED_PRECONDITION,  # a stream cannot be compared with itself
    grpc.StatusCode.NOT_FOUND,  # no alarm was raised; the pair was deleted
}


def path_of(method) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


def fire(target, hostile, sound, method, calls: int) -> None:
    """Call a method `calls` times, mostly with nearly valid requests."""
    path = path_of(method)
    for _ in range(calls):
        request = hostile.rng.choice(sound(method))
        frames = [hostile.frame(message) for message in request]
        if hostile.rng.random() < 0.6:  # valid except for one message
            only = hostile.rng.randrange(len(frames))
            kept = [message.SerializeToString() for message in request]
            frames = [*kept[:only], frames[only], *kept[only + 1 :]]
        answer = target.call(path, frames)
        try:
            target.check(path, answer)
        except AssertionError:
            print(path, [frame[:400] for frame in frames])
            raise
    target.check_alive()


def test_sound_requests_are_what_they_are_called(target, sound, method):
    """The valid requests must succeed, so that requests derived from them reach the code."""
    path = path_of(method)
    if not path.startswith(SERVICE):
        return
    for request in sound(method):
        answer = target.call(path, [message.SerializeToString() for message in request])
        target.check(path, answer)
        assert answer.code in REACHED, answer


def test_any_method_bears_anything(target, hostile, sound, method):
    """Changed, mutated and random messages."""
    fire(target, hostile, sound, method, 80)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(4))
def test_any_method_bears_much_more(target, hostile, sound, method, seed):  # noqa: ARG001 - a part of the test's name
    """The same with other seeds and many more messages."""
    fire(target, hostile, sound, method, 500)


@pytest.mark.parametrize(
    "frame",
    [b"\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x0b" * 5000, b"\x07"],
    ids=["tag", "length", "groups", "wire-type"],
)
def test_bytes_that_are_no_message_are_refused_as_such(target, method, frame):
    """The status is never UNKNOWN with a traceback, also for services of other packages."""
    path = path_of(method)
    answer = target.call(path, [frame])
    target.check(path, answer)
    assert answer.code in {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED}


@pytest.mark.parametrize("size", [500, 5000, 1 << 20])
@pytest.mark.parametrize("letter", ["a", "/", "\N{RIGHT-TO-LEFT OVERRIDE}", "\N{PILE OF POO}"])
def test_long_names_do_not_cost_the_status(target, size, letter):
    """A message that quotes a long name must fit the size limit of headers."""
    name = letter * (size // len(letter.encode()))
    selection = types_pb2.Selection(stream=name)
    sound = types_pb2.Selection(stream="s", segment=types_pb2.Segment(key=name))
    for path, request in (
        ("StreamService/GetStream", stream_pb2.GetStreamRequest(name=name)),
        ("StreamService/DeleteStream", stream_pb2.DeleteStreamRequest(name=name)),
        ("StreamService/ListStreams", stream_pb2.ListStreamsRequest(page_token=name)),
        ("QueryService/GetSnapshot", query_pb2.GetSnapshotRequest(selection=selection)),
        ("QueryService/GetSnapshot", query_pb2.GetSnapshotRequest(selection=sound)),
        ("QueryService/GetSnapshot", query_pb2.GetSnapshotRequest(metrics=[name] * 3)),
        ("QueryService/GetState", query_pb2.GetStateRequest(selection=selection)),
    ):
        answer = target.call(SERVICE + path, [request.SerializeToString()])
        target.check(path, answer)
        assert answer.code in {grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT}
        assert answer.details, answer
        assert len(answer.message.encode()) < 500
