"""The content of one pane: the counts and the coverage of each slice; and its encoding.

A pane is a part of a checkpoint, so it records the revision of its last change. Most panes have
one slice, which changes while the pane's time lasts and is at most read afterwards. Such a pane
is kept *at rest*: it has its counts alone, without tallies. A change creates these again.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval import CorruptStateError
from streameval.kernel import (
    CoverageCell,
    State,
    StoredCounts,
    Tally,
    decode_evaluator,
)
from streameval_server._state.counting.coverage import EMPTY_COVERAGE, PaneCoverage
from streameval_server._state.counting.deferred_rows import NONE_DEFERRED, DeferredRows
from streameval_server._state.counting.delays import Delays
from streameval_server._state.memory import OVERHEAD_BYTES, resting_bytes
from streameval_server._state.segments import WHOLE
from streameval_server._state.views import PaneView

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from streameval.kernel import Effects, LazyCounts, Scale
    from streameval_server._state.counting.deferred_rows import CodedCases
    from streameval_server._state.memory import StreamUsage
    from streameval_server._state.views import PaneSlices

    FrozenParts = list[tuple[int, LazyCounts, PaneCoverage]]
    """Slices by number, ascending."""

_PART = struct.Struct("<IIII")


@dataclass(slots=True, eq=False)
class Part:
    """The counts and the coverage of one slice."""

    counts: Tally
    coverage: PaneCoverage

    @property
    def memory_bytes(self) -> int:
        """Memory, an upper bound. O(1)."""
        return OVERHEAD_BYTES + self.counts.memory_bytes + self.coverage.memory_bytes

    def cover(self, coverage: PaneCoverage) -> None:
        """Add to the coverage."""
        if self.coverage.is_empty:
            self.coverage = coverage
        else:
            self.coverage = PaneCoverage.merged((self.coverage, coverage))

    def merge(self, others: Sequence[Part]) -> None:
        """Add other parts. O(cells)."""
        covered = [part.coverage for part in others if not part.coverage.is_empty]
        if covered:
            self.coverage = PaneCoverage.merged((self.coverage, *covered))
        self.counts.merge([part.counts.state() for part in others])


class PartMaker:
    """Makes the parts of a stream's panes and slices, and counts their memory.

    Parameters
    ----------
    whole, bounded : State
        The empty counts of the whole, and of other slices.
    usage : StreamUsage
        The stream's.
    """

    __slots__ = ("_bounded", "_whole", "usage")

    def __init__(self, whole: State, bounded: State, usage: StreamUsage) -> None:
        self._whole = whole
        self._bounded = bounded
        self.usage = usage

    def __call__(self, number: int) -> Part:
        """Return an empty part of the slice with a number."""
        part = _part(self._whole if number == WHOLE else self._bounded)
        self.usage.memory_bytes += part.memory_bytes
        return part


class PaneContent:
    """One pane's slices.

    Parameters
    ----------
    make : PartMaker
        The stream's.

    Attributes
    ----------
    revision : int
        Log revision of the last change.
    is_open : bool
        Whether the slices' all-time counts do not include this pane yet.
    deferred : DeferredRows
        Rows that `parts` of slices do not include yet.
    """

    __slots__ = ("_frozen", "_make_part", "_parts", "deferred", "is_open", "revision")

    def __init__(self, make: PartMaker) -> None:
        self._make_part = make
        self._frozen: PaneSlices | None = None
        # At rest the counts of the whole: a state, or its bytes while nothing has read it.
        self._parts: dict[int, Part] | State | StoredCounts = {}
        self.revision = make.usage.revision
        self.is_open = False
        self.deferred = NONE_DEFERRED

    def restore(
        self, data: bytes, revision: int, scale: Scale, unverified: list[StoredCounts] | None
    ) -> None:
        """Take the parts that a `PartsEncoder` wrote. O(cells), or O(bytes) if they stay so.

        Most panes that a start reads have one slice, and no query reads them soon. Their counts
        stay bytes until a query reads them.

        Parameters
        ----------
        data, scale
            As for `parts_from_bytes`.
        revision
            The checkpoint's.
        unverified
            Takes counts that stay bytes, for `verify`; None decodes them now.

        Raises
        ------
        CorruptStateError
            When the bytes are not exactly that.
        """
        self.revision = revision
        size = len(data) - _PART.size
        if unverified is not None and data[: _PART.size] == _PART.pack(WHOLE, max(size, 0), 0, 0):
            stored = StoredCounts.of(data[_PART.size :])
            if stored is not None:
                unverified.append(stored)
                self._parts = stored
                return
        self._parts = parts_from_bytes(data, scale, unverified)

    @property
    def parts(self) -> dict[int, Part]:
        """The slices by number, for changes: a pane at rest gets its tallies. O(1)."""
        if not isinstance(self._parts, dict):
            with self._make_part.usage.measuring(self):
                self._parts = self.slices()
        return self._parts

    def slices(self) -> dict[int, Part]:
        """Return the slices by number, for reading; a pane at rest makes a new slice. O(1)."""
        if isinstance(self._parts, dict):
            return self._parts
        return {WHOLE: _part(self._resting_state(self._parts))}

    def _resting_state(self, counts: State | StoredCounts) -> State:
        """Return the counts of a pane at rest, always the same object. O(1)."""
        if isinstance(counts, StoredCounts):
            counts = self._parts = counts.closed()
        return counts

    @property
    def is_resting(self) -> bool:
        """Whether the pane has its counts alone: a change also has to create tallies. O(1)."""
        return not isinstance(self._parts, dict)

    @property
    def num_parts(self) -> int:
        """How many slices there are. O(1)."""
        return len(self._parts) if isinstance(self._parts, dict) else 1

    @property
    def memory_bytes(self) -> int:
        """Memory of the slices and the deferred rows, an upper bound. O(slices).

        Counts as bytes take what they will take once they are read.
        """
        memory_bytes, parts = self.deferred.memory_bytes, self._parts
        if isinstance(parts, dict):
            return memory_bytes + sum(part.memory_bytes for part in parts.values())
        return memory_bytes + resting_bytes(parts)

    @property
    def is_packed(self) -> bool:
        """Whether packing would leave the counts as they are. O(1)."""
        return self.is_resting

    def pack(self) -> None:
        """Keep the counts as bytes, at rest if there is only the whole. O(n).

        A pane is at rest without labels by id, whose coverage it keeps, and deferred rows. States
        stay the same objects, so what was computed from them stays valid.
        """
        parts = self._parts
        if isinstance(parts, dict):
            for part in parts.values():
                part.counts.pack()
            whole = parts.get(WHOLE)
            if whole is not None and len(parts) == 1:
                is_empty = not whole.coverage.memory_bytes and not self.deferred.size
                if is_empty and not self.is_open:
                    self._parts = whole.counts.state()
                    self._frozen = None

    def defer(self, rows: CodedCases | Effects) -> None:
        """Take rows that `pop_deferred` returns later, together. O(rows)."""
        usage = self._make_part.usage
        if self.deferred is NONE_DEFERRED:
            self.deferred = DeferredRows()
        with usage.measuring(self.deferred):
            self.deferred.add(rows, slices=usage.num_slices, existing=max(self.num_parts - 1, 0))

    def pop_deferred(self, max_cells: int) -> list[CodedCases | Effects]:
        """Return all deferred rows, to be counted in this order. O(rows + slices)."""
        self._frozen = None
        slices = (part.counts for number, part in self.slices().items() if number != WHOLE)
        with self._make_part.usage.measuring(self.deferred):
            rows = self.deferred.pop(slices, max_cells)
        self.deferred = NONE_DEFERRED
        return rows

    def touch(self) -> None:
        """Record a change at the current revision."""
        self.revision = self._make_part.usage.revision
        self._frozen = None

    def part(self, number: int) -> Part:
        """Return a slice's part to change it; create it if it does not exist."""
        parts = self.parts
        part = parts.get(number)
        if part is None:
            part = parts[number] = self._make_part(number)
        return part

    def merge(self, *others: PaneContent) -> None:
        """Add the contents of other panes, none of which has deferred removals."""
        self.touch()
        for other in others:
            for rows in other.deferred:
                self.defer(rows)
        slices = [other.slices() for other in others]
        for number in sorted({number for parts in slices for number in parts}):
            self.part(number).merge([parts[number] for parts in slices if number in parts])

    def frozen(self, start_us: int, width_us: int) -> PaneSlices:
        """Return the slices as they are now; the same object until they change. O(slices)."""
        if self._frozen is None:
            parts = self._parts
            if isinstance(parts, dict):
                self._frozen = {
                    number: PaneView(start_us, width_us, part.counts.frozen(), part.coverage)
                    for number, part in parts.items()
                }
            else:
                state = self._resting_state(parts)
                self._frozen = PaneView(start_us, width_us, state, EMPTY_COVERAGE[state.scale])
        return self._frozen

    def frozen_parts(self) -> FrozenParts:
        """Return the slices as they are now, to be encoded. O(slices)."""
        return frozen_parts(self.slices())


