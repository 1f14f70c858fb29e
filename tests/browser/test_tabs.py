"""The tabs of a stream: by mouse and keyboard, in the link, with what they have to show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .conftest import STREAM, Served, expect

if TYPE_CHECKING:
    from playwright.sync_api import Page, Request

SCREEN = {"width": 1440, "height": 900}
TABLET = {"width": 820, "height": 1180}
PHONE = {"width": 390, "height": 844}


def test_a_tab_is_chosen_and_kept_in_the_link(served: Served, page: Page) -> None:
    """One panel is shown; the link opens it again, and the first one is in none."""
    page.goto(served.url(f"stream/{STREAM}?window=all"))
    expect(page.locator("#pr-plot svg path").first).to_be_attached()
    expect(page.locator("#histogram")).to_be_hidden()
    assert "tab=" not in page.url
    page.get_by_role("tab", name="Scores").click()
    expect(page.locator("#histogram-plot svg path").first).to_be_attached()
    expect(page.locator("#pr")).to_be_hidden()
    assert "tab=scores" in page.url
    page.get_by_role("navigation", name="Window").get_by_role("link", name="24 h").click()
    expect(page.locator(".segmented [aria-current]")).to_have_text("24 h")
    assert "tab=scores" in page.url
    page.reload()
    expect(page.locator("#histogram-plot svg path").first).to_be_attached()
    expect(page.get_by_role("tab", name="Scores")).to_have_attribute("aria-selected", "true")


def test_tabs_by_keyboard(served: Served, page: Page) -> None:
    """Arrow keys, Home and End go from tab to tab; only the chosen one is a stop of Tab."""
    page.goto(served.url(f"stream/{STREAM}"))
    offered = page.locator("[role=tab]:visible")
    expect(offered).to_have_text(["Curves and threshold", "Scores", "Labels"])
    offered.first.focus()
    for key, chosen in (("ArrowRight", 1), ("End", 2), ("ArrowRight", 0), ("ArrowLeft", 2)):
        page.keyboard.press(key)
        expect(offered.nth(chosen)).to_be_focused()
        expect(offered.nth(chosen)).to_have_attribute("aria-selected", "true")
        stops = offered.evaluate_all("(tabs) => tabs.map((each) => each.tabIndex)")
        assert stops == [0 if place == chosen else -1 for place in range(3)]
    page.keyboard.press("Home")
    panel = page.get_by_role("tabpanel", name="Curves and threshold")
    expect(panel).to_be_visible()


def test_a_tab_without_content_is_not_offered(served: Served, page: Page) -> None:
    """Of one class there are no curves; a link to a tab that is not there shows the first one."""
    page.goto(served.url("stream/one/negative?window=all&tab=curves"))
    expect(page.locator("[role=tab]:visible")).to_have_text(["Scores"])
    expect(page.locator("#histogram-plot svg path").first).to_be_attached()
    page.goto(served.url("stream/new/empty?window=all"))
    expect(page.locator("#no-data")).to_be_visible()
    expect(page.locator("[role=tab]:visible")).to_have_count(0)


def test_what_is_not_shown_is_not_asked_for(served: Served, page: Page) -> None:
    """The curves of a hidden tab, or its histogram, cost the server nothing."""
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url.split("?")[0].rsplit(":", 1)[-1])

    page.on("request", note)
    page.goto(served.url(f"stream/{STREAM}?window=all"))
    expect(page.locator("#pr-plot svg path").first).to_be_attached()
    expect(page.locator("#segments .sparkline").first).to_be_visible()
    assert "histogram" not in asked
    page.get_by_role("tab", name="Scores").click()
    expect(page.locator("#histogram-plot svg path").first).to_be_attached()


def test_the_first_screen_has_the_answer(served: Served, page: Page) -> None:
    """At 1440 x 900: what is said, the course, the figures, the worst segment; nothing is wide."""
    page.set_viewport_size(SCREEN)
    page.goto(served.url(f"stream/{STREAM}?window=6h"))
    first = page.locator("#segments tbody tr").first
    expect(first.locator(".sparkline")).to_be_visible()
    expect(page.locator("#timeline-plot svg path").first).to_be_attached()
    for each in ("#answer", "#timeline", "#figures"):
        box = page.locator(each).bounding_box()
        assert box["y"] + box["height"] <= SCREEN["height"], each
    box = first.bounding_box()
    assert box["y"] + box["height"] <= SCREEN["height"]
    assert page.evaluate("document.documentElement.scrollHeight") < 3_000
    page.set_viewport_size(TABLET)
    tops = page.locator("#figures > div:visible").evaluate_all(
        "(all) => all.map((each) => each.querySelector('dt').getBoundingClientRect().top)"
    )
    assert len(tops) >= 5
    assert max(tops) - min(tops) < 1  # in one line
    page.set_viewport_size(PHONE)
    expect(page.locator("html")).to_have_js_property("scrollWidth", PHONE["width"])
    windows = page.get_by_role("navigation", name="Window")
    assert windows.evaluate("(each) => each.scrollWidth <= each.clientWidth")
    assert page.evaluate("document.documentElement.scrollHeight") < 5_500


def test_a_caveat_opens_and_closes(served: Served, page: Page) -> None:
    """Behind an (i): a click elsewhere and Escape close it, and the focus goes back."""
    page.goto(served.url(f"stream/{STREAM}?window=6h"))
    expect(page.locator("#segments .sparkline").first).to_be_visible()
    button, text = (
        page.locator("#segments .info summary").first,
        page.locator("#segments .info-text"),
    )
    expect(text.first).to_be_hidden()
    button.click()
    expect(text.first).to_contain_text("p is adjusted for their number (Holm)")
    page.locator("h1").click()
    expect(text.first).to_be_hidden()
    button.press("Enter")
    expect(text.first).to_be_visible()
    page.keyboard.press("Escape")
    expect(text.first).to_be_hidden()
    expect(button).to_be_focused()
