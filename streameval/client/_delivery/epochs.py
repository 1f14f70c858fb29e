"""When a producer started: one number for each, rising within a process."""

from __future__ import annotations

import os
import threading
import time

_lock = threading.Lock()
_last = 0


def next_epoch() -> int:
    """Return the time in microseconds since 1970, higher each time it is called."""
    global _last  # noqa: PLW0603 - one number for the process is its meaning
    with _lock:
        _last = max(_last + 1, time.time_ns() // 1000)
        return _last


def _in_forked_child() -> None:
    global _lock  # noqa: PLW0603 - the parent's may be held by a thread that is not here
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)
