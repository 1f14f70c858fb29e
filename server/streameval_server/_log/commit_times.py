"""How long the last commits took, as quantiles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection


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
        """Return the quantiles of durations; None when there are none. O(n log n).

        Another thread may append to `durations` at the same time.
        """
        while True:
            try:
                ordered = sorted(durations)
                break
            except RuntimeError:  # a deque that grew during the iteration
                continue
        count = len(ordered)
        if not count:
            return None
        p50_s, p99_s = (ordered[math.ceil(count * share) - 1] for share in (0.5, 0.99))
        return cls(count, p50_s, p99_s, ordered[-1])
