"""Charts over time: steps by positives, spans chosen in the chart, segments beside the whole."""

from __future__ import annotations

import csv
import math
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval.client import Client
from streameval_server import Settings
from streameval_server.testing import running_service

from ..alarm_history import write_alarm_history
from .conftest import STREAM, Served, expect, figure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

FELL = "fraud/fell"
DAY = timedelta(days=1)
Z = 1.959964
TIMES = "\N{MULTIPLICATION SIGN}"


@pytest.fixture(scope="module")
def fallen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return a server whose stream fell in one country some hours ago."""
    directory = tmp_path_factory.mktemp("fell")
    write_alarm_history(directory, FELL)
    settings = Settings(listen="127.0.0.1:0", data=directory)
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        yield Served(addresses.grpc, addresses.http, client)


def ends_of(href: str) -> tuple[datetime, datetime]:
    """Return the ends of the window of a link."""
    start, end = re.search(r"window=([^&]+?)\.\.([^&]+)", href).groups()
    return datetime.fromisoformat(start), datetime.fromisoformat(end)


def opened(page: Page, name: str, chart: str = "timeline") -> None:
    """Open a stream and wait until its chart is drawn."""
    page.goto(name)
    expect(page.locator(f"#{chart}-plot svg path").first).to_be_attached()
    expect(page.locator(f"#{chart}")).not_to_have_attribute("aria-busy", "true")


def steps_of(page: Page) -> list[tuple[datetime, datetime]]:
    """Return the steps of the time chart, the oldest first, by the links of its table."""
    page.locator("#timeline .rows > summary").click()
    links = page.locator("#timeline tbody a")
    expect(links.first).to_be_visible()
    return [ends_of(link.get_attribute("href")) for link in reversed(links.all())]


def test_each_step_has_twenty_positives(fallen: Served, page: Page) -> None:
    """As the client's series by positives; the newest may have fewer, and is faint."""
    opened(page, fallen.url(f"stream/{FELL}"))
    steps = steps_of(page)
    stream = fallen.client.stream(FELL)
    known = stream.series(steps[0][0], steps[-1][1], timedelta(minutes=30), min_positives=20)
    assert steps == [each.window for each in known]
    rows = [row.locator("td").all_inner_texts() for row in page.locator("#timeline tbody tr").all()]
    for row, each in zip(reversed(rows), known, strict=True):
        assert int(row[3]) == each.num_positive_ref
        if not math.isnan(each.auc_pr):
            assert row[1] == figure(each.auc_pr)
    assert all(each.num_positive_ref >= 20 for each in known[:-1])
    few = known[-1].num_positive_ref < 20 and not math.isnan(known[-1].auc_pr)
    expect(page.locator("#timeline .keys", has_text="fewer than 20 positives")).to_have_count(
        int(few)
    )


def test_a_click_opens_a_step(fallen: Served, page: Page) -> None:
    """The step under the pointer becomes the window."""
    opened(page, fallen.url(f"stream/{FELL}"))
    steps = steps_of(page)
    box = page.locator("#timeline-plot").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 90)
    page.wait_for_url(re.compile(r"window=\d{4}-"))
    window = ends_of(page.url)
    assert window in steps
    assert 0.3 < (window[0] - steps[0][0]) / (steps[-1][1] - steps[0][0]) < 0.7
    known = fallen.client.stream(FELL).snapshot(window=window)
    expect(page.locator("#figure-auc_pr")).to_have_text(figure(known.auc_pr))


