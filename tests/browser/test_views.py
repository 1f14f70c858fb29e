"""Comparisons, links that restore a view, and custom windows."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import grpc
import numpy as np
import pytest
from google.protobuf.duration_pb2 import Duration

from streameval.v1 import query_pb2, query_pb2_grpc, types_pb2

from .conftest import COUNTRIES, OTHER, STREAM, Served, between, expect, figure, signed

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

pytestmark = pytest.mark.heavy


def compared(served: Served, a: dict, b: dict, metric: str = "auc_pr"):
    """Return the server's own comparison."""
    request = query_pb2.CompareStreamsRequest(
        a=types_pb2.Selection(**a), b=types_pb2.Selection(**b), metric=metric
    )
    with grpc.insecure_channel(served.grpc) as channel:
        answer = query_pb2_grpc.QueryServiceStub(channel).CompareStreams(request, timeout=20)
    return answer.comparison


SHOWN = ("#figure-auc_pr", "#more-auc_pr", "#tp", "#fp", "#threshold-value", "#fact-cost")
DAY = Duration(seconds=86_400)
HOUR = Duration(seconds=3_600)
BRAZIL = types_pb2.Segment(key="country", value="BR")


@pytest.mark.parametrize(
    ("query", "sides", "metric", "names"),
    [
        (
            f"a={STREAM}&a.window=24h&b={OTHER}&b.window=24h",
            ({"stream": STREAM, "last": DAY}, {"stream": OTHER, "last": DAY}),
            "auc_pr",
            (STREAM, OTHER),
        ),
        (
            f"a={STREAM}&a.window=1h&b={STREAM}&b.window=24h",
            ({"stream": STREAM, "last": HOUR}, {"stream": STREAM, "last": DAY}),
            "auc_pr",
            ("1 h", "24 h"),
        ),
        (
            f"a={STREAM}&a.segment=country:BR&b={STREAM}&metric=auc_roc",
            ({"stream": STREAM, "segment": BRAZIL}, {"stream": STREAM}),
            "auc_roc",
            ("country:BR", "all segments"),
        ),
    ],
)
def test_comparisons_are_the_servers(
    page: Page,
    served: Served,
    *,
    query: str,
    sides: tuple[dict, dict],
    metric: str,
    names: tuple[str, str],
) -> None:
    """Two streams, two windows of one, a segment and the rest: figures, interval, p-value."""
    page.goto(served.url(f"compare?{query}"))
    known = compared(served, *sides, metric)
    expect(page.locator("#result-a")).to_have_text(figure(known.a.value))
    expect(page.locator("#result-b")).to_have_text(figure(known.b.value))
    limits, value = known.difference.interval, known.difference.value
    lower, upper = limits.lower, limits.upper
    are_streams = names == (STREAM, OTHER)
    if are_streams:  # challenger minus champion
        lower, upper, value = -upper, -lower, -value
    expect(page.locator("#result-difference")).to_have_text(signed(value))
    expect(page.locator(".difference .more")).to_have_text(f"{signed(lower)} to {signed(upper)}")
    p_value = "< 0.001" if known.p_value < 0.001 else f"{known.p_value:.3f}"
    expect(page.locator("#result-p")).to_have_text(p_value)
    verdict = page.locator("#result-title")
    if are_streams:
        expect(verdict).to_have_text("Different cases, so not ranked")
    elif limits.upper < 0:
        expect(verdict).to_have_text(
            f"{names[1]} is better than {names[0]} by {-known.difference.value:.3f}"
        )
    elif limits.lower > 0:
        expect(verdict).to_have_text(
            f"{names[0]} is better than {names[1]} by {known.difference.value:.3f}"
        )
    else:
        expect(verdict).to_have_text("No significant difference")
    expect(page.locator("#result dt").first).to_have_text(re.compile(f"^{names[0]}: AUC"))
    expect(page.locator("#pr .keys li").nth(1)).to_have_text(names[1])
    assert known.complement == (
        f"without {names[0]}" in page.locator("#result .note").text_content()
    )
    if metric != "auc_roc" and not are_streams:
        roc = known.auc_roc
        expect(page.locator("#result .note")).to_contain_text(
            f"AUC-ROC, at any prevalence: {figure(roc.a.value)} against {figure(roc.b.value)}, "
            f"{signed(roc.difference.value)} ("
        )
    for card in ("pr", "roc"):
        expect(page.locator(f"#{card}-plot svg path").nth(5)).to_be_attached()
        # Both curves of B have all its cases; only the figure excludes A.
        page.locator(f"#{card} .info summary").click()
        note = page.locator(f"#{card} .note").inner_text()
        assert known.complement == (f"curve of {names[1]} includes {names[0]}" in note), note


