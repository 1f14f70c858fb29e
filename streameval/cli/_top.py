"""``streameval top``: the streams of a server, live, worst first.

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
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live

from streameval._common.errors import StreamEvalError
from streameval._metric_registry import BY_NAME, COMPARED_NAMES, HEADLINE, RANKED_RATE_NAMES
from streameval.cli._connect import transport
from streameval.cli._options import parse_span
from streameval.cli._top_reading import Board, Reading, TopQuery, read
from streameval.cli._top_table import SORTS, FrameState, frame, table
from streameval.client import AccessError, ClientError, InvalidRequestError, UnimplementedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streameval.client._wire.transport import Transport

METRICS = (
    *sorted(COMPARED_NAMES),
    *(name for name in RANKED_RATE_NAMES if BY_NAME[name].better == "higher"),
)
"""What the table is sorted by, the least first."""

_REDRAW_S = 1.0
_KEYS = "q quit   s sort   w window"
WINDOWS = (None, timedelta(days=7), timedelta(days=1), timedelta(hours=1))
"""The windows that the key w cycles through."""

_PERMANENT_ERRORS = (AccessError, InvalidRequestError, UnimplementedError)
"""Errors that a retry cannot fix: they end the command."""


def top(
    address: str,
    metric: str | None,
    window: str | None,
    *,
    prefix: str,
    every_s: float,
    once: bool,
) -> None:
    """Show streams until the user quits; print them once if the output is not a terminal."""
    metric = HEADLINE if metric is None else metric
    if metric not in METRICS:
        raise StreamEvalError(f"--metric must be one of {', '.join(METRICS)}, got {metric!r:.60}")
    query = TopQuery(metric, None if window is None else parse_span(window), prefix)
    console = Console(highlight=False)
    with closing(transport(address)) as server:
        if once or not console.is_terminal:
            board = Board()
            board.update(read(server, query))
            console.print(table(board, FrameState(address, query), console.width))
        else:
            _Screen(console, server, address, query, every_s).run()


class _Reader:
    """Queries the server at an interval, in a thread of its own.

    Parameters
    ----------
    wake
        Called after each reading, successful or not.
    """

    def __init__(
        self, server: Transport, query: TopQuery, every_s: float, wake: Callable[[], None]
    ) -> None:
        self.query = query
        self.outcome: Reading | ClientError | None = None
        self._server = server
        self._every_s = every_s
        self._wake = wake
        self._wakeup = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._read, name="top", daemon=True)
        self._thread.start()

    def change_query(self, query: TopQuery) -> None:
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
            try:
                self.outcome = read(self._server, self.query)
            except ClientError as error:
                self.outcome = error
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
        self, console: Console, server: Transport, address: str, query: TopQuery, every_s: float
    ) -> None:
        self._console = console
        self._board = Board()
        self._state = FrameState(address, query)
        self._wake = _WakePipe()
        self._last_answer_s = time.monotonic()
        self._reader = _Reader(server, query, every_s, self._wake.wake)

    def run(self) -> None:
        """Draw until the user quits."""
        with _exit_on_signals(), _keyboard() as keyboard:
            self._state = replace(self._state, keys=_KEYS if keyboard is not None else "")
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
            live.update(frame(self._board, self._state, width, height), refresh=True)
            ready, _, _ = select.select(inputs, [], [], _REDRAW_S)
            self._wake.drain()
            if keyboard in ready and keyboard is not None:
                typed = os.read(keyboard, 64)
                if not typed or not self._handle_keys(typed.decode(errors="replace")):
                    return

    def _update_state(self) -> None:
        outcome = self._reader.outcome
        now_s = time.monotonic()
        if isinstance(outcome, _PERMANENT_ERRORS):
            raise outcome
        if isinstance(outcome, ClientError):
            self._state = replace(
                self._state, problem=str(outcome), outage_s=now_s - self._last_answer_s
            )
        elif isinstance(outcome, Reading) and outcome.query == self._state.query:
            if outcome is not self._board.reading:
                self._board.update(outcome)
                self._last_answer_s = outcome.at_s
            self._state = replace(self._state, problem="")

    def _handle_keys(self, text: str) -> bool:
        """Handle typed keys; return whether to continue."""
        for key in text.lower():
            if key in "q\x03\x04":
                return False
            state = self._state
            if key == "s":
                orders = list(SORTS)
                after = orders[(orders.index(state.sort) + 1) % len(orders)]
                self._state = replace(state, sort=after)
            elif key == "w":
                window = state.query.window
                at = WINDOWS.index(window) if window in WINDOWS else -1
                query = replace(state.query, window=WINDOWS[(at + 1) % len(WINDOWS)])
                self._state = replace(state, query=query)
                self._reader.change_query(query)
        return True


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
