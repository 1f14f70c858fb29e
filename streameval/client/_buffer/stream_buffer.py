"""The rows of one stream before they are drained; the buffer's lock guards them."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from streameval.client._buffer.columns import coalesce_cases
from streameval.client._buffer.id_columns import IdRows, coalesce_id_rows
from streameval.client._buffer.single_rows import CaseRun, IdRun, Stamps

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval.client._buffer.columns import BufferedCases, BufferedMisses, Rows
    from streameval.client._buffer.single_rows import Sampling


class StreamBuffer:
    """Rows that were added to one stream and not drained yet.

    Attributes
    ----------
    stream : str
    stamps : Stamps
        Shared by all rows of the stream.
    cases, segmented_cases : CaseRun
        Cases that were added one at a time, without and with segments.
    sampled_cases : dict of CaseRun
        Those with a weight or a cluster, with and without segments.
    ids : IdRun
        Rows by id that were added one at a time.
    case_pieces : list of BufferedCases or BufferedMisses
        Cases and misses that were added as columns.
    id_pieces : list of IdRows or IdRun
        Rows by id that were added before those in `ids`, in order.
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
    )

    def __init__(self, stream: str, clock_ns: Callable[[], int]) -> None:
        self.stream = stream
        self.stamps = Stamps(clock_ns)
        self.clear()

    def clear(self) -> None:
        """Drop all rows."""
        self.cases, self.segmented_cases, self.ids = CaseRun(), CaseRun(), IdRun()
        self.sampled_cases: dict[tuple[Sampling, bool], CaseRun] = {}
        self.case_pieces: list[BufferedCases | BufferedMisses] = []
        self.id_pieces: list[IdRows | IdRun] = []

    def drain(self) -> StreamBuffer | None:
        """Remove all rows; return a buffer that holds them, None if there are none. O(1)."""
        self.close_id_run()
        if not (self.case_pieces or self.id_pieces or any(run.rows for run in self._case_runs())):
            return None
        drained = copy(self)
        self.clear()
        return drained

    def rows(self) -> list[Rows]:
        """Return drained rows as few pieces, rows by id in an equivalent order. O(rows)."""
        runs = [run for run in self._case_runs() if run.rows]
        rows = [*coalesce_cases([*self.case_pieces, *(run.columns(self.stream) for run in runs)])]
        ids: list[IdRows] = []
        for each in self.id_pieces:
            ids += each.pieces(self.stream) if isinstance(each, IdRun) else [each]
        return [*rows, *coalesce_id_rows(ids)]

    def _case_runs(self) -> tuple[CaseRun, ...]:
        return (self.cases, self.segmented_cases, *self.sampled_cases.values())

    def sampled_run(self, sampling: Sampling, *, has_segments: bool) -> CaseRun:
        """Return the run of cases that have these columns."""
        key = (sampling, has_segments)
        run = self.sampled_cases.get(key)
        if run is None:
            run = self.sampled_cases[key] = CaseRun(sampling)
        return run

    def append(self, rows: BufferedCases | IdRows | BufferedMisses) -> None:
        """Append columns."""
        if isinstance(rows, IdRows):
            self.close_id_run()
            self.id_pieces.append(rows)
        else:
            self.case_pieces.append(rows)

    def close_id_run(self) -> None:
        """Start a new run of rows by id, so that later rows stay behind earlier ones."""
        if self.ids.rows:
            self.id_pieces.append(self.ids)
            self.ids = IdRun()
