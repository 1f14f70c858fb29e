"""Small tools for threads that hand work to each other and share few cores."""

from __future__ import annotations

import os
import queue
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from streameval import StreamEvalError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType


_NICENESS_STEP = 5
"""Added to a thread's niceness, which goes to 19. With more, a thread that holds a lock runs so
rarely that the threads waiting for the lock are delayed."""


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


class BrokenStateError(StreamEvalError):
    """The state behind a `StateLock` may be half changed."""


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


class BackgroundThread:
    """A thread of its own for work that must not delay others, started by the first ring.

    Parameters
    ----------
    name
        The thread's.
    work
        Runs in it until `closing`: does what there is to do, and waits for the next ring.

    Attributes
    ----------
    bell : Doorbell
        Wakes it.
    closing : bool
        Whether `work` must return.
    """

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self.bell = Doorbell()
        self.closing = False
        self._name = name
        self._work = work
        self._thread: threading.Thread | None = None

    def ring(self) -> None:
        """Wake the thread; start it at the first ring. O(1). For one thread, as `close`."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        self.bell.ring()

    def close(self) -> None:
        """Wait until the work in progress has ended, and end the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self.closing = True
            self.bell.ring()
            thread.join()
            self.closing = False


class FairLock:
    """A lock that its last holder gets again only after the threads that wait for it.

    With a plain lock, a thread that acquires it in a loop would starve the others: it has
    the lock again before a waiting thread has woken up.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self.acquire()

    def acquire(self) -> None:
        """Wait for the lock. Without memory it raises before it holds the lock, not after."""
        self._turn.acquire()
        try:
            self._lock.acquire()
        finally:
            self._turn.release()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()


class StateLock(FairLock):
    """A fair lock around state that one error can leave half changed, and then for ever shut.

    An exception within the block breaks the lock: entering it raises from then on, so no
    thread reads, changes or saves the state again.

    Parameters
    ----------
    on_broken
        Called once, with the exception, in the thread that raised it.

    Attributes
    ----------
    broken : bool
        Whether the state may be half changed.
    """

    def __init__(self, on_broken: Callable[[BaseException], None]) -> None:
        super().__init__()
        self.broken = False
        self._on_broken = on_broken

    def __enter__(self) -> None:
        self.acquire()
        if self.broken:
            self._lock.release()
            raise BrokenStateError("an error has left the state half changed: start again")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self.broken = True
        self._lock.release()
        if error is not None:
            self._on_broken(error)


def do_nothing() -> None:
    """Do nothing: the default of a callback."""
