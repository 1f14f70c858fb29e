"""What the view of a stream begins with: the verdict, its change in the chart; warnings."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from urllib.request import urlopen

import numpy as np
import pytest

from streameval.client import Client
from streameval_server import Settings, create_token
from streameval_server.testing import running_service

from ..alarm_history import write_alarm_history
from ..late_labels import write_late_labels
from .conftest import STREAM, Served, expect, figure, signed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page, Route

FELL = "fraud/fell"
LATE = "late/v1"
WEEK = timedelta(days=7)
INTERNAL = re.compile(r"mature_after|panes?\b|\bbits\b|[Rr]evision|_|placement|ALARM|undefined|NaN")

BASE = """(plot) => {
    const middle = ({ top, bottom }) => (top + bottom) / 2;
    const box = (selector) => plot.querySelector(selector).getBoundingClientRect();
    const ticks = [...plot.querySelectorAll("svg text")]
        .filter((each) => /^[0-9.]+$/.test(each.textContent))
        .map((each) => [Number(each.textContent), middle(each.getBoundingClientRect())]);
    const band = box("path[fill-opacity='0.16']");
    return [ticks, band.top, middle(box("path[stroke-dasharray='2,3']")), band.bottom];
}"""
"""The ticks of a time chart with their heights; where the base has its limits and its value."""


@pytest.fixture(scope="module")
def fallen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return a server whose stream became worse, with two open alarms."""
    directory = tmp_path_factory.mktemp("fell")
    write_alarm_history(directory, FELL)
    settings = Settings(listen="127.0.0.1:0", data=directory)
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        yield Served(addresses.grpc, addresses.http, client)


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return a server whose stream's positives are labelled days later."""
    directory = tmp_path_factory.mktemp("late")
    write_late_labels(directory, LATE, per_day=1600)
    settings = Settings(listen="127.0.0.1:0", data=directory)
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        yield Served(addresses.grpc, addresses.http, client)


def asked(served: Served, name: str) -> dict:
    """Return the verdict as the JSON API has it."""
    with urlopen(f"{served.http}/v1/streams/{name}:verdict", timeout=20) as answer:
        found: dict = json.load(answer)["verdict"]
    return found


def test_the_verdict_is_the_servers(fallen: Served, page: Page) -> None:
    """Its sentence, between which times it began, by how much, and what it rests on."""
    page.goto(fallen.url(f"stream/{FELL}"))
    box = page.get_by_role("region", name="Verdict")
    expect(box.locator(".sentence")).not_to_be_empty()
    known = asked(fallen, FELL)
    assert known["quality"] == "VERDICT_QUALITY_WORSE"
    expect(box.locator(".sentence")).to_have_text(known["sentence"])
    expect(box.locator(".state-chip").first).to_have_text("worse")
    earliest, latest = (
        datetime.fromisoformat(known["since"][end]) for end in ("earliest", "latest")
    )
    limits = " and ".join(f"{at:%b} {at.day}, {at:%H:%M}" for at in (earliest, latest))
    expect(page.locator("#verdict-limits")).to_contain_text(f"It began between {limits}.")
    found = known["figures"][0]["difference"]
    words = (
        f"AUC-PR {signed(found['estimate'])} ({signed(found['lower'])} to {signed(found['upper'])})"
    )
    expect(page.locator("#verdict-limits")).to_contain_text(words)
    box.locator(".info summary").click()
    expect(box.locator(".info-text")).to_contain_text(known["sure"][1:])
    positives = f"{int(known['base']['positives']):,} positives"
    expect(box.locator(".info-text")).to_contain_text(positives)
    heights = box.locator(".actions > :visible").evaluate_all(
        "(all) => all.map((each) => each.getBoundingClientRect().height)"
    )
    assert len(heights) == 3
    assert max(heights) - min(heights) < 1
    page.get_by_role("button", name="Show the alarms").click()
    expect(page.locator("#alarms-title")).to_be_focused()
    expect(page.locator("#alarms-title")).to_be_in_viewport()
    page.goto(fallen.url(f"stream/{FELL}?segment=country:FR"))
    expect(box.locator(".sentence")).to_have_text(f"Whole stream: {known['sentence']}")


