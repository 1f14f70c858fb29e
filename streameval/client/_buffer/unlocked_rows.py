"""Rows that callers append without the buffer's lock.

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

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from streameval.client._buffer.runs import CaseRun, IdRun
    from streameval.client._buffer.segmented_run import SegmentedRun

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


class Runs(Protocol):
    """The runs of one stream, to which its rows are moved: a `StreamBuffer`."""

    cases: CaseRun
    segmented_cases: SegmentedRun
    ids: IdRun


class UnlockedRows:
    """Rows of one stream and kind that are added without the lock.

    Attributes
    ----------
    granted : int
        Rows of the current grant; 0 without one.
    """

    __slots__ = ("_burst_rows", "_stamp", "_stream", "granted")

    def __init__(self, stream: Runs) -> None:
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

    def __init__(self, stream: Runs) -> None:
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


class UnlockedTriples(UnlockedRows):
    """Rows of three values of one stream without times of their own, in order.

    Attributes
    ----------
    triples : UnlockedList
        The values of each row in turn; a row's three are added in one step.
    """

    __slots__ = ("triples",)

    def __init__(self, stream: Runs) -> None:
        super().__init__(stream)
        self.triples = UnlockedList()

    def allow(self, rows: int) -> None:
        self.triples.allow(3 * rows)
        self.granted = rows

    def drop(self) -> int:
        self.granted = 0
        return len(self.triples.take()) // 3


class UnlockedSegmentedCases(UnlockedTriples):
    """Cases with segments: `SegmentSet`, label and score."""

    __slots__ = ()

    def take(self) -> int:
        values = self.triples.take()
        run = self._stream.segmented_cases
        return run.extend(values[0::3], bytes(values[1::3]), values[2::3], self._stamp)


class UnlockedIds(UnlockedTriples):
    """Predictions, labels and retractions: id, code and score."""

    __slots__ = ()

    def take(self) -> int:
        values = self.triples.take()
        return self._stream.ids.extend(values[0::3], bytes(values[1::3]), values[2::3], self._stamp)
