"""``streameval top`` in a terminal: a pseudo-terminal, and an emulator that reads the screen."""

from __future__ import annotations

import io
import json
import os
import re
import select
import signal
import subprocess
import sys
import termios
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("typer", reason="needs the extra cli")
pytest.importorskip("pyte", reason="pyte is not installed")
import numpy as np
import pyte
from rich.console import Console

from streameval import Interval, Verdict, VerdictFigure
from streameval.cli._list_reading import ORDERS, ListQuery, Reading
from streameval.cli._list_table import FrameState, _change, _happened, frame
from streameval.cli._output import out
from streameval.client import Client, StreamSummary
from streameval.client._wire.decode import read_snapshot
from streameval.client._wire.summaries import RankedStreams
from streameval.statistics import Place
from streameval.v1 import types_pb2
from streameval_server import Settings
from streameval_server._queries.summary_order import DEFAULT_ORDER as SERVER_DEFAULT_ORDER
from streameval_server._queries.summary_order import ORDERS as SERVER_ORDERS
from streameval_server.testing import running_server

from ...commands import CommandRunner, app

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


def cells(lines: list[str], name: str) -> list[str]:
    """Return the cells of a stream's row."""
    return next(line.split() for line in lines if line.startswith(name))


def test_a_table_once() -> None:
    """With --once, and when the output is not a terminal; the worst first without a base."""
    with running_server() as address, Client(address) as client:
        fill(address)
        for arguments in (("--server", address), ("--server", address, "--once")):
            code, lines, _ = once(*arguments)
            assert code == 0
            assert re.fullmatch(rf"Streams  last 1 d  {address}  \d\d:\d\d:\d\d UTC", lines[0])
            assert lines[1] == "3 streams, 3 short of labels. Alarms, then what became worse"
            heads = "stream against its base AUC-PR 95 % interval prevalence labelled"
            assert lines[2].split() == heads.split()
            assert names(lines) == ["bad/v1", "byid/v2", "good/v1"]
            assert re.search(r"^good/v1 +too early: .+ 1\.000 ", lines[5])
            assert re.search(r" 66\.7% +75%$", lines[4])
        assert names(once("--server", address, "--prefix", "b")[1]) == ["bad/v1", "byid/v2"]
        assert names(once("--server", address, "--search", "D/V")[1]) == [
            "bad/v1",
            "byid/v2",
            "good/v1",
        ]
        code, lines, _ = once("--server", address, "--limit", "2", "--order", "name", "--reverse")
        assert lines[1] == "2 of 3 streams shown, 3 short of labels. Name, reversed"
        assert names(lines) == ["good/v1", "byid/v2"]
        code, lines, _ = once("--server", address, "--prefix", "z")
        assert (code, lines[1]) == (0, "no stream's name begins with z")
        code, lines, _ = once("--server", address, "--search", "z")
        assert (code, lines[1]) == (0, "no stream's name contains z")
        code, lines, _ = once("--server", address, "--order", "auc_roc", "--window", "all")
        assert lines[0].startswith(f"Streams  all time  {address}")
        assert lines[1] == "3 streams, 3 short of labels. AUC-ROC, the worst first"
        found = client.stream("bad/v1").snapshot()
        assert f"{found.auc_roc:.3f}" in cells(lines, "bad/v1")
        code, _, errors = once("--server", address, "--order", "accuracy")
        assert code == 2
        assert re.fullmatch(
            "streameval: order_by must be one of alarms, .*, got 'accuracy'; "
            "run: streameval top --help\n",
            errors,
        )
    code, _, errors = once("--server", address)
    assert (code, errors.count("\n")) == (2, 1)


def test_every_order_is_one_of_the_server() -> None:
    """Those that the key s goes through; the first is the page's."""
    assert set(ORDERS) <= set(SERVER_ORDERS)
    assert next(iter(ORDERS)) == SERVER_DEFAULT_ORDER


