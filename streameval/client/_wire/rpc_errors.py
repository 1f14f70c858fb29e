"""Failed calls become the client's errors, with the server's text and details.

What ends a call between client and server has no details: a cut connection, or the answer of a
proxy. Its text comes from gRPC, so it is recognised by its kind, and the error says what to
look at.
"""

from __future__ import annotations

import re
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2
from google.rpc import status_pb2 as rpc_status_pb2

from streameval.client._errors import ClientError, UnavailableError, Violation, error_for

CONNECTION_CUT = "CONNECTION_CUT"
"""The reason of an UnavailableError whose call had begun."""

_DETAILS_KEY = "grpc-status-details-bin"

_MASKED_STATUS = "Internal error from Core"
"""The text of grpc.aio for a write after the end of a call, in place of the status that
ended the call (github.com/grpc/grpc/issues/36066). No batch is the cause."""

_CUT = re.compile(
    "RST_STREAM|END_STREAM flag|GOAWAY|Stream removed|Stream closed|Connection reset|"
    "Connection closed|Socket closed|Broken pipe|Endpoint closing|Transport closed|End of TCP"
)
"""gRPC's texts for a call whose connection, or whose stream of a connection, was ended."""

_HTTP_STATUS = re.compile(r"http2 header with status: (\d{3})")
"""gRPC's text for an answer that is not gRPC."""

_UNCLEAR_CODES = frozenset({"INTERNAL", "UNKNOWN", "CANCELLED"})
"""gRPC gives these to what it does not know; the project's servers give a reason besides."""

_PASSING_HTTP_STATUSES = frozenset({"408", "425", "429"})
"""With all from 500 on: the proxy, or what is behind it, may answer later."""


def from_rpc_error(error: grpc.RpcError) -> ClientError:
    """Return the client's error for a failed call, with the server's text and details."""
    if not isinstance(error, grpc.Call | grpc.aio.AioRpcError):
        return error_for("UNKNOWN", str(error))
    text, code = error.details() or "", error.code().name
    if text == _MASKED_STATUS:
        return UnavailableError("the call was over, and grpc.aio does not say why")
    details: dict[str, Any] = {}
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS_KEY and isinstance(value, bytes):
            details = _details(value)
    if not details.get("reason"):
        code, details["reason"], text = _explained(code, text)
    return error_for(code, text or code, **details)


def unanswered(timeout_s: float) -> UnavailableError:
    """Return the error of an Ingest call whose first message was not answered in time."""
    return UnavailableError(
        f"the Ingest call was not answered within {timeout_s:.3g} s: the server is busy, or a "
        "proxy on the way waits for the end of the request (docs/proxies.md says what to set)"
    )


def _explained(code: str, text: str) -> tuple[str, str, str]:
    """Return code, reason and message of a status that gave no reason."""
    status = _HTTP_STATUS.search(text)
    if status is not None:
        return _of_http_status(code, status.group(1))
    is_cut = _CUT.search(text) is not None
    if code in _UNCLEAR_CODES and is_cut:
        message = (
            "the connection was cut by a proxy or by the network, or the server has ended "
            f"(docs/proxies.md says what a proxy needs): {text}"
        )
        return "UNAVAILABLE", CONNECTION_CUT, message
    if code == "UNAVAILABLE":
        # The project's servers give a reason, so this text comes from the network.
        text = f"no answer (is a server there, and TLS on both sides or on neither?): {text}"
        return code, CONNECTION_CUT if is_cut else "", text
    if code == "DEADLINE_EXCEEDED":
        # gRPC gave up on this side, and its text does not say on what.
        text = "no answer in time: the server is busy, or needs longer for this; try again"
    return code, "", text


def _of_http_status(code: str, status: str) -> tuple[str, str, str]:
    """Return code, reason and message of an answer of HTTP that is not gRPC."""
    message = f"a proxy, or a server without gRPC, answered with the HTTP status {status}: "
    if status == "413":
        code = "RESOURCE_EXHAUSTED"
        message += "it takes no request as large as this one; set its limit as in docs/proxies.md"
    elif status >= "500" or status in _PASSING_HTTP_STATUSES:
        code = "UNAVAILABLE"
        message += "is the server behind it running?"
    else:
        message += (
            "is this the server's gRPC address (--listen, by default port 50051), and does the "
            "proxy pass gRPC on, as in docs/proxies.md?"
        )
    return code, "", message


def _details(encoded: bytes) -> dict[str, Any]:
    """Return the decoded google.rpc details; details that cannot be decoded are left out."""
    details: dict[str, Any] = {}
    try:
        for packed in rpc_status_pb2.Status.FromString(encoded).details:
            info = error_details_pb2.ErrorInfo()
            bad = error_details_pb2.BadRequest()
            retry = error_details_pb2.RetryInfo()
            if packed.Unpack(info):
                details |= {"reason": info.reason, "metadata": dict(info.metadata)}
            elif packed.Unpack(bad):
                details["violations"] = tuple(
                    Violation(item.field, item.description) for item in bad.field_violations
                )
            elif packed.Unpack(retry):
                details["retry_after_s"] = retry.retry_delay.ToTimedelta().total_seconds()
    except DecodeError:
        pass
    return details
