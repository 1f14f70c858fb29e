"""Updates arrive, at a limited rate, and resume after an outage of the server."""

from __future__ import annotations

import itertools
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from streameval.client import Client
from streameval_server import Settings
from streameval_server.testing import running_service

from .conftest import Served, expect, figure

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Locator, Page, Route

    from streameval.client import Stream

pytestmark = pytest.mark.heavy

CASES = {"labels": [1, 0, 1, 0, 0, 1], "scores": [0.9, 0.8, 0.7, 0.6, 0.3, 0.2]}
_numbers = itertools.count()


@pytest.fixture
def fresh() -> str:
    """Return an unused stream name."""
    return f"live/{next(_numbers)}"


def opened(page: Page, served: Served, name: str, **columns: Any) -> Stream:
    """Open a stream's page with its first cases."""
    stream = served.client.stream(name)
    stream.add_cases(**CASES, **columns)
    stream.flush()
    page.goto(served.url(f"stream/{name}?window=all"))
    expect(page.locator("#figure-counts")).to_have_text(f"{sum(columns.get('counts', [1] * 6))}")
    return stream


def press(page: Page, link: Locator, pointer: str) -> Callable[[], object]:
    """Press the mouse button or a finger on a link; return a function that releases it."""
    if pointer == "mouse":
        link.hover()
        page.mouse.down()
        return page.mouse.up
    point = None
    while point is None:  # a link that was just drawn anew is no longer in the page
        point = link.evaluate(
            """(element) => {
                element.scrollIntoView({ block: "nearest" });
                const { x, y, width, height } = element.getBoundingClientRect();
                return element.isConnected ? { x: x + width / 2, y: y + height / 2 } : null;
            }"""
        )
    devtools = page.context.new_cdp_session(page)
    devtools.send("Emulation.setTouchEmulationEnabled", {"enabled": True})

    def touch(kind: str, points: list[dict]) -> object:
        return devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", [point])
    return lambda: touch("touchEnd", [])


def test_updates_arrive(page: Page, served: Served, fresh: str) -> None:
    """New cases update every part of the page that shows them, without a reload."""
    stream = opened(page, served, fresh)
    expect(page.locator("#connection")).to_have_text("Live")
    page.evaluate("window.notReloaded = true")
    stream.add_cases(labels=[1] * 30, scores=[0.95] * 30)
    stream.flush()
    known = stream.snapshot()
    expect(page.locator("#figure-auc_pr")).to_have_text(figure(known.auc_pr))
    expect(page.locator("#figure-counts")).to_have_text("36")
    counts = page.locator("#confusion, .confusion td.number")
    page.wait_for_function(
        "() => [...document.querySelectorAll('.confusion td.number')]"
        ".reduce((sum, cell) => sum + Number(cell.textContent), 0) === 36"
    )
    assert counts.count() == 4
    assert page.evaluate("window.notReloaded")


def test_the_list_moves_too(page: Page, served: Served, fresh: str) -> None:
    """A new stream appears, its figures change, and a deleted one disappears."""
    page.goto(served.url("?window=all"))
    expect(page.locator("#connection")).to_have_text("Live")
    stream = served.client.stream(fresh)
    stream.add_cases(**CASES)
    stream.flush()
    row = page.locator("table.streams tbody tr", has_text=fresh)
    expect(row.locator(".value .at")).to_have_text(figure(stream.snapshot().auc_pr))
    stream.add_cases(labels=[1] * 30, scores=[0.95] * 30)
    stream.flush()
    expect(row.locator(".value .at")).to_have_text(figure(stream.snapshot().auc_pr))
    served.client.delete_stream(fresh)
    expect(row).to_have_count(0)