def test_curves_are_laid_over_each_other_at_one_prevalence(page: Page, served: Served) -> None:
    """The area under each drawn PR curve equals its side's figure."""
    page.goto(served.url(f"compare?a={STREAM}&b=churn/weekly"))
    known = compared(served, {"stream": STREAM}, {"stream": "churn/weekly"})
    expect(page.locator("#result-a")).to_be_visible()
    page.locator("#pr .rows > summary").click()
    rows = page.locator("#pr details tbody tr")
    expect(rows).to_have_count(11)
    texts = [row.locator("td").all_inner_texts() for row in rows.all()]
    cells = np.array(texts, dtype=float)
    # Tenths of recall: a coarse sum, but a curve at another prevalence differs by far more.
    for column, side in ((1, known.a), (2, known.b)):
        assert np.trapezoid(cells[:, column], cells[:, 0]) == pytest.approx(side.value, abs=0.03)
    own = [served.client.stream(each).snapshot() for each in (STREAM, "churn/weekly")]
    assert known.prevalence == max(each.prevalence for each in own)
    shifts = [abs(each.auc_pr - side.value) for each, side in zip(own, (known.a, known.b))]
    assert min(shifts) < 1e-9
    assert max(shifts) > 0.04
    expect(page.locator("#result .why")).to_contain_text("the greater of the two.")
    assert cells[-1, 1] == pytest.approx(known.prevalence, abs=0.01)


def test_what_cannot_be_compared_says_why(
    page: Page, complaints: list[str], served: Served
) -> None:
    """The error's message is shown, and swapping the sides fixes this one."""
    complaints.append("400 (Bad Request)")
    page.goto(served.url(f"compare?a={STREAM}&a.window=all&b={STREAM}&b.window=24h"))
    expect(page.locator("#why-not")).to_contain_text("A contains b: swap them")
    page.get_by_role("button", name="Swap A and B").click()
    expect(page.locator("#result-a")).to_be_visible()
    assert "a.window=24h" in page.url


@pytest.mark.parametrize("text", ["country=BR", "BR", ":BR"])
def test_a_malformed_segment_is_refused_where_it_is_typed(
    page: Page, served: Served, text: str
) -> None:
    """Typed or in a link, it is never ignored: nothing is compared until it is put right."""
    page.goto(served.url(f"compare?a={STREAM}&b={OTHER}"))
    expect(page.locator("#result-a")).to_be_visible()
    field, refusal = page.locator("#a-segment"), page.locator("#a-refusal")
    field.fill(text)
    field.press("Enter")
    expect(refusal).to_contain_text(f"“{text}” is no segment. Write key:value")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#result-a")).to_have_count(0)
    expect(page.locator("#pr")).to_be_hidden()
    page.reload()
    expect(refusal).to_be_visible()
    expect(page.locator("#b-refusal")).to_be_hidden()
    assert text != "country=BR" or "as in country:BR" in refusal.inner_text()
    field.fill("country:BR")
    field.press("Enter")
    expect(page.locator("#result-a")).to_be_visible()
    expect(refusal).to_be_hidden()
    known = compared(served, {"stream": STREAM, "segment": BRAZIL}, {"stream": OTHER})
    expect(page.locator("#result-a")).to_have_text(figure(known.a.value))


