"""``streameval top``: the streams of a server in the order of the page, live.

A reader thread queries the server; the main thread draws and reads the keyboard. While
the server is unavailable the last reading stays, dimmed, with the reason above it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live

from streameval.cli import _output
from streameval.cli._connection import connection, transport
from streameval.cli._list_reading import ORDERS, ListQuery, Reading, read, read_complete
from streameval.cli._list_table import FrameState, frame
from streameval.client import AccessError, ClientError, InvalidRequestError, UnimplementedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streameval.client._wire.transport import Transport

_REDRAW_S = 1.0
_KEYS = "q quit   s order   w window   / search"
_SEARCH_KEYS = "type a part of a name   Enter keep   Esc clear"
_MAX_SEARCH = 256
_MAX_SCREEN_STREAMS = 200
"""Streams that a screen reads at most: more lines than a terminal has."""
WINDOWS = (timedelta(days=1), timedelta(hours=1), None, timedelta(days=7))
"""The windows that the key w cycles through."""

_LATE_S = 3.0
"""A call that takes longer is shown as an outage: reads wait for a server that restarts."""
_LATE = "the server has not answered yet; a call waits for it"

_PERMANENT_ERRORS = (AccessError, InvalidRequestError, UnimplementedError)
"""Errors that a retry cannot fix: they end the command."""


def top(query: ListQuery, *, every_s: float, once: bool) -> None:
    """Show streams until the user quits; print them once if the output is not a terminal."""
    console = _output.console()
    with closing(transport()) as server:
        if once or not console.is_terminal:
            reading = read_complete(server, query)
            console.print(frame(reading, FrameState(connection().address, query), console.width))
        else:
            limit = min(query.limit or _MAX_SCREEN_STREAMS, _MAX_SCREEN_STREAMS)
            _Screen(console, server, replace(query, limit=limit), every_s).run()


class _Poller:
    """Queries the server at an interval, in a thread of its own.

    Parameters
    ----------
    wake
        Called after each reading, successful or not.
    """

    def __init__(
        self, server: Transport, query: ListQuery, every_s: float, wake: Callable[[], None]
    ) -> None:
        self.query = query
        self.outcome: Reading | ClientError | None = None
        self.asked_s: float | None = None
        """When the call under way began; None between calls."""
        self._server = server
        self._every_s = every_s
        self._wake = wake
        self._wakeup = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._read, name="top", daemon=True)
        self._thread.start()

    def change_query(self, query: ListQuery) -> None:
        """Read with another query, at once."""
        self.query = query
        self._wakeup.set()

    def stop(self) -> None:
        """Stop the thread after its current call."""
        self._stopped = True
        self._wakeup.set()

    def _read(self) -> None:
        while not self._stopped:
            self._wakeup.clear()
            self.asked_s = time.monotonic()
            try:
                self.outcome = read(self._server, self.query)
            except ClientError as error:
                self.outcome = error
            self.asked_s = None
            self._wake()
            self._wakeup.wait(self._every_s)


class _WakePipe:
    """A pipe that wakes the main thread out of its wait for the keyboard."""

    def __init__(self) -> None:
        self.reading, self._writing = os.pipe()
        os.set_blocking(self.reading, False)
        os.set_blocking(self._writing, False)

    def wake(self) -> None:
        """Wake the main thread; a full pipe does so already."""
        try:
            os.write(self._writing, b"!")
        except BlockingIOError:
            return

    def drain(self) -> None:
        """Remove pending wake-ups."""
        try:
            os.read(self.reading, 4096)
        except BlockingIOError:
            return


class _Screen:
    """Draws the table and handles the keys of one terminal."""

    def __init__(
        self, console: Console, server: Transport, query: ListQuery, every_s: float
    ) -> None:
        self._console = console
        self._reading: Reading | None = None
        self._is_searching = False
        self._state = FrameState(connection().address, query)
        self._wake = _WakePipe()
        self._has_keys = False
        self._last_answer_s = time.monotonic()
        self._reader = _Poller(server, query, every_s, self._wake.wake)

    def run(self) -> None:
        """Draw until the user quits."""
        with _exit_on_signals(), _keyboard() as keyboard:
            self._has_keys = keyboard is not None
            try:
                with Live(console=self._console, screen=True, auto_refresh=False) as live:
                    self._show(live, keyboard)
            finally:
                self._reader.stop()

    def _show(self, live: Live, keyboard: int | None) -> None:
        inputs = [self._wake.reading] + ([] if keyboard is None else [keyboard])
        while True:
            self._update_state()
            width, height = self._console.size
            live.update(frame(self._reading, self._state, width, height), refresh=True)
            ready, _, _ = select.select(inputs, [], [], _REDRAW_S)
            self._wake.drain()
            if keyboard in ready and keyboard is not None:
                typed = os.read(keyboard, 64)
                if not typed or not self._handle_keys(typed.decode(errors="replace")):
                    return

    def _update_state(self) -> None:
        keys = _SEARCH_KEYS if self._is_searching else _KEYS
        self._state = replace(self._state, keys=keys if self._has_keys else "")
        outcome, asked_s = self._reader.outcome, self._reader.asked_s
        now_s = time.monotonic()
        is_late = asked_s is not None and now_s - asked_s > _LATE_S
        if isinstance(outcome, _PERMANENT_ERRORS):
            raise outcome
        if is_late or isinstance(outcome, ClientError):
            problem = str(outcome) if isinstance(outcome, ClientError) else _LATE
            self._state = replace(
                self._state, problem=problem, outage_s=now_s - self._last_answer_s
            )
        elif isinstance(outcome, Reading) and outcome.query == self._state.query:
            self._reading = outcome
            self._last_answer_s = outcome.at_s
            self._state = replace(self._state, problem="")

    def _handle_keys(self, text: str) -> bool:
        """Handle typed keys; return whether to continue."""
        for key in text:
            if key in "\x03\x04" or (key in "qQ" and not self._is_searching):
                return False
            if self._is_searching:
                self._search(key)
            elif key in "sS":
                orders = list(ORDERS)
                order = self._state.query.order
                at = orders.index(order) if order in orders else -1
                self._ask(order=orders[(at + 1) % len(orders)])
            elif key in "wW":
                window = self._state.query.window
                at = WINDOWS.index(window) if window in WINDOWS else -1
                self._ask(window=WINDOWS[(at + 1) % len(WINDOWS)])
            elif key == "/":
                self._is_searching = True
        return True

    def _search(self, key: str) -> None:
        """Handle a key while a search is typed; the list follows each of them."""
        search = self._state.query.search
        if key in "\r\n":
            self._is_searching = False
        elif key == "\x1b":
            self._is_searching = False
            self._ask(search="")
        elif key in "\x7f\b":
            self._ask(search=search[:-1])
        elif key.isprintable() and len(search) < _MAX_SEARCH:
            self._ask(search=search + key)

    def _ask(self, **changes: Any) -> None:
        """Read with another query, at once."""
        query = replace(self._state.query, **changes)
        self._state = replace(self._state, query=query)
        self._reader.change_query(query)


@contextmanager
def _keyboard() -> Iterator[int | None]:
    """Yield a descriptor that reads single keys; None where that is not possible."""
    try:
        import termios  # noqa: PLC0415 - not available on every platform
        import tty  # noqa: PLC0415 - as above
    except ModuleNotFoundError:
        yield None
        return
    if not sys.stdin.isatty():
        yield None
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextmanager
def _exit_on_signals() -> Iterator[None]:
    """Exit by SystemExit on SIGINT and SIGTERM, so that the terminal is restored."""

    def stop(_number: int, _frame: object) -> None:
        raise SystemExit(0)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
