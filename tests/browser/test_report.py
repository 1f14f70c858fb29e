"""The report opens from a file without a server, has the API's figures, and runs nothing."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from streameval_server import Settings
from streameval_server.testing import running_service

from ..alarm_history import write_alarm_history
from ..commands import CommandRunner, app, report_of
from .conftest import HOSTILE, STREAM, Served, expect, figure
from .test_declared_threshold import DECLARED, declare

if TYPE_CHECKING:
    from playwright.sync_api import Page


def asked(served: Served, stream: str, method: str, **fields: Any) -> dict[str, Any]:
    """Return what the JSON API says."""
    url = f"{served.http}/v1/streams/{stream}:{method}?{urlencode(fields)}"
    with urlopen(url, timeout=20) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def opened(page: Page, text: str, tmp_path: Path) -> None:
    """Open a report from a file, without any network; it may ask for nothing else."""
    file = tmp_path / "opened.html"
    file.write_text(text, encoding="utf-8")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.context.set_offline(True)
    page.goto(file.as_uri())
    assert [each for each in requests if not each.startswith("data:image/svg+xml;")] == [
        file.as_uri()
    ]


def values(page: Page, attribute: str) -> dict[str, str]:
    """Return the values with all digits by what they are of."""
    found = page.locator(f"[{attribute}][data-value]")
    return dict(
        found.evaluate_all(
            f"all => all.map(each => [each.getAttribute('{attribute}'), each.dataset.value])"
        )
    )


def test_figures_are_the_apis(page: Page, served: Served, tmp_path: Path) -> None:
    """Metrics, rates at the threshold and calibration, with their intervals."""
    declare(served)
    opened(page, report_of(served.grpc, DECLARED, tmp_path), tmp_path)
    known = asked(served, DECLARED, "snapshot")["snapshot"]["metrics"]
    known += asked(served, DECLARED, "reliability")["metrics"]
    found = values(page, "data-name")
    assert found == {each["name"]: repr(each["value"]) for each in known if "value" in each}
    for each in known:
        limits = each.get("interval", {})
        cell = page.locator("div", has=page.locator(f"> [data-name={each['name']}]"))
        if "lower" in limits and limits["upper"] < 0.99 and each["name"] == "auc_pr":
            text = f"{figure(limits['lower'])} to {figure(limits['upper'])}"
            expect(cell.locator(".more")).to_have_text(text)
    verdict = served.client.stream(DECLARED).verdict()
    expect(page.locator(".first .conclusion")).to_have_text(verdict.sentence)
    shown = {
        f"{each.metric} {side}": repr(getattr(each, side).estimate)
        for each in verdict.figures
        for side in ("before", "now", "difference")
        if not math.isnan(getattr(each, side).estimate)
    }
    assert values(page, "data-verdict") == shown
    revision = asked(served, DECLARED, "snapshot")["snapshot"]["revision"]
    expect(page.locator(".about")).to_contain_text(f"at revision {revision} by streameval")


def test_steps_and_segments_are_the_apis(page: Page, served: Served, tmp_path: Path) -> None:
    """Each step is a row of ListWindows, each segment one of RankSegments."""
    opened(page, report_of(served.grpc, STREAM, tmp_path), tmp_path)
    ranked = asked(served, STREAM, "rank")["segments"]
    wanted = {
        f"{each['segment']['key']}:{each['segment']['value']}": repr(each["value"]["value"])
        for each in ranked
    }
    assert values(page, "data-segment") == wanted
    steps = page.locator("[data-step]")
    starts = steps.evaluate_all("all => all.map(each => each.dataset.step)")
    assert len(starts) > 12
    for start, end in list(zip(starts[1:], starts, strict=False))[:4]:
        fields = {
            "selection.between.startTime": start,
            "selection.between.endTime": end,
            "metrics": "auc_pr",
        }
        snapshot = asked(served, STREAM, "snapshot", **fields)["snapshot"]
        (metric,) = snapshot["metrics"]
        cell = page.locator(f"[data-step='{start}']")
        shown = cell.get_attribute("data-value")
        assert shown == (repr(metric["value"]) if "value" in metric else None)


def test_nothing_runs_and_hostile_names_are_text(
    page: Page, served: Served, tmp_path: Path, complaints: list[str]
) -> None:
    """No script, no address, and a policy that forbids both; every chart says what it shows."""
    complaints.append("Content Security Policy")
    text = report_of(served.grpc, STREAM, tmp_path)
    assert not re.search(r"<script|javascript:|https?://|<link|<img(?! alt=)", text, re.IGNORECASE)
    opened(page, text, tmp_path)
    handlers = "[...document.querySelectorAll('*')].flatMap(each => each.getAttributeNames())"
    assert not [name for name in page.evaluate(handlers) if name.startswith("on")]
    expect(page.get_by_text(f"country = {HOSTILE}")).to_be_visible()
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=hacked=1>')")
    assert page.evaluate("typeof hacked") == "undefined"
    pictures = page.locator("img:not([alt='']):not([src=x])")
    assert pictures.count() == 4
    assert all(pictures.evaluate_all("all => all.map(each => each.complete && each.naturalWidth)"))
    for sentence in ("cases are independent", "labelled cases", "Davis and Goadrich"):
        expect(page.locator("section", has_text="What these figures assume")).to_contain_text(
            sentence
        )


def test_it_prints_in_black_on_white(page: Page, served: Served, tmp_path: Path) -> None:
    """On several sheets, nothing cut off at the right, also where the system is dark."""
    page.emulate_media(color_scheme="dark", media="print")
    opened(page, report_of(served.grpc, STREAM, tmp_path), tmp_path)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    pdf = page.pdf(format="A4")
    assert pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") >= 2
    page.set_viewport_size({"width": 688, "height": 900})  # A4 without its margins
    over = "[...document.querySelectorAll('*')].filter(each => each.getBoundingClientRect().right"
    assert page.evaluate(f"{over} > innerWidth + 1).map(each => each.outerHTML.slice(0, 90))") == []


def test_the_first_page_is_one_page(page: Page, served: Served, tmp_path: Path) -> None:
    """Figures, their course and the worst segments; all else is the annex, on pages of its own."""
    page.emulate_media(media="print")
    opened(page, report_of(served.grpc, STREAM, tmp_path), tmp_path)
    page.set_viewport_size({"width": 688, "height": 900})  # A4 without its margins
    first = page.locator(".first")
    assert first.bounding_box()["height"] < 1002  # of 297 mm less 2 times 16
    for part in ("[data-name=auc_pr]", "img[alt^='AUC-PR in']"):
        expect(first.locator(part)).to_be_visible()
    worst = asked(served, STREAM, "rank")["segments"][0]
    assert worst["segment"]["value"] == "BR"
    expect(first).to_contain_text(f"country = BR: AUC-PR {figure(worst['value']['value'])}, ")
    assert page.locator(".first h2").count() == 2
    assert page.evaluate("getComputedStyle(document.querySelector('.annex')).breakBefore") == "page"
    expect(page.locator(".annex h2").first).to_be_visible()


def test_a_file_is_never_overwritten(served: Served, tmp_path: Path) -> None:
    """The command says so, and the file stays."""
    text = report_of(served.grpc, STREAM, tmp_path)
    file = tmp_path / "report.html"
    again = CommandRunner().invoke(
        app, ["report", "--server", served.grpc, STREAM, "-o", str(file)]
    )
    assert again.exit_code == 2
    assert file.read_text(encoding="utf-8") == text


def test_a_window_and_a_segment(page: Page, served: Served, tmp_path: Path) -> None:
    """The report is of what is asked for, and says so."""
    text = report_of(served.grpc, STREAM, tmp_path, "--segment", "country=BR")
    opened(page, text, tmp_path)
    expect(page.locator(".about")).to_contain_text("All time; country = BR.")
    fields = {"selection.segment.key": "country", "selection.segment.value": "BR"}
    known = asked(served, STREAM, "snapshot", **fields)["snapshot"]["metrics"]
    found = values(page, "data-name")
    assert found["auc_pr"] == repr(next(m["value"] for m in known if m["name"] == "auc_pr"))


@pytest.mark.parametrize("stream", ["new/empty", "one/positive", "wait/labels", "old/data"])
def test_little_data_is_said(page: Page, served: Served, tmp_path: Path, stream: str) -> None:
    """A stream without cases, or of one class, has a report without curves."""
    opened(page, report_of(served.grpc, stream, tmp_path), tmp_path)
    expect(page.locator("h1")).to_have_text(stream)
    has_curves = page.locator("h2", has_text="Curves").count() == 1
    assert has_curves is (stream == "old/data")


def test_alarms_are_sentences(page: Page, tmp_path: Path) -> None:
    """Open and acknowledged ones, with the segments that explain them."""
    write_alarm_history(tmp_path / "data", "alarms/v1")
    settings = Settings(listen="127.0.0.1:0", data=tmp_path / "data")
    with running_service(settings) as addresses:
        text = report_of(addresses.grpc, "alarms/v1", tmp_path)
    opened(page, text, tmp_path)
    alarms = page.locator("section", has=page.locator("h2", has_text="Alarms"))
    expect(alarms.first).to_contain_text("country=FR explains it")
    expect(alarms.nth(1)).to_contain_text("acknowledged")
    expect(page.locator(".first", has=alarms.first)).not_to_contain_text("acknowledged")
