"""A page that is left open: memory stays flat and it reconnects, while figures keep coming.

What grows with answers grows with their number, and a page draws at most five a second, 18,000 an
hour. The first test is no hour: it is a minute and a half of answers as fast as the page draws
them, with the server stopped and started half way, and what is alive is compared before and after
that.

What grows with time grows with the page's timers: those that draw, look for silence and wait
before they connect again. The second test is an hour of them by the page's clock, which is moved
on between answers.

The browser compiles nothing here: machine code, which V8 makes of a function once it has run often
enough, is counted in the heap. It grew by 0.9 MB from minute 10 to 58 where the page's own objects
grew by 0.02 MB.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval.client import Client
from streameval_server import Settings
from streameval_server.testing import running_service

from .conftest import expect, scored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, CDPSession, Page

pytestmark = pytest.mark.nightly

NAME = "open/v1"
ROUNDS = 2
SECONDS = 90.0
SAMPLES = 5
MAX_GROWTH = 1.15
"""Of the heap and of the elements, from half way to the end."""


@pytest.fixture(scope="module")
def browser(require: Callable, chromium: str) -> Iterator[Browser]:
    """Return Chromium whose heap has the page's objects, and no machine code."""
    with require("playwright.sync_api").sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--js-flags=--jitless"]
        )
        yield browser
        browser.close()


def live(session: CDPSession) -> dict[str, float]:
    """Return what is alive after a garbage collection."""
    session.send("HeapProfiler.collectGarbage")
    session.send("HeapProfiler.collectGarbage")
    found = session.send("Runtime.getHeapUsage")
    counts = session.send("Memory.getDOMCounters")
    return {
        "heap": found["usedSize"],
        "nodes": counts["nodes"],
        "listeners": counts["jsEventListeners"],
    }


def least(found: list[dict[str, float]]) -> dict[str, float]:
    """Return the least of each: a chart that is being drawn takes memory for a moment."""
    return {name: min(each[name] for each in found) for name in found[0]}


def feed(client: Client, page: Page, seconds: float) -> int:
    """Send rows as fast as the page draws them; return how many times its figures changed."""
    rng = np.random.default_rng(4)
    stream = client.stream(NAME)
    changes, before = 0, ""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        labels, scores = scored(rng, 40, 0.2, 1.5)
        stream.add_cases(labels=labels, scores=scores)
        client.flush()
        shown = page.locator("#figure-counts").inner_text()
        changes += shown != before
        before = shown
    return changes


@pytest.mark.timeout(420)
def test_memory_is_flat_and_the_page_reconnects(
    page: Page, tmp_path: Path, free_port: Callable[[], int], complaints: list[str]
) -> None:
    """Heap, elements and listeners after twice the answers are those of half way."""
    complaints += ["Failed to load resource", "ERR_"]  # while the server is away
    settings = Settings(
        listen="127.0.0.1:0", http=f"127.0.0.1:{free_port()}", data=tmp_path / "data"
    )
    session = page.context.new_cdp_session(page)
    measured = []
    for turn in range(ROUNDS):
        with running_service(settings) as addresses, Client(addresses.grpc) as client:
            if turn == 0:
                client.create_stream(NAME, scale="probability", threshold=0.4)
                labels, scores = scored(np.random.default_rng(3), 4_000, 0.2, 1.5)
                client.stream(NAME).add_cases(labels=labels, scores=scores)
                client.flush()
                page.goto(f"{addresses.http}/#/stream/{NAME}?window=all")
                expect(page.locator("#pr-plot svg path").first).to_be_attached()
                feed(client, page, SECONDS / 6)  # caches are filled
            expect(page.locator("#connection")).to_have_text("Live", timeout=30_000)
            changes, found = 0, []
            for _ in range(SAMPLES):
                changes += feed(client, page, SECONDS / 2 / SAMPLES)
                found.append(live(session))
            assert changes > SECONDS
            measured.append(least(found))
        expect(page.locator("#banner")).to_contain_text("The connection to the server is lost")
    for name, before in measured[0].items():
        assert measured[-1][name] <= MAX_GROWTH * before, f"{name}: {measured}"


STEP_S = 20
"""How far the page's clock moves on at once: less than the silence that ends a connection."""

MINUTE = 60 // STEP_S
AWAY_S = 300
EARLY, LATE = range(10, 21, 2), range(50, 61, 2)
"""The minutes whose least are compared."""

MAX_HEAP_GROWTH = 1.05
"""Of the heap: what is drawn in that hour has the same size."""


@pytest.mark.timeout(900)
def test_an_hour_by_the_clock_of_the_page(
    page: Page, tmp_path: Path, free_port: Callable[[], int], complaints: list[str]
) -> None:
    """Heap, elements and listeners are flat from minute 10 to 60, five of them without a server.

    Scores have two digits, so that curves do not grow with the number of cases.
    """
    complaints += ["Failed to load resource", "ERR_"]  # while the server is away
    settings = Settings(
        listen="127.0.0.1:0", http=f"127.0.0.1:{free_port()}", data=tmp_path / "data"
    )
    session = page.context.new_cdp_session(page)
    page.clock.install()
    rng = np.random.default_rng(5)
    steps = 0
    measured: dict[int, dict[str, float]] = {}

    def live_for(client: Client, until_minute: int) -> None:
        """Move on to a minute, each step with an answer that is drawn."""
        nonlocal steps
        counts = page.locator("#figure-counts")
        while steps < until_minute * MINUTE:
            before = counts.inner_text()
            labels, scores = scored(rng, 40, 0.2, 1.5)
            client.stream(NAME).add_cases(labels=labels, scores=np.round(scores, 2))
            client.flush()
            expect(counts).not_to_have_text(before)
            page.clock.run_for(1_000 * STEP_S)
            steps += 1
            minute, rest = divmod(steps, MINUTE)
            if not rest and minute in {*EARLY, *LATE}:
                measured[minute] = live(session)

    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        client.create_stream(NAME, scale="probability", threshold=0.4)
        labels, scores = scored(np.random.default_rng(3), 4_000, 0.2, 1.5)
        client.stream(NAME).add_cases(labels=labels, scores=np.round(scores, 2))
        client.flush()
        page.goto(f"{addresses.http}/#/stream/{NAME}?window=all")
        expect(page.locator("#pr-plot svg path").first).to_be_attached()
        start_ms = page.evaluate("Date.now()")
        live_for(client, 30)
    expect(page.locator("#banner")).to_contain_text("The connection to the server is lost")
    for _ in range(AWAY_S // STEP_S):
        page.clock.run_for(1_000 * STEP_S)
        steps += 1
    expect(page.locator("#banner")).to_contain_text("The connection to the server is lost")
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        page.clock.run_for(1_000 * STEP_S)  # the longest wait before it connects again is shorter
        expect(page.locator("#connection")).to_have_text("Live", timeout=30_000)
        live_for(client, 60)
        assert page.evaluate("Date.now()") - start_ms >= 3_600_000
        known = client.stream(NAME).snapshot().num_cases
        expect(page.locator("#figure-counts")).to_have_text(f"{known:,}")
        expect(page.locator("#connection")).to_have_text("Live")
    early, late = (least([measured[minute] for minute in minutes]) for minutes in (EARLY, LATE))
    for name, before in early.items():
        most = MAX_HEAP_GROWTH if name == "heap" else MAX_GROWTH
        assert late[name] <= most * before, f"{name}: {measured}"