def _part(state: State) -> Part:
    return Part(Tally(state), EMPTY_COVERAGE[state.scale])


def frozen_parts(parts: Mapping[int, Part]) -> FrozenParts:
    """Return parts as they are now. O(slices)."""
    return [
        (number, parts[number].counts.frozen(), parts[number].coverage) for number in sorted(parts)
    ]


@dataclass(frozen=True, slots=True)
class PartsEncoder:
    """Encodes frozen parts. Needs no lock.

    Attributes
    ----------
    parts : FrozenParts
    prefix : callable
        Returns what precedes the parts, given their length.
    """

    parts: FrozenParts
    prefix: Callable[[int], bytes] = lambda _length: b""

    def merge(self) -> None:
        """Merge what is pending, so that encoding is fast. O(cells)."""
        for _, counts, _ in self.parts:
            counts.merge()

    def __call__(self) -> bytes:
        """Return the bytes. O(cells)."""
        pieces: list[bytes] = [b""]
        for number, frozen, covered in self.parts:
            counts = StoredCounts.bytes_of(frozen.state)
            coverage = b"" if covered.is_empty else covered.cell.to_bytes()
            delays = covered.delays.to_bytes()
            pieces += (
                _PART.pack(number, len(counts), len(coverage), len(delays)),
                counts,
                coverage,
                delays,
            )
        pieces[0] = self.prefix(sum(map(len, pieces)))
        return b"".join(pieces)


