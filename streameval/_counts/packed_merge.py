"""The sum of packed states, read from their bytes: no score is built that the sum has not.

Cells of one resolution are added to one table by their numbers, a run at a time, so that each
pass stays in the processor's cache. Tables of finer resolutions are then added to that of the
lowest one, in which a cell is the cells that agree in their leading bits.

Cost: O(S + W) for S cells in all and tables of W rows; some 4 ns a cell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.cell_layout import Layout, NumberLayout, Span
from streameval._counts.run import EMPTY_RUN, Run
from streameval._counts.scatter import run_from_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import IntArray
    from streameval._counts.packed_counts import PackedCounts, PackedRun
    from streameval._counts.resolution import Scale


_ONE = np.ones(1, dtype=np.uint8)

_MIN_LOOP_CELLS = 2_048
"""Runs of fewer cells on average are added in one pass: one for each costs more than it saves."""


def merge_packed(parts: Sequence[PackedCounts], label: bool, bits: int, scale: Scale) -> Run | None:
    """Return one class's sum at a resolution; None if a table would be sparse.

    Parameters
    ----------
    parts : sequence of PackedCounts
        Of one scale, and of no lower resolution.
    label : bool
        The class.
    bits : int
        Significant bits of the result, at least 1.
    scale : {"plain", "probability"}
    """
    by_bits: dict[int, list[PackedRun]] = {}
    for part in parts:
        run = part.run(label)
        if run.numbers.size:
            by_bits.setdefault(part.bits, []).append(run)
    if not by_bits:
        return EMPTY_RUN
    tables = []
    for own_bits, runs in by_bits.items():
        layout = NumberLayout(_span_of(runs))
        if layout.is_sparse(sum(run.numbers.size for run in runs)):
            return None
        tables.append((own_bits, layout, _table_of(runs, layout)))
    span = None
    for own_bits, layout, _ in tables:
        shifted = layout.span.shifted(own_bits - bits)
        span = shifted if span is None else span.union(shifted)
    assert span is not None
    whole = Layout(span, bits, scale)
    if len(tables) == 1 and tables[0][0] == bits:
        return run_from_table(whole, tables[0][2])
    sums = np.zeros(whole.width, dtype=np.int64)
    for own_bits, layout, table in tables:
        used = np.flatnonzero(table != 0)
        numbers = layout.numbers(used) >> np.int64(own_bits - bits)
        # Several cells of a finer table may be one of this.
        np.add.at(sums, whole.places_of_numbers(numbers), table[used])
    return run_from_table(whole, sums)


def _span_of(runs: Sequence[PackedRun]) -> Span:
    """Return the span of ascending numbers. O(log n) a run."""
    below: list[int] = []
    above: list[int] = []
    for run in runs:
        numbers = run.numbers
        split = int(np.searchsorted(numbers, 0))
        if split:
            below += (int(numbers[0]), int(numbers[split - 1]))
        if split < numbers.size:
            above += (int(numbers[split]), int(numbers[-1]))
    return Span(
        (min(below), max(below)) if below else None, (min(above), max(above)) if above else None
    )


def _table_of(runs: Sequence[PackedRun], layout: NumberLayout) -> IntArray:
    """Return how many cases each number of a layout has. O(S + W)."""
    sums = np.zeros(layout.width, dtype=np.int64)
    if sum(run.numbers.size for run in runs) < _MIN_LOOP_CELLS * len(runs):
        counts = [_ONE if run.counts is None else run.counts for run in runs]
        columns = [
            np.broadcast_to(c, run.numbers.size) for c, run in zip(counts, runs, strict=True)
        ]
        numbers = np.concatenate([run.numbers for run in runs])
        np.add.at(
            sums,
            layout.places_of_numbers(numbers),
            np.concatenate(columns, dtype=np.int64, casting="unsafe"),
        )
        return sums
    for run in runs:
        # A run's numbers are distinct, so no place occurs twice.
        places = layout.places_of_numbers(run.numbers)
        sums[places] += 1 if run.counts is None else run.counts
    return sums
