"""What each slice of each segment key counts of rows with weights.

Sums of weights are exact in any order, but they are no numbers of cells, which `slice_sort` and
`slice_table` count: each slice gets its rows and sums them when it is merged.

Cost: a stable sort of the rows by slice for each key, and about 10 us a slice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval.kernel import rows_by_group
from streameval_server._state.segments import slices_by_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval.kernel import UnsortedCases
    from streameval_server._model.arrays import CodeArray


def slices_of_weighted(
    cases: UnsortedCases, codes: CodeArray
) -> Iterator[tuple[int, UnsortedCases]]:
    """Yield the number and the rows of each slice of each key. O(keys n log n).

    Parameters
    ----------
    cases : UnsortedCases
    codes : uint16[keys, n]
        The stream's code of each row of each key.
    """
    for numbers, own in slices_by_key(codes.T):
        mine = cases if own is None else cases.take(own)
        for number, rows in rows_by_group(numbers):
            yield number, mine.take(rows)
