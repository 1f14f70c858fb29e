"""Alarms: in the list, on their stream's page, acknowledged from there, and live."""

from __future__ import annotations

import re
import shutil
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval.client import AlarmSettings, Client
from streameval_server import Settings, create_token
from streameval_server.testing import running_service

from ..alarm_history import write_alarm_history
from .conftest import IN_MEMORY, Served, expect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

ALARMED, QUIET, WAITING, PLAIN = "fraud/v3", "churn/weekly", "spam/v2", "risk/eu"
WORST_CONTRAST = 4.5
"""That WCAG 2.2 asks for of text at level AA."""
CONTRASTS = """() => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const parts = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const light = (colour) => {
        const [r, g, b] = parts(colour).slice(0, 3).map((each) => each / 255)
            .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = (element) => {
        const own = getComputedStyle(element).backgroundColor;
        return parts(own)[3] ? own : ground(element.parentElement);
    };
    const texts = ".alarm-state, .alarms p, .alarms dt, .alarms dd, .alarms span, .alarms a, "
        + ".alarms li, .alarms summary, .alarms button";
    return [...document.querySelectorAll(texts)].filter((each) => each.checkVisibility()
        && each.textContent).map((each) => {
        const [a, b] = [light(getComputedStyle(each).color), light(ground(each))];
        return [each.textContent, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)];
    });
}"""


def sent(client: Client, name: str, distance: float = 2.0) -> None:
    """Send two days of cases to a stream, whose classes are so far apart, up to a whole hour."""
    rng, now = np.random.default_rng(3), datetime.now(UTC).replace(minute=0, second=0)
    labels = rng.random(2_000) < 0.3
    scores = 1 / (1 + np.exp(1.5 - rng.normal(size=2_000) - distance * labels))
    ages = np.linspace(48, 0.1, 2_000)
    at = [now - timedelta(hours=float(age)) for age in ages]
    client.stream(name).add_cases(labels=labels, scores=scores, at=at)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory to copy, whose stream has open and acknowledged alarms."""
    directory = tmp_path_factory.mktemp("history") / "data"
    write_alarm_history(directory, ALARMED)
    return directory


def copied(history: Path, directory: Path, **changes: object) -> Settings:
    """Return the settings of a server on a copy of the history."""
    shutil.copytree(history, directory / "data")
    return Settings(listen="127.0.0.1:0", data=directory / "data", **changes)


@pytest.fixture(scope="module")
def alarmed(history: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return a server of streams with open alarms, with none, with a reference that lasts."""
    settings = copied(history, tmp_path_factory.mktemp("alarmed"))
    # At some minutes chance makes a change of these cases, and the reference is refused.
    now = datetime.now(UTC).replace(minute=0, second=0)
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        for name, distance in ((QUIET, 3.0), (WAITING, 2.0), (PLAIN, 1.0)):
            client.create_stream(name, threshold=0.5)
            sent(client, name, distance)
        client.flush()
        client.update_stream(WAITING, alarms=AlarmSettings(watches={"flagged": 0.05}))
        past = (now - timedelta(days=3), now - timedelta(hours=2))
        client.update_stream(QUIET, alarms=AlarmSettings(watches={"auc_roc": 0.05}, reference=past))
        yield Served(addresses.grpc, addresses.http, client)


def open_alarms(client: Client):
    """Return the stream's open alarms, the newest first."""
    return [each for each in reversed(client.stream_alarms(ALARMED).alarms) if each.is_open]


def row(page: Page, name: str) -> Locator:
    """Return a stream's row of the list."""
    return page.locator("table.streams tbody tr", has=page.get_by_role("link", name=name))


