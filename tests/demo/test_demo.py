"""The demo's streams on a server: each thing that the demo is to show is there when it is asked."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import numpy as np
import pytest
from feed import HOUR_US, Feed
from fill import Filler
from story import told
from streams import ALL, CHALLENGER, CHAMPION, COUNTRIES, PAIR

from streameval.client import Client
from streameval_server.testing import running_service

if TYPE_CHECKING:
    from collections.abc import Iterator

DEMO = Path(__file__).parents[2] / "demo"
NAMES = {model.stream for traffic in ALL for model in traffic.models}
HOUR, DAY, WEEK, MONTH = (timedelta(hours=hours) for hours in (1, 24, 7 * 24, 30 * 24))


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Return a client of a server with the demo's streams."""
    with (
        running_service() as addresses,
        Client(addresses.grpc, timeout_s=60) as client,
        Filler(client, addresses.grpc, now_us=time.time_ns() // 1_000) as filler,
    ):
        filler.fill()
        yield client


def test_the_same_cases_come_however_they_are_taken() -> None:
    """In one step or in many; each label comes once, and never before its case."""
    traffic, now_us = ALL[0], 1_800_000_000_000_000
    whole, cut = Feed(traffic, now_us, 5), Feed(traffic, now_us, 5)
    end_us = whole.begin_us + 5 * HOUR_US
    looks = [int(each) for each in np.linspace(cut.begin_us, end_us, 14)]
    steps = [cut.take(until_us) for until_us in looks]
    for place, at_once in enumerate(whole.take(end_us)):
        parts = [step[place] for step in steps]
        numbers = np.concatenate([each.numbers for each in parts])
        scores = np.concatenate([each.scores for each in parts])
        assert len(set(numbers)) == numbers.size > 20
        assert sorted(numbers) == sorted(at_once.numbers)
        order, expected = np.argsort(numbers), np.argsort(at_once.numbers)
        assert np.array_equal(scores[order], at_once.scores[expected])
    for until_us, (came, known) in zip(looks, steps, strict=True):
        assert (came.at_us <= until_us).all()
        assert (known.labelled_us <= until_us).all()
        assert (known.labelled_us > known.at_us).all()


@pytest.mark.slow
class TestWhatIsThere:
    """Asked of the server, not of the definitions."""

    def test_eight_streams_with_history(self, client: Client) -> None:
        """What has labels has intervals over a day, a week and a month, each of more cases."""
        assert {info.name for info in client.list_streams()} == NAMES
        assert len(NAMES) == 8
        without = {DAY: {"claims/v1", "spam/v2"}, WEEK: set(), MONTH: set()}
        cases: dict[str, list[int]] = {name: [] for name in NAMES}
        for window, absent in without.items():
            for name in NAMES:
                found = client.stream(name).snapshot(window=window, metrics=["auc_pr"])
                has_none = found.intervals.get("auc_pr") is None
                assert has_none == (name in absent | {"leads/v1"}), (name, window)
                cases[name].append(found.num_cases)
        for name in NAMES - {"leads/v1", "returns/v1"}:
            of_day, of_week, of_month = cases[name]
            assert of_day < of_week / 4 < of_month / 8, name

    def test_one_country_fell_with_a_deployment(self, client: Client) -> None:
        """Italy alone, of five, between the hours before and after the deployment."""
        stream, now = client.stream(CHAMPION), datetime.now(UTC)
        deployed = client.list_marks(CHAMPION)[-1].time
        since, before = (deployed + HOUR, now), (deployed - 3 * WEEK, deployed - HOUR)
        for country in COUNTRIES:
            spans = (
                stream.select(window=span, segment=("country", country)) for span in (since, before)
            )
            change = client.compare(*spans, metric="auc_roc")
            if country == "IT":
                assert change.upper < -0.2
            else:
                assert abs(change.difference) < 0.02
        worst, *_ = stream.rank_segments("country", metric="auc_roc", window=since)
        assert worst.segment == ("country", "IT")
        days = [(deployed + HOUR, deployed + DAY), (deployed - DAY, deployed - HOUR)]
        change = client.compare(*(stream.select(window=day) for day in days), metric="auc_roc")
        assert change.upper < 0

    def test_a_pair_is_decided(self, client: Client) -> None:
        """The challenger is better on the same ids, of which all are scored by both."""
        found = client.compare_pair(PAIR)
        assert (found.names, found.winner) == ((CHAMPION, CHALLENGER), CHALLENGER)
        assert found.coverage.shared > 150_000
        assert found.coverage.shared_share == 1

    def test_costs_at_a_declared_threshold(self, client: Client) -> None:
        """Both models of the pair have a cost per case; the challenger's is lower."""
        champion, challenger = (
            client.stream(name)
            .snapshot(window=WEEK, metrics=["expected_cost"])
            .intervals["expected_cost"]
            for name in (CHAMPION, CHALLENGER)
        )
        assert 0 < challenger.lower < challenger.upper < champion.lower

    def test_an_alarm_would_have_rung(self, client: Client) -> None:
        """Of credit: the stream lost order everywhere, with its deployment."""
        (deployed,) = client.list_marks("credit/v2")
        (alarm,) = client.stream_alarms("credit/v2").alarms
        assert alarm.is_past
        assert alarm.direction == "fell"
        assert alarm.earliest - HOUR <= deployed.time <= alarm.latest + HOUR
        assert deployed.time < alarm.raised_at < datetime.now(UTC)
        assert client.list_alarms(open_only=True) == []

    def test_verdicts(self, client: Client) -> None:
        """Each is what the stream is made to be, once the server has read the history."""
        expected = {
            CHAMPION: ("worse", "ok"),
            "credit/v2": ("worse", "ok"),
            "churn/v5": ("steady", "ok"),
            "spam/v2": ("steady", "silent"),
            "leads/v1": ("immature", "no_labels"),
            "returns/v1": ("immature", "ok"),
        }
        ends = time.monotonic() + 60
        while True:
            found = {name: client.stream(name).verdict() for name in expected}
            if {name: (each.quality, each.flow) for name, each in found.items()} == expected:
                break
            assert time.monotonic() < ends, {name: str(each) for name, each in found.items()}
            time.sleep(0.5)
        assert [each.segment for each in found[CHAMPION].because] == ["country=IT"]
        assert found[CHAMPION].since.annotations == ("v3.2: merchant features by API",)
        (deployed,) = client.list_marks("credit/v2")
        since = found["credit/v2"].since
        assert since.earliest - HOUR <= deployed.time <= since.latest + HOUR

    def test_labels_are_late(self, client: Client) -> None:
        """Of claims: few labels of a week are in, and nearly all of the weeks before."""
        stream, now = client.stream("claims/v1"), datetime.now(UTC)
        young = stream.snapshot(window=WEEK, metrics=["auc_pr"]).coverage
        old = stream.snapshot(window=(now - 6 * WEEK, now - 4 * WEEK), metrics=["auc_pr"]).coverage
        assert young.labelled_share < 0.2
        assert old.labelled_share > 0.9

    def test_one_is_silent(self, client: Client) -> None:
        """Spam ended four days ago; rows of all others came within the last hours."""
        now = datetime.now(UTC)
        ages = {name: now - _newest(client, name, now) for name in NAMES}
        assert {name for name, age in ages.items() if age > 3 * HOUR} == {"spam/v2"}
        assert 4 * DAY - HOUR < ages["spam/v2"] < 4 * DAY + HOUR

    def test_one_has_no_labels(self, client: Client) -> None:
        """Leads have predictions, and not one label."""
        coverage = client.stream("leads/v1").snapshot().coverage
        assert coverage.labelled == 0
        assert coverage.predictions > 50_000

    def test_what_is_printed_is_the_servers(self, client: Client) -> None:
        """Every stream has a line; its figure is the one that another call returns."""
        lines = list(told(client))
        for name in NAMES:
            (line,) = (line for line in lines if line.startswith(f"{name} "))
            row = client.stream(name).snapshot(window=WEEK)
            shown = "no AUC-PR" if np.isnan(row.auc_pr) else f"AUC-PR {row.auc_pr:.3f} ("
            assert shown in line


@pytest.mark.heavy
def test_it_stays_and_rows_keep_coming() -> None:
    """With DEMO_STAY=1: the page is there, rows still come, and it ends when it is told to."""
    environment = os.environ | {"DEMO_STAY": "1"}
    with subprocess.Popen(
        [sys.executable, DEMO], env=environment, stdout=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        printed = ""
        while (found := re.search(r"(?s)server on (\S+),.*The web page: (\S+) ", printed)) is None:
            line = demo.stdout.readline()
            assert line, printed
            printed += line
        assert httpx.get(found[2]).text.startswith("<!doctype html>")
        with Client(found[1]) as client:
            stream = client.stream(CHAMPION)
            first = stream.snapshot().coverage.predictions
            while stream.snapshot().coverage.predictions == first:
                assert demo.poll() is None
                time.sleep(0.5)
        demo.send_signal(signal.SIGTERM)
        rest = demo.stdout.read()
    assert rest == "stopped\n"
    assert demo.returncode == 0


@pytest.mark.heavy
def test_it_ends_by_itself() -> None:
    """Without DEMO_STAY: it prints what happened, no address of a page that is gone, and ends."""
    environment = {name: value for name, value in os.environ.items() if name != "DEMO_STAY"}
    command = [sys.executable, DEMO]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    figures = [line for line in done.stdout.splitlines() if " AUC-PR" in line[:30]]
    assert {line.split()[0] for line in figures} == NAMES
    assert "http://" not in done.stdout


def _newest(client: Client, name: str, now: datetime) -> datetime:
    """Return the end of the newest hour of five days that has predictions or cases."""
    rows = client.stream(name).series(now - 5 * DAY, now, step=HOUR, metrics=["auc_pr"])
    return max(
        row.window[1]
        for row in rows
        if row.num_cases or (row.coverage is not None and row.coverage.predictions)
    )
