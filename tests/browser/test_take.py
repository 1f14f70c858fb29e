"""What is taken along: pictures and rows are those of the chart; hostile names stay text."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import struct
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from urllib.request import urlopen
from xml.etree import ElementTree as ET

import pytest
import yaml

from ..commands import CommandRunner, app
from .conftest import COUNTRIES, HOSTILE, STREAM, Served, expect
from .test_declared_threshold import DECLARED, declare

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHARTS = {"timeline": "", "pr": "", "roc": "", "histogram": "scores"}
"""Each with its tab."""
SVG = "{http://www.w3.org/2000/svg}"


def opened(page: Page, served: Served, fragment: str = f"stream/{STREAM}?window=all") -> None:
    """Open a stream and wait for its charts."""
    page.goto(served.url(fragment))
    for card in ("timeline", "histogram" if "tab=scores" in fragment else "roc"):
        expect(page.locator(f"#{card}-plot svg path").first).to_be_attached()
    expect(page.locator("[aria-busy]:visible")).to_have_count(0)


def saved(page: Page, card: str, kind: str) -> Path:
    """Return the file that a card's button saves."""
    with page.expect_download() as waiting:
        page.locator(f"#{card} .takes").get_by_text(kind, exact=True).click()
    assert waiting.value.suggested_filename.endswith(f".{kind.lower()}")
    return Path(waiting.value.path())


def asked(served: Served, method: str, parameters: str = "") -> dict[str, Any]:
    """Return what the JSON API says of all time."""
    url = f"{served.http}/v1/streams/{STREAM}:{method}?{parameters}"
    with urlopen(url, timeout=20) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def rows(page: Page, card: str) -> list[dict[str, str]]:
    """Return the rows of a card's CSV."""
    text = saved(page, card, "CSV").read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text)))


def test_rows_of_the_curves_are_the_servers(page: Page, served: Served) -> None:
    """Each operating point of the API, with all digits; the counts give the rates."""
    opened(page, served)
    known = asked(served, "curve", "&kind=CURVE_KIND_OPERATING_POINTS")["curve"]
    found = rows(page, "pr")
    assert found == rows(page, "roc")
    assert [float(row["Threshold"].replace("Infinity", "inf")) for row in found] == [
        float(each) for each in known["thresholds"]
    ]
    assert [row["TP"] for row in found] == known["tp"]
    assert [row["FP"] for row in found] == known["fp"]
    snapshot = served.client.stream(STREAM).snapshot()
    for row in found[1:]:
        tp, fp = int(row["TP"]), int(row["FP"])
        assert float(row["Recall"]) == tp / snapshot.num_positive_ref
        assert float(row["Precision"]) == tp / (tp + fp)
        assert float(row["FPR"]) == fp / snapshot.num_negative_ref
    hull = {point["Threshold"] for point in found if point["On the hull"]}
    assert len(hull) == len(snapshot.hull.thresholds)


def test_rows_of_the_histogram_are_the_servers(page: Page, served: Served) -> None:
    """Edges and counts of each bin."""
    opened(page, served, f"stream/{STREAM}?window=all&tab=scores")
    known = asked(served, "histogram", "&bins=40")
    found = rows(page, "histogram")
    assert [float(row["From"]) for row in found] == known["edges"][:-1]
    assert [row["Positives"] for row in found] == known["positives"]
    assert [row["Negatives"] for row in found] == known["negatives"]


def test_rows_of_the_timeline_are_those_of_its_table(page: Page, served: Served) -> None:
    """As many as the table has, with times in UTC and limits in two columns."""
    opened(page, served)
    found = rows(page, "timeline")
    page.locator("#timeline .rows > summary").click()
    shown = page.locator("#timeline tbody tr")
    expect(shown.first).to_be_visible()
    assert len(found) == shown.count()
    for row in found:
        assert row["From (UTC)"].endswith("Z")
        assert row["From (UTC)"] < row["To (UTC)"]
        if row["Lower limit"]:
            assert float(row["Lower limit"]) <= float(row["AUC-PR"]) <= float(row["Upper limit"])


