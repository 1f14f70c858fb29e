"""What the view of a stream begins with: sentences from its alarms, labels and projection."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from streameval.client import AlarmSettings, Client
from streameval_server import Settings
from streameval_server.testing import running_service

from ..alarm_history import write_alarm_history
from ..late_labels import write_late_labels
from .conftest import STREAM, Served, expect, figure
from .test_alarms import sent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

FELL = "fraud/fell"
CALM, WAITS = "calm/v1", "wait/v1"
LATE = "late/v1"
WEEK = timedelta(days=7)
INTERNAL = re.compile(r"mature_after|panes?\b|\bbits\b|[Rr]evision|_|ALARM|undefined|NaN")


@pytest.fixture(scope="module")
def fallen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return a server whose stream has two open alarms."""
    directory = tmp_path_factory.mktemp("fell")
    write_alarm_history(directory, FELL)
    settings = Settings(listen="127.0.0.1:0", data=directory)
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        now = datetime.now(UTC)
        past = (now - timedelta(days=3), now - timedelta(hours=2))
        for name, reference in ((CALM, past), (WAITS, None)):
            client.create_stream(name)
            sent(client, name)
            client.flush()
            watched = AlarmSettings(watches={"auc_roc": 0.05}, reference=reference)
            client.update_stream(name, alarms=watched)
        yield Served(addresses.grpc, addresses.http, client)


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return a server whose stream's positives are labelled days later."""
    directory = tmp_path_factory.mktemp("late")
    write_late_labels(directory, LATE, per_day=1600)
    settings = Settings(listen="127.0.0.1:0", data=directory)
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        yield Served(addresses.grpc, addresses.http, client)


def said(page: Page) -> str:
    """Return the sentences, once they are there."""
    expect(page.locator("#answer p")).not_to_be_empty()
    text = page.locator("#answer p").inner_text()
    assert not INTERNAL.search(text), text
    return text


def test_what_fell_since_when_and_why(fallen: Served, page: Page) -> None:
    """The alarm that began first, with its segment as a link; the others; the figure now."""
    page.goto(fallen.url(f"stream/{FELL}"))
    stream = fallen.client.stream(FELL)
    first, *others = [each for each in fallen.client.stream_alarms(FELL).alarms if each.is_open]
    text = said(page)
    assert (first.watch, [each.watch for each in others]) == ("auc_roc", ["recall"])
    size = f"{abs(first.difference.estimate):.2f}"
    since = f"{first.since:%H:%M}"
    if first.since.date() != datetime.now(UTC).date():
        since = f"{first.since:%b} {first.since.day}, {since}"
    assert text.startswith(f"AUC-ROC fell by {size} since about {since}. country=FR explains it.")
    assert "Recall fell, too." in text
    known = stream.snapshot(window=timedelta(days=1))
    limits = known.intervals["auc_pr"]
    assert f"AUC-PR is {known.auc_pr:.2f} ({limits.lower:.2f} to {limits.upper:.2f})." in text
    page.get_by_role("button", name="Show the alarms").click()
    expect(page.locator("#alarms-title")).to_be_focused()
    expect(page.locator("#alarms-title")).to_be_in_viewport()
    page.locator("#answer").get_by_role("link", name="country=FR").click()
    expect(page.locator(".chip")).to_contain_text("FR")
    expect(page.locator("#answer")).to_contain_text("AUC-ROC of the whole stream fell by")


def test_what_labels_will_change(late: Served, page: Page) -> None:
    """The share that is still to come, and the projected figure with its interval."""
    page.goto(late.url(f"stream/{LATE}?window=7d"))
    expect(page.locator("#answer")).to_contain_text("projected")
    text = said(page)
    known = late.client.stream(LATE).snapshot(window=WEEK, projection=True)
    own = next(
        each
        for each in known.projection.figures
        if each.metric == "auc_pr" and each.prevalence is None
    )
    found = re.fullmatch(
        r"AUC-PR is (\S+) \((\S+) to (\S+)\) so far\. (\d+) % of the labels are still to come; "
        r"projected (\S+) \((\S+) to (\S+)\)\.",
        text,
    )
    assert found, text
    pending = known.coverage.pending / (known.coverage.predictions - known.coverage.retracted)
    assert int(found[4]) == round(100 * pending)
    limits = known.intervals["auc_pr"]
    shown = [float(found[place]) for place in (1, 2, 3, 5, 6, 7)]
    wanted = [known.auc_pr, limits.lower, limits.upper, own.projected, *own.interval]
    assert shown == pytest.approx(wanted, abs=7e-3)


@pytest.mark.parametrize(
    ("fragment", "sentence"),
    [
        (
            "stream/wait/labels",
            "No label has arrived yet of 50 predictions, so its quality is not known.",
        ),
        (
            "stream/one/negative",
            "All 240 labels that have arrived are negative: AUC-PR is known once a positive one",
        ),
        (
            "stream/one/positive",
            "All 7 labels that have arrived are positive: AUC-PR is known once a negative one",
        ),
        ("stream/old/data", "There are no labelled cases in this window."),
        ("stream/new/empty?window=all", "There are no labelled cases in this window."),
    ],
)
def test_what_is_not_known(served: Served, page: Page, fragment: str, sentence: str) -> None:
    """No labels, one class, no case: what is missing, without internal names."""
    page.goto(served.url(fragment))
    assert said(page).startswith(sentence)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (CALM, "Nothing that is watched is known to have become worse than it was "),
        (WAITS, "Whether it became worse is not known yet: the time to compare with is "),
    ],
)
def test_a_calm_stream_and_one_that_waits(
    fallen: Served, page: Page, name: str, words: str
) -> None:
    """No alarm is open, or none can be; then what the window reads."""
    page.goto(fallen.url(f"stream/{name}"))
    expect(page.locator("#answer")).to_contain_text(words)
    known = fallen.client.stream(name).snapshot(window=timedelta(days=1))
    assert f"AUC-PR is {known.auc_pr:.2f} (" in said(page)
    expect(page.locator("#answer button")).to_be_hidden()


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
