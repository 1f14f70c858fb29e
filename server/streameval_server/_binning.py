"""From rows to what each slice and pane counts: sorted once for each segment key.

Rows of many batches are put together; for each key they are ordered by slice
and label in one stable pass over small integers, and each piece becomes a
sorted run, which the slice's all-time counts and its pane share.

Cost: about 12 ns a row for each key, and 15 us a slice.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from streameval._multiset import EMPTY, Run, ScoreCounts
from streameval_server._segments import ABSENT, slice_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streameval._columns import BoolArray
    from streameval._effects import CodeArray
    from streameval._groups import FloatArray, IntArray
    from streameval_server._rows import EventTimes


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Cases to be counted.

    Attributes
    ----------
    labels : bool[n]
    scores : float64[n]
    counts : int64[n] or None
    event_us : int or int64[n]
    codes : uint16[n, keys] or None
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
            np.concatenate(codes) if codes else None,
        )

    def with_scores(self, scores: FloatArray) -> Columns:
        """Return the same cases with other scores."""
        return Columns(self.labels, scores, self.counts, self.event_us, self.codes)

    def at(self, rows: IntArray) -> Columns:
        """Return some of the rows; their event times are no longer needed."""
        return Columns(
            self.labels[rows],
            self.scores[rows],
            None if self.counts is None else self.counts[rows],
            0,
            None if self.codes is None else self.codes[rows],
        )


def times_or(event_us: EventTimes, received_us: int) -> int | IntArray:
    """Return event times; where the batch has none, when it was received."""
    return received_us if event_us is None else event_us


def counted(labels: BoolArray, scores: FloatArray, counts: IntArray | None) -> ScoreCounts:
    """Return cases as sorted runs. O(n log n)."""
    negatives = ~labels
    if counts is None:
        return ScoreCounts(Run.of(scores[labels]), Run.of(scores[negatives]))
    return ScoreCounts(
        Run.of(scores[labels], counts[labels]), Run.of(scores[negatives], counts[negatives])
    )


def by_slice(columns: Columns) -> Iterator[tuple[int, ScoreCounts]]:
    """Yield what each slice of each key counts, scores as they are. O(n log n) a key."""
    codes = columns.codes
    if codes is None or not codes.size:
        return
    for key in range(codes.shape[1]):
        yield from _of_key(key, codes[:, key], columns)


def _of_key(key: int, codes: CodeArray, columns: Columns) -> Iterator[tuple[int, ScoreCounts]]:
    scores, counts = columns.scores, columns.counts
    # Slice and label in one small number; a stable sort of these is a counting sort.
    groups = codes.astype(np.uint32) << np.uint32(1) | columns.labels
    if groups.size and int(groups.max()) <= np.iinfo(np.uint16).max:
        groups = groups.astype(np.uint16)
    order = np.argsort(groups, kind="stable")
    groups, scores = groups[order], scores[order]
    if counts is not None:
        counts = counts[order]
    cuts = np.flatnonzero(np.diff(groups)) + 1
    bounds = [0, *cuts.tolist(), groups.size]
    runs: dict[int, list[Run]] = {}
    for start, end in pairwise(bounds):
        code, label = divmod(int(groups[start]), 2)
        if code == ABSENT:
            continue
        pair = runs.setdefault(code, [EMPTY, EMPTY])
        pair[label] = Run.of(scores[start:end], None if counts is None else counts[start:end])
    for code, (negatives, positives) in runs.items():
        yield slice_id(key, code), ScoreCounts(positives, negatives)
