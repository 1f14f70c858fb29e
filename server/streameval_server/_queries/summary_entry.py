"""What a list knows of one stream: its newest summary, and what it is ordered by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from streameval.statistics import HEADLINE
from streameval.v1 import overview_pb2, types_pb2, verdict_pb2
from streameval_server._model.verdict_change import QUALITIES
from streameval_server._queries.stream_summary import ComputedSummary, group_of

if TYPE_CHECKING:
    from streameval_server._queries.summary_file import KeptSummary

STATES: Final = ("alarms", "worse", "silent", "labels")
"""By which a list may be restricted."""
_SHORT: Final = {verdict_pb2.VERDICT_FLOW_NO_LABELS, verdict_pb2.VERDICT_FLOW_LATE}


@dataclass(slots=True, eq=False)
class SummaryEntry:
    """The newest summary of a stream, or the place of its first one.

    Attributes
    ----------
    name, group : str
    create_revision, revision : int
        `revision` is the log revision of the summarised view; 0 without a summary.
    valid_until_us : int
    encoded : bytes
        The summary; empty while there is none.
    values : dict of str to float
        What streams can be ordered by; without undefined ones.
    num_open_alarms : int
    is_waiting : bool
        Whether labels of the window are still to come.
    projected_us : int
        When it was projected last; 0 for never.
    projected_revision : int
        The revision that the projection included.
    problem : str
        Why there are no figures; empty where there are.
    quality : str
        The verdict's, as in the library; empty without one.
    states : frozenset of str
        Those of `STATES` that it is in.
    """

    name: str
    group: str
    create_revision: int
    revision: int = 0
    valid_until_us: int = 0
    encoded: bytes = b""
    values: dict[str, float] = field(default_factory=dict)
    num_open_alarms: int = 0
    is_waiting: bool = False
    projected_us: int = 0
    projected_revision: int = 0
    problem: str = ""
    quality: str = ""
    states: frozenset[str] = frozenset()

    @classmethod
    def restored(cls, kept: KeptSummary, revision: int) -> SummaryEntry:
        """Return the entry of a summary of a server before; one that was out of date stays so.

        `revision` is that at which it was current.
        """
        message = overview_pb2.StreamSummary.FromString(kept.encoded)
        entry = cls(message.stream, group_of(message.stream), kept.create_revision)
        entry.store(ComputedSummary(message, kept.valid_until_us))
        entry.revision = revision if kept.is_current else 0
        return entry

    @property
    def is_pending(self) -> bool:
        """Whether it has no summary yet."""
        return not self.encoded

    def message(self) -> overview_pb2.StreamSummary:
        """Return the summary, in a message that the caller may change. O(bytes)."""
        if self.is_pending:
            figures = types_pb2.Snapshot(stream=self.name)
            return overview_pb2.StreamSummary(
                stream=self.name, group=self.group, snapshot=figures, outdated=True
            )
        return overview_pb2.StreamSummary.FromString(self.encoded)

    def store(self, found: ComputedSummary) -> None:
        """Take another summary; the projection stays while labels are to come."""
        message = found.message
        figures = message.snapshot
        if self.encoded and figures.coverage.pending:
            before = self.message()
            if before.snapshot.HasField("projection"):
                figures.projection.CopyFrom(before.snapshot.projection)
                message.projected_time.CopyFrom(before.projected_time)
        self.revision = figures.revision
        self.valid_until_us = found.valid_until_us
        self.num_open_alarms = figures.open_alarms
        self.is_waiting = figures.coverage.pending > 0
        self.problem = message.problem
        self.quality = QUALITIES[message.verdict.quality]
        self.states = _states(message, self.quality)
        self.encoded = message.SerializeToString()
        self.values = _values(message)

    def store_projection(
        self,
        found: types_pb2.Projection | None,
        verdict: verdict_pb2.Verdict,
        *,
        now_us: int,
        revision: int,
    ) -> None:
        """Take another projection, or that there is none. O(bytes).

        So is a verdict that projects, as one that is asked for does, if it is not an older one.
        """
        message = self.message()
        is_early = self.quality == "immature" and verdict.HasField("projected")
        if is_early and revision >= self.revision:
            message.verdict.CopyFrom(verdict)
            until_us = verdict.valid_until.ToMicroseconds()
            self.valid_until_us = min(self.valid_until_us, until_us)
        message.snapshot.ClearField("projection")
        message.ClearField("projected_time")
        if found is not None:
            message.snapshot.projection.CopyFrom(found)
            message.projected_time.FromMicroseconds(now_us)
        self.encoded = message.SerializeToString()
        self.values = _values(message)
        self.projected_us = now_us
        self.projected_revision = revision


def _states(message: overview_pb2.StreamSummary, quality: str) -> frozenset[str]:
    flow = message.verdict.flow
    is_in = (
        message.snapshot.open_alarms > 0,
        quality == "worse",
        flow == verdict_pb2.VERDICT_FLOW_SILENT,
        quality == "immature" or flow in _SHORT,
    )
    return frozenset(state for state, holds in zip(STATES, is_in, strict=True) if holds)


def _values(message: overview_pb2.StreamSummary) -> dict[str, float]:
    figures = message.snapshot
    values = {each.name: each.value for each in figures.metrics if each.HasField("value")}
    for figure in message.verdict.figures[:1]:
        if figure.metric == HEADLINE and figure.difference.HasField("estimate"):
            values["change"] = figure.difference.estimate
    for projected in figures.projection.metrics:
        if projected.HasField("projected"):
            values["projected"] = projected.projected
    if figures.coverage.HasField("labelled_share"):
        values["coverage"] = figures.coverage.labelled_share
    if message.HasField("newest_pane"):
        values["newest"] = message.newest_pane.end_time.ToMicroseconds()
    if not message.problem:
        values["volume"] = figures.num_cases + figures.coverage.pending
    return values
