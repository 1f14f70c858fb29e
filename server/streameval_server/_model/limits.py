"""The limits of one server: on requests, on streams and on memory."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from streameval.checks import read_span

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacities:
    """What a server takes at a time: no settings; tests give smaller ones.

    Attributes
    ----------
    max_id_bytes : int
        Longest producer name, case id or segment value, in UTF-8 bytes.
    max_stream_name : int
        Longest stream name, in characters.
    max_stream_pairs : int
        Pairs that a stream may be in.
    max_segment_keys : int
        Segment keys that a stream may declare.
    max_merge_states : int
        A merge of more states than this is refused: each state costs time, even a
        small one.
    max_merge_sources : int
        Sources that may merge into one stream.
    max_inflight_bytes : int
        The server stops reading an Ingest call while more bytes than this wait for
        their ack.
    max_queue_bytes : int
        Bytes of all producers that may wait for the disk; above it a call ends with
        RESOURCE_EXHAUSTED and a delay to retry after.
    max_commit_bytes : int
        Bytes that one transaction takes from the queue, about. Less than a producer may
        have in flight, so that it sends more while they are written.
    max_lag_rows : int
        The committer stops draining its queue while more committed rows than
        this are not applied yet.
    apply_rows : int
        Rows that the engine applies at a time, about, so that queries get their turn.
    pane_cells : int
        As `Limits.max_cells`, of a pane, and of a slice's all-time counts.
    tick_us : int
        After this time without entries, a tick is logged if anything is due.
    max_clock_step_us : int
        The wall clock is believed within this much of what a monotonic clock says;
        beyond it, nothing expires until both agree or an operator confirms the clock.
    marks_ttl_us : int
        A producer that is idle for this long, in the log's time, is forgotten.
    checkpoint_bytes : int
        A checkpoint is due after about this many bytes of log, or more when the
        state is larger.
    """

    max_id_bytes: int = 128
    max_stream_name: int = 128
    max_stream_pairs: int = 8
    max_segment_keys: int = 8
    max_merge_states: int = 16_384
    max_merge_sources: int = 1_000
    max_inflight_bytes: int = 8 * MIB
    max_queue_bytes: int = 64 * MIB
    max_commit_bytes: int = 2 * MIB
    max_lag_rows: int = 262_144
    apply_rows: int = 65_536
    pane_cells: int = 16_384
    tick_us: int = 10 * 1_000_000
    max_clock_step_us: int = 5 * 60 * 1_000_000
    marks_ttl_us: int = 7 * 24 * 3600 * 1_000_000
    checkpoint_bytes: int = 64 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(Capacities):
    """Limits that bound a server's memory and the size of its answers.

    A request above a limit is answered with RESOURCE_EXHAUSTED; nothing that was
    acknowledged is lost. A span of time is a timedelta, or a text such as "24h".

    Attributes
    ----------
    max_state_bytes : int
        Ingest is refused, to be retried, while counts, ids, marks, cached answers and
        waiting requests take more memory than this; 0 means no limit.
    max_streams : int
        A batch that would create one more stream is refused.
    max_producers : int
        About this many producers are remembered, some 900 B each. A new producer's
        batch is refused, to be retried, until others were idle for a week.
    max_pending_total : int
        Predictions and labels by id are refused, to be retried, while all
        streams together keep more ids than this.
    max_segment_values : int
        Values of a segment key that have a slice of their own; later values
        share one slice.
    max_cells : int
        Distinct scores that a stream's all-time counts may have before their
        resolution drops.
    max_batch_bytes : int
        A batch larger than this, encoded, is refused. The transport must accept
        messages of twice this size, so that the refusal can name the limit.
    max_batch_rows : int
        A batch with more rows than this is refused.
    max_merge_bytes : int
        A merge larger than this is refused.
    max_import_bytes : int
        An exported stream larger than this cannot be imported. It is one row of
        the log, which delays all acks while it is written.
    max_query : timedelta or str
        A query that computes for longer than this ends with RESOURCE_EXHAUSTED, between two
        of its windows.
    max_query_cells : int
        The same for a query whose windows together read more distinct scores than this.
    max_queries_per_token : int
        Queries of one token, or of all callers without tokens, that may be under way; more
        are refused, to be retried.
    max_future : timedelta or str
        A row dated later than this after its arrival is refused.
    max_downtime : timedelta or str
        At a start, a wall clock up to this long after the log's last time is believed:
        the server was stopped for that long.
    max_metric_series : int
        Series that the metrics of all streams may have in /metrics, 46 for each
        stream; further streams are counted, not shown.
    max_intake_rows_per_s : int
        Rows a second, in the long run, of all senders without tokens; ten seconds of it at
        once.
    """

    max_state_bytes: int = 4096 * MIB
    max_streams: int = 10_000
    max_producers: int = 1_000_000
    max_pending_total: int = 20_000_000
    max_segment_values: int = 100
    max_cells: int = 262_144
    max_batch_bytes: int = 4 * MIB
    max_batch_rows: int = 65_536
    max_merge_bytes: int = 64 * MIB
    max_import_bytes: int = 256 * MIB
    max_query: timedelta | str = "30s"
    max_query_cells: int = 1 << 28
    max_queries_per_token: int = 1_024
    max_future: timedelta | str = "5m"
    max_downtime: timedelta | str = "24h"
    max_metric_series: int = 10_000
    max_intake_rows_per_s: int = 10_000

    @property
    def max_query_s(self) -> float:
        """`max_query` in seconds."""
        return read_span(self.max_query, "max_query").total_seconds()

    @property
    def max_future_us(self) -> int:
        """`max_future` in microseconds."""
        return read_span(self.max_future, "max_future") // timedelta(microseconds=1)

    @property
    def max_downtime_us(self) -> int:
        """`max_downtime` in microseconds."""
        return read_span(self.max_downtime, "max_downtime") // timedelta(microseconds=1)
