"""The summaries of all streams over one window, each computed again only after it has changed.

A summary holds until the stream's log revision moves, or time alone moves its window over a
pane. `scan` finds what is out of date by comparing revisions, without looking at counts;
`refresh` computes within a budget of seconds, so that a list of any number of streams is
answered in time: what does not fit keeps its former figures and is counted as out of date. A
stream whose figures cannot be computed has the reason in their place, and the others have theirs.

Cost: `scan` takes O(streams), about 2 ms for 10,000; a summary some 5 ms. Memory: 3 KB
a stream. Any thread may call; calls take turns.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from typing import TYPE_CHECKING

from streameval.statistics import Place
from streameval.v1 import verdict_pb2
from streameval_server._model.errors import Code, RequestError
from streameval_server._queries.stream_summary import (
    ComputedSummary,
    failed_summary,
    group_of,
    projection,
    summary,
)
from streameval_server._queries.summary_entry import SummaryEntry
from streameval_server._queries.summary_file import KeptSummary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from streameval_server._queries.query_engine import QueryEngine
    from streameval_server._queries.selection import AllTime, Last
    from streameval_server._state.views import StreamView

_log = logging.getLogger(__name__)

_ENTRY_BYTES = 3_000
"""Memory of an entry with its encoded summary; measured."""

_RETRY_US = 60_000_000
"""After which time figures that could not be computed are tried again."""

_SHOWN_PROJECTION_US = 60_000_000
"""After which time a stream on a listed page is projected again."""
_PROJECTION_US = 600_000_000
"""The same of the others, if they have changed."""

FIGURES = (*Place.MONITOR.names(), *Place.POINT.names(), "prevalence")
"""The metrics of a summary."""


Revisions = tuple[list[tuple[str, int, int, int]], int]
"""Each stream with the log revisions of its creation, of its last change and of its evidence's,
and the revision of which that is."""


class SummaryTable:
    """The summaries of all streams over one window.

    Parameters
    ----------
    engine : QueryEngine
        Computes them.
    span : AllTime or Last
        The window.
    revisions : callable
        Returns all streams, in order of their names.
    visible : callable
        Returns the revision now, at no cost.
    clock_us : callable
        Returns the server's clock.

    Attributes
    ----------
    version : int
        Rises whenever an entry changes, or another is out of date.
    asked_s : float
        When it was last asked for, by the monotonic clock.
    """

    def __init__(
        self,
        engine: QueryEngine,
        span: AllTime | Last,
        revisions: Callable[[], Revisions],
        *,
        visible: Callable[[], int],
        clock_us: Callable[[], int],
    ) -> None:
        self.version = 0
        self.asked_s = -math.inf
        self._engine = engine
        self._span = span
        self._revisions = revisions
        self._visible = visible
        self._clock_us = clock_us
        self._lock = threading.Lock()
        self._entries: dict[str, SummaryEntry] = {}
        self._outdated: dict[str, None] = {}
        # Those of them whose verdict may be another one.
        self._undecided: dict[str, None] = {}
        self._shown: dict[str, None] = {}
        self._scanned = -1
        self._next_us = 0
        # Whether a summary may have been stored after a scan that saw a later revision of its
        # stream: the next scan then compares all revisions again.
        self._must_scan = False

    # -- reading

    @property
    def entries(self) -> list[SummaryEntry]:
        """All streams, as `scan` found them. O(streams)."""
        with self._lock:
            return list(self._entries.values())

    @property
    def scanned_revision(self) -> int:
        """The revision of the last scan."""
        return self._scanned

    @property
    def outdated(self) -> frozenset[str]:
        """Streams whose summaries are out of date, or that have none. O(outdated)."""
        with self._lock:
            return frozenset(self._outdated)

    @property
    def num_outdated(self) -> int:
        """How many streams are out of date, those without a summary included."""
        return len(self._outdated)

    @property
    def num_pending(self) -> int:
        """How many streams have no summary yet. O(outdated)."""
        with self._lock:
            return sum(self._entries[name].is_pending for name in self._outdated)

    @property
    def memory_bytes(self) -> int:
        """Memory, about. O(1)."""
        return _ENTRY_BYTES * len(self._entries)

    # -- changing

    def scan(self) -> None:
        """Find the streams that are new, deleted or out of date. O(streams); O(1) if none is."""
        now_us = self._clock_us()
        with self._lock:
            is_new = self._must_scan or self._visible() != self._scanned
            if not is_new and now_us < self._next_us:
                return
            self._must_scan = False
            streams, self._scanned = self._revisions()
            entries: dict[str, SummaryEntry] = {}
            undecided: dict[str, None] = {}
            before = len(self._outdated)
            next_us = 1 << 62
            for name, create_revision, revision, decided in streams:
                entry = self._entries.get(name)
                if entry is None or entry.create_revision != create_revision:
                    entry = SummaryEntry(name, group_of(name), create_revision)
                    self._outdated[name] = None
                elif entry.revision < revision or entry.valid_until_us <= now_us:
                    self._outdated.setdefault(name)
                else:
                    next_us = min(next_us, entry.valid_until_us)
                entries[name] = entry
                if entry.revision < decided:
                    undecided[name] = None
            if entries.keys() != self._entries.keys() or before != len(self._outdated):
                self.version += 1
            self._entries, self._undecided = entries, undecided
            self._outdated = {name: None for name in self._outdated if name in entries}
            self._next_us = next_us

    def refresh(
        self,
        budget_s: float,
        first: Iterable[str] = (),
        *,
        until: Callable[[], bool] = lambda: False,
    ) -> int:
        """Compute summaries that are out of date, for about `budget_s` seconds.

        Parameters
        ----------
        budget_s
            No further one is begun after it.
        first
            Streams that come before the others; those whose evidence changed are next, then the
            longest out of date.
        until
            No further one is begun once it is true.

        Returns
        -------
        int
            How many were computed.
        """
        end_s = time.monotonic() + budget_s
        with self._lock:
            wanted = (*first, *self._undecided)
            chosen = dict.fromkeys(name for name in wanted if name in self._outdated)
            queue = list(chosen | self._outdated)
        for done, name in enumerate(queue):
            if time.monotonic() >= end_s or until():
                return done
            self._compute(name)
        return len(queue)

    def _compute(self, name: str) -> None:
        if name not in self._outdated:  # another thread has computed it
            return
        found: ComputedSummary | None
        view, scanned = None, self._scanned
        try:
            view = self._engine.view(name)
            found = summary(self._engine, view, self._span)
        except RequestError as error:
            found = None if error.code is Code.NOT_FOUND else self._failed(name, view, error)
        except Exception as error:  # noqa: BLE001 - the others are listed, whatever is wrong with one
            found = self._failed(name, view, error)
        with self._lock:
            self.version += 1
            self._outdated.pop(name, None)
            self._must_scan |= self._scanned != scanned
            entry = self._entries.get(name)
            if found is None:
                self._entries.pop(name, None)  # the next scan finds it if it is made again
            elif entry is not None:
                entry.store(found)
                self._next_us = min(self._next_us, found.valid_until_us)

    def _failed(self, name: str, view: StreamView | None, error: Exception) -> ComputedSummary:
        """Return the summary of a stream whose figures cannot be computed; log why, once."""
        problem = _problem(error)
        revision = self._scanned if view is None else view.revision
        entry = self._entries.get(name)
        if entry is None or entry.problem != problem:
            _log.error("the figures of stream %s could not be computed", name, exc_info=error)
        retry_us = self._clock_us() + _RETRY_US
        return ComputedSummary(failed_summary(name, revision, view, problem), retry_us)

    # -- from one server to the next

    def kept(self) -> list[KeptSummary]:
        """Return the summaries that there are, for the next server. O(streams)."""
        self.scan()
        with self._lock:
            return [
                KeptSummary(
                    entry.encoded,
                    entry.create_revision,
                    entry.valid_until_us,
                    is_current=name not in self._outdated,
                )
                for name, entry in self._entries.items()
                if not entry.is_pending and not entry.problem
            ]

    def restore(self, kept: Iterable[KeptSummary], revision: int) -> None:
        """Take the summaries of a server before, of streams that have none yet. O(streams).

        Parameters
        ----------
        kept : iterable of KeptSummary
        revision : int
            At which the current ones among them were current.
        """
        restored = [SummaryEntry.restored(each, revision) for each in kept]
        with self._lock:
            for entry in restored:
                known = self._entries.get(entry.name)
                if known is None or known.is_pending:
                    self._entries[entry.name] = entry
                    # The next scan finds what is another stream by now, or out of date.
                    self._outdated.pop(entry.name, None)
            self._must_scan = True
            self.version += 1

    # -- projections

    def show(self, names: Iterable[str]) -> None:
        """Note which streams are on a page that was listed: they are projected first."""
        with self._lock:
            self._shown = dict.fromkeys(names)

    def project(self) -> bool:
        """Project the stream for which it is most overdue; return whether there was one."""
        now_us = self._clock_us()
        name = self._next_projection(now_us)
        if name is None:
            return False
        found, verdict, revision = None, verdict_pb2.Verdict(), 0
        try:
            view = self._engine.view(name)
            revision = view.revision
            found = projection(self._engine, view, self._span)
            verdict = self._engine.verdicts.of(view).message()
        except RequestError as error:
            if error.code is not Code.NOT_FOUND:
                _log.exception("stream %s could not be projected", name)
        except Exception:  # noqa: BLE001 - the others are projected, whatever is wrong with one
            _log.exception("stream %s could not be projected", name)
        with self._lock:
            entry = self._entries.get(name)
            if entry is not None:
                entry.store_projection(found, verdict, now_us=now_us, revision=revision)
                self._next_us = min(self._next_us, entry.valid_until_us)
                self.version += 1
        return True

    def _next_projection(self, now_us: int) -> str | None:
        with self._lock:
            shown = [self._entries[name] for name in self._shown if name in self._entries]
            due = [
                entry
                for entry in shown
                if entry.is_waiting and now_us - entry.projected_us >= _SHOWN_PROJECTION_US
            ]
            due = due or [
                entry
                for entry in self._entries.values()
                if entry.is_waiting
                and now_us - entry.projected_us >= _PROJECTION_US
                and entry.projected_revision < entry.revision
            ]
        if not due:
            return None
        return min(due, key=lambda entry: entry.projected_us).name


def _problem(error: Exception) -> str:
    """Return for readers of a list why a stream has no figures; the log has the details."""
    if isinstance(error, RequestError):
        return error.message
    return f"the server failed with {type(error).__name__}; its log has more about it"
