"""The machine's clocks."""

from __future__ import annotations

import sys
import time


def wall_us() -> int:
    """Return the wall clock in microseconds since 1970."""
    return time.time_ns() // 1000


def monotonic_us() -> int:
    """Return a clock that is never set, in microseconds; it runs while the machine sleeps."""
    if sys.platform == "linux":
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
    return time.monotonic_ns() // 1000
