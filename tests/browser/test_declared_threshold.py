"""The card of the declared threshold: rates, intervals, and their course over time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from streameval.statistics import BY_NAME, Place

from .conftest import STREAM, expect, percent, scored

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from .conftest import Served

DECLARED = "declared/v1"
POINT_NAMES = Place.POINT.names(["threshold"])
THRESHOLD = 0.3


def declare(served: Served) -> None:
    """Send three hours of cases to a stream that declares a threshold."""
    if DECLARED in {info.name for info in served.client.list_streams()}:
        return
    served.client.create_stream(DECLARED, threshold=THRESHOLD, scale="probability")
    stream = served.client.stream(DECLARED)
    labels, scores = scored(np.random.default_rng(7), 3_000, 0.2, 1.5)
    now = datetime.now(UTC)
    ages = np.linspace(2.5, 0.05, 3_000)
    stream.add_cases(labels=labels, scores=scores, at=[now - timedelta(hours=age) for age in ages])
    served.client.flush()


def shown(limits) -> str:
    """Return an interval as the card shows it."""
    return f"{percent(limits.lower).removesuffix(' %')} to {percent(limits.upper)}"


def test_rates_are_those_of_the_snapshot(served: Served, page: Page) -> None:
    """Each with its interval; the counts and the threshold in words."""
    declare(served)
    page.goto(served.url(f"stream/{DECLARED}?window=all"))
    found = served.client.stream(DECLARED).snapshot()
    expect(page.locator("#point-title")).to_have_text("At threshold 0.3")
    for name in POINT_NAMES:
        expect(page.locator(f"#rate-{name}")).to_have_text(percent(found.figures[name]))
        expect(page.locator(f"#rate-more-{name}")).to_have_text(shown(found.intervals[name]))
    at = found.operating_point
    expect(page.locator("#point-counts")).to_contain_text(
        f"{at.tp:,} of {at.tp + at.fn:,} positives and {at.fp:,} of {at.fp + at.tn:,} negatives "
        "are flagged."
    )
    # The slider of all thresholds begins at the declared one.
    expect(page.locator("#fact-precision")).to_have_text(percent(found.figures["precision"]))


def test_a_figure_chooses_the_chart(served: Served, page: Page) -> None:
    """Its points and intervals are those of the series, by mouse and by keyboard."""
    declare(served)
    page.goto(served.url(f"stream/{DECLARED}?window=24h"))
    first, second = (BY_NAME[name].title for name in POINT_NAMES[:2])
    expect(page.locator("#point .keys")).to_contain_text(first)
    expect(page.locator("#point-plot svg path").first).to_be_attached()
    # The whole figure is the button's.
    page.locator(f"#rate-{POINT_NAMES[1]}").click(force=True)
    expect(page.locator("#point .keys")).to_contain_text(second)
    expect(page.get_by_role("button", name=second, exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )
    page.get_by_role("button", name=first, exact=True).press("Enter")
    expect(page.locator("#point .keys")).to_contain_text(first)
    page.locator("#point .rows > summary").click()
    rows = page.locator("#point tbody tr")
    expect(rows.first).to_be_visible()
    cells = [cell.inner_text() for cell in rows.nth(1).locator("td").all()]
    assert cells[1].endswith(" %")
    lower, upper = (float(part.removesuffix(" %")) for part in cells[2].split(" to "))
    assert lower < float(cells[1].removesuffix(" %")) < upper


def test_a_change_is_shown_and_without_a_threshold_there_is_no_card(
    served: Served, page: Page
) -> None:
    """The open page follows the setting."""
    page.goto(served.url(f"stream/{STREAM}?window=all"))
    expect(page.locator("#threshold")).to_be_visible()
    expect(page.locator("#point")).to_be_hidden()
    served.client.update_stream(STREAM, threshold=0.5)
    expect(page.locator("#point-title")).to_have_text("At threshold 0.5")
    served.client.update_stream(STREAM, threshold=None)
    expect(page.locator("#point")).to_be_hidden()
