"""Simulated time, randomness, and the order of events.

Every event is on one agenda, and every choice is made by one seeded generator, so
a seed determines the whole history. The jobs of one thread never overlap; where a
real thread could be interrupted (a write, or a failpoint of the core), other threads
may run.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest import mock

from streameval_server._log import failpoints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .plan import Plan

START_US = 1_800_000_000_000_000
"""2027, on the minute."""

MS = 1_000
S = 1_000_000
MINUTE = 60 * S

_BOOT_US = 7 * S
"""The machine's uptime at the start; the monotonic clock differs from the wall clock."""

_MAX_EVENTS = 20_000
_MAX_NESTED_THREADS = 12


class ThreadKilled(BaseException):
    """The process died while this thread waited; the thread must not continue."""


class World:
    """One run.

    Parameters
    ----------
    seed : int
    plan : Plan
        The kinds and probabilities of failures.
    show : callable, optional
        Called with each line of the trace.

    Attributes
    ----------
    random : random.Random
        Makes every choice.
    now_us : int
        The true time; the clocks of processes may differ.
    calm : bool
        No more failures are injected.
    events : int
        The number of events so far.
    tally : Counter of str
        How often each kind of failure happened.
    """

    def __init__(self, seed: int, plan: Plan, show: Callable[[str], None] | None = None) -> None:
        self.random = random.Random(seed)
        self.plan = plan
        self.now_us = START_US
        self.calm = False
        self.events = 0
        self.tally: Counter[str] = Counter()
        self.running: list[Process] = []
        self._show = show
        self._agenda: list[tuple[int, float, int, Callable, tuple]] = []
        self._planned = 0

    # -- random choices

    def chance(self, probability: float) -> bool:
        """Return True with a probability."""
        return self.random.random() < probability

    def trouble(self, probability: float) -> bool:
        """Return True with a probability; never once the world is calm."""
        return not self.calm and self.random.random() < probability

    def delay_us(self) -> int:
        """Return how long an event takes: mostly milliseconds, sometimes seconds."""
        dice = self.random.random()
        if self.calm or dice < 0.7:
            return int(dice * 2 * MS)
        if dice < 0.96 or not self.plan.slow:
            return self.random.randrange(50 * MS)
        return self.random.randrange(8 * S)

    def fate_of_write(self, *, broken: bool) -> str:
        """Return the fate of a write: ``done``, or failed and ``lost``, ``kept`` or ``cached``."""
        plan, dice = self.plan, self.random.random()
        if broken:
            return "lost" if dice < 0.8 else "cached"
        if self.calm:
            return "done"
        for fate in ("lost", "kept", "cached"):
            dice -= getattr(plan, f"{fate}_writes")
            if dice < 0:
                return fate
        return "done"

    # -- the agenda

    def after(self, delay_us: int, act: Callable, *arguments: object) -> None:
        """Schedule an event; events at the same time are in random order."""
        self._planned += 1
        event = (self.now_us + delay_us, self.random.random(), self._planned, act, arguments)
        heapq.heappush(self._agenda, event)

    def soon(self, act: Callable, *arguments: object) -> None:
        """Schedule an event after a random delay."""
        self.after(self.delay_us(), act, *arguments)

    def step(self) -> bool:
        """Run the next event; return False if there is none."""
        if not self._agenda:
            return False
        self.events += 1
        assert self.events < _MAX_EVENTS, "the world does not become idle"
        time_us, _, _, act, arguments = heapq.heappop(self._agenda)
        self.now_us = max(self.now_us, time_us)
        act(*arguments)
        return True

    def meanwhile(self, probability: float = 0.5) -> None:
        """Run events of other threads while the current one waits."""
        if len(self.running) > _MAX_NESTED_THREADS or not self.chance(probability):
            return
        until_us = self.now_us + self.delay_us()
        while self._agenda and self._agenda[0][0] <= until_us:
            self.step()
        self.now_us = max(self.now_us, until_us)

    def at_failpoint(self, name: str) -> None:
        """Interrupt a thread at a failpoint of the core."""
        if not self.running:
            return
        process = self.running[-1]
        life = process.life
        self.meanwhile(self.plan.preemption)
        if process.life == life and self.trouble(self.plan.kills_at_failpoints):
            self.trace(process.name, "dies at %s", name)
            process.crash()
        if process.life != life:
            raise ThreadKilled(name)

    # -- tracing

    def trace(self, who: str, what: str, *arguments: object) -> None:
        """Write a line of the trace, if `show` was given."""
        if self._show is not None:
            time_s = (self.now_us - START_US) / S
            self._show(f"{time_s:14.6f} {who:>10} {what % arguments}")

    def clock_ns(self) -> int:
        """Return the time on the clock of the client's stamps."""
        return (self.now_us - START_US + _BOOT_US) * 1_000

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Patch the core's failpoints to this world."""
        with (
            mock.patch.dict(failpoints._armed, {"commit.before": ("count", 0)}),
            mock.patch.object(failpoints, "_hit", self.at_failpoint),
        ):
            yield


class Process:
    """A process, which can die.

    Attributes
    ----------
    name : str
    life : int
        The number of its deaths; threads of earlier lives do nothing.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.life = 0

    def crash(self) -> None:
        """Die."""
        self.life += 1


class Thread:
    """Jobs of one process, one at a time, in order."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._life = process.life
        self._jobs: deque[tuple[Callable, tuple]] = deque()
        self._busy = False
        self._missed = 0
        self._last_us = 0

    def soon(self, job: Callable, *arguments: object) -> None:
        """Queue a job to run after a random delay, and after the jobs before it."""
        world = self._process.world
        self._last_us = max(self._last_us, world.now_us + world.delay_us())
        self._jobs.append((job, arguments))
        world.after(self._last_us - world.now_us, self._turn)

    def _turn(self) -> None:
        """Run the next job, or defer it while another job of this thread runs."""
        process = self._process
        if process.life != self._life:
            return
        if self._busy:
            self._missed += 1
            return
        self._busy = True
        running = process.world.running
        running.append(process)
        try:
            self._do()
            while self._missed and process.life == self._life:
                self._missed -= 1
                self._do()
        except ThreadKilled:
            assert process.life != self._life
        finally:
            running.pop()
            self._busy = False

    def _do(self) -> None:
        job, arguments = self._jobs.popleft()
        job(*arguments)
