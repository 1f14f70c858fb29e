"""``streameval top`` in a terminal: a pseudo-terminal, and an emulator that reads the screen."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import termios
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("typer", reason="needs the extra cli")
pytest.importorskip("pyte", reason="pyte is not installed")
import pyte

from streameval._metric_registry import POINT_NAMES
from streameval.cli._app import app
from streameval.client import Client
from streameval_server import Settings
from streameval_server.testing import running_server

from ...commands import CommandRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEADLINE_S = 40.0
COMMAND = """
import fcntl, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from streameval.cli import main
main()
"""


class Terminal:
    """A program in a pseudo-terminal.

    Attributes
    ----------
    raw : bytes
        Everything that it wrote.
    """

    def __init__(self, *arguments: str, width: int, height: int) -> None:
        self.raw = b""
        self.screen = pyte.Screen(width, height)
        self._stream = pyte.ByteStream(self.screen)
        self._mine, self._its = os.openpty()
        termios.tcsetwinsize(self._its, (height, width))
        self.before = termios.tcgetattr(self._its)
        # A size in the environment, as test runners set, precedes the terminal's.
        environment = {k: v for k, v in os.environ.items() if k not in {"COLUMNS", "LINES"}}
        self._process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *arguments],
            stdin=self._its,
            stdout=self._its,
            stderr=self._its,
            start_new_session=True,
            env=environment | {"TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def resize(self, width: int, height: int) -> None:
        """Make the terminal larger or smaller."""
        self.screen.resize(height, width)
        termios.tcsetwinsize(self._its, (height, width))

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._mine, keys.encode())

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.send_signal(signal.SIGTERM)

    @property
    def lines(self) -> list[str]:
        """The lines on the screen, without empty ones."""
        return [line.rstrip() for line in self.screen.display if line.strip()]

    def until(self, told: Callable[[list[str]], bool]) -> list[str]:
        """Wait until the screen says something; return its lines.

        The lines may be part of a frame that is still being written: wait for specific text.
        """
        ends = time.monotonic() + DEADLINE_S
        while not told(self.lines):
            left = ends - time.monotonic()
            assert left > 0, "\n".join(self.lines)
            self._read(left)
        return self.lines

    def _read(self, left_s: float) -> bool:
        ready, _, _ = select.select([self._mine], [], [], min(left_s, 0.2))
        if not ready:
            return False
        data = os.read(self._mine, 65_536)
        self.raw += data
        self._stream.feed(data)
        return True

    def ended(self) -> int:
        """Wait for the end, and return the exit code; check that the terminal is restored."""
        code = self._process.wait(DEADLINE_S)
        while self._read(0.0):
            pass
        assert termios.tcgetattr(self._its) == self.before
        return code

    def close(self) -> None:
        """Kill the program if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._mine)
        os.close(self._its)


@contextmanager
def terminal(*arguments: str, width: int = 100, height: int = 24) -> Iterator[Terminal]:
    """Run the command in a terminal."""
    opened = Terminal(*arguments, width=width, height=height)
    try:
        yield opened
    finally:
        opened.close()


def has(pattern: str) -> Callable[[list[str]], bool]:
    """Return a predicate that finds a pattern in any line."""
    return lambda lines: any(re.search(pattern, line) for line in lines)


def fill(address: str) -> None:
    """Send cases to two streams, and predictions with some labels to a third."""
    with Client(address) as client:
        for name, scores in (("good/v1", [0.9, 0.8, 0.2, 0.1]), ("bad/v1", [0.2, 0.6, 0.7, 0.1])):
            client.stream(name).add_cases(labels=[1, 1, 0, 0] * 25, scores=scores * 25)
        stream = client.stream("byid/v2")
        stream.log_cases(ids=["a", "b", "c", "d"], scores=[0.9, 0.8, 0.4, 0.2])
        stream.label_cases(ids=["a", "b", "c"], labels=[1, 1, 0])
        client.flush()
        stream.snapshot()  # waits until the rows are visible to other clients