@pytest.mark.parametrize(
    "name", ["wait/labels", "one/negative", "one/positive", "old/data", "new/empty", LATE]
)
def test_a_stream_that_did_not_fall_says_so(
    served: Served, late: Served, page: Page, name: str
) -> None:
    """No labels, one class, no case, no change: the server's words, without internal names."""
    server = late if name == LATE else served
    page.goto(server.url(f"stream/{name}?window=all"))
    known = asked(server, name)
    box = page.get_by_role("region", name="Verdict")
    expect(box.locator(".sentence")).to_have_text(known["sentence"])
    if name == LATE:
        assert known["quality"] in {"VERDICT_QUALITY_STEADY", "VERDICT_QUALITY_UNSURE"}
    else:
        expect(box.locator(".state-chip").first).to_have_text("too early")
    assert not INTERNAL.search(box.inner_text()), box.inner_text()
    expect(page.get_by_role("button", name="Show the alarms")).to_be_hidden()


def test_the_chart_has_the_change(fallen: Served, page: Page) -> None:
    """A click shows it: since when, in the chart, between the base and now."""
    page.goto(fallen.url(f"stream/{FELL}"))
    page.get_by_role("link", name="Show the change").click()
    known = asked(fallen, FELL)
    since = datetime.fromisoformat(known["since"]["likeliest"])
    start, end = (
        datetime.fromisoformat(each)
        for each in re.search(r"window=([^&]+?)\.\.([^&]+)", page.url).groups()
    )
    assert start < since < end
    drawn = page.locator("#timeline-plot svg")
    expect(drawn).to_contain_text(re.compile(f"since (.*, )?{since:%H:%M}"))
    expect(drawn).to_contain_text("base: ")
    ticks, *heights = page.locator("#timeline-plot").evaluate(BASE)
    scale = np.polyfit(*zip(*ticks, strict=True), 1)
    base = known["figures"][0]["before"]
    expected = np.polyval(scale, [base[name] for name in ("upper", "estimate", "lower")])
    assert heights == pytest.approx(expected, abs=0.75)


STROKES = """(plot) => [...plot.querySelectorAll("svg path[stroke-width='1.8']")]
    .map((each) => [getComputedStyle(each).stroke, each.getBoundingClientRect().width])"""
COLOUR = """(name) => {
    const probe = document.body.appendChild(document.createElement("i"));
    probe.style.color = `var(${name})`;
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
}"""


@pytest.mark.parametrize(
    ("quality", "colour", "words"),
    [
        ("worse", "--alarm", "since"),
        ("better", "--good", "since"),
        ("recovered", "--good", "back since"),
    ],
)
def test_a_change_before_the_window_has_its_name(
    fallen: Served, page: Page, quality: str, colour: str, words: str
) -> None:
    """The level of now is in the colour of what it is, and says since when; fallen is what was."""
    known = {"verdict": asked(fallen, FELL)}
    since = datetime.fromisoformat(known["verdict"]["since"]["likeliest"])
    known["verdict"]["quality"] = f"VERDICT_QUALITY_{quality.upper()}"
    if quality == "recovered":
        since += timedelta(minutes=90)
        known["verdict"]["returned"] = known["verdict"]["since"] | {"likeliest": since.isoformat()}
    page.route("**/*:verdict", lambda route: route.fulfill(json=known))
    page.goto(fallen.url(f"stream/{FELL}?window=1h"))
    plot = page.locator("#timeline-plot")
    expect(plot.locator("svg")).to_contain_text(re.compile(f"{words} (.*, )?{since:%H:%M}"))
    strokes = dict(plot.evaluate(STROKES))
    assert list(strokes) == [page.evaluate(COLOUR, colour)]
    # From one end of the chart to the other.
    assert max(strokes.values()) > 0.8 * plot.bounding_box()["width"]


