"""The calls to a server: requests, and how their responses are read. No I/O.

A function here returns one `Call`, or a `PagedCall`: a generator that yields calls,
is sent their results, and returns the result of all pages. A connection makes the
calls, blocking or on an event loop.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from streameval._common.errors import InvalidInputError
from streameval._common.values import shown
from streameval._evaluator import Evaluator
from streameval.client._wire import decode
from streameval.client._wire.answers import StreamInfo
from streameval.client._wire.reader import read
from streameval.client._wire.selection import Selection, check_names
from streameval.client._wire.settings import NewSettings, set_settings
from streameval.v1 import admin_pb2, pair_pb2, query_pb2, stream_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from google.protobuf.descriptor import MethodDescriptor

    from streameval._snapshot import Snapshot
    from streameval.client._wire.answers import (
        StreamLabelSample,
    )

A = TypeVar("A")

PagedCall = Generator["Call[Any]", Any, A]
"""A generator of the calls for all pages; returns an A."""

_PAGE_SIZE = 1000


_METHODS = {
    method.input_type.full_name: method
    for module in (admin_pb2, pair_pb2, query_pb2, stream_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
"""Each method of the server, by the name of its request: no two have the same."""


def _same(response: Any) -> Any:
    return response


@dataclass(frozen=True, slots=True)
class Call(Generic[A]):
    """One call of the method of the server that takes this request.

    Attributes
    ----------
    request : Message
    read : callable
        Returns the result, given the response, or the list of responses if they
        are streamed. By default the response is the result.
    """

    request: Any
    read: Callable[[Any], A] = _same

    @property
    def method(self) -> MethodDescriptor:
        """The method of the server."""
        found: MethodDescriptor = _METHODS[self.request.DESCRIPTOR.full_name]
        return found


def all_pages(request: Any) -> PagedCall[list[Any]]:
    """Return the calls for all pages of an answer, and their responses."""
    request.page_size = _PAGE_SIZE
    responses: list[Any] = []
    while True:
        responses.append((yield Call(request)))
        if not responses[-1].next_page_token:
            return responses
        request.page_token = responses[-1].next_page_token


# --- Queries of one stream ----------------------------------------------------------------------


def snapshot(
    selection: Selection,
    revision: int,
    metrics: Iterable[str] | None = None,
    *,
    level: float = 0.95,
    anytime: bool = False,
    projection: bool = False,
) -> Call[Snapshot]:
    """Return the call for figures."""
    request = query_pb2.GetSnapshotRequest(
        selection=selection.to_message(revision),
        metrics=check_names(metrics),
        level=level,
        anytime=anytime,
        projection=projection,
    )
    return Call(request, lambda response: decode.read_snapshot(response.snapshot))


def evaluator(selection: Selection, revision: int) -> Call[Evaluator]:
    """Return the call for the state."""
    return Call(
        query_pb2.GetStateRequest(selection=selection.to_message(revision)),
        lambda pieces: Evaluator.from_bytes(b"".join(piece.data for piece in pieces)),
    )


def sample_for_labels(
    selection: Selection,
    revision: int,
    size: int,
    *,
    metric: str,
    threshold: float | None,
    prevalence: float | None,
    seed: int | None,
    draw_ids: bool,
) -> Call[StreamLabelSample]:
    """Return the call for what to label next; None leaves a field out."""
    request = query_pb2.SampleForLabelsRequest(
        selection=selection.to_message(revision),
        size=check_integer(size, "size", least=1, bits=32),
        metric=metric,
        threshold=threshold,
        prevalence=prevalence,
        seed=None if seed is None else check_integer(seed, "seed", least=0, bits=64),
        draw_ids=draw_ids,
    )
    return Call(request, decode.read_label_sample)


def check_integer(value: int, field: str, *, least: int, bits: int) -> int:
    """Return an integer that a field of the request holds, or refuse it."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if not is_integer or not least <= value < 1 << bits:
        message = f"{field} must be an integer from {least} to 2^{bits} - 1, got {shown(value)}"
        raise InvalidInputError(message, field=field)
    return value


# --- Comparison, and the management of streams --------------------------------------------------


def set_prevalence(request: Any, prevalence: float | str, *, default: str) -> None:
    """Set the prevalence of a comparison: a number, the default's, or each side's own."""
    if prevalence == "own":
        request.own_prevalence = True
    elif prevalence != default:
        if isinstance(prevalence, str) or not 0 < prevalence < 1:
            message = (
                f"prevalence must be {default!r}, 'own' or between 0 and 1, got {shown(prevalence)}"
            )
            raise InvalidInputError(message, field="prevalence")
        request.prevalence = prevalence


def create_stream(
    name: str, settings: Mapping[str, Any], *, request_id: str = ""
) -> Call[stream_pb2.CreateStreamResponse]:
    """Return the call that creates a stream; the same `request_id` creates it once."""
    request = stream_pb2.CreateStreamRequest(request_id=request_id or new_request_id())
    request.stream.name = name
    set_settings(request.stream.settings, NewSettings.__annotations__, settings)
    return Call(request)


def update_stream(name: str, settings: Mapping[str, Any]) -> Call[stream_pb2.UpdateStreamResponse]:
    """Return the call that changes the given settings."""
    if not settings:
        raise InvalidInputError("give at least one setting to change", field="settings")
    request = stream_pb2.UpdateStreamRequest(request_id=new_request_id())
    request.stream.name = name
    set_settings(request.stream.settings, NewSettings.__annotations__, settings)
    request.update_mask.paths.extend(f"settings.{key}" for key in settings)
    return Call(request)


def get_stream(name: str) -> Call[StreamInfo]:
    """Return the call for a stream's description."""
    request = stream_pb2.GetStreamRequest(name=name)
    return Call(request, lambda response: read(response.stream, StreamInfo))


def new_request_id() -> str:
    """Return the id of a change, with which gRPC may send it again."""
    return str(uuid.uuid4())
