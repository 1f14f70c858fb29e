"""The tables of summaries, one for each window that is asked for, and their rankings.

The window of `WARM_SPAN` is kept up to date whether or not it is asked for, so that the first
list of 10,000 streams is not the one that computes them. A thread of its own does this work in
steps, between pauses that keep its share of the machine small.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streameval_server._queries.selection import AllTime, Last
from streameval_server._queries.summary_order import ranking
from streameval_server._queries.summary_table import SummaryTable

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from streameval_server._log.acked_revision import AckedRevision
    from streameval_server._queries.query_engine import QueryEngine
    from streameval_server._queries.stream_list_request import ListRequest
    from streameval_server._queries.summary_entry import SummaryEntry
    from streameval_server._queries.summary_file import SummaryFile
    from streameval_server._queries.summary_order import Ranking
    from streameval_server._queries.summary_table import Revisions

_log = logging.getLogger(__name__)

WARM_SPAN = Last(86_400_000_000)
"""A day: the window with which the page begins."""

_MAX_TABLES = 4
_MAX_TABLES_BYTES = 64 << 20
"""Maximum memory of all tables except for `WARM_SPAN`'s and the one a list reads just now."""
_MAX_RANKINGS = 16
_DEMAND_S = 60.0
"""How long after a question a window is kept up to date, and projected."""
_STEP_S = 0.1
"""How long a step computes at most; a summary or projection that was begun is completed."""
_RETRY_S = 10.0
"""The pause after a step that failed."""

PENDING_SHARE, OUTDATED_SHARE, ASKED_SHARE = 0.5, 0.05, 0.5
"""Shares of one processor for `step`: while streams have no summary yet, while nothing is asked,
and while lists are asked for."""


