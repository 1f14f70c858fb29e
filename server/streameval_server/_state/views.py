"""What queries read: a stream at one revision, whole and by slice. Immutable.

A view of a stream that changed is taken under the engine's lock, in O(panes), and
read without it; until the stream changes again it is there for everybody, without
the lock. What waits to be merged is merged by whoever asks for it first. Parts that
did not change are the same objects as before, with the answers they have cached.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streameval_server._state.coverage import PaneCoverage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streameval import Evaluator
    from streameval_server._model.stream_info import StreamCounters, StreamInfo
    from streameval_server._state.accumulator import LazyCounts


class PaneView:
    """One pane of one slice, [start_us, end_us).

    Attributes
    ----------
    start_us, end_us : int
    evaluator : Evaluator
        Its counts. Never mutate it.
    coverage : PaneCoverage
        Of the predictions whose event time lies in it.
    """

    __slots__ = ("_counts", "coverage", "end_us", "start_us")

    def __init__(
        self, start_us: int, end_us: int, counts: LazyCounts, coverage: PaneCoverage
    ) -> None:
        self.start_us = start_us
        self.end_us = end_us
        self.coverage = coverage
        self._counts = counts

    @property
    def evaluator(self) -> Evaluator:
        """Its counts, always the same object. Never mutate it. O(cells) at first."""
        return self._counts.evaluator

    def __repr__(self) -> str:
        return f"<PaneView {self.start_us} to {self.end_us}>"


@dataclass(frozen=True, slots=True)
class SliceView:
    """The whole of a stream, or one value of one key.

    Attributes
    ----------
    counts : LazyCounts
        Everything since the stream was made; the same object until it changes.
    coverage : PaneCoverage
        Of all predictions since then.
    panes : tuple of PaneView
        Oldest first; panes without anything in them are left out.
    """

    counts: LazyCounts
    coverage: PaneCoverage = field(default_factory=PaneCoverage)
    panes: tuple[PaneView, ...] = ()

    @property
    def all_time(self) -> Evaluator:
        """All counts, always the same object. Never mutate it. O(cells) at first."""
        return self.counts.evaluator


@dataclass(frozen=True, slots=True, eq=False)
class FrozenStream:
    """A stream's counts until it changes again.

    Attributes
    ----------
    all_time : mapping of int to (LazyCounts, PaneCoverage)
        By the number of the slice; 0 is the whole.
    panes : tuple of mapping of int to PaneView
        Oldest first; in each the slices that it has.
    names : mapping of (key, value) to int
        The numbers of slices; a value that no row had has none in `all_time`.
    """

    all_time: Mapping[int, tuple[LazyCounts, PaneCoverage]]
    panes: tuple[Mapping[int, PaneView], ...]
    names: Mapping[tuple[str, str], int]
    _slices: dict[int, SliceView] = field(default_factory=dict)

    def slice(self, number: int) -> SliceView:
        """Return a slice that there is. O(panes) at first."""
        found = self._slices.get(number)
        if found is None:
            counts, coverage = self.all_time[number]
            panes = tuple(pane[number] for pane in self.panes if number in pane)
            found = self._slices[number] = SliceView(counts, coverage, panes)
        return found


@dataclass(frozen=True, slots=True)
class StreamView:
    """A stream's counts at one revision.

    Attributes
    ----------
    info : StreamInfo
        Its description, with its settings.
    revision : int
        Log revision that it includes (the engine's, not the stream's last change).
    now_us : int
        The log's time, in microseconds since 1970.
    counts : FrozenStream
    counters : StreamCounters
        What it keeps, and what had no effect.
    """

    info: StreamInfo
    revision: int
    now_us: int
    counts: FrozenStream
    counters: StreamCounters

    @property
    def whole(self) -> SliceView:
        """All of it."""
        return self.counts.slice(0)

    @property
    def evaluator(self) -> Evaluator:
        """All-time counts of the whole. Never mutate it."""
        return self.whole.all_time

    def slice(self, segment: tuple[str, str] | None) -> SliceView | None:
        """Return the slice of a (key, value), or the whole; None when there is no such slice."""
        if segment is None:
            return self.whole
        number = self.counts.names.get(segment)
        if number is None or number not in self.counts.all_time:
            return None
        return self.counts.slice(number)

    def segments(self, key: str) -> list[str]:
        """Return a key's values that have a slice, `OTHER_VALUE` and "" included. O(slices)."""
        there = self.counts.all_time
        return sorted(
            value
            for (name, value), number in self.counts.names.items()
            if name == key and number in there
        )
