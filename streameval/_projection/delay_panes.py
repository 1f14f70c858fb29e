"""Label delays of all panes, counted from a joiner's effects."""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from streameval._common.frame import raise_corrupt
from streameval._projection.delay_counts import DelayCounts, DelayRows
from streameval._time.panes import Panes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streameval._common.frame import Reader
    from streameval._counts.resolution import Scale
    from streameval._time.effects import Effects
    from streameval._time.panes import Tier

_COUNT = struct.Struct("<q")
_PANE = struct.Struct("<qq")


class DelayPanes(Panes[DelayCounts]):
    """Panes of label delays, as wide as the panes of the evaluator that the joiner counts into.

    Parameters
    ----------
    tiers : tuple of Tier
        From `Grid.tiers_of`.
    scale : {"plain", "probability"}
        Selects the cells of score.
    """

    def __init__(self, tiers: tuple[Tier, ...], scale: Scale) -> None:
        super().__init__(tiers, partial(DelayCounts, scale))
        self.scale: Scale = scale

    def count(self, effects: Effects) -> None:
        """Count effects, none of which is past retention. O(n log n)."""
        for start_us, rows in DelayRows.by_pane(effects, self.grid, self.scale):
            self.at(start_us).add_rows(rows)

    def count_rows(self, rows: Sequence[tuple[int, int, float]], now_us: int) -> None:
        """Count a few effects of one moment: kind, event time and score. O(rows)."""
        for kind, event_us, score in rows:
            self.at(self.grid.start_of(event_us)).add(
                np.array([kind], dtype=np.uint8), np.array([score]), np.array([now_us - event_us])
            )

    def copy(self) -> DelayPanes:
        """Return independent panes. O(rows)."""
        other = DelayPanes(self.tiers, self.scale)
        other.advance(self.now_us)
        for pane in self:
            other.put(pane.start_us, pane.content.copy())
        return other

    def parts(self) -> Iterator[bytes]:
        """Yield the content as bytes; equal contents have equal bytes. O(rows)."""
        filled = [pane for pane in self if pane.content.rows().counts.size]
        yield _COUNT.pack(len(filled))
        for pane in filled:
            data = pane.content.to_bytes()
            yield _PANE.pack(pane.start_us, len(data))
            yield data

    def read(self, reader: Reader) -> None:
        """Read the panes that `parts` wrote; raise CorruptStateError if they are unsound."""
        (count,) = reader.fields(_COUNT)
        if count < 0:
            raise_corrupt(f"the label joiner announces {count} panes of label delays")
        last_us = self.grid.oldest_us - 1
        for _ in range(count):
            start_us, size = reader.fields(_PANE)
            content = DelayCounts.from_bytes(reader.blob(size), self.scale)
            placed = last_us < start_us and self.grid.start_of(start_us) == start_us
            if not placed or not content.rows().counts.size:
                raise_corrupt(f"the label joiner has label delays of a pane at {start_us} us")
            last_us = start_us
            self.put(start_us, content)

    def _check(self) -> None:
        """Assert all invariants. O(rows)."""
        super()._check()
        for pane in self:
            assert pane.content.is_consistent(), pane
