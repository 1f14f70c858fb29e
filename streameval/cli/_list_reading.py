"""Reads the ranked streams of a server, for ``streameval top`` and ``streameval streams list``."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from streameval._common.spans import parse_span
from streameval._metric_registry import HEADLINE, Place, title_of
from streameval.client._wire.summaries import RankedStreams, rank_streams

if TYPE_CHECKING:
    from streameval.client._wire.transport import Transport

DEFAULT_ORDER = "alarms"
DEFAULT_WINDOW = timedelta(days=1)

ORDERS = {
    DEFAULT_ORDER: "alarms, then what became worse",
    "change": "the largest fall first",
    **{name: f"{title_of(name)}, the worst first" for name in Place.ORDER.names()},
    "projected": f"projected {title_of(HEADLINE)}, the worst first",
    "volume": "volume, the most first",
    "coverage": "coverage, the lowest first",
    "newest": "freshness, the stalest first",
    "name": "name",
}
"""The page's orders, and a title for each. The server says which orders it knows."""

_TIMEOUT_S = 20.0
_MAX_COMPLETION_S = 10.0
"""How long a single output waits for figures that the server is still computing."""


@dataclass(frozen=True, slots=True)
class ListQuery:
    """Which streams to read, and in which order.

    Attributes
    ----------
    order : str
    is_reversed : bool
    search, prefix : str
        Only streams whose names contain the one, in any case, and begin with the other.
    window : timedelta or None
        The time before now; None for all time.
    limit : int or None
        The most streams; None for all.
    """

    order: str = DEFAULT_ORDER
    is_reversed: bool = False
    search: str = ""
    prefix: str = ""
    window: timedelta | None = DEFAULT_WINDOW
    limit: int | None = None

    @property
    def order_words(self) -> str:
        """What the order is called."""
        words = ORDERS.get(self.order, f"{title_of(self.order)}, the worst first")
        return f"{words}, reversed" if self.is_reversed else words


@dataclass(frozen=True, slots=True)
class Reading:
    """Ranked streams at one moment; `at_s` is monotonic, `at` is the wall clock."""

    query: ListQuery
    ranked: RankedStreams
    at_s: float
    at: datetime


def parse_query(
    order: str | None,
    *,
    reverse: bool,
    window: str | None,
    search: str,
    prefix: str,
    limit: int | None,
) -> ListQuery:
    """Return the query of the options; the window `all` is all time."""
    span: timedelta | None = DEFAULT_WINDOW
    if window is not None:
        span = None if window == "all" else parse_span(window)
    return ListQuery(order or DEFAULT_ORDER, reverse, search, prefix, span, limit)


def read(server: Transport, query: ListQuery) -> Reading:
    """Query a server. Raises ClientError."""
    pages = rank_streams(
        order_by=query.order,
        reverse=query.is_reversed,
        search=query.search,
        prefix=query.prefix,
        window=query.window,
        limit=query.limit,
    )
    call = next(pages)
    while True:
        try:
            call = pages.send(server.ask(call, _TIMEOUT_S))
        except StopIteration as end:
            return Reading(query, end.value, time.monotonic(), datetime.now(UTC))


def read_complete(server: Transport, query: ListQuery) -> Reading:
    """Query a server until it has read all its streams, or for ten seconds."""
    ends_s = time.monotonic() + _MAX_COMPLETION_S
    while True:
        reading = read(server, query)
        ranked = reading.ranked
        is_complete = not ranked.num_pending and not any(
            summary.outdated for summary in ranked.summaries
        )
        if is_complete or reading.at_s >= ends_s:
            return reading
