"""The server's side of an Ingest stream, and of single calls, without the wire.

Bytes in, messages out. The session knows the order that its own stream must
keep; whether a sequence is new is the committer's to decide, when it commits:
an older connection's batches of the same producer may still be queued.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval.v1 import ingest_pb2, stream_pb2
    from streameval_server._committer import Committer
    from streameval_server._entries import Outcome
    from streameval_server._errors import RequestError
    from streameval_server._limits import Limits


def nothing() -> None:
    """Do nothing: for whoever need not be woken."""


class IngestSession:
    """One Ingest stream.

    Parameters
    ----------
    committer, limits
        The server's.
    wake
        Called when there is something new: replies, room, or an error. It
        runs in the thread that calls `feed` or delivers outcomes.
    """

    def __init__(
        self, committer: Committer, limits: Limits, wake: Callable[[], None] = nothing
    ) -> None:
        raise NotImplementedError

    def feed(self, frame: bytes, now_us: int) -> None:
        """Take the next frame, an encoded IngestRequest.

        Raises
        ------
        RequestError
            The stream must end with it. What was submitted before may still
            become durable; nothing of this frame does.
        """
        raise NotImplementedError

    @property
    def full(self) -> bool:
        """Whether to stop reading until something was acked."""
        raise NotImplementedError

    @property
    def idle(self) -> bool:
        """Whether everything that was fed has been settled."""
        raise NotImplementedError

    @property
    def error(self) -> RequestError | None:
        """Why the stream must end, once `settle` learnt it."""
        raise NotImplementedError

    def replies(self) -> list[ingest_pb2.IngestResponse]:
        """Return what is to be sent now: refusals, then one cumulative ack."""
        raise NotImplementedError

    def settle(self, outcome: Outcome) -> None:
        """Take the outcome of a batch."""
        raise NotImplementedError


class UnaryCall:
    """One call that ends when its item is durable."""

    def __init__(
        self, committer: Committer, limits: Limits, wake: Callable[[], None] = nothing
    ) -> None:
        raise NotImplementedError

    def ingest_batch(self, frame: bytes, now_us: int) -> None:
        """Submit an encoded IngestBatchRequest. Raises RequestError."""
        raise NotImplementedError

    def create_stream(self, frame: bytes) -> None:
        """Submit an encoded CreateStreamRequest. Raises RequestError."""
        raise NotImplementedError

    def delete_stream(self, frame: bytes) -> None:
        """Submit an encoded DeleteStreamRequest. Raises RequestError."""
        raise NotImplementedError

    @property
    def done(self) -> bool:
        """Whether `response` has an answer."""
        raise NotImplementedError

    def response(
        self,
    ) -> (
        ingest_pb2.IngestBatchResponse
        | stream_pb2.CreateStreamResponse
        | stream_pb2.DeleteStreamResponse
    ):
        """Return the answer once `done`. Raises RequestError when the call failed."""
        raise NotImplementedError

    def settle(self, outcome: Outcome) -> None:
        """Take the outcome."""
        raise NotImplementedError