def test_the_list_is_that_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Order, intervals and reasons; `streams list` prints the same."""
    with running_server() as address, Client(address) as client:
        rng, now = np.random.default_rng(20_241), datetime.now(UTC)
        for index, name in enumerate(["fell/v1", "same/v1", "rose/v1"]):
            ages = np.linspace(47, 0.1, 600)
            labels = rng.random(600) < 0.3
            distance = np.where(ages < 23, (-1.0, 2.0, 5.0)[index], 2.0)
            scores = 1 / (1 + np.exp(1 - rng.normal(size=600) - distance * labels))
            at = [now - timedelta(hours=float(age)) for age in ages]
            client.stream(name).add_cases(labels=labels, scores=scores, at=at)
        client.stream("one/v1").add_cases(labels=[0] * 9, scores=rng.random(9))
        client.flush()
        code, lines, _ = once("--server", address, width=120)
        known = client.list_summaries()
        assert (code, names(lines)) == (0, [each.stream for each in known])
        assert lines[1] == "4 streams, 4 short of labels. Alarms, then what became worse"
        for each in known[:3]:
            interval = each.snapshot.intervals["auc_pr"]
            expected = [
                *(each.stream, "too", "early:", *each.verdict.happened.split()),
                f"{each.snapshot.auc_pr:.3f}",
                *(f"{interval.lower:.3f}", "to", f"{interval.upper:.3f}"),
                f"{each.snapshot.figures['prevalence']:.1%}",
            ]
            assert cells(lines, each.stream)[: len(expected)] == expected
        assert " no positives yet " in next(line for line in lines if line.startswith("one/v1"))
        # Set where the console was made: test runners set COLUMNS before.
        monkeypatch.setattr(out, "_width", 120)
        listed = CommandRunner().invoke(app, ["streams", "list", "--server", address])
        assert [line.rstrip() for line in listed.stdout.splitlines()][1:] == lines[1:]
        as_json = CommandRunner().invoke(
            app,
            ["streams", "list", "--server", address, "--json", "--limit", "2", "--search", "V1"],
        )
        assert json.loads(as_json.stdout) == [each.to_dict() for each in known[:2]]


def test_rates_at_the_declared_threshold() -> None:
    """A column each where a stream declares one, and its costs; a dash where another does not."""
    with running_server() as address, Client(address) as client:
        fill(address)
        client.update_stream("bad/v1", threshold=0.5)
        found = client.stream("bad/v1").snapshot()
        code, lines, _ = once("--server", address, width=140)
        assert code == 0
        assert " prec   recall " in lines[2]
        rates = [f"{found.figures[name]:.1%}" for name in Place.POINT.names()[:2]]
        assert " ".join(rates) in " ".join(cells(lines, "bad/v1"))
        assert " - - " in " ".join(cells(lines, "good/v1"))
        client.update_stream("bad/v1", cost_fp=2, cost_fn=9)
        cost = client.stream("bad/v1").snapshot().figures["expected_cost"]
        _, lines, _ = once("--server", address, width=150)
        assert " recall     cost " in lines[2]
        assert " ".join([*rates, f"{cost:.3g}"]) in " ".join(cells(lines, "bad/v1"))
        code, lines, _ = once("--server", address, "--order", "f_measure", width=140)
        assert (code, names(lines)[0]) == (0, "bad/v1")
        assert f"{found.figures['f_measure']:.1%}" in cells(lines, "bad/v1")


def summary(stream: str, **attributes: object) -> StreamSummary:
    """Return a summary of a stream without figures."""
    figures = types_pb2.Snapshot(stream=stream, revision=attributes.pop("revision", 7))
    given = {"snapshot": read_snapshot(figures), "group": "", **attributes}
    return StreamSummary(stream=stream, **given)


def printed(*summaries: StreamSummary, width: int = 120, height: int | None = None) -> list[str]:
    """Return the lines of a table of these streams."""
    names = "num_alarms num_fallen num_silent num_short_of_labels num_failed num_pending"
    counts = dict.fromkeys(names.split(), 0)
    ranked = RankedStreams(
        summaries=list(summaries), num_streams=len(summaries), num_outdated=0,
        num_covered=len(summaries), **counts,
    )  # fmt: skip
    reading = Reading(ListQuery(), ranked, 0.0, datetime(2026, 1, 2, tzinfo=UTC))
    console = Console(width=width, file=io.StringIO(), highlight=False)
    console.print(frame(reading, FrameState("h:1", ListQuery()), width, height))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_alarms_projections_and_what_is_missing() -> None:
    """States in words, the projected value with its interval, why there is no figure."""
    snapshot = types_pb2.Snapshot(stream="a", revision=7)
    projected = snapshot.projection.metrics.add(name="auc_pr", projected=0.71)
    projected.interval.lower, projected.interval.upper = 0.66, 0.75
    lines = printed(
        summary("fires", alarm_state="firing", open_alarms=2, open_watches=("ranking", "recall")),
        summary("waits", alarm_state="waiting"),
        summary("quiet", alarm_state="watching"),
        summary("none"),
        summary("late", snapshot=read_snapshot(snapshot)),
        summary("broken", problem="too many cells"),
        summary("new", revision=0),
        width=200,
    )
    rows = {line.split()[0]: line for line in lines}
    assert " 2 open: ranking, recall " in rows["fires"]
    assert " waiting " in rows["waits"]
    assert " none open " in rows["quiet"]
    assert rows["none"].split()[1] == "-"
    assert " 0.710  0.660 to 0.750 " in rows["late"]
    assert " not computed " in next(line for line in lines if line.startswith("broken "))
    assert lines[-1] == "broken could not be computed: too many cells"
    assert " reading... " in rows["new"]
    assert " < 1 min" in printed(summary("s", newest=datetime(2026, 1, 2, tzinfo=UTC)))[-1]


def test_what_happened_is_the_verdicts() -> None:
    """States, the line and now minus base; marked where the verdict is worse or better."""
    at = datetime(2026, 1, 2, tzinfo=UTC)

    def told(quality: str, difference: float, happened: str, flow: str = "ok") -> Verdict:
        interval = Interval(difference - 0.03, difference + 0.03, 0.95, "m", estimate=difference)
        figure = VerdictFigure("auc_pr", 0.1, interval, interval, interval)
        return Verdict(quality, at, at, "", flow=flow, figures=(figure,), happened=happened)

    verdicts = {
        "fell": told("worse", -0.2, "fell 0.20 · since Nov 20 · country=IT"),
        "rose": told("better", 0.1, "rose 0.10"),
        "quiet": told("steady", -0.01, "no fall above 0.04", "silent"),
        "late": told("unsure", -0.04, "", "late"),
    }
    summaries = [summary(name, verdict=each) for name, each in verdicts.items()]
    summaries += [summary("none"), summary("new", verdict=Verdict("immature", at, at, ""))]
    lines = printed(*summaries, width=150)
    heads = "stream against its base from base 95 % interval AUC-PR 95 % interval"
    assert lines[2].split()[: len(heads.split())] == heads.split()
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in lines[3:]}
    line = "worse: fell 0.20 · since Nov 20 · country=IT -0.200 -0.230 to -0.170 "
    assert rows["fell"].startswith(line)
    assert rows["rose"].startswith("better: rose 0.10 +0.100 +0.070 to +0.130 ")
    assert rows["quiet"].startswith("steady, silent: no fall above 0.04 -0.010 ")
    assert rows["late"].startswith("unsure, labels late -0.040 ")
    assert rows["none"].startswith("- - - ")
    assert rows["new"].startswith("too early - - ")
    styles = {
        name: {str(span.style) for text in (_happened(each), _change(each)) for span in text.spans}
        | {str(text.style) for text in (_happened(each), _change(each))}
        for name, each in zip(verdicts, summaries, strict=False)
    }
    assert "bold red" in styles["fell"]
    assert "bold green" in styles["rose"]
    assert not any("red" in each or "green" in each for each in styles["quiet"] | styles["late"])


@pytest.mark.parametrize("height", [5, 8, 12])
def test_a_frame_has_no_more_lines_than_the_screen(height: int) -> None:
    """With reasons below the table; at least one stream is shown."""
    many = [summary(f"s{number}", problem="x" if number < 2 else "") for number in range(30)]
    lines = printed(*many, height=height)
    assert len(lines) <= max(height, 6)
    assert any(line.startswith("s0 ") for line in lines)


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
        code, lines, _ = once("--server", address, width=width)
        assert code == 0
        assert max(map(len, lines)) <= width
        assert "1.000" in cells(lines, "good/v1")
        assert any("v12345" in line or width < 20 for line in lines)


@pytest.mark.slow
def test_a_live_screen() -> None:
    """Figures change, keys sort, search and change the window, the terminal is restored."""
    with (
        running_server() as address,
        terminal("top", "--server", address, "--every", "0.2") as screen,
    ):
        screen.until(has("no streams yet. Send a first file of scores and labels:"))
        screen.until(has(f"streameval push fraud/v3 scores.csv --server {address}"))
        fill(address)
        screen.until(lambda lines: names(lines) == ["bad/v1", "byid/v2", "good/v1"])
        screen.until(lambda lines: lines[-1:] == ["q quit   s order   w window   / search"])
        screen.until(has(r"^good/v1 +too early: .+ 1\.000"))
        with Client(address) as client:
            client.stream("good/v1").add_cases(labels=[0] * 10, scores=[0.95] * 10)
            client.flush()
        screen.until(has(r"^good/v1 +too early: .+ 0\.\d{3}"))
        screen.type("s")
        screen.until(has("3 streams, 3 short of labels. The largest fall first"))
        screen.type("s" * (len(ORDERS) - 2))
        screen.until(has("3 streams, 3 short of labels. Name"))
        screen.until(lambda lines: names(lines) == ["bad/v1", "byid/v2", "good/v1"])
        screen.type("/GO")
        screen.until(has("type a part of a name   Enter keep   Esc clear"))
        screen.until(lambda lines: names(lines) == ["good/v1"])
        screen.until(has("  containing GO  "))
        screen.type("q")
        screen.until(has("no stream's name contains GOq"))
        screen.type("\x7f\r")
        screen.until(lambda lines: names(lines) == ["good/v1"])
        screen.until(lambda lines: lines[-1:] == ["q quit   s order   w window   / search"])
        screen.type("/\x1b")
        screen.until(lambda lines: len(names(lines)) == 3 and not has("containing")(lines))
        screen.type("w")
        screen.until(has("^Streams  last 1 h "))
        screen.type("w")
        screen.until(has("^Streams  all time "))
        screen.resize(36, 10)
        screen.until(lambda lines: has("^good/v1 +0")(lines) and not has("prevalence")(lines))
        screen.type("q")
        assert screen.ended() == 0
        assert screen.raw.rstrip().endswith((b"\x1b[?1049l", b"\x1b[?25h"))


@pytest.mark.slow
def test_a_server_that_goes_and_comes_back() -> None:
    """The last figures stay, with the reason and the time; then updates continue.

    The call that waits for the server is not waited for.
    """
    with running_server() as address:
        fill(address)
        settings = Settings(listen=address, memory=True)
        screens = terminal("top", "--server", address, "--every", "0.2")
        screen = screens.__enter__()
        screen.until(lambda lines: len(names(lines)) == 3)
    try:
        screen.until(has(r"^no answer for \d+ s: the server has not answered yet; "))
        screen.until(lambda lines: names(lines) == ["bad/v1", "byid/v2", "good/v1"])
        with running_server(settings):
            screen.until(has("no streams yet"))
            fill(address)
            screen.until(lambda lines: len(names(lines)) == 3 and not has("no answer")(lines))
            screen.terminate()
            assert screen.ended() == 0
    finally:
        screens.__exit__(None, None, None)


@pytest.mark.slow
def test_a_server_that_is_not_there_yet() -> None:
    """The command waits for it; Ctrl-C ends the command."""
    with running_server() as address:
        pass
    with terminal("top", "--server", address, "--every", "0.2", width=60, height=8) as screen:
        screen.until(has("no answer for"))
        screen.type("\x03")
        assert screen.ended() == 0


@pytest.mark.slow
def test_more_streams_than_lines() -> None:
    """The first ones that fit, and how many there are."""
    with running_server() as address:
        with Client(address) as client:
            for number in range(120):
                client.stream(f"m/v{number:03}").add_case(True, 0.5)
            client.flush()
        with terminal("top", "--server", address, "--every", "0.2", height=20) as screen:
            screen.until(
                has(
                    "^16 of 120 streams shown, 120 short of labels. Alarms, then what became worse$"
                )
            )
            screen.until(lambda lines: len(lines) == 20 and len(names(lines)) == 16)
            screen.type("q")
            assert screen.ended() == 0


def test_names_stay_text() -> None:
    """A server's text cannot move the cursor: the server checks names, the command errors."""
    code, _, errors = once("--server", "localhost:1", "--prefix", "\x1b[2Jx")
    assert code == 2
    assert "\x1b" not in errors
