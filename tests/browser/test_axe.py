"""axe-core finds no failure of WCAG 2 A and AA, contrast included, on any view."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ..commands import report_of
from .conftest import OTHER, STREAM, Served, expect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser

pytestmark = pytest.mark.heavy

# Each view with what is visible once it is drawn.
VIEWS = {
    "": "table.streams tbody tr",
    f"stream/{STREAM}?window=6h": "#segments:not([aria-busy]) tbody tr",
    "stream/one/negative?window=all": "#segments:not([aria-busy]) pre",
    "stream/wait/labels": "#no-data",
    "compare": ".starts a",
    f"compare?a={STREAM}&b={OTHER}": "#result-a",
    f"compare?a={STREAM}&a.segment=country=BR&b={OTHER}": "#a-refusal",
}
LEVELS = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_axe_finds_nothing(
    browser: Browser, require: Callable, served: Served, tmp_path: Path, *, width: int, scheme: str
) -> None:
    """At a desk, on a tablet and on a phone, light and dark; a faint colour is found."""
    axe = require("axe_playwright_python.sync_playwright").Axe()
    with browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
    ) as context:
        page = context.new_page()
        for view, drawn in VIEWS.items():
            page.goto("about:blank")
            page.goto(served.url(view))
            expect(page.locator(drawn).first).to_be_visible()
            # A card is dimmed until it has its figures.
            expect(page.locator("[aria-busy]:visible")).to_have_count(0)
            page.wait_for_function("document.getAnimations().length === 0")
            found = axe.run(page, options=LEVELS)
            assert found.violations_count == 0, f"{view}: {found.generate_report()}"
        page.goto(served.url(f"stream/{STREAM}?window=all"))
        page.locator("#take summary").click()
        page.get_by_role("button", name="Create alert").click()
        expect(page.get_by_role("dialog")).to_be_visible()
        found = axe.run(page, options=LEVELS)
        assert found.violations_count == 0, f"a dialog: {found.generate_report()}"
        page.set_content(report_of(served.grpc, STREAM, tmp_path))
        found = axe.run(page, options=LEVELS)
        assert found.violations_count == 0, f"the report: {found.generate_report()}"
        page.add_style_tag(content="h1 { color: #888 !important; background: #999 !important; }")
        found = axe.run(page, options=LEVELS)
        assert [each["id"] for each in found.response["violations"]] == ["color-contrast"]
