"""Rows that wait for a stream's detector.

Cases wait in the stream's counts, which hand them over when they count them, joined and with the
keys of their cells; this module records only the panes of waiting cases. Other rows are kept as
they came and read in bulk.

A label counts once, when it comes. A changed label adds nothing: the removal of the old label is
read as one case less of the new class, so the first label stays. A retracted label stays counted.
Rows with a weight are left out: their labels were chosen, so their share is no measure of the
stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streameval.kernel import WEIGHT_UNITS, Effect, UnsortedCases
from streameval.statistics import CellCases, DriftEngine, DriftRows, ReferenceCases, RowKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from streameval.kernel import Effects, State
    from streameval_server._model.arrays import CodeArray, IntArray

_NONE: Final = 255
_RUN_BYTES: Final = 128
"""Memory of the entry for waiting cases of one pane, without the cases."""
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
    # Counts -1 of the other class: it cancels the new label, which follows.
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
    """Collects rows, which `drain` reads, and the panes of cases, which `take_panes` does.

    Attributes
    ----------
    size : int
        Rows that wait, without cases.
    """

    def __init__(self) -> None:
        self._pending: list[Callable[[], ReadRows]] = []
        self._pending_bytes = 0
        # For runs of cases in their order: their common pane and number, or the pane of each.
        self._panes: list[tuple[int, int] | IntArray] = []
        self._panes_bytes = 0
        self.size = 0

    @property
    def memory_bytes(self) -> int:
        """Memory, without the cases themselves. O(1)."""
        return self._pending_bytes + self._panes_bytes

    @property
    def has_cases(self) -> bool:
        """Whether cases wait. O(1)."""
        return bool(self._panes)

    def expect_cases(self, panes: int | IntArray, size: int) -> None:
        """Expect cases that the counts have collected, of one pane or each of its own. O(1)."""
        if not isinstance(panes, int):
            self._panes.append(panes)
            self._panes_bytes += _RUN_BYTES + panes.nbytes
            return
        last = self._panes[-1] if self._panes else None
        if isinstance(last, tuple) and last[0] == panes:
            self._panes[-1] = panes, last[1] + size
            return
        self._panes.append((panes, size))
        self._panes_bytes += _RUN_BYTES

    def take_panes(self, size: int) -> int | IntArray:
        """Return the pane of all cases that wait, or of each, and expect no more. O(n).

        Parameters
        ----------
        size : int
            How many the counts hand over: as many as are expected.
        """
        found, self._panes = self._panes, []
        self._panes_bytes = 0
        sizes = [each[1] if isinstance(each, tuple) else each.size for each in found]
        assert sum(sizes) == size, "the counts hand over what the detector expects"
        if len(found) == 1:
            return found[0][0] if isinstance(found[0], tuple) else found[0]
        panes = [np.full(each[1], each[0]) if isinstance(each, tuple) else each for each in found]
        joined: IntArray = np.concatenate(panes)
        return joined

    def add_effects(self, effects: Effects, received_us: int) -> None:
        """Collect the joiner's effects; the caller passes no retractions. O(1)."""
        self._pending.append(lambda: _read_effects(effects, received_us))
        self.size += len(effects)
        self._pending_bytes += effects.nbytes

    def add_merged(
        self, state: State, event_us: int, codes: Sequence[int], received_us: int
    ) -> None:
        """Collect cases that were aggregated elsewhere, of one time and segment. O(1)."""
        self._pending.append(lambda: _read_merged(state, event_us, codes, received_us))
        self.size += len(state.counts)
        self._pending_bytes += len(state.counts) * _MERGED_BYTES

    def drain(self) -> list[ReadRows]:
        """Remove and return all rows but cases. O(n)."""
        parts = [read() for read in self._pending]
        self._pending = []
        self.size = self._pending_bytes = 0
        return parts


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


def cell_cases(cases: UnsortedCases) -> CellCases:
    """Return cases of weight 1 by their cells on the probability scale. O(n)."""
    keys, _ = cases.keys("probability")
    return CellCases(cases.labels, keys, _multiplicities(cases), _groups(cases.clusters))


def case_rows(cases: UnsortedCases) -> DriftRows:
    """Return cases of weight 1 with their scores. O(n)."""
    kinds = cases.labels.view(np.uint8) + np.uint8(RowKind.NEGATIVE_CASE)
    return DriftRows(kinds, cases.scores, _multiplicities(cases), _groups(cases.clusters))


def _multiplicities(cases: UnsortedCases) -> IntArray | None:
    return None if cases.counts is None else np.minimum(cases.counts, DriftEngine.MAX_MULTIPLICITY)


def _read_merged(state: State, event_us: int, codes: Sequence[int], received_us: int) -> ReadRows:
    cells = ReferenceCases(state).cells()
    size = cells.scores.size if state.weighted is None else 0
    return ReadRows(
        DriftRows(
            cells.labels[:size].view(np.uint8) + np.uint8(RowKind.NEGATIVE_CASE),
            cells.scores[:size],
            np.minimum(cells.counts[:size], DriftEngine.MAX_MULTIPLICITY),
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
    """Leave out the rows of a weight other than 1; a prediction has no weight yet."""
    if units is None:
        return read
    is_weighted = (units != WEIGHT_UNITS) & (read.rows.kinds != RowKind.PREDICTION)
    kept = _taken(read, np.flatnonzero(~is_weighted))
    return kept._replace(left_out=int(is_weighted.sum()))


def _taken(read: ReadRows, chosen: IntArray) -> ReadRows:
    event_us = read.event_us if isinstance(read.event_us, int) else read.event_us[chosen]
    return ReadRows(read.rows.take(chosen), event_us, read.received_us, read.codes[:, chosen])


def _groups(clusters: CodeArray | None) -> IntArray | None:
    return None if clusters is None else clusters.astype(np.int64) % DriftEngine.CLUSTER_GROUPS


def _no_codes(size: int) -> CodeArray:
    return np.zeros((0, size), dtype=np.uint16)


def _with_keys(codes: CodeArray, keys: int) -> CodeArray:
    """Return the codes of `keys` keys; a key that the rows lack gets code 0, no value."""
    missing = keys - codes.shape[0]
    return codes if not missing else np.pad(codes, ((0, missing), (0, 0)))


def _or_ones(counts: IntArray | None, size: int) -> IntArray:
    return np.ones(size, dtype=np.int64) if counts is None else counts


def _or_zeros(groups: IntArray | None, size: int) -> IntArray:
    return np.zeros(size, dtype=np.int64) if groups is None else groups