def test_the_list_has_each_streams_state(alarmed: Served, page: Page) -> None:
    """Open alarms in words and first, though another stream is worse; nothing without alarms."""
    page.goto(alarmed.url())
    chip = row(page, ALARMED).locator(".alarm-state")
    expect(chip).to_have_text("2 open alarms: AUC-ROC, Recall")
    expect(chip).to_have_class("alarm-state open")
    expect(row(page, WAITING).locator(".alarm-state")).to_have_text(
        "alarms wait for their reference"
    )
    expect(row(page, QUIET).locator(".alarm-state")).to_have_text("no open alarm")
    expect(row(page, PLAIN).locator(".alarm-state")).to_be_hidden()
    expect(page.locator("#summary")).to_have_text("4 streams")
    expect(page.locator("#tile-alarms")).to_have_text("1open alarms")
    links = page.locator("table.streams tbody a")
    expect(links.first).to_have_text(ALARMED)
    page.locator("#tile-alarms").click()
    expect(links).to_have_text([ALARMED])
    page.locator("#tile-alarms").click()
    page.locator("#order").select_option("name")
    expect(links).to_have_text(sorted([ALARMED, QUIET, WAITING, PLAIN]))


def test_an_alarm_is_a_plain_sentence(alarmed: Served, page: Page) -> None:
    """What changed, by how much, since when, where, what first; then limits and what to look at."""
    page.goto(alarmed.url(f"stream/{ALARMED}?window=24h&tab=alarms"))
    shown = page.locator("#open-alarms article")
    expect(shown).to_have_count(2)
    for article, alarm in zip(shown.all(), open_alarms(alarmed.client), strict=True):
        changed = alarm.changed[0].upper() + alarm.changed[1:]
        said = article.locator(".what").inner_text()
        assert said.startswith(
            f"{changed} fell from {alarm.reference:.3f} to "
            f"{alarm.value.estimate:.3f} ({alarm.value.lower:.3f} to {alarm.value.upper:.3f}) "
            "since about "
        )
        assert f"{alarm.since:%H:%M}" in said
        assert said.endswith(
            "; country=FR explains it; neither scores nor the share of positives are known to "
            "have changed."
        )
        facts = article.locator(".note")
        expect(facts).to_contain_text(f"Look at {alarm.look_at}.")
        expect(facts).to_contain_text(f"{alarm.latest:%H:%M}; the alarm was raised ")
        expect(facts).to_contain_text(f"{alarm.raised_at:%H:%M}")
        assert not re.search("placement|_|neither;|ALARM", article.inner_text())
    expect(page.locator("#acknowledged-alarms summary")).to_have_text("2 acknowledged alarms")
    expect(page.locator("#acknowledged-alarms li").first).to_be_hidden()
    page.locator("#acknowledged-alarms summary").click()
    expect(page.locator("#acknowledged-alarms li").first).to_contain_text("country=DE explains it")
    expect(page.locator("#acknowledged-alarms li").first).to_contain_text("Acknowledged ")
    shown.first.get_by_role("link", name="country=FR").click()
    expect(page.locator(".chip")).to_contain_text("FR")
    expect(shown).to_have_count(2)


def test_the_evidence_is_the_servers(alarmed: Served, page: Page) -> None:
    """A bar for each watch, as wide as its number says."""
    page.goto(alarmed.url(f"stream/{ALARMED}?tab=alarms"))
    bars = page.locator("#evidence > div")
    expect(bars).to_have_count(3)
    found = alarmed.client.stream_alarms(ALARMED).evidence
    assert max(found.values()) > 0.01
    titles = {"auc_roc": "AUC-ROC", "precision": "Precision", "recall": "Recall"}
    firing = {each.watch for each in open_alarms(alarmed.client)}
    assert firing < set(found)
    for bar, (watch, share) in zip(bars.all(), found.items(), strict=True):
        expect(bar.locator("dt")).to_contain_text(titles[watch])
        expect(bar.locator(".still-open")).to_be_visible(visible=watch in firing)
        meter = bar.get_by_role("meter")
        expect(meter).to_have_attribute("aria-valuenow", str(int(100 * share)))
        whole = meter.bounding_box()["width"]
        drawn = meter.locator("div").bounding_box()
        assert (drawn["width"] if drawn else 0.0) == pytest.approx(share * whole, abs=0.5)


