"""From a request to an item for the log: decoded, checked, refused or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import DecodeError, Message

from streameval_server._batch.decode import decode
from streameval_server._log.catalog import NEW
from streameval_server._log.entries import Format, Item, Kind
from streameval_server._model.errors import Code, Refused, RefusedError, RequestError
from streameval_server._model.names import MAX_UINT, id_problem, stream_name_problem

M = TypeVar("M", bound=Message)

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval.v1 import ingest_pb2
    from streameval_server._log.catalog import Catalog
    from streameval_server._log.entries import Owner
    from streameval_server._model.limits import Limits

    Forbids = Callable[[str], str | None]
    """Says why whoever sends must not write to a stream; None when it may."""


def nothing() -> None:
    """Do nothing: for whoever need not be woken."""


def nowhere(_stream: str) -> None:
    """Forbid no stream."""


def parsed(message: type[M], frame: bytes) -> M:
    """Return an encoded message, or raise the RequestError that says it is none."""
    try:
        return message.FromString(frame)
    except DecodeError:
        raise RequestError(
            Code.INVALID_ARGUMENT,
            f"the request is not an encoded {message.DESCRIPTOR.full_name}",
            reason="MALFORMED_MESSAGE",
        ) from None


def batch_item(
    owner: Owner,
    batch: ingest_pb2.Batch,
    frame: bytes,
    *,
    format_: Format,
    producer: str,
    epoch: int,
    now_us: int,
    limits: Limits,
    catalog: Catalog,
    forbids: Forbids = nowhere,
) -> Item:
    """Return a batch on its way into the log.

    A batch that breaks a rule is on its way too, as the refusal that consumes
    its sequence. One for a stream that its sender must not write to is logged
    without the stream's name: it leaves no trace there.
    """

    def refused(refusal: Refused, stream: str) -> Item:
        payload = refusal.to_message().SerializeToString()
        return Item(
            owner,
            Kind.REFUSED,
            Format.REFUSAL,
            stream,
            producer,
            epoch,
            batch.sequence,
            payload,
            None,
            refusal,
            len(payload),
        )

    known = stream_name_problem(batch.stream, limits.max_stream_name) is None
    problem = forbids(batch.stream) if known else None
    if problem is not None:
        return refused(Refused(Code.PERMISSION_DENIED, problem, (("stream", problem),)), "")
    nbytes = len(frame)
    # The settings may change before the commit; then the committer looks again.
    settings = catalog.get(batch.stream, NEW).settings
    try:
        rows = decode(batch, nbytes, now_us, limits, settings)
    except RefusedError as error:
        return refused(error.refused, batch.stream if known else "")
    item = Item(
        owner,
        Kind.BATCH,
        format_,
        batch.stream,
        producer,
        epoch,
        batch.sequence,
        frame,
        rows,
        None,
        nbytes,
    )
    item.settings = settings
    return item


def check_producer(producer: str, epoch: int, limits: Limits, *, prefix: str = "") -> None:
    """Refuse a producer's name or epoch that the log cannot hold."""
    field = f"{prefix}producer"
    problem = id_problem("producer", producer, limits.max_id_bytes)
    if problem is None and epoch > MAX_UINT:
        field = f"{prefix}epoch"
        problem = f"epoch must be below 2**63, got {epoch}"
    if problem is not None:
        raise RequestError(
            Code.INVALID_ARGUMENT,
            problem,
            reason="INVALID_PRODUCER",
            violations=((field, problem),),
        )
