"""Request ids: a change of a stream that is sent again is applied once.

In the log a request id is a producer whose only batch, sequence 1, is the change. Its epoch is
a fingerprint of the request, so that an id which is used for another request is noticed. So the
producers' marks remember it: durably, through checkpoints, for `Limits.marks_ttl_us`.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from streameval.checks import id_problem
from streameval_server._model.errors import Code, RequestError

if TYPE_CHECKING:
    from streameval.v1 import pair_pb2, stream_pb2

    ChangeRequest = (
        stream_pb2.CreateStreamRequest
        | stream_pb2.UpdateStreamRequest
        | stream_pb2.DeleteStreamRequest
        | pair_pb2.CreatePairRequest
        | pair_pb2.DeletePairRequest
    )

MAX_REQUEST_ID_BYTES = 64

PRODUCER_PREFIX = "request:"
"""Begins the producers of requests, and no other producer's name."""


class RequestMark(NamedTuple):
    """The columns of the log that protect a request; empty and 0 without a request id."""

    producer: str = ""
    epoch: int = 0
    sequence: int = 0


def request_mark(request: ChangeRequest) -> RequestMark:
    """Return the columns of a request. O(its bytes).

    Raises
    ------
    RequestError
        INVALID_ARGUMENT when the id cannot be stored.

    Examples
    --------
    >>> from streameval.v1 import stream_pb2
    >>> request_mark(stream_pb2.DeleteStreamRequest(name="fraud/v3"))
    RequestMark(producer='', epoch=0, sequence=0)
    >>> mark = request_mark(stream_pb2.DeleteStreamRequest(name="fraud/v3", request_id="7f"))
    >>> mark.producer, mark.sequence
    ('request:7f', 1)
    """
    request_id = request.request_id
    if not request_id:
        return RequestMark()
    problem = id_problem("request_id", request_id, MAX_REQUEST_ID_BYTES)
    if problem is not None:
        raise RequestError(
            Code.INVALID_ARGUMENT,
            problem,
            reason="INVALID_REQUEST_ID",
            violations=(("request_id", problem),),
        )
    content = type(request)()
    content.CopyFrom(request)  # type: ignore[arg-type] # both are of this type
    content.ClearField("request_id")
    text = request.DESCRIPTOR.full_name.encode() + b"\0"
    digest = hashlib.sha256(text + content.SerializeToString(deterministic=True)).digest()
    # The log's epochs are from 1 to 2**63 - 1.
    epoch = int.from_bytes(digest[:8], "little") >> 1 or 1
    return RequestMark(PRODUCER_PREFIX + request_id, epoch, 1)


def request_id_reused(producer: str) -> RequestError:
    """Return the error of a request whose id belongs to another one."""
    problem = (
        f"request_id {producer.removeprefix(PRODUCER_PREFIX)!r} was used for another request: "
        "give each change an id of its own, and repeat an id only with the same request"
    )
    return RequestError(
        Code.INVALID_ARGUMENT,
        problem,
        reason="REQUEST_ID_REUSED",
        violations=(("request_id", problem),),
    )
