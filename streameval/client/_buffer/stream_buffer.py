"""What was added for one stream and not yet taken. The buffer's lock guards it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from streameval.client._buffer.clock import Stamps
from streameval.client._buffer.coalesce import coalesce_cases, coalesce_id_rows
from streameval.client._buffer.id_columns import IdRows
from streameval.client._buffer.runs import CaseRun, IdRun

if TYPE_CHECKING:
    from streameval.client._buffer.columns import CaseRows, MissRows, Rows


_BRISK = 16
"""So many rows under the lock, while one stamp is used, are rows that come quickly."""


class UnlockedList(list[Any]):
    """Values that are appended without a lock.

    Attributes
    ----------
    allowed : int
        How many it may hold; 0 when it must not be appended to.
    """

    __slots__ = ("allowed",)

    def __init__(self) -> None:
        super().__init__()
        self.allowed = 0

    def allow(self, values: int) -> None:
        """Let it hold so many: what comes late from before is among them. Under the lock."""
        self.allowed = values

    def take(self) -> list[Any]:
        """Allow no more, and return what is there. O(values); under the lock."""
        self.allowed = 0
        count = len(self)  # who has looked before may append still, at the end
        values = self[:count]
        del self[:count]
        return values


class UnlockedRows:
    """What is added to one lane without the lock.

    Attributes
    ----------
    rows : int
        How many are allowed, at most, and not taken.
    """

    __slots__ = ("_come", "_lane", "_stamp", "rows")

    def __init__(self, lane: StreamBuffer) -> None:
        self._lane = lane
        self._stamp = 0
        self._come = 0
        self.rows = 0

    def is_brisk(self, stamp: int) -> bool:
        """Note a row that came under the lock; return whether such rows come quickly."""
        if stamp != self._stamp:
            self._stamp, self._come = stamp, 0
        self._come += 1
        return self._come >= _BRISK

    def allow(self, rows: int) -> None:
        """Let about so many more be added, which have the stamp of the last row. Under the lock."""
        raise NotImplementedError

    def take(self) -> int:
        """Allow no more; put what was added into the lane's run. Returns how many rows."""
        raise NotImplementedError

    def drop(self) -> int:
        """Allow no more; forget what was added. Returns how many rows."""
        raise NotImplementedError


class UnlockedCases(UnlockedRows):
    """Cases of one lane: a list of scores for each label.

    Attributes
    ----------
    negatives, positives : UnlockedList
    """

    __slots__ = ("negatives", "positives")

    def __init__(self, lane: StreamBuffer) -> None:
        super().__init__(lane)
        self.negatives = UnlockedList()
        self.positives = UnlockedList()

    def allow(self, rows: int) -> None:
        each = rows // 2
        self.negatives.allow(each)
        self.positives.allow(each)
        self.rows = 2 * each

    def drop(self) -> int:
        self.rows = 0
        return len(self.positives.take()) + len(self.negatives.take())

    def take(self) -> int:
        run = self._lane.cases
        return run.extend(self.positives.take(), self._stamp, positive=True) + run.extend(
            self.negatives.take(), self._stamp, positive=False
        )


class UnlockedIds(UnlockedRows):
    """What is done to ids in one lane without saying when, in order.

    Attributes
    ----------
    triples : UnlockedList
        Id, code, score, id, code, score and so on: all of a row at once.
    """

    __slots__ = ("triples",)

    def __init__(self, lane: StreamBuffer) -> None:
        super().__init__(lane)
        self.triples = UnlockedList()

    def allow(self, rows: int) -> None:
        self.triples.allow(3 * rows)
        self.rows = rows

    def drop(self) -> int:
        self.rows = 0
        return len(self.triples.take()) // 3

    def take(self) -> int:
        taken = self.triples.take()
        return self._lane.ids.extend(taken[0::3], bytes(taken[1::3]), taken[2::3], self._stamp)


class StreamBuffer:
    """What was added for one stream and not yet taken.

    Attributes
    ----------
    stream : str
    stamps : Stamps
        Shared by all its rows.
    cases, ids : CaseRun, IdRun
        What was added one by one.
    pieces : list of CaseRows or MissRows
        Cases and misses in columns.
    done : list of IdRows or IdRun
        What was done to ids before what is in `ids`, in order.
    open_cases, open_ids : UnlockedCases, UnlockedIds
        What is added without the lock, to come into `cases` and `ids`.
    """

    __slots__ = (
        "cases",
        "done",
        "ids",
        "open_cases",
        "open_ids",
        "pieces",
        "stamps",
        "stream",
    )

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.stamps = Stamps()
        self.open_cases = UnlockedCases(self)
        self.open_ids = UnlockedIds(self)
        self.cases = CaseRun(self.stamps)
        self.ids = IdRun(self.stamps)
        self.pieces: list[CaseRows | MissRows] = []
        self.done: list[IdRows | IdRun] = []

    def clear(self) -> None:
        """Forget what is here."""
        self.open_cases.drop()
        self.open_ids.drop()
        self.cases, self.ids = CaseRun(self.stamps), IdRun(self.stamps)
        self.pieces, self.done = [], []

    def swap(self) -> DrainedRows | None:
        """Return what is here, if anything, and start empty. O(1)."""
        self.close_run()
        cases = self.cases if self.cases.scores else None
        if cases is not None:
            self.cases = CaseRun(self.stamps)
        elif not (self.pieces or self.done):
            return None
        taken = DrainedRows(self.stream, cases, self.pieces, self.done)
        self.pieces, self.done = [], []
        return taken

    def append(self, rows: CaseRows | IdRows | MissRows) -> None:
        """Append columns."""
        if isinstance(rows, IdRows):
            self.close_run()
            self.done.append(rows)
        else:
            self.pieces.append(rows)

    def close_run(self) -> None:
        """Let what is done to ids from now on come after what was done to them before."""
        if self.ids.ids:
            self.done.append(self.ids)
            self.ids = IdRun(self.stamps)


class DrainedRows(NamedTuple):
    """What was taken out of a lane, and is no longer changed."""

    stream: str
    cases: CaseRun | None
    pieces: list[CaseRows | MissRows]
    done: list[IdRows | IdRun]

    def rows(self) -> list[Rows]:
        """Return it all in few pieces, what is done to ids in order. O(rows)."""
        pieces = self.pieces
        if self.cases is not None:
            pieces = [*pieces, self.cases.rows(self.stream)]
        ids: list[IdRows] = []
        for each in self.done:
            ids += each.pieces(self.stream) if isinstance(each, IdRun) else [each]
        return [*coalesce_cases(pieces), *coalesce_id_rows(ids)]
