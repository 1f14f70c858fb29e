"""A thread that calls a function at intervals and ends when the calls find nothing to do."""

from __future__ import annotations

import _thread
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

_MAX_IDLE_TICKS = 40
"""Calls in a row that find nothing to do before the thread ends: starting one is slow."""


class Ticker:
    """Calls a function at intervals, from `start` until it has been idle for a while.

    Parameters
    ----------
    lock : Lock
        Held during each call, and by the caller of `start`.
    tick : callable
        The function; it returns whether there was anything to do.
    interval_s : float
        Seconds between two calls.
    """

    def __init__(self, lock: threading.Lock, tick: Callable[[], bool], interval_s: float) -> None:
        self._lock = lock
        self._tick = tick
        self._interval_s = interval_s
        self._is_running = False
        self._can_run = True

    def start(self) -> bool:
        """Start the thread unless it runs; return whether it runs. Does not wait for it."""
        if not self._is_running and self._can_run:
            try:
                # `threading.Thread.start` waits until the new thread has run, which takes long
                # while other threads are busy; the caller must not wait.
                _thread.start_new_thread(self._run, ())
            except RuntimeError:
                self._can_run = False  # the interpreter shuts down (3.12), or has too many threads
            else:
                self._is_running = True
        return self._is_running

    def _run(self) -> None:
        idle = 0
        while idle < _MAX_IDLE_TICKS:
            time.sleep(self._interval_s)
            with self._lock:
                try:
                    idle = 0 if self._tick() else idle + 1
                except BaseException:
                    self._is_running = False
                    raise
                if idle == _MAX_IDLE_TICKS:
                    self._is_running = False
