"""How much of the truth a pane has seen: the library's counts, and how long labels took.

Immutable, so that a view may keep it; what is added makes a new one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from streameval._time import CoverageCell
from streameval_server._state.delays import Delays

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streameval._common import Coverage
    from streameval._time import ScoreBand


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PaneCoverage:
    """Predictions and their labels, in the panes of the predictions. Immutable.

    Attributes
    ----------
    cell : CoverageCell
        The library's. Never mutate it.
    delays : Delays
        How long labels took to arrive.
    """

    cell: CoverageCell = field(default_factory=CoverageCell)
    delays: Delays = field(default_factory=Delays)

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
    def counts(self) -> Coverage:
        """Predictions, those labelled, expired and so on."""
        return self.cell.coverage

    @property
    def is_empty(self) -> bool:
        """Whether nothing happened."""
        return not self.cell.effect_counts.any()

    def bands(self, at_most: int = 10) -> tuple[ScoreBand, ...]:
        """Return the labelled share by score, in bands with about as many predictions each."""
        return self.cell.by_score(at_most)
