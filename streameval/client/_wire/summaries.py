"""The call for the list of streams in an order, and its answer as objects."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from streameval._common.errors import InvalidInputError
from streameval._common.result import Result
from streameval._common.values import shown
from streameval.client._wire.calls import Call, PagedCall
from streameval.client._wire.decode import read_span
from streameval.client._wire.reader import label, read
from streameval.client._wire.selection import duration
from streameval.v1 import alarm_pb2, overview_pb2

if TYPE_CHECKING:
    from streameval._common.spans import Span
    from streameval._snapshot import Snapshot
    from streameval._verdict.verdict import Verdict
    from streameval.client._wire.alarms import AlarmState

_PAGE_SIZE: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamSummary(Result):
    """One stream of a list.

    Attributes
    ----------
    stream : str
    group : str
        The first part of its name.
    snapshot : Snapshot
        AUC-PR of the window with its interval, the rates at the declared threshold with theirs
        and the cost per case at the declared costs,
        AUC-ROC and prevalence; where labels are to come, AUC-PR projected.
    verdict : Verdict or None
        The verdict on the stream, whatever the window; None where it could not be computed.
    alarm_state : {"waiting", "watching", "firing"} or None
        None where no alarms are declared.
    open_alarms : int
    open_watches : tuple of str
        What the open alarms watch.
    newest : datetime or None
        The end of the newest pane.
    projected_at : datetime or None
    outdated : bool
        Whether the stream has changed since this was computed.
    problem : str
        Why the figures could not be computed; "" where they were. Then `snapshot` has none.
    """

    stream: str
    group: str
    snapshot: Snapshot
    verdict: Verdict | None = None
    alarm_state: AlarmState | None = None
    open_alarms: int = 0
    open_watches: tuple[str, ...] = ()
    newest: datetime | None = None
    projected_at: datetime | None = None
    outdated: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RankedStreams(Result):
    """The first streams in an order, and how many there are.

    Attributes
    ----------
    summaries : list of StreamSummary
        In order.
    num_streams, num_alarms, num_fallen : int
        Streams that match the request; those with an open alarm, and whose verdict is worse.
    num_silent, num_short_of_labels : int
        Those to which no rows come; with too few labels for a verdict, or to which none come.
    num_failed, num_pending, num_outdated : int
        Those whose figures could not be computed, are still to be read, or are of before a change.
    num_covered : int
        Streams that the token covers, whatever is searched for.
    """

    summaries: list[StreamSummary]
    num_streams: int
    num_alarms: int
    num_fallen: int
    num_silent: int
    num_short_of_labels: int
    num_failed: int
    num_pending: int
    num_outdated: int
    num_covered: int


def rank_streams(
    *,
    order_by: str,
    reverse: bool,
    search: str,
    prefix: str,
    window: Span | None,
    limit: int | None,
) -> PagedCall[RankedStreams]:
    """Return the calls for the first streams in an order, page by page."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        message = f"limit must be a positive number of streams or None, got {shown(limit)}"
        raise InvalidInputError(message, field="limit")
    request = overview_pb2.ListStreamSummariesRequest(
        order_by=order_by, reverse=reverse, search=search, prefix=prefix
    )
    if window is not None:
        request.last.CopyFrom(duration(window, field="window"))
    most = math.inf if limit is None else limit
    found: list[StreamSummary] = []
    while True:
        request.page_size = int(min(most - len(found), _PAGE_SIZE))
        response: overview_pb2.ListStreamSummariesResponse = yield Call(request)
        found += map(_read_summary, response.summaries)
        if not response.next_page_token or len(found) >= most:
            return read(response, RankedStreams, summaries=found)
        request.page_token = response.next_page_token


def list_summaries(**arguments: Any) -> PagedCall[list[StreamSummary]]:
    """Return the calls for the summaries alone; takes the arguments of `rank_streams`."""
    ranked = yield from rank_streams(**arguments)
    return ranked.summaries


def _read_summary(message: overview_pb2.StreamSummary) -> StreamSummary:
    alarm = message.alarm
    state = label(alarm_pb2.AlarmState.DESCRIPTOR, alarm.state).lower()
    newest = read_span(message.newest_pane)[1] if message.HasField("newest_pane") else None
    projected_at = message.projected_time.ToDatetime(UTC)
    return read(
        message,
        StreamSummary,
        alarm_state=state if alarm.state else None,
        open_alarms=message.snapshot.open_alarms,
        open_watches=tuple(alarm.watches),
        newest=newest,
        projected_at=projected_at if message.HasField("projected_time") else None,
    )
