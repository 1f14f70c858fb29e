"""From rows to states: the work of each task on its partition.

Rows arrive as Arrow batches. Batches are joined into chunks of some hundred thousand
rows, cut into groups by one sort of small integers, and counted. A task holds one
evaluator for each group of its rows, and emits all of them when together they exceed
a limit, so its memory does not depend on the length of its partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from streameval._counts.weights import WEIGHT_UNITS
from streameval._evaluator import Evaluator
from streameval.spark._columns import COUNT, POSITIVE, SCORE, UNITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from streameval._common.arrays import IntArray

    Key = tuple[Any, ...]

STATE, TOTAL = "state", "__total"
BAD = {
    "scores": "__bad_scores",
    "labels": "__bad_labels",
    "counts": "__bad_counts",
    "weights": "__bad_weights",
}
PARTIAL_COLUMNS = ", ".join(
    [f"{STATE} binary", *(f"{name} long" for name in (TOTAL, *BAD.values()))]
)
"""The columns after the groups' columns, as a Spark declaration."""

_MIN_CHUNK_ROWS = 1 << 18
"""Batches are collected until they have this many rows, then counted together."""
_MAX_CELLS = 1 << 22
"""Cells of all evaluators above which they are emitted: about 64 MB of exact state."""
_MAX_EMITTED_BYTES = 32 << 20
"""State bytes above which a batch ends, so that Arrow's columns stay below 2 GB."""


class PartialGroup:
    """The counts of one group: its cases, and its invalid values by kind."""

    __slots__ = ("bad", "evaluator", "total")

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.total = 0
        self.bad = dict.fromkeys(BAD, 0)

    def add(self, rows: pa.Table) -> None:
        """Count rows; if any is invalid count only the invalid values, for the job will fail."""
        columns = {"scores": rows[SCORE], "labels": rows[POSITIVE], "counts": rows[COUNT]}
        if UNITS in rows.column_names:
            columns["weights"] = rows[UNITS]
        self.total += rows.num_rows
        if any(column.null_count for column in columns.values()):
            for kind, column in columns.items():
                self.bad[kind] += column.null_count
            return
        counts = columns["counts"].to_numpy()
        weights = None
        if "weights" in columns:
            weights = columns["weights"].to_numpy() / WEIGHT_UNITS
        self.evaluator.add_cases(
            labels=columns["labels"].to_numpy(),
            scores=columns["scores"].to_numpy(),
            counts=None if counts.size and counts.min() == counts.max() == 1 else counts,
            weights=weights,
        )


def partial_states(
    batches: Iterable[pa.RecordBatch], by: tuple[str, ...], make: Callable[[], Evaluator]
) -> Iterator[pa.RecordBatch]:
    """Yield states of the groups of a partition. O(n log n).

    Parameters
    ----------
    batches
        The columns of `Rows.frame`.
    by
        The groups' columns.
    make
        Returns an empty evaluator.
    """
    held: dict[Key, PartialGroup] = {}
    schema: pa.Schema | None = None
    fresh = 0
    for table in _chunks(batches):
        schema = table.schema
        for key, rows in grouped(table, by):
            if key not in held:
                held[key] = PartialGroup(make())
            held[key].add(rows)
        fresh += table.num_rows
        if fresh > _MAX_CELLS:
            fresh = sum(each.evaluator.num_cells for each in held.values())
            if fresh > _MAX_CELLS:
                yield from _emitted(held, schema, by)
                held, fresh = {}, 0
    if schema is not None:
        yield from _emitted(held, schema, by)


def grouped(table: pa.Table, by: tuple[str, ...]) -> Iterator[tuple[Key, pa.Table]]:
    """Yield the rows of each group with its key. O(n log n) on small integers."""
    if not by:
        yield (), table
        return
    codes, keys = _codes(table, by)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    table = table.take(pa.array(order)) if starts.size > 1 else table
    for start, stop in zip(starts, [*starts[1:], table.num_rows]):
        yield keys[codes[order[start]]], table.slice(start, stop - start)


def _codes(table: pa.Table, by: tuple[str, ...]) -> tuple[IntArray, list[Key]]:
    """Return a small integer for each row, and the key of each integer."""
    codes = np.zeros(table.num_rows, dtype=np.int64)
    keys: list[Key] = [()]
    for name in by:
        column = table[name].combine_chunks().dictionary_encode(null_encoding="encode")
        values = column.dictionary.to_pylist()
        combined = codes * len(values) + column.indices.to_numpy()
        found, codes = np.unique(combined, return_inverse=True)
        keys = [(*keys[each // len(values)], values[each % len(values)]) for each in found.tolist()]
    return codes, keys


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join batches into tables of `_MIN_CHUNK_ROWS` rows or more."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            rows += batch.num_rows
        if rows >= _MIN_CHUNK_ROWS:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _emitted(
    held: dict[Key, PartialGroup], schema: pa.Schema, by: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield the states and totals of all groups, in batches of bounded size."""
    fields = [schema.field(name) for name in by]
    fields += [(STATE, pa.binary()), (TOTAL, pa.int64())]
    fields += [(name, pa.int64()) for name in BAD.values()]
    shape = pa.schema(fields)
    rows: list[dict[str, Any]] = []
    size = 0
    for key, counted in held.items():
        state = counted.evaluator.to_bytes()
        row = dict(zip(by, key)) | {STATE: state, TOTAL: counted.total}
        rows.append(row | {name: counted.bad[kind] for kind, name in BAD.items()})
        size += len(state)
        if size > _MAX_EMITTED_BYTES:
            yield pa.RecordBatch.from_pylist(rows, schema=shape)
            rows, size = [], 0
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=shape)


def merged(table: pa.Table, make: Callable[[], Evaluator]) -> Evaluator:
    """Return the merged evaluator of a column of states. O(S log S)."""
    whole = make()
    whole.merge(*(Evaluator.from_bytes(state.as_buffer()) for state in table[STATE]))
    return whole
