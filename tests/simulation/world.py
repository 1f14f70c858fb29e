"""Time, chance, and the order in which things happen.

Everything that happens is an event on one agenda, and every choice is made by
one seeded generator, so a seed names a whole history. Threads are jobs that
never overlap within a thread; where real ones could be interrupted (a write, or
a failpoint of the core), others may run.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest import mock

from streameval.client._buffer import buffer as _buffer
from streameval.client._buffer import clock as _clock
from streameval.client._buffer import runs as _runs
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
"""What the machine's uptime is at the start: another clock than the wall's."""

_MOST_EVENTS = 20_000
_DEEPEST = 12


class Killed(BaseException):
    """The process died while this thread waited; nothing of it goes on."""


class World:
    """One run.

    Parameters
    ----------
    seed : int
    plan : Plan
        What goes wrong, and how often.
    show : callable, optional
        Takes each line of the trace.

    Attributes
    ----------
    random : random.Random
        Makes every choice.
    now_us : int
        The true time. Nobody's clock need agree.
    calm : bool
        Nothing goes wrong any more.
    events : int
        So many have happened.
    tally : Counter of str
        How often something went wrong, by what it was.
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

    # -- chance

    def chance(self, probability: float) -> bool:
        """Tell whether something happens that may happen at any time."""
        return self.random.random() < probability

    def trouble(self, probability: float) -> bool:
        """Tell whether something goes wrong."""
        return not self.calm and self.random.random() < probability

    def delay_us(self) -> int:
        """Return how long something takes: mostly nothing, now and then seconds."""
        dice = self.random.random()
        if self.calm or dice < 0.7:
            return int(dice * 2 * MS)
        if dice < 0.96 or not self.plan.slow:
            return self.random.randrange(50 * MS)
        return self.random.randrange(8 * S)

    def fate_of_write(self, *, broken: bool) -> str:
        """Return what becomes of a write: ``done``, or it fails and is lost, kept or cached."""
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
        """Let something happen later; at the same time in any order."""
        self._planned += 1
        event = (self.now_us + delay_us, self.random.random(), self._planned, act, arguments)
        heapq.heappush(self._agenda, event)

    def soon(self, act: Callable, *arguments: object) -> None:
        """Let something happen after a while."""
        self.after(self.delay_us(), act, *arguments)

    def step(self) -> bool:
        """Let the next thing happen; False when there is none."""
        if not self._agenda:
            return False
        self.events += 1
        assert self.events < _MOST_EVENTS, "it does not come to rest"
        time_us, _, _, act, arguments = heapq.heappop(self._agenda)
        self.now_us = max(self.now_us, time_us)
        act(*arguments)
        return True

    def meanwhile(self, probability: float = 0.5) -> None:
        """Let what happens in other threads happen, while one of them waits."""
        if len(self.running) > _DEEPEST or not self.chance(probability):
            return
        until_us = self.now_us + self.delay_us()
        while self._agenda and self._agenda[0][0] <= until_us:
            self.step()
        self.now_us = max(self.now_us, until_us)

    def at_failpoint(self, name: str) -> None:
        """Interrupt a thread at a named moment of the core."""
        if not self.running:
            return
        process = self.running[-1]
        life = process.life
        self.meanwhile(self.plan.preemption)
        if process.life == life and self.trouble(self.plan.kills_at_failpoints):
            self.trace(process.name, "dies at %s", name)
            process.crash()
        if process.life != life:
            raise Killed(name)

    # -- seeing

    def trace(self, who: str, what: str, *arguments: object) -> None:
        """Tell what happened, if somebody listens."""
        if self._show is not None:
            time_s = (self.now_us - START_US) / S
            self._show(f"{time_s:14.6f} {who:>10} {what % arguments}")

    def clock_ns(self) -> int:
        """Return the time on the clock of the client's stamps."""
        return (self.now_us - START_US + _BOOT_US) * 1_000

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Let the client's clock be this world's, and the core's failpoints lead here."""
        with (
            mock.patch.object(_clock, "clock_ns", self.clock_ns),
            mock.patch.object(_buffer, "clock_ns", self.clock_ns),
            mock.patch.object(_runs, "clock_ns", self.clock_ns),
            mock.patch.dict(failpoints._armed, {"commit.before": ("count", 0)}),
            mock.patch.object(failpoints, "_reached", self.at_failpoint),
        ):
            yield


class Process:
    """Something that can die.

    Attributes
    ----------
    name : str
    life : int
        Counts its deaths; a thread of an earlier life does nothing.
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
        """Let a job be done after a while, but after those that came before."""
        world = self._process.world
        self._last_us = max(self._last_us, world.now_us + world.delay_us())
        self._jobs.append((job, arguments))
        world.after(self._last_us - world.now_us, self._turn)

    def _turn(self) -> None:
        """Do the next job; later, while another one is being done."""
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
        except Killed:
            assert process.life != self._life
        finally:
            running.pop()
            self._busy = False

    def _do(self) -> None:
        job, arguments = self._jobs.popleft()
        job(*arguments)
