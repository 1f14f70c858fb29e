"""The log in SQLite, with how long its last commits took: for whoever asks how the disk is.

Cost: two looks at the clock a commit, about 100 ns.
"""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval_server._log.sqlite import SqliteStorage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from streameval_server._log.entries import LogRow
    from streameval_server._log.storage import PartKey

KEPT = 1_024
"""So many durations are kept: the last ones."""


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
    def of(cls, durations: Sequence[float]) -> CommitTimes | None:
        """Return what durations come to; None without any. O(n log n)."""
        ordered = sorted(durations)
        count = len(ordered)
        if not count:
            return None
        half, most = (ordered[math.ceil(count * share) - 1] for share in (0.5, 0.99))
        return cls(count, half, most, ordered[-1])


class MeasuredStorage(SqliteStorage):
    """`SqliteStorage` that remembers how long it took.

    Attributes
    ----------
    checkpoint_s : float or None
        When a checkpoint became current last, in seconds since 1970; None before.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.checkpoint_s: float | None = None
        self._durations: deque[float] = deque(maxlen=KEPT)

    def append(self, rows: Sequence[LogRow]) -> None:
        """Write rows in one transaction; a failed one is not measured."""
        began = time.perf_counter()
        super().append(rows)
        self._durations.append(time.perf_counter() - began)

    def write_manifest(self, manifest: bytes, superseded: Sequence[PartKey]) -> None:
        """Make a checkpoint current."""
        super().write_manifest(manifest, superseded)
        self.checkpoint_s = time.time()

    def commit_times(self) -> CommitTimes | None:
        """Return how long the last commits took. Any thread may ask. O(n log n)."""
        return CommitTimes.of(self._copied())

    def _copied(self) -> list[float]:
        while True:
            try:
                return list(self._durations)
            except RuntimeError:  # a commit ended meanwhile
                continue
