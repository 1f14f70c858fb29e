"""``streameval top``: the streams of a server, live, the worst first.

A thread reads; this one draws, and listens to the keyboard. While the server is
away the last reading stays, greyed, with the reason above it.
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
from streameval._metric_registry import COMPARED_NAMES
from streameval.cli._connect import transport
from streameval.cli._spans import parse_span
from streameval.cli._top_reading import Asked, Board, Reading, read
from streameval.cli._top_table import SORTS, Look, frame, table
from streameval.client import AccessError, ClientError, InvalidRequestError, UnimplementedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streameval.client._wire.transport import Transport

METRICS = tuple(sorted(COMPARED_NAMES))

_REDRAW_S = 1.0
_KEYS = "q quit   s sort   w window"
WINDOWS = (None, timedelta(days=7), timedelta(days=1), timedelta(hours=1))
"""What the key for the window goes through."""

_NEVER_BETTER = (AccessError, InvalidRequestError, UnimplementedError)
"""Waiting does not help: said at once."""


def top(
    address: str, metric: str, window: str | None, *, prefix: str, every_s: float, once: bool
) -> None:
    """Show streams until told to quit; once where nobody looks at a terminal."""
    if metric not in METRICS:
        raise StreamEvalError(f"--metric must be one of {', '.join(METRICS)}, got {metric!r:.60}")
    asked = Asked(metric, None if window is None else parse_span(window), prefix)
    console = Console(highlight=False)
    with closing(transport(address)) as server:
        if once or not console.is_terminal:
            board = Board()
            board.take(read(server, asked))
            console.print(table(board, Look(address, asked), console.width))
        else:
            _Screen(console, server, address, asked, every_s).run()


class _Reader:
    """Reads again and again, in a thread of its own.

    Parameters
    ----------
    wake
        Called after each reading, good or not.
    """

    def __init__(
        self, server: Transport, asked: Asked, every_s: float, wake: Callable[[], None]
    ) -> None:
        self.asked = asked
        self.outcome: Reading | ClientError | None = None
        self._server = server
        self._every_s = every_s
        self._wake = wake
        self._hurry = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._read, name="top", daemon=True)
        self._thread.start()

    def ask(self, asked: Asked) -> None:
        """Read something else, at once."""
        self.asked = asked
        self._hurry.set()

    def end(self) -> None:
        """Read no more."""
        self._ended = True
        self._hurry.set()

    def _read(self) -> None:
        while not self._ended:
            self._hurry.clear()
            try:
                self.outcome = read(self._server, self.asked)
            except ClientError as error:
                self.outcome = error
            self._wake()
            self._hurry.wait(self._every_s)


class _Pipe:
    """Wakes whoever waits for the keyboard."""

    def __init__(self) -> None:
        self.reading, self._writing = os.pipe()
        os.set_blocking(self.reading, False)
        os.set_blocking(self._writing, False)

    def ring(self) -> None:
        """Wake; a pipe that is full wakes anyway."""
        try:
            os.write(self._writing, b"!")
        except BlockingIOError:
            return

    def quiet(self) -> None:
        """Wait for the next ring."""
        try:
            os.read(self.reading, 4096)
        except BlockingIOError:
            return


class _Screen:
    """One terminal."""

    def __init__(
        self, console: Console, server: Transport, address: str, asked: Asked, every_s: float
    ) -> None:
        self._console = console
        self._board = Board()
        self._look = Look(address, asked)
        self._wake = _Pipe()
        self._answered_s = time.monotonic()
        self._reader = _Reader(server, asked, every_s, self._wake.ring)

    def run(self) -> None:
        """Draw until somebody quits."""
        with _stopped_in_order(), _keyboard() as keyboard:
            self._look = replace(self._look, keys=_KEYS if keyboard is not None else "")
            try:
                with Live(console=self._console, screen=True, auto_refresh=False) as live:
                    self._show(live, keyboard)
            finally:
                self._reader.end()

    def _show(self, live: Live, keyboard: int | None) -> None:
        inputs = [self._wake.reading] + ([] if keyboard is None else [keyboard])
        while True:
            self._take()
            width, height = self._console.size
            live.update(frame(self._board, self._look, width, height), refresh=True)
            ready, _, _ = select.select(inputs, [], [], _REDRAW_S)
            self._wake.quiet()
            if keyboard in ready and keyboard is not None:
                typed = os.read(keyboard, 64)
                if not typed or not self._typed(typed.decode(errors="replace")):
                    return

    def _take(self) -> None:
        outcome = self._reader.outcome
        now_s = time.monotonic()
        if isinstance(outcome, _NEVER_BETTER):
            raise outcome
        if isinstance(outcome, ClientError):
            self._look = replace(self._look, problem=str(outcome), away_s=now_s - self._answered_s)
        elif isinstance(outcome, Reading) and outcome.asked == self._look.asked:
            if outcome is not self._board.reading:
                self._board.take(outcome)
                self._answered_s = outcome.at_s
            self._look = replace(self._look, problem="")

    def _typed(self, text: str) -> bool:
        """Do what was typed; return whether to go on."""
        for key in text.lower():
            if key in "q\x03\x04":
                return False
            look = self._look
            if key == "s":
                orders = list(SORTS)
                after = orders[(orders.index(look.sort) + 1) % len(orders)]
                self._look = replace(look, sort=after)
            elif key == "w":
                window = look.asked.window
                at = WINDOWS.index(window) if window in WINDOWS else -1
                asked = replace(look.asked, window=WINDOWS[(at + 1) % len(WINDOWS)])
                self._look = replace(look, asked=asked)
                self._reader.ask(asked)
        return True


@contextmanager
def _keyboard() -> Iterator[int | None]:
    """Yield where keys can be read one by one; None where they cannot."""
    try:
        import termios  # noqa: PLC0415 - not to be had on every platform
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
def _stopped_in_order() -> Iterator[None]:
    """Leave the terminal as it was, also after Ctrl-C and SIGTERM."""

    def stop(_number: int, _frame: object) -> None:
        raise SystemExit(0)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
