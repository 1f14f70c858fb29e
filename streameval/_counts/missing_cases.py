"""Names the first case of a removal that is not counted; only once a removal has failed.

A removal is tried on all rows at once, which does not tell which row asks for too much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval._common.errors import InvalidInputError
from streameval._counts.weights import WEIGHT_UNITS, WeightSums, every_unit

if TYPE_CHECKING:
    from streameval._counts.state import State
    from streameval._counts.unsorted_cases import UnsortedCases


def missing_case_error(
    label: bool, score: float | str, *, field: str, index: int | None = None
) -> InvalidInputError:
    """Return the error for removing a case that is not counted."""
    kind = "positive" if label else "negative"
    at = "" if index is None else f" at index {index}"
    message = f"there is no {kind} case of score {score} to remove{at}"
    return InvalidInputError(message, field=field, index=index)


def first_missing_case(state: State, cases: UnsortedCases) -> InvalidInputError:
    """Return the error for the first row that removes more cases than are left."""
    left: dict[tuple[bool, float], int] = {}
    columns = cases.labels, cases.scores, cases.multiplicities()
    rows = zip(*(column.tolist() for column in columns))
    for index, (label, score, count) in enumerate(rows):
        edge = state.edge(score)
        counted = left.get((label, edge))
        if counted is None:
            counted = state.counts.count_of(label, edge)
        left[label, edge] = counted - count
        if left[label, edge] < 0:
            return missing_case_error(label, score, field="scores", index=index)
    # Every case is counted, so one is not in the group of its cluster.
    message = "there is a case to remove that its cluster does not have"
    return InvalidInputError(message, field="clusters")


def first_missing_weight(state: State, cases: UnsortedCases) -> InvalidInputError:
    """Return the error for the first row after whose removal no cases have the sums left."""
    counted = state.counts.weighed()
    left: dict[tuple[bool, float], WeightSums] = {}
    columns = (
        cases.labels,
        cases.scores,
        cases.multiplicities(),
        every_unit(cases.units, len(cases)),
    )
    rows = zip(*(column.tolist() for column in columns))
    for index, (label, score, count, unit) in enumerate(rows):
        key = label, state.edge(score)
        rest = left.get(key) or counted.run(label).sums_of(key[1])
        left[key] = rest = rest.without(count, unit)
        if not rest.is_possible():
            weight = f"{score} and weight {unit / WEIGHT_UNITS:g}"
            return missing_case_error(label, weight, field="scores", index=index)
    message = "a removal was refused although every case is counted"
    raise AssertionError(message)
