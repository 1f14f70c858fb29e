"""The server: the product's core, run by simulated threads, through all its lives."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streameval.client import UnavailableError
from streameval_server._batch.merge import MergeInbox
from streameval_server._core.catalog import is_merged, settings_in
from streameval_server._core.committer import CommitterState
from streameval_server._core.engine_clock import EngineClock
from streameval_server._core.recovery import open_core
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._model.errors import Code, CorruptLogError, RequestError, StorageError

from .comparison import compare
from .oracle import Oracle
from .world import MS, Process, S, Thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval.v1 import ingest_pb2
    from streameval_server._core.committer import StepResult
    from streameval_server._core.recovery import ServerCore
    from streameval_server._ingest.unary_call import Response

    from .disk import Disk
    from .ledger import Ledger
    from .network import Connection
    from .world import World

    Answer = Callable[[Response | RequestError], None]

_UNAVAILABLE = RequestError(
    Code.UNAVAILABLE, "the server is away", reason="AWAY", retry_after_s=None
)
_MAX_COMPARISONS = 2
"""How often the state is compared with the oracle's before the end of a run."""


class Server(Process):
    """A server and its lives.

    Attributes
    ----------
    core : ServerCore
        The core of this life.
    is_up : bool
        Whether it accepts connections.
    connections : dict of Connection
        In the order in which they were opened.
    loop : Thread
        The event loop, which runs the sessions.
    """

    core: ServerCore
    loop: Thread

    def __init__(self, world: World, disk: Disk, ledger: Ledger) -> None:
        super().__init__(world, "server")
        self.disk = disk
        self.ledger = ledger
        self.limits = world.plan.limits
        self.is_up = False
        self.connections: dict[Connection, None] = {}
        self.oracle = Oracle(self.limits, ledger.merges)
        self.compared = 0
        self._skew_us = 0
        self.clock = EngineClock(self.limits)
        # The time up to which things were due at the start, and what the monotonic clock is
        # off by at most, before the allowed steps.
        self._first_due_us = 0
        self._justified_us = 0
        self._calls: list[_Call] = []
        self._seen = 0
        self._is_dead = True
        self._delivering = 0

    def clock_us(self) -> int:
        """Return its time, as the runtime does; the wall clock may be set."""
        reading = self.clock.read(*self._clocks())
        core = getattr(self, "core", None)  # none before the first start
        if core is not None:  # also while it drains
            core.committer.disputed_us = reading.disputed_us
        return reading.time_us

    def _clocks(self) -> tuple[int, int]:
        """Return the wall clock, and the monotonic one."""
        return self.world.now_us + self._skew_us, self.world.clock_ns() // 1_000

    def set_clock(self, skew_us: int) -> None:
        """Set the clock."""
        self.world.trace(self.name, "has its clock set to %+.1f s", skew_us / S)
        self.world.tally["clock steps"] += 1
        self._skew_us = skew_us

    def accept_clock(self) -> None:
        """Confirm the wall clock, whether it is right or wrong."""
        if not self.is_up:
            return
        self.clock_us()
        committer = self.core.committer
        committer.is_clock_accepted = committer.disputed_us is not None
        try:
            self.clock.accept(*self._clocks())
        except RequestError as error:
            committer.is_clock_accepted = False
            self.world.trace(self.name, "%s", error)
            return
        self.world.tally["accepted clocks"] += 1
        wall_us, monotonic_us = self._clocks()
        self._justified_us = max(self._justified_us, wall_us - monotonic_us)
        self.ring_commit()

    def _check_due(self) -> None:
        """Assert that nothing falls due by a step of the clock that was not accepted."""
        _, monotonic_us = self._clocks()
        held_us, received_us = self.core.committer.held_us, self.core.committer.received_us
        due_us = received_us if held_us is None else held_us
        latest_us = max(self._first_due_us, monotonic_us + self._justified_us)
        assert due_us <= latest_us + 2 * self.limits.max_clock_step_us, "a step made things due"

    # -- start and stop

    def start(self) -> None:
        """Start, and retry until the disk can be opened."""
        self._is_dead = False
        self._committing = Thread(self)
        self._committing.soon(self._open)

    def _open(self) -> None:
        world, plan = self.world, self.world.plan
        if plan.shrinks and self.life and world.chance(0.3):
            rows = world.random.choice((3, 6, 30))
            self.limits = replace(self.limits, max_batch_rows=rows)
        rotten = self.disk.is_rotten
        try:
            core = open_core(self.disk, self.limits, auto_create=plan.auto_create)
        except CorruptLogError:
            raise
        except StorageError as error:
            world.trace(self.name, "cannot start: %s", error)
            pause_us = world.random.randrange(100 * MS, 2 * S)
            world.after(pause_us, self._committing.soon, self._open)
            return
        error = core.recovery.checkpoint_error
        assert error is None or rotten, f"nothing was damaged, but recovery reports: {error}"
        world.trace(self.name, "starts: %s", core.recovery)
        self.core = core
        core.committer.monotonic_s = lambda: self._clocks()[1] / S
        self._start_clock(core)
        self.loop, self._applying = Thread(self), Thread(self)
        self._commit_rung = self._apply_rung = self._blocked = self._in_step = False
        self._check_seen()
        self.is_up = True
        self._tick(self.life)
        self.ring_commit()

    def _start_clock(self, core: ServerCore) -> None:
        wall_us, monotonic_us = self._clocks()
        last_us, held_us = core.engine.received_us, core.engine.held_us
        self.clock = EngineClock(self.limits)
        self.clock.start(wall_us, monotonic_us, last_us=last_us, held_us=held_us)
        self._first_due_us = last_us if held_us is None else held_us
        started_us = last_us + self.limits.max_downtime_us if last_us else wall_us
        self._justified_us = started_us - monotonic_us

    def crash(self) -> None:
        """Die in the middle of any work, and start again later."""
        if self._is_dead:
            return
        world = self.world
        power = world.chance(world.plan.power_cuts)
        world.trace(self.name, "crashes")
        world.tally["crashes"] += 1
        self._die()
        self.disk.crash(power=power)
        self._stay_down()

    def _die(self) -> None:
        super().crash()
        self._is_dead = True
        self.is_up = False
        self._delivering = 0
        for connection in list(self.connections):
            connection.down.cut()
            died = UnavailableError("the server died")
            self.world.soon(connection.client.ended, connection, died)
        self.connections.clear()
        calls, self._calls = self._calls, []
        for call in calls:
            call.answer(_UNAVAILABLE)

    def _stay_down(self) -> None:
        """Stay down for a while; the disk may rot meanwhile."""
        if self.world.trouble(self.world.plan.rot):
            self.world.trace("disk", "rots")
            self.disk.rot()
        self.world.soon(self.start)

    def stop(self) -> None:
        """Stop gracefully: everything that was queued is durable afterwards."""
        if self.is_up:
            self.world.trace(self.name, "is told to stop")
            self.world.tally["drains"] += 1
            self.is_up = False
            self._committing.soon(self._drain)

    def _drain(self) -> None:
        life, core = self.life, self.core
        if self._in_step or self._delivering:  # the other threads finish first
            self._committing.soon(self._drain)
            return
        self._in_step = True
        core.drain(self.clock_us())
        assert life == self.life
        serving = core.committer.state is CommitterState.SERVING
        if serving:
            assert core.committer.queued_bytes == 0
            assert core.engine.revision == core.committer.revision
            assert core.committer.checkpoint_revision == core.committer.revision
        else:
            self.disk.close()
        for connection in list(self.connections):
            connection.flush()
            connection.end(None)
        self._answer_calls()
        self.world.trace(self.name, "has stopped, %s", core.committer.state)
        self._die()
        self._stay_down()

    def compact(self) -> None:
        """Compact the log at a checkpoint."""
        if not self.is_up or self.core.committer.compacting:
            return

        def done(outcome: Any) -> None:
            self.world.trace(self.name, "has compacted: %s", outcome)
            self.world.tally["compactions"] += 1

        try:
            self.core.committer.check_serving()
        except RequestError:
            return
        self.core.applier.request_checkpoint()
        self.core.committer.compact(done)
        self._ring_apply()
        self.ring_commit()

    # -- the committing thread

    def ring_commit(self) -> None:
        """Wake the committing thread."""
        if self.is_up and not self._commit_rung:
            self._commit_rung = True
            self._committing.soon(self._commit)

    def _tick(self, life: int) -> None:
        if self.life == life and self.is_up:
            self.ring_commit()
            self.world.after(self.limits.tick_us, self._tick, life)

    def _commit(self) -> None:
        self._commit_rung = False
        if not self.is_up:
            return
        committer = self.core.committer
        before = committer.revision
        result = committer.step(self.clock_us())
        assert committer.revision >= before
        self._check_due()
        self._hand_over(result)
        self._blocked = result.blocked
        if committer.state is not CommitterState.SERVING:
            self._check_broken()
            self.world.trace(self.name, "fails: %s", committer.error)
            self._committing.soon(self._recover)
        elif result.more:
            self.ring_commit()
        elif result.blocked and not self.core.applier.lag_rows:
            self.ring_commit()  # the applier made room before it saw `blocked`

    def _recover(self) -> None:
        committer = self.core.committer
        if not self.is_up:
            return
        self._hand_over(committer.recover())
        self._check_broken()
        if committer.state is CommitterState.FAILED:
            self.world.after(50 * MS, self._committing.soon, self._recover)
        else:
            self.world.trace(self.name, "works again at revision %s", committer.revision)
            self._ring_apply()
            self.ring_commit()

    def _check_broken(self) -> None:
        committer = self.core.committer
        assert committer.state is not CommitterState.BROKEN, (
            f"the committer gave up: {committer.error}"
        )

    def _hand_over(self, result: StepResult) -> None:
        if result.outcomes:
            self._delivering += 1
            self.loop.soon(self._deliver, result)
        if result.pushed:
            self._ring_apply()

    def _deliver(self, result: StepResult) -> None:
        result.deliver()
        self._delivering -= 1
        self._answer_calls()

    # -- the applying thread

    def _ring_apply(self) -> None:
        if self.is_up and not self._apply_rung:
            self._apply_rung = True
            self._applying.soon(self._apply)

    def _apply(self) -> None:
        self._apply_rung = False
        if not self.is_up or self._in_step:
            return
        applier = self.core.applier
        self._in_step = True
        more = applier.step()
        self._in_step = False
        self.world.meanwhile(self.world.plan.preemption)
        if not self.is_up:
            return
        applier.finish_step()
        self._check_seen()
        self._answer_calls()
        if self._blocked or applier.checkpoint_pending:
            self.ring_commit()
        if more:
            self._ring_apply()

    # -- queries

    def _check_seen(self) -> None:
        """Assert that the visible revision is durable, and not lower than before."""
        self.ledger.read()
        revision = self.core.engine.revision
        assert self._seen <= revision <= len(self.ledger.durable), (
            f"revision {revision} is visible: {self._seen} was before, "
            f"{len(self.ledger.durable)} is durable"
        )
        self._seen = revision

    def query(self) -> None:
        """Compare the state with a recount of the log, up to `_MAX_COMPARISONS` times."""
        if not self.is_up or self._in_step or self.compared == _MAX_COMPARISONS:
            return
        self.compared += 1
        self._check_seen()
        self.compare(self.core)

    def compare(self, core: ServerCore) -> None:
        """Compare a core's state with a recount of the log so far."""
        self.ledger.read()
        self.oracle.read(self.ledger.durable[self.oracle.revision : core.engine.revision])
        compare(core.engine, self.oracle)

    # -- calls

    def call(self, submit: Callable[[UnaryCall], None], answer: Answer) -> None:
        """Take a call that ends when it is durable; its answer is delayed, or lost."""
        call = _Call(self, submit, answer)
        if self.is_up:
            self._calls.append(call)
            self.loop.soon(call.submit)
        else:
            call.answer(_UNAVAILABLE)

    def merge(self, requests: list[ingest_pb2.MergeRequest], answer: Answer) -> None:
        """Take a merge, which another thread validates."""
        inbox = MergeInbox(self.limits)
        call = _Call(self, lambda call: call.merge(inbox, prepared[0]), answer)
        prepared: list[Any] = []

        def collect() -> None:
            for request in requests:
                inbox.feed(request)
            catalog = self.core.committer.catalog
            if is_merged(catalog, inbox.header):
                call.answer(_DuplicateAnswer(self.core.committer.revision))
            else:
                Thread(self).soon(check, settings_in(catalog, inbox.header))

        def check(settings: Any) -> None:
            try:
                prepared.append(inbox.finish(self.clock_us(), settings))
            except RequestError as error:
                call.answer(error)
                return
            self.loop.soon(call.submit)

        if self.is_up:
            self._calls.append(call)
            self.loop.soon(collect)
        else:
            call.answer(_UNAVAILABLE)

    def _answer_calls(self) -> None:
        for call in [call for call in self._calls if call.is_over]:
            call.finish()

    def forget(self, call: _Call) -> None:
        """Stop waiting for a call."""
        if call in self._calls:
            self._calls.remove(call)

    @property
    def is_idle(self) -> bool:
        """Whether it is up and has nothing to do."""
        if not self.is_up or self._calls or self._commit_rung or self._apply_rung:
            return False
        committer, applier = self.core.committer, self.core.applier
        return (
            committer.state is CommitterState.SERVING
            and not committer.queued_bytes
            and not applier.lag_rows
            and not applier.checkpoint_pending
        )


