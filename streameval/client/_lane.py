"""What was added for one stream and not yet taken. The buffer's lock guards it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from streameval.client._clock import Stamps
from streameval.client._id_rows import IdRows
from streameval.client._open import OpenCases, OpenIds
from streameval.client._order import in_any_order, in_order
from streameval.client._runs import CaseRun, IdRun

if TYPE_CHECKING:
    from streameval.client._rows import CaseRows, MissRows, Rows


class Lane:
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
    open_cases, open_ids : OpenCases, OpenIds
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
        self.open_cases = OpenCases(self)
        self.open_ids = OpenIds(self)
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

    def swap(self) -> Taken | None:
        """Return what is here, if anything, and start empty. O(1)."""
        self.close_run()
        cases = self.cases if self.cases.scores else None
        if cases is not None:
            self.cases = CaseRun(self.stamps)
        elif not (self.pieces or self.done):
            return None
        taken = Taken(self.stream, cases, self.pieces, self.done)
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


class Taken(NamedTuple):
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
        return [*in_any_order(pieces), *in_order(ids)]
