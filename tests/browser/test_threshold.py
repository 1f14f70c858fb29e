"""The threshold: targets, intervals, what would have happened, and declaring it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from urllib.request import urlopen

import numpy as np
import pytest

from streameval.cli._report.words import cost
from streameval.client import Client
from streameval_server import Settings, create_token
from streameval_server.testing import running_service

from .conftest import NOTHING, Served, expect, percent, scored

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page

NAME = "threshold/v1"
COST = "expected_cost"
RATE = f"rate-{COST}"
DAY = "86400s"


@pytest.fixture(scope="module")
def days() -> Iterator[Served]:
    """Return a server with a stream of four days, whose last half day has no label yet."""
    with (
        running_service(Settings(listen="127.0.0.1:0", memory=True)) as addresses,
        Client(addresses.grpc) as client,
    ):
        client.create_stream(NAME, scale="probability")
        stream = client.stream(NAME)
        rng = np.random.default_rng(3)
        rows = 6_000
        labels, scores = scored(rng, rows, 0.2, 1.7)
        ages = np.linspace(95, 0.2, rows)
        now = datetime.now(UTC)
        ids = [str(index) for index in range(rows)]
        at = [now - timedelta(hours=age) for age in ages]
        stream.log_cases(ids=ids, scores=scores, at=at)
        known = np.flatnonzero(ages > 12)
        stream.label_cases(ids=[ids[index] for index in known], labels=labels[known])
        client.flush()
        yield Served(addresses.grpc, addresses.http, client)


def asked(served: Served, method: str, **fields: Any) -> dict[str, Any]:
    """Return what the JSON API says."""
    url = f"{served.http}/v1/streams/{NAME}:{method}?{urlencode(fields)}"
    with urlopen(url, timeout=20) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def opened(page: Page, served: Served, window: str = "all") -> None:
    """Open the stream, and wait for the answer about its threshold."""
    page.goto(served.url(f"stream/{NAME}?window={window}"))
    expect(page.locator("#fact-more-precision")).not_to_be_empty()
    expect(page.locator("#past tbody tr").first).to_be_visible()


def chosen(page: Page) -> float:
    """Return the threshold that the card shows."""
    return float(page.locator("#threshold-value").get_attribute("data-value") or "nan")


def shown(rate: dict[str, Any]) -> str:
    """Return a rate's limits as the card shows them."""
    lower, upper = rate["interval"]["lower"], rate["interval"]["upper"]
    return f"{percent(lower).removesuffix(' %')} to {percent(upper)}"


def test_each_figure_has_its_interval(page: Page, days: Served) -> None:
    """Figures, counts and limits are those of GetDecision at the slider's threshold."""
    opened(page, days)
    page.locator("#threshold-slider").press("ArrowRight")
    page.locator("#threshold-slider").press("PageDown")
    known = asked(days, "decision", threshold=chosen(page))
    rates = {each["name"]: each for each in known["metrics"]}
    for name in ("precision", "recall", "fpr"):
        expect(page.locator(f"#fact-more-{name}")).to_have_text(shown(rates[name]))
        expect(page.locator(f"#fact-{name}")).to_have_text(percent(rates[name]["value"]))
    for name in ("tp", "fp", "fn", "tn"):
        expect(page.locator(f"#{name}")).to_have_text(f"{int(known[name]):,}")


@pytest.mark.parametrize(
    ("name", "wanted", "fields"),
    [("precision", "70", {"precision": 0.7}), ("recall", "85", {"recall": 0.85})],
)
def test_a_target_is_the_servers(
    page: Page, days: Served, name: str, wanted: str, fields: dict[str, float]
) -> None:
    """Its threshold is that of GetDecision; its rates have no interval, and the card says why."""
    opened(page, days)
    page.locator(f"#target-{name}").fill(wanted)
    page.locator(f"#target-{name}").press("Enter")
    known = asked(days, "decision", **fields)
    expect(page.locator("#target-found")).to_contain_text(f"{wanted} %")
    expect(page.locator("#fact-more-recall")).to_have_text("chosen on these cases")
    assert chosen(page) == known["threshold"]
    assert f"at={known['threshold']}" in page.url
    rates = {each["name"]: each["value"] for each in known["metrics"]}
    other = "recall" if name == "precision" else "precision"
    expect(page.locator("#target-found")).to_contain_text(percent(rates[other]))
    expect(page.locator("#fact-precision")).to_have_text(percent(rates["precision"]))
    expect(page.locator("#fact-recall")).to_have_text(percent(rates["recall"]))


