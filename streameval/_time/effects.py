"""What joining does to the counts: signed effects, each in the pane of its prediction.

The joiner decides, an evaluator counts. `Effects`, the table between them, has one
row for each event of one prediction. Panes, slices and coverage are sums over these
rows, so they cannot disagree.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from streameval._counts.unsorted_cases import each_column
from streameval._counts.weights import every_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import FloatArray, IntArray

CodeArray = npt.NDArray[np.uint16]
KindArray = npt.NDArray[np.uint8]


class Effect(enum.IntEnum):
    """An event of one prediction. Numbers are stored, so they are never reused."""

    PREDICTED = 0
    """A prediction arrived."""
    LABELLED_NEGATIVE = 1
    """Its label arrived: a case is counted."""
    LABELLED_POSITIVE = 2
    UNLABELLED_NEGATIVE = 3
    """Its label was changed or retracted: the case no longer counts."""
    UNLABELLED_POSITIVE = 4
    EXPIRED = 5
    """No label arrived within the ttl."""
    EXPIRED_NEGATIVE = 6
    """No label arrived within the ttl, which counts as a negative case."""
    RETRACTED = 7
    """The prediction was retracted."""
    ORPHANED = 8
    """A label whose prediction never arrived, dropped."""
    MISSED_NEGATIVE = 9
    """A label whose prediction never arrived, counted as a reference that was never scored."""
    MISSED_POSITIVE = 10


def _table(**rows: int) -> IntArray:
    table = np.zeros(len(Effect), dtype=np.int64)
    for name, value in rows.items():
        table[Effect[name]] = value
    table.flags.writeable = False
    return table


POSITIVE_CASES = _table(LABELLED_POSITIVE=1, UNLABELLED_POSITIVE=-1)
NEGATIVE_CASES = _table(LABELLED_NEGATIVE=1, UNLABELLED_NEGATIVE=-1, EXPIRED_NEGATIVE=1)
POSITIVE_MISSES = _table(MISSED_POSITIVE=1)
NEGATIVE_MISSES = _table(MISSED_NEGATIVE=1)

COVERAGE = {
    "predictions": _table(PREDICTED=1),
    "labelled": _table(
        LABELLED_POSITIVE=1, LABELLED_NEGATIVE=1, UNLABELLED_POSITIVE=-1, UNLABELLED_NEGATIVE=-1
    ),
    "expired": _table(EXPIRED=1, EXPIRED_NEGATIVE=1),
    "retracted": _table(RETRACTED=1),
    "orphans": _table(ORPHANED=1, MISSED_POSITIVE=1, MISSED_NEGATIVE=1),
}
"""What each effect adds to each count of `Coverage`."""


def _no_codes() -> CodeArray:
    return np.empty((0, 0), dtype=np.uint16)


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """A table of effects, in the order in which they happened.

    Attributes
    ----------
    kinds : uint8[n]
        `Effect` of each row.
    event_us : int64[n]
        Event time of the prediction, in microseconds since 1970; of the label,
        for an orphan.
    at_us : int64[n]
        When it happened.
    scores : float64[n]
        Score of the prediction; nan for an orphan.
    codes : uint16[n, k]
        The prediction's segment codes, one column for each declared key.
    clusters : uint16[n] or None
        The group of the prediction's cluster; None where no clusters are declared.
    units : int64[n] or None
        The weight of the label, in units of 2**-16; None where each weighs 1.
    """

    kinds: KindArray = field(default_factory=lambda: np.empty(0, dtype=np.uint8))
    event_us: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    at_us: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    scores: FloatArray = field(default_factory=lambda: np.empty(0))
    codes: CodeArray = field(default_factory=_no_codes)
    clusters: CodeArray | None = None
    units: IntArray | None = None

    def __len__(self) -> int:
        return self.kinds.size

    @property
    def columns(self) -> tuple[Any, ...]:
        """The columns, in order; None of one that is not there."""
        return tuple(getattr(self, each) for each in self.__slots__)

    @property
    def nbytes(self) -> int:
        """Memory of the columns. O(1)."""
        return sum(column.nbytes for column in self.columns if column is not None)

    @classmethod
    def concat(cls, parts: Sequence[Effects]) -> Effects:
        """Join tables, in order. O(n)."""
        parts = [part for part in parts if len(part)]
        if len(parts) <= 1:
            return parts[0] if parts else NO_EFFECTS
        if any(part.units is not None for part in parts):
            parts = [replace(part, units=every_unit(part.units, len(part))) for part in parts]
        columns = zip(*(part.columns for part in parts), strict=True)
        joined: list[Any] = [None if each[0] is None else np.concatenate(each) for each in columns]
        return cls(*joined)

    def __getitem__(self, rows: npt.NDArray[np.bool_] | IntArray | slice) -> Effects:
        return Effects(*each_column(self.columns, lambda column: column[rows]))


NO_EFFECTS = Effects()
"""The empty table."""
