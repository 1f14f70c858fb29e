"""Rows that wait for a stream's detector: kept as they came, read in bulk.

A label counts once, when it comes. A changed label takes itself back, so that the first one
stays; a retracted one was counted. Rows with a weight are left out: their labels were chosen,
so their share is no measure of the stream.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streameval._counts import WEIGHT_UNITS
from streameval._drift import (
    CLUSTER_GROUPS,
    MAX_MULTIPLICITY,
    DriftRows,
    RowKind,
    cells_of_state,
)
from streameval._time import Effect
from streameval_server._state.pending_cases import TimedCases, UnsortedCases
from streameval_server._state.segments import segment_codes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from streameval._common import IntArray
    from streameval._counts import State
    from streameval._time import CodeArray, Effects

_NONE: Final = 255
_CASE_BYTES: Final = 24
"""Memory of a case that waits: its label, score, and codes of a few keys or its time."""
_MERGED_BYTES: Final = 24


def _kinds(**kinds: RowKind) -> npt.NDArray[np.uint8]:
    table = np.full(256, _NONE, dtype=np.uint8)
    for name, kind in kinds.items():
        table[Effect[name]] = kind
    return table


_KINDS = _kinds(
    PREDICTED=RowKind.PREDICTION,
    LABELLED_NEGATIVE=RowKind.NEGATIVE,
    LABELLED_POSITIVE=RowKind.POSITIVE,
    EXPIRED_NEGATIVE=RowKind.NEGATIVE,
    # Takes back the other label that follows it.
    UNLABELLED_NEGATIVE=RowKind.POSITIVE,
    UNLABELLED_POSITIVE=RowKind.NEGATIVE,
)
"""The kind of row that an effect is."""

_COUNTS = np.ones(256, dtype=np.int64)
_COUNTS[[Effect.UNLABELLED_NEGATIVE, Effect.UNLABELLED_POSITIVE]] = -1


class ReadRows(NamedTuple):
    """Rows of one call, for the detector.

    Attributes
    ----------
    rows : DriftRows
    event_us : int or int64[n]
        The time of all rows, or of each.
    received_us : int
    codes : uint16[keys, n]
        Segment codes; of rows without any, no keys.
    left_out : int
        Rows with a weight.
    """

    rows: DriftRows
    event_us: int | IntArray
    received_us: int
    codes: CodeArray
    left_out: int = 0


class WatchedRows:
    """Collects rows, which `drain` reads.

    Attributes
    ----------
    size : int
        Rows that wait.
    memory_bytes : int
        Memory of their columns.
    """

    def __init__(self) -> None:
        self._pending: list[Callable[[], ReadRows]] = []
        self._cases: list[tuple[TimedCases, int]] = []
        self.size = 0
        self.memory_bytes = 0

    def add_cases(self, timed: TimedCases, received_us: int) -> None:
        """Collect cases. O(1)."""
        self._cases.append((timed, received_us))
        size = timed.cases.labels.size
        self.size += size
        self.memory_bytes += _CASE_BYTES * size

    def add_effects(self, effects: Effects, received_us: int) -> None:
        """Collect what the joiner did, but for retractions. O(1)."""
        self._pending.append(lambda: _read_effects(effects, received_us))
        self.size += len(effects)
        self.memory_bytes += effects.nbytes

    def add_merged(
        self, state: State, event_us: int, codes: Sequence[int], received_us: int
    ) -> None:
        """Collect cases that were aggregated elsewhere, of one time and segment. O(1)."""
        self._pending.append(lambda: _read_merged(state, event_us, codes, received_us))
        self.size += len(state.counts)
        self.memory_bytes += len(state.counts) * _MERGED_BYTES

    def drain(self, pane_of: Callable[[int, int], int]) -> list[ReadRows]:
        """Remove and return all rows. O(n).

        Calls of cases that all have one time are read together by pane: most of what a small
        batch costs is not its rows. Sums do not depend on the order.

        Parameters
        ----------
        pane_of : callable
            Returns the pane that counts a row, from its time and when it was received.
        """
        together: dict[object, list[tuple[TimedCases, int]]] = {}
        for place, each in enumerate(self._cases):
            event_us, received_us = each[0].event_us, each[1]
            has_one = isinstance(event_us, int)
            key = pane_of(event_us, received_us) if isinstance(event_us, int) else place
            together.setdefault((has_one, key), []).append(each)
        parts = [_read_cases(*_joined(cases)) for cases in together.values()]
        parts += [read() for read in self._pending]
        self._pending, self._cases = [], []
        self.size = self.memory_bytes = 0
        return parts


def _joined(calls: Sequence[tuple[TimedCases, int]]) -> tuple[TimedCases, int]:
    """Return the cases of calls of one pane as one call, at the time of the first. O(n)."""
    if len(calls) == 1:
        return calls[0]
    timed, received_us = calls[0]
    cases = UnsortedCases.concat([each.cases for each, _ in calls])
    segments = tuple(chain.from_iterable(each.segments for each, _ in calls))
    return TimedCases(cases, timed.event_us, segments), received_us


def concat(parts: Sequence[ReadRows]) -> tuple[DriftRows, CodeArray]:
    """Return the rows of several calls and their segment codes. O(n)."""
    if len(parts) == 1:
        return parts[0].rows, parts[0].codes
    rows = [part.rows for part in parts]
    keys = max(part.codes.shape[0] for part in parts)
    counts = groups = None
    if any(each.counts is not None for each in rows):
        counts = np.concatenate([_or_ones(each.counts, each.scores.size) for each in rows])
    if any(each.groups is not None for each in rows):
        groups = np.concatenate([_or_zeros(each.groups, each.scores.size) for each in rows])
    joined = DriftRows(
        np.concatenate([each.kinds for each in rows]),
        np.concatenate([each.scores for each in rows]),
        counts,
        groups,
    )
    codes = [_with_keys(part.codes, keys) for part in parts]
    return joined, np.concatenate(codes, axis=1)


def _read_cases(timed: TimedCases, received_us: int) -> ReadRows:
    cases = timed.cases
    size = cases.labels.size
    counts = None if cases.counts is None else np.minimum(cases.counts, MAX_MULTIPLICITY)
    read = ReadRows(
        DriftRows(
            cases.labels.view(np.uint8) + np.uint8(RowKind.NEGATIVE_CASE),
            cases.scores,
            counts,
            _groups(cases.clusters),
        ),
        timed.event_us,
        received_us,
        segment_codes(timed.segments) if timed.segments else _no_codes(size),
    )
    return _without_weighted(read, cases.units)


def _read_merged(state: State, event_us: int, codes: Sequence[int], received_us: int) -> ReadRows:
    cells = cells_of_state(state)
    size = cells.scores.size if state.weighted is None else 0
    return ReadRows(
        DriftRows(
            cells.labels[:size].view(np.uint8) + np.uint8(RowKind.NEGATIVE_CASE),
            cells.scores[:size],
            np.minimum(cells.counts[:size], MAX_MULTIPLICITY),
        ),
        event_us,
        received_us,
        np.repeat(np.array(codes, dtype=np.uint16)[:, None], size, axis=1),
        cells.scores.size - size,
    )


def _read_effects(effects: Effects, received_us: int) -> ReadRows:
    kinds = _KINDS[effects.kinds]
    counts = _COUNTS[effects.kinds] if (_COUNTS[effects.kinds] < 0).any() else None
    read = ReadRows(
        DriftRows(kinds, effects.scores, counts, _groups(effects.clusters)),
        effects.event_us,
        received_us,
        effects.codes.T,
    )
    is_none = kinds == _NONE
    if is_none.any():
        chosen = np.flatnonzero(~is_none)
        units = None if effects.units is None else effects.units[chosen]
        return _without_weighted(_taken(read, chosen), units)
    return _without_weighted(read, effects.units)


def _without_weighted(read: ReadRows, units: IntArray | None) -> ReadRows:
    """Return the rows without those of another weight than 1; a prediction has none yet."""
    if units is None:
        return read
    is_weighted = (units != WEIGHT_UNITS) & (read.rows.kinds != RowKind.PREDICTION)
    kept = _taken(read, np.flatnonzero(~is_weighted))
    return kept._replace(left_out=int(is_weighted.sum()))


def _taken(read: ReadRows, chosen: IntArray) -> ReadRows:
    event_us = read.event_us if isinstance(read.event_us, int) else read.event_us[chosen]
    return ReadRows(read.rows.take(chosen), event_us, read.received_us, read.codes[:, chosen])


def _groups(clusters: CodeArray | None) -> IntArray | None:
    return None if clusters is None else clusters.astype(np.int64) % CLUSTER_GROUPS


def _no_codes(size: int) -> CodeArray:
    return np.zeros((0, size), dtype=np.uint16)


def _with_keys(codes: CodeArray, keys: int) -> CodeArray:
    """Return the codes of as many keys; those of keys that rows do not have are 0, no value."""
    missing = keys - codes.shape[0]
    return codes if not missing else np.pad(codes, ((0, missing), (0, 0)))


def _or_ones(counts: IntArray | None, size: int) -> IntArray:
    return np.ones(size, dtype=np.int64) if counts is None else counts


def _or_zeros(groups: IntArray | None, size: int) -> IntArray:
    return np.zeros(size, dtype=np.int64) if groups is None else groups