def test_a_number_a_day_counts_cases_without_a_label(page: Page, days: Served) -> None:
    """About 1,500 cases came a day; the threshold is the lowest that flags no more than wanted."""
    opened(page, days)
    page.locator("#target-flagged-share").fill("150")
    page.locator("#target-flagged-share").press("Enter")
    said = page.locator("#target-found")
    expect(said).to_contain_text("at most 150 of about")
    a_day = int(said.inner_text().partition("about ")[2].split()[0].replace(",", ""))
    assert a_day == pytest.approx(6_000 / 95 * 24, rel=0.03)
    known = asked(days, "decision", flagged_share=150 / a_day)
    assert chosen(page) == pytest.approx(known["threshold"], abs=0.003)
    flagged = int(page.locator("#fact-flagged").inner_text())
    assert 140 < flagged <= 150


def test_the_first_minutes_say_nothing_of_a_day(page: Page, days: Served) -> None:
    """A file that was just pushed is not read as the start of millions of cases a day."""
    name = "threshold/new"
    days.client.create_stream(name, scale="probability")
    scores = np.linspace(0.01, 0.99, 200)
    days.client.stream(name).add_cases(labels=scores > 0.6, scores=scores)
    days.client.flush()
    page.goto(days.url(f"stream/{name}"))
    expect(page.locator("#fact-more-flagged")).to_have_text("less than an hour of time")
    expect(page.locator("#fact-flagged")).to_have_text("\N{EN DASH}")
    expect(page.locator("#target-flagged-share")).to_be_disabled()


def test_a_target_out_of_reach_is_said(page: Page, days: Served) -> None:
    """And the threshold stays."""
    opened(page, days)
    before = chosen(page)
    days.client.stream(NAME).add_cases(labels=[0], scores=[1.0])
    days.client.flush()
    page.locator("#target-precision").fill("99.9")
    page.locator("#target-precision").press("Enter")
    expect(page.locator("#target-found")).to_have_text(
        "No threshold has a precision of 99.9 % here."
    )
    assert chosen(page) == pytest.approx(before, abs=1e-9)


def test_what_would_have_happened(page: Page, days: Served) -> None:
    """Each past window's rates and counts are those of ListWindows at the threshold."""
    opened(page, days, "24h")
    page.locator("#target-recall").fill("60")
    page.locator("#target-recall").press("Enter")
    expect(page.locator("#target-found")).to_contain_text("60 %")
    now = datetime.now(UTC)
    threshold = chosen(page)
    known = asked(
        days,
        "windows",
        **{
            "selection.between.startTime": (now - timedelta(days=8)).isoformat(),
            "selection.between.endTime": now.isoformat(),
            "step": DAY,
            "threshold": threshold,
            "metrics": COST,
            "errorCosts.falsePositive": 1,
            "errorCosts.falseNegative": 1,
        },
    )["snapshots"]
    known = [each for each in reversed(known) if cases(each["operatingPoint"])]
    points = [each["operatingPoint"] for each in known]
    wanted = [
        [f"{count:.0f}" for count in (point["tp"] + point["fp"], point["fp"], point["fn"])]
        for point in points
    ]
    assert len(wanted) >= 4
    rows = page.locator("#past tbody tr")
    # All of them: the newest day can have the same counts at the threshold before.
    expect(rows.locator("td:nth-of-type(6)")).to_have_text([flagged for flagged, *_ in wanted])
    found = [row.locator("td").all_inner_texts() for row in rows.all()]
    assert [each[5:8] for each in found] == wanted
    for cells, snapshot, point in zip(found, known, points, strict=True):
        assert cells[8] == cost((point["fp"] + point["fn"]) / cases(point))
        (metric,) = snapshot["metrics"]
        limits = metric["interval"]
        if "lower" in limits:
            assert cells[9] == f"{cost(limits['lower'])} to {cost(limits['upper'])}"
        else:  # of one case, which the newest day can have
            assert (cells[9], cases(point)) == (NOTHING, 1)


def cases(point: dict[str, Any]) -> float:
    """Return the cases of an operating point."""
    return sum(point[name] for name in ("tp", "fp", "fn", "tn"))


def test_the_cost_has_an_interval_at_what_is_typed(page: Page, days: Served) -> None:
    """Without declared costs errors cost the same; typed ones are the server's, and the URL's."""
    opened(page, days)
    inputs = page.locator("#cost-fp"), page.locator("#cost-fn")
    assert [each.input_value() for each in inputs] == ["1", "1"]
    expect(page.locator("#costs-declared")).to_be_empty()
    # The slider begins at the cheapest threshold; another one has an answer of its own.
    page.locator("#threshold-slider").press("PageDown")
    for fp, fn in ((2, 30), (0.5, 7)):
        inputs[0].fill(str(fp))
        inputs[1].fill(str(fn))
        costs = {"errorCosts.falsePositive": fp, "errorCosts.falseNegative": fn}
        known = asked(days, "decision", threshold=chosen(page), **costs)
        found = next(each for each in known["metrics"] if each["name"] == COST)
        expect(page.locator("#fact-each")).to_have_text(cost(found["value"]))
        limits = " to ".join(cost(found["interval"][end]) for end in ("lower", "upper"))
        expect(page.locator("#fact-more-each")).to_have_text(limits)
        assert f"costs={fp}%3A{fn}" in page.url or f"costs={fp}:{fn}" in page.url
    page.reload()
    expect(page.locator("#fact-each")).to_have_text(cost(found["value"]))
    expect(inputs[1]).to_have_value("7")


