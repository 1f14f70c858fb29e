"""Streams of five states: list, stream page, commands, JSON and client say the same of each."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

import numpy as np
import pytest

from streameval.cli._output import out
from streameval.client import Client
from streameval_server import Settings, create_token
from streameval_server.testing import running_service

from ..commands import run
from ..contract.test_verdict import until
from .conftest import Served, expect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

    from streameval import Verdict
    from streameval.client import StreamSummary

HOURS, A_HOUR = 16 * 24, 80
FALL, RETURN = 9 * 24, 12 * 24
STATES = {
    "card/fell": ("worse", "ok", "worse"),
    "card/back": ("recovered", "ok", "recovered"),
    "loan/steady": ("steady", "ok", "steady"),
    "loan/silent": ("steady", "silent", "steady, silent"),
    "loan/unlabelled": ("immature", "no_labels", "too early, no labels"),
}
"""Of each stream, its quality, its flow, and both as they are shown."""
ROWS = "table.streams tbody tr.stream"
WAIT_S = 60.0


def send(client: Client, name: str, start: datetime, number: int) -> None:
    """Send the cases of a stream, in event time; of one without labels, its predictions."""
    rng = np.random.default_rng([30, number])
    hours = np.repeat(np.arange(HOURS - 96 * (name == "loan/silent")), A_HOUR)
    ends = {"card/fell": HOURS, "card/back": RETURN}.get(name, 0)
    has_fallen = (hours >= FALL) & (hours < ends)
    labels = rng.random(hours.size) < 0.3
    scores = 1 / (1 + np.exp(-np.where(has_fallen, 0, 2.2) * labels - rng.normal(size=hours.size)))
    seconds = hours * 3600 + np.arange(hours.size) % A_HOUR * (3600 // A_HOUR)
    times = np.datetime64(start.replace(tzinfo=None), "us") + seconds.astype("timedelta64[s]")
    client.create_stream(name, scale="probability")
    if name == "loan/unlabelled":
        ids = np.arange(hours.size).astype(str).tolist()
        client.stream(name).log_cases(ids=ids, scores=scores, at=times)
    else:
        client.stream(name).add_cases(labels=labels, scores=scores, at=times)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return a token for all streams, and one for those that begin with loan; and their file."""
    path = tmp_path_factory.mktemp("tokens") / "tokens.toml"
    return {
        "file": str(path),
        "all": create_token(path, "all", ("ingest", "query", "admin")),
        "loan": create_token(path, "loan", ("query",), ["loan"]),
    }


@pytest.fixture(scope="module")
def told(tokens: dict[str, str]) -> Iterator[Served]:
    """Return a server on which each stream is in its state."""
    settings = Settings(listen="127.0.0.1:0", memory=True, tokens=Path(tokens["file"]))
    start = datetime.now(UTC) - timedelta(hours=HOURS)
    with (
        running_service(settings) as addresses,
        Client(addresses.grpc, token=tokens["all"]) as client,
    ):
        for number, name in enumerate(STATES):
            send(client, name, start, number)
        client.flush()
        for name, (quality, *_) in STATES.items():
            until(client, quality, name)
        yield Served(addresses.grpc, addresses.http, client)


def settled(client: Client) -> dict[str, Verdict]:
    """Return the verdicts, once the list has the same ones and no step ends for a while."""
    ends = time.monotonic() + WAIT_S
    while True:
        known = {name: client.stream(name).verdict() for name in STATES}
        listed = {each.stream: each.verdict for each in client.list_summaries()}
        rest = min(each.valid_until for each in known.values()) - datetime.now(UTC)
        if rest > timedelta(seconds=20) and all(
            said(listed[name]) == said(each) for name, each in known.items()
        ):
            return known
        assert time.monotonic() < ends
        time.sleep(0.2)


def said(verdict: Verdict) -> dict:
    """Return all of a verdict but when it was asked for."""
    return {**verdict.to_dict(), "at": None, "valid_until": None}


def asked(served: Served, path: str, token: str) -> dict:
    """Return an answer of the JSON API."""
    request = Request(f"{served.http}/v1/{path}", headers={"Authorization": f"Bearer {token}"})
    with urlopen(request, timeout=20) as answer:
        found: dict = json.load(answer)
    return found