@pytest.mark.parametrize("card", CHARTS)
def test_a_picture_explains_itself(page: Page, served: Served, card: str) -> None:
    """SVG with heading, what is seen and the legend; the PNG has twice its size."""
    opened(page, served, f"stream/{STREAM}?window=all&segment=country:US&tab={CHARTS[card]}")
    root = ET.fromstring(saved(page, card, "SVG").read_text(encoding="utf-8"))
    assert root.tag == f"{SVG}svg"
    texts = [each.text for each in root.iter(f"{SVG}text") if each.text]
    assert page.locator(f"#{card}-title").inner_text() in texts
    assert f"{STREAM}, country = US, all time" in texts
    for key in page.locator(f"#{card} .keys li").all_inner_texts():
        assert key in texts
    assert len(list(root.iter(f"{SVG}path"))) > 3
    png = saved(page, card, "PNG").read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", png[16:24])
    assert width == 2 * round(float(root.get("width", "0")))
    assert height == 2 * round(float(root.get("height", "0")))


def test_links_show_the_same(page: Page, served: Served) -> None:
    """The link of the view, and one that is pinned to the time that is shown."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    fragment = f"stream/{STREAM}?window=1h&segment=country:US"
    opened(page, served, fragment)
    page.locator("#take summary").click()
    page.get_by_role("button", name="Copy link", exact=True).click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == served.url(fragment)
    before = page.locator("#covered").inner_text()
    page.get_by_role("button", name="Copy link to this time").click()
    expect(page.get_by_role("button", name="Copied")).to_have_count(2)
    pinned = page.evaluate("navigator.clipboard.readText()")
    after = page.locator("#covered").inner_text()  # of the next minute, at times
    page.keyboard.press("Escape")
    expect(page.locator("#take")).not_to_have_attribute("open", "")
    page.goto("about:blank")
    page.goto(pinned)
    either = f"{re.escape(before)}|{re.escape(after)}"
    expect(page.locator("#covered")).to_have_text(re.compile(f"^({either})$"))
    expect(page.locator(".chip")).to_contain_text("US")


def test_what_opens_over_the_page_closes(page: Page, served: Served) -> None:
    """By Escape wherever the focus is, and by a click outside of it; dialogs, too."""
    opened(page, served)
    menu, times = page.locator("#take"), page.locator("details.custom")
    times.locator("summary").click()
    page.locator("#zone-note").click()  # takes the focus away
    expect(times).to_have_attribute("open", "")
    page.keyboard.press("Escape")
    expect(times).not_to_have_attribute("open", "")
    expect(times.locator("summary")).to_be_focused()
    menu.locator("summary").click()
    page.get_by_role("button", name="Create alert").click()
    dialog = page.get_by_role("dialog", name="Create alert")
    dialog.locator("h3").first.click()
    expect(dialog).to_be_visible()
    page.mouse.click(5, 5)
    expect(dialog).to_be_hidden()
    page.get_by_role("button", name="Create alert").click()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(menu).to_have_attribute("open", "")
    page.keyboard.press("Escape")
    expect(menu).not_to_have_attribute("open", "")


def exported(page: Page, name: str) -> list[str]:
    """Return what the dialog of an entry of Export shows, to be copied."""
    page.locator("#take summary", has_text="Export").click()
    page.get_by_role("button", name=name).click()
    codes = page.get_by_role("dialog", name=name).locator("code:visible")
    expect(codes.first).not_to_be_empty()
    return codes.all_inner_texts()


def test_the_rule_names_what_prometheus_has(page: Page, served: Served) -> None:
    """Its series is one that the server exports; its floor is the lower limit of what is seen."""
    opened(page, served)
    _, rule = exported(page, "Create alert")
    found = re.search(r"expr: \|\n\s+(\w+)\{(.*?)\}\n\s+< ([\d.]+)\n", rule)
    assert found is not None
    name, labels, floor = found.groups()
    with urlopen(f"{served.http}/metrics", timeout=20) as answer:
        lines = answer.read().decode().splitlines()
    wanted = set(labels.split(", "))
    series = [
        line
        for line in lines
        if line.startswith(f"{name}{{")
        and wanted <= set(line[len(name) + 1 : line.index("}")].split(","))
    ]
    assert len(series) == 1
    limits = served.client.stream(STREAM).snapshot().intervals["auc_pr"]
    assert float(floor) == pytest.approx(limits.lower, rel=1e-3)
    (group,) = yaml.safe_load(rule)["groups"]
    assert group["rules"][0]["expr"].split() == f"{name}{{{labels}}} < {floor}".split()


def test_the_command_declares_alarms(page: Page, served: Served) -> None:
    """Run as it is copied, it makes what is seen the reference."""
    declare(served)
    page.goto(served.url(f"stream/{DECLARED}?window=6h"))
    expect(page.locator("#pr-plot svg path").first).to_be_attached()
    command, _ = exported(page, "Create alert")
    program, *arguments = shlex.split(command.replace("\\\n", " "))
    assert program == "streameval"
    assert arguments[2:5] == [DECLARED, "--server", served.grpc]
    made = CommandRunner().invoke(app, arguments)
    assert made.exit_code == 0, made.output
    alarms = served.client.get_stream(DECLARED).settings.alarms
    assert alarms is not None
    assert set(alarms.watches) == {"auc_roc", "precision", "recall"}
    start, end = alarms.reference or (None, None)
    assert f"{start:%Y-%m-%dT%H:%M:%SZ}..{end:%Y-%m-%dT%H:%M:%SZ}" in command
    served.client.update_stream(DECLARED, alarms=None)


@pytest.mark.parametrize("segment", ["", HOSTILE, "it's; false"])
def test_the_command_writes_a_report(
    page: Page, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, segment: str
) -> None:
    """Run as it is copied, it covers the time and the segment that are seen."""
    stream = served.client.stream("take/report")
    if stream.name not in [each.name for each in served.client.list_streams()]:
        served.client.create_stream(stream.name, segment_keys=["country"])
    rows = {"labels": [1, 0, 1, 0], "scores": [0.9, 0.8, 0.4, 0.1]}
    stream.add_cases(**rows, segments={"country": [segment] * 4})
    served.client.flush()
    page.goto(served.url(f"stream/{stream.name}?window=1h&segment=country:{quote(segment)}"))
    expect(page.locator("#pr-plot svg path").first).to_be_attached()
    (command,) = exported(page, "Report")
    program, *arguments = shlex.split(command.replace("\\\n", " "))
    assert program == "streameval"
    assert arguments[1:4] == [stream.name, "--server", served.grpc]
    monkeypatch.chdir(tmp_path)
    made = CommandRunner().invoke(app, arguments)
    assert made.exit_code == 0, made.output
    start, end = (arguments[arguments.index(each) + 1] for each in ("--from", "--to"))
    said = f"{start:.10} {start[11:16]} to {end[11:16]} UTC; country = {escape(segment)}."
    assert said in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_hostile_names_stay_text(page: Page, served: Served) -> None:
    """A segment's value that is markup is text in the picture, and no part of a file's name."""
    assert HOSTILE in COUNTRIES
    segment = f"country:{HOSTILE.replace(' ', '%20')}"
    fragment = f"stream/{STREAM}?window=all&tab=scores&segment={segment}"
    page.goto(served.url(fragment))
    expect(page.locator("#histogram-plot svg path").first).to_be_attached()
    root = ET.fromstring(saved(page, "histogram", "SVG").read_text(encoding="utf-8"))
    assert any(HOSTILE in (each.text or "") for each in root.iter(f"{SVG}text"))
    assert not list(root.iter(f"{SVG}img"))