def test_an_alarm_is_acknowledged_on_the_page(history: Path, tmp_path: Path, page: Page) -> None:
    """By keyboard; it goes to the quiet list, is said aloud, and the list of streams knows."""
    with (
        running_service(copied(history, tmp_path)) as addresses,
        Client(addresses.grpc) as client,
    ):
        page.goto(f"{addresses.http}/#/stream/{ALARMED}?tab=alarms")
        first, second = open_alarms(client)
        shown, state = page.locator("#open-alarms article"), page.locator("#alarms .alarm-state")
        name = f"Acknowledge alarm {first.number}"
        page.get_by_role("button", name=name, exact=True).press("Enter")
        expect(shown).to_have_count(1)
        expect(page.locator("#alarms [role=status]")).to_have_text(
            f"Alarm {first.number} is acknowledged."
        )
        expect(page.locator("#alarms-title")).to_be_focused()
        summary = page.locator("#acknowledged-alarms summary")
        expect(summary).to_have_text("3 acknowledged alarms")
        assert [each.number for each in open_alarms(client)] == [second.number]
        expect(state).to_have_text("1 open alarm")
        # Another client acknowledges the other one, while the page is open.
        client.acknowledge_alarm(ALARMED, second.number)
        expect(shown).to_have_count(0)
        expect(state).to_have_text("No open alarm")
        expect(summary).to_have_text("4 acknowledged alarms")
        page.get_by_role("link", name="Streams").first.click()
        expect(row(page, ALARMED).locator(".alarm-state")).to_have_text("no open alarm")
        page.goto("about:blank")


def test_a_refusal_is_shown_in_words(
    history: Path, tmp_path: Path, page: Page, complaints: list[str]
) -> None:
    """A token that may only query leaves the alarm open; another one acknowledges it."""
    complaints += ["403 (Forbidden)", "401 (Unauthorized)"]
    tokens = tmp_path / "tokens.toml"
    reader = create_token(tokens, "reader", ("query",))
    operator = create_token(tokens, "operator", ("query", "admin"))
    shown = page.locator("#open-alarms article")
    with running_service(copied(history, tmp_path, tokens=tokens)) as addresses:
        page.goto(f"{addresses.http}/#/stream/{ALARMED}?tab=alarms")
        page.get_by_label("Token", exact=True).fill(reader)
        page.get_by_role("button", name="Continue").click()
        expect(shown).to_have_count(2)
        shown.first.get_by_role("button").click()
        refusal = shown.first.get_by_role("alert")
        expect(refusal).to_contain_text("Not acknowledged. ")
        expect(refusal).to_contain_text("needs the scope admin")
        expect(shown).to_have_count(2)
        expect(page.locator("#figure-counts")).to_be_visible()
        page.get_by_role("button", name="Forget token").click()
        expect(shown).to_have_count(0)
        page.get_by_label("Token", exact=True).fill(operator)
        page.get_by_role("button", name="Continue").click()
        expect(shown).to_have_count(2)
        shown.first.get_by_role("button").click()
        expect(shown).to_have_count(1)
        page.goto("about:blank")


def test_a_detector_that_waits_says_what_for(alarmed: Served, page: Page) -> None:
    """And when that ends; a stream without alarms has no card, and gets one when it declares."""
    page.goto(alarmed.url(f"stream/{WAITING}?tab=alarms"))
    expect(page.locator("#alarms-wait")).to_contain_text(
        "the stream waits for the end of its reference, and its labels."
    )
    end = alarmed.client.stream_alarms(WAITING).reference[1]
    expect(page.locator("#alarms-wait")).to_contain_text(f"{end:%H:%M}")
    expect(page.locator("#evidence")).to_be_hidden()
    page.goto(alarmed.url(f"stream/{PLAIN}?tab=alarms"))
    expect(page.get_by_role("tab", name="Curves and threshold")).to_have_attribute(
        "aria-selected", "true"
    )
    expect(page.locator("#tab-alarms")).to_be_hidden()
    expect(page.locator("#alarms")).to_be_hidden()


