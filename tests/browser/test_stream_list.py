"""The list of many streams: what the server ranks, searches, groups and pages is what is shown."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval.client import Client
from streameval_server._queries import summary_table
from streameval_server._queries.stream_summary import summary
from streameval_server.testing import running_service

from . import conftest
from .conftest import (
    IN_MEMORY,
    NOTHING,
    Served,
    between,
    complete_list,
    expect,
    figure,
    percent,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from streameval_server._queries.query_engine import QueryEngine
    from streameval_server._queries.selection import AllTime, Last
    from streameval_server._queries.stream_summary import ComputedSummary
    from streameval_server._state.views import StreamView

pytestmark = pytest.mark.heavy

STREAMS = 63
GROUPS = ("ads", "churn", "fraud")
ROWS = "table.streams tbody tr.stream"


def name_of(number: int) -> str:
    """Return the name of a stream."""
    return f"{GROUPS[number % 3]}/v{number:02}"


def fill(client: Client, streams: int) -> None:
    """Send two days of cases; some streams are worse on the second, some better."""
    rng, now = np.random.default_rng(20_063), datetime.now(UTC)
    for number in range(streams):
        name = name_of(number)
        client.create_stream(name, threshold=0.5 if number % 2 else None, scale="probability")
        ages = np.arange(46, 0.5, -0.25)
        labels = rng.random(ages.size) < 0.35
        since = {0: -1.0, 1: 5.0}.get(number % 9, 2.0)
        distance = np.where(ages < 22, since, 2.0)
        scores = 1 / (1 + np.exp(1 - rng.normal(size=ages.size) - distance * labels))
        at = [now - timedelta(hours=float(age)) for age in ages]
        client.stream(name).add_cases(labels=labels, scores=scores, at=at)
    client.flush()


@pytest.fixture(scope="module")
def many() -> Iterator[Served]:
    """Return a server with streams in three groups."""
    with running_service(IN_MEMORY) as addresses, Client(addresses.grpc) as client:
        fill(client, STREAMS)
        served = Served(addresses.grpc, addresses.http, client)
        complete_list(served)
        yield served


def test_rows_are_the_apis(many: Served, page: Page) -> None:
    """Order, figures with their intervals, rates, and what each verdict says."""
    page.goto(many.url())
    expect(page.locator(ROWS)).to_have_count(50)
    known = complete_list(many)
    expect(page.locator(f"{ROWS} th a")).to_have_text([each.stream for each in known[:50]])
    expect(page.locator("#summary")).to_have_text(f"50 of {STREAMS} streams shown")
    expect(page.locator("table.streams th.happened")).to_have_text("Against its base")
    for index in (0, 3, 20, 49):
        row, each = page.locator(ROWS).nth(index), known[index]
        expect(row.locator(".happened .state-chip")).to_have_text(["too early"])
        expect(row.locator(".happened .what")).to_have_text(each.verdict.happened)
        expect(row.locator(".value .at")).to_have_text(figure(each.snapshot.auc_pr))
        expect(row.locator(".value .limits")).to_have_text(
            between(each.snapshot.intervals["auc_pr"])
        )
        words = NOTHING
        if each.snapshot.operating_point is not None:
            figures = each.snapshot.figures
            words = f"Precision {percent(figures['precision'])}Recall {percent(figures['recall'])}"
        expect(row.locator(".rates")).to_have_text(words)
    page.get_by_role("button", name="Show 50 more").click()
    expect(page.locator(ROWS)).to_have_count(STREAMS)
    expect(page.locator("#summary")).to_have_text(f"{STREAMS} streams")
    expect(page.get_by_role("button", name="Show 50 more")).to_be_hidden()


def test_tiles_count_and_filter(many: Served, page: Page) -> None:
    """Of all streams, whichever tile is pressed; kept in the link, and taken back by a press."""
    page.goto(many.url())
    tiles = page.locator(".tile")
    words = ["0open alarms", "0worse", "0silent", f"{STREAMS}short of labels"]
    expect(tiles).to_have_text(words)
    worse, short = tiles.nth(1), tiles.nth(3)
    worse.click()
    expect(page.locator("#streams .empty")).to_have_text("No stream is under “worse”.")
    expect(worse).to_have_attribute("aria-pressed", "true")
    expect(tiles).to_have_text(words)
    page.reload()
    expect(page.locator("#streams .empty")).to_be_visible()
    short.click()
    expect(page.locator(ROWS)).to_have_count(50)
    expect(worse).to_have_attribute("aria-pressed", "false")
    short.click()
    expect(short).to_have_attribute("aria-pressed", "false")
    assert "only=" not in page.url


@pytest.mark.parametrize("by", ["change", "auc_roc", "f_measure", "fpr", "volume", "name"])
def test_orders_are_the_servers(many: Served, page: Page, by: str) -> None:
    """Chosen by keyboard or mouse, kept in the link."""
    page.goto(many.url())
    page.locator("#order").select_option(by)
    names = [each.stream for each in complete_list(many, by)][:50]
    expect(page.locator(f"{ROWS} th a")).to_have_text(names)
    page.reload()
    expect(page.locator(f"{ROWS} th a")).to_have_text(names)


def test_search_finds_what_is_not_shown(many: Served, page: Page) -> None:
    """Among all streams, while it is typed; the rows that stay are the same elements."""
    page.goto(many.url())
    expect(page.locator(ROWS)).to_have_count(50)
    last = complete_list(many)[-1].stream
    page.get_by_label("Search").press_sequentially(last[:-1])
    tens = [name_of(n) for n in range(STREAMS) if last[:-1] in name_of(n)]
    expect(page.locator(ROWS)).to_have_count(len(tens))
    page.get_by_label("Search").press_sequentially(last[-1])
    expect(page.locator(f"{ROWS} th a")).to_have_text([last])
    expect(page.get_by_label("Search")).to_be_focused()
    assert f"find={last}" in page.url
    page.get_by_label("Search").fill("")
    expect(page.locator(ROWS)).to_have_count(50)


def test_groups_open_and_close(many: Served, page: Page) -> None:
    """Heads with counts; opened by the keyboard, kept in the link; the order is the server's."""
    page.goto(many.url())
    page.get_by_label("Group").check()
    heads = page.locator("table.streams tbody tr.group")
    expect(heads).to_have_count(3)
    expect(page.locator(ROWS)).to_have_count(0)
    expect(page.locator("#summary")).to_contain_text(f"{STREAMS} streams in 3 groups")
    known = complete_list(many)
    order = list(dict.fromkeys(each.group for each in known))
    for head, group in zip(heads.all(), order, strict=True):
        mine = [each for each in known if each.group == group]
        ends = [figure(end([each.snapshot.auc_pr for each in mine])) for end in (min, max)]
        expect(head).to_have_text(f"{group}{len(mine)} streams, AUC-PR {ends[0]} to {ends[1]}")
    button = heads.nth(1).get_by_role("button")
    button.focus()
    page.keyboard.press("Enter")
    names = [each.stream for each in known if each.group == order[1]]
    expect(page.locator(f"{ROWS} th a")).to_have_text(names)
    expect(button).to_have_attribute("aria-expanded", "true")
    expect(button).to_be_focused()
    page.reload()
    expect(page.locator(f"{ROWS} th a")).to_have_text(names)
    heads.nth(1).get_by_role("button").click()
    expect(page.locator(ROWS)).to_have_count(0)
    page.get_by_label("Group").uncheck()
    expect(page.locator(ROWS)).to_have_count(50)