@pytest.mark.parametrize("pointer", ["mouse", "finger"])
def test_a_row_that_is_pressed_stays_until_it_is_clicked(
    page: Page, served: Served, fresh: str, pointer: str
) -> None:
    """Between press and click the rows are reordered: the click still counts."""
    above, other = f"{fresh}/above", f"{fresh}/other"
    for name, labels in ((above, [0, 0, 1]), (fresh, [0, 1, 1]), (other, [1, 0, 1])):
        served.client.stream(name).add_cases(labels=labels, scores=[0.9, 0.8, 0.7])
    served.client.flush()
    page.goto(served.url(f"?window=all&find={fresh}"))
    links = page.locator("table.streams tbody a")
    expect(links).to_have_text([above, fresh, other])
    release = press(page, links.nth(1), pointer)
    served.client.delete_stream(above)
    stream = served.client.stream(fresh)
    stream.add_cases(labels=[1] * 30, scores=[0.95] * 30)  # no longer the worst
    stream.flush()
    pressed = page.locator("table.streams tbody tr").nth(1)
    expect(pressed.locator(".value .at")).to_have_text(figure(stream.snapshot().auc_pr))
    expect(page.locator("#summary")).to_have_text("2 streams")
    release()
    expect(page.get_by_role("heading", level=1)).to_have_text(fresh)
    page.go_back()
    expect(links).to_have_text([other, fresh])


@pytest.mark.parametrize("pointer", ["mouse", "finger"])
def test_a_segment_that_is_pressed_stays_until_it_is_clicked(
    page: Page, served: Served, fresh: str, pointer: str
) -> None:
    """The segments are ranked again between press and click: the click still counts."""
    served.client.create_stream(fresh, segment_keys=["country"])
    # All of one minute: another minute would add the timeline, which moves the cards below.
    # Enough of each class to be ranked.
    more = {
        "segments": {"country": ["DE", "FR"] * 3},
        "at": datetime.now(UTC),
        "counts": [10] * 6,
    }
    stream = opened(page, served, fresh, **more)
    expect(page.locator("#pr-plot svg path").first).to_be_attached()
    expect(page.locator("[aria-busy]:visible")).to_have_count(0)
    link = page.locator("#segments tbody a", has_text="DE")
    release = press(page, link, pointer)
    # The second request is sent once the first one's answer is drawn.
    for _ in range(2):
        with page.expect_request(lambda request: ":rank" in request.url):
            stream.add_cases(**CASES, **more)
            stream.flush()
    release()
    expect(page.locator(".chip")).to_contain_text("DE")
    expect(link).to_have_attribute("aria-current", "true")
    expect(page.locator("#segments tbody tr", has_text="DE").locator("td").last).to_have_text("60")


def test_at_most_five_updates_a_second(page: Page, served: Served, fresh: str) -> None:
    """However often the stream changes; the last update shows the newest state."""
    stream = opened(page, served, fresh)
    page.evaluate(
        """() => {
            window.times = [];
            new MutationObserver(() => window.times.push(performance.now())).observe(
                document.getElementById("figure-counts").parentElement,
                { childList: true, characterData: true, subtree: true });
        }"""
    )
    total, end = 6, time.monotonic() + 3
    while time.monotonic() < end:
        stream.add_cases(labels=[0, 1], scores=[0.4, 0.5])
        stream.flush()
        total += 2
    expect(page.locator("#figure-counts")).to_have_text(f"{total:,}")
    times = page.evaluate("window.times")
    assert total > 60
    assert len(times) > 5
    spread = times[-1] - times[0]
    assert len(times) <= 5 * spread / 1000 + 2, f"{len(times)} updates in {spread:.0f} ms"


