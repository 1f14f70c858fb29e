"""GetVerdict: the verdict on a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval.v1 import verdict_pb2
from streameval_server._model.names import check_stream_name
from streameval_server._queries.selection import micros

if TYPE_CHECKING:
    from streameval_server._queries.query_engine import QueryEngine


@dataclass(frozen=True, slots=True)
class VerdictRequest:
    """A checked GetVerdictRequest. Equal requests have one answer."""

    stream: str
    at_us: int | None


def parse_verdict_request(request: verdict_pb2.GetVerdictRequest) -> VerdictRequest:
    """Check a request.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT with the field at fault.
    """
    check_stream_name(request.stream, "stream")
    return VerdictRequest(
        request.stream, micros(request.at, "at") if request.HasField("at") else None
    )


def verdict(engine: QueryEngine, request: VerdictRequest) -> verdict_pb2.GetVerdictResponse:
    """Return the verdict on a stream."""
    view = engine.view(request.stream)
    found = engine.verdicts.of(view, request.at_us)
    return verdict_pb2.GetVerdictResponse(verdict=found.message(), revision=view.revision)
