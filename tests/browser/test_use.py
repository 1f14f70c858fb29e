"""Accessibility: keyboard, screen reader, dark theme, phone, colour-blind users."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from .conftest import OTHER, STREAM, Served, expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.heavy

VIEWS = {
    "streams": ("", "table.streams tbody tr"),
    "stream": (f"stream/{STREAM}", "#segments tbody tr", ".past tbody tr"),
    "compare": (f"compare?a={STREAM}&b={OTHER}", "#result-a"),
    "one class": ("stream/one/negative", "#one-class"),
    "no data": ("stream/new/empty", "#no-data"),
}


def show(page: Page, served: Served, view: str) -> None:
    """Open a view and wait for its last parts, whose answers come in either order."""
    fragment, *last = VIEWS[view]
    page.goto(served.url(fragment))
    for part in last:
        expect(page.locator(part).first).to_be_visible()


@pytest.mark.parametrize("view", VIEWS)
def test_everything_has_a_name_and_a_place(page: Page, served: Served, view: str) -> None:
    """Controls are labelled, charts are described, headings and landmarks are in order."""
    show(page, served, view)
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("a, button, input, select, [role=img]")]
            .filter((each) => each.checkVisibility())
            .filter((each) => !(each.getAttribute("aria-label") || each.textContent.trim()
                || (each.labels && [...each.labels].some((label) => label.textContent.trim()))))
            .map((each) => each.outerHTML.slice(0, 100))"""
    )
    assert nameless == []
    for landmark in ("banner", "main"):
        expect(page.get_by_role(landmark)).to_have_count(1)
    expect(page.get_by_role("navigation", name="Main")).to_have_count(1)
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    assert page.locator("html").get_attribute("lang") == "en"
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((each) => each.id)")
    assert len(ids) == len(set(ids))
    scopeless = page.locator("table th:not([scope])")
    assert scopeless.count() == 0


def test_the_keyboard_reaches_everything(page: Page, served: Served) -> None:
    """From the skip link to the last table, each focus is visible; Enter follows links."""
    show(page, served, "stream")
    page.keyboard.press("Tab")
    expect(page.locator("#skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    assert f"stream/{STREAM}" in page.url, "the fragment stays the view's"
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            """() => {
                const each = document.activeElement;
                const outline = getComputedStyle(each).outlineStyle;
                return [each.tagName, each.id || each.textContent.trim(), outline];
            }"""
        )
        if focused[0] == "BODY":
            break
        assert focused[2] != "none", focused
        reached.add((focused[0], focused[1]))
    assert {("INPUT", "threshold-slider"), ("INPUT", "cost-fp"), ("A", "1 h")} <= reached
    assert sum(tag == "SUMMARY" for tag, _ in reached) >= 2
    assert any(tag == "A" and "BR" in text for tag, text in reached)
    page.locator("#roc .rows > summary").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("table", name="Vertices of the ROC hull")).to_be_visible()


def test_focus_stays_while_figures_move(page: Page, served: Served) -> None:
    """A row that moves in the list, or is drawn again in the segments, keeps the focus."""
    show(page, served, "streams")
    link = page.get_by_role("link", name=OTHER)
    link.focus()
    page.get_by_label("Order").select_option("name")
    link.focus()
    stream = served.client.stream("churn/weekly")
    figure = page.locator("tr", has_text="churn/weekly").locator("td[data-title='AUC-PR']")
    before = figure.inner_text()
    stream.add_cases(labels=[0] * 40, scores=[0.99] * 40)
    stream.flush()
    expect(figure).not_to_have_text(before)
    expect(link).to_be_focused()