def test_a_lost_connection_says_so_and_recovers(
    page: Page, complaints: list[str], tmp_path: Path, free_port: Callable[[], int]
) -> None:
    """After a stop the figures stay, with their time; after a restart they change again."""
    complaints += ["net::ERR_", "503 (Service Unavailable)"]
    settings = Settings(
        listen="127.0.0.1:0", http=f"127.0.0.1:{free_port()}", data=tmp_path / "data"
    )
    with running_service(settings) as addresses:
        with Client(addresses.grpc) as client:
            client.stream("s").add_cases(**CASES)
        page.goto(f"{addresses.http}/#/stream/s?window=all")
        expect(page.locator("#figure-counts")).to_have_text("6")
        expect(page.locator("#banner")).to_be_hidden()
        expect(page.locator("#pr-plot svg path").first).to_be_attached()
    banner = page.locator("#banner")
    expect(banner).to_contain_text("The connection to the server is lost")
    expect(banner).to_contain_text("Figures are from")
    expect(page.locator("#connection")).to_have_text("Connection lost")
    expect(page.locator("#figure-counts")).to_have_text("6")
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        expect(banner).to_be_hidden()
        expect(page.locator("#spoken")).to_have_text("The connection is back; figures are live.")
        client.stream("s").add_cases(**CASES)
        client.flush()
        expect(page.locator("#figure-counts")).to_have_text("12")
        page.goto("about:blank")


def test_charts_that_could_not_be_loaded_are_drawn_later(
    page: Page, complaints: list[str], served: Served, fresh: str
) -> None:
    """The server stops while the charts' library loads: the next figures draw the charts."""
    complaints += ["net::ERR_"]
    stopped: list[str] = []

    def stop_the_first(route: Route) -> None:
        if stopped:
            route.continue_()
        else:
            stopped.append(route.request.url)
            route.abort()

    page.route("**/echarts.esm.min.js*", stop_the_first)
    stream = opened(page, served, fresh)
    page.wait_for_function(
        "() => performance.getEntriesByType('resource').some(({name}) => name.includes('echarts'))"
    )
    assert stopped
    expect(page.locator("#pr-plot svg")).to_have_count(0)
    stream.add_cases(**CASES)
    stream.flush()
    expect(page.locator("#pr-plot svg path").first).to_be_attached()


def test_the_list_recovers(
    page: Page, complaints: list[str], tmp_path: Path, free_port: Callable[[], int]
) -> None:
    """Rows stay during an outage, and change after it."""
    complaints += ["net::ERR_", "503 (Service Unavailable)"]
    settings = Settings(
        listen="127.0.0.1:0", http=f"127.0.0.1:{free_port()}", data=tmp_path / "data"
    )
    rows = page.locator("table.streams tbody tr")
    with running_service(settings) as addresses:
        with Client(addresses.grpc) as client:
            client.stream("s").add_cases(**CASES)
        page.goto(f"{addresses.http}/")
        expect(rows).to_have_count(1)
        expect(page.locator("#connection")).to_have_text("Live")
    expect(page.locator("#banner")).to_be_visible()
    expect(rows).to_have_count(1)
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        client.stream("t").add_cases(**CASES)
        client.flush()
        expect(rows).to_have_count(2)
        expect(page.locator("#banner")).to_be_hidden()
        page.goto("about:blank")


def test_a_server_that_is_away_from_the_start(
    page: Page, complaints: list[str], served: Served
) -> None:
    """The page says that the server does not answer, and continues once it does."""
    complaints.append("net::ERR_")
    page.route("**/v1/**", lambda route: route.abort("connectionrefused"))
    for fragment in ("", "stream/churn/weekly", "compare?a=churn/weekly&b=fraud/v3"):
        page.goto("about:blank")
        page.goto(served.url(fragment))
        expect(page.locator("#away")).to_contain_text("The server does not answer")
    page.unroute("**/v1/**")
    expect(page.locator("#result-a")).to_be_visible()
    expect(page.locator("#away")).to_have_count(0)


def test_a_connection_that_falls_silent_is_made_again(
    page: Page, complaints: list[str], served: Served
) -> None:
    """A proxy may drop a connection silently: 25 s without a heartbeat end it."""
    complaints.append("net::ERR_")
    page.clock.install()
    page.goto(served.url("stream/churn/weekly?window=all"))
    expect(page.locator("#figure-counts")).to_have_text("400")
    with page.expect_request(lambda request: ":watch" in request.url):
        page.clock.pause_at(time.time() + 3600)  # an hour passes at once, without a heartbeat
        page.clock.resume()
    expect(page.locator("#connection")).to_have_text("Live")
    expect(page.locator("#banner")).to_be_hidden()
