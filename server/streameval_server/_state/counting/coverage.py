"""How much of the truth a pane has seen: the library's counts, and how long labels took.

Immutable, so that views may share it: adding to it makes a new object.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from streameval.kernel import CoverageCell
from streameval_server._state.counting.delays import NO_DELAYS, Delays

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streameval import Coverage
    from streameval.kernel import Scale


_OVERHEAD_BYTES = 800
"""Memory of a coverage besides its columns: three objects and the heads of four arrays."""

COVERAGE_BYTES = _OVERHEAD_BYTES + 1_000
"""Memory of the coverage of a few predictions: their bands, from the lowest to the highest."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class PaneCoverage:
    """Predictions and their labels, by the pane of the prediction. Immutable.

    Attributes
    ----------
    cell : CoverageCell
        The library's counts. Never mutate it.
    delays : Delays
        How long labels took to arrive.
    """

    cell: CoverageCell = field(default_factory=CoverageCell)
    delays: Delays = NO_DELAYS

    @classmethod
    def merged(cls, parts: Iterable[Self]) -> Self:
        """Return the coverage of all parts together. O(bands) each."""
        parts = list(parts)
        if len(parts) == 1:
            return parts[0]
        cell = CoverageCell(parts[0].cell.scale) if parts else CoverageCell()
        cell.merge(*(part.cell for part in parts))
        return cls(cell, Delays.merged(part.delays for part in parts))

    @property
    def memory_bytes(self) -> int:
        """Memory; 0 when empty, because all empty coverages of a scale are one object. O(1)."""
        if self.cell.effect_counts is EMPTY_COVERAGE[self.cell.scale].cell.effect_counts:
            return 0
        columns = self.cell.effect_counts, self.cell.bands, self.delays.buckets, self.delays.counts
        return _OVERHEAD_BYTES + sum(column.nbytes for column in columns)

    @property
    def counts(self) -> Coverage:
        """The numbers of predictions, of those labelled, expired and so on."""
        return self.cell.coverage

    @property
    def is_empty(self) -> bool:
        """Whether no prediction and no label by id was counted."""
        return not self.cell.effect_counts.any()

    def bands(self, at_most: int = 10) -> list[tuple[float, float, int, int]]:
        """Return bands of score, from and to, with their predictions and those labelled.

        With about as many predictions each. O(bands).
        """
        return self.cell.band_rows(at_most)


EMPTY_COVERAGE: dict[Scale, PaneCoverage] = {
    scale: PaneCoverage(CoverageCell(scale)) for scale in ("plain", "probability")
}
"""The coverage of a pane without predictions by id, by scale: one object for all such panes."""
