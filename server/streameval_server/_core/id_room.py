"""Predictions wait for labels before ids expire early.

A stream keeps at most `max_pending` ids. A prediction above that would push out the one that falls
due first, whose label is then an orphan. So predictions are refused for a while, to be retried,
while labels pass: of a backlog that is read out of order they make room. If too little comes within
`WAIT_S`, waiting longer is no help, as the labels are late or few for good. Then predictions
pass, ids expire early and are counted, until a part of the stream's room is free again.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from streameval_server._model.errors import no_room_for_ids
from streameval_server._model.row_kinds import PredictionRows

if TYPE_CHECKING:
    from streameval_server._core.applier import Applier
    from streameval_server._core.entries import Item

WAIT_S = 60.0
_FREE_SHARE = 16
"""Room is enough again when this part of `max_pending` is free: 1 in 16."""


class IdRoom:
    """Decides which predictions wait; called by the thread of `Committer.submit` alone.

    Parameters
    ----------
    applier
        Its engine says how many ids wait in a stream after the rows applied so far.
    """

    def __init__(self, applier: Applier) -> None:
        self._applier = applier
        # Predictions that were submitted and that the engine may not have applied.
        self._items: deque[tuple[Item, int]] = deque()  # a transaction may change an item's rows
        self._rows: Counter[str] = Counter()
        self._full_since_s: dict[str, float] = {}
        # Rows that passed since then: few labels that make room for small batches end no wait.
        self._passed: Counter[str] = Counter()

    def check(self, item: Item, now_s: float) -> None:
        """Raise RequestError if an item has predictions that are to wait. O(1), amortised."""
        if not isinstance(item.rows, PredictionRows):
            return
        self._forget_applied()
        name = item.stream
        room = self._applier.engine.id_room(name)
        if room is None:
            self._end_wait(name)
            return
        free, most = room
        since_s = self._full_since_s.get(name)
        is_waiting = since_s is None or now_s - since_s < WAIT_S
        free -= self._rows[name]
        # A batch that can never fit passes when no id waits.
        if item.rows.size <= free or free == most:
            if since_s is not None:
                self._passed[name] += item.rows.size
                room_made = max(free, self._passed[name] if is_waiting else 0)
                if room_made > most // _FREE_SHARE:
                    self._end_wait(name)
            return
        if is_waiting:
            self._full_since_s.setdefault(name, now_s)
            raise no_room_for_ids(name, most)

    def _end_wait(self, name: str) -> None:
        self._full_since_s.pop(name, None)
        self._passed.pop(name, None)

    def add(self, item: Item) -> None:
        """Take note of an item that was submitted."""
        if isinstance(item.rows, PredictionRows):
            self._items.append((item, item.rows.size))
            self._rows[item.stream] += item.rows.size

    def _forget_applied(self) -> None:
        """Forget items that the engine has applied or that became no entry."""
        items, rows, applied = self._items, self._rows, self._applier.applied_revision
        while items and (revision := items[0][0].revision) is not None and revision <= applied:
            item, size = items.popleft()
            rows[item.stream] -= size
            if not rows[item.stream]:
                del rows[item.stream]
