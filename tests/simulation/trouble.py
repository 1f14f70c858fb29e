"""Injects failures: it breaks connections, disks, clocks and servers, as the plan says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .applications import Application
from .world import S

if TYPE_CHECKING:
    from typing import Any

    from .applications import StreamingProducer


_STEPS_US = (20 * S, 20 * S, 3600 * S, 3 * 86_400 * S, 400 * 86_400 * S)
"""The largest steps of the clock."""


class Trouble(Application):
    """Injects failures until the other applications are done."""

    def __init__(self, *arguments: Any, streaming: list[StreamingProducer]) -> None:
        super().__init__(*arguments)
        self.left = -1
        self._streaming = streaming

    @property
    def is_done(self) -> bool:
        """Always true, because the run does not wait for it."""
        return True

    def operate(self) -> None:
        """Inject failures, each with its probability in the plan."""
        world, plan, server = self.world, self.world.plan, self.server
        if world.calm:
            self.left = 0
            return
        for application in self._streaming:
            for client in application.clients:
                if client.connection is not None and world.trouble(plan.breaks):
                    world.trace(client.name, "loses its connection")
                    client.connection.lose()
        if world.trouble(plan.crashes):
            server.crash()
        if world.trouble(plan.drains):
            server.stop()
        if world.trouble(plan.compactions):
            server.compact()
        if world.trouble(plan.clock_steps):
            self._step_clock()
        if not server.disk.broken and world.trouble(plan.outages):
            world.trace("disk", "breaks")
            server.disk.broken = True
            world.after(world.random.randrange(20 * S), self._repair)

    def _step_clock(self) -> None:
        """Set the clock; an operator may confirm it, right or wrong."""
        world, server = self.world, self.server
        largest_us = world.random.choice(_STEPS_US)
        server.set_clock(world.random.randrange(-largest_us, largest_us))
        if world.random.random() < 0.2:
            world.after(world.random.randrange(60 * S), server.accept_clock)

    def _repair(self) -> None:
        self.world.trace("disk", "works again")
        self.server.disk.broken = False
