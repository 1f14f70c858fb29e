"""How much of the truth a pane has seen, as answers need it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from streameval._effects import Coverage
from streameval_server._delays import Delays

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PaneCoverage:
    """Predictions and their labels, in the panes of the predictions. Immutable.

    Attributes
    ----------
    counts : Coverage
        The library's.
    delays : Delays
        How long labels took to arrive.
    """

    counts: Coverage = field(default_factory=Coverage)
    delays: Delays = field(default_factory=Delays)

    @classmethod
    def merged(cls, parts: Iterable[Self]) -> Self:
        """Return the coverage of all parts together."""
        parts = list(parts)
        counts = Coverage()
        for part in parts:
            counts += part.counts
        return cls(counts, Delays.merged(part.delays for part in parts))
