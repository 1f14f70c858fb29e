"""No data, one class, no permission, an empty server: each state explains itself."""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import TYPE_CHECKING

import httpx
import pytest

from streameval.client import Client
from streameval_server import Limits, Settings, create_token
from streameval_server.testing import running_service

from .conftest import HOSTILE, IN_MEMORY, STREAM, Served, expect

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page


def test_an_empty_servers_lines_send_a_first_prediction(page: Page) -> None:
    """The five lines run unchanged, and the page shows what they sent."""
    with running_service(IN_MEMORY) as addresses:
        page.goto(f"{addresses.http}/")
        code = page.locator("#empty-server pre").inner_text()
        assert len(code.splitlines()) == 5
        exec(compile(code, "the page", "exec"), {})
        expect(page.locator("table.streams tbody th")).to_have_text("fraud/v1")
        expect(page.locator("#empty-server")).to_have_count(0)
        with Client(addresses.grpc) as client:
            assert client.stream("fraud/v1").snapshot().num_positive_ref == 1
        page.goto("about:blank")


@pytest.mark.parametrize(
    ("fragment", "state", "words"),
    [
        ("stream/new/empty?window=all", "#no-data", "exists, but has no cases"),
        ("stream/new/empty", "#no-data", "No cases in this window (24 h)"),
        ("stream/old/data", "#no-data", "No cases in this window (24 h)"),
        ("stream/wait/labels", "#no-data", "50 predictions, no label yet"),
        ("stream/one/negative", "#one-class", "All 240 labelled cases are negative"),
        ("stream/one/positive", "#one-class", "until a negative case arrives"),
    ],
)
def test_streams_without_figures_say_why(
    page: Page, served: Served, fragment: str, state: str, words: str
) -> None:
    """In words, without empty charts."""
    page.goto(served.url(fragment))
    expect(page.locator(state)).to_contain_text(words)
    for card in ("#pr", "#roc", "#threshold"):
        expect(page.locator(card)).to_be_hidden()
    if state == "#one-class":
        expect(page.locator("#histogram-plot svg path").first).to_be_attached()


def test_a_stream_without_labels_shows_what_is_known(page: Page) -> None:
    """Its volume and its scores; the lines that send a label run as they are shown."""
    with running_service(IN_MEMORY) as addresses, Client(addresses.grpc) as client:
        stream = client.stream("fraud/v1")
        now = datetime.now(UTC)
        ids = [f"order-{index}" for index in range(40)]
        at = [now - timedelta(minutes=index) for index in range(40)]
        stream.log_cases(ids=ids, scores=[index / 40 for index in range(40)], at=at)
        stream.label("unknown", True)
        stream.flush()
        page.goto(f"{addresses.http}/#/stream/fraud/v1?window=6h")
        known = page.locator("#no-data")
        expect(known.locator("h2")).to_have_text("40 predictions, no label yet")
        for card, heading in (("#volume", "Predictions"), ("#waiting-scores", "Predictions")):
            expect(page.locator(f"{card}-plot svg path").first).to_be_attached()
            page.locator(f"{card} summary", has_text="Show as a table").click()
            expect(page.locator(f"{card} th").first).to_be_visible()
            index = page.locator(f"{card} th").all_inner_texts().index(heading)
            cells = page.locator(f"{card} tbody tr").locator(f"td:nth-child({index + 1})")
            assert sum(map(int, cells.all_inner_texts())) == 40
        for card in ("#timeline", "#pr", "#segments"):
            expect(page.locator(card)).to_be_hidden()
        exec(compile(known.locator("pre").inner_text(), "the page", "exec"), {})
        expect(page.locator("#one-class")).to_contain_text("Only positive cases so far")
        page.goto("about:blank")


def test_labels_that_come_late_are_not_asked_for(page: Page) -> None:
    """A window that is too young for them says how late they come, and leads to one that is not."""
    with running_service(IN_MEMORY) as addresses, Client(addresses.grpc) as client:
        stream = client.stream("claims/v1")
        now = datetime.now(UTC)
        for age in (timedelta(days=5), timedelta(hours=1)):
            ids = [f"{age}-{index}" for index in range(40)]
            stream.log_cases(ids=ids, scores=[index / 40 for index in range(40)], at=now - age)
            if age > timedelta(days=1):
                stream.label_cases(ids=ids, labels=[index > 20 for index in range(40)])
        stream.flush()
        page.goto(f"{addresses.http}/#/stream/claims/v1?window=24h")
        known = page.locator("#no-data")
        expect(known.locator("h2")).to_have_text("40 predictions, no label yet")
        expect(known).to_contain_text("half of this stream's labels come within 5 d.")
        expect(known.locator("pre")).to_have_count(0)
        known.get_by_role("link", name="Show 30 d").click()
        expect(page.locator("#figure-counts")).to_have_text("40")
        page.goto("about:blank")


