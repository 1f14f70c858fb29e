"""What queries read: a stream at one revision, whole and by slice. Immutable.

A view is taken under the engine's lock and read without it. Taking one costs
O(panes) for a stream that changed, and nothing otherwise: parts that did not
change are the same objects as before, with the answers they have cached.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streameval_server._coverage import PaneCoverage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streameval._evaluator import Evaluator
    from streameval_server._stream_state import StreamInfo

OTHER = "__other__"
"""The slice of values that came after a key had its most."""


@dataclass(frozen=True, slots=True)
class PaneView:
    """One pane of one slice, [start_us, end_us).

    Attributes
    ----------
    evaluator : Evaluator
        Its counts. Never mutate it.
    coverage : PaneCoverage
        Of the predictions whose event time lies in it.
    """

    start_us: int
    end_us: int
    evaluator: Evaluator
    coverage: PaneCoverage


@dataclass(frozen=True, slots=True)
class SliceView:
    """The whole of a stream, or one value of one key.

    Attributes
    ----------
    all_time : Evaluator
        Everything since the stream was made. Never mutate it.
    coverage : PaneCoverage
        Of all predictions since then.
    panes : tuple of PaneView
        Oldest first; panes without anything in them are left out.
    """

    all_time: Evaluator
    coverage: PaneCoverage = field(default_factory=PaneCoverage)
    panes: tuple[PaneView, ...] = ()


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
    whole : SliceView
        All of it.
    slices : mapping of (key, value) to SliceView
        The slices that there are.
    """

    info: StreamInfo
    revision: int
    now_us: int
    whole: SliceView
    slices: Mapping[tuple[str, str], SliceView]

    @property
    def evaluator(self) -> Evaluator:
        """All-time counts of the whole. Never mutate it."""
        return self.whole.all_time

    def slice(self, segment: tuple[str, str] | None) -> SliceView | None:
        """Return the slice of a (key, value), or the whole; None when there is no such slice."""
        return self.whole if segment is None else self.slices.get(segment)

    def segments(self, key: str) -> list[str]:
        """Return the values of a key that have a slice, `OTHER` and "" among them. O(slices)."""
        return sorted(value for name, value in self.slices if name == key)
