"""One seed: a world, its server and applications, and the final checks."""

from __future__ import annotations

import hashlib
import logging
import random
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from streameval_server._core.engine import Engine
from streameval_server._core.recovery import open_core
from streameval_server._core.replay import entry_of
from streameval_server._log.rows import Kind
from streameval_server._log.storage import MemoryStorage

from .applications import MergeProducer, Operator, Rows, StreamingProducer, UnaryProducer
from .disk import Disk
from .ledger import Ledger
from .plan import plan_of
from .server import Server
from .trouble import Trouble
from .world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from .applications import Application


class Outcome(NamedTuple):
    """The outcome of a run.

    Attributes
    ----------
    tally : Counter of str
        How often each kind of event happened.
    digest : str
        A digest of the whole log and the state; a seed always has the same.
    """

    tally: Counter[str]
    digest: str


def run(seed: int, show: Callable[[str], None] | None = None) -> Outcome:
    """Simulate a seed's history, and check everything.

    Raises
    ------
    AssertionError
        When a check fails.
    """
    plan = plan_of(random.Random(f"plan {seed}"))
    world = World(seed, plan, show)
    log = logging.getLogger("streameval.client")
    log.disabled = True
    try:
        with world.entered():
            return Run(world).finish()
    finally:
        log.disabled = False  # other tests of this process read it


class Run:
    """A world with its server and applications."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.disk = Disk(world)
        self.ledger = Ledger(self.disk)
        self.server = Server(world, self.disk, self.ledger)
        parts = (world, self.server, self.ledger, Rows(world))
        keys: dict[str, tuple[str, ...]] = {}
        self.streaming = [
            StreamingProducer(*parts, producer=f"producer-{number}", keys=keys)
            for number in range(world.plan.clients)
        ]
        self.applications: list[Application] = [
            *self.streaming,
            UnaryProducer(*parts),
            MergeProducer(*parts),
            Operator(*parts, keys=keys),
            Trouble(*parts, streaming=self.streaming),
        ]
        world.trace("plan", "%s", world.plan)
        self.server.start()

    def finish(self) -> Outcome:
        """Run until all applications are done and the server is idle; then check."""
        world = self.world
        while any(application.left > 0 for application in self.applications):
            world.step()
        world.trace("world", "calms down")
        world.calm = True
        self.disk.broken = False
        while not (all(each.is_done for each in self.applications) and self.server.is_idle):
            assert world.step(), "no event is left, but not all applications are done"
        self._check_clients()
        state = self._check_state()
        digest = hashlib.sha256(state.encode())
        for row in self.ledger.durable:
            digest.update(repr(row).encode())
        for row in self.ledger.durable:
            world.tally[f"log rows: {Kind(row.kind).name.lower()}"] += 1
        world.tally["events"] = world.events
        return Outcome(world.tally, digest.hexdigest())

    def _check_clients(self) -> None:
        """Check that every acked row is durable, and none counts twice."""
        self.ledger.read()
        for application in self.streaming:
            for client in application.clients:
                client.finish()
            if len(application.clients) == 1 and not application.clients[0].buffer.dropped:
                client = application.clients[0]
                if not client.refused:
                    assert not self.ledger.lost(client.producer), "rows are lost"

    def _check_state(self) -> str:
        """Compare the state with recounts of the log, from checkpoints and from replays."""
        core, server = self.server.core, self.server
        core.drain(server.clock_us())
        server.compare(core)
        self._check_sources()
        wanted = core.engine.state_hash()
        assert core.committer.marks.to_bytes() == core.engine.marks.to_bytes()
        assert core.committer.catalog == core.engine.catalog()
        restored = open_core(self.disk, server.limits)
        if not self.disk.is_rotten:
            assert restored.recovery.checkpoint_revision == restored.recovery.revision
        assert restored.engine.state_hash() == wanted, "restored from its checkpoint"
        rows = self.ledger.durable
        kept = MemoryStorage()
        kept.append(rows)  # also those that compaction dropped
        assert open_core(kept, server.limits).engine.state_hash() == wanted, "replayed"
        again = Engine(server.limits)
        until = self.world.random.randrange(len(rows) + 1)
        again.apply([entry_of(row) for row in rows[:until]])
        for row in rows[until:]:
            again.apply([entry_of(row)])
        assert again.state_hash() == wanted, f"replayed until {until}, and then row by row"
        return wanted

    def _check_sources(self) -> None:
        """No source's epoch counts twice in one life of a stream."""
        epochs: dict[str, int] = {}
        for row in self.ledger.durable:
            if row.kind == Kind.DELETE_STREAM:
                epochs.pop(row.stream, None)
            elif row.kind == Kind.MERGE:
                epoch = self.ledger.merges[row.payload].epoch
                assert epoch > epochs.get(row.stream, 0), f"merge {epoch} of {row.stream} twice"
                epochs[row.stream] = epoch