def test_a_span_is_dragged(fallen: Served, page: Page) -> None:
    """Whole steps from press to release; "Custom range" then has what is shown."""
    opened(page, fallen.url(f"stream/{FELL}"))
    steps = steps_of(page)
    box = page.locator("#timeline-plot").bounding_box()
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 90)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 95, steps=4)
    expect(page.locator("#timeline .chosen-span")).to_be_visible()
    page.mouse.up()
    page.wait_for_url(re.compile(r"window=\d{4}-"))
    start, end = ends_of(page.url)
    assert start in [each for each, _ in steps]
    assert end in [each for _, each in steps]
    assert 0.15 < (end - start) / (steps[-1][1] - steps[0][0]) < 0.5
    expect(page.locator("#timeline .chosen-span")).to_be_hidden()
    known = fallen.client.stream(FELL).snapshot(window=(start, end))
    expect(page.locator("#figure-auc_pr")).to_have_text(figure(known.auc_pr))
    page.get_by_text("Custom range").click()
    expect(page.locator("#from")).to_have_value(f"{start:%Y-%m-%dT%H:%M}")
    expect(page.locator("#to")).to_have_value(f"{end:%Y-%m-%dT%H:%M}")


def test_the_keyboard_chooses_steps(fallen: Served, page: Page) -> None:
    """Arrow keys name each step, Shift selects several, Enter opens them."""
    opened(page, fallen.url(f"stream/{FELL}"))
    steps = steps_of(page)
    cursor = page.locator("#timeline").get_by_role("slider", name="Steps of the chart")
    cursor.focus()
    for key in ("Home", "ArrowRight", "ArrowRight"):
        cursor.press(key)
    expect(cursor).to_have_attribute("aria-valuenow", "3")
    expect(cursor).to_have_attribute(
        "aria-valuetext", re.compile(rf"{steps[2][0]:%H:%M} to .*AUC-PR 0\.\d+")
    )
    for _ in range(4):
        cursor.press("Shift+ArrowRight")
    expect(cursor).to_have_attribute("aria-valuetext", re.compile("^5 steps selected, to "))
    cursor.press("Enter")
    page.wait_for_url(re.compile(r"window=\d{4}-"))
    assert ends_of(page.url) == (steps[2][0], steps[6][1])


def test_times_are_local_or_utc_and_say_so(fallen: Served, page: Page) -> None:
    """The choice changes every time that is shown, and is kept."""
    page.goto(fallen.url(f"stream/{FELL}"))
    expect(page.locator("#covered")).to_contain_text("local time")
    page.get_by_text("Custom range").click()
    before = page.locator("#from").input_value()
    page.get_by_role("button", name="Show UTC").click()
    expect(page.locator("#covered")).to_contain_text("UTC")
    expect(page.locator("#zone-note")).to_have_text("All times are in UTC.")
    assert page.locator("#from").input_value() == before  # the context's zone is UTC
    page.reload()
    expect(page.locator("#covered")).to_contain_text("UTC")
    expect(page.locator("#timeline .note").first).to_contain_text("Times are UTC.")


def test_segments_over_time_the_culprit_first(fallen: Served, page: Page) -> None:
    """A line of each segment in its row, the worst first; in a file."""
    opened(page, fallen.url(f"stream/{FELL}"))
    rows = page.locator("#segments tbody tr")
    expect(rows.first.locator(".sparkline")).to_be_visible()
    stream = fallen.client.stream(FELL)
    ranked = stream.rank_segments(window=DAY, min_references=10)
    names = [f"{key}={value}" for key, value in (each.segment for each in ranked)]
    assert names[0] == "country=FR"
    expect(rows.locator(".sparkline")).to_have_count(len(names))
    with page.expect_download() as saved:
        page.get_by_role("button", name="Segments: save their steps").click()
    steps = list(csv.DictReader(saved.value.path().read_text().splitlines()))
    assert list(dict.fromkeys(step["Segment"] for step in steps)) == names
    values = [step["AUC-PR"] for step in steps if step["Segment"] == names[0]]
    drawn = [float(value) for value in values if value]  # the newest step may have no positive yet
    assert len(drawn) > 5
    expect(rows.first.locator(".sparkline")).to_have_attribute(
        "aria-label", f"AUC-PR from {figure(drawn[0])} to {figure(drawn[-1])}"
    )
    # Since when is the verdict's: a search for each segment would find falls that are none.
    assert "since" not in page.locator("#segments thead").inner_text()


