"""The client's errors: the tree, and how a status becomes one of them."""

from __future__ import annotations

import copy
import pickle

import grpc
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

import streameval.client
from streameval import StreamEvalError
from streameval.client import (
    AccessError,
    ClientError,
    DeadlineError,
    FencedError,
    InvalidRequestError,
    NotFoundError,
    PreconditionError,
    RefusedBatch,
    ResourceExhaustedError,
    RowsLostError,
    UnavailableError,
    UnimplementedError,
    Violation,
)
from streameval.client._errors import error_for
from streameval.client._wire.rpc_errors import from_rpc_error


class Failed(grpc.RpcError, grpc.Call):
    """A failed call, as gRPC raises it."""

    def __init__(
        self, code: grpc.StatusCode, message: str, metadata: tuple[tuple[str, bytes], ...] = ()
    ) -> None:
        self._code, self._message, self._metadata = code, message, metadata

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._message

    def trailing_metadata(self) -> tuple[tuple[str, bytes], ...]:
        return self._metadata

    def _unused(self, *args: object) -> None:
        raise NotImplementedError

    initial_metadata = is_active = time_remaining = cancel = add_callback = _unused


def packed(*details: object) -> tuple[tuple[str, bytes], ...]:
    """Return details as trailing metadata."""
    status = status_pb2.Status(code=8, message="text")
    for detail in details:
        box = any_pb2.Any()
        box.Pack(detail)
        status.details.append(box)
    return (("other", b"x"), ("grpc-status-details-bin", status.SerializeToString()))


def test_details_are_read() -> None:
    """Reason, fields and delay of google.rpc details are attributes of the error."""
    error = from_rpc_error(
        Failed(
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "the queue is full",
            packed(
                error_details_pb2.ErrorInfo(reason="QUEUE_FULL", domain="streameval"),
                error_details_pb2.BadRequest(
                    field_violations=[
                        error_details_pb2.BadRequest.FieldViolation(
                            field="cases.scores[3]", description="too many"
                        )
                    ]
                ),
                error_details_pb2.RetryInfo(
                    retry_delay=duration_pb2.Duration(seconds=1, nanos=500_000_000)
                ),
                error_details_pb2.Help(),
            ),
        )
    )
    assert isinstance(error, ResourceExhaustedError)
    assert str(error) == "the queue is full"
    assert error.reason == "QUEUE_FULL"
    assert error.violations == (Violation("cases.scores[3]", "too many"),)
    assert error.retry_after_s == 1.5


def test_no_answer_says_what_to_look_at() -> None:
    """Without an answer the message says what to check; a server's own text stays."""
    error = from_rpc_error(Failed(grpc.StatusCode.UNAVAILABLE, "connection refused", ()))
    assert isinstance(error, UnavailableError)
    assert str(error) == (
        "no answer (is a server there, and TLS on both sides or on neither?): connection refused"
    )
    details = packed(error_details_pb2.ErrorInfo(reason="STOPPING", domain="streameval"))
    error = from_rpc_error(Failed(grpc.StatusCode.UNAVAILABLE, "the server stops", details))
    assert str(error) == "the server stops"


RST = "Stream removed (RST_STREAM (Received RST_STREAM with error code {}))"
STATUS = "Received http2 header with status: {}"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("INTERNAL", RST.format(2)),  # nginx: a body above its limit, a silent call
        ("INTERNAL", RST.format(1)),  # load balancers whose idle time-out is over
        ("UNKNOWN", "Stream removed"),  # a call without trailers
        ("INTERNAL", "Data frame with END_STREAM flag received"),  # HAProxy's time-outs
        ("CANCELLED", "Received RST_STREAM with error code 8"),  # HAProxy, a server that aborts
        ("UNKNOWN", "Received RST_STREAM with error code 0"),
        ("INTERNAL", "Received RST_STREAM with code 2 triggered by: read ECONNRESET"),
        ("UNKNOWN", "Stream closed"),
        ("UNKNOWN", "GOAWAY received; Error code: 0; Debug Text: graceful"),
        ("INTERNAL", "Connection closed with unknown cause"),  # nghttpx: idle for a minute
        ("UNAVAILABLE", "recvmsg:Connection reset by peer"),
        ("UNAVAILABLE", "Socket closed"),
        ("CANCELLED", "sendmsg: Broken pipe"),
    ],
)
def test_a_cut_connection_is_unavailable(code: str, text: str) -> None:
    """Whatever code gRPC gives to a call that a proxy or the network has ended."""
    error = from_rpc_error(Failed(grpc.StatusCode[code], text))
    assert type(error) is UnavailableError
    assert (error.code, error.reason) == ("UNAVAILABLE", "CONNECTION_CUT")
    assert text in str(error)


@pytest.mark.parametrize("code", ["INTERNAL", "CANCELLED", "UNKNOWN"])
def test_what_a_server_says_of_streams_is_its_own(code: str) -> None:
    """A status with a reason comes from a server, and one without such words from gRPC."""
    details = packed(error_details_pb2.ErrorInfo(reason="ODD", domain="streameval"))
    for text, metadata in ((RST.format(2), details), ("it broke", ())):
        error = from_rpc_error(Failed(grpc.StatusCode[code], text, metadata))
        assert (error.code, str(error)) == (code, text)


