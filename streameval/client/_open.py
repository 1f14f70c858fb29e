"""Rows that callers add without a lock, for as long as they are allowed to.

Such a row is an append to a list that is the same for good: one step of the
interpreter, which one thread takes at a time, so nobody sees it half done.
Whoever holds the buffer's lock allows so many rows and takes them out again. Who
adds looks twice:

- Before, at whether there may be one more. Threads that look at the same moment
  may each add one beyond that.
- After, at whether it is still allowed. Whoever forbids it looks for rows after
  that, so either it has seen the row, or `allowed` is 0 by now, and who has
  added the row says so (`Buffer.look_at`).

Cost: about 40 ns a row, 10 more when it is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streameval.client._lane import Lane

_BRISK = 16
"""So many rows under the lock, while one stamp is used, are rows that come quickly."""


class OpenList(list[Any]):
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


class Open:
    """What is added to one lane without the lock.

    Attributes
    ----------
    rows : int
        How many are allowed, at most, and not taken.
    """

    __slots__ = ("_come", "_lane", "_stamp", "rows")

    def __init__(self, lane: Lane) -> None:
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


class OpenCases(Open):
    """Cases of one lane: a list of scores for each label.

    Attributes
    ----------
    negatives, positives : OpenList
    """

    __slots__ = ("negatives", "positives")

    def __init__(self, lane: Lane) -> None:
        super().__init__(lane)
        self.negatives = OpenList()
        self.positives = OpenList()

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


class OpenIds(Open):
    """What is done to ids in one lane without saying when, in order.

    Attributes
    ----------
    triples : OpenList
        Id, code, score, id, code, score and so on: all of a row at once.
    """

    __slots__ = ("triples",)

    def __init__(self, lane: Lane) -> None:
        super().__init__(lane)
        self.triples = OpenList()

    def allow(self, rows: int) -> None:
        self.triples.allow(3 * rows)
        self.rows = rows

    def drop(self) -> int:
        self.rows = 0
        return len(self.triples.take()) // 3

    def take(self) -> int:
        taken = self.triples.take()
        return self._lane.ids.extend(taken[0::3], bytes(taken[1::3]), taken[2::3], self._stamp)
