"""A browser, a server with streams, and pages whose console errors fail the test."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval.client import Client
from streameval_server import Settings
from streameval_server.testing import running_service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, BrowserContext, Locator, LocatorAssertions, Page

SEED = 20_060
STREAM = "fraud/v3"
OTHER = "fraud/v4"
HOSTILE = '<img src=x onerror="window.hacked=1">'
MINUS, NOTHING = "\N{MINUS SIGN}", "\N{EN DASH}"
COUNTRIES = ("US", "DE", "BR", HOSTILE, '"><script>window.hacked=1</script>', "")
IN_MEMORY = Settings(listen="127.0.0.1:0", memory=True)


@dataclass
class Served:
    """A server that serves the page."""

    grpc: str
    http: str
    client: Client

    def url(self, fragment: str = "") -> str:
        """Return the address of a view."""
        return f"{self.http}/#/{fragment}"


@pytest.fixture(scope="module")
def browser(require: Callable, chromium: str) -> Iterator[Browser]:
    """Return Chromium. Its event loop must not outlive the module: other tests have their own."""
    with require("playwright.sync_api").sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """Return a server with the streams of `fill`."""
    with running_service(IN_MEMORY) as addresses, Client(addresses.grpc) as client:
        fill(client)
        yield Served(addresses.grpc, addresses.http, client)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """Return a new browser context."""
    with browser.new_context(viewport={"width": 1280, "height": 900}, timezone_id="UTC") as context:
        context.set_default_timeout(20_000)
        yield context


@pytest.fixture
def complaints() -> list[str]:
    """Return the parts of console messages that a test allows; empty at first."""
    return []


@pytest.fixture
def page(context: BrowserContext, complaints: list[str]) -> Iterator[Page]:
    """Return a page; the test fails if its console shows an error or a warning."""
    page = context.new_page()
    heard: list[str] = []
    page.on("pageerror", lambda error: heard.append(f"{error}\n{error.stack}"))
    page.on(
        "console",
        lambda said: heard.append(said.text) if said.type in {"error", "warning"} else None,
    )
    yield page
    page.close()
    assert [each for each in heard if not any(part in each for part in complaints)] == []


def scored(rng: np.random.Generator, rows: int, prevalence: float, shift: float | np.ndarray):
    """Return labels and scores in (0, 1)."""
    labels = rng.random(rows) < prevalence
    scores = 1 / (1 + np.exp(1.5 - rng.normal(size=rows) - np.where(labels, shift, 0.0)))
    return labels, scores


def fill(client: Client) -> None:
    """Send the tests' data: event times, segments, late labels, unusual values."""
    rng = np.random.default_rng(SEED)
    rows = 2_400
    now = datetime.now(UTC)
    for name, shift in ((STREAM, 1.6), (OTHER, 2.6)):
        client.create_stream(name, segment_keys=["country"])
        stream = client.stream(name)
        ages = np.sort(rng.random(rows))[::-1] * 2.5  # hours
        countries = rng.choice(COUNTRIES, rows, p=[0.4, 0.2, 0.2, 0.1, 0.05, 0.05])
        shifts = np.where(countries == "BR", shift - 1.2, shift)
        labels, scores = scored(rng, rows, 0.15, shifts)
        ids = [f"{name}-{HOSTILE}-{index}" for index in range(rows)]
        stream.log_cases(
            ids=ids,
            scores=scores,
            at=[now - timedelta(hours=age) for age in ages],
            segments={"country": countries.tolist()},
        )
        # Few labels of the last half hour have arrived.
        known = np.flatnonzero(rng.random(rows) < np.where(ages < 0.5, 0.3, 1.0))
        stream.label_cases(ids=[ids[index] for index in known], labels=labels[known])
    labels, scores = scored(rng, 400, 0.3, 1.0)
    client.stream("churn/weekly").add_cases(labels=labels, scores=np.round(scores, 2))
    client.stream("one/negative").add_cases(labels=[0] * 240, scores=rng.random(240))
    client.stream("one/positive").add_cases(labels=[1] * 7, scores=rng.random(7))
    client.stream("wait/labels").log_cases(
        ids=[str(index) for index in range(50)], scores=rng.random(50)
    )
    client.stream("old/data").add_cases(
        labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.4, 0.1], at=now - timedelta(days=3)
    )
    labels, scores = scored(rng, 12_000, 0.1, 1.5)
    client.stream("big/many").add_cases(labels=labels, scores=scores)
    client.create_stream("new/empty")
    client.flush()


def complete_list(served: Served, order_by: str = "alarms"):
    """Return the server's list of the last day, once all of it is up to date."""
    for _ in range(2_000):
        found = served.client.list_summaries(order_by)
        if not any(each.outdated for each in found):
            return found
    raise AssertionError("the list is still not up to date")


def expect(locator: Locator) -> LocatorAssertions:
    """Return Playwright's assertions, which wait."""
    from playwright.sync_api import expect

    expect.set_options(timeout=20_000)
    return expect(locator)


def figure(value: float) -> str:
    """Return a figure as the page shows it."""
    return f"{value:.3f}"


def signed(value: float) -> str:
    """Return a difference as the page shows it."""
    return f"{value:+.3f}".replace("-", MINUS)


def between(interval) -> str:
    """Return an interval as the page shows it."""
    return f"{interval.lower:.3f} to {interval.upper:.3f}"


def percent(share: float) -> str:
    """Return a share of 1 % or more as the page shows it."""
    return f"{100 * share:.1f} %"
