"""The memory of a stream's counts, and by how much rows that are applied make it grow.

All are upper bounds. The stream counts the growth when rows arrive, so that counting them grows
nothing. The committer asks before it commits, because rows that are durable cannot be refused any
more; it has no counts, so slices and panes of a batch count as new.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streameval.kernel import (
    ClusterCounts,
    StoredCounts,
    UnsortedCases,
)
from streameval_server._model.crossed_keys import parents_of
from streameval_server._model.row_kinds import (
    CaseRows,
    LabelRows,
    MergeRows,
    MissRows,
    PredictionRows,
    memory_of,
)
from streameval_server._state.counting.coverage import COVERAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Protocol

    from streameval.kernel import State
    from streameval_server._model.arrays import EventTimes
    from streameval_server._model.row_kinds import Rows
    from streameval_server._model.stream_settings import StreamSettings

    class Holder(Protocol):
        """What takes memory."""

        @property
        def memory_bytes(self) -> int: ...


OVERHEAD_BYTES = 1_344
"""Memory of a tally besides its scores, with its part, its places in dicts and its
share of a view; measured."""

RESTING_BYTES = 512
"""Memory of a pane at rest besides its scores: its objects, its place and share of a view;
measured."""

_STREAM_BYTES = 9_216
"""Memory of a stream that a batch may create."""

_VALUE_BYTES = 640
"""Memory of a new segment value besides its text."""

_ID_BYTES = 320
"""Memory of an id, and of what a checkpoint copies of it."""

DELAY_ROW_BYTES, DELAY_PANE_BYTES = 18, 1_540
"""Memory of an effect among the label delays; and of a pane of these with its newest part."""

_ROW_BYTES = 26
"""Memory of a row in a slice: label, score, multiplicity and cell key; or score and delay."""

_CLUSTER_BYTES = 2 + ClusterCounts.ROW_BYTES
"""Memory of a row's group of clusters, and of what it adds to the counts by groups."""


@dataclass(slots=True)
class StreamUsage:
    """The revision and the memory of one stream, shared by its parts.

    The parts refer to this record and not to the stream, so that a stream is in no reference
    cycle: a deleted stream leaves memory at once, not when the collector runs.

    Attributes
    ----------
    revision : int
        Log revision that is being applied.
    memory_bytes : int
        Approximate upper bound of the memory of what has been counted. Code that changes a
        holder of counts does so within `measuring`.
    num_slices : int
        Slices that rows may be in, besides the whole.
    has_ids : bool
        Whether rows by id have come.
    """

    revision: int
    memory_bytes: int = 0
    num_slices: int = 0
    has_ids: bool = False

    @contextmanager
    def measuring(self, holder: Holder) -> Iterator[None]:
        """Add to the memory by how much a holder grows; contexts of one holder may not nest."""
        before = holder.memory_bytes
        yield
        self.memory_bytes += holder.memory_bytes - before


def resting_bytes(counts: State | StoredCounts) -> int:
    """Return the memory of a pane at rest. O(1)."""
    if isinstance(counts, StoredCounts):
        return RESTING_BYTES + counts.memory_bytes
    if counts.counts.stored is not None:
        return RESTING_BYTES + counts.counts.stored.memory_bytes + counts.clusters.memory_bytes
    return RESTING_BYTES + counts.memory_bytes


def slices_bytes(places: int, slices: int, existing: int, *, has_effects: bool) -> int:
    """Return by how much slices grow at most when rows are counted in them. O(1).

    Parameters
    ----------
    places : int
        Rows times keys: how often a slice gets a row.
    slices : int
        Slices that may get rows; a pane's slice counts for each pane.
    existing : int
        How many of these exist already.
    has_effects : bool
        Whether predictions and labels by id are among the rows: then slices have a coverage.
    """
    part_bytes = OVERHEAD_BYTES + (COVERAGE_BYTES if has_effects else 0)
    grown = min(places, slices)
    return (
        places * _ROW_BYTES
        + grown * UnsortedCases.PIECE_BYTES
        + min(grown, slices - existing) * part_bytes
    )


