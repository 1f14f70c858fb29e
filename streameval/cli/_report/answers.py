"""What a report says, as the server answers it.

The first answer says which time it covers, and the others are of the same time. Rows that
arrive meanwhile are in the later answers: `Answers.revisions` says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from streameval._metric_registry import HEADLINE
from streameval.cli._segments import SegmentReport, read_segments
from streameval.client import PreconditionError

if TYPE_CHECKING:
    from streameval._evaluator import Evaluator
    from streameval._snapshot import Snapshot
    from streameval._verdict.verdict import Verdict
    from streameval.client import AlarmStatus, Client, Stream, StreamReliability, StreamSettings
    from streameval.client._wire.selection import Window

BINS = 10
_STEPS_S = (
    *(60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200),
    *(86_400, 172_800, 604_800),
)
_TARGET_ROWS = 40
_COARSE_ROWS = 24
_MIN_STEP = timedelta(minutes=1)
_MAX_ROUNDS = 4
_MIN_POSITIVE_SHARE = 0.05
"""Below this share of positives the bins of calibration have equal counts, not equal widths."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers in a report.

    Attributes
    ----------
    name : str
    settings : StreamSettings
    snapshot : Snapshot
        With a projection where labels of a window of the whole stream are still to come.
    state : Evaluator
        What the curves are drawn from.
    rows : list of Snapshot
        Steps of time, oldest first, from the first one with cases.
    reliability : StreamReliability or None
        None unless scores are on the probability scale.
    segments : SegmentReport or None
        The ranking; None for streams without segment keys.
    alarms : AlarmStatus or None
        None unless the stream declares alarms.
    verdict : Verdict
        Of the whole stream.
    """

    name: str
    settings: StreamSettings
    snapshot: Snapshot
    state: Evaluator
    rows: list[Snapshot]
    reliability: StreamReliability | None
    segments: SegmentReport | None
    alarms: AlarmStatus | None
    verdict: Verdict

    @property
    def has_both_classes(self) -> bool:
        """Whether there are curves to draw."""
        return self.snapshot.num_positive_ref > 0 and self.snapshot.num_negative_ref > 0

    @property
    def revisions(self) -> tuple[int, int]:
        """The first and the last revision of the answers."""
        found = [each.revision for each in (self.snapshot, *self.rows)]
        if self.reliability is not None:
            found.append(self.reliability.revision)
        if self.segments is not None:
            found.append(self.segments.ranking.revision)
        return min(found), max(found)


def read_answers(
    client: Client, target: Stream, window: Window, segment: tuple[str, str] | None
) -> Answers:
    """Ask the server for all that a report of a window and a segment says.

    Raises
    ------
    StreamEvalError
        As the verbs of a `Stream`.
    """
    settings = client.get_stream(target.name).settings
    snapshot = target.snapshot(window=window, segment=segment)
    covered = snapshot.window
    if covered and segment is None and snapshot.coverage and snapshot.coverage.pending:
        snapshot = target.snapshot(window=covered, projection=True)
    ranked = None
    if settings.segment_keys:
        ranked = read_segments(target, "", covered, min_references=0)
    return Answers(
        name=target.name,
        settings=settings,
        snapshot=snapshot,
        state=target.evaluator(window=covered, segment=segment),
        rows=_rows(client, target, snapshot),
        reliability=_reliability(target, snapshot, settings.scale),
        segments=ranked,
        alarms=client.stream_alarms(target.name),
        verdict=target.verdict(),
    )


def _rows(client: Client, target: Stream, snapshot: Snapshot) -> list[Snapshot]:
    """Return the steps of a window from its first cases on; none without cases."""
    segment = snapshot.segment
    found = _from_first_cases(client, target, snapshot)
    if found is None:
        return []
    start, end = found
    least_s = (end - start).total_seconds() / _TARGET_ROWS
    step = timedelta(seconds=next((each for each in _STEPS_S if each >= least_s), _STEPS_S[-1]))
    return target.series(start, end, step, segment=segment, metrics=[HEADLINE])


def _from_first_cases(
    client: Client, target: Stream, snapshot: Snapshot
) -> tuple[datetime, datetime] | None:
    """Return a window from its first step with cases on; None without cases.

    Of all time it is the time that panes are kept.
    """
    window = snapshot.window
    if window is None:
        end = datetime.now(UTC)
        window = end - client.get_stream(target.name).settings.retention, end
    start, end = window
    for _ in range(_MAX_ROUNDS):
        step = max((end - start) / _COARSE_ROWS, _MIN_STEP)
        rows = target.series(start, end, step, segment=snapshot.segment, metrics=["prevalence"])
        first = next((each.window for each in rows if each.num_cases), None)
        if first is None:
            return None
        if first[0] <= start:
            break
        start = first[0]
    return start, end


def _reliability(target: Stream, snapshot: Snapshot, scale: str) -> StreamReliability | None:
    if scale != "probability" or not snapshot.num_cases:
        return None
    is_rare = snapshot.num_positive_ref < _MIN_POSITIVE_SHARE * snapshot.num_cases
    try:
        return target.reliability(
            BINS,
            strategy="mass" if is_rare else "width",
            window=snapshot.window,
            segment=snapshot.segment,
        )
    except PreconditionError:  # scores outside [0, 1] say nothing of calibration
        return None
