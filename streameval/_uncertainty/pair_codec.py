"""The counts of a pair as bytes: one versioned, checksummed format.

Layout, little-endian: the grid as its cuts (a flag, then edges and middles of a and of b) and
its entries (of negatives, then of positives: a, b, counts), with clusters those by group of
a and of b; last both models' scores as evaluators. With the flag of weights the grid's entries have
their weights, too: sums of units and of their squares. Equal counts have equal bytes.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

import numpy as np

from streameval._common.frame import Frame, raise_corrupt
from streameval._counts.codec import decode_evaluator, encode_evaluator
from streameval._uncertainty.pair_cells import PairCells, unless_weighed
from streameval._uncertainty.pair_clusters import GroupCounts, PairGroups
from streameval._uncertainty.pair_cuts import AxisCuts, PairCuts
from streameval._uncertainty.pair_grid import PairGrid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval._common.frame import Reader
    from streameval._counts.state import State

_HAS_WEIGHTS = 1
_FRAME = Frame(b"SVEG", 1, "the counts of a pair", flags=_HAS_WEIGHTS)
_SIZE = struct.Struct("<q")

_STORED_ORDER = [1, 0, 2, 3]
"""Of the columns of weights: cases, then units."""


def encode_pair(grid: PairGrid, models: tuple[State, State]) -> bytes:
    """Return the counts of a pair as bytes. O(n)."""
    parts = list(_grid_bytes(grid))
    for model in models:
        data = encode_evaluator(model)
        parts += [_SIZE.pack(len(data)), data]
    return _FRAME.sealed(*parts, flags=_HAS_WEIGHTS if grid.has_weights else 0)


def decode_pair(data: bytes, num_groups: int) -> tuple[PairGrid, tuple[State, State]]:
    """Return what `encode_pair` wrote, of this number of groups of clusters. O(n).

    Raises
    ------
    CorruptStateError
        When the bytes are not exactly that.
    """
    reader = _FRAME.reader(data)
    grid = _read_grid(reader, num_groups, has_weights=bool(reader.flags & _HAS_WEIGHTS))
    first, second = (decode_evaluator(reader.blob(reader.fields(_SIZE)[0])) for _ in range(2))
    reader.end()
    return grid, (first, second)


def _grid_bytes(grid: PairGrid) -> Iterator[bytes]:
    yield bytes([grid.cuts is not None])
    if grid.cuts is not None:
        for axis in (grid.cuts.a, grid.cuts.b):
            yield _SIZE.pack(len(axis.middles))
            yield axis.edges.astype("<f8").tobytes()
            yield axis.middles.astype("<f8").tobytes()
    common = grid.in_common_units()
    parts = [common.negatives, common.positives]
    if grid.groups is not None:
        for side in (grid.groups.a, grid.groups.b):
            parts += [side.negatives, side.positives]
    for cells in parts:
        yield _SIZE.pack(len(cells))
        yield cells.a.astype("<f8").tobytes()
        yield cells.b.astype("<f8").tobytes()
        columns = cells.columns[_STORED_ORDER] if cells.has_weights else cells.columns
        yield columns.astype("<i8").tobytes()


def _read_grid(reader: Reader, num_groups: int, *, has_weights: bool) -> PairGrid:
    flag = reader.column("u1", 1)[0]
    if flag > 1:
        raise_corrupt("the counts of a pair have unknown cells")
    cuts = PairCuts(_read_axis(reader), _read_axis(reader)) if flag else None
    negatives, positives = (_read_cells(reader, has_weights=has_weights) for _ in range(2))
    groups = None
    if num_groups:
        a, b = (GroupCounts(_read_cells(reader), _read_cells(reader)) for _ in range(2))
        groups = PairGroups(num_groups, a, b)
    return PairGrid(negatives, positives, cuts, groups)


def _read_axis(reader: Reader) -> AxisCuts:
    (size,) = reader.fields(_SIZE)
    if size < 1:
        raise_corrupt(f"the counts of a pair announce {size} cells")
    edges = reader.column("<f8", size - 1).astype(np.float64)
    middles = reader.column("<f8", size).astype(np.float64)
    if not (np.diff(edges) > 0).all() or not (np.diff(middles) > 0).all():
        raise_corrupt("the cells of a pair are not ascending")
    return AxisCuts(edges, middles)


def _read_cells(reader: Reader, *, has_weights: bool = False) -> PairCells:
    (size,) = reader.fields(_SIZE)
    if size < 0:
        raise_corrupt(f"the counts of a pair announce {size} entries")
    a, b = (reader.column("<f8", size).astype(np.float64) for _ in range(2))
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise_corrupt("the counts of a pair have scores out of range")
    shape = (4, size) if has_weights else (size,)
    columns = reader.column("<i8", math.prod(shape)).astype(np.int64).reshape(shape)
    return PairCells(a, b, unless_weighed(columns[_STORED_ORDER] if has_weights else columns))