def growth_bytes(
    rows: int,
    keys: int,
    *,
    slices: int,
    panes: int,
    existing: tuple[int, int, int] = (0, 0, 0),
    has_effects: bool,
    has_clusters: bool = False,
) -> int:
    """Return by how much a stream's counts grow at most by some rows. O(1).

    Parameters
    ----------
    rows, keys : int
    slices : int
        Slices that may get rows, of all keys.
    panes : int
        Panes that may get rows.
    existing : tuple of int
        Which of these exist already: slices, panes, and slices of panes.
    has_effects : bool
        As for `slices_bytes`.
    has_clusters : bool
        Whether the whole, for all time and by pane, is counted by groups of clusters too.
    """
    places = rows * keys
    slices, panes = max(slices, existing[0]), max(panes, existing[1])
    by_cluster = 0
    if has_clusters:
        by_cluster = 2 * rows * _CLUSTER_BYTES + (1 + min(rows, panes)) * ClusterCounts.TABLE_BYTES
    delays = DELAY_ROW_BYTES * rows + DELAY_PANE_BYTES * min(rows, panes) if has_effects else 0
    return (
        by_cluster
        + delays
        + slices_bytes(rows, 1, 1, has_effects=has_effects)
        + slices_bytes(rows, panes, existing[1], has_effects=has_effects)
        + slices_bytes(places, slices, existing[0], has_effects=has_effects)
        + slices_bytes(places, slices * panes, existing[2], has_effects=has_effects)
    )


def span_of(event_us: EventTimes) -> tuple[int, int]:
    """Return the first and the last of event times; 0 stands for none. O(n)."""
    if event_us is None or isinstance(event_us, int):
        return event_us or 0, event_us or 0
    if not event_us.size:
        return 0, 0
    # In small batches the methods of an array take twice as long.
    return int(np.minimum.reduce(event_us)), int(np.maximum.reduce(event_us))


def panes_in(first_us: int, last_us: int, width_us: int) -> int:
    """Return how many panes of a width, or wider, a span touches at most. O(1)."""
    return max(last_us // width_us - first_us // width_us, 0) + 1


def max_growth_bytes(rows: Rows, settings: StreamSettings) -> int:
    """Return by how much memory grows at most when rows are applied. O(rows + values).

    Merged states count as what they take in each slice.

    Parameters
    ----------
    rows
        A batch or merge.
    settings
        Its stream's.
    """
    keys = len(settings.segment_keys)
    if isinstance(rows, MergeRows):
        return _STREAM_BYTES + 2 * (1 + keys) * memory_of(rows)
    if isinstance(rows, MissRows):
        return _STREAM_BYTES + growth_bytes(1, keys, slices=keys, panes=1, has_effects=False)
    has_ids = not isinstance(rows, CaseRows)
    has_clusters = settings.cluster_groups > 0
    small = _STREAM_BYTES + (memory_of(rows) + _ID_BYTES * rows.size if has_ids else 0)
    if not isinstance(rows, CaseRows | PredictionRows):
        # Effects of known predictions, whose slices of panes exist.
        has_labels = isinstance(rows, LabelRows)
        panes = rows.size if has_labels else 0
        places = keys * rows.size
        return small + growth_bytes(
            rows.size,
            keys,
            slices=places,
            panes=panes,
            existing=(places, 0, places * panes),
            has_effects=True,
            has_clusters=has_clusters and has_labels,
        )
    counted_rows = rows.size
    if isinstance(rows, CaseRows) and rows.units is not None:
        counted_rows *= 2  # sums of weights
    given = {column.key: column.values for column in rows.segments}
    values, texts = 0, 0
    for key in settings.segment_keys:
        number, characters = _growth_of_key(key, given, rows.size)
        values += number
        texts += number * _VALUE_BYTES + 4 * characters
    return (
        small
        + texts
        + growth_bytes(
            counted_rows,
            keys,
            # A batch may have rows without a value of a key, which are a slice too.
            slices=values + keys,
            panes=panes_in(*span_of(rows.event_us), settings.pane_us),
            has_effects=has_ids,
            has_clusters=has_clusters and not has_ids,
        )
    )


def _growth_of_key(key: str, given: Mapping[str, tuple[str, ...]], rows: int) -> tuple[int, int]:
    """Return how many values of a key a batch may add, and their characters, at most."""
    parents = parents_of(key)
    if parents is None:
        values = given.get(key, ("",))
        return len(values), sum(map(len, values))
    sides = [given.get(parent, ("",)) for parent in parents]
    number = min(rows, len(sides[0]) * len(sides[1]))
    # Each character may be preceded by a backslash.
    longest = 2 * sum(max(map(len, side), default=0) for side in sides) + 1
    return number, number * longest
