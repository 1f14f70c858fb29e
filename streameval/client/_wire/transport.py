"""gRPC as the client uses it: a channel that opens on first use, and errors as ours.

A channel must not exist when a process forks (gRPC's threads do not survive
it), so it is made by the first call that needs it, and a forked child makes its
own.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
from google.protobuf.message import DecodeError
from google.rpc import code_pb2, error_details_pb2
from google.rpc import status_pb2 as rpc_status_pb2

from streameval.client._errors import (
    ClientError,
    ClosedError,
    UnavailableError,
    Violation,
    error_for,
)
from streameval.client._wire.credentials import Credentials
from streameval.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    ingest_pb2,
    ingest_pb2_grpc,
    query_pb2_grpc,
    status_pb2,
    stream_pb2_grpc,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from google.protobuf.message import Message

    from streameval.client._wire.calls import Call, Service

A = TypeVar("A")
R = TypeVar("R")
Metadata = tuple[tuple[str, str], ...]

Details = tuple[str, tuple[Violation, ...], float | None]
_NO_DETAILS: Details = ("", (), None)
_BATCH_TIMEOUT_S = 10.0
_DETAILS_KEY = "grpc-status-details-bin"

_MASKED = "Internal error from Core"
"""What grpc.aio says when a write came too late, in place of the status that had ended
the call (github.com/grpc/grpc/issues/36066): it blames no batch."""

STUBS = {
    "AdminService": admin_pb2_grpc.AdminServiceStub,
    "IngestService": ingest_pb2_grpc.IngestServiceStub,
    "QueryService": query_pb2_grpc.QueryServiceStub,
    "StreamService": stream_pb2_grpc.StreamServiceStub,
}

_OPTIONS = (
    # A server behind a dead route is noticed within 40 s; servers allow a ping every 10 s.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # Snapshots of large hulls; what is sent is bounded by the server's own limits.
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", 64 << 20),
    # A restarted server is found again about as soon as it listens.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # Channels to the same address share nothing: each client is one connection.
    ("grpc.use_local_subchannel_pool", 1),
)

# Channels that must not be closed, nor go away: closing one touches sockets and
# locks that a forked child's parent still uses, or waits for gRPC's threads where
# there are none.
_abandoned: list[grpc.Channel] = []


class Transport:
    """The way to one server.

    Parameters
    ----------
    address : str
        ``host:port``.
    credentials : Credentials
        TLS and token; plain text and none by default.
    """

    def __init__(self, address: str, credentials: Credentials | None = None) -> None:
        self.address = address
        self._credentials = credentials or Credentials(address)
        self._lock = threading.Lock()
        self._channel: grpc.Channel | None = None
        # Open as long as calls may use them.
        self._replaced: list[grpc.Channel] = []
        self._closed = False

    @property
    def metadata(self) -> Metadata:
        """What goes with each call: the token."""
        return self._credentials.metadata()

    def channel(self) -> grpc.Channel:
        """Return the channel, opened on first use; does not wait for the server.

        Another one when the certificates have changed: calls that go on keep theirs.
        """
        with self._lock:
            if self._closed:
                raise ClosedError("the client is closed")
            if self._channel is None or self._credentials.changed:
                if self._channel is not None:
                    self._replaced.append(self._channel)
                self._channel = self._opened()
            return self._channel

    def _opened(self) -> grpc.Channel:
        options = channel_options(self._credentials)
        shown = self._credentials.channel()
        if shown is None:
            return grpc.insecure_channel(self.address, options)
        return grpc.secure_channel(self.address, shown, options)

    def ingest(self) -> ingest_pb2_grpc.IngestServiceStub:
        """Return the calls that ingest."""
        return ingest_pb2_grpc.IngestServiceStub(self.channel())

    def ingest_batch(
        self, producer: str, epoch: int, batch: ingest_pb2.Batch
    ) -> ingest_pb2.IngestResponse:
        """Send one batch by a call of its own; return what a stream would have answered."""
        request = ingest_pb2.IngestBatchRequest(producer=producer, epoch=epoch, batch=batch)
        try:
            reply = self._unary(self.ingest().IngestBatch, request, _BATCH_TIMEOUT_S)
        except ClientError as error:
            if error.reason != "BATCH_REFUSED":
                raise
            refusal = status_pb2.Refusal(
                code=code_pb2.Code.Value(error.code),
                message=str(error),
                violations=[
                    status_pb2.FieldViolation(field=item.field, description=item.description)
                    for item in error.violations
                ],
            )
            refused = ingest_pb2.BatchRefused(sequence=batch.sequence, refusal=refusal)
            return ingest_pb2.IngestResponse(refused=refused)
        ack = ingest_pb2.Ack(last_sequence=batch.sequence, revision=reply.revision)
        return ingest_pb2.IngestResponse(ack=ack)

    def ask(self, question: Call[A], timeout_s: float | None) -> A:
        """Ask and return the answer, or raise what the server answered."""
        call = self._method(question.service, question.method)
        if question.is_streamed:
            return question.read(list(self._streamed(call, question.request, timeout_s)))
        return question.read(self._unary(call, question.request, timeout_s))

    def watch(self, question: Call[A]) -> Iterator[A]:
        """Ask, and yield each answer until the server, or who reads, ends it."""
        call = self._method(question.service, question.method)
        for response in self._streamed(call, question.request, None):
            yield question.read(response)

    def merge(
        self, requests: Iterator[ingest_pb2.MergeRequest], timeout_s: float | None
    ) -> ingest_pb2.MergeResponse:
        """Send a merge and return the answer, or raise what the server answered."""
        return self._unary(self.ingest().Merge, requests, timeout_s)

    def import_stream(
        self, requests: Iterator[admin_pb2.ImportStreamRequest], timeout_s: float | None
    ) -> admin_pb2.ImportStreamResponse:
        """Send an import and return the answer, or raise what the server answered."""
        call = admin_pb2_grpc.AdminServiceStub(self.channel()).ImportStream
        return self._unary(call, requests, timeout_s)

    def _method(self, service: Service, method: str) -> Any:
        return getattr(STUBS[service](self.channel()), method)

    def _unary(self, call: Callable[..., R], request: Any, timeout_s: float | None) -> R:
        try:
            return call(request, timeout=timeout_s, metadata=self.metadata)
        except grpc.RpcError as error:
            raise self._failure(error) from None

    def _streamed(self, call: Any, request: Message, timeout_s: float | None) -> Iterator[Any]:
        answers = call(request, timeout=timeout_s, metadata=self.metadata)
        try:
            yield from answers
        except grpc.RpcError as error:
            raise self._failure(error) from None
        finally:
            answers.cancel()

    def _failure(self, error: grpc.RpcError) -> ClientError:
        """Return why a call failed: a channel that is closed cancels its calls."""
        failure = from_rpc_error(error)
        if failure.code == "CANCELLED" and self._closed:
            return ClosedError("the client is closed")
        return failure

    def close(self) -> None:
        """Close the channel; further calls raise ClosedError."""
        with self._lock:
            self._closed = True
            channels, self._channel = [self._channel, *self._replaced], None
            self._replaced = []
        for channel in channels:
            if channel is not None:
                channel.close()

    def abandon(self) -> None:
        """Let the next call open another channel, without closing this one."""
        with self._lock:
            if self._channel is not None:
                _abandoned.append(self._channel)
                self._channel = None
            _abandoned.extend(self._replaced)
            self._replaced = []

    def forked(self) -> None:
        """Leave the channel to the parent: for a forked child."""
        self._lock = threading.Lock()  # the parent's may be held by a thread that is not here
        self.abandon()


def channel_options(credentials: Credentials) -> tuple[tuple[str, int], ...]:
    """Return the options of a channel."""
    # What stays on this machine does not go through a proxy on another.
    return (*_OPTIONS, ("grpc.enable_http_proxy", int(not credentials.is_local)))


def from_rpc_error(error: grpc.RpcError) -> ClientError:
    """Return the client's error for a failed call, with the server's text and details."""
    if not isinstance(error, grpc.Call | grpc.aio.AioRpcError):
        return error_for("UNKNOWN", str(error))
    if error.details() == _MASKED:
        return UnavailableError("the call was over, and grpc.aio does not say why")
    reason, violations, retry_after_s = _NO_DETAILS
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS_KEY and isinstance(value, bytes):
            reason, violations, retry_after_s = _details(value)
    message = error.details() or error.code().name
    if error.code() is grpc.StatusCode.UNAVAILABLE and not reason:
        # Our server says why; this is what the way to it says.
        message = f"no answer (is a server there, and TLS on both sides or on neither?): {message}"
    return error_for(
        error.code().name,
        message,
        reason=reason,
        violations=violations,
        retry_after_s=retry_after_s,
    )


def _details(encoded: bytes) -> Details:
    """Read google.rpc details; what cannot be read is as if it were not there."""
    reason, violations, retry_after_s = _NO_DETAILS
    try:
        for packed in rpc_status_pb2.Status.FromString(encoded).details:
            info = error_details_pb2.ErrorInfo()
            bad = error_details_pb2.BadRequest()
            retry = error_details_pb2.RetryInfo()
            if packed.Unpack(info):
                reason = info.reason
            elif packed.Unpack(bad):
                violations = tuple(
                    Violation(item.field, item.description) for item in bad.field_violations
                )
            elif packed.Unpack(retry):
                retry_after_s = retry.retry_delay.ToTimedelta().total_seconds()
    except DecodeError:
        pass
    return reason, violations, retry_after_s
