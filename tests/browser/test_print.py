"""The page on paper: figures and charts, nothing that is clicked, black on white."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .conftest import STREAM, Served, expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

OVER = """
    [...document.querySelectorAll("main svg, main table")]
        .filter(each => each.getBoundingClientRect().right > innerWidth + 1)
        .map(each => each.outerHTML.slice(0, 90))
"""


def test_what_is_read_is_printed(page: Page, served: Served) -> None:
    """Of a dark screen, too; charts shrink to the sheet, controls are left out."""
    page.emulate_media(color_scheme="dark")
    page.goto(served.url(f"stream/{STREAM}?window=all"))
    expect(page.locator("#roc-plot svg path").first).to_be_attached()
    expect(page.locator("[aria-busy]:visible")).to_have_count(0)
    before = page.locator("#pr-plot svg").bounding_box()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print", color_scheme="dark")
    page.set_viewport_size({"width": 700, "height": 1000})
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    for hidden in ("#take", "#theme", ".take >> nth=0", "#threshold-slider", ".segmented"):
        expect(page.locator(hidden)).to_be_hidden()
    for shown in ("h1", "#figures", "#pr-plot svg", "#tp", "#past", "#segments table"):
        expect(page.locator(shown)).to_be_visible()
    assert page.locator("#pr-plot svg").bounding_box()["width"] < before["width"]
    assert page.evaluate(OVER) == []
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
