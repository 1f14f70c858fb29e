"""The event loop's side of the server: starts and stops the threads, submits and reads.

One thread commits, one applies, three compute answers, one keeps the summaries of all streams up
to date, and the event loop serves. The core that they run has neither threads nor clocks.

::

    event loop ── submit ─▶ committer ── push ─▶ applier ── engine ◀─ views ── query threads
        ▲──── outcomes ────────┘                    │
        └──── "this revision is visible" ───────────┘
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, TypeVar

from streameval_server._core.engine_clock import ClockReading, EngineClock
from streameval_server._core.recovery import ServerCore, open_core, open_core_on_full_disk
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.backup import remove_leftovers
from streameval_server._log.data_directory import LOG_NAME, DirectoryLock, directory_owner_problem
from streameval_server._log.loss import LostRowsError
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._log.storage import NullStorage
from streameval_server._model.errors import (
    Code,
    CorruptLogError,
    DiskFullError,
    RequestError,
    no_stream,
    not_visible,
)
from streameval_server._model.pair_settings import no_pair
from streameval_server._model.verdict_change import QUALITIES, VerdictChange
from streameval_server._queries.query_engine import MAX_CACHE_BYTES, QueryEngine
from streameval_server._queries.stream_summaries import WARM_SPAN, StreamSummaries
from streameval_server._queries.stream_verdicts import Verdicts
from streameval_server._queries.summary_file import SummaryFile
from streameval_server._runtime import machine_time
from streameval_server._runtime.core_threads import CoreThreads
from streameval_server._runtime.open_calls import OpenCalls, call_deadline, stopping_error
from streameval_server._runtime.query_threads import QueryQuota, QueryThreads, Visibility
from streameval_server._runtime.state_checks import StateChecks

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator
    from pathlib import Path

    from streameval import Alarm
    from streameval.v1 import verdict_pb2
    from streameval_server._core.engine import Engine
    from streameval_server._core.storage_work import Compacted
    from streameval_server._ingest.unary_call import Response
    from streameval_server._model.limits import Limits
    from streameval_server._model.pair_settings import PairInfo
    from streameval_server._model.stream_info import StreamInfo
    from streameval_server._model.threads import StateLock
    from streameval_server._queries.summary_entry import SummaryEntry
    from streameval_server._queries.summary_table import Revisions
    from streameval_server._state.pairs.pair_view import PairView
    from streameval_server._state.views import AlarmsView, StreamView, WaitingPredictions

T = TypeVar("T")

_MAX_TRIES = 200
_TRY_AGAIN_S = 0.02
"""How often, and after which pause, ids are read again while some expire."""

_MIN_CACHE_SHARE = 8
"""Caches take at most one part of `max_state_bytes` in this many."""
_SUMMARY_CACHE_SHARE = 8
"""The windows of summaries take at most one part of the caches in this many."""
_TOLD_US = 3_600_000_000
"""The least time between two changes of a stream's verdict that a webhook is told."""

_log = logging.getLogger(__name__)


def take_view(engine: Engine, lock: StateLock, stream: str) -> StreamView | None:
    """Return a stream's counts now; None when there is no such stream.

    Rows that wait are counted in pieces, and the applier has its turn at the lock after each.
    Rows that arrive meanwhile are counted in the last turn.
    """
    view = engine.unchanged_view(stream)
    if view is not None:
        return view
    if engine.num_pieces(stream):
        with lock:
            engine.count_piece(stream)
    for _ in range(engine.num_pieces(stream)):
        with lock:
            engine.count_piece(stream)
    with lock:
        return engine.view(stream)


def take_waiting(
    engine: Engine, lock: StateLock, stream: str
) -> tuple[StreamView, WaitingPredictions] | None:
    """Return a stream's counts and its predictions that wait, now; None without such a stream.

    Both are of one revision.

    Raises
    ------
    RequestError
        UNAVAILABLE when ids have been expiring for seconds.
    """
    for _ in range(_MAX_TRIES):
        if take_view(engine, lock, stream) is None:
            return None
        with lock:
            view = engine.view(stream)
            waiting = None if view is None else engine.waiting(stream)
        if view is None:
            return None
        if waiting is not None:
            return view, waiting
        time.sleep(_TRY_AGAIN_S)
    raise RequestError(
        Code.UNAVAILABLE,
        f"ids of the stream {stream} are expiring: try again",
        reason="IDS_EXPIRING",
        retry_after_s=1.0,
    )