@pytest.mark.parametrize(
    ("code", "status", "kind", "part"),
    [
        ("UNIMPLEMENTED", 404, UnimplementedError, "gRPC address"),  # the page's port
        ("UNKNOWN", 405, ClientError, "gRPC address"),
        ("UNKNOWN", 302, ClientError, "gRPC address"),  # a log-in page
        ("UNKNOWN", 204, ClientError, "gRPC address"),
        ("UNKNOWN", 431, ClientError, "gRPC address"),
        ("PERMISSION_DENIED", 403, AccessError, "pass gRPC on"),
        ("UNAUTHENTICATED", 401, AccessError, "pass gRPC on"),
        ("UNKNOWN", 413, ResourceExhaustedError, "as large as this one"),
        ("UNAVAILABLE", 502, UnavailableError, "is the server behind it running?"),
        ("UNAVAILABLE", 504, UnavailableError, "is the server behind it running?"),
        ("UNKNOWN", 500, UnavailableError, "is the server behind it running?"),
        ("UNKNOWN", 408, UnavailableError, "is the server behind it running?"),
        ("UNKNOWN", 520, UnavailableError, "is the server behind it running?"),
    ],
)
def test_an_answer_that_is_not_grpc_is_explained(
    code: str, status: int, kind: type[ClientError], part: str
) -> None:
    """A proxy answers with a page: the error says its status, and what to look at."""
    error = from_rpc_error(Failed(grpc.StatusCode[code], STATUS.format(status)))
    assert type(error) is kind
    assert f"the HTTP status {status}:" in str(error)
    assert part in str(error)


def test_a_call_that_takes_too_long_says_what_to_do() -> None:
    """The network's own text, "Deadline Exceeded", is replaced."""
    error = from_rpc_error(Failed(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", ()))
    assert type(error) is DeadlineError
    assert str(error) == (
        "no answer in time: the server is busy, or needs longer for this; try again"
    )


def test_details_that_cannot_be_read_are_left_out() -> None:
    """Details that cannot be decoded do not hide the status."""
    metadata = (("grpc-status-details-bin", b"\xff\xff\xff"),)
    error = from_rpc_error(Failed(grpc.StatusCode.NOT_FOUND, "", metadata))
    assert isinstance(error, NotFoundError)
    assert str(error) == "NOT_FOUND"
    assert error.retry_after_s is None
    assert type(from_rpc_error(grpc.RpcError("odd"))) is ClientError


def test_a_write_that_came_too_late_blames_nobody() -> None:
    """grpc.aio reports INTERNAL, which from a server would mean that it cannot take a batch."""
    nothing = grpc.aio.Metadata()
    late, real = (
        grpc.aio.AioRpcError(grpc.StatusCode.INTERNAL, nothing, nothing, details)
        for details in ("Internal error from Core", "it broke")
    )
    assert from_rpc_error(late).code == "UNAVAILABLE"
    assert from_rpc_error(real).code == "INTERNAL"


@pytest.mark.parametrize(
    ("code", "kind", "also"),
    [
        ("INVALID_ARGUMENT", InvalidRequestError, ValueError),
        ("NOT_FOUND", NotFoundError, LookupError),
        ("UNAUTHENTICATED", AccessError, StreamEvalError),
        ("PERMISSION_DENIED", AccessError, StreamEvalError),
        ("UNAVAILABLE", UnavailableError, StreamEvalError),
        ("DEADLINE_EXCEEDED", DeadlineError, TimeoutError),
        ("DATA_LOSS", ClientError, StreamEvalError),
        ("FAILED_PRECONDITION", PreconditionError, StreamEvalError),
    ],
)
def test_a_status_has_its_error(code: str, kind: type, also: type) -> None:
    """Each status has one error class; `code` is the name of the status."""
    error = error_for(code, "text")
    assert type(error) is kind
    assert isinstance(error, also)
    assert (str(error), error.code) == ("text", code)


def test_a_reason_is_more_than_a_status() -> None:
    """Two reasons are a FencedError, although other precondition failures are not."""
    for reason in ("EPOCH_FENCED", "SEQUENCE_REUSED"):
        assert type(error_for("FAILED_PRECONDITION", "t", reason=reason)) is FencedError


@pytest.mark.parametrize(
    "error",
    [
        error_for(
            "RESOURCE_EXHAUSTED",
            "text",
            reason="R",
            violations=(Violation("f", "d"),),
            retry_after_s=0.5,
        ),
        error_for("DEADLINE_EXCEEDED", "text"),
        RowsLostError(
            "text", refusals=(RefusedBatch("s", 1, "X", "m"),), refused_rows=1, dropped_rows=2
        ),
    ],
)
def test_errors_travel_between_processes(error: ClientError) -> None:
    """Pickled and copied errors keep their class, text and attributes."""
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert twin.__dict__ == error.__dict__


def test_public_names_are_sorted_and_complete() -> None:
    """Every error of the tree is exported, and `__all__` is in order."""
    names = streameval.client.__all__
    assert names == sorted(names)
    kinds = [ClientError]
    while kinds:
        kind = kinds.pop()
        if kind.__module__.endswith("client._errors"):
            assert kind.__name__ in names
        kinds += kind.__subclasses__()