def names(lines: list[str]) -> list[str]:
    """Return the streams of a screen, from the top."""
    return [line.split()[0] for line in lines if re.match(r"\S+/v\d", line)]


def once(*arguments: str, width: int = 100) -> tuple[int, list[str], str]:
    """Print one table, without a terminal; return exit code, lines and errors."""
    result = CommandRunner(env={"COLUMNS": str(width)}).invoke(app, ["top", *arguments])
    return result.exit_code, [line.rstrip() for line in result.stdout.splitlines()], result.stderr


def test_a_table_once() -> None:
    """With --once, and when the output is not a terminal; worst first."""
    with running_server() as address:
        fill(address)
        for arguments in ((address,), (address, "--once")):
            code, lines, _ = once(*arguments)
            assert code == 0
            assert re.match(rf"AUC-PR  all time  {address}  3 streams, worst first  ", lines[0])
            assert lines[1].split() == (
                [
                    "stream",
                    "AUC-PR",
                    "95",
                    "%",
                    "interval",
                    "labelled",
                    "positive",
                    "cases",
                    "latest",
                ]
            )
            assert names(lines) == ["bad/v1", "byid/v2", "good/v1"]
            assert lines[4].split()[:2] == ["good/v1", "1.000"]
            assert re.search(r" 75% +66\.7% +3 +(now|\d+ s)$", lines[3])
        assert names(once(address, "--prefix", "b")[1]) == ["bad/v1", "byid/v2"]
        code, lines, _ = once(address, "--prefix", "z")
        assert (code, lines[1]) == (0, "no stream's name begins with z")
        code, lines, _ = once(address, "--metric", "auc_roc", "--window", "1h")
        assert lines[0].startswith(f"AUC-ROC  last 1 h  {address}")
        code, _, errors = once(address, "--metric", "accuracy")
        assert code == 2
        assert errors == (
            "streameval: --metric must be one of auc_pr, auc_roc, average_precision, precision, "
            "recall, specificity, f_measure, got 'accuracy'\n"
        )
    code, _, errors = once(address)
    assert (code, errors.count("\n")) == (2, 1)


def test_rates_at_the_declared_threshold() -> None:
    """A column each where a stream declares one, and its costs; a dash where another does not."""
    with running_server() as address, Client(address) as client:
        fill(address)
        client.update_stream("bad/v1", threshold=0.5)
        found = client.stream("bad/v1").snapshot()
        code, lines, _ = once(address, width=140)
        assert code == 0
        heads = lines[1].split()
        assert heads[-5:] == ["prec", "recall", "FPR", "F", "flagged"]
        cells = next(line.split() for line in lines if line.startswith("bad/v1"))
        rates = [f"{found.figures[name]:.1%}" for name in POINT_NAMES]
        assert cells[-5:] == rates
        assert " - " in next(line for line in lines if line.startswith("good/v1"))
        client.update_stream("bad/v1", cost_fp=2, cost_fn=9)
        cost = client.stream("bad/v1").snapshot().figures["expected_cost"]
        _, lines, _ = once(address, width=150)
        assert lines[1].split()[-2:] == ["flagged", "cost"]
        cells = next(line.split() for line in lines if line.startswith("bad/v1"))
        assert cells[-2:] == [rates[-1], f"{cost:.3g}"]
        code, lines, _ = once(address, "--metric", "recall", width=140)
        assert (code, lines[0].startswith("Recall  all time")) == (0, True)
        assert "no threshold" in next(line for line in lines if line.startswith("good/v1"))


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80, 200])
def test_any_width(width: int) -> None:
    """The figure is always shown, and no line is longer than the terminal."""
    with running_server() as address:
        fill(address)
        with Client(address) as client:
            stream = client.stream("a-very-long-model-name/with/many/parts/that-do-not-fit/v12345")
            stream.add_case(True, 0.5)
            client.flush()
            stream.snapshot()
        code, lines, _ = once(address, width=width)
        assert code == 0
        assert max(map(len, lines)) <= width
        assert [line.split()[1] for line in lines if line.startswith("good/v1")] == ["1.000"]
        assert any("v12345" in line or width < 20 for line in lines)


