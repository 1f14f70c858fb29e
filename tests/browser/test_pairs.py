"""Compare on the same ids: the pair's answer first, why it is sharper, over time; the question."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval.client import Client
from streameval_server import Settings, create_token
from streameval_server.testing import running_service

from .conftest import IN_MEMORY, MINUS, Served, between, expect, figure, signed
from .test_axe import LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

A, B, OTHER = "fraud/v3", "fraud/v4", "fraud/v5"
ROWS = 1_600


def columns(seed: int = 4) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return labels and each model's scores; B is better than A."""
    rng = np.random.default_rng(seed)
    labels = rng.random(ROWS) < 0.2
    seen = rng.normal(labels * 1.5, 1)
    noises = {A: 0.8, B: 0.3, OTHER: 0.8}
    return labels, {name: seen + rng.normal(0, noise, ROWS) for name, noise in noises.items()}


def send(client: Client, *, prefix: str = "order") -> None:
    """Log all models' scores of the last two hours, and the labels."""
    now = datetime.now(UTC)
    labels, scores = columns()
    ids = [f"{prefix}-{number}" for number in range(ROWS)]
    at = [now - timedelta(hours=2) + timedelta(seconds=4 * number) for number in range(ROWS)]
    countries = np.where(np.arange(ROWS) % 3 == 0, "US", "DE")
    plans = np.where(np.arange(ROWS) % 5 == 0, "free", "paid")
    for name, each in scores.items():
        client.stream(name).log_cases(
            ids=ids,
            scores=each,
            at=at,
            segments={"country": countries.tolist(), "plan": plans.tolist()},
        )
        client.stream(name).label_cases(ids=ids, labels=labels)
    client.flush()


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """Return a server with a pair, and a third stream of the same ids."""
    with running_service(IN_MEMORY) as addresses, Client(addresses.grpc) as client:
        for name in (A, B, OTHER):
            client.create_stream(name, threshold=1.0, segment_keys=["country", "plan"])
        client.create_pair(A, B)
        send(client)
        yield Served(addresses.grpc, addresses.http, client)


def test_the_pairs_answer_is_first(served: Served, page: Page) -> None:
    """Its figures are the API's; challenger minus champion, and no second headline."""
    page.goto(served.url(f"compare?a={A}&b={B}"))
    found = served.client.compare_pair(f"{A}-vs-{B}")
    apart = served.client.compare(A, B)
    title = page.locator("#paired-title")
    expect(title).to_contain_text("fraud/v4 is better")
    expect(page.locator("#paired-a")).to_have_text(figure(found.a.estimate))
    expect(page.locator("#paired-b")).to_have_text(figure(found.b.estimate))
    expect(page.locator("#paired .difference dt")).to_have_text(f"{B} minus {A}")
    expect(page.locator("#paired-difference")).to_have_text(signed(-found.difference))
    limits = f"{signed(-found.upper)} to {signed(-found.lower)}, above 0 is better"
    expect(page.locator("#paired .difference .more")).to_have_text(limits)
    expect(page.locator("#paired .a .more")).to_have_text(between(found.a))
    note = page.locator("#paired-note")
    expect(note).to_contain_text("1,600 ids are scored by both (100.0 % of all)")
    assert found.disagreement is not None
    expect(note).to_contain_text(f"fraud/v4 was right in {found.disagreement.b_right}")
    ratio = (apart.upper - apart.lower) / (found.upper - found.lower)
    expect(page.locator("#why-sharper")).to_contain_text(f"{ratio:.1f} times as narrow")
    expect(page.locator("legend")).to_have_text(["Champion", "Challenger"])
    expect(page.locator("h2:visible", has_text="is better")).to_have_count(1)
    expect(page.locator("#result")).to_be_hidden()
    expect(page.locator("#same-ids")).to_be_hidden()


def test_sides_may_be_swapped(served: Served, page: Page) -> None:
    """The page's challenger minus its champion, whichever order the pair was made in."""
    page.goto(served.url(f"compare?a={B}&b={A}&metric=auc_roc"))
    found = served.client.compare_pair(f"{A}-vs-{B}", metric="auc_roc")
    expect(page.locator("#paired-a")).to_have_text(figure(found.b.estimate))
    expect(page.locator("#paired-difference")).to_have_text(signed(found.difference))
    expect(page.locator("#paired .difference .more")).to_have_text(
        f"{signed(found.lower)} to {signed(found.upper)}, above 0 is better"
    )
    expect(page.locator("#paired .difference dt")).to_have_text(f"{A} minus {B}")