def parts_from_bytes(
    data: bytes, scale: Scale, unverified: list[StoredCounts] | None = None
) -> dict[int, Part]:
    """Return the parts that a `PartsEncoder` wrote. O(cells).

    Parameters
    ----------
    scale
        The stream's.
    unverified
        As for `PaneContent.restore`.

    Raises
    ------
    CorruptStateError
        When the bytes are not exactly that.
    """
    parts: dict[int, Part] = {}
    at = 0
    try:
        while at < len(data):
            number, *lengths = _PART.unpack_from(data, at)
            at += _PART.size
            blobs = []
            for length in lengths:
                blobs.append(data[at : at + length])
                at += length
            parts[number] = Part(
                Tally(_restored(blobs[0], unverified)),
                _coverage_from_bytes(blobs[1], blobs[2], scale),
            )
    except struct.error as error:
        raise CorruptStateError(str(error)) from error
    if at != len(data):
        raise CorruptStateError("the parts end too soon")
    return parts


def _restored(data: bytes, unverified: list[StoredCounts] | None) -> State:
    stored = None if unverified is None else StoredCounts.of(data)
    if unverified is None or stored is None:
        return decode_evaluator(data)
    unverified.append(stored)
    return stored.closed()


def _coverage_from_bytes(cell: bytes, delays: bytes, scale: Scale) -> PaneCoverage:
    if not cell and not delays:
        return EMPTY_COVERAGE[scale]
    counts = CoverageCell.from_bytes(cell, scale) if cell else CoverageCell(scale)
    return PaneCoverage(counts, Delays.from_bytes(delays))
