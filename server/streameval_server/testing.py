"""Runs a server inside the calling process, for tests of its clients."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from streameval_server._model.server_settings import HTTP_OFF, Settings
from streameval_server._service.serve import new_event_loop, shorten_switch_interval
from streameval_server._service.service import Addresses, Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_IN_MEMORY = Settings(listen="127.0.0.1:0", memory=True)


@contextmanager
def running_service(settings: Settings = _IN_MEMORY) -> Iterator[Addresses]:
    """Start a server on free ports, yield its addresses, and stop it cleanly.

    The server runs on an event loop in a thread of its own, so blocking and
    asyncio clients alike can call it.

    Parameters
    ----------
    settings
        The server's settings; by default in memory on ``127.0.0.1:0``.

    Raises
    ------
    StreamEvalError
        When the server cannot start, or fails while it runs.

    Examples
    --------
    >>> with running_service() as addresses:
    ...     print(addresses.http.rpartition(":")[0])
    http://127.0.0.1
    """
    shorten_switch_interval()
    ready: Future[tuple[Addresses, Callable[[], None]]] = Future()
    ended: Future[None] = Future()
    thread = threading.Thread(
        target=_run, args=(settings, ready, ended), name="test-server", daemon=True
    )
    thread.start()
    try:
        addresses, stop = ready.result()
        try:
            yield addresses
        finally:
            stop()
            ended.result()
    finally:
        thread.join()


@contextmanager
def running_server(settings: Settings = _IN_MEMORY) -> Iterator[str]:
    """Start a server without HTTP, as `running_service`, and yield its ``HOST:PORT``.

    Examples
    --------
    >>> with running_server() as address:
    ...     print(address.split(":")[0])
    127.0.0.1
    """
    with running_service(replace(settings, http=HTTP_OFF)) as addresses:
        yield addresses.grpc


def _run(
    settings: Settings,
    ready: Future[tuple[Addresses, Callable[[], None]]],
    ended: Future[None],
) -> None:
    """Run a service in this thread; resolve `ready` with its addresses, `ended` at its end."""

    async def serve() -> None:
        loop = asyncio.get_running_loop()

        def on_ready(addresses: Addresses) -> None:
            ready.set_result((addresses, lambda: _called(loop, service.stop)))

        service = Service(settings, on_ready)
        await service.serve()

    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(serve())
    except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
        if ready.done():
            ended.set_exception(error)
        else:
            ready.set_exception(error)
    else:
        ended.set_result(None)


def _called(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    if not loop.is_closed():  # the loop ends by itself when the server fails
        loop.call_soon_threadsafe(function)
