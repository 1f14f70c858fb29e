"""The content of one pane: the counts and the coverage of each slice; and its encoding.

A pane is a part of a checkpoint, so it records the revision of its last change.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval import CorruptStateError
from streameval._counts import decode_state, encode_state
from streameval._time import CoverageCell
from streameval_server._state.accumulator import Accumulator
from streameval_server._state.coverage import EMPTY_COVERAGE, PaneCoverage
from streameval_server._state.delays import Delays
from streameval_server._state.views import PaneView

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from streameval._counts import Scale, State
    from streameval_server._state.accumulator import StreamUsage
    from streameval_server._state.views import LazyCounts

    FrozenParts = list[tuple[int, LazyCounts, PaneCoverage]]
    """Slices by number, ascending."""

_PART = struct.Struct("<IIII")


@dataclass(slots=True, eq=False)
class Part:
    """The counts and the coverage of one slice."""

    counts: Accumulator
    coverage: PaneCoverage

    def cover(self, coverage: PaneCoverage) -> None:
        """Add to the coverage."""
        self.coverage = PaneCoverage.merged((self.coverage, coverage))

    def merge(self, others: Sequence[Part]) -> int:
        """Add other parts; return by how much memory grew. O(cells)."""
        covered = [part.coverage for part in others if not part.coverage.is_empty]
        if covered:
            self.coverage = PaneCoverage.merged((self.coverage, *covered))
        return self.counts.merge([part.counts.state() for part in others])


class PaneContent:
    """One pane's slices.

    Parameters
    ----------
    make : callable
        Makes an empty part.
    usage : StreamUsage
        The stream's.

    Attributes
    ----------
    parts : dict of int to Part
        By the number of the slice.
    revision : int
        Log revision of the last change.
    is_open : bool
        Whether the slices' all-time counts do not include this pane yet.
    """

    __slots__ = ("_frozen", "_make_part", "_usage", "is_open", "parts", "revision")

    def __init__(self, make: Callable[[], Part], usage: StreamUsage) -> None:
        self._make_part = make
        self._usage = usage
        self._frozen: dict[int, PaneView] | None = None
        self.parts: dict[int, Part] = {}
        self.revision = usage.revision
        self.is_open = False

    def touch(self) -> None:
        """Record a change at the current revision."""
        self.revision = self._usage.revision
        self._frozen = None

    def part(self, number: int) -> Part:
        """Return a slice's part to change it; create it if it does not exist."""
        part = self.parts.get(number)
        if part is None:
            part = self.parts[number] = self._make_part()
        return part

    def merge(self, *others: PaneContent) -> None:
        """Add the contents of other panes."""
        self.touch()
        for number in sorted({number for other in others for number in other.parts}):
            self.part(number).merge(
                [other.parts[number] for other in others if number in other.parts]
            )

    def frozen(self, start_us: int, end_us: int) -> dict[int, PaneView]:
        """Return the slices as they are now; the same object until they change. O(slices)."""
        if self._frozen is None:
            self._frozen = {
                number: PaneView(start_us, end_us, part.counts.frozen(), part.coverage)
                for number, part in self.parts.items()
            }
        return self._frozen


def frozen_parts(parts: Mapping[int, Part]) -> FrozenParts:
    """Return parts as they are now. O(slices)."""
    return [
        (number, parts[number].counts.frozen(), parts[number].coverage) for number in sorted(parts)
    ]


def parts_to_bytes(parts: FrozenParts) -> bytes:
    """Return frozen parts as bytes. O(cells). Needs no lock."""
    pieces: list[bytes] = []
    for number, frozen, covered in parts:
        counts = encode_state(frozen.evaluator._view())
        coverage = b"" if covered.is_empty else covered.cell.to_bytes()
        delays = covered.delays.to_bytes()
        pieces += (
            _PART.pack(number, len(counts), len(coverage), len(delays)),
            counts,
            coverage,
            delays,
        )
    return b"".join(pieces)


def parts_from_bytes(data: bytes, scale: Scale) -> dict[int, Part]:
    """Return the parts that `parts_to_bytes` wrote. O(cells).

    Parameters
    ----------
    scale
        The stream's.

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
            state: State = decode_state(blobs[0])
            parts[number] = Part(
                Accumulator(state), _coverage_from_bytes(blobs[1], blobs[2], scale)
            )
    except struct.error as error:
        raise CorruptStateError(str(error)) from error
    if at != len(data):
        raise CorruptStateError("the parts end too soon")
    return parts


def _coverage_from_bytes(cell: bytes, delays: bytes, scale: Scale) -> PaneCoverage:
    if not cell and not delays:
        return EMPTY_COVERAGE[scale]
    counts = CoverageCell.from_bytes(cell, scale) if cell else CoverageCell(scale)
    return PaneCoverage(counts, Delays.from_bytes(delays))