def test_arrow_keys_go_from_row_to_row(many: Served, page: Page) -> None:
    """Down, up, and Enter opens the stream."""
    page.goto(many.url())
    links = page.locator(f"{ROWS} th a")
    expect(links).to_have_count(50)
    links.first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(links.nth(2)).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(links.nth(1)).to_be_focused()
    name = links.nth(1).inner_text()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(name)


def test_a_phone_shows_more_than_four_streams(many: Served, browser: Browser) -> None:
    """The first screen at 390 pixels, without scrolling sideways."""
    with browser.new_context(viewport={"width": 390, "height": 844}) as context:
        page = context.new_page()
        page.goto(many.url())
        expect(page.locator(ROWS)).to_have_count(50)
        expect(page.locator(f"{ROWS} .value .limits").nth(6)).not_to_be_empty()
        bottoms = page.locator(ROWS).evaluate_all(
            "(rows) => rows.map((row) => row.getBoundingClientRect().bottom)"
        )
        assert sum(bottom <= 844 for bottom in bottoms) > 4
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_tablet_has_every_column_and_whole_names(browser: Browser) -> None:
    """At 1024 px nothing is wider than the window, and no short name is broken."""
    with running_service(IN_MEMORY) as addresses, Client(addresses.grpc) as client:
        conftest.fill(client)
        fill(client, 9)
        served = Served(addresses.grpc, addresses.http, client)
        complete_list(served)
        with browser.new_context(viewport={"width": 1024, "height": 900}) as context:
            page = context.new_page()
            page.goto(served.url())
            expect(page.locator(f"{ROWS} .state-chip").first).to_be_visible()
            expect(page.locator(f"{ROWS} .rate-of").first).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth") <= 1024
            links = page.locator(f"{ROWS} th a")
            lines = links.evaluate_all("links => links.map((each) => each.getClientRects().length)")
            assert lines == [1] * links.count()