def test_a_view_is_announced(page: Page, served: Served) -> None:
    """A link moves the focus to the new view's heading; the title names the view."""
    show(page, served, "streams")
    page.get_by_role("link", name=STREAM).click()
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text(STREAM)
    expect(heading).to_be_focused()
    assert page.title() == f"{STREAM} · streameval"
    polite = page.locator("#spoken")
    assert polite.get_attribute("aria-live") == "polite"
    label = page.locator("#pr-plot").get_attribute("aria-label") or ""
    expect(page.locator("#pr-plot")).to_have_attribute("aria-label", re.compile("positives"))
    assert "<" not in label


# --- Looks ------------------------------------------------------------------------------------


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours (WCAG 2)."""
    light = []
    for colour in (one, other):
        channels = np.array([float(each) for each in re.findall(r"[\d.]+", colour)[:3]]) / 255
        linear = np.where(
            channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4
        )
        light.append(float(linear @ [0.2126, 0.7152, 0.0722]))
    return (max(light) + 0.05) / (min(light) + 0.05)


COLOURS = """() => {
    const probe = document.createElement("i");
    document.body.append(probe);
    const names = ["ink", "muted", "ground", "surface", "raised", "accent", "a", "b", "negative",
        "warn", "warn-ink"];
    const found = Object.fromEntries(names.map((name) => {
        probe.style.color = `var(--${name})`;
        return [name, getComputedStyle(probe).color];
    }));
    probe.remove();
    return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_can_be_read(browser: Browser, served: Served, scheme: str) -> None:
    """Text has a contrast of 4.5 and lines one of 3, also for colour-blind users."""
    with browser.new_context(color_scheme=scheme) as context:
        page = context.new_page()
        page.goto(served.url())
        expect(page.locator("html")).to_have_attribute("data-theme", scheme)
        colours = page.evaluate(COLOURS)
        for text, ground in itertools.product(
            ("ink", "muted", "accent"), ("ground", "surface", "raised")
        ):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
        assert contrast(colours["warn-ink"], colours["warn"]) >= 4.5
        for line in ("a", "b", "negative"):
            assert contrast(colours[line], colours["surface"]) >= 3, line


def test_light_and_dark(browser: Browser, served: Served) -> None:
    """The system's theme, until a button changes it; charts follow; the choice is stored."""
    with browser.new_context(color_scheme="dark") as context:
        page = context.new_page()
        page.goto(served.url(f"stream/{STREAM}"))
        expect(page.locator("#pr-plot svg path").first).to_be_attached()
        button = page.get_by_role("button", name="theme")
        expect(button).to_have_text("Light theme")
        ground = "getComputedStyle(document.body).backgroundColor"
        text = "getComputedStyle(document.querySelector('#pr-plot svg text')).fill"
        dark = page.evaluate(ground), page.evaluate(text)
        button.click()
        expect(button).to_have_text("Dark theme")
        light = page.evaluate(ground), page.evaluate(text)
        assert dark[0] != light[0]
        assert dark[1] != light[1]
        page.reload()
        expect(page.locator("html")).to_have_attribute("data-theme", "light")
        assert page.evaluate(ground) == light[0]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("width", [360, 768, 920])
def test_narrow_windows_show_everything(
    browser: Browser, served: Served, view: str, width: int
) -> None:
    """On a phone, a tablet and half a screen nothing overflows and no text is tiny."""
    with browser.new_context(viewport={"width": width, "height": 740}) as context:
        page = context.new_page()
        show(page, served, view)
        assert page.evaluate("document.scrollingElement.scrollWidth") == width
        # Nor inside the segments, which are ranked by their intervals.
        within = "document.querySelector('#segments .scroll')"
        assert page.evaluate(f"{within} === null || {within}.scrollWidth <= {within}.clientWidth")
        small = page.evaluate(
            """() => [...document.querySelectorAll("main *")]
                .filter((each) => each.checkVisibility() && [...each.childNodes]
                    .some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim()))
                .filter((each) => Number.parseFloat(getComputedStyle(each).fontSize) < 11)
                .map((each) => each.outerHTML.slice(0, 90))"""
        )
        assert small == []
