"""A person's walk: which model fell, at which hour, because of which segment, in few clicks."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from streameval.client import Client
from streameval_server import Settings
from streameval_server.testing import running_service

from ..alarm_history import write_alarm_history
from .conftest import Served, expect, fill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

FALLEN = "orders/v7"
SEGMENT = "FR"
MAX_CLICKS = 4
COUNT_CLICKS = """
    window.clicks = 0;
    addEventListener("click", (event) => { if (event.isTrusted) window.clicks += 1; }, true);
"""


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return a server with ten streams; one fell five hours ago, in one country."""
    directory = tmp_path_factory.mktemp("walk") / "data"
    write_alarm_history(directory, FALLEN)
    with (
        running_service(Settings(listen="127.0.0.1:0", data=directory)) as addresses,
        Client(addresses.grpc) as client,
    ):
        fill(client)
        yield Served(addresses.grpc, addresses.http, client)


def test_the_model_the_hour_and_the_segment(page: Page, history: Served) -> None:
    """From the list: the model is read, clicked; hour and segment are read, and opened."""
    page.add_init_script(COUNT_CLICKS)
    page.goto(history.url())
    first = page.locator("table.streams tbody tr").filter(has=page.locator("th")).first
    expect(first).to_contain_text(FALLEN)  # without a click
    expect(first).to_contain_text("open alarm")
    first.get_by_role("link", name=FALLEN).click()

    verdict = page.get_by_role("region", name="Verdict")
    expect(verdict.locator(".state-chip").first).to_have_text("worse")
    expect(verdict).to_contain_text(" is open.")
    assert verdict.bounding_box()["y"] < 300  # it is read without scrolling
    worst = page.locator("#segments tbody tr").first
    expect(worst).to_contain_text(SEGMENT)
    expect(worst.locator(".since")).to_have_text(re.compile(r"\d\d:\d\d"))
    hour = re.search(r"(\d\d):(\d\d)", worst.locator(".since").inner_text())
    assert hour is not None
    now = datetime.now(UTC)
    since = now.replace(hour=int(hour[1]), minute=int(hour[2]), second=0, microsecond=0)
    since -= timedelta(days=since > now)
    assert abs(now - timedelta(hours=5) - since) < timedelta(hours=2.5)
    opened = [each for each in history.client.stream_alarms(FALLEN).alarms if each.is_open]
    assert min(abs(now - timedelta(hours=5) - each.since) for each in opened) < timedelta(hours=2)
    for each in opened:
        article = page.get_by_label(f"Alarm {each.number}", exact=True)
        expect(article).to_contain_text(re.compile(f"since about (.*, )?{each.since:%H:%M}"))

    plot = page.locator("#timeline-plot")
    expect(plot.locator("svg path").first).to_be_attached()
    box = plot.bounding_box()
    # The chart has the last 24 hours, in a grid with known sides.
    ago = (datetime.now(UTC) - since - timedelta(minutes=30)) / timedelta(hours=24)
    across = 58 + (box["width"] - 72) * (1 - ago)
    plot.click(position={"x": across, "y": box["height"] / 3})
    expect(page).to_have_url(re.compile(r"window=[\d:TZ-]+\.\.[\d:TZ-]+"))
    found = re.search(r"window=([\d:TZ-]+)\.\.([\d:TZ-]+)", page.url)
    assert found is not None
    start, end = (datetime.fromisoformat(each) for each in found.groups())
    assert start - timedelta(hours=1) <= since <= end + timedelta(hours=1)

    page.get_by_role("link", name=re.compile(f"country.*{SEGMENT}")).first.click()
    expect(page.locator(".chip")).to_contain_text(SEGMENT)
    assert f"segment=country:{SEGMENT}" in page.url
    assert page.evaluate("window.clicks") <= MAX_CLICKS
    expect(page.locator("#figure-auc_pr")).to_be_visible()
    # It is the culprit: in that hour it reads less than the whole.
    selection = {"window": (start, end)}
    stream = history.client.stream(FALLEN)
    part = stream.snapshot(segment=("country", SEGMENT), **selection)
    assert part.auc_roc < stream.snapshot(**selection).auc_roc
