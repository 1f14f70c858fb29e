"""gRPC for the client: a channel that opens on first use, and calls.

gRPC's threads do not survive a fork, so a channel that existed before the fork is of
no use in the child. The first call opens the channel, and a forked child opens
its own.
"""

from __future__ import annotations

import threading
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import grpc
from google.rpc import code_pb2

from streameval.client._errors import ClientError, ClosedError
from streameval.client._wire.credentials import Credentials, Metadata
from streameval.client._wire.rpc_errors import CONNECTION_CUT, from_rpc_error
from streameval.v1 import (
    admin_pb2_grpc,
    ingest_pb2,
    ingest_pb2_grpc,
    pair_pb2_grpc,
    query_pb2_grpc,
    status_pb2,
    stream_pb2_grpc,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from google.protobuf.descriptor import MethodDescriptor
    from google.protobuf.message import Message

    from streameval.client._wire.calls import Call

A = TypeVar("A")
C = TypeVar("C")
R = TypeVar("R")
_BATCH_TIMEOUT_S = 10.0
_STUBS = {
    "AdminService": admin_pb2_grpc.AdminServiceStub,
    "IngestService": ingest_pb2_grpc.IngestServiceStub,
    "PairService": pair_pb2_grpc.PairServiceStub,
    "QueryService": query_pb2_grpc.QueryServiceStub,
    "StreamService": stream_pb2_grpc.StreamServiceStub,
}

_OPTIONS = (
    # A dead route to the server is noticed within 40 s.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # Room for snapshots of large hulls. The server's own limits bound what the client sends.
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", 64 << 20),
    # The client reconnects to a restarted server about as soon as it listens.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # Channels to the same address share no connection: each client has its own.
    ("grpc.use_local_subchannel_pool", 1),
    # Which calls gRPC repeats after UNAVAILABLE, and which wait for a connection.
    ("grpc.service_config", files("streameval.v1").joinpath("service_config.json").read_text()),
)

_abandoned: list[grpc.Channel] = []
"""Channels that must be neither closed nor garbage-collected: closing one touches sockets
and locks that the parent of a forked child still uses, or waits for threads of gRPC that
do not exist in this process."""


class BaseTransport(Generic[C]):
    """Makes the calls to one server, over channels of `grpc` or of `grpc.aio`.

    Parameters
    ----------
    address : str
        ``host:port``.
    credentials : Credentials
        TLS and token; plain text and none by default.
    """

    _grpc: Any = grpc
    """The module that opens channels."""

    def __init__(self, address: str, credentials: Credentials | None = None) -> None:
        self.address = address
        self._credentials = credentials or Credentials(address)
        self._channel: C | None = None
        # Channels with earlier certificates, open because calls may still use them.
        self._replaced: list[C] = []
        self._closed = False
        self._has_answered = False

    @property
    def metadata(self) -> Metadata:
        """The metadata of each call: the token."""
        return self._credentials.metadata()

    def _options(self, timeout_s: float | None) -> dict[str, Any]:
        """Return what each call is made with.

        Reads wait while a server that has answered before restarts, as the service config says.
        A server that has never answered is probably not there: the call fails with the cause.
        """
        return {
            "timeout": timeout_s,
            "metadata": self.metadata,
            "wait_for_ready": None if self._has_answered else False,
        }

    def channel(self) -> C:
        """Return the channel, opened on first use; does not wait for the server.

        When certificates have changed it is a new one; calls in progress keep theirs.
        """
        if self._closed:
            raise ClosedError("the client is closed")
        secrets = self._credentials
        if self._channel is None or (secrets.has_files and secrets.changed):
            if self._channel is not None:
                self._replaced.append(self._channel)
            # Traffic within this machine does not go through a proxy on another.
            options = (*_OPTIONS, ("grpc.enable_http_proxy", int(not secrets.is_local)))
            encrypted = secrets.channel()
            self._channel = (
                self._grpc.insecure_channel(self.address, options)
                if encrypted is None
                else self._grpc.secure_channel(self.address, encrypted, options)
            )
        return self._channel

    def _take_channels(self) -> list[C]:
        """Return all open channels, and forget them."""
        channels = [] if self._channel is None else [self._channel]
        channels += self._replaced
        self._channel, self._replaced = None, []
        return channels

    def failure(self, error: grpc.RpcError) -> ClientError:
        """Return the error of a failed call. Closing a channel ends its calls."""
        failure = from_rpc_error(error)
        if self._closed and (failure.code == "CANCELLED" or failure.reason == CONNECTION_CUT):
            return ClosedError("the client is closed")
        return failure

    @property
    def ingest_stub(self) -> Any:
        """The stub of the ingest service."""
        return ingest_pb2_grpc.IngestServiceStub(cast("Any", self.channel()))

    def _method(self, method: MethodDescriptor) -> Any:
        # One stub serves both kinds of channels.
        stub: Callable[[Any], Any] = _STUBS[method.containing_service.name]
        return getattr(stub(self.channel()), method.name)


class Transport(BaseTransport[grpc.Channel]):
    """Makes blocking calls to one server, for any number of threads."""

    def __init__(self, address: str, credentials: Credentials | None = None) -> None:
        super().__init__(address, credentials)
        self._lock = threading.Lock()

    def channel(self) -> grpc.Channel:
        with self._lock:
            return super().channel()

    def ingest_batch(
        self, producer: str, epoch: int, batch: ingest_pb2.Batch
    ) -> ingest_pb2.IngestResponse:
        """Send one batch by a unary call; return the response that a stream would have sent."""
        request = ingest_pb2.IngestBatchRequest(producer=producer, epoch=epoch, batch=batch)
        try:
            reply = self._unary(self.ingest_stub.IngestBatch, request, _BATCH_TIMEOUT_S)
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

    def ask(self, call: Call[A], timeout_s: float | None) -> A:
        """Make a call; return its result, or raise the server's error."""
        method = self._method(call.method)
        if call.method.server_streaming:
            return call.read(list(self._streamed(method, call.request, timeout_s)))
        return call.read(self._unary(method, call.request, timeout_s))

    def watch(self, call: Call[A]) -> Iterator[A]:
        """Make a call; yield a result for each response until the server or the caller ends it."""
        method = self._method(call.method)
        for response in self._streamed(method, call.request, None):
            if response.ByteSize():  # not a heartbeat
                yield call.read(response)

    def merge(
        self, requests: Iterator[ingest_pb2.MergeRequest], timeout_s: float | None
    ) -> ingest_pb2.MergeResponse:
        """Send a merge; return the response, or raise the server's error."""
        merge: Callable[..., ingest_pb2.MergeResponse] = self.ingest_stub.Merge
        return self._unary(merge, requests, timeout_s)

    def upload(
        self,
        method_of: Callable[[admin_pb2_grpc.AdminServiceStub], Callable[..., R]],
        requests: Iterator[Message],
    ) -> R:
        """Send an import by a method; return the response, or raise the server's error."""
        method = method_of(admin_pb2_grpc.AdminServiceStub(self.channel()))
        return self._unary(method, requests, None)

    def _unary(self, method: Callable[..., R], request: Any, timeout_s: float | None) -> R:
        try:
            response = method(request, **self._options(timeout_s))
        except grpc.RpcError as error:
            raise self.failure(error) from None
        self._has_answered = True
        return response

    def _streamed(self, method: Any, request: Message, timeout_s: float | None) -> Iterator[Any]:
        responses = method(request, **self._options(timeout_s))
        try:
            for response in responses:
                self._has_answered = True
                yield response
        except grpc.RpcError as error:
            raise self.failure(error) from None
        finally:
            responses.cancel()

    def close(self) -> None:
        """Close the channel; further calls raise ClosedError."""
        with self._lock:
            self._closed = True
            channels = self._take_channels()
        for channel in channels:
            channel.close()

    def abandon(self) -> None:
        """Have the next call open another channel, without closing this one."""
        with self._lock:
            _abandoned.extend(self._take_channels())

    def forked(self) -> None:
        """Leave the channel to the parent process; called in a forked child."""
        self._lock = threading.Lock()  # a thread of the parent may have held the old one
        self.abandon()
