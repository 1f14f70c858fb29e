"""What a list of streams is asked for: ListStreamSummariesRequest, checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from streameval.checks import quoted
from streameval_server._model.errors import invalid
from streameval_server._queries.selection import AllTime, Last, micros
from streameval_server._queries.summary_entry import STATES
from streameval_server._queries.summary_order import DEFAULT_ORDER, ORDERS, Order, decode_token

if TYPE_CHECKING:
    from streameval.v1 import overview_pb2
    from streameval_server._queries.summary_order import Key

DEFAULT_PAGE_ROWS = 50
MAX_PAGE_ROWS = 1_000
MAX_OPEN_GROUPS = 100
_MAX_SEARCH = 256

DEFAULT = Order()


@dataclass(frozen=True, slots=True)
class ListRequest:
    """A checked ListStreamSummariesRequest. Equal requests have one answer.

    Attributes
    ----------
    span : AllTime or Last
    order : Order
    search : str
        In lower case.
    prefix : str
    open_groups : frozenset of str or None
        The groups whose streams are listed; None does not group.
    size : int
        Rows of a page, at most.
    after : Key or None
        The key of the last row of the page before.
    streams : tuple of str or None
        The streams that the token covers, with those below them; None covers all.
    state : str
        Only streams in this one of `STATES`; empty for all.
    """

    span: AllTime | Last
    order: Order = DEFAULT
    search: str = ""
    prefix: str = ""
    open_groups: frozenset[str] | None = None
    size: int = DEFAULT_PAGE_ROWS
    after: Key | None = None
    streams: tuple[str, ...] | None = None
    state: str = ""

    def covering(self, streams: tuple[str, ...] | None) -> ListRequest:
        """Return the same request of a token that covers these streams. O(1)."""
        return replace(self, streams=streams)


def parse_list_request(
    request: overview_pb2.ListStreamSummariesRequest, path: str = ""
) -> ListRequest:
    """Check a request.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT with the field at fault.
    """
    span: AllTime | Last = AllTime()
    if request.HasField("last"):
        span_us = micros(request.last, f"{path}last")
        if span_us <= 0:
            raise invalid(f"{path}last", f"last must be positive, got {span_us / 1e6:g} s")
        span = Last(span_us)
    by = request.order_by or DEFAULT_ORDER
    if by not in ORDERS:
        raise invalid(
            f"{path}order_by", f"order_by must be one of {', '.join(ORDERS)}, got {quoted(by)}"
        )
    for name in ("search", "prefix"):
        text = getattr(request, name)
        if len(text) > _MAX_SEARCH:
            raise invalid(
                f"{path}{name}", f"{name} has at most {_MAX_SEARCH} characters, got {len(text)}"
            )
    if request.page_size < 0:
        problem = f"page_size must not be negative, got {request.page_size}"
        raise invalid(f"{path}page_size", problem)
    if len(request.open_groups) > MAX_OPEN_GROUPS:
        problem = f"open at most {MAX_OPEN_GROUPS} groups, got {len(request.open_groups)}"
        raise invalid(f"{path}open_groups", problem)
    if request.open_groups and not request.grouped:
        raise invalid(f"{path}open_groups", "open_groups needs grouped")
    order = Order(by, request.reverse)
    return ListRequest(
        span,
        order,
        request.search.lower(),
        request.prefix,
        frozenset(request.open_groups) if request.grouped else None,
        min(request.page_size or DEFAULT_PAGE_ROWS, MAX_PAGE_ROWS),
        decode_token(request.page_token, order, is_grouped=request.grouped, path=path),
        state=_state(request.state, path),
    )


def _state(state: str, path: str) -> str:
    if state and state not in STATES:
        raise invalid(
            f"{path}state", f"state must be one of {', '.join(STATES)}, got {quoted(state)}"
        )
    return state
