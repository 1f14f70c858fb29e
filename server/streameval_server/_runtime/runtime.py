"""The server's threads: one commits, one applies, two answer, and an event loop serves.

What they run is the core, which has neither threads nor clocks. Work crosses
between threads in bulk: one wake-up of the event loop for each commit, not for
each batch, and none for a thread that is awake anyway.

::

    event loop ── submit ─▶ committer ── push ─▶ applier ── engine ◀─ views ── query threads
        ▲──── outcomes ────────┘                    │
        └──── "this revision is visible" ───────────┘
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from typing import TYPE_CHECKING, TypeVar

from streameval import StreamEvalError
from streameval_server._core.committer import State
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.backup import remove_leftovers
from streameval_server._log.data_directory import LOG_NAME, DirectoryLock
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._log.storage import NullStorage
from streameval_server._model.errors import Code, RequestError, no_stream
from streameval_server._model.threads import Doorbell, FairLock, linger, lower_priority
from streameval_server._runtime.open_calls import OpenCalls, stopping_error
from streameval_server._runtime.query_threads import QueryThreads, Visibility

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from pathlib import Path

    from streameval_server._core.checkpoint_tasks import Compacted
    from streameval_server._core.committer import StepResult
    from streameval_server._ingest.unary_call import Response
    from streameval_server._model.limits import Limits
    from streameval_server._model.stream_info import StreamInfo
    from streameval_server._state.views import StreamView

T = TypeVar("T")

_log = logging.getLogger(__name__)

_IDLE_S = 0.0005
"""After so long without work there is time to count what was collected."""
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 5.0


class ServerFailedError(StreamEvalError):
    """The server cannot go on and has stopped; the log holds everything that was acked."""

    __module__ = "streameval_server"


def now_us() -> int:
    """Return the wall clock in microseconds since 1970."""
    return time.time_ns() // 1000


class Runtime:
    """Runs a core. All methods but `view` belong to the event loop's thread.

    Parameters
    ----------
    directory
        Where the log is kept; None for memory only.
    limits
        What may be held.
    auto_create
        Whether a batch for a stream that does not exist makes it.

    Attributes
    ----------
    core : ServerCore
        Set by `start`.
    directory : Path or None
        Where the log is kept.
    calls : OpenCalls
        The calls in progress.
    queries : QueryThreads
        Where answers are computed.
    visibility : Visibility
        Waits for revisions to be applied.
    """

    core: ServerCore

    def __init__(self, directory: Path | None, limits: Limits, *, auto_create: bool = True) -> None:
        self.calls = OpenCalls()
        self.queries = QueryThreads(self.visible_revision)
        self.visibility = Visibility(self.visible_revision)
        self._limits = limits
        self._auto_create = auto_create
        self.directory = directory
        self._lock: DirectoryLock | None = None
        self._engine_turn = FairLock()
        self._commit_bell = Doorbell()
        self._apply_bell = Doorbell()
        self._closing = threading.Event()
        self._commit_blocked = False
        self._pause_s = _FIRST_PAUSE_S
        self._threads: list[threading.Thread] = []

    # --- Life ---------------------------------------------------------------------------------

    async def start(self, *, on_serving: Callable[[bool], None]) -> None:
        """Take the directory, restore what it holds, and start the threads.

        Parameters
        ----------
        on_serving
            Called on the event loop with False when commits fail, and with
            True when they work again.

        Raises
        ------
        DataDirectoryInUseError, StorageError
            When the directory is taken; when its log cannot be used.
        """
        self._loop = asyncio.get_running_loop()
        self._failed: asyncio.Future[None] = self._loop.create_future()
        self._on_serving = on_serving
        if self.directory is not None:
            self._lock = DirectoryLock(self.directory)
            remove_leftovers(self.directory)
        try:
            self.core = await asyncio.to_thread(self._open)
        except BaseException:
            self._release()
            raise
        recovery = self.core.recovery
        if recovery.checkpoint_error is not None:
            _log.warning("the checkpoint could not be used: %s", recovery.checkpoint_error)
        _log.info(
            "restored revision %d: checkpoint of %d and %d log entries",
            recovery.revision,
            recovery.checkpoint_revision,
            recovery.replayed,
        )
        for name, work in (("committer", self._commit), ("applier", self._apply)):
            thread = threading.Thread(target=self._guard, args=(work,), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _open(self) -> ServerCore:
        storage = (
            NullStorage() if self.directory is None else SqliteStorage(self.directory / LOG_NAME)
        )
        return open_core(storage, self._limits, auto_create=self._auto_create)

    async def stop(self) -> None:
        """Stop the threads; commit and apply what is queued, write a checkpoint, close."""
        self._closing.set()
        self._commit_bell.ring()
        self._apply_bell.ring()
        await asyncio.to_thread(self._join)
        self.queries.stop()
        if self.failed:
            # What is in memory is not to be trusted; the log is.
            self.core.storage.close()
        else:
            await asyncio.to_thread(self.core.drain, now_us())
        self._release()

    def _join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def failed(self) -> bool:
        """Whether the server cannot go on."""
        return self._failed.done()

    async def wait_failed(self) -> None:
        """Wait until the server cannot go on, and raise why."""
        await asyncio.shield(self._failed)

    def _fail(self, error: BaseException) -> None:
        if not self._failed.done():
            self._failed.set_exception(error)
            self._failed.exception()  # somebody may look at it, nobody has to
        self._on_serving(False)
        self.visibility.fail()
        self.calls.stop()

    def _guard(self, work: Callable[[], None]) -> None:
        """Run a thread's work; whatever it raises stops the server."""
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it is reported, and it ends the server
            _log.critical("the %s failed; stopping", threading.current_thread().name, exc_info=True)
            # What the error says may quote what callers sent; the log knows what to leave out.
            failure = ServerFailedError(
                f"the {threading.current_thread().name} failed with {type(error).__name__}: "
                "see the log"
            )
            failure.__cause__ = error
            self._closing.set()
            self._commit_bell.ring()
            self._apply_bell.ring()
            self._loop.call_soon_threadsafe(self._fail, failure)

    # --- Writing ------------------------------------------------------------------------------

    def submitted(self) -> None:
        """Say that something was submitted to the committer."""
        self._commit_bell.ring()

    async def settled(self, submit: Callable[[UnaryCall], None]) -> Response:
        """Submit a call, and return its answer once it is durable.

        Raises
        ------
        RequestError
            When it cannot be done; UNAVAILABLE when nobody knows whether it was.
        """
        settled = asyncio.Event()
        call = UnaryCall(self.core.committer, self._limits, settled.set)

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
            RESOURCE_EXHAUSTED when somebody does it already; UNAVAILABLE when the
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

        def settle(told: Compacted | RequestError) -> None:
            if not outcome.done():  # its caller may have given up
                outcome.set_result(told)

        def done(told: Compacted | RequestError) -> None:
            self._loop.call_soon_threadsafe(settle, told)

        committer.check_serving()
        self.core.applier.request_checkpoint()
        committer.compact(done)
        self._apply_bell.ring()
        self._commit_bell.ring()
        with self.calls.call(lambda: settle(stopping_error())):
            told = await outcome
        if isinstance(told, RequestError):
            raise told
        return told

    def _commit(self) -> None:
        """Commit whatever is queued, until told to close."""
        committer = self.core.committer
        lower_priority()
        while not self._closing.is_set():
            # A transaction costs what writing several batches does.
            linger(lambda: committer.queued)
            result = committer.step(now_us())
            self._hand_over(result)
            if result.pushed:
                self._pause_s = _FIRST_PAUSE_S
            if committer.state is not State.SERVING:
                self._recover()
            elif result.blocked and not self._commit_blocked:
                # Look once more: the applier may have made room before it could
                # see that somebody waits for it.
                self._commit_blocked = True
            elif result.blocked or not result.more:
                self._commit_bell.wait(self._limits.tick_us / 1e6)
                self._commit_blocked = False

    def _hand_over(self, result: StepResult) -> None:
        if result.outcomes:
            self._loop.call_soon_threadsafe(result.deliver)
        if result.pushed:
            self._apply_bell.ring()

    def _recover(self) -> None:
        """Open the storage again, with growing pauses, until that works or it is told to close.

        Pauses go on growing until a commit succeeds: a full disk may well be opened.

        Raises
        ------
        ServerFailedError
            When the storage lost what was acked.
        """
        committer = self.core.committer
        _log.error("a commit failed, its fate is unknown: %s", committer.error)
        self._loop.call_soon_threadsafe(self._on_serving, False)
        while committer.state is State.FAILED and not self._closing.is_set():
            self._closing.wait(self._pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
            self._hand_over(committer.recover())
            if committer.state is State.FAILED:
                _log.error(
                    "still failing, next try within %.2f s: %s", self._pause_s, committer.error
                )
        if committer.state is State.BROKEN:
            raise ServerFailedError(str(committer.error)) from committer.error
        if committer.state is State.SERVING:
            _log.warning("the log is open again, at revision %d", committer.revision)
            self._apply_bell.ring()  # a checkpoint may have been asked for meanwhile
            self._loop.call_soon_threadsafe(self._on_serving, True)

    def _apply(self) -> None:
        """Apply what is durable, until told to close."""
        applier = self.core.applier
        lower_priority()
        while not self._closing.is_set():
            with self._engine_turn:
                more = applier.step()
            if self.visibility.wanted(self.core.engine.revision):
                self._loop.call_soon_threadsafe(self.visibility.announce)
            applier.finish_step()
            if self._commit_blocked or applier.checkpoint_pending or self.core.committer.compacting:
                self._commit_bell.ring()
            if more or (applier.has_collected and self._apply_bell.wait(_IDLE_S)):
                continue
            if applier.has_collected and not self.core.committer.queued:
                # Who waits for an ack or an answer meanwhile waits for a small piece. At full
                # speed, when more is to come, large ones cost less.
                with self._engine_turn:
                    applier.count()
                applier.finish_step()
            self._apply_bell.wait()

    # --- Reading ------------------------------------------------------------------------------

    def visible_revision(self) -> int:
        """Return the last revision that answers include. Any thread may call it."""
        return self.core.engine.revision

    def durable_revision(self) -> int:
        """Return the last revision of the log."""
        return self.core.committer.revision

    def view(self, stream: str) -> StreamView:
        """Return a stream's counts now. For query threads: may wait for the applier.

        Raises
        ------
        RequestError
            NOT_FOUND when there is no such stream.
        """
        engine = self.core.engine
        view = engine.unchanged_view(stream)
        if view is None:
            with self._engine_turn:
                view = engine.view(stream)
        if view is None:
            raise no_stream(stream)
        return view

    def list_streams(self, *, prefix: str, after: str, limit: int) -> tuple[list[StreamInfo], int]:
        """Return a page of streams and its revision. For query threads, as `view`."""
        with self._engine_turn:
            engine = self.core.engine
            return engine.streams(prefix=prefix, after=after, limit=limit), engine.revision

    def export(self, stream: str) -> tuple[int, bytes]:
        """Return the revision and everything about a stream. For query threads, as `view`.

        Raises
        ------
        RequestError
            NOT_FOUND when there is no such stream.
        """
        with self._engine_turn:
            exported = self.core.engine.export(stream)
        if exported is None:
            raise no_stream(stream)
        return exported()

    def state_hash(self) -> tuple[int, str]:
        """Return the revision and the hash of the state. For query threads, as `view`. O(bytes)."""
        with self._engine_turn:
            engine = self.core.engine
            return engine.revision, engine.state_hash()

    async def answer(
        self, question: Hashable, compute: Callable[[], T], *, is_long: bool = False
    ) -> T:
        """Return what a query thread computes, as `QueryThreads.run`.

        What was not found is looked for once more when all is visible that was
        durable when it was asked for: a stream whose first batch was acked is there.
        """
        durable, visible = self.durable_revision(), self.visible_revision()
        try:
            return await self.queries.run(question, compute, is_long=is_long)
        except RequestError as error:
            if error.code is not Code.NOT_FOUND or visible >= durable:
                raise
        await self.visibility.wait(durable)
        return await self.queries.run(question, compute, is_long=is_long)

    async def visible(self, min_revision: int) -> None:
        """Wait until answers include a revision.

        Raises
        ------
        RequestError
            OUT_OF_RANGE when the log has not come so far, UNAVAILABLE when the
            server stops working.
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
        await self.visibility.wait(min_revision)
