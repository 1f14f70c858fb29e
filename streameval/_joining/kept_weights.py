"""The rule that an id keeps the weight of its label, checked before anything is applied.

A label may be repeated or changed, with the weight that it had. Another weight is refused:
it would be a repetition or a correction, and nothing tells which. Retracting the id and adding
it again says that it is a correction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.values import at_row
from streameval._counts.weights import WEIGHT_UNITS
from streameval._joining.rules import PENDING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import IntArray
    from streameval._joining.joiner import Joiner


def check_weights_kept(
    joiner: Joiner,
    ids: Sequence[bytes],
    units: IntArray,
    times_us: IntArray,
    *,
    is_column: bool = True,
) -> None:
    """Refuse the first label with another weight than its id has, or has in a row before. O(n).

    Parameters
    ----------
    joiner : Joiner
    ids : sequence of bytes
    units : int64[n]
        The weight of each label, in units of 2**-16.
    times_us : int64[n]
        When each arrived: an id that has fallen due by then has no label any more.
    is_column : bool
        Whether the caller passed columns, so that the message names a row.

    Raises
    ------
    InvalidInputError
        With the row at fault. Nothing has changed then.
    """
    first: dict[bytes, int] = {}
    for row, held in enumerate(_held(joiner, ids, times_us).tolist()):
        mine = int(units[row])
        before = first.setdefault(ids[row], mine if held < 0 else held)
        if before != mine:
            index = row if is_column else None
            message = (
                "the weight of a label must be the one that its id has, "
                f"{before / WEIGHT_UNITS:g}, got {mine / WEIGHT_UNITS:g}{at_row(index)}; "
                "to change it, retract the id"
            )
            raise InvalidInputError(
                message, field="weights" if is_column else "weight", index=index
            )


def _held(joiner: Joiner, ids: Sequence[bytes], times_us: IntArray) -> IntArray:
    """Return the units of each id's label at its row's time; -1 where it has no label. O(n)."""
    table = joiner.table
    slots = table.find(ids)
    known = np.flatnonzero(slots >= 0)
    nows = np.maximum(np.maximum.accumulate(times_us), joiner.now_us)[known]
    at = slots[known]
    has_label = (table.state[at] != PENDING) & (table.due[at] >= nows // joiner.settings.bucket_us)
    held = np.full(len(ids), -1, dtype=np.int64)
    held[known[has_label]] = table.units_at(at[has_label])
    return held
