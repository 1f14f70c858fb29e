"""A person's walk: which model fell, since when, because of which segment, in few clicks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval.client import Client
from streameval_server import Settings
from streameval_server.testing import running_service

from ..alarm_history import write_alarm_history
from ..contract.test_verdict import until
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
    opened = [each for each in history.client.stream_alarms(FALLEN).alarms if each.is_open]
    fell = datetime.now(UTC) - timedelta(hours=5)
    since = min((each.since for each in opened), key=lambda at: abs(at - fell))
    assert abs(since - fell) < timedelta(hours=2)
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


# --- A fall of any age ------------------------------------------------------------------------

HOUR = timedelta(hours=1)
CULPRIT = "IT"
SHARES = {"DE": 0.35, "FR": 0.25, CULPRIT: 0.3, "NL": 0.1}


@dataclass(frozen=True)
class Fall:
    """A stream that fell in one country.

    Attributes
    ----------
    stream : str
    age, history : timedelta
        How long ago, before the last whole hour; and how long before that it has cases.
    per_hour : int
    prevalence : float
    within : timedelta
        The beginning that is told is at most that far from it.
    """

    stream: str
    age: timedelta
    history: timedelta
    per_hour: int
    prevalence: float
    within: timedelta


FALLS = (
    Fall("fell/six", timedelta(days=6), timedelta(days=21), 100, 0.2, timedelta(days=1)),
    Fall("fell/forty", timedelta(days=40), timedelta(days=61), 60, 0.2, timedelta(days=3)),
    Fall("fell/hour", timedelta(hours=1), timedelta(days=9), 2_000, 0.5, timedelta(hours=1)),
)


def send(client: Client, fall: Fall, hour: datetime) -> None:
    """Send its cases until now, evenly spread over each hour."""
    hours, now = fall.history // HOUR + 1, datetime.now(UTC)
    rng = np.random.default_rng([37, FALLS.index(fall)])
    rows = hours * fall.per_hour
    seconds = np.arange(rows) * (3600 / fall.per_hour)
    labels = rng.random(rows) < fall.prevalence
    countries = rng.choice(list(SHARES), rows, p=list(SHARES.values()))
    has_fallen = (seconds >= (fall.history - fall.age).total_seconds()) & (countries == CULPRIT)
    logits = np.where(labels & ~has_fallen, 2.2, 0.0) + rng.normal(size=rows)
    known = seconds < (now - hour + fall.history).total_seconds()
    start = np.datetime64((hour - fall.history).replace(tzinfo=None), "us")
    client.create_stream(
        fall.stream, scale="probability", segment_keys=["country"], retention=timedelta(days=90)
    )
    client.stream(fall.stream).add_cases(
        labels=labels[known],
        scores=1 / (1 + np.exp(1.5 - logits[known])),
        at=start + (1e6 * seconds[known]).astype("timedelta64[us]"),
        segments={"country": countries[known].tolist()},
    )


@pytest.fixture(scope="module")
def fallen() -> Iterator[tuple[Served, datetime]]:
    """Return a server whose streams fell, and the whole hour that their falls are before."""
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    with (
        running_service(Settings(listen="127.0.0.1:0", memory=True)) as addresses,
        Client(addresses.grpc) as client,
    ):
        for fall in FALLS:
            send(client, fall, hour)
        client.flush()
        fill(client)
        for fall in FALLS:
            until(client, "worse", fall.stream)
        yield Served(addresses.grpc, addresses.http, client), hour


@pytest.mark.parametrize("fall", FALLS, ids=lambda fall: fall.stream)
def test_model_time_and_segment_are_a_click_each(
    page: Page, fallen: tuple[Served, datetime], fall: Fall
) -> None:
    """From the list to the stream, to the time of its fall, to the country."""
    served, hour = fallen
    page.set_viewport_size({"width": 1440, "height": 900})
    page.add_init_script(COUNT_CLICKS)
    page.goto(served.url())
    model = page.get_by_role("link", name=fall.stream, exact=True)
    row = page.locator("table.streams tbody tr").filter(has=model)
    told = re.compile(rf"fell 0\.\d{{2,4}} · since \S.* · country={CULPRIT}")
    expect(row.locator(".what")).to_have_text(told, timeout=60_000)
    model.click()

    known = served.client.stream(fall.stream).verdict()
    assert known.since is not None
    assert abs(known.since.likeliest - (hour - fall.age)) <= fall.within
    verdict = page.get_by_role("region", name="Verdict")
    expect(verdict.locator(".state-chip").first).to_have_text("worse")
    expect(verdict.locator(".sentence")).to_contain_text("AUC-PR fell from ")
    since = f"{known.since.likeliest:%H:%M}"
    expect(verdict.locator(".sentence")).to_contain_text(since)
    part = verdict.get_by_role("link", name=re.compile(rf"country.*{CULPRIT}"))
    for each in (part, verdict.get_by_role("link", name="Show the change")):
        expect(each).to_be_in_viewport(ratio=1)
    verdict.get_by_role("link", name="Show the change").click()

    expect(page).to_have_url(re.compile(r"window=[\d:TZ-]+\.\.[\d:TZ-]+"))
    start, end = map(
        datetime.fromisoformat, re.search(r"window=([\d:TZ-]+)\.\.([\d:TZ-]+)", page.url).groups()
    )
    assert start < known.since.earliest
    assert known.since.latest < end
    plot = page.locator("#timeline-plot")
    expect(plot.locator("svg")).to_contain_text(re.compile(rf"since (.*, )?{since}"))
    expect(plot).to_be_in_viewport(ratio=1)
    worst = page.locator("#segments tbody tr").first
    expect(worst).to_contain_text(CULPRIT)
    expect(worst).to_be_in_viewport(ratio=1)
    part.click()

    expect(page.locator(".chip")).to_contain_text(CULPRIT)
    expect(page).to_have_url(re.compile(f"segment=country:{CULPRIT}"))
    assert page.evaluate("window.clicks") == 3
    expect(page.locator("#figure-auc_pr")).to_have_text(re.compile(r"0\.\d{3}"))
    stream = served.client.stream(fall.stream)
    after = {"window": (known.since.latest, end)}
    lower = stream.snapshot(segment=("country", CULPRIT), **after).auc_roc
    assert lower < stream.snapshot(**after).auc_roc
