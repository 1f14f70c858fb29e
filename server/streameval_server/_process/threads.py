"""Two small tools for threads that hand work to each other."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType


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

    def wait(self, timeout_s: float | None = None) -> None:
        """Block until somebody rang, or for so long."""
        try:
            self._queue.get(timeout=timeout_s)
        except queue.Empty:
            return
        self._rung = False


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
