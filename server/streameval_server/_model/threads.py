"""Small tools for threads that hand work to each other and share few cores."""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType


_NICENESS_STEP = 5
"""Added to a thread's niceness, which goes to 19. With more, a thread that holds a lock runs so
rarely that the threads waiting for the lock are delayed."""

_MIN_BURST_ITEMS = 3
"""Items that must be waiting before `linger` expects more of them to arrive soon."""
_MAX_BURST_ITEMS = 64
"""Waiting items for which `linger` returns at once."""
_LINGER_S = 0.0007
"""Seconds of one pause."""
_MAX_PAUSES = 4


def lower_priority() -> None:
    """Give the calling thread less processor time than others while cores are scarce.

    For the threads that commit and count: counting comes in bursts of milliseconds while
    clients wait for their acks, and a later commit writes more rows at once. On Linux each
    thread has a priority of its own; elsewhere this does nothing.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        niceness = os.getpriority(os.PRIO_PROCESS, thread)
        with suppress(OSError):  # a sandbox may forbid it; the server works without it
            os.setpriority(os.PRIO_PROCESS, thread, min(niceness + _NICENESS_STEP, 19))


def linger(waiting: Callable[[], int], sleep: Callable[[float], object] = time.sleep) -> None:
    """Under load, wait a moment for more items so that they are handled as one batch.

    Returns at once when few items wait; otherwise when none arrived for 0.7 ms, when 64
    wait, or after 3 ms.

    Parameters
    ----------
    waiting
        Returns how many items wait.
    sleep
        Pauses for some seconds.
    """
    count = waiting()
    if count < _MIN_BURST_ITEMS:
        return
    for _ in range(_MAX_PAUSES):
        if count >= _MAX_BURST_ITEMS:
            return
        sleep(_LINGER_S)
        before, count = count, waiting()
        if count == before:
            return


class Doorbell:
    """Wakes one waiting thread; a ring while it is awake costs almost nothing.

    A producer adds its work first and rings then; the waiter looks for work after each
    `wait`. No ring is lost, and `wait` occasionally returns without new work.
    """

    def __init__(self) -> None:
        self._rung = False
        self._queue: queue.SimpleQueue[None] = queue.SimpleQueue()

    def ring(self) -> None:
        """Make the next `wait`, or the one in progress, return. Safe in any thread."""
        # When this reads True, the waiter has yet to look for work, and will find it.
        if not self._rung:
            self._rung = True
            self._queue.put(None)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until the bell rings or the timeout expires; return whether it rang."""
        try:
            self._queue.get(timeout=timeout_s)
        except queue.Empty:
            return False
        self._rung = False
        return True


class FairLock:
    """A lock that its last holder gets again only after the threads that wait for it.

    With a plain lock, a thread that acquires it in a loop would starve the others: it has
    the lock again before a waiting thread has woken up.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._turn:
            self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()


def do_nothing() -> None:
    """Do nothing: the default of a callback."""
