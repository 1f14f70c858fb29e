"""What one server accepts and keeps at most."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds that keep a server's memory and answers finite.

    Over a limit the answer is RESOURCE_EXHAUSTED and nothing that was
    acknowledged is lost.

    Attributes
    ----------
    max_batch_bytes : int
        A batch larger than this, encoded, is refused. The transport must let
        twice as much through, so that the refusal can say so.
    max_batch_rows : int
        A batch with more rows than this is refused.
    max_id_bytes : int
        Longest producer name, case id or segment value, in UTF-8 bytes.
    max_stream_name : int
        Longest stream name, in characters.
    max_streams : int
        A batch for one more stream than this is refused.
    max_producers : int
        A batch of one more producer than about this is refused, to be retried, until
        others have been idle for `marks_ttl_us`. Each takes some 600 B.
    max_segment_keys : int
        How many segment keys a stream may declare.
    max_segment_values : int
        How many values of a segment key have a slice of their own; later ones
        share one.
    max_pending_total : int
        Predictions and labels by id are refused, to be retried, while all
        streams together keep more ids than this.
    max_merge_bytes : int
        A merge larger than this is refused.
    max_merge_states : int
        A merge of more states than this is refused: each takes its time, however small.
    max_merge_sources : int
        How many sources may merge into one stream.
    max_import_bytes : int
        An exported stream larger than this cannot be imported. It is one row of
        the log, which holds up the acks while it is written.
    max_inflight_bytes : int
        One Ingest stream is read no further while more than this waits for
        its ack.
    max_queue_bytes : int
        What all producers together may have waiting for the disk; above it a
        stream ends with RESOURCE_EXHAUSTED and a delay to retry after.
    max_commit_bytes : int
        One transaction takes at most about this much from the queue: a part of what a
        producer may have in flight, so that it sends more while that is written.
    max_lag_rows : int
        The committer stops draining its queue while more committed rows than
        this are not applied yet.
    apply_rows : int
        The engine applies at most about this many rows at a time, so that
        queries get their turn.
    max_state_bytes : int
        Ingest is refused, to be retried, while the counts take more memory
        than this; 0 means no limit.
    max_cells : int
        Distinct scores that a stream's all-time counts may have before their
        resolution drops.
    pane_cells : int
        The same of a pane, and of a slice's all-time counts.
    tick_us : int
        After so long without entries, what fell due is dealt with all the same.
    max_future_us : int
        A row dated later than this after its arrival is refused.
    marks_ttl_us : int
        A producer idle for this long, in the log's time, is forgotten.
    checkpoint_bytes : int
        A checkpoint is due after about this many bytes of log (more when the
        state itself is larger).
    max_metric_series : int
        How many series the figures of all streams may have in /metrics, 28 for
        a stream; streams beyond are counted, not shown.
    """

    max_batch_bytes: int = 4 * MIB
    max_batch_rows: int = 65_536
    max_id_bytes: int = 128
    max_stream_name: int = 128
    max_streams: int = 10_000
    max_producers: int = 1_000_000
    max_segment_keys: int = 8
    max_segment_values: int = 100
    max_pending_total: int = 20_000_000
    max_merge_bytes: int = 64 * MIB
    max_merge_states: int = 16_384
    max_merge_sources: int = 1_000
    max_import_bytes: int = 256 * MIB
    max_inflight_bytes: int = 8 * MIB
    max_queue_bytes: int = 64 * MIB
    max_commit_bytes: int = 2 * MIB
    max_lag_rows: int = 262_144
    apply_rows: int = 65_536
    max_state_bytes: int = 4096 * MIB
    max_cells: int = 262_144
    pane_cells: int = 16_384
    tick_us: int = 10 * 1_000_000
    max_future_us: int = 5 * 60 * 1_000_000
    marks_ttl_us: int = 7 * 24 * 3600 * 1_000_000
    checkpoint_bytes: int = 64 * MIB
    max_metric_series: int = 10_000