def test_rows_are_not_made_anew_when_figures_change(many: Served, page: Page) -> None:
    """A change moves a row and updates it in place; the others stay as they are."""
    page.goto(many.url("?sort=name"))
    links = page.locator(f"{ROWS} th a")
    expect(links).to_have_count(50)
    links.nth(4).evaluate("(link) => { window.kept = link.closest('tr'); }")
    name = links.nth(4).inner_text()
    before = next(each for each in complete_list(many) if each.stream == name)
    stream = many.client.stream(name)
    stream.add_cases(labels=[1] * 40, scores=[0.99] * 40)
    stream.flush()
    row = page.locator(ROWS).nth(4)
    expect(row.locator(".value .at")).not_to_have_text(figure(before.snapshot.auc_pr))
    assert row.evaluate("(row) => row === window.kept")


def test_a_stream_that_fails_says_why_in_its_row(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others have their figures, and the line below the title counts it."""

    def failing(engine: QueryEngine, view: StreamView, span: AllTime | Last) -> ComputedSummary:
        if view.info.name == name_of(2):
            raise ZeroDivisionError("secret")
        return summary(engine, view, span)

    monkeypatch.setattr(summary_table, "summary", failing)
    with running_service(IN_MEMORY) as addresses, Client(addresses.grpc) as client:
        fill(client, 4)
        served = Served(addresses.grpc, addresses.http, client)
        page.goto(served.url("?sort=name"))
        expect(page.locator("#summary")).to_contain_text("4 streams, ")
        expect(page.locator("#summary")).to_contain_text("1 could not be computed")
        row = page.locator(ROWS, has_text=name_of(2))
        expect(row.locator(".value .at")).to_have_text("not computed")
        expect(row.locator(".value .limits")).to_have_text(
            "the server failed with ZeroDivisionError; its log has more about it."
        )
        for number in (0, 1, 3):
            other = page.locator(ROWS, has_text=name_of(number))
            expect(other.locator(".value .at")).to_have_text(re.compile(r"0\.\d{3}"))
            expect(other.locator(".spark svg")).to_be_visible()
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.close()


def test_ten_thousand_streams(page: Page) -> None:
    """The first screen says how many there are; search and groups reach all of them."""
    number = 10_000
    with running_service(IN_MEMORY) as addresses, Client(addresses.grpc) as client:
        for index in range(number):
            name = f"group-{index % 7}/model-{index:05}"
            client.stream(name).add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.2, 0.4, 0.6])
        client.flush(120)
        served = Served(addresses.grpc, addresses.http, client)
        page.goto(served.url("?window=all&sort=name"))
        expect(page.locator(ROWS)).to_have_count(50)
        expect(page.locator("#summary")).to_have_text(
            re.compile(r"^50 of 10,000 streams shown(, [\d,]+ still to be read)?$")
        )
        expect(page.locator(f"{ROWS} .value .at").nth(49)).to_have_text(re.compile(r"0\.\d{3}"))
        page.get_by_label("Search").fill("MODEL-09998")
        expect(page.locator(f"{ROWS} th a")).to_have_text(["group-2/model-09998"])
        page.get_by_label("Search").fill("")
        page.get_by_label("Group").check()
        expect(page.locator("table.streams tbody tr.group")).to_have_count(7)
        expect(page.locator("#summary")).to_contain_text("10,000 streams in 7 groups")
        page.close()