class Runtime:
    """Runs a core. Methods belong to the event loop's thread unless they say otherwise.

    Parameters
    ----------
    directory
        Where the log is kept; None for memory only.
    limits
        How much the server may hold.
    auto_create
        Whether a batch for a stream that does not exist creates it.
    accept_loss
        Whether to start although the log has lost acknowledged rows.

    Attributes
    ----------
    core : ServerCore
        Set by `start`.
    directory : Path or None
        Where the log is kept.
    accept_loss : bool
        As given.
    state_checks : StateChecks or None
        The checks that the state is what the log gives; None before `start`, and without a log.
    calls : OpenCalls
        The calls in progress.
    queries : QueryThreads
        The threads that compute answers.
    quota : QueryQuota
        Limits the queries in progress.
    limits : Limits
        The server's.
    engine : QueryEngine
        Computes answers.
    summaries : StreamSummaries
        The summaries of all streams, which a thread keeps up to date.
    visibility : Visibility
        The callers that wait for a revision to be applied.
    clock : EngineClock
        The server's time.
    """

    core: ServerCore
    state_checks: StateChecks | None = None

    def __init__(
        self,
        directory: Path | None,
        limits: Limits,
        *,
        auto_create: bool = True,
        accept_loss: bool = False,
    ) -> None:
        self.calls = OpenCalls()
        self.queries = QueryThreads(self.visible_revision, limits)
        self.quota = QueryQuota(limits.max_queries_per_token)
        self.visibility = Visibility(self.visible_revision)
        self.clock = EngineClock(limits)
        self.limits = limits
        self._auto_create = auto_create
        self.accept_loss = accept_loss
        self.directory = directory
        self._lock: DirectoryLock | None = None
        cache_bytes = limits.max_state_bytes // _MIN_CACHE_SHARE or MAX_CACHE_BYTES
        cache_bytes = min(MAX_CACHE_BYTES, cache_bytes)
        summary_bytes = cache_bytes // _SUMMARY_CACHE_SHARE
        verdicts = Verdicts(self.now_us)
        self.engine = QueryEngine(
            self.view,
            self.now_us,
            self.queries.check,
            server_warnings=self.clock_warnings,
            waiting=self.waiting,
            max_cache_bytes=cache_bytes - summary_bytes,
            verdicts=verdicts,
        )
        self.summaries = StreamSummaries(
            QueryEngine(
                self.view,
                self.now_us,
                server_warnings=self.clock_warnings,
                max_cache_bytes=summary_bytes,
                knows_panes=False,
                verdicts=verdicts,
            ),
            self.stream_revisions,
            visible=self.visible_revision,
            clock_us=self.now_us,
            file=None
            if directory is None
            else SummaryFile(directory / LOG_NAME, WARM_SPAN.span_us),
        )

    # -- starting and stopping

    async def start(self, *, on_serving: Callable[[bool], None]) -> None:
        """Lock the directory, restore what it holds, and start the threads.

        Parameters
        ----------
        on_serving
            Called on the event loop with False when commits fail, and with
            True when they work again.

        Raises
        ------
        DataDirectoryInUseError, StorageError
            When another process uses the directory; when its log cannot be used.
        """
        self._loop = asyncio.get_running_loop()
        self._failed: asyncio.Future[None] = self._loop.create_future()
        self._on_serving = on_serving
        if self.directory is not None:
            self._lock = DirectoryLock(self.directory)
        try:
            if self.directory is not None:
                problem = directory_owner_problem(self.directory)
                if problem is not None:
                    _log.warning("the data directory is not safe: %s", problem)
                remove_leftovers(self.directory)
            began_us = machine_time.monotonic_us()
            self.core = await asyncio.to_thread(self._open)
            seconds = (machine_time.monotonic_us() - began_us) / 1e6
        except BaseException:
            self._release()
            raise
        self.core.committer.cache_bytes = self._cache_bytes
        self.core.committer.monotonic_s = time.monotonic
        end = self.core.committer.last_row
        engine = self.core.engine
        self.clock.start(
            machine_time.wall_us(),
            machine_time.monotonic_us(),
            last_us=engine.received_us,
            held_us=engine.held_us,
        )
        recovery = self.core.recovery
        if recovery.checkpoint_error is not None:
            _log.warning("the checkpoint could not be used: %s", recovery.checkpoint_error)
        for loss in recovery.history.losses:
            _log.error("acknowledged rows were lost, and that was accepted: %s", loss)
        if self.accept_loss:
            _log.warning("accept_loss is set: unset it, or the next loss is accepted unseen")
        _log.info(
            "restored",
            extra={
                "fields": {
                    "revision": recovery.revision,
                    "checkpoint_revision": recovery.checkpoint_revision,
                    "replayed_entries": recovery.replayed,
                    "seconds": round(seconds, 3),
                }
            },
        )
        threads = CoreThreads(
            self.core,
            self.limits,
            self.visibility,
            self._loop,
            clock=self.clock,
            read_clock=self.now,
            on_serving=on_serving,
            on_failure=self._fail,
        )
        self._threads = threads
        self.early_expiry = threads.early_expiry
        engine.on_collected = threads.apply_bell.ring
        # Kept as attributes of their own, because every batch and every query uses them.
        self._commit_bell = threads.commit_bell
        self._engine_lock = threads.engine_lock
        if self.directory is not None:
            self.state_checks = StateChecks(
                self.core.engine, threads.engine_lock, self.limits, self.directory / LOG_NAME
            )
        threads.start()
        self.summaries.start(end)

    def _cache_bytes(self) -> int:
        verdicts = self.engine.verdicts.memory_bytes
        return self.engine.memory_bytes + self.summaries.memory_bytes + verdicts

    def _open(self) -> ServerCore:
        if self.directory is None:
            return open_core(NullStorage(), self.limits, auto_create=self._auto_create)
        storage = SqliteStorage(self.directory / LOG_NAME, accept_loss=self.accept_loss)
        try:
            return open_core(storage, self.limits, auto_create=self._auto_create)
        except DiskFullError as error:
            return open_core_on_full_disk(
                storage, self.limits, error, auto_create=self._auto_create
            )
        except LostRowsError:
            raise  # says what to do
        except CorruptLogError as error:
            raise CorruptLogError(
                f"the log in {self.directory} is damaged: {error}: restore a backup; "
                f"'streameval admin verify --data {self.directory}' says what is left"
            ) from error

    async def stop(self) -> None:
        """Stop the threads; commit and apply what is queued, write a checkpoint, close."""
        if self.state_checks is not None:
            self.state_checks.stop()
        await asyncio.to_thread(self.summaries.stop)
        self._threads.close()
        await asyncio.to_thread(self._threads.join)
        self.queries.stop()
        if self.failed or self._engine_lock.broken:
            # The state in memory may be wrong; the log is not.
            self.core.storage.close()
        else:
            end = await asyncio.to_thread(self.core.drain, self.now_us())
            if end is not None:
                await asyncio.to_thread(self.summaries.keep, end)
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def failed(self) -> bool:
        """Whether the server has failed and cannot go on."""
        return self._failed.done()

    async def wait_failed(self) -> None:
        """Wait until the server has failed, and raise the reason."""
        await asyncio.shield(self._failed)

    def _fail(self, error: BaseException) -> None:
        if not self._failed.done():
            self._failed.set_exception(error)
            self._failed.exception()  # mark it as retrieved: `wait_failed` may not be running
        self._on_serving(False)
        self.visibility.fail()
        self.calls.stop()

    # -- time

    def now(self) -> ClockReading:
        """Return the time. Any thread may call it.

        What is received from now on is checked by it, so the committer learns of a clock in
        doubt here.
        """
        reading = self.clock.read(machine_time.wall_us(), machine_time.monotonic_us())
        self.core.committer.disputed_us = reading.disputed_us
        return reading

    def now_us(self) -> int:
        """Return the time in microseconds since 1970. Any thread may call it."""
        return self.now().time_us

    def clock_warnings(self) -> list[str]:
        """Return a warning while the clock is in doubt. Any thread may call it."""
        problem = self.clock.problem(self.now())
        return [] if problem is None else [problem]

    def accept_clock(self) -> int:
        """Believe the wall clock, because an operator confirms it; return it.

        Raises
        ------
        RequestError
            As `EngineClock.accept`.
        """
        committer, wall_us = self.core.committer, machine_time.wall_us()
        # Before the clock: the committer's thread may step at any moment.
        committer.is_clock_accepted = self.now().disputed_us is not None
        try:
            self.clock.accept(wall_us, machine_time.monotonic_us())
        except RequestError:
            committer.is_clock_accepted = False
            raise
        self.submitted()
        return wall_us

    # -- writing

    def submitted(self) -> None:
        """Wake the committer after something was submitted to it."""
        self._commit_bell.ring()

    async def settled(self, submit: Callable[[UnaryCall], None]) -> Response:
        """Submit a call, and return its answer once it is durable.

        Raises
        ------
        RequestError
            When it cannot be done; UNAVAILABLE when it is unknown whether it was.
        """
        settled = asyncio.Event()
        call = UnaryCall(self.core.committer, self.limits, settled.set)

        def wake() -> None:
            if self.failed:
                settled.set()

        with self.calls.call(wake):
            submit(call)
            self.submitted()
            await settled.wait()
        if not call.done:
            raise stopping_error()
        return call.response()

    async def compact(self) -> Compacted:
        """Take a checkpoint, drop the log before it, and return once that is done.

        Raises
        ------
        RequestError
            RESOURCE_EXHAUSTED when a compaction is running already; UNAVAILABLE when the
            disk fails, or the server stops.
        """
        committer = self.core.committer
        if committer.compacting:
            raise RequestError(
                Code.RESOURCE_EXHAUSTED,
                "the log is being compacted already: wait for it",
                reason="COMPACTION_IN_PROGRESS",
                retry_after_s=10.0,
            )
        outcome: asyncio.Future[Compacted | RequestError] = self._loop.create_future()

        def settle(result: Compacted | RequestError) -> None:
            if not outcome.done():  # the call may have been cancelled
                outcome.set_result(result)

        def done(result: Compacted | RequestError) -> None:
            self._loop.call_soon_threadsafe(settle, result)

        committer.check_serving()
        self.core.applier.request_checkpoint()
        committer.compact(done)
        self._threads.apply_bell.ring()
        self._commit_bell.ring()
        with self.calls.call(lambda: settle(stopping_error())):
            result = await outcome
        if isinstance(result, RequestError):
            raise result
        return result

    # -- reading

    def visible_revision(self) -> int:
        """Return the last revision that answers include. Any thread may call it."""
        return self.core.engine.revision

    def durable_revision(self) -> int:
        """Return the last revision of the log."""
        return self.core.committer.revision

    def view(self, stream: str) -> StreamView:
        """Return a stream's counts now. For query threads, because it may wait for the applier.

        Raises
        ------
        RequestError
            NOT_FOUND when there is no such stream.
        """
        view = take_view(self.core.engine, self._engine_lock, stream)
        if view is None:
            raise no_stream(stream)
        return view

    def waiting(self, stream: str) -> tuple[StreamView, WaitingPredictions]:
        """Return a stream's counts and its predictions that wait. For query threads, as `view`.

        Nothing is applied while the ids are copied.

        Raises
        ------
        RequestError
            NOT_FOUND when there is no such stream; as `take_waiting`.
        """
        found = take_waiting(self.core.engine, self._engine_lock, stream)
        if found is None:
            raise no_stream(stream)
        return found

    def list_streams(self, *, prefix: str, after: str, limit: int) -> tuple[list[StreamInfo], int]:
        """Return a page of streams and its revision. For query threads, as `view`."""
        with self._engine_lock:
            engine = self.core.engine
            return engine.streams(prefix=prefix, after=after, limit=limit), engine.revision

    def stream_revisions(self) -> Revisions:
        """Return the revisions of each stream, and the revision. For query threads, as `view`."""
        with self._engine_lock:
            return self.core.engine.revisions(), self.core.engine.revision

    def list_alarms(
        self, *, prefix: str, after: str, limit: int, open_only: bool
    ) -> tuple[list[tuple[StreamInfo, AlarmsView]], int]:
        """Return a page of detectors and its revision. For query threads, as `view`."""
        with self._engine_lock:
            engine = self.core.engine
            found = engine.alarms(prefix=prefix, after=after, limit=limit, open_only=open_only)
            return found, engine.revision

    def pair_view(self, info: PairInfo) -> PairView:
        """Return a pair's counts now. For query threads, as `view`.

        Raises
        ------
        RequestError
            NOT_FOUND when this pair was deleted, also if there is a new one of its name.
        """
        with self._engine_lock:
            view = self.core.engine.pair_view(info.name)
        if view is None or view.info != info:
            raise no_pair(info.name)
        return view

    def list_pairs(self, *, stream: str, after: str, limit: int) -> tuple[list[PairInfo], int]:
        """Return a page of pairs and its revision. For query threads, as `view`."""
        with self._engine_lock:
            engine = self.core.engine
            return engine.pairs.page(stream=stream, after=after, limit=limit), engine.revision

    def undelivered_alarms(self, limit: int) -> list[tuple[StreamInfo, Alarm]]:
        """Return open alarms that no webhook has taken. For query threads, as `view`."""
        with self._engine_lock:
            return self.core.engine.undelivered(limit)

    def changed_verdicts(
        self, limit: int
    ) -> list[tuple[StreamInfo, str, str, verdict_pb2.Verdict]]:
        """Return verdicts whose quality is another one than a webhook took last.

        Each with what was taken and the quality; of a stream at most once in `_TOLD_US`. For query
        threads, as `view`. O(streams).
        """
        found: list[tuple[StreamInfo, str, str, verdict_pb2.Verdict]] = []
        for entry, info, _, told, told_us in self._noted():
            if len(found) == limit:
                break
            if told != entry.quality and told_us + _TOLD_US <= self.now_us():
                found.append((info, told, entry.quality, entry.message().verdict))
        return found

    def uncalled_verdicts(self, limit: int) -> list[tuple[str, VerdictChange]]:
        """Return streams whose verdict has another quality than the log has, and what it is to say.

        For query threads, as `view`. O(streams), and the verdicts that changed.
        """
        found: list[tuple[str, VerdictChange]] = []
        for entry, info, called, *_ in self._noted():
            if len(found) == limit:
                break
            if called == entry.quality:
                continue
            # A list may have an older one than what was accepted since.
            now = self.engine.verdicts.of(self.view(info.name), projects=False).message()
            quality = QUALITIES[now.quality]
            if quality != called:
                since = now.returned if quality == "recovered" else now.since
                from_us = since.likeliest.ToMicroseconds()
                found.append((info.name, VerdictChange(quality, from_us=from_us)))
        return found

    def _noted(self) -> Iterator[tuple[SummaryEntry, StreamInfo, str, str, int]]:
        """Yield the streams that have a verdict, with what the log says of it. O(streams)."""
        for entry in self.summaries.verdicts():
            with self._engine_lock:
                known = self.core.engine.noted(entry.name)
            if known is not None and known[0].create_revision == entry.create_revision:
                yield entry, *known

    def export(self, stream: str) -> tuple[int, bytes]:
        """Return the revision and everything about a stream. For query threads, as `view`.

        Raises
        ------
        RequestError
            NOT_FOUND when there is no such stream.
        """
        with self._engine_lock:
            exported = self.core.engine.export(stream)
        if exported is None:
            raise no_stream(stream)
        return exported()

    def export_pair(self, info: PairInfo) -> tuple[int, bytes]:
        """Return the revision and everything about a pair. For query threads, as `view`.

        Raises
        ------
        RequestError
            As `pair_view`.
        """
        with self._engine_lock:
            exported = self.core.engine.export_pair(info)
        if exported is None:
            raise no_pair(info.name)
        return exported()

    def state_hash(self) -> tuple[int, str]:
        """Return the revision and the hash of the state. For query threads, as `view`. O(bytes)."""
        with self._engine_lock:
            engine = self.core.engine
            return engine.revision, engine.state_hash()

    async def answer(
        self, question: Hashable, compute: Callable[[], T], *, is_long: bool = False
    ) -> T:
        """Return what a query thread computes, as `QueryThreads.run`.

        A NOT_FOUND error is not final while revisions are durable but not visible: then the
        answer is computed again after they are applied. So a stream whose first batch was
        acknowledged is always found.
        """
        durable, visible = self.durable_revision(), self.visible_revision()
        try:
            return await self.queries.run(question, compute, is_long=is_long)
        except RequestError as error:
            if error.code is not Code.NOT_FOUND or visible >= durable:
                raise
        await self.visible(durable)
        return await self.queries.run(question, compute, is_long=is_long)

    async def visible(self, min_revision: int) -> None:
        """Wait until answers include a revision.

        Raises
        ------
        RequestError
            OUT_OF_RANGE when the log has not reached it, UNAVAILABLE when the server
            stops working, DEADLINE_EXCEEDED when most of the call's time is over.
        """
        durable = self.durable_revision()
        if min_revision > durable:
            raise RequestError(
                Code.OUT_OF_RANGE,
                f"min_revision must be at most the log's last revision {durable}, "
                f"got {min_revision}",
                reason="REVISION_IN_FUTURE",
                violations=(("selection.min_revision", f"the log's last revision is {durable}"),),
                metadata={"last_revision": str(durable)},
            )
        try:
            async with asyncio.timeout_at(call_deadline.get()):
                await self.visibility.wait(min_revision)
        except TimeoutError:
            raise not_visible(
                min_revision,
                durable=self.durable_revision(),
                visible=self.visible_revision(),
                lag_rows=self.core.applier.lag_rows,
            ) from None
