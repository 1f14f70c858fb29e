"""How late labels come, by pane, score and class: what projections are computed from.

A stream with predictions and labels by id keeps the library's `DelayCounts` for each pane, from
its first batch by id on.

Cost: 18 B for each cell of score, class and bucket of delay in use, and up to three times as
much while rows wait to be summed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from streameval.kernel import Grid, Panes
from streameval.statistics import DelayCounts, DelayRows
from streameval_server._state.delays.frozen_delays import FrozenDelays, PaneRows
from streameval_server._state.observer import CheckpointPart, Observer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streameval.kernel import Effects, Scale
    from streameval_server._model.stream_settings import StreamSettings
    from streameval_server._state.memory import StreamUsage
    from streameval_server._state.observer import Restoring

DELAY_PART = "delay"

PANE_BYTES = 900
"""Memory of a pane besides its rows: its place in the panes, its counts and its share of a
view; measured."""


class PaneDelays(DelayCounts):
    """The delays of one pane.

    While the rows are frozen, they alone hold the parts; the pane takes these back, summed or
    not, before its next change.

    Parameters
    ----------
    scale : {"plain", "probability"}
        The stream's.
    usage : StreamUsage
        The stream's.

    Attributes
    ----------
    revision : int
        Log revision of the last change.
    """

    __slots__ = ("_frozen", "_usage", "revision")

    def __init__(self, scale: Scale, usage: StreamUsage) -> None:
        super().__init__(scale)
        self._usage = usage
        self._frozen: PaneRows | None = None
        self.revision = usage.revision

    def add_rows(self, rows: DelayRows) -> None:
        """Count rows, as `DelayCounts`, at the current revision."""
        self._thaw()
        self.revision = self._usage.revision
        super().add_rows(rows)

    def rows(self) -> DelayRows:
        """Return all rows, as `DelayCounts`."""
        self._thaw()
        return super().rows()

    @property
    def parts(self) -> tuple[DelayRows, ...]:
        """What the rows are summed from, as `DelayCounts`."""
        self._thaw()
        return super().parts

    def _thaw(self) -> None:
        frozen, self._frozen = self._frozen, None
        if frozen is not None:
            self._parts = list(frozen.parts)

    def frozen(self, start_us: int, end_us: int) -> PaneRows:
        """Return the rows as they are now; the same object until they change. O(parts)."""
        if self._frozen is None:
            self._frozen = PaneRows(start_us, end_us, tuple(self._parts))
            self._parts = []
        return self._frozen


class StreamDelays(Observer):
    """The delays of one stream. The stream's counts hand it effects when they count them.

    Parameters
    ----------
    settings : StreamSettings
    usage : StreamUsage
        The stream's.

    Attributes
    ----------
    panes : Panes of PaneDelays
    memory_bytes : int
        Memory, an upper bound.
    """

    KINDS = (DELAY_PART,)
    memory_bytes: int = 0

    def __init__(self, settings: StreamSettings, usage: StreamUsage) -> None:
        self._usage = usage
        self._view: FrozenDelays | None = None
        self.panes = self._panes_for(settings)

    def _panes_for(self, settings: StreamSettings) -> Panes[PaneDelays]:
        self._scale: Scale = settings.scale
        tiers = Grid.tiers_of(settings.pane_us, settings.retention_us)
        return Panes(tiers, partial(PaneDelays, settings.scale, self._usage))

    # -- changing

    def count(self, effects: Effects) -> None:
        """Count effects, none of which is of a pane that is no longer kept. O(n log n)."""
        self._view = None
        for start_us, rows in DelayRows.by_pane(effects, self.panes.grid, self._scale):
            pane = self.panes.get(start_us)
            if pane is None:
                pane = self.panes.at(start_us)
                self.memory_bytes += PANE_BYTES
            before = pane.nbytes
            pane.add_rows(rows)
            self.memory_bytes += pane.nbytes - before

    def to_parts(self) -> Iterable[CheckpointPart]:
        """Yield a part for each pane. O(panes)."""
        for pane in self.panes:
            frozen = partial(pane.content.frozen, pane.start_us, pane.end_us)
            yield CheckpointPart(f"{DELAY_PART}/{pane.start_us}", pane.content.revision, frozen)

    def from_part(self, _kind: str, number: int, data: bytes, origin: Restoring) -> None:
        """Put the pane that starts at `number`. Raises CorruptStateError. O(rows)."""
        pane = self.panes.at(number)
        pane.merge(DelayCounts.from_bytes(data, self._scale))
        pane.revision = origin.revision
        self.memory_bytes += PANE_BYTES + pane.nbytes

    def advance(self, now_us: int) -> None:
        """Coarsen and expire panes. O(panes that change)."""
        if self.panes.advance(now_us):
            self._view = None
            self._recount_memory()

    def reconfigure(self, settings: StreamSettings) -> None:
        """Take new settings. O(panes) when retention changes; expired panes stay lost."""
        before, after = self.panes, self._panes_for(settings)
        if before.tiers == after.tiers:
            return
        self._view = None
        self.panes = after
        after.advance(before.now_us)
        for pane in before:
            if pane.start_us >= after.grid.oldest_us:
                after.at(after.grid.start_of(pane.start_us)).merge(pane.content)
        self._recount_memory()

    def _recount_memory(self) -> None:
        self.memory_bytes = sum(PANE_BYTES + pane.content.nbytes for pane in self.panes)

    # -- reading

    def frozen(self) -> FrozenDelays:
        """Return the delays as they are now; the same object until they change. O(panes)."""
        if self._view is None:
            rows = (pane.content.frozen(pane.start_us, pane.end_us) for pane in self.panes)
            self._view = FrozenDelays(tuple(rows))
        return self._view