class StreamSummaries:
    """All tables of summaries. Any thread may call.

    Parameters
    ----------
    engine : QueryEngine
        One of its own: lists must not evict what other queries have cached.
    revisions, visible, clock_us : callable
        As of `SummaryTable`.
    file : SummaryFile, optional
        Where the summaries are kept from one server to the next.
    """

    def __init__(
        self,
        engine: QueryEngine,
        revisions: Callable[[], Revisions],
        *,
        visible: Callable[[], int],
        clock_us: Callable[[], int],
        file: SummaryFile | None = None,
    ) -> None:
        self._file = file
        self._engine = engine
        self._revisions = revisions
        self._visible = visible
        self._clock_us = clock_us
        self._tables: OrderedDict[AllTime | Last, SummaryTable] = OrderedDict()
        self._rankings: OrderedDict[Hashable, Ranking] = OrderedDict()
        self._lock = threading.Lock()
        self._num_answering = 0
        self._stopping = threading.Event()
        self._worker: threading.Thread | None = None

    def server_warnings(self) -> list[str]:
        """Return warnings about the server."""
        return self._engine.server_warnings()

    @property
    def memory_bytes(self) -> int:
        """Memory of the tables and of what they were computed from, about. O(1)."""
        with self._lock:
            tables = list(self._tables.values())
        return self._engine.memory_bytes + sum(table.memory_bytes for table in tables)

    def table(self, span: AllTime | Last) -> SummaryTable:
        """Return the table of a window that is asked for now. O(1)."""
        with self._lock:
            table = self._open(span)
            table.asked_s = time.monotonic()
            return table

    def _open(self, span: AllTime | Last) -> SummaryTable:
        table = self._tables.get(span)
        if table is None:
            table = self._tables[span] = SummaryTable(
                self._engine,
                span,
                self._revisions,
                visible=self._visible,
                clock_us=self._clock_us,
            )
        self._tables.move_to_end(span)
        others = [each for each in self._tables if each not in (WARM_SPAN, span)]
        while others and (
            len(self._tables) > _MAX_TABLES
            or sum(self._tables[each].memory_bytes for each in others) > _MAX_TABLES_BYTES
        ):
            del self._tables[others.pop(0)]
        return table

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Let a list have the processor: `step` ends after the summary that it is computing."""
        with self._lock:
            self._num_answering += 1
        try:
            yield
        finally:
            with self._lock:
                self._num_answering -= 1

    # -- verdicts

    def verdicts(self, *, is_current: bool = False) -> list[SummaryEntry]:
        """Return the streams that have a verdict, with the newest one. O(streams).

        With `is_current` only streams whose verdict, but for a projection, is the one of now.
        """
        with self._lock:
            table = self._open(WARM_SPAN)
        table.scan()
        left_out = table.outdated if is_current else frozenset()
        return [each for each in table.entries if each.quality and each.name not in left_out]

    # -- rankings

    def ranked(self, request: ListRequest, covers: Callable[[str], bool]) -> Ranking:
        """Return the streams that a request asks for, in its order."""
        table = self.table(request.span)
        key = (
            *(request.span, id(table), table.version, request.streams),
            *(request.order, request.search, request.prefix, request.state, request.open_groups),
        )

        with self._lock:
            found = self._rankings.get(key)
        if found is None:
            covered = _covered(table.entries, request, covers)
            entries = [
                entry
                for entry in covered
                if request.search in entry.name.lower() and entry.name.startswith(request.prefix)
            ]
            found = ranking(
                entries, request.order, len(covered), request.state, request.open_groups
            )
            with self._lock:
                self._rankings[key] = found
                while len(self._rankings) > _MAX_RANKINGS:
                    self._rankings.popitem(last=False)
        return found

    # -- in the background

    def start(self, end: AckedRevision) -> None:
        """Begin to compute in a thread, with the summaries that the server before has kept.

        `end` is the last row of the log, as this server found it.
        """
        self._worker = threading.Thread(
            target=self._work, args=(end,), name="summaries", daemon=True
        )
        self._worker.start()

    def stop(self) -> None:
        """End the thread after the step in progress."""
        self._stopping.set()
        if self._worker is not None:
            self._worker.join()

    def _work(self, end: AckedRevision) -> None:
        try:
            self.restore(end)
        except Exception:  # noqa: BLE001 - without them summaries are computed
            _log.exception("the kept summaries of streams could not be used")
        pause_s = 0.0
        while not self._stopping.wait(pause_s):
            try:
                pause_s = self.step()
            except Exception:  # noqa: BLE001 - of any cause, the next attempt may succeed
                # Lists compute what they need, so the server goes on.
                _log.exception("summaries of streams could not be computed")
                pause_s = _RETRY_S

    def step(self) -> float:
        """Do a little of what is to be done; return for how long to pause, in seconds."""
        begun_s = time.monotonic()
        with self._lock:
            self._open(WARM_SPAN)
            tables = [
                table
                for span, table in self._tables.items()
                if span == WARM_SPAN or begun_s - table.asked_s < _DEMAND_S
            ]
        share = OUTDATED_SHARE
        for table in tables:
            is_asked = begun_s - table.asked_s < _DEMAND_S
            table.scan()
            if table.num_outdated:
                pending = table.num_pending
                share = max(share, ASKED_SHARE if is_asked else 0, PENDING_SHARE * bool(pending))
                table.refresh(_STEP_S, until=self._must_pause)
            elif is_asked and table.project():
                share = max(share, ASKED_SHARE)
        took_s = time.monotonic() - begun_s
        return max(0.05, took_s * (1 / share - 1))

    def _must_pause(self) -> bool:
        return self._num_answering > 0 or self._stopping.is_set()

    # -- from one server to the next

    def restore(self, end: AckedRevision) -> None:
        """Take the summaries that the server before left in the file. O(streams).

        `end` is the last row of the log, as this server found it.
        """
        if self._file is None or self._stopping.is_set():
            return
        kept = self._file.read(end, self._clock_us())
        with self._lock:
            table = self._open(WARM_SPAN)
        table.restore(kept, end.revision)
        if kept:
            _log.debug("restored summaries of streams", extra={"fields": {"streams": len(kept)}})

    def keep(self, end: AckedRevision) -> None:
        """Leave the summaries of `WARM_SPAN` in the file. O(streams).

        To be called once nothing changes any more. `end` is the last row of the log, which the
        counts include. What fails is logged: without the file summaries are computed.
        """
        if self._file is None:
            return
        try:
            with self._lock:
                table = self._open(WARM_SPAN)
            kept = table.kept()
            # A start that failed knows none of its streams, and leaves the file to the next one.
            if kept or not table.entries:
                self._file.write(end, self._clock_us(), kept)
        except Exception:  # noqa: BLE001 - whatever is wrong with summaries, the stop is clean
            _log.exception("summaries of streams could not be kept for the next server")


def _covered(
    entries: list[SummaryEntry], request: ListRequest, covers: Callable[[str], bool]
) -> list[SummaryEntry]:
    if request.streams is None:
        return entries
    return [entry for entry in entries if covers(entry.name)]
