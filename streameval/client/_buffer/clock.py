"""When rows were added, by a clock that the wall clock's owner cannot set.

Rows without a time of their own get a stamp when they are added: by a clock
that only goes on, also while the machine sleeps. When they are numbered, the
server has told its time, and stamps become times by it. So a wall clock that is
ahead, behind, or set anew in between dates no row wrongly, and rows that waited
for a server count when they were added, not when they arrived.

Stamps and times share their columns: times are microseconds since 1970, 0 or
more; a stamp is -1 minus the clock's microseconds, so it is negative.

Cost: a stamp is used for 25 ms, so that a batch seldom needs more than one. The
clock is read (60 ns) for each row that is added alone under a lock. Rows that
are added without one (`_open`) have the stamp in use when that was allowed, which
another thread ends after 25 ms, or as soon after it as the interpreter lets it.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval._common.arrays import IntArray

    Times = int | IntArray | None
    """One time or stamp for all rows, one for each, or none: when the server has them."""

clock_ns: Callable[[], int]
if sys.platform == "linux":
    clock_ns = partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME)
elif sys.platform == "darwin":
    clock_ns = partial(time.clock_gettime_ns, time.CLOCK_MONOTONIC)
else:
    clock_ns = time.monotonic_ns

SHARED_S = 0.025
"""A stamp is used for so long."""

_SHARED_NS = int(SHARED_S * 1e9)


class Stamps:
    """Stamps of one stream's rows."""

    __slots__ = ("_stamp", "until_ns")

    def __init__(self) -> None:
        self._stamp = -1
        self.until_ns = 0
        """On `clock_ns`: until then the stamp stays the same."""

    def at(self, now_ns: int) -> int:
        """Return the stamp at a time of `clock_ns`; the last one if it is young."""
        if now_ns >= self.until_ns:
            self._stamp = -1 - now_ns // 1_000
            self.until_ns = now_ns + _SHARED_NS
        return self._stamp

    def now(self) -> int:
        """Return the stamp of a row that is added now."""
        return self.at(clock_ns())


def offset_us() -> int:
    """Return the wall clock minus `clock_ns`, in microseconds: until a server tells its time."""
    return (time.time_ns() - clock_ns()) // 1_000


def dated(times: Times, offset_us: int) -> Times:
    """Return times in which stamps are times; `offset_us` is the time when the clock was 0.

    Examples
    --------
    >>> dated(-1 - 5_000, 1_000_000), dated(7, 1_000_000), dated(None, 0)
    (1005000, 7, None)
    """
    if times is None:
        return None
    if isinstance(times, int):
        # 0 means "none" in some fields.
        return times if times >= 0 else max(1, offset_us - 1 - times)
    if not times.size or times.min() >= 0:
        return times
    return np.where(times >= 0, times, np.maximum(1, offset_us - 1 - times))


def joined(times: list[Times], sizes: list[int]) -> Times:
    """Return the times of pieces as those of one; None of them lacks times, or all do."""
    first = times[0]
    if not isinstance(first, np.ndarray) and all(
        not isinstance(each, np.ndarray) and each == first for each in times
    ):
        return first
    return np.concatenate(
        [
            each if isinstance(each, np.ndarray) else np.full(size, each, dtype=np.int64)
            for each, size in zip(times, sizes, strict=True)
        ]
    )


def shared(times: IntArray) -> Times:
    """Return one time in place of equal ones."""
    return int(times[0]) if times.size and times.min() == times.max() else times
