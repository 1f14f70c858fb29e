"""Small tools for threads that hand work to each other, and share a few cores."""

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


_NICER = 5
"""Of 20 steps of niceness: with more, those who wait for this thread's lock wait long."""


_MANY = 3
"""So many pieces that wait came while the last were worked on: more are on their way."""
_ENOUGH = 64
_GATHER_S = 0.0007
_GATHERINGS = 4


def stand_back() -> None:
    """Let this thread have less of the cores than others when they are scarce.

    Counting comes in bursts of milliseconds, while others wait for their acks; and a commit
    that comes later writes more at a time. Only on Linux threads have a priority of their
    own; elsewhere nothing happens.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        now = os.getpriority(os.PRIO_PROCESS, thread)
        with suppress(OSError):  # a sandbox may forbid it, and it is a courtesy
            os.setpriority(os.PRIO_PROCESS, thread, min(now + _NICER, 19))


def gather(waiting: Callable[[], int]) -> None:
    """Where work comes more quickly than it is done, let more come, to be done together.

    Returns at once where little waits; else when nothing has come for 0.7 ms, when there is
    enough, or after 3 ms.

    Parameters
    ----------
    waiting
        Returns how many pieces of work wait.
    """
    count = waiting()
    if count < _MANY:
        return
    for _ in range(_GATHERINGS):
        if count >= _ENOUGH:
            return
        time.sleep(_GATHER_S)
        before, count = count, waiting()
        if count == before:
            return


class Doorbell:
    """Wakes one waiting thread; rings while it is awake cost nothing.

    Add the work first and ring then; the waiter looks for work after each
    `wait`. A ring is never lost, and now and then there is one too many.
    """

    def __init__(self) -> None:
        self._rung = False
        self._queue: queue.SimpleQueue[None] = queue.SimpleQueue()

    def ring(self) -> None:
        """Make the next `wait`, or the one in progress, return. Any thread may call it."""
        # If this reads True, the waiter has not looked for work yet, and will.
        if not self._rung:
            self._rung = True
            self._queue.put(None)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until somebody rang, or for so long; return whether somebody did."""
        try:
            self._queue.get(timeout=timeout_s)
        except queue.Empty:
            return False
        self._rung = False
        return True


class FairLock:
    """A lock that its last holder gets again only after those who wait for it.

    With a plain lock a thread that works in a loop would starve everybody
    else: it has the lock again before a waiting thread is even awake.
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
