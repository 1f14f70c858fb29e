"""Operations on ids, and how a batch is cut into rounds that can be vectorised.

An operation depends on the state that the one before it left its id in, so only rows
with distinct ids can be applied as columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from streameval._counts.unsorted_cases import each_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import FloatArray, IntArray
    from streameval._time.effects import CodeArray, KindArray

_MAX_SCALAR_ROWS = 8
"""Batches of at most this many rows are joined row by row: cheaper than numpy's calls."""


class Operations(NamedTuple):
    """Columns of operations on ids, in order."""

    ids: Sequence[bytes]
    ops: KindArray
    scores: FloatArray
    event_us: IntArray
    codes: CodeArray
    units: IntArray | None = None
    """The weight of each label in units of 2**-16; None where each weighs 1."""
    at_us: IntArray | None = None
    """When each label became known; None where that is when it arrived. Of a prediction any
    time: then the label that waits for it became known at the event time that it was given."""

    def at(self, rows: list[int]) -> Operations:
        """Return some of the rows."""
        ids = [self.ids[row] for row in rows]
        return Operations(ids, *each_column(self[1:], lambda column: column[rows]))


def split_rounds(rows: Operations) -> tuple[list[Operations], Operations | None]:
    """Cut a batch into rounds of distinct ids, and a rest to be applied in order, if any.

    Round k has the k-th operation of each id, so the rows of an id keep their order and
    rounds never grow. Rounds of at most `_MAX_SCALAR_ROWS` rows make the rest.
    """
    if len(rows.ids) <= _MAX_SCALAR_ROWS:
        return [], rows
    if len(set(rows.ids)) == len(rows.ids):
        return [rows], None
    num_rounds: dict[bytes, int] = {}
    rounds: list[list[int]] = []
    for row, id_ in enumerate(rows.ids):
        number = num_rounds.get(id_, 0)
        num_rounds[id_] = number + 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(row)
    large = sum(len(each) > _MAX_SCALAR_ROWS for each in rounds)
    rest = sorted(row for each in rounds[large:] for row in each)
    return [rows.at(each) for each in rounds[:large]], rows.at(rest)
