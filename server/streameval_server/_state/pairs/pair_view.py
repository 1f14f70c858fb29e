"""A pair's counts at one revision: what queries read.

A view has copies of the panes' tables, whose counts are immutable. Rows that wait in the
pair are counted into these copies by the first query that needs them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streameval.v1 import pair_pb2
    from streameval_server._model.pair_settings import PairInfo
    from streameval_server._state.pairs.pair_panes import PairPanes


class Evidence(NamedTuple):
    """Evidence that suffices to say which model is better.

    Attributes
    ----------
    since_us : int
        The time from which every look has found so.
    a_is_better : bool
    """

    since_us: int
    a_is_better: bool


@dataclass(frozen=True, slots=True)
class PairView:
    """A pair at one revision.

    Attributes
    ----------
    info : PairInfo
    revision : int
        Log revision that the view includes.
    now_us : int
        The log's time.
    evidence : mapping of str to Evidence
    names : mapping of (str, str) to int
        The number of each slice, by key and value.
    counters : PairCounters message
    """

    info: PairInfo
    revision: int
    now_us: int
    evidence: Mapping[str, Evidence]
    names: Mapping[tuple[str, str], int]
    counters: pair_pb2.PairCounters
    _counts: PairPanes
    _lock: Lock = field(default_factory=Lock)

    def at(self, revision: int, now_us: int) -> PairView:
        """Return the view at a later revision, up to which the pair has not changed."""
        return replace(self, revision=revision, now_us=now_us)

    def counts(self) -> PairPanes:
        """Return all counts. Never change them. O(1), O(rows that wait) at first."""
        with self._lock:
            self._counts.count()
        return self._counts

    def slice_number(self, segment: tuple[str, str] | None) -> int | None:
        """Return the number of a slice, or of the whole; None for an unknown value."""
        return 0 if segment is None else self.names.get(segment)