def test_declared_costs_are_the_defaults(page: Page, days: Served) -> None:
    """The chooser's, with a word; what is typed goes before them, and they stay beside it."""
    days.client.update_stream(NAME, threshold=0.45, cost_fp=3, cost_fn=40)
    opened(page, days)
    expect(page.locator("#cost-fp")).to_have_value("3")
    expect(page.locator("#cost-fn")).to_have_value("40")
    expect(page.locator("#costs-declared")).to_have_text("as the stream declares")
    assert "costs=" not in page.url
    found = days.client.stream(NAME).snapshot()
    value, limits = found.figures[COST], found.intervals[COST]
    shown_limits = f"{cost(limits.lower)} to {cost(limits.upper)}"
    for value_of, more_of in (("fact-each", "fact-more-each"), (RATE, f"rate-more-{COST}")):
        expect(page.locator(f"#{value_of}")).to_have_text(cost(value))
        expect(page.locator(f"#{more_of}")).to_have_text(shown_limits)
    page.locator("#cost-fn").fill("50")
    expect(page.locator("#costs-declared")).to_have_text("the stream declares 3.00 and 40.0")
    expect(page.locator("#point-counts")).to_contain_text(
        "a false positive costs 3.00, a missed positive 40.0."
    )
    # Its course over time, in its unit.
    page.locator(f"#{RATE}").click(force=True)
    expect(page.locator("#point .keys")).to_contain_text("Cost per case")
    days.client.update_stream(NAME, cost_fp=None, cost_fn=None)
    expect(page.locator(f"#{RATE}")).to_have_count(0)
    expect(page.locator("#point .keys")).to_contain_text("Precision")
    days.client.update_stream(NAME, threshold=None)


def test_declaring_asks_first(page: Page, days: Served) -> None:
    """Cancelled, nothing is written; confirmed, the stream declares what was shown."""
    opened(page, days)
    page.locator("#target-recall").fill("75")
    page.locator("#target-recall").press("Enter")
    expect(page.locator("#fact-more-recall")).to_have_text("chosen on these cases")
    threshold = chosen(page)
    page.locator("#declare").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"as the threshold of {NAME}?")
    expect(dialog).to_contain_text("It declares none now.")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()
    assert days.client.get_stream(NAME).settings.threshold is None
    page.locator("#declare").press("Enter")
    dialog.get_by_role("button", name="Declare it").press("Enter")
    expect(page.locator("#declared")).to_contain_text("is declared.")
    assert days.client.get_stream(NAME).settings.threshold == threshold
    expect(page.locator("#declare")).to_be_disabled()
    expect(page.locator("#point")).to_be_visible()
    days.client.update_stream(NAME, threshold=None)


def test_only_those_who_may_are_asked(page: Page, tmp_path: Path, complaints: list[str]) -> None:
    """A token with the scope query sees no button; one with admin does."""
    complaints.append("401 (Unauthorized)")  # before the page has its token
    path = tmp_path / "tokens.toml"
    tokens = {
        name: create_token(path, name, scopes)
        for name, scopes in {"reader": ["query"], "owner": ["query", "admin", "ingest"]}.items()
    }
    settings = Settings(listen="127.0.0.1:0", memory=True, tokens=path)
    with (
        running_service(settings) as addresses,
        Client(addresses.grpc, token=tokens["owner"]) as client,
    ):
        labels, scores = scored(np.random.default_rng(1), 200, 0.3, 1.0)
        client.stream(NAME).add_cases(labels=labels, scores=scores)
        client.flush()
        for name, is_offered in (("reader", False), ("owner", True)):
            page.goto(f"{addresses.http}/")
            page.evaluate(f"sessionStorage.setItem('streameval.token', '{tokens[name]}')")
            page.goto(f"{addresses.http}/#/stream/{NAME}?window=all")
            page.reload()
            expect(page.locator("#fact-more-precision")).not_to_be_empty()
            expect(page.locator("#declare")).to_be_visible(visible=is_offered)
        page.goto("about:blank")  # the page leaves before the server does
