"""A thread that calls something again and again, for as long as there is need."""

from __future__ import annotations

import _thread
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

_IDLE_TICKS = 40
"""It ends after so many calls in a row without need: a new thread takes time to start."""


class Ticker:
    """Calls something at intervals, from when it is started until there is no need for long.

    Parameters
    ----------
    lock : Lock
        Held during each call, and by whoever calls `start`.
    tick : callable
        Returns whether there was need of it.
    interval_s : float
        Seconds between two calls.
    """

    def __init__(self, lock: threading.Lock, tick: Callable[[], bool], interval_s: float) -> None:
        self._lock = lock
        self._tick = tick
        self._interval_s = interval_s
        self._runs = False
        self._may_run = True

    def start(self) -> bool:
        """Start, unless it runs; whether it does now. Does not wait for the thread."""
        if not self._runs and self._may_run:
            try:
                # `threading.Thread.start` waits until the thread has had its turn, which takes
                # long where others are busy; and who calls this is not to wait.
                _thread.start_new_thread(self._run, ())
            except RuntimeError:
                self._may_run = False  # the process is ending (Python 3.12), or has too many
            else:
                self._runs = True
        return self._runs

    def _run(self) -> None:
        idle = 0
        while idle < _IDLE_TICKS:
            time.sleep(self._interval_s)
            with self._lock:
                try:
                    idle = 0 if self._tick() else idle + 1
                except BaseException:
                    self._runs = False
                    raise
                if idle == _IDLE_TICKS:
                    self._runs = False