def test_every_place_says_the_same(
    told: Served, tokens: dict[str, str], page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """State, what happened and by how much; the sentence where it is shown."""
    monkeypatch.setenv("STREAMEVAL_TOKEN", tokens["all"])
    page.add_init_script(f"sessionStorage.setItem('streameval.token', '{tokens['all']}')")
    verdicts = settled(told.client)
    rows = {
        each["stream"]: each
        for each in asked(told, "streams:summaries", tokens["all"])["summaries"]
    }
    # Names are cut in a narrow table. One command makes its console, one has it since its import.
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr(out, "_width", 300)
    tables = [
        {line.split()[0]: line for line in run(*words, "--server", told.grpc).stdout.splitlines()}
        for words in (["top"], ["streams", "list"])
    ]
    for name, (quality, flow, shown) in STATES.items():
        known = verdicts[name]
        assert (known.quality, known.flow) == (quality, flow)
        assert known.happened
        plain = json.loads(run("verdict", "--server", told.grpc, name, "--json").stdout)
        answer = asked(told, f"streams/{name}:verdict", tokens["all"])["verdict"]
        for each in (plain, answer, rows[name]["verdict"]):
            assert (each["happened"], each["sentence"]) == (known.happened, known.sentence)
        for each in (answer, rows[name]["verdict"]):
            assert each["quality"] == f"VERDICT_QUALITY_{quality.upper()}"
            assert each["flow"] == f"VERDICT_FLOW_{flow.upper()}"
        difference = f" {known.figures[0].difference.estimate:+.3f} " if known.figures else ""
        for table in tables:
            assert f" {shown}: {known.happened} " in table[name]
            assert difference in table[name]
        page.goto(told.url())
        row = page.locator(ROWS).filter(has=page.get_by_role("link", name=name, exact=True))
        expect(row.locator(".happened .state-chip")).to_have_text(shown.split(", "))
        expect(row.locator(".happened .what")).to_have_text(known.happened)
        page.goto(told.url(f"stream/{name}"))
        expect(page.locator("#answer .sentence")).to_have_text(known.sentence)
        expect(page.locator("#answer .state-chip")).to_have_text(shown.split(", "))


def states(each: StreamSummary) -> set[str]:
    """Return the tiles that count a stream."""
    quality, flow = STATES[each.stream][:2]
    found = {"worse"} & {quality} | {"silent"} & {flow}
    return found | ({"labels"} if quality == "immature" or flow in {"no_labels", "late"} else set())


@pytest.mark.parametrize("who", ["all", "loan"])
@pytest.mark.parametrize("search", ["", "l"])
def test_a_tile_shows_as_many_streams_as_it_counts(
    told: Served, tokens: dict[str, str], page: Page, who: str, search: str
) -> None:
    """Of the streams that the token covers and that the search finds; by keyboard, both ways."""
    page.add_init_script(f"sessionStorage.setItem('streameval.token', '{tokens[who]}')")
    with Client(told.grpc, token=tokens[who]) as client:
        known = client.list_summaries(search=search)
    covered = [name for name in STATES if search in name and (who == "all" or "loan/" in name)]
    assert sorted(each.stream for each in known) == sorted(covered)
    page.goto(told.url(f"?find={search}"))
    links = page.locator(f"{ROWS} th a")
    expect(links).to_have_text([each.stream for each in known])
    for number, state in enumerate(("alarms", "worse", "silent", "labels")):
        tile = page.locator(f"#tile-{state}")
        expected = [each.stream for each in known if state in states(each)]
        assert len(expected) == {"alarms": 0, "worse": who == "all"}.get(state, 1)
        tile.focus()
        page.keyboard.press("Space" if number % 2 else "Enter")
        expect(tile).to_have_attribute("aria-pressed", "true")
        expect(links).to_have_text(expected)
        expect(tile.locator(".value")).to_have_text(str(len(expected)))
        page.keyboard.press("Enter")
        expect(tile).to_have_attribute("aria-pressed", "false")
        expect(links).to_have_text([each.stream for each in known])
