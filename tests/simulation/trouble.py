"""Injects failures: it breaks connections, disks, clocks and servers, as the plan says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .applications import Application
from .world import S

if TYPE_CHECKING:
    from typing import Any

    from .applications import StreamingProducer


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
            server.set_clock(world.random.randrange(-20 * S, 20 * S))
        if not server.disk.broken and world.trouble(plan.outages):
            world.trace("disk", "breaks")
            server.disk.broken = True
            world.after(world.random.randrange(20 * S), self._repair)

    def _repair(self) -> None:
        self.world.trace("disk", "works again")
        self.server.disk.broken = False
