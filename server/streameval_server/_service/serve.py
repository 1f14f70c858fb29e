"""Runs a server until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING

from prometheus_client import disable_created_metrics

from streameval import StreamEvalError, __version__
from streameval.checks import slow_sort_features
from streameval_server._log import failpoints
from streameval_server._model.server_settings import SettingsError
from streameval_server._service.allocator import limit_arenas, trim_heap
from streameval_server._service.logs import configure
from streameval_server._service.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval_server._model.server_settings import Settings
    from streameval_server._service.service import Addresses

_log = logging.getLogger(__name__)

_SWITCH_INTERVAL_S = 0.0005

_OPEN_FILES = 4_096
"""Enough for 1,000 connections on each port, and for connections that are closing."""


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's event loop where it is installed, else asyncio's."""
    try:
        import uvloop  # noqa: PLC0415 - not available on every platform
    except ModuleNotFoundError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def shorten_switch_interval() -> None:
    """Shorten the time for which a computing thread may hold the interpreter's lock.

    With Python's default of 5 ms a busy thread would delay every ack by up to 5 ms.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL_S)


async def serve(settings: Settings, *, on_ready: Callable[[Addresses], None]) -> None:
    """Run a server until SIGTERM or SIGINT, then stop it cleanly.

    Parameters
    ----------
    settings
        The server's settings.
    on_ready
        Called once, when the server answers requests.

    Raises
    ------
    StreamEvalError
        When it cannot start (see `Server.start`), or fails while it runs.
    """
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        _log.info("stopping", extra={"fields": {"signal": number.name}})
        service.stop()

    def ready(addresses: Addresses) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop, number)
        on_ready(addresses)

    service = Service(settings, ready)
    await service.serve()


_MAX_YOUNG_OBJECTS = 10_000
"""New containers between two collections. A request of a thousand events makes ten thousand,
which all live until it is answered: Python's 700 has the collector look at them over and over."""


def run(settings: Settings) -> None:
    """Run a server until SIGTERM or SIGINT, and print the addresses that it listens on.

    Everything that the process writes to stderr is in the settings' format.

    Raises
    ------
    StreamEvalError
        As `serve`. With the format JSON it is logged, and the process exits with 1.
    """
    configure(settings.log_format, settings.log_level)
    try:
        _prepare(settings)
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(serve(settings, on_ready=_ready))
    except StreamEvalError as error:
        # Callers print it as a line of text.
        if settings.log_format != "json":
            raise
        _log.critical("%s", error)
        sys.exit(1)


def _prepare(settings: Settings) -> None:
    """Log the start, and set up the process."""
    started: dict[str, object] = {
        "version": __version__,
        "data": settings.directory(),
        "pid": os.getpid(),
    }
    slow = slow_sort_features()
    if slow:  # a program that is the server alone has started again without them
        started["advice"] = (
            "numpy sorts five times faster on this processor without AVX-512: start with "
            f'NPY_DISABLE_CPU_FEATURES="{slow}"'
        )
    _log.info("starting", extra={"fields": started})
    _arm_failpoints()
    disable_created_metrics()  # type: ignore[no-untyped-call]  # one series for a counter
    limit_arenas()
    shorten_switch_interval()
    _raise_file_limit()
    # Imported modules live for ever: without them a full collection is 20 ms shorter.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_MAX_YOUNG_OBJECTS)


def _raise_file_limit() -> None:
    """Allow as many open files as connections and the log need; many systems default to 1,024."""
    try:
        import resource  # noqa: PLC0415 - not available on every platform
    except ModuleNotFoundError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _arm_failpoints() -> None:
    text = os.environ.get(failpoints.VARIABLE, "")
    try:
        failpoints.arm(text)
    except ValueError as error:
        raise SettingsError(f"{failpoints.VARIABLE}: {error}") from error
    if text:
        _log.warning("failpoints are armed: %s", text)


def _ready(addresses: Addresses) -> None:
    """Tidy up after the start, and print the addresses."""
    trim_heap()
    _announce(addresses)


def _announce(addresses: Addresses) -> None:
    print(f"listening on {addresses.grpc}", flush=True)
    if addresses.http is not None:
        print(f"the page is at {addresses.http}/", flush=True)
    if addresses.intake is not None:
        print(f"CloudEvents and logs without tokens go to {addresses.intake}", flush=True)
