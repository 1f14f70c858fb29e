"""What is projected beside what is known: in the chart over time, and in a card of its own."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from streameval.client import Client
from streameval_server import Settings
from streameval_server.testing import running_service

from ..late_labels import write_late_labels
from .conftest import STREAM, Served, expect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

LATE = "late/v1"
DAY = timedelta(days=1)
WINDOW = f"stream/{LATE}?window=7d&tab=labels"


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return a server whose stream's positives are labelled days later."""
    directory = tmp_path_factory.mktemp("late")
    write_late_labels(directory, LATE, per_day=1600)
    settings = Settings(listen="127.0.0.1:0", data=directory)
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        yield Served(addresses.grpc, addresses.http, client)


def numbers(text: str) -> list[float]:
    """Return the numbers of three digits behind the point in a text."""
    return [float(found) for found in re.findall(r"\d\.\d{3}", text)]


def test_the_card_is_the_clients_projection(late: Served, page: Page) -> None:
    """Each figure projected and now, with its interval and limits; what they rest on."""
    page.goto(late.url(WINDOW))
    figures = page.locator("#projected > div")
    expect(figures).to_have_count(3)
    found = late.client.stream(LATE).snapshot(window=7 * DAY, projection=True).projection
    for shown, figure in zip(figures.all(), found.figures, strict=True):
        assert figure.reason is None
        # The clock has moved on since the page was drawn.
        wanted = [figure.projected, *figure.interval, figure.now, *figure.limits]
        assert numbers(shown.inner_text()) == pytest.approx(wanted, abs=2e-3)
    expect(figures.nth(1)).to_contain_text("at a prevalence of")
    expect(page.locator("#projection-note")).to_contain_text(found.assumption)
    assert found.figures[2].projected > found.figures[2].now


def test_the_list_has_the_projected_figure(late: Served, page: Page) -> None:
    """That of AUC-PR, with its interval; the column is there because a stream waits for labels."""
    page.goto(late.url("?window=7d"))
    shown = page.locator("tr", has_text=LATE).locator("td.projected")
    # It is computed in the background, the streams that are shown first.
    expect(shown).to_contain_text(re.compile(r"0\.\d{3}"))
    found = late.client.stream(LATE).snapshot(window=7 * DAY, projection=True).projection
    figure = next(f for f in found.figures if f.metric == "auc_pr" and f.prevalence is None)
    wanted = [figure.projected, *figure.interval]
    assert numbers(shown.inner_text()) == pytest.approx(wanted, abs=2e-3)


def test_the_backtest_is_one_click_away(late: Served, page: Page) -> None:
    """A table for each figure, with the windows of its backtest, the newest first."""
    page.goto(late.url(WINDOW))
    found = late.client.stream(LATE).snapshot(window=7 * DAY, projection=True).projection
    expect(page.locator("#backtest table")).to_have_count(0)
    page.locator("#backtest summary").click()
    tables = page.locator("#backtest table")
    expect(tables).to_have_count(3)
    for table, figure in zip(tables.all(), found.figures, strict=True):
        rows = table.locator("tbody tr")
        assert rows.count() == len(figure.backtest) >= 10
        cells = [cell.inner_text() for cell in rows.first.locator("td").all()]
        newest = figure.backtest[-1]
        assert numbers(" ".join(cells[1:3])) == pytest.approx(
            [newest.projected, newest.final], abs=2e-3
        )


def test_the_chart_has_the_projected_end(late: Served, page: Page) -> None:
    """Immature steps have a projected value above what is known now, or say why not."""
    page.goto(late.url(WINDOW))
    expect(page.locator("#timeline-plot")).to_contain_text("projected")
    expect(page.locator("#timeline-plot svg path[stroke-dasharray='4,3']").first).to_be_attached()
    page.locator("#timeline .rows > summary").click()
    rows = page.locator("#timeline tbody tr")
    expect(rows.first).to_be_visible()
    texts = [[cell.inner_text() for cell in row.locator("td").all()] for row in rows.all()]
    immature = [cells for cells in texts if cells[6] == "immature"]
    projected = [cells for cells in immature if cells[7].startswith("projected ")]
    assert projected
    for cells in projected:
        assert numbers(cells[7])[0] > float(cells[1])
    assert all(cells[7].startswith(("projected ", "not projected: ")) for cells in immature)
    assert not any(cells[7] for cells in texts if cells[6] != "immature")


def test_without_late_labels_there_is_no_card(served: Served, page: Page) -> None:
    """Cases that came with their labels have none, nor all time; a young stream says why."""
    page.goto(served.url("stream/churn/weekly?window=24h"))
    expect(page.locator("#pr-plot svg path").first).to_be_attached()
    expect(page.locator("#tab-labels")).to_be_hidden()
    page.goto(served.url(f"stream/{STREAM}?window=all"))
    expect(page.locator("#timeline-plot svg")).to_be_attached()
    expect(page.locator("#tab-labels")).to_be_hidden()
    page.goto(served.url(f"stream/{STREAM}?window=6h&tab=labels"))
    expect(page.locator("#projected > div").first).to_contain_text("not projected: fewer than 30")
    # Two figures fill the row.
    expect(page.locator("#projected > div")).to_have_count(2)
    row, last = (
        page.locator(each).bounding_box() for each in ("#projected", "#projected > div >> nth=1")
    )
    assert last["x"] + last["width"] == pytest.approx(row["x"] + row["width"], abs=2)
    expect(page.locator("#backtest")).to_be_hidden()


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_it_fits_any_width(browser: Browser, late: Served, width: int) -> None:
    """Nothing is wider than the window, with the backtest open too."""
    with browser.new_context(viewport={"width": width, "height": 740}) as context:
        page = context.new_page()
        page.goto(late.url(WINDOW))
        page.locator("#backtest summary").click()
        expect(page.locator("#backtest table").first).to_be_visible()
        assert page.evaluate("document.scrollingElement.scrollWidth") == width
        for card in page.locator("#projection, #timeline").all():
            box = card.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
