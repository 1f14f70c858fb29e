"""The two threads of a core: the committer writes the log, the applier updates the engine.

They hand work to each other and to the event loop in bulk: one wake-up of the event loop
for each commit, not for each batch, and none for a thread that is awake anyway. Each thread
sleeps on a doorbell, which is rung after work was added for it.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import TYPE_CHECKING

from streameval import StreamEvalError
from streameval_server._core.committer import CommitterState
from streameval_server._model.threads import Doorbell, StateLock, lower_priority
from streameval_server._runtime.early_expiry import EarlyExpiry

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from streameval_server._core.committer import StepResult
    from streameval_server._core.engine_clock import ClockReading, EngineClock
    from streameval_server._core.recovery import ServerCore
    from streameval_server._model.limits import Limits
    from streameval_server._runtime.query_threads import Visibility

_log = logging.getLogger(__name__)

_IDLE_S = 0.0005
"""Seconds without new entries after which the applier counts the rows that it collected."""
_MIN_PAUSE_S = 0.05
"""Seconds before the storage is opened again after a failed commit, at first."""
_MAX_PAUSE_S = 5.0
"""Seconds before it is opened again, at most."""


class ServerFailedError(StreamEvalError):
    """The server cannot go on and has stopped; the log holds everything that was acked."""

    __module__ = "streameval_server"


class CoreThreads:
    """Runs a core in two threads.

    Parameters
    ----------
    core, limits
        The server's.
    visibility
        Told when a revision was applied for which a caller waits.
    loop
        The event loop, which delivers outcomes and runs the two callbacks.
    clock
        The server's.
    read_clock
        Returns the time, and tells the committer whether the clock is in doubt.
    on_serving
        Called with False when commits fail, and with True when they work again.
    on_failure
        Called with the error that stopped both threads.

    Attributes
    ----------
    engine_lock : StateLock
        Held while the engine changes, which queries do too: they count rows that wait.
        Readers of the engine take turns with the applier.
    commit_bell, apply_bell : Doorbell
        Wake the committer and the applier.
    early_expiry : EarlyExpiry
        Tells of it after each step of the applier.
    """

    def __init__(
        self,
        core: ServerCore,
        limits: Limits,
        visibility: Visibility,
        loop: asyncio.AbstractEventLoop,
        *,
        clock: EngineClock,
        read_clock: Callable[[], ClockReading],
        on_serving: Callable[[bool], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.engine_lock = StateLock(self._fail)
        self.commit_bell = Doorbell()
        self.apply_bell = Doorbell()
        self._core = core
        self._limits = limits
        self._visibility = visibility
        self._loop = loop
        self._clock = clock
        self._read_clock = read_clock
        self._in_doubt = False
        self.early_expiry = EarlyExpiry(core.engine)
        self._on_serving = on_serving
        self._on_failure = on_failure
        self._closing = threading.Event()
        self._commit_blocked = False
        self._pause_s = _MIN_PAUSE_S
        self._threads = [
            threading.Thread(target=self._guard, args=(work,), name=name, daemon=True)
            for name, work in (("committer", self._commit), ("applier", self._apply))
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Make both threads end after their current step. Any thread may call it."""
        self._closing.set()
        self.commit_bell.ring()
        self.apply_bell.ring()

    def join(self) -> None:
        """Wait until both threads have ended."""
        for thread in self._threads:
            thread.join()

    def _guard(self, work: Callable[[], None]) -> None:
        """Run a thread's work; any error that it raises stops the server."""
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it is reported, and it ends the server
            if not self.engine_lock.broken:  # else the lock has reported it
                self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Stop the server because of an error in the calling thread."""
        self._closing.set()
        while True:
            try:
                self._report(error)
            except MemoryError:
                time.sleep(_MIN_PAUSE_S)  # until there is room for the report
            else:
                return

    def _report(self, error: BaseException) -> None:
        name = threading.current_thread().name
        _log.critical("the %s failed; stopping", name, exc_info=error)
        # The error's own text may quote what callers sent; only the log filters that.
        failure = ServerFailedError(f"the {name} failed with {type(error).__name__}: see the log")
        failure.__cause__ = error
        self.close()
        self._loop.call_soon_threadsafe(self._on_failure, failure)

    # -- the committer

    def _commit(self) -> None:
        """Commit what is queued, until `close`."""
        committer = self._core.committer
        lower_priority()
        if committer.state is CommitterState.FAILED:
            self._recover("started for reading only, ingest is refused until there is room")
        while not self._closing.is_set():
            reading = self._read_clock()
            self._log_doubt(reading)
            result = committer.step(reading.time_us)
            self._hand_over(result)
            if result.pushed:
                self._pause_s = _MIN_PAUSE_S
            if committer.state is not CommitterState.SERVING:
                self._recover("a commit failed, its fate is unknown")
            elif result.blocked and not self._commit_blocked:
                # Check once more before sleeping: the applier may have made room before it
                # could see this flag, and would then not ring.
                self._commit_blocked = True
            elif result.blocked or not result.more:
                self.commit_bell.wait(self._limits.tick_us / 1e6)
                self._commit_blocked = False

    def _log_doubt(self, reading: ClockReading) -> None:
        """Log when the clock begins to be in doubt, and when it is trusted again."""
        problem = self._clock.problem(reading)
        if (problem is not None) != self._in_doubt:
            self._in_doubt = problem is not None
            if problem is None:
                _log.warning("the clock is trusted again: what is due expires")
            else:
                _log.warning("%s", problem)

    def _hand_over(self, result: StepResult) -> None:
        if result.outcomes:
            self._loop.call_soon_threadsafe(self._deliver, result)
        if result.pushed:
            self.apply_bell.ring()

    def _deliver(self, result: StepResult) -> None:
        """Settle outcomes, on the event loop. Nothing else would answer the calls that wait."""
        try:
            result.deliver()
        except BaseException as error:  # noqa: BLE001 - as in `_guard`
            self._fail(error)

    def _recover(self, what: str) -> None:
        """Log why; open the storage again, with pauses, until that works or `close` is called.

        Pauses grow until a commit succeeds, because a full disk can often be opened.

        Raises
        ------
        ServerFailedError
            When the storage lost what was acked.
        """
        committer = self._core.committer
        _log.error("%s: %s", what, committer.error)
        self._loop.call_soon_threadsafe(self._on_serving, False)
        while committer.state is CommitterState.FAILED and not self._closing.is_set():
            self._closing.wait(self._pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
            self._pause_s = min(2 * self._pause_s, _MAX_PAUSE_S)
            self._hand_over(committer.recover())
            if committer.state is CommitterState.FAILED:
                _log.error(
                    "still failing, next try within %.2f s: %s", self._pause_s, committer.error
                )
        if committer.state is CommitterState.BROKEN:
            raise ServerFailedError(str(committer.error)) from committer.error
        if committer.state is CommitterState.SERVING:
            _log.warning("the log is open again, at revision %d", committer.revision)
            self.apply_bell.ring()  # a checkpoint may have been requested meanwhile
            self._loop.call_soon_threadsafe(self._on_serving, True)

    # -- the applier

    def _apply(self) -> None:
        """Apply what is durable, until `close`."""
        core, visibility = self._core, self._visibility
        applier = core.applier
        lower_priority()
        while not self._closing.is_set():
            with self.engine_lock:
                more = applier.step()
            if core.engine.revision >= visibility.first_awaited:
                self._loop.call_soon_threadsafe(visibility.announce)
            applier.finish_step()
            self.early_expiry.tell(time.monotonic())
            if self._commit_blocked or applier.checkpoint_pending or core.committer.compacting:
                self.commit_bell.ring()
            if more or (applier.has_collected and self.apply_bell.wait(_IDLE_S)):
                continue
            if applier.has_collected and not core.committer.queued:
                # Counting while idle is done in small pieces, so that an ack or a query waits
                # for a small one. When more rows follow at once, large pieces cost less.
                with self.engine_lock:
                    applier.count()
                applier.finish_step()
                if applier.has_collected:
                    continue
            self.apply_bell.wait()
