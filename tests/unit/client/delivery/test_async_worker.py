"""The task of an AsyncClient ends when it is told to, whatever it is doing."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

from streameval.client import UnavailableError
from streameval.client._delivery.async_connection import AsyncWorker


def test_a_stop_while_a_connection_ends_is_not_lost() -> None:
    """The writer takes a moment to end; the stop that comes then ends the worker, too."""

    async def scenario() -> None:
        ending = asyncio.Event()

        class Worker(AsyncWorker):
            async def _write(self, _call: Any) -> None:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    ending.set()
                    for _ in range(5):
                        await asyncio.sleep(0)
                    raise

        async def read() -> None:
            await asyncio.sleep(0)
            raise UnavailableError("away")

        call = SimpleNamespace(read=read, cancel=lambda: None)
        transport: Any = SimpleNamespace(ingest=lambda: call)
        settings: Any = SimpleNamespace(linger_s=0.0, timeout_s=30.0)
        worker = Worker(transport, settings)
        delivery: Any = SimpleNamespace(
            sender=SimpleNamespace(pending=True, retry_at=time.monotonic() + 1_000, settled_rows=0),
            buffer=SimpleNamespace(settled=lambda _: None),
            disconnected=lambda _error, _now_s: True,
            log_losses=lambda _now_s: None,
        )
        worker.delivery = delivery
        assert worker.start()
        await ending.wait()
        await asyncio.wait_for(worker.stop(), 10)

    asyncio.run(scenario())
