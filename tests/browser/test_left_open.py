"""A page that is left open: memory stays flat and it reconnects, while figures keep coming.

What grows with answers grows with their number, and a page draws at most five a second, 18,000 an
hour. This is no hour: it is a minute and a half of answers as fast as the page draws them, with
the server stopped and started half way, and what is alive is compared before and after that.
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
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import CDPSession, Page

pytestmark = pytest.mark.heavy

NAME = "open/v1"
ROUNDS = 2
SECONDS = 90.0
SAMPLES = 5
MAX_GROWTH = 1.15
"""Of the heap and of the elements, from half way to the end."""


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
            # The least of some: a chart that is being drawn takes memory for a moment.
            measured.append({name: min(each[name] for each in found) for name in found[0]})
        expect(page.locator("#banner")).to_contain_text("Reconnecting")
    for name, before in measured[0].items():
        assert measured[-1][name] <= MAX_GROWTH * before, f"{name}: {measured}"