def test_segments_of_one_key_and_a_least_size(served: Served, page: Page) -> None:
    """The ranking is the client's with the same choice; the URL keeps it."""
    page.goto(served.url(f"stream/{STREAM}?window=all"))
    rows = page.locator("#segments tbody tr")
    expect(rows.first).to_be_visible()
    page.locator("#segment-least").select_option("50")
    known = served.client.stream(STREAM).rank_segments(min_references=50)
    expect(rows).to_have_count(len(known.segments))
    assert known.num_left_out > 0
    expect(page.locator("#segments .card-foot")).to_contain_text(
        f"{known.num_left_out} smaller segments are left out."
    )
    expect(page.locator("#segments thead")).to_contain_text(
        f"AUC-PR at {100 * known.prevalence:.1f} %"
    )
    # Where each segment is a block, without a head.
    expect(rows.first.locator("td").first).to_have_attribute(
        "data-title", f"AUC-PR at {100 * known.prevalence:.1f} %"
    )
    assert "least=50" in page.url
    page.reload()
    expect(rows).to_have_count(len(known.segments))


def test_deployments_are_marked(page: Page, complaints: list[str]) -> None:
    """Made, drawn, listed and deleted on the page; made elsewhere they appear, too."""
    complaints.append("400 (Bad Request)")
    settings = Settings(listen="127.0.0.1:0", memory=True)
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        now = datetime.now(UTC)
        rng = np.random.default_rng(8)
        labels = rng.random(900) < 0.3
        client.create_stream("s", segment_keys=["country", "channel", "country*channel"])
        client.stream("s").add_cases(
            labels=labels,
            scores=1 / (1 + np.exp(rng.normal(size=900) - labels)),
            at=[now - timedelta(minutes=each) for each in np.linspace(300, 1, 900).tolist()],
            segments={
                "country": rng.choice(["BR", "US"], 900).tolist(),
                "channel": rng.choice(["web", "app"], 900).tolist(),
            },
        )
        client.flush()
        client.create_mark("s", "v4 deployed", at=now - timedelta(hours=2))
        opened(page, f"{addresses.http}/#/stream/s?window=6h")
        expect(page.locator("#timeline-plot")).to_contain_text("v4 deployed")
        page.locator("#marks summary").click()
        listed = page.locator("#marks li")
        expect(listed).to_have_count(1)
        expect(listed.first).to_contain_text("v4 deployed")
        page.get_by_label("What happened").fill("v5 deployed")
        page.get_by_role("button", name="Add a mark").click()
        expect(listed).to_have_count(2)
        assert [each.text for each in client.list_marks("s")] == ["v4 deployed", "v5 deployed"]
        page.get_by_role("button", name="Delete the mark v5 deployed").click()
        expect(listed).to_have_count(1)
        assert [each.text for each in client.list_marks("s")] == ["v4 deployed"]
        page.get_by_label("What happened").fill("   ")
        page.get_by_role("button", name="Add a mark").click()
        expect(page.locator("#marks .refusal")).to_contain_text("Nothing is changed. Text must")
        # Crossed keys are ranked by names that can be read.
        page.locator("#segment-key").select_option("country*channel")
        rows = page.locator("#segments tbody tr")
        known = client.stream("s").rank_segments("country*channel", min_references=10)
        expect(rows).to_have_count(len(known.segments))
        expect(rows.first.locator("th")).to_contain_text(f"country {TIMES} channel")
        shown = known.segments[0].segment[1].replace("*", f" {TIMES} ")
        expect(rows.first.locator("th")).to_contain_text(shown)
        rows.first.locator("a").click()
        expect(page.locator(".chip")).to_contain_text(shown)
        worst = known.segments[0].segment
        cases = client.stream("s").snapshot(segment=worst, window=timedelta(hours=6))
        expect(page.locator("#figure-counts")).to_have_text(str(cases.num_cases))
        page.goto("about:blank")  # the server ends before the page does
