"""A person's walk: which model fell, at which hour, because of which segment, in few clicks."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.request import urlopen

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


def began(served: Served) -> set[datetime]:
    """Return since when the open alarms say that it fell."""
    with urlopen(f"{served.http}/v1/alarms?openOnly=true", timeout=20) as answer:
        (status,) = json.load(answer)["statuses"]
    return {datetime.fromisoformat(each["since"]).astimezone(UTC) for each in status["alarms"]}


def test_the_model_the_hour_and_the_segment(page: Page, history: Served) -> None:
    """From the list: the model is read, clicked; hour and segment are read, and opened."""
    page.add_init_script(COUNT_CLICKS)
    page.goto(history.url())
    first = page.locator("table.streams tbody tr").filter(has=page.locator("th")).first
    expect(first).to_contain_text(FALLEN)  # without a click
    expect(first).to_contain_text("open alarm")
    first.get_by_role("link", name=FALLEN).click()

    sentence = page.get_by_role("region", name="In short")
    expect(sentence).to_contain_text(re.compile(r"fell by .* since about"))
    hour = re.search(r"since about (?:.*, )?(\d\d:\d\d)", sentence.inner_text())
    assert hour is not None
    (since,) = (each for each in began(history) if f"{each:%H:%M}" == hour[1])
    assert abs(datetime.now(UTC) - timedelta(hours=5) - since) < timedelta(hours=2)
    expect(sentence).to_contain_text(f"country={SEGMENT}")
    assert sentence.bounding_box()["y"] < 300  # it is read without scrolling

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