def test_pairs_are_what_compare_begins_with(served: Served, page: Page) -> None:
    """Each with its answer; a chosen stream keeps its own."""
    page.goto(served.url("compare"))
    first = page.locator(".starts li").first
    expect(first.locator("a")).to_have_text(f"{B} against {A}")
    found = served.client.compare_pair(f"{A}-vs-{B}")
    expect(first).to_contain_text(found.sentence.split(";")[0])
    first.locator("a").click()
    expect(page.locator("#paired-difference")).to_have_text(signed(-found.difference))
    page.goto(served.url(f"compare?a={OTHER}"))
    expect(page.locator(".starts a").first).to_have_text(f"{A} against {OTHER}")


def test_streams_without_shared_ids_are_not_ranked(served: Served, page: Page) -> None:
    """They are different cases: both values, and what their difference would take for granted."""
    page.goto(served.url(f"compare?a={A}&b={OTHER}"))
    found = served.client.compare(A, OTHER)
    expect(page.locator("#result-title")).to_have_text("Different cases, so not ranked")
    expect(page.locator("#result-a")).to_have_text(figure(found.a.estimate))
    expect(page.locator("#result-b")).to_have_text(figure(found.b.estimate))
    expect(page.locator("#result-difference")).to_be_hidden()
    assert not re.search(r"is better|p-value|significant", page.locator("main").inner_text())
    page.locator("#if-random summary").click()
    expect(page.locator("#result-difference")).to_have_text(signed(-found.difference))
    expect(page.locator("#result .difference dt")).to_have_text(f"{OTHER} minus {A}")
    expect(page.locator("#if-random .note")).to_contain_text(f"Above 0, {OTHER} is better")


def test_the_difference_over_time(served: Served, page: Page) -> None:
    """Of all labels so far, or of each step alone; the table ends with the pair's figure."""
    page.goto(served.url(f"compare?a={A}&a.window=6h&b={B}&b.window=6h"))
    chart = page.locator("#pair-time")
    expect(chart.locator("h2")).to_have_text("Difference in AUC-PR over time")
    expect(chart.locator("svg").first).to_be_visible()
    chart.get_by_text("Show as a table").click()
    newest = chart.locator("tbody tr").first
    found = served.client.compare_pair(f"{A}-vs-{B}", window=timedelta(hours=6))
    expect(newest.locator("td").nth(1)).to_have_text(signed(-found.difference))
    expect(newest.locator("td").nth(3)).to_have_text("1,600")
    expect(chart.locator(".keys")).to_contain_text("95 % at all looks together")
    chart.get_by_label("of", exact=True).select_option("each step alone")
    expect(chart.locator(".keys")).to_contain_text("95 % interval of each step")
    expect(chart.locator("tbody tr").nth(1).locator("td").nth(3)).not_to_have_text("1,600")


def test_segments_of_a_pair(served: Served, page: Page) -> None:
    """Each value of the key, and one alone; a key that the pair has not is said at once."""
    page.goto(served.url(f"compare?a={A}&b={B}"))
    page.locator("#paired-segments summary").click()
    found = served.client.compare_pair(f"{A}-vs-{B}", by_segment="country")
    rows = page.locator("#paired-segments tbody tr")
    for row, each in zip(rows.all(), found.segments, strict=True):
        expect(row.locator("th")).to_have_text(each.segment[1])
        expect(row.locator("td").nth(1)).to_have_text(signed(-each.difference))
    inside = "a.segment=country:US&b.segment=country:US"
    page.goto(served.url(f"compare?a={A}&b={B}&{inside}"))
    expect(page.locator("#paired-difference")).to_have_text(
        signed(-served.client.compare_pair(f"{A}-vs-{B}", segment=("country", "US")).difference)
    )


def test_the_key_of_segments_is_chosen(served: Served, page: Page) -> None:
    """The pair's keys are offered; the choice is in the URL, and what is open stays open."""
    page.goto(served.url(f"compare?a={A}&b={B}"))
    segments = page.locator("#paired-segments")
    segments.locator("summary").click()
    expect(segments.locator("tbody th").first).to_have_text("DE")
    key = page.locator("#pair-key")
    assert key.locator("option").all_text_contents() == ["country", "plan"]
    key.select_option("plan")
    found = served.client.compare_pair(f"{A}-vs-{B}", by_segment="plan")
    expect(segments.locator("summary")).to_have_text("By plan")
    rows = segments.locator("tbody tr")
    expect(rows.first.locator("th")).to_have_text("paid")
    for row, each in zip(rows.all(), found.segments, strict=True):
        expect(row.locator("th")).to_have_text(each.segment[1])
        expect(row.locator("td").nth(1)).to_have_text(signed(-each.difference))
    expect(segments).to_have_attribute("open", "")
    assert re.search(r"[?&]by=plan", page.url)
    page.reload()
    expect(segments.locator("summary")).to_have_text("By plan")
    expect(key).to_have_value("plan")
    page.goto(served.url(f"compare?a={A}&b={B}&by=unknown"))
    expect(segments.locator("summary")).to_have_text("By country")