def test_the_chart_has_a_strip_of_former_verdicts(fallen: Served, page: Page) -> None:
    """Each from when it was so, or was called so, until the next; the same as a list."""
    known = asked(fallen, FELL)
    now = datetime.fromisoformat(known["at"]).replace(second=0, microsecond=0)

    def row(quality: str, called: float, since: float | None = None, **given: bool) -> dict:
        times = {"called": called} if since is None else {"called": called, "since": since}
        ago = {key: (now - timedelta(hours=each)).isoformat() for key, each in times.items()}
        return {"quality": f"VERDICT_QUALITY_{quality}", "isAccepted": False, **ago, **given}

    history = [
        row("UNSURE", 130),
        row("STEADY", 61),  # what was thought: it was worse by then
        row("WORSE", 60, 72),
        row("IMMATURE", 40, 70, isAccepted=True),
        row("WORSE", 10, 20),
    ]

    def answered(route: Route) -> None:
        found = route.fetch().json()
        found["verdict"]["history"] = history
        route.fulfill(json=found)

    page.route(re.compile("verdict$"), answered)
    start = (now - timedelta(hours=120)).strftime("%Y-%m-%dT%H:00Z")
    page.goto(fallen.url(f"stream/{FELL}?window={start}..{now:%Y-%m-%dT%H:00Z}"))
    spans = page.locator(".called-strip > span")
    expect(spans).to_have_text(["unsure", "worse", "too early", "worse"])
    expect(spans.nth(2)).to_have_class("immature accepted")
    titles = [each.get_attribute("title") for each in spans.all()]
    assert re.search(" to .*: worse, called ", titles[1])
    assert titles[2].endswith(": too early, accepted as the new normal")
    assert titles[3].startswith("since ")
    lefts, width = spans.evaluate_all(
        """(spans) => [spans.map((each) => each.offsetLeft), spans[0].parentElement.clientWidth]"""
    )
    # Hours of the chart, which begins and ends with whole steps.
    hours = np.diff(lefts) * 121 / width
    assert hours == pytest.approx([120 - 72, 72 - 40, 40 - 20], abs=4)
    listed = page.get_by_role("region", name="What the stream was called").get_by_role("listitem")
    expect(listed).to_have_count(len(history))
    expect(listed.nth(2)).to_have_text(re.compile("called worse, since "))
    expect(listed.nth(3)).to_have_text(re.compile(": accepted as the new normal$"))
    page.goto(fallen.url(f"stream/{FELL}?segment=country:FR"))
    expect(page.locator("#timeline-plot svg")).to_be_visible()
    expect(page.locator(".called")).to_be_hidden()


def test_what_is_now_is_accepted_as_normal(
    tmp_path: Path, page: Page, complaints: list[str]
) -> None:
    """By those who may, who are asked first: evidence begins again, against what is accepted."""
    complaints.append("401 (Unauthorized)")
    write_alarm_history(tmp_path / "data", FELL)
    tokens = tmp_path / "tokens.toml"
    admin = create_token(tokens, "operator", ("query", "admin"))
    reader = create_token(tokens, "reader", ("query",))
    settings = Settings(listen="127.0.0.1:0", data=tmp_path / "data", tokens=tokens)
    with running_service(settings) as addresses:
        for token, may in ((reader, False), (admin, True)):
            page.goto(f"{addresses.http}/")
            page.evaluate("(token) => sessionStorage.setItem('streameval.token', token)", token)
            page.goto("about:blank")
            page.goto(f"{addresses.http}/#/stream/{FELL}")
            expect(page.locator("#answer .sentence")).not_to_be_empty()
            expect(page.locator("#accept")).to_be_visible(visible=may)
        page.locator("#accept").click()
        page.get_by_role("button", name="Accept it").click()
        expect(page.get_by_role("dialog")).to_be_hidden()
        # The alarms are still open; what began before is no longer told.
        expect(page.get_by_role("link", name="Show the change")).to_be_hidden()
        expect(page.locator("#accept")).to_be_hidden()
        page.goto("about:blank")


def test_average_precision_goes_where_it_says_the_same(served: Served, page: Page) -> None:
    """It is shown only where it differs from AUC-PR by what can be read."""
    for name in (STREAM, "churn/weekly", "old/data"):
        page.goto(served.url(f"stream/{name}?window=all"))
        known = served.client.stream(name).snapshot()
        expect(page.locator("#figure-auc_pr")).to_have_text(figure(known.auc_pr))
        differs = abs(known.average_precision - known.auc_pr) >= 0.005
        expect(page.locator("#figure-average_precision")).to_be_visible(visible=differs)


