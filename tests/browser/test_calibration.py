"""The card of calibration: figures, the reliability curve and its table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from .conftest import STREAM, expect, figure

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from .conftest import Served

NAMES = ("calibration_error", "observed_expected_ratio")


def calibrated(served: Served, name: str, prevalence: float) -> None:
    """Send cases whose rate is two thirds of their score."""
    if name in {info.name for info in served.client.list_streams()}:
        return
    served.client.create_stream(name, scale="probability")
    rng = np.random.default_rng(12)
    scores = rng.beta(1, 1 / prevalence - 1, 3_000)
    served.client.stream(name).add_cases(labels=rng.random(3_000) < scores / 1.5, scores=scores)
    served.client.flush()


@pytest.mark.parametrize(("prevalence", "strategy"), [(0.3, "width"), (0.02, "mass")])
def test_the_card_is_the_answer(
    served: Served, page: Page, prevalence: float, strategy: str
) -> None:
    """Counts, figures with intervals, and a row of each bin; of rare positives equal counts."""
    name = f"calibration/{strategy}"
    calibrated(served, name, prevalence)
    page.goto(served.url(f"stream/{name}?window=all&tab=calibration"))
    found = served.client.stream(name).reliability(strategy=strategy)
    for each in NAMES:
        limits = getattr(found, each)
        expect(page.locator(f"#calibration-{each}")).to_have_text(figure(limits.estimate))
        expect(page.locator(f"#calibration-more-{each}")).to_have_text(
            f"{figure(limits.lower)} to {figure(limits.upper)}"
        )
    expect(page.locator("#calibration-brier_score")).to_have_text(figure(found.brier_score))
    expect(page.locator("#calibration-counts")).to_contain_text(
        f"{found.observed_positives:,} of 3,000 scored cases are positive"
    )
    expect(page.locator("#calibration-plot svg path").first).to_be_attached()
    page.locator("#calibration .rows > summary").click()
    rows = page.locator("#calibration tbody tr")
    expect(rows).to_have_count(len(found.table))
    for row, cells in zip(found.to_rows(), rows.all(), strict=True):
        texts = [cell.inner_text() for cell in cells.locator("td").all()]
        assert texts[2:] == [
            f"{row['counts']:,}",
            f"{row['positives']:,}",
            figure(row["mean_score"]),
            figure(row["observed_rate"]),
            f"{figure(row['rate_lower'])} to {figure(row['rate_upper'])}",
        ]


def test_axes_are_linear_unless_asked(served: Served, page: Page) -> None:
    """Of rare positives they end where the figures do; a logarithmic axis has no 0."""
    calibrated(served, "calibration/mass", 0.02)
    page.goto(served.url("stream/calibration/mass?window=all&tab=calibration"))
    texts = page.locator("#calibration-plot svg text")
    expect(texts.first).to_be_attached()
    ticks = {text for text in texts.all_text_contents() if text[:1].isdigit()}
    assert "0" in ticks
    numbers = sorted(map(float, ticks))
    assert numbers[-1] < 1
    assert np.diff(numbers) == pytest.approx(numbers[1])
    page.get_by_label("axes").select_option("logarithmic")
    expect(texts.filter(has_text="0.001").first).to_be_attached()
    assert "0" not in texts.all_text_contents()


def test_other_streams_have_no_card(served: Served, page: Page) -> None:
    """Scores that are not declared as probabilities are not judged as such."""
    page.goto(served.url(f"stream/{STREAM}?window=all"))
    expect(page.locator("#threshold")).to_be_visible()
    expect(page.locator("#segments table")).to_be_visible()
    expect(page.locator("#calibration")).to_be_hidden()
