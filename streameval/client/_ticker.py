"""A thread that calls something again and again, for as long as there is need."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Ticker:
    """Calls something at intervals, from when it is started until that returns False.

    Parameters
    ----------
    lock : Lock
        Held during each call, and by whoever calls `start`.
    tick : callable
        Returns whether it is to be called again.
    interval_s : float
        Seconds between two calls.
    """

    def __init__(self, lock: threading.Lock, tick: Callable[[], bool], interval_s: float) -> None:
        self._lock = lock
        self._tick = tick
        self._interval_s = interval_s
        self._runs = False

    def start(self) -> bool:
        """Start, unless it runs; whether it does now."""
        if not self._runs:
            thread = threading.Thread(target=self._run, name="streameval-client-tick", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False  # a process that is ending starts none (Python 3.12)
            self._runs = True
        return True

    def _run(self) -> None:
        while True:
            time.sleep(self._interval_s)
            with self._lock:
                if not self._tick():
                    self._runs = False
                    return