def test_a_warning_has_a_button_that_does_what_it_advises(late: Served, page: Page) -> None:
    """Young cases are left out, and come back; the words name no setting."""
    page.goto(late.url(f"stream/{LATE}?window=24h"))
    warnings = page.locator("#warnings")
    expect(warnings).to_contain_text("in which nine labels of ten arrive: the figures will change.")
    assert not INTERNAL.search(warnings.inner_text())
    page.goto(late.url(f"stream/{LATE}?window=7d&mature=2d"))
    expect(page.locator(".chip")).to_contain_text("without the newest 2 d")
    known = late.client.stream(LATE).snapshot(window=WEEK, mature_after=timedelta(days=2))
    expect(page.locator("#figure-auc_pr")).to_have_text(figure(known.auc_pr))
    page.goto(late.url(f"stream/{LATE}?window=24h"))
    warnings.get_by_role("link", name="Leave young cases out").click()
    expect(page.locator(".chip")).to_contain_text("without the newest")
    expect(page.locator("#warnings")).to_contain_text("No case of this window is old enough")
    page.locator("#warnings").get_by_role("link", name="Show young cases, too").click()
    expect(page.locator(".chip")).to_have_count(0)


def test_warnings_of_a_comparison_have_the_same_words(late: Served, page: Page) -> None:
    """They name their side, and no setting."""
    page.goto(late.url(f"compare?a={LATE}&a.window=24h&b={LATE}&b.window=all"))
    warning = page.locator(".warnings li").first
    expect(warning).to_have_text(
        "24 h: Most of these cases are younger than the time in which nine labels of ten arrive: "
        "the figures will change."
    )


def test_a_segment_that_was_never_seen_leads_to_the_whole(served: Served, page: Page) -> None:
    """The warning has the way back."""
    page.goto(served.url(f"stream/{STREAM}?segment=country:XX"))
    page.locator("#warnings").get_by_role("link", name="Show the whole stream").click()
    expect(page.locator("#figure-auc_pr")).to_have_text(re.compile(r"0\.\d{3}"))


def test_the_list_says_the_same(fallen: Served, page: Page) -> None:
    """State, by how much, since when and where, with the day of the reader's zone."""
    page.goto(fallen.url("?only=worse"))
    known = asked(fallen, FELL)
    row = page.locator("table.streams tbody tr.stream")
    expect(row.locator("th a")).to_have_text(FELL)
    expect(row.locator(".happened .state-chip").first).to_have_text("worse")
    expect(row.locator(".happened .what")).to_have_text(known["happened"])
    size = abs(known["figures"][0]["difference"]["estimate"])
    said = re.match(r"fell (0\.\d{2,4}) · since ", known["happened"])[1]
    assert float(said) == pytest.approx(size, abs=0.005)
    expect(row.locator(".spark rect.base")).to_have_count(1)
    expect(page.locator("#tile-worse .value")).to_have_text("1")


def test_a_day_of_the_list_is_of_the_readers_zone(page: Page, served: Served) -> None:
    """Of the change, of the return and of the last rows, and nothing else of the words."""
    script = """async () => {
      const { happened, localSilence } =
        await import(new URL("static/verdict.js", location.origin));
      const at = "2026-11-27T12:00:00Z";
      const line = "fell 0.20 · since Nov 20 · back since Nov 24 · day=Nov 20"
        + " · no rows since Nov 26, 23:30";
      const since = { likeliest: "2026-11-20T23:30:00Z" };
      const returned = { likeliest: "2026-11-24T01:00:00Z" };
      return [
        happened({ happened: line, at, since, returned }),
        localSilence("Steady. No rows have come since Dec 31 2025, 20:00.", at),
        localSilence("Steady. Noted then: no rows since Nov 20, 22:00.", at),
      ];
    }"""
    with page.context.browser.new_context(timezone_id="Asia/Tokyo") as context:
        other = context.new_page()
        other.goto(served.url())
        found = other.evaluate(script)
    assert found == [
        "fell 0.20 · since Nov 21 · back since Nov 24 · day=Nov 20 · no rows since Nov 27, 08:30",
        "Steady. No rows have come since Jan 1 2026, 05:00.",
        "Steady. Noted then: no rows since Nov 20, 22:00.",
    ]