def test_a_live_screen() -> None:
    """Figures change, keys sort and change the window, the terminal is restored."""
    with running_server() as address, terminal("top", address, "--every", "0.2") as screen:
        screen.until(has("no streams yet. Send a first file of scores and labels:"))
        screen.until(has(f"streameval push scores.csv --to {address} --stream fraud/v3"))
        fill(address)
        screen.until(lambda lines: names(lines) == ["bad/v1", "byid/v2", "good/v1"])
        screen.until(lambda lines: lines[-1:] == ["q quit   s sort   w window"])
        screen.until(has(r"^stream .* moved .* new/s$"))
        with Client(address) as client:
            client.stream("good/v1").add_cases(labels=[0] * 10, scores=[0.95] * 10)
            client.flush()
        screen.until(has(r"^good/v1 .* ▼ 0\.\d{3}"))
        screen.type("s")
        screen.until(has("fallen most first"))
        screen.until(lambda lines: names(lines)[:1] == ["good/v1"])
        screen.type("sssss")
        screen.until(has("worst first"))
        screen.type("www")
        screen.until(has(r"^AUC-PR  last 1 h "))
        screen.resize(36, 10)
        screen.until(lambda lines: has("^good/v1 +0")(lines) and not has("positive")(lines))
        screen.until(lambda lines: names(lines) == ["bad/v1", "good/v1", "byid/v2"])
        screen.type("q")
        assert screen.ended() == 0
        assert screen.raw.rstrip().endswith((b"\x1b[?1049l", b"\x1b[?25h"))


def test_a_server_that_goes_and_comes_back() -> None:
    """The last figures stay, with the reason and the time; then updates continue."""
    with running_server() as address:
        fill(address)
        settings = Settings(listen=address, memory=True)
        screens = terminal("top", address, "--every", "0.2")
        screen = screens.__enter__()
        screen.until(lambda lines: len(names(lines)) == 3)
    try:
        screen.until(has(r"^no answer for \d+ s: "))
        screen.until(lambda lines: names(lines) == ["bad/v1", "byid/v2", "good/v1"])
        with running_server(settings):
            screen.until(has("no streams yet"))
            fill(address)
            screen.until(lambda lines: len(names(lines)) == 3 and not has("no answer")(lines))
            screen.terminate()
            assert screen.ended() == 0
    finally:
        screens.__exit__(None, None, None)


def test_a_server_that_is_not_there_yet() -> None:
    """The command waits for it; Ctrl-C ends the command."""
    with running_server() as address:
        pass
    with terminal("top", address, "--every", "0.2", width=60, height=8) as screen:
        screen.until(has("no answer for"))
        screen.type("\x03")
        assert screen.ended() == 0


def test_more_streams_than_lines() -> None:
    """The worst ones that fit, and the number of the others."""
    with running_server() as address:
        with Client(address) as client:
            for number in range(120):
                client.stream(f"m/v{number:03}").add_case(True, 0.5)
            client.flush()
        with terminal("top", address, "--every", "0.2", height=20) as screen:
            lines = screen.until(has("^and 104 more$"))
            assert len(names(lines)) == 16
            assert len(lines) == 20
            assert has("120 streams, worst first")(lines)
            screen.type("q")
            assert screen.ended() == 0


def test_names_stay_text() -> None:
    """A server's text cannot move the cursor: the server checks names, the command errors."""
    code, _, errors = once("localhost:1", "--prefix", "\x1b[2Jx")
    assert code == 2
    assert "\x1b" not in errors