def test_an_empty_window_says_since_when_and_leads_to_cases(page: Page, served: Served) -> None:
    """Since when no row has come, with the day before it; or to all time."""
    known = httpx.get(f"{served.http}/v1/streams:snapshots?streams=old/data").json()
    end = datetime.fromisoformat(known["snapshots"][0]["newestPane"]["endTime"])
    page.goto(served.url("stream/old/data"))
    expect(page.locator("#no-data")).to_contain_text(
        f"No row has come since {end:%b} {end.day}, {end:%H:%M}."
    )
    for name in ("Show the day before", "Show all time"):
        page.get_by_role("link", name=name).click()
        expect(page.locator("#figure-counts")).to_have_text("4")
        page.go_back()


def test_a_stream_that_there_is_not(page: Page, complaints: list[str], served: Served) -> None:
    """The page says so, offers no window of it, and links back."""
    complaints.append("404 (Not Found)")
    page.goto(served.url("stream/no/such"))
    expect(page.locator("#refused")).to_contain_text("There is no such stream")
    expect(page.get_by_role("navigation", name="Window")).to_be_hidden()
    # That of the page itself remains.
    expect(page.get_by_role("link", name="Compare", exact=True)).to_have_count(1)
    expect(page.locator("#connection")).to_be_hidden()
    page.get_by_role("link", name="All streams").click()
    expect(page.locator("h1")).to_have_text("Streams")


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("segment=country%3DBR", "“country=BR” is no segment. Write key:value, as in country:BR."),
        ("window=3x", "“3x” is no window."),
    ],
)
def test_a_link_that_cannot_be_read(page: Page, served: Served, query: str, problem: str) -> None:
    """Neither the whole stream nor another window is shown in its place."""
    page.goto(served.url(f"stream/{STREAM}?{query}"))
    verdict = page.get_by_role("region", name="Verdict")
    expect(page.locator("#malformed")).to_contain_text(problem)
    expect(verdict).to_be_hidden()
    expect(page.locator("#figure-auc_pr")).to_have_count(0)
    expect(page.locator("#timeline")).to_be_hidden()
    expect(page.locator("#connection")).to_be_hidden()
    page.get_by_role("link", name="Show the stream without it").click()
    expect(page.locator("#figure-auc_pr")).to_be_visible()
    expect(page.locator("#timeline-plot svg").first).to_be_visible()
    expect(page.locator("#malformed")).to_have_count(0)
    expect(page.locator("#connection")).to_have_text("Live")
    expect(verdict).to_be_visible()
    page.goto(served.url(f"stream/{STREAM}?{query}"))
    expect(page.locator("#malformed")).to_contain_text(problem)
    expect(verdict).to_be_hidden()


# --- Permission -------------------------------------------------------------------------------


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, str]:
    """Return tokens by scope."""
    path = tmp_path / "tokens.toml"
    return {
        "all": create_token(path, "all", ("query",)),
        "ingest": create_token(path, "ingest", ("ingest",)),
        "spam": create_token(path, "spam", ("query",), ["spam"]),
        "sender": create_token(path, "sender", ("ingest", "admin")),
    }


def test_a_token_opens_the_page(
    page: Page, complaints: list[str], tmp_path: Path, tokens: dict[str, str]
) -> None:
    """No token, a wrong one, one for another stream, the right one; it stays in this tab."""
    complaints += ["401 (Unauthorized)", "403 (Forbidden)"]
    settings = Settings(listen="127.0.0.1:0", memory=True, tokens=tmp_path / "tokens.toml")
    with running_service(settings) as addresses:
        with Client(addresses.grpc, token=tokens["sender"]) as client:
            client.stream("fraud/v1").add_cases(labels=[1, 0], scores=[0.9, 0.1])
        page.goto(f"{addresses.http}/#/stream/fraud/v1?window=all")
        expect(page.locator("#denied")).to_contain_text("This server requires a token")
        expect(page.locator("#connection")).to_have_text("Not connected")

        def enter(token: str) -> None:
            page.get_by_label("Token", exact=True).fill(token)
            page.get_by_role("button", name="Continue").click()

        enter("sv1.web-1.wrong")
        expect(page.locator("#denied")).to_contain_text("The server says:")
        enter(tokens["ingest"])
        expect(page.locator("#denied")).to_contain_text("this needs the scope query")
        enter(tokens["spam"])
        expect(page.locator("#denied")).to_contain_text("is not for the stream")
        enter(tokens["all"])
        expect(page.locator("#figure-counts")).to_have_text("2")
        expect(page.locator("#denied")).to_have_count(0)
        page.reload()
        expect(page.locator("#figure-counts")).to_have_text("2")
        assert page.evaluate("sessionStorage.length") == 1
        assert page.evaluate("Object.values(localStorage).join()") == ""
        assert tokens["all"] not in page.url
        page.get_by_role("button", name="Forget token").click()
        expect(page.locator("#denied")).to_contain_text("This server requires a token")
        assert page.evaluate("sessionStorage.length") == 0
        page.goto("about:blank")


