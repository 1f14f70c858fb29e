"""Messages of a partition that wait until they are cut into a piece, in the order of offsets.

A message counts as early as the earliest of those behind it, as far as they have come. So one
with a time in the future is not held back for it once others follow, and old ones hold others
back only until they are cut, which nothing delays. All before them would be cut with them, so a
single wrong time in the past is none: a message counts no earlier than the middle of the last
few.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections import deque
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from streameval.kafka._piece_range import MAX_PIECE_OFFSETS
from streameval.kafka._plain_rows import message_time_us

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import Message

    from streameval._common.arrays import IntArray

MAX_PIECE_MESSAGES = 10_000
MAX_PIECE_BYTES = 8 << 20

_MAX_MESSAGES = 2 * MAX_PIECE_MESSAGES
_MAX_BYTES = 2 * MAX_PIECE_BYTES

_NEAR = 5
"""Times, of a message and those before it: it counts no earlier than the middle one."""

_NO_TIME = -1
"""The time of messages before the first that has one: such messages hold no other back, and are
not held back."""


class WaitingMessages:
    """A buffer between the consumer and the pieces.

    Parameters
    ----------
    read_to : int
        The offset at which reading begins.
    span_us : int
        Of message time, that a piece has at most.

    Attributes
    ----------
    read_to : int
        There is no message below it any more that was not added.
    is_at_end : bool
        Whether everything that the partition has was added.
    since_s : float
        Since when, by the monotonic clock, the first of them waits.
    after_us : int or None
        The time of the message that was added last, which the next one has about: 0 before the
        first, None if there are only messages without a time.
    gaps : list of (start, end)
        Offsets in [start, end) that did not come; the caller that asks why empties it.
    """

    def __init__(self, read_to: int, span_us: int) -> None:
        self.read_to = read_to
        self.is_at_end = False
        self.since_s = 0.0
        self.after_us: int | None = 0
        self.gaps: list[tuple[int, int]] = []
        self._span_us = span_us
        self._messages: list[Message] = []
        self._bytes = 0
        self._near_us: deque[int] = deque(maxlen=_NEAR)
        self._lows_us: IntArray = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def is_full(self) -> bool:
        """Whether no more should be fetched for now."""
        return len(self._messages) >= _MAX_MESSAGES or self._bytes >= _MAX_BYTES

    @property
    def low_us(self) -> int | None:
        """The earliest time of a message; None without one that has a time."""
        if not self._messages or self._lows_us[0] == _NO_TIME:
            return None
        return int(self._lows_us[0])

    def add(self, messages: list[Message]) -> bool:
        """Take the next messages that did not come before; return whether there is one.

        O(messages + waiting messages).
        """
        offsets = [each.offset() for each in messages]
        first = offsets[0]
        # Successive, as a rule; a compacted topic has gaps.
        if first != self.read_to or offsets != list(range(first, first + len(offsets))):
            messages = self._new(messages)
            if not messages:
                return False
        if not self._messages:
            self.since_s = time.monotonic()
        self._messages += messages
        self._bytes += sum(map(len, messages))
        self.read_to = messages[-1].offset() + 1
        self.is_at_end = False
        lows_us = np.concatenate([self._lows_us, self._times(messages)])
        self._lows_us = np.minimum.accumulate(lows_us[::-1])[::-1]
        return True

    def _new(self, messages: Iterable[Message]) -> list[Message]:
        """Return the messages that are behind those before them, and note the gaps."""
        found, read_to = [], self.read_to
        for each in messages:
            offset = each.offset()
            if offset >= read_to:
                if offset > read_to:
                    self.gaps.append((read_to, offset))
                found.append(each)
                read_to = offset + 1
        return found

    def _times(self, messages: Iterable[Message]) -> IntArray:
        """Return what times messages count at; one without has the time of the one before it."""
        times: list[int] = []
        near_us = self._near_us
        for each in messages:
            time_us = message_time_us(each)
            if time_us is not None:
                near_us.append(time_us)
                if time_us < (self.after_us or 0):
                    time_us = max(time_us, sorted(near_us)[(len(near_us) - 1) // 2])
            if time_us is not None or not self.after_us:
                self.after_us = time_us
            times.append(self.after_us or _NO_TIME)
        return np.array(times, dtype=np.int64)

    def end(self, offset: int) -> None:
        """Take note that there is no message below an offset any more, and none above it yet."""
        if offset > self.read_to:
            self.gaps.append((self.read_to, offset))
            self.read_to = offset
        self.is_at_end = offset == self.read_to

    def piece(self, bound_us: int | None) -> tuple[int, bool]:
        """Return how many messages the next piece has, and whether it can have no more.

        Parameters
        ----------
        bound_us : int or None
            Later messages stay here for now.
        """
        available = len(self._messages)
        if not available:
            return 0, False
        lows_us = self._lows_us
        if bound_us is not None:
            available = int(np.searchsorted(lows_us, bound_us, side="right"))
        near = int(np.searchsorted(lows_us, lows_us[0] + self._span_us, side="right"))
        if lows_us[0] == _NO_TIME:
            near = int(np.searchsorted(lows_us, _NO_TIME, side="right"))
        count = min(available, near)
        is_whole = count < available or count >= MAX_PIECE_MESSAGES
        return count, is_whole or (count > 0 and self._bytes >= MAX_PIECE_BYTES)

    def cut(self, most: int) -> list[Message]:
        """Remove and return the messages of a piece: at least one, and at most `most`."""
        waiting = self._messages[: min(most, MAX_PIECE_MESSAGES)]
        offsets = [each.offset() for each in waiting]
        sizes = list(accumulate(map(len, waiting)))
        last = offsets[0] + MAX_PIECE_OFFSETS
        fitting = min(bisect_left(offsets, last), bisect_right(sizes, MAX_PIECE_BYTES))
        return self._take(max(1, fitting))

    def cut_before(self, offset: int) -> list[Message]:
        """Remove and return the messages below an offset."""
        return self._take(sum(each.offset() < offset for each in self._messages))

    def _take(self, count: int) -> list[Message]:
        taken, self._messages = self._messages[:count], self._messages[count:]
        self._lows_us = self._lows_us[count:]
        self._bytes -= sum(map(len, taken))
        self.since_s = time.monotonic()
        return taken
