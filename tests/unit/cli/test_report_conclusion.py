"""What a report concludes is what the verdict says."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

from streameval import Interval
from streameval._verdict.verdict import Base, Because, Since, Verdict, VerdictFigure
from streameval.cli._report import words
from streameval.cli._report.conclusion import conclusion


def limited(estimate: float, lower: float, upper: float) -> Interval:
    return Interval(lower, upper, level=0.95, method="influence-logit", estimate=estimate)


NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
WORSE = Verdict(
    quality="worse",
    at=NOON,
    valid_until=NOON,
    sentence="AUC-PR fell from 0.65 to 0.07 since Nov 18, 22:00.",
    figures=(
        VerdictFigure(
            "auc_pr",
            0.04,
            limited(0.65, 0.61, 0.69),
            limited(0.07, 0.05, 0.09),
            limited(-0.58, -0.62, -0.54),
        ),
    ),
    since=Since(NOON - timedelta(hours=40), NOON - timedelta(hours=38), NOON - timedelta(hours=37)),
    because=(Because("country=IT", 0.9, 400.0), Because("channel=<b>", None, 90.0)),
    base=Base(NOON - timedelta(days=28), NOON - timedelta(days=21), 300, 7_000),
    could_be_wrong=("labels of one week: wait for the second",),
)


def texts(markup: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", markup))


def test_a_fall_has_its_figures_and_reasons() -> None:
    """Before, now and difference with limits; the base, when, who, and why it could be wrong."""
    made = conclusion(WORSE, None)
    said = texts(made)
    assert 'class="conclusion bad" data-quality="worse"' in made
    for part in (
        WORSE.sentence,
        "AUC-PR at a prevalence of 4.0 % 0.650 0.610 to 0.690 0.070 0.050 to 0.090",
        "-0.580 -0.620 to -0.540".replace("-", words.MINUS),
        "Base: 2026-10-23 12:00 to 2026-10-30 12:00 UTC, the earliest whole weeks",
        "Began: 2026-11-18 22:00 UTC, between 2026-11-18 20:00 and 2026-11-18 23:00.",
        "Explained by country=IT (90 % of it) and channel=&lt;b&gt;.",
        "Could be wrong: labels of one week: wait for the second",
        f"How sure: {WORSE.sure}.",
    ):
        assert part in said, part
    assert 'data-verdict="auc_pr now" data-value="0.07"' in made
    assert "whole stream" in texts(conclusion(WORSE, ("country", "FR")))


def test_nothing_known_is_one_sentence() -> None:
    """Without a base there is no table, and nothing is claimed of its certainty."""
    early = Verdict(
        quality="immature", at=NOON, valid_until=NOON, sentence="Too early.", excluded=math.nan
    )
    assert texts(conclusion(early, None)).strip() == "Too early."