# --- What users send stays text ---------------------------------------------------------------


def test_what_users_send_is_never_markup(page: Page, complaints: list[str], served: Served) -> None:
    """Segment values, ids and parts of the URL are shown as text and never executed."""
    complaints += ["404 (Not Found)", "400 (Bad Request)"]
    page.goto(served.url(f"stream/{STREAM}?window=all"))
    link = page.locator("#segments tbody a", has_text="<img")
    expect(link).to_have_text(f"country {HOSTILE}")
    link.click()
    expect(page.locator(".chip")).to_contain_text(HOSTILE)
    expect(page.locator("#tp")).not_to_be_empty()
    for card in ("pr", "timeline"):
        page.locator(f"#{card}-plot").hover()
    page.get_by_role("tab", name="Scores").click()
    page.locator("#histogram-plot").hover()
    page.get_by_role("link", name="Compare").last.click()
    expect(page.locator("#a-segment")).to_have_value(f"country:{HOSTILE}")
    expect(page.locator("#result-a")).to_be_visible()
    for fragment in (
        f"stream/{HOSTILE}",
        "stream/%3Cimg%20src=x%20onerror=%22window.hacked=1%22%3E",
        f"?find={HOSTILE}",
        f"stream/{STREAM}?window={HOSTILE}&segment={HOSTILE}:{HOSTILE}&at={HOSTILE}&costs={HOSTILE}",
        f"compare?a={HOSTILE}&b={HOSTILE}&a.segment=x:{HOSTILE}&metric={HOSTILE}&a.window={HOSTILE}",
    ):
        page.goto("about:blank")
        page.goto(served.url(fragment))
        expect(page.locator("h1")).to_be_visible()
        expect(page.locator("#connection")).not_to_have_text("Connecting")
        assert page.locator("main img, main script, main iframe").count() == 0
        assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 1, "the page's own mark"


def test_names_that_look_like_paths(page: Page, served: Served) -> None:
    """A stream's name may look like a URL or a file."""
    names = ["...", "a/..b/c.d", "static/app.js", "v1/streams"]
    for name in names:
        served.client.stream(name).add_cases(labels=[1, 0, 1], scores=[0.9, 0.5, 0.1])
    served.client.flush()
    for name in names:
        page.goto("about:blank")
        page.goto(served.url())
        page.get_by_role("link", name=name, exact=True).click()
        expect(page.locator("#figure-counts")).to_have_text("3")
        expect(page.locator("h1")).to_have_text(name)
    page.goto("about:blank")  # an open page would report that its stream was deleted
    for name in names:
        served.client.delete_stream(name)


def test_no_request_leaves_the_server(page: Page, served: Served) -> None:
    """Everything is loaded from the server, and inline scripts are not allowed."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    answer = page.goto(served.url(f"stream/{STREAM}"))
    expect(page.locator("#pr-plot svg path").first).to_be_attached()
    assert all(url.startswith(f"{served.http}/") for url in asked)
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "script-src 'self'" in policy


def test_the_vendored_library_is_what_it_says() -> None:
    """Its checksum is that in its README, and its licence is included."""
    vendor = resources.files("streameval_server._web") / "static" / "vendor" / "echarts"
    known = re.search(r"sha256 (\w{64})", (vendor / "README.md").read_text())
    assert known is not None
    content = (vendor / "echarts.esm.min.js").read_bytes()
    assert hashlib.sha256(content).hexdigest() == known[1]
    assert "Apache License" in (vendor / "LICENSE").read_text()
    assert "Apache ECharts" in (vendor / "NOTICE").read_text()


def test_a_clock_in_doubt_is_a_warning_on_each_view(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It appears while the page is open, and goes when the clock is right again."""
    ahead_ns = 0
    actual = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: actual() + ahead_ns)
    settings = replace(IN_MEMORY, limits=Limits(tick_us=20_000))
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        for name in ("fraud/v1", "fraud/v2"):
            client.stream(name).add_cases(labels=[True, False], scores=[0.7, 0.2])
        client.flush()
        page.goto(f"{addresses.http}/")
        expect(page.locator("table.streams tbody tr")).to_have_count(2)
        expect(page.locator("#server-warnings")).to_be_hidden()
        ahead_ns = 365 * 86_400 * 10**9
        expect(page.locator("#server-warnings li")).to_have_count(1)
        expect(page.locator("#server-warnings")).to_contain_text("365 d ahead of the server's time")
        page.goto(f"{addresses.http}/#/stream/fraud/v1")
        expect(page.locator("#warnings")).to_contain_text("streameval admin clock accept")
        ahead_ns = 0
        expect(page.locator("#warnings")).to_be_hidden()
        page.goto("about:blank")
