"""Rows that slices do not include yet, and what counting them takes.

Rows of one arrival that are spread over many panes give each slice of a pane a few. They wait
with their segment codes until they are many or a query reads the stream: rows of a closed pane
in the pane, effects in the slices' all-time counts in the stream. What they will take is
counted from the start, so counting them later grows nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from streameval.kernel import Effect, Effects, UnsortedCases
from streameval_server._state.memory import slices_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from streameval.kernel import Tally
    from streameval_server._model.arrays import CodeArray

REMOVES = np.isin(np.arange(256), (Effect.UNLABELLED_NEGATIVE, Effect.UNLABELLED_POSITIVE))
"""Whether each kind of effect removes a case."""


@dataclass(frozen=True, slots=True, eq=False)
class CodedCases:
    """Cases with the stream's code of each row of each key.

    Attributes
    ----------
    cases : UnsortedCases
    codes : uint16[keys, n]
    """

    cases: UnsortedCases
    codes: CodeArray

    def __len__(self) -> int:
        return len(self.cases)

    @property
    def nbytes(self) -> int:
        """Memory of the columns. O(1)."""
        return UnsortedCases.PIECE_BYTES + self.cases.nbytes + self.codes.nbytes

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Join cases, at least one part. O(n)."""
        cases = UnsortedCases.concat([part.cases for part in parts])
        return cls(cases, np.concatenate([part.codes for part in parts], axis=1))


class DeferredRows:
    """Rows of one set of slices, in the order of the log.

    Attributes
    ----------
    size : int
        Number of rows.
    memory_bytes : int
        Memory, with what the slices will take.
    new_slices : int
        Slices that counting the rows may create; the memory includes them.
    has_removals : bool
        Whether rows remove cases: then they precede whatever else changes the slices.
    """

    __slots__ = (
        "_has_effects",
        "_places",
        "_row_bytes",
        "_rows",
        "has_removals",
        "memory_bytes",
        "new_slices",
        "size",
    )

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._rows: list[CodedCases | Effects] = []
        self._places = self._row_bytes = self.size = self.memory_bytes = self.new_slices = 0
        self._has_effects = self.has_removals = False

    def add(self, rows: CodedCases | Effects, *, slices: int, existing: int) -> None:
        """Take rows. O(rows).

        Parameters
        ----------
        slices, existing
            How many slices there may be, and are.
        """
        self._rows.append(rows)
        slices = max(slices, existing)
        if isinstance(rows, Effects):
            self._has_effects = True
            self.has_removals |= bool(REMOVES[rows.kinds].any())
        self.size += len(rows)
        self._places += rows.codes.size
        self._row_bytes += rows.nbytes
        self.memory_bytes = self._row_bytes + slices_bytes(
            self._places, slices, existing, has_effects=self._has_effects
        )
        self.new_slices = min(self._places, slices - existing)

    def __iter__(self) -> Iterator[CodedCases | Effects]:
        return iter(self._rows)

    def pop(self, counts: Iterable[Tally], max_cells: int) -> list[CodedCases | Effects]:
        """Return all rows, to be counted in this order; none are left. O(rows + slices).

        Additions commute, so they come together. So do removals while no slice can reach its
        cap, because only a cap makes the resolution depend on the order.

        Parameters
        ----------
        counts
            Those of the slices.
        max_cells
            The cap of each.
        """
        rows, room = self._rows, max_cells - self.size
        # A slice that does not exist yet may get all rows.
        if not self.has_removals or (room >= 0 and all(each.size <= room for each in counts)):
            cases = [each for each in rows if isinstance(each, CodedCases)]
            effects = [each for each in rows if isinstance(each, Effects)]
            rows = [CodedCases.concat(cases)] if cases else []
            if effects:
                rows.append(Effects.concat(effects))
        self._clear()
        return rows


NONE_DEFERRED = DeferredRows()
"""Stands for no deferred rows, as most panes and streams have. Never add to it."""
