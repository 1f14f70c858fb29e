"""A stream's counts for all time and by pane, of the whole and by slice.

A new pane is *open*: the counts of its slices are not in their all-time counts yet and are
added in one go when the pane is closed. So a row of a slice is merged once instead of twice
while its pane is current. Few panes are open at a time, and a reader of a slice's all-time
counts adds the open panes' counts. Additions commute, so it makes no difference when a pane is
closed; before a removal all panes are closed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from streameval.kernel import Grid, LazyCounts, Panes, Tally
from streameval_server._state.counting.coverage import EMPTY_COVERAGE, PaneCoverage
from streameval_server._state.counting.empty_counts import empty_counts
from streameval_server._state.counting.pane_content import PaneContent, Part, PartMaker
from streameval_server._state.segments import WHOLE, key_of, slice_id
from streameval_server._state.views import FrozenStream

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from streameval_server._model.arrays import IntArray
    from streameval_server._model.limits import Limits
    from streameval_server._model.stream_settings import StreamSettings
    from streameval_server._state.memory import StreamUsage

_MAX_OPEN_PANES = 2


class PaneStore:
    """Counts of one stream, by slice and pane.

    Parameters
    ----------
    settings, limits
        The stream's and the server's.
    usage : StreamUsage
        The stream's.

    Attributes
    ----------
    bits, scale
        The resolution and scale of cells in panes and slices.
    slices : dict of int to Part
        All-time counts by the number of the slice. Slices lack the open panes' counts; the
        whole always exists and has everything.
    panes : Panes of PaneContent
    new_pane : callable
        Makes an empty pane.
    floor_us : int
        Event times before this are in no pane, even within the retention.
    key_revisions : dict of int to int
        The revision of the last change of a key's slices.
    has_clusters : bool
        Whether the whole stream is counted by groups of clusters, also in each pane; slices
        never are.
    """

    __slots__ = (
        "__weakref__",
        "_new_part",
        "_open",
        "_unpacked",
        "_usage",
        "bits",
        "floor_us",
        "has_clusters",
        "key_revisions",
        "new_pane",
        "panes",
        "scale",
        "slices",
    )

    def __init__(self, settings: StreamSettings, limits: Limits, usage: StreamUsage) -> None:
        self.bits = settings.resolution
        self.scale = settings.scale
        self.floor_us = 0
        self.key_revisions: dict[int, int] = {}
        self._usage = usage
        groups = settings.cluster_groups
        cells, max_cells = limits.pane_cells, limits.max_cells
        bounded = empty_counts(self.bits, self.scale, cells, 0)
        whole_of_pane = empty_counts(self.bits, self.scale, cells, groups)
        self._new_part = PartMaker(whole_of_pane, bounded, usage)
        exact = empty_counts(None, self.scale, max_cells, groups)
        self.slices = {WHOLE: Part(Tally(exact), EMPTY_COVERAGE[self.scale])}
        self.has_clusters = groups > 0
        usage.memory_bytes = self.whole.memory_bytes
        self.new_pane = partial(PaneContent, self._new_part)
        self.panes = self._panes_for(settings)
        self._open: list[PaneContent] = []
        # Panes that are not open, and may have counts that are not packed; by their last change.
        self._unpacked: dict[PaneContent, None] = {}

    def _panes_for(self, settings: StreamSettings) -> Panes[PaneContent]:
        tiers = Grid.tiers_of(settings.pane_us, settings.retention_us)
        return Panes(tiers, self.new_pane)

    # -- changing

    @property
    def whole(self) -> Part:
        """The all-time counts of the whole."""
        return self.slices[WHOLE]

    def pane(self, start_us: int) -> PaneContent:
        """Return the pane that starts there, to change it."""
        return self.panes_at([start_us])[0]

    def panes_at(self, starts_us: Sequence[int]) -> list[PaneContent]:
        """Return the panes that start there, to change them.

        If there are more than may be open, all panes are closed first: then slices can be
        counted for all time in one go, and need not be merged pane by pane.
        """
        if len(starts_us) > _MAX_OPEN_PANES:
            self.close_panes()
        found = []
        for start_us in starts_us:
            content = self.panes.get(start_us)
            if content is None:
                content = self.panes.at(start_us)
                if len(starts_us) <= _MAX_OPEN_PANES:
                    self._open_pane(content)
            content.touch()
            if not content.is_open:
                self._note_change(content)
            found.append(content)
        return found

    def _note_change(self, content: PaneContent) -> None:
        self._unpacked.pop(content, None)
        self._unpacked[content] = None

    @property
    def has_unpacked(self) -> bool:
        """Whether panes that are not open may have counts that are not packed. O(1)."""
        return bool(self._unpacked)

    def pack_pane(self) -> None:
        """Pack the counts of the pane that was changed longest ago. O(cells).

        A pane is filled while its time lasts, then read by windows that sum it, if at all. Late
        rows open what they change.
        """
        content = next(iter(self._unpacked), None)
        if content is not None:
            del self._unpacked[content]
            with self._usage.measuring(content):
                content.pack()
            if not self._unpacked:
                self._unpacked = {}  # a dictionary that was emptied keeps its room

    def _open_pane(self, content: PaneContent) -> None:
        content.is_open = True
        self._open.append(content)
        if len(self._open) > _MAX_OPEN_PANES:
            self._close(self._open.pop(0))

    def parts(self, content: PaneContent | None, number: int) -> list[Part]:
        """Return the parts that count a slice's rows of a pane, or of no pane."""
        self.key_revisions[key_of(number)] = self._usage.revision
        if content is None:
            return [self._slice(number)]
        if content.is_open:
            return [content.part(number)]
        self._note_change(content)
        return [self._slice(number), content.part(number)]

    def in_pane(self, content: PaneContent | None, number: int) -> list[Part]:
        """Return the part in a pane, for rows that are in the all-time counts already."""
        if content is None:
            return []
        if not content.is_open:
            self._note_change(content)
        return [content.part(number)]

    def parts_at(self, event_us: int, codes: Sequence[int]) -> list[Part]:
        """Return the parts that count one reference, by its time and its code of each key."""
        content: PaneContent | None = None
        parts = [self.whole]
        if event_us >= self.oldest_us:
            content = self.pane(self.panes.grid.start_of(event_us))
            parts.append(content.part(WHOLE))
        for key, code in enumerate(codes):
            parts += self.parts(content, slice_id(key, code))
        return parts

    def _slice(self, number: int) -> Part:
        part = self.slices.get(number)
        if part is None:
            part = self.slices[number] = self._new_part(number)
        return part

    @property
    def has_open_panes(self) -> bool:
        """Whether panes are open, so that the slices' all-time counts lack their rows. O(1)."""
        return bool(self._open)

    def close_panes(self) -> None:
        """Close all panes."""
        for content in self._open:
            self._close(content)
        self._open = []

    def _close(self, content: PaneContent) -> None:
        content.is_open = False
        self._note_change(content)
        for number, part in content.parts.items():
            if number != WHOLE:
                # Created first: a new part adds to the usage itself.
                all_time = self._slice(number)
                # Reading the state of a part merges it.
                with self._usage.measuring(part), self._usage.measuring(all_time):
                    all_time.merge([part])

    def common_pane(self, event_us: int | IntArray) -> int | None:
        """Return the start of the pane that has all of these times; None if no kept pane has."""
        if isinstance(event_us, int):
            return self.pane_of_span(event_us, event_us)
        return self.pane_of_span(int(event_us.min()), int(event_us.max()))

    def pane_of_span(self, first_us: int, last_us: int) -> int | None:
        """Return the start of the pane that has all times of a span; None if no kept pane has."""
        if first_us < self.oldest_us:
            return None
        grid = self.panes.grid
        start = grid.start_of(first_us)
        return start if grid.start_of(last_us) == start else None

    def places_of(self, first_us: int, last_us: int) -> tuple[int, int]:
        """Return how many panes, and slices of panes, with tallies a span has. O(panes).

        Slices that deferred rows will create are included. A pane at rest is not: rows have to
        create its tallies.
        """
        found = [
            pane.content.num_parts + pane.content.deferred.new_slices
            for pane in self.panes
            if pane.end_us > first_us and pane.start_us <= last_us and not pane.content.is_resting
        ]
        return len(found), sum(found) - len(found)

    @property
    def num_slices(self) -> int:
        """Slices that rows may be in, besides the whole. O(1)."""
        return max(self._usage.num_slices, len(self.slices) - 1)

    # -- time

    @property
    def oldest_us(self) -> int:
        """Start of the oldest pane that is kept. O(1)."""
        return max(self.floor_us, self.panes.grid.oldest_us)

    @property
    def due_us(self) -> int:
        """When panes coarsen or expire next. O(1)."""
        return self.panes.until_us

    def advance(self, now_us: int) -> bool:
        """Coarsen and expire panes; return whether any changed. O(panes that change)."""
        # The counts of an open pane must not expire with it.
        self.close_panes()
        if not self.panes.advance(now_us):
            return False
        self.recount_memory()
        return True

    def reconfigure(self, settings: StreamSettings) -> bool:
        """Take new settings; return whether the widths or the retention changed. O(panes)."""
        before, after = self.panes, self._panes_for(settings)
        if before.tiers == after.tiers:
            return False
        self.close_panes()
        self.floor_us = self.oldest_us
        self.panes = after
        after.advance(before.now_us)
        for pane in before:
            if pane.start_us >= after.grid.oldest_us:
                after.at(after.grid.start_of(pane.start_us)).merge(pane.content)
            else:
                self.floor_us = max(self.floor_us, pane.end_us)
        self.recount_memory()
        return True

    def recount_memory(self) -> None:
        """Compute the memory of all parts again. O(panes)."""
        memory_bytes = sum(part.memory_bytes for part in self.slices.values())
        # Panes that coarsened or were restored are new, and others are gone.
        self._unpacked = {}
        for content in self.panes.contents():
            memory_bytes += content.memory_bytes
            if not content.is_open and not content.is_packed:
                self._unpacked[content] = None
        self._usage.memory_bytes = memory_bytes

    # -- reading

    @property
    def num_panes(self) -> int:
        """Number of panes of all slices. O(panes)."""
        return sum(content.num_parts for content in self.panes.contents())

    def slice_numbers(self) -> set[int]:
        """Return the numbers of all slices. O(slices)."""
        return set(self.slices).union(*(content.parts for content in self._open))

    def _open_parts(self, number: int) -> list[Part]:
        if number == WHOLE:
            return []
        return [content.parts[number] for content in self._open if number in content.parts]

    def all_time(self, number: int) -> tuple[LazyCounts, PaneCoverage]:
        """Return a slice's all-time counts as they are now. O(open panes)."""
        parts = self._open_parts(number)
        if number in self.slices:
            parts.insert(0, self.slices[number])
        if len(parts) == 1:
            return parts[0].counts.frozen(), parts[0].coverage
        return (
            LazyCounts.sum([part.counts.frozen() for part in parts]),
            PaneCoverage.merged(part.coverage for part in parts),
        )

    def freeze(self, contents: Collection[PaneContent]) -> None:
        """Freeze some panes now, so that `frozen` finds them unchanged. O(panes + slices)."""
        for pane in self.panes:
            if pane.content in contents:
                pane.content.frozen(pane.start_us, pane.width_us)

    def frozen(self, names: Mapping[tuple[str, str], int]) -> FrozenStream:
        """Return the counts as they are now. O(panes + slices)."""
        return FrozenStream(
            {number: self.all_time(number) for number in self.slice_numbers()},
            tuple(pane.content.frozen(pane.start_us, pane.width_us) for pane in self.panes),
            names,
        )
