"""The clock of the client's rows: monotonic, independent of the wall clock.

Rows without an event time of their own get a *stamp* when they are added, from a clock
that never goes back and that also advances while the machine sleeps. When rows are
numbered as a batch, the server has told its time, and stamps are converted by it
(`columns.stamps_to_times`). So a wall clock that is wrong, or is set in between, dates
no row wrongly; and rows that waited for a server count when they were added, not when
they arrived.

Stamps and times share a column: a time is microseconds since 1970, 0 or more; a stamp
is -1 minus the clock's microseconds, so it is negative.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

clock_ns: Callable[[], int]
if sys.platform == "linux":
    clock_ns = partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME)
elif sys.platform == "darwin":
    clock_ns = partial(time.clock_gettime_ns, time.CLOCK_MONOTONIC)
else:
    clock_ns = time.monotonic_ns


def offset_us(clock_ns: Callable[[], int]) -> int:
    """Return the wall clock minus a clock, in microseconds: used until a server tells its time.

    O(1).
    """
    return (time.time_ns() - clock_ns()) // 1_000