def test_a_pair_has_one_window_for_both(served: Served, page: Page) -> None:
    """Different ones are said, and put right by a button."""
    page.goto(served.url(f"compare?a={A}&a.window=6h&b={B}&b.window=7d"))
    expect(page.locator("#paired-title")).to_contain_text("These two have a pair")
    page.locator("#align").click()
    expect(page.locator("#paired-title")).to_contain_text("is better")
    assert re.search(r"b\.window=6h", page.url)


def test_streams_without_a_pair_are_asked_about(browser: Browser) -> None:
    """Both have predictions by id: the page asks, and makes the pair when told."""
    with running_service(IN_MEMORY) as addresses, Client(addresses.grpc) as client:
        for name in (A, B, OTHER):
            client.create_stream(name, segment_keys=["country", "plan"])
        client.stream("plain/1").add_cases(labels=[1, 0, 1, 0], scores=[4, 3, 2, 1])
        send(client, prefix="early")
        page = browser.new_page()
        page.goto(f"{addresses.http}/#/compare?a={A}&b={B}")
        asked = page.locator("#same-ids")
        expect(asked.locator("h2")).to_have_text("Are these the same ids?")
        expect(asked).to_contain_text("Both have about 1,600 predictions by id here")
        expect(asked.locator("code")).to_have_text(
            f"streameval pairs create {A} {B} --server {addresses.grpc}"
        )
        page.locator("#make-pair").click()
        expect(page.locator("#paired-title")).to_contain_text("no answer")
        expect(page.locator("#why-sharper")).to_have_count(0)
        expect(asked).to_be_hidden()
        assert [(each.a, each.b) for each in client.list_pairs()] == [(A, B)]
        send(client, prefix="late")
        expect(page.locator("#paired-title")).to_contain_text(f"{B} is better")
        page.goto(f"{addresses.http}/#/compare?a={A}&b=plain/1")
        expect(page.locator("#result-title")).not_to_be_empty()
        expect(asked).to_be_hidden()
        page.close()


def test_who_may_not_make_a_pair_is_told_whom_to_ask(browser: Browser, tmp_path: Path) -> None:
    """A token that only reads: the refusal is words beside the button."""
    tokens = tmp_path / "tokens.json"
    admin = create_token(tokens, "all", ("ingest", "query", "admin"))
    reader = create_token(tokens, "reader", ("query",))
    settings = Settings(listen="127.0.0.1:0", memory=True, tokens=tokens)
    with running_service(settings) as addresses, Client(addresses.grpc, token=admin) as client:
        for name in (A, B, OTHER):
            client.create_stream(name, segment_keys=["country", "plan"])
        send(client)
        page = browser.new_page()
        page.add_init_script(f"sessionStorage.setItem('streameval.token', '{reader}')")
        page.goto(f"{addresses.http}/#/compare?a={A}&b={B}")
        page.locator("#make-pair").click()
        refusal = page.locator("#pair-refusal")
        expect(refusal).to_contain_text("takes the scope admin")
        expect(page.locator("#make-pair")).to_be_enabled()
        page.close()


@pytest.mark.heavy
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_every_screen_has_room_and_contrast(
    served: Served, browser: Browser, require: Callable, width: int, theme: str
) -> None:
    """Nothing is wider than the screen; axe finds no failure of WCAG 2 A and AA."""
    axe = require("axe_playwright_python.sync_playwright").Axe()
    with browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, bypass_csp=True
    ) as context:
        page = context.new_page()
        for other, drawn in ((B, "#pair-time svg"), (OTHER, "#make-pair")):
            page.goto("about:blank")
            page.goto(served.url(f"compare?a={A}&b={other}"))
            expect(page.locator(drawn).first).to_be_visible()
            expect(page.locator(".compared:visible").first).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
            found = axe.run(page, options=LEVELS)
            assert found.violations_count == 0, found.generate_report()


def test_equal_figures_have_no_sign_of_their_own(served: Served, page: Page) -> None:
    """A pair of one model and its copy: not decided, and nothing is called better."""
    client = served.client
    for name in ("twin/1", "twin/2"):
        client.create_stream(name)
    client.create_pair("twin/1", "twin/2")
    labels, scores = columns(9)
    ids = [f"twin-{number}" for number in range(ROWS)]
    for name in ("twin/1", "twin/2"):
        client.stream(name).log_cases(ids=ids, scores=scores[A])
        client.stream(name).label_cases(ids=ids, labels=labels)
    client.flush()
    found = client.compare_pair("twin/1-vs-twin/2")
    assert (found.difference, found.winner) == (0.0, None)
    assert not math.isnan(found.e_value or 0)
    page.goto(served.url("compare?a=twin/1&b=twin/2"))
    expect(page.locator("#paired-title")).to_contain_text("not decided")
    expect(page.locator("#paired-difference")).to_have_text(re.compile(rf"^[+{MINUS}]0\.000$"))
