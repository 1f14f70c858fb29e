"""What is taken along: pictures and rows are those of the chart; hostile names stay text."""

from __future__ import annotations

import csv
import io
import json
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen
from xml.etree import ElementTree as ET

import pytest

from .conftest import COUNTRIES, HOSTILE, STREAM, Served, expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHARTS = ("timeline", "pr", "roc", "histogram")
SVG = "{http://www.w3.org/2000/svg}"


def opened(page: Page, served: Served, fragment: str = f"stream/{STREAM}?window=all") -> None:
    """Open a stream and wait for its charts."""
    page.goto(served.url(fragment))
    for card in CHARTS:
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
    opened(page, served)
    known = asked(served, "histogram", "&bins=40")
    found = rows(page, "histogram")
    assert [float(row["From"]) for row in found] == known["edges"][:-1]
    assert [row["Positives"] for row in found] == known["positives"]
    assert [row["Negatives"] for row in found] == known["negatives"]


def test_rows_of_the_timeline_are_those_of_its_table(page: Page, served: Served) -> None:
    """As many as the table has, with times in UTC and limits in two columns."""
    opened(page, served)
    found = rows(page, "timeline")
    page.locator("#timeline summary").click()
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
    opened(page, served, f"stream/{STREAM}?window=all&segment=country:US")
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


def test_hostile_names_stay_text(page: Page, served: Served) -> None:
    """A segment's value that is markup is text in the picture, and no part of a file's name."""
    assert HOSTILE in COUNTRIES
    fragment = f"stream/{STREAM}?window=all&segment=country:{HOSTILE.replace(' ', '%20')}"
    page.goto(served.url(fragment))
    expect(page.locator("#histogram-plot svg path").first).to_be_attached()
    root = ET.fromstring(saved(page, "histogram", "SVG").read_text(encoding="utf-8"))
    assert any(HOSTILE in (each.text or "") for each in root.iter(f"{SVG}text"))
    assert not list(root.iter(f"{SVG}img"))
