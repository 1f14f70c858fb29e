"""The rows of one stream before they are drained; the buffer's lock guards them.

Lock-free appends
-----------------
`list.append` is atomic, so no row is seen half-written. Where rows of a kind arrive in
bursts, the buffer grants its `UnlockedRows` a number of rows: `UnlockedList.allowed` is
the length up to which callers append without the lock. A caller checks it before and
after appending:

- before: at `allowed` or beyond, the caller adds its row under the lock instead;
- after: 0 means that the grant was revoked in between, perhaps after the rows were
  moved, so the caller reports its row to the buffer (`Buffer.handle_late_row`).

Revoking sets `allowed` to 0 and then moves the rows to the run. A row that is appended
late stays in the list; it is moved by its caller's report, or by the revocation of a
later grant, whichever comes first. Threads that append at the same moment may each
exceed the grant by one row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from streameval.client._buffer.columns import coalesce_cases
from streameval.client._buffer.id_columns import IdRows, coalesce_id_rows
from streameval.client._buffer.runs import CaseRun, IdRun, Stamps

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval.client._buffer.columns import CaseRows, MissRows, Rows
    from streameval.client._buffer.runs import Sampling

_MIN_BURST_ROWS = 16
"""Rows added under the lock within one stamp (25 ms) before rows are granted without it."""


class UnlockedList(list[Any]):
    """A list that callers append to without the lock.

    Attributes
    ----------
    allowed : int
        The length up to which they may append; 0 when nothing is granted.
    """

    __slots__ = ("allowed",)

    def __init__(self) -> None:
        super().__init__()
        self.allowed = 0

    def allow(self, values: int) -> None:
        """Grant a length, late rows of an earlier grant included. Under the lock."""
        self.allowed = values

    def take(self) -> list[Any]:
        """Revoke the grant, then remove and return the values. O(values); under the lock."""
        self.allowed = 0
        count = len(self)  # a caller that checked `allowed` before may still append at the end
        values = self[:count]
        del self[:count]
        return values


class UnlockedRows:
    """Rows of one stream and kind that are added without the lock.

    Attributes
    ----------
    granted : int
        Rows of the current grant; 0 without one.
    """

    __slots__ = ("_burst_rows", "_stamp", "_stream", "granted")

    def __init__(self, stream: StreamBuffer) -> None:
        self._stream = stream
        self._stamp = 0
        self._burst_rows = 0
        self.granted = 0

    def count_locked_row(self, stamp: int) -> bool:
        """Count a row that was added under the lock; return whether such rows come in a burst."""
        if stamp != self._stamp:
            self._stamp, self._burst_rows = stamp, 0
        self._burst_rows += 1
        return self._burst_rows >= _MIN_BURST_ROWS

    def allow(self, rows: int) -> None:
        """Grant about `rows` rows, with the stamp of the last counted row. Under the lock."""
        raise NotImplementedError

    def take(self) -> int:
        """Revoke the grant and move the rows to the stream's run. Returns how many. O(rows)."""
        raise NotImplementedError

    def drop(self) -> int:
        """Revoke the grant and drop the rows. Returns how many. O(rows)."""
        raise NotImplementedError


class UnlockedCases(UnlockedRows):
    """Cases of one stream: a list of scores for each label.

    Attributes
    ----------
    negatives, positives : UnlockedList
    """

    __slots__ = ("negatives", "positives")

    def __init__(self, stream: StreamBuffer) -> None:
        super().__init__(stream)
        self.negatives = UnlockedList()
        self.positives = UnlockedList()

    def allow(self, rows: int) -> None:
        each = rows // 2
        self.negatives.allow(each)
        self.positives.allow(each)
        self.granted = 2 * each

    def drop(self) -> int:
        self.granted = 0
        return len(self.positives.take()) + len(self.negatives.take())

    def take(self) -> int:
        run = self._stream.cases
        return run.extend(self.positives.take(), self._stamp, positive=True) + run.extend(
            self.negatives.take(), self._stamp, positive=False
        )


class UnlockedIds(UnlockedRows):
    """Predictions, labels and retractions of one stream without times of their own, in order.

    Attributes
    ----------
    triples : UnlockedList
        Id, code and score of each row in turn; a row's three values are added in one step.
    """

    __slots__ = ("triples",)

    def __init__(self, stream: StreamBuffer) -> None:
        super().__init__(stream)
        self.triples = UnlockedList()

    def allow(self, rows: int) -> None:
        self.triples.allow(3 * rows)
        self.granted = rows

    def drop(self) -> int:
        self.granted = 0
        return len(self.triples.take()) // 3

    def take(self) -> int:
        values = self.triples.take()
        return self._stream.ids.extend(values[0::3], bytes(values[1::3]), values[2::3], self._stamp)


class StreamBuffer:
    """Rows that were added to one stream and not drained yet.

    Attributes
    ----------
    stream : str
    stamps : Stamps
        Shared by all rows of the stream.
    cases, ids : CaseRun, IdRun
        Rows that were added one at a time.
    sampled_cases : dict of CaseRun
        Those with weights, and those with clusters.
    case_pieces : list of CaseRows or MissRows
        Cases and misses that were added as columns.
    id_pieces : list of IdRows or IdRun
        Rows by id that were added before those in `ids`, in order.
    unlocked_cases, unlocked_ids : UnlockedCases, UnlockedIds
        Rows that are added without the lock; they are moved to `cases` and `ids`.
    """

    __slots__ = (
        "case_pieces",
        "cases",
        "id_pieces",
        "ids",
        "sampled_cases",
        "stamps",
        "stream",
        "unlocked_cases",
        "unlocked_ids",
    )

    def __init__(self, stream: str, clock_ns: Callable[[], int]) -> None:
        self.stream = stream
        self.stamps = Stamps(clock_ns)
        self.unlocked_cases = UnlockedCases(self)
        self.unlocked_ids = UnlockedIds(self)
        self.cases = CaseRun(self.stamps)
        self.sampled_cases: dict[Sampling, CaseRun] = {}
        self.ids = IdRun(self.stamps)
        self.case_pieces: list[CaseRows | MissRows] = []
        self.id_pieces: list[IdRows | IdRun] = []

    def clear(self) -> None:
        """Drop all rows."""
        self.unlocked_cases.drop()
        self.unlocked_ids.drop()
        self.cases, self.ids = CaseRun(self.stamps), IdRun(self.stamps)
        self.sampled_cases = {}
        self.case_pieces, self.id_pieces = [], []

    def drain(self) -> DrainedRows | None:
        """Remove and return all rows; None if there are none. O(1)."""
        self.close_id_run()
        cases = list(self.sampled_cases.values())
        if self.cases.scores:
            cases.append(self.cases)
            self.cases = CaseRun(self.stamps)
        elif not (cases or self.case_pieces or self.id_pieces):
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
    cases: list[CaseRun]
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
