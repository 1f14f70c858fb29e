"""How long commits took: quantiles of the last ones, and all of them in buckets."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass
from itertools import accumulate
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper bounds of the buckets; 0.1 s is the duration from which on a disk counts as slow."""

_MAX_LAST_COMMITS = 1_024


@dataclass(frozen=True, slots=True)
class CommitTimes:
    """Durations of the last commits, in seconds, by nearest rank.

    Examples
    --------
    >>> CommitTimes.of([0.004, 0.001, 0.002, 0.003])
    CommitTimes(count=4, p50_s=0.002, p99_s=0.004, max_s=0.004)
    """

    count: int
    p50_s: float
    p99_s: float
    max_s: float

    @classmethod
    def of(cls, durations: Collection[float]) -> CommitTimes | None:
        """Return the quantiles of durations; None when there are none. O(n log n)."""
        ordered = sorted(durations)
        count = len(ordered)
        if not count:
            return None
        p50_s, p99_s = (ordered[math.ceil(count * share) - 1] for share in (0.5, 0.99))
        return cls(count, p50_s, p99_s, ordered[-1])


@dataclass(frozen=True, slots=True)
class CommitHistogram:
    """Durations of all commits of this process.

    Attributes
    ----------
    counts : tuple of int
        How many did not exceed each of `BUCKETS_S`.
    total : int
        How many there were.
    sum_s : float
        Their sum in seconds.
    """

    counts: tuple[int, ...]
    total: int
    sum_s: float


class CommitDurations:
    """Records durations of commits. One thread records, any may read.

    Examples
    --------
    >>> durations = CommitDurations()
    >>> for seconds in (0.0004, 0.002, 0.003, 60.0):
    ...     durations.record(seconds)
    >>> durations.last().max_s
    60.0
    >>> durations.histogram().counts
    (1, 1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3)
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: deque[float] = deque(maxlen=_MAX_LAST_COMMITS)
        self._buckets = [0] * (len(BUCKETS_S) + 1)
        self._sum_s = 0.0

    def record(self, seconds: float) -> None:
        """Count a commit. O(log buckets)."""
        bucket = bisect_left(BUCKETS_S, seconds)
        with self._lock:
            self._last.append(seconds)
            self._buckets[bucket] += 1
            self._sum_s += seconds

    def last(self) -> CommitTimes | None:
        """Return quantiles of the last 1,024 commits; None before the first."""
        with self._lock:
            durations = tuple(self._last)
        return CommitTimes.of(durations)

    def histogram(self) -> CommitHistogram:
        """Return all commits in buckets."""
        with self._lock:
            *counts, total = accumulate(self._buckets)
            return CommitHistogram(tuple(counts), total, self._sum_s)
