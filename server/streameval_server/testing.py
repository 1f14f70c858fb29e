"""A server inside the calling process, for tests of what talks to one."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from streameval_server._grpc.server import Server
from streameval_server._process.serve import new_event_loop, shorten_switch_interval
from streameval_server._process.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

T = TypeVar("T")


@contextmanager
def running_server(settings: Settings | None = None) -> Iterator[str]:
    """Start a server on a free port, yield its address, and stop it in order.

    The server runs on an event loop in a thread of its own, so that blocking
    and asyncio clients alike can talk to it.

    Parameters
    ----------
    settings
        How to run it; by default in memory on ``127.0.0.1:0``.

    Examples
    --------
    >>> with running_server() as address:
    ...     print(address.split(":")[0])
    127.0.0.1
    """
    shorten_switch_interval()
    loop = new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="test-server", daemon=True)
    thread.start()
    try:
        server = _on(loop, _started(settings or Settings(listen="127.0.0.1:0", memory=True)))
        try:
            yield server.address
        finally:
            _on(loop, server.stop())
    finally:
        _stop(loop, thread)


async def _started(settings: Settings) -> Server:
    server = Server(settings)
    await server.start()
    return server


def _on(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, loop).result()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