@pytest.mark.heavy
def test_alarms_appear_while_the_page_is_open(page: Page) -> None:
    """On the list and on the stream: declared, raised, without a reload."""
    with running_service(IN_MEMORY) as addresses, Client(addresses.grpc) as client:
        rng, now = np.random.default_rng(1), datetime.now(UTC)
        stream = client.stream("live/v1")
        sent(client, "live/v1")
        client.flush()
        page.goto(f"{addresses.http}/")
        chip = row(page, "live/v1").locator(".alarm-state")
        expect(row(page, "live/v1")).to_be_visible()
        expect(chip).to_be_hidden()
        client.update_stream(
            "live/v1",
            alarms=AlarmSettings(
                watches={"auc_roc": 0.01},
                mean_time_to_false_alarm=timedelta(seconds=30),
                pane=timedelta(seconds=1),
                reference=(now - timedelta(days=3), now - timedelta(hours=1)),
            ),
        )
        expect(chip).to_have_text("no open alarm")
        other = page.context.new_page()
        other.goto(f"{addresses.http}/#/stream/live/v1?tab=alarms")
        expect(other.locator("#alarms .alarm-state")).to_have_text("No open alarm")
        shown = other.locator("#open-alarms article")
        for _ in range(120):  # a pane each, until one of them raises it
            stream.add_cases(labels=rng.random(200) < 0.3, scores=rng.random(200))
            client.flush()
            other.wait_for_timeout(250)
            if shown.count():
                break
        expect(shown).to_have_count(1)
        expect(chip).to_have_text("1 open alarm: AUC-ROC")
        other.close()
        page.goto("about:blank")


@pytest.mark.heavy
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 768, 1024, 1440])
def test_it_fits_and_is_legible(browser: Browser, alarmed: Served, width: int, theme: str) -> None:
    """Nothing is wider than the window; text has the contrast of level AA."""
    with browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=theme
    ) as context:
        page = context.new_page()
        for fragment in ("", f"stream/{ALARMED}?tab=alarms", f"stream/{WAITING}?tab=alarms"):
            page.goto("about:blank")
            page.goto(alarmed.url(fragment))
            expect(page.locator(".alarm-state:visible").first).to_be_visible()
            if ALARMED in fragment:
                page.locator("#acknowledged-alarms summary").click()
            assert page.evaluate("document.scrollingElement.scrollWidth") == width
            contrasts = page.evaluate(CONTRASTS)
            assert contrasts
            assert [each for each in contrasts if each[1] < WORST_CONTRAST] == []


def test_an_alarm_of_history_is_told_as_past(page: Page) -> None:
    """It is folded, says when it would have rung, and nothing is open."""
    start = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    start -= timedelta(days=12)
    rng = np.random.default_rng(4)
    with running_service() as addresses, Client(addresses.grpc) as client:
        client.create_stream("m/1", scale="probability")
        for hour in range(12 * 24):
            labels = rng.random(80) < 0.3
            distance = -1.0 if 200 <= hour < 240 else 2.0
            scores = 1 / (1 + np.exp(1 - 2 * rng.normal(distance * labels)))
            at = start + timedelta(hours=hour, minutes=30)
            client.stream("m/1").add_cases(labels=labels, scores=scores, at=at)
        client.flush()
        client.update_stream("m/1", alarms=AlarmSettings(watches={"auc_roc": 0.01}))
        page.goto(Served(addresses.grpc, addresses.http, client).url("stream/m%2F1?tab=alarms"))
        summary = page.locator("#acknowledged-alarms summary")
        expect(summary).to_have_text("1 alarm from before the declaration")
        summary.click()
        past = page.locator("#acknowledged-alarms li")
        expect(past).to_contain_text("It would have rung ")
        expect(past).to_contain_text(", if labels had come in time.")
        expect(page.locator("#alarms .alarm-state")).to_have_text("No open alarm")
        page.goto("about:blank")
