"""From rows to what each slice and pane counts: sorted once for each segment key.

Rows of many batches are put together and sorted by score; for each key one sort
of small integers, made of slice, label and cell, gives the runs of all its
slices, which their all-time counts and their panes share.

Cost: about 40 ns a row, 10 ns more for each key, and 10 us a slice.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.multiset import EMPTY, Run, ScoreCounts
from streameval._counts.resolution import quantise
from streameval_server._state.segments import ABSENT, slice_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streameval._counts.columns import BoolArray
    from streameval._counts.groups import FloatArray, IntArray
    from streameval._counts.resolution import Scale
    from streameval._time.effects import CodeArray


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Cases to be counted.

    Attributes
    ----------
    labels : bool[n]
    scores : float64[n]
    counts : int64[n] or None
    event_us : int or int64[n]
    codes : uint16[keys, n] or None
    """

    labels: BoolArray
    scores: FloatArray
    counts: IntArray | None
    event_us: int | IntArray
    codes: CodeArray | None

    @classmethod
    def concat(cls, parts: Sequence[Columns]) -> Columns:
        """Join columns. O(n)."""
        if len(parts) == 1:
            return parts[0]
        counts = None
        if any(part.counts is not None for part in parts):
            counts = np.concatenate(
                [
                    np.ones(part.scores.size, np.int64) if part.counts is None else part.counts
                    for part in parts
                ]
            )
        first = parts[0]
        event_us: int | IntArray = first.event_us
        if any(part.event_us is not event_us for part in parts):
            event_us = np.concatenate(
                [
                    np.full(part.scores.size, part.event_us)
                    if isinstance(part.event_us, int)
                    else part.event_us
                    for part in parts
                ]
            )
        codes = [part.codes for part in parts if part.codes is not None]
        return cls(
            np.concatenate([part.labels for part in parts]),
            np.concatenate([part.scores for part in parts]),
            counts,
            event_us,
            np.concatenate(codes, axis=1) if codes else None,
        )

    def at(self, rows: IntArray) -> Columns:
        """Return some of the rows; their event times are no longer needed."""
        return Columns(
            self.labels[rows],
            self.scores[rows],
            None if self.counts is None else self.counts[rows],
            0,
            None if self.codes is None else self.codes[:, rows],
        )


def counted(labels: BoolArray, scores: FloatArray, counts: IntArray | None) -> ScoreCounts:
    """Return cases as sorted runs. O(n log n)."""
    negatives = ~labels
    if counts is None:
        return ScoreCounts(Run.of(scores[labels]), Run.of(scores[negatives]))
    return ScoreCounts(
        Run.of(scores[labels], counts[labels]), Run.of(scores[negatives], counts[negatives])
    )


@dataclass(frozen=True, slots=True, eq=False)
class Binned:
    """What some cases add.

    Attributes
    ----------
    exact : ScoreCounts
        To the whole, scores as they are.
    cells : ScoreCounts
        To the whole, in cells.
    slices : list of (int, ScoreCounts)
        To each slice of each key, in cells, by the slice's number.
    """

    exact: ScoreCounts
    cells: ScoreCounts
    slices: list[tuple[int, ScoreCounts]]


def binned(columns: Columns, bits: int, scale: Scale) -> Binned:
    """Sort cases once, and put them together for the whole and for each slice. O(n log n).

    Parameters
    ----------
    bits, scale
        Of the cells.
    """
    if columns.codes is None:
        # Each class is sorted apart: no need to know which row is where.
        exact = counted(columns.labels, columns.scores, columns.counts)
        return Binned(exact, rounded(exact, bits, scale), [])
    order = np.argsort(columns.scores)
    # -0.0 is 0.0; the sum is a copy that nobody else holds.
    scores, labels = columns.scores[order] + 0.0, columns.labels[order]
    counts = None if columns.counts is None else columns.counts[order]
    edges = quantise(scores, bits, scale)
    new = np.empty(edges.size, dtype=np.bool_)
    new[0] = True
    np.not_equal(edges[1:], edges[:-1], out=new[1:])
    table = edges[new]
    # Label and cell in one number; the slice goes before them.
    cells = np.cumsum(new) - 1
    cells[labels] += table.size
    slices: list[tuple[int, ScoreCounts]] = []
    for key, codes in enumerate(columns.codes):
        slices += _of_key(key, codes[order], cells, table, counts)
    return Binned(_by_label(scores, labels, counts), _by_label(edges, labels, counts), slices)


def rounded(counts: ScoreCounts, bits: int, scale: Scale) -> ScoreCounts:
    """Return cases in cells. O(n)."""
    positives, negatives = (
        Run.of_ordered(quantise(run.scores, bits, scale), run.counts)
        for run in (counts.positives, counts.negatives)
    )
    return ScoreCounts(positives, negatives)


def _by_label(scores: FloatArray, labels: BoolArray, counts: IntArray | None) -> ScoreCounts:
    positives, negatives = (
        Run.of_ordered(scores[rows], None if counts is None else counts[rows])
        for rows in (labels, ~labels)
    )
    return ScoreCounts(positives, negatives)


def _of_key(
    key: int, codes: CodeArray, cells: IntArray, table: FloatArray, counts: IntArray | None
) -> Iterator[tuple[int, ScoreCounts]]:
    """Yield what each slice of a key counts: one sort of small numbers finds all."""
    width = 2 * table.size
    groups = codes.astype(np.int64) * width + cells
    if counts is None:
        groups.sort()
    else:
        order = np.argsort(groups)
        groups, counts = groups[order], counts[order]
    firsts = np.flatnonzero(groups[1:] != groups[:-1]) + 1
    firsts = np.concatenate(([0], firsts))
    if counts is None:
        sums = np.diff(firsts, append=groups.size)
    else:
        sums = np.add.reduceat(counts, firsts)
        firsts, sums = firsts[sums != 0], sums[sums != 0]
    groups = groups[firsts]
    # Each slice has negatives first, then positives; half a width is one class.
    halves, places = np.divmod(groups, table.size)
    scores = table[places]
    cuts = np.flatnonzero(halves[1:] != halves[:-1]) + 1
    bounds = [0, *cuts.tolist(), groups.size] if groups.size else [0]
    runs: dict[int, list[Run]] = {}
    for start, end in pairwise(bounds):
        code, label = divmod(int(halves[start]), 2)
        # Copies: a view would keep the columns of all slices in memory.
        piece = Run.of_distinct(scores[start:end].copy(), sums[start:end].copy())
        runs.setdefault(code, [EMPTY, EMPTY])[label] = piece
    for code, (negatives, positives) in runs.items():
        if code != ABSENT:
            yield slice_id(key, code), ScoreCounts(positives, negatives)
