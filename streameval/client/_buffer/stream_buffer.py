"""The rows of one stream before they are drained; the buffer's lock guards them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from streameval.client._buffer.columns import coalesce_cases
from streameval.client._buffer.id_columns import IdRows, coalesce_id_rows
from streameval.client._buffer.runs import CaseRun, IdRun, Stamps
from streameval.client._buffer.segmented_run import SegmentedRun
from streameval.client._buffer.unlocked_rows import (
    UnlockedCases,
    UnlockedIds,
    UnlockedSegmentedCases,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval.client._buffer.columns import CaseRows, MissRows, Rows
    from streameval.client._buffer.runs import Sampling


class StreamBuffer:
    """Rows that were added to one stream and not drained yet.

    Attributes
    ----------
    stream : str
    stamps : Stamps
        Shared by all rows of the stream.
    cases, segmented_cases, ids : CaseRun, SegmentedRun, IdRun
        Rows that were added one at a time. Cases with segments and a time are in `cases`.
    sampled_cases : dict of CaseRun
        Those with weights, and those with clusters.
    case_pieces : list of CaseRows or MissRows
        Cases and misses that were added as columns.
    id_pieces : list of IdRows or IdRun
        Rows by id that were added before those in `ids`, in order.
    unlocked_cases, unlocked_segmented_cases, unlocked_ids : UnlockedRows
        Rows that are added without the lock; they are moved to the run of their kind.
    """

    __slots__ = (
        "case_pieces",
        "cases",
        "id_pieces",
        "ids",
        "sampled_cases",
        "segmented_cases",
        "stamps",
        "stream",
        "unlocked_cases",
        "unlocked_ids",
        "unlocked_segmented_cases",
    )

    def __init__(self, stream: str, clock_ns: Callable[[], int]) -> None:
        self.stream = stream
        self.stamps = Stamps(clock_ns)
        self.unlocked_cases = UnlockedCases(self)
        self.unlocked_segmented_cases = UnlockedSegmentedCases(self)
        self.unlocked_ids = UnlockedIds(self)
        self.cases = CaseRun(self.stamps)
        self.segmented_cases = SegmentedRun(self.stamps)
        self.sampled_cases: dict[Sampling, CaseRun] = {}
        self.ids = IdRun(self.stamps)
        self.case_pieces: list[CaseRows | MissRows] = []
        self.id_pieces: list[IdRows | IdRun] = []

    def clear(self) -> None:
        """Drop all rows."""
        self.unlocked_cases.drop()
        self.unlocked_segmented_cases.drop()
        self.unlocked_ids.drop()
        self.cases, self.ids = CaseRun(self.stamps), IdRun(self.stamps)
        self.segmented_cases = SegmentedRun(self.stamps)
        self.sampled_cases = {}
        self.case_pieces, self.id_pieces = [], []

    def drain(self) -> DrainedRows | None:
        """Remove and return all rows; None if there are none. O(1)."""
        self.close_id_run()
        cases: list[CaseRun | SegmentedRun] = [*self.sampled_cases.values()]
        if self.cases.scores:
            cases.append(self.cases)
            self.cases = CaseRun(self.stamps)
        if self.segmented_cases.scores:
            cases.append(self.segmented_cases)
            self.segmented_cases = SegmentedRun(self.stamps)
        if not (cases or self.case_pieces or self.id_pieces):
            return None
        drained = DrainedRows(self.stream, cases, self.case_pieces, self.id_pieces)
        self.sampled_cases, self.case_pieces, self.id_pieces = {}, [], []
        return drained

    def sampled_run(self, sampling: Sampling) -> CaseRun:
        """Return the run of cases with weights, or of those with clusters."""
        run = self.sampled_cases.get(sampling)
        if run is None:
            run = self.sampled_cases[sampling] = CaseRun(self.stamps, sampling)
        return run

    def append(self, rows: CaseRows | IdRows | MissRows) -> None:
        """Append columns."""
        if isinstance(rows, IdRows):
            self.close_id_run()
            self.id_pieces.append(rows)
        else:
            self.case_pieces.append(rows)

    def close_id_run(self) -> None:
        """Start a new run of rows by id, so that later rows stay behind earlier ones."""
        if self.ids.ids:
            self.id_pieces.append(self.ids)
            self.ids = IdRun(self.stamps)


class DrainedRows(NamedTuple):
    """Rows that were drained from a stream's buffer. Never mutated."""

    stream: str
    cases: list[CaseRun | SegmentedRun]
    case_pieces: list[CaseRows | MissRows]
    id_pieces: list[IdRows | IdRun]

    def rows(self) -> list[Rows]:
        """Return the rows as few pieces, rows by id in an equivalent order. O(rows)."""
        cases = [*self.case_pieces, *(run.rows(self.stream) for run in self.cases)]
        rows = [*coalesce_cases(cases)]
        if self.id_pieces:
            ids: list[IdRows] = []
            for each in self.id_pieces:
                ids += each.pieces(self.stream) if isinstance(each, IdRun) else [each]
            rows += coalesce_id_rows(ids)
        return rows