class _DuplicateAnswer:
    """The answer to a merge that was merged before."""

    def __init__(self, revision: int) -> None:
        self.revision = revision


class _Call:
    """One unary call in progress."""

    def __init__(
        self, server: Server, submit: Callable[[UnaryCall], None], answer: Callable
    ) -> None:
        self._server = server
        self._submit = submit
        self._answer = answer
        self._call: UnaryCall | None = None

    def submit(self) -> None:
        """Submit it, in the event loop."""
        server = self._server
        if not server.is_up:
            self.answer(_UNAVAILABLE)
            return
        self._call = UnaryCall(server.core.committer, server.limits)
        try:
            self._submit(self._call)
        except RequestError as error:
            self.answer(error)
            return
        server.ring_commit()

    @property
    def is_over(self) -> bool:
        return self._call is not None and self._call.done

    def finish(self) -> None:
        """Answer the call with its outcome."""
        assert self._call is not None
        try:
            response = self._call.response()
        except RequestError as error:
            self.answer(error)
        else:
            self.answer(response)

    def answer(self, answer: Any) -> None:
        """Send the answer, which the network may lose."""
        server = self._server
        server.forget(self)
        if not isinstance(answer, RequestError):
            server.ledger.promises(answer.revision)
        world = server.world
        if world.trouble(world.plan.breaks / 3):
            answer = _UNAVAILABLE
        world.soon(self._answer, answer)