def test_a_malformed_window_is_not_taken_for_all_time(page: Page, served: Served) -> None:
    """A link with one is refused at its field."""
    page.goto(served.url(f"compare?a={STREAM}&a.window=3x&b={OTHER}"))
    expect(page.locator("#a-refusal")).to_contain_text("“3x” is no window.")
    expect(page.locator("#a-window")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#result-a")).to_have_count(0)
    page.locator("#a-window").select_option("all")
    expect(page.locator("#result-a")).to_be_visible()
    expect(page.locator("#a-refusal")).to_be_hidden()


def test_the_segments_of_a_stream_are_offered(page: Page, served: Served) -> None:
    """The field lists the values in the window, and none of a stream without keys."""
    page.goto(served.url(f"compare?a={STREAM}&b=churn/weekly"))
    offered = page.locator("#a-segments option")
    expect(offered).to_have_count(len(COUNTRIES))
    values = [each.get_attribute("value") for each in offered.all()]
    assert values == sorted(f"country:{value}" for value in COUNTRIES)
    expect(page.locator("#result-a")).to_be_visible()
    expect(page.locator("#b-segments option")).to_have_count(0)


def test_compare_begins_with_comparisons_that_can_be_made(page: Page, served: Served) -> None:
    """Without a stream it offers some, and with one those of its group; each is answered."""
    page.goto(served.url(f"compare?a={STREAM}"))
    expect(page.locator("#result-title")).to_have_text("What to compare")
    links = page.locator(".starts a")
    expect(links).to_have_text(
        [f"{OTHER} against {STREAM}", f"The last 24 h of {STREAM} against all time"]
    )
    links.first.click()
    expect(page.locator("#a-window")).to_have_value("24h")
    expect(page.locator("#b-stream")).to_have_value(OTHER)
    expect(page.locator("#result-a")).not_to_be_empty()
    page.goto("about:blank")
    page.goto(served.url("compare"))
    links.first.click()
    expect(page.locator("#a-stream")).to_have_value(re.compile("^(fraud|one)/"))
    expect(page.locator("#b-stream")).to_have_value(re.compile("^(fraud|one)/"))


def test_a_comparison_is_made_by_hand(page: Page, served: Served) -> None:
    """The fields set the URL, and a stream's link to Compare fills them."""
    page.goto(served.url(f"stream/{STREAM}?segment=country:BR"))
    expect(page.locator("#figure-auc_pr")).not_to_be_empty()
    page.get_by_role("link", name="Compare").last.click()
    expect(page.locator("#a-segment")).to_have_value("country:BR")
    expect(page.locator("#b-segment")).to_have_value("")
    expect(page.locator("#result-a")).to_be_visible()
    page.locator("#b-stream").fill(OTHER)
    page.locator("#b-stream").press("Enter")
    page.get_by_label("By", exact=True).select_option("auc_roc")
    known = compared(
        served,
        {"stream": STREAM, "last": DAY, "segment": BRAZIL},
        {"stream": OTHER, "last": DAY},
        "auc_roc",
    )
    expect(page.locator("#result-b")).to_have_text(figure(known.b.value))


# --- Links ------------------------------------------------------------------------------------


def test_links_restore_the_view(page: Page, context: BrowserContext, served: Served) -> None:
    """A link restores the chosen window, segment, threshold and costs."""
    page.goto(served.url(f"stream/{STREAM}"))
    page.get_by_role("navigation", name="Window").get_by_role("link", name="All time").click()
    expect(page.locator(".segmented [aria-current]")).to_have_text("All time")
    for each in ("timeline", "segments"):  # which move the cards below, once they are drawn
        expect(page.locator(f"#{each}:not([aria-busy])")).to_be_visible()
    page.locator("#segments tbody a", has_text="DE").click()
    expect(page.locator(".chip")).to_contain_text("DE")
    known = served.client.stream(STREAM).snapshot(segment=("country", "DE"))
    expect(page.locator("#figure-auc_pr")).to_have_text(figure(known.auc_pr))
    expect(page.locator("#threshold:not([aria-busy])")).to_be_visible()
    page.get_by_label("Missed positive").fill("25")
    slider = page.locator("#threshold-slider")
    slider.fill(str(int(slider.get_attribute("max")) // 2))
    shown = [page.locator(each).inner_text() for each in SHOWN]
    other = context.browser.new_context().new_page()
    other.goto(page.url)
    expect(other.locator("#figure-auc_pr")).to_have_text(shown[0])
    expect(other.locator("#tp")).to_have_text(shown[2])
    assert shown == [other.locator(each).inner_text() for each in SHOWN]
    expect(other.get_by_label("Missed positive")).to_have_value("25")
    expect(other.locator(".segmented [aria-current]")).to_have_text("All time")
    other.context.close()
    page.go_back()
    expect(page.locator(".chip")).to_have_count(0)


def test_a_comparisons_link_restores_it(page: Page, served: Served) -> None:
    """After a reload the fields and the figures are the same."""
    page.goto(served.url(f"compare?a={STREAM}&a.window=1h&b={OTHER}&b.window=6h&metric=auc_roc"))
    expect(page.locator("#result-a")).to_be_visible()
    before = page.locator("#result > dl").inner_text()
    page.reload()
    expect(page.locator("#result-a")).to_be_visible()
    assert page.locator("#result > dl").inner_text() == before
    expect(page.locator("#b-window")).to_have_value("6h")
    expect(page.get_by_label("By", exact=True)).to_have_value("auc_roc")


def test_a_window_over_midnight_names_both_days(page: Page, served: Served) -> None:
    """Nov 22, 18:00 to 18:39 of the next day must not read as 39 minutes."""
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    ends = now - timedelta(days=1, hours=1), now
    window = "..".join(f"{each:%Y-%m-%dT%H:%M:%S}Z" for each in ends)
    page.goto(served.url(f"stream/{STREAM}?window={window}"))
    covered = served.client.stream(STREAM).snapshot(window=ends).window
    shown = " to ".join(f"{each:%b} {each.day}, {each:%H:%M}" for each in covered)
    expect(page.locator("#covered")).to_have_text(f"{shown}, local time")


def test_nothing_to_compare_yet_is_no_connection(page: Page, served: Served) -> None:
    """Without streams the view asks for nothing, and does not say that it is connecting."""
    page.goto(served.url("compare"))
    expect(page.get_by_role("heading", name="What to compare")).to_be_visible()
    expect(page.locator("#connection")).to_be_hidden()
    page.goto(served.url())
    expect(page.locator("#connection")).to_have_text("Live")


def test_a_window_of_ones_own(page: Page, served: Served) -> None:
    """Two times make a window; the answer widens it to whole panes, the URL keeps it."""
    page.goto(served.url(f"stream/{STREAM}"))
    expect(page.locator("#figure-auc_pr")).not_to_be_empty()
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    start, end = now - timedelta(hours=2), now - timedelta(hours=1)
    page.get_by_text("Custom range").click()
    page.get_by_label("From", exact=True).fill(start.strftime("%Y-%m-%dT%H:%M"))
    page.get_by_label("to", exact=True).fill(end.strftime("%Y-%m-%dT%H:%M"))
    page.get_by_role("button", name="Show", exact=True).click()
    known = served.client.stream(STREAM).snapshot(window=(start, end))
    expect(page.locator("#figure-auc_pr")).to_have_text(figure(known.auc_pr))
    expect(page.locator("#more-auc_pr")).to_contain_text(between(known.intervals["auc_pr"]))
    assert re.search(r"window=[\dT:-]+Z\.\.[\dT:-]+Z", page.url)
