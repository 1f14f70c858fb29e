"""What loads has a shape; what fails is called what it is, and is tried again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import httpx
import pytest

from .conftest import STREAM, Served, expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page, Route

VIEWS = ("", f"stream/{STREAM}", f"compare?a={STREAM}&b=fraud/v4")


def failing(status: int, message: str) -> Callable[[Route], None]:
    """Return a handler that answers as the server does when it fails."""
    body = json.dumps({"code": 13, "message": message, "details": []})
    headers = {"content-type": "application/json", "x-request-id": "r-4711"}
    return lambda route: route.fulfill(status=status, body=body, headers=headers)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (500, ("The server failed with status 500", "under the request ID r-4711")),
        (503, ("The server is not ready", "It starts, stops, or waits for its disk")),
        (504, ("The answer took the server too long", "Choose a shorter window")),
        (429, ("The server has too much to do", "or raise its limits")),
    ],
)
def test_an_answer_that_is_a_failure(
    page: Page, complaints: list[str], served: Served, status: int, words: tuple[str, str]
) -> None:
    """It is not said as no answer; its message and what to do are shown, and the figures come."""
    title, advice = words
    complaints.append(f"status of {status}")
    for fragment in VIEWS:
        page.route("**/v1/**", failing(status, "no room for the sums"))
        page.goto("about:blank")
        page.goto(served.url(fragment))
        away = page.locator("#away")
        expect(away.locator("h2")).to_have_text(title)
        expect(away).to_contain_text("No room for the sums.")
        expect(away).to_contain_text(advice)
        expect(page.locator("#banner")).to_contain_text(title)
        expect(page.locator("#connection")).to_have_text("Server fails")
        assert "does not answer" not in page.locator("body").inner_text()
        page.unroute("**/v1/**")
        expect(away).to_have_count(0)
        expect(page.locator("#banner")).to_be_hidden()
        expect(page.locator("#connection")).to_have_text("Live")


def test_a_proxys_answer_is_not_the_servers(
    page: Page, complaints: list[str], served: Served
) -> None:
    """A page of HTML has no request ID of the server."""
    complaints.append("502 (Bad Gateway)")
    page.route("**/v1/**", lambda route: route.fulfill(status=502, body="<h1>Bad gateway</h1>"))
    page.goto(served.url(VIEWS[1]))
    expect(page.locator("#away h2")).to_have_text("A proxy before the server answered 502")
    expect(page.locator("#away")).to_contain_text("whether it reaches the server")


def test_no_answer_is_said_once(page: Page, complaints: list[str], served: Served) -> None:
    """The title says it, the text what to do."""
    complaints.append("net::ERR_FAILED")
    page.route("**/v1/**", lambda route: route.abort())
    for fragment in VIEWS:
        page.goto("about:blank")
        page.goto(served.url(fragment))
        away = page.locator("#away")
        expect(away.locator("h2")).to_have_text("The server does not answer")
        expect(away.locator("p").first).to_have_text(
            "Check that it runs, and that this address reaches it."
        )


def test_a_card_that_fails_says_so_and_the_others_stay(
    page: Page, complaints: list[str], served: Served
) -> None:
    """The figures stay; the card is tried again without another row."""
    complaints.append("500 (Internal Server Error)")
    page.route("**/*:rank?*", failing(500, "the ranking broke"))
    page.goto(served.url(f"stream/{STREAM}"))
    failed = page.locator("#segments .failed-part")
    expect(failed).to_contain_text("The server failed with status 500: The ranking broke.")
    expect(page.locator("#figure-auc_pr")).to_be_visible()
    expect(page.locator(".failed-part")).to_have_count(1)
    page.unroute("**/*:rank?*")
    expect(failed).to_have_count(0)
    expect(page.locator("#segments table").first).to_be_visible()


def first_event(url: str) -> str:
    """Return the first answer of a watch."""
    with httpx.stream("GET", url, headers={"accept": "text/event-stream"}) as answer:
        return next(each for each in answer.iter_text() if "data:" in each)


def test_figures_stay_with_their_time_while_the_server_fails(
    page: Page, complaints: list[str], served: Served
) -> None:
    """The banner says what is the case: the server answers."""
    complaints.append("500 (Internal Server Error)")
    sent: list[str] = []

    def once(route: Route) -> None:
        sent.append(route.request.url)
        if len(sent) > 1:
            failing(500, "the engine stopped")(route)
        else:
            first = first_event(route.request.url)
            route.fulfill(body=first, headers={"content-type": "text/event-stream"})

    page.route("**/*:watch?*", once)
    page.goto(served.url(f"stream/{STREAM}"))
    banner = page.locator("#banner")
    expect(banner).to_contain_text("The server failed with status 500. Figures are from")
    expect(banner).not_to_contain_text("connection")
    expect(page.locator("#figure-counts")).to_be_visible()


@pytest.mark.parametrize("fragment", VIEWS)
def test_what_loads_has_a_shape(page: Page, served: Served, fragment: str) -> None:
    """Until the first answer, which takes its place."""
    held: list[Route] = []
    answers: list[bool] = []

    def hold(route: Route) -> None:
        if answers:
            route.continue_()
        else:
            held.append(route)

    page.route("**/v1/**", hold)
    page.goto(served.url(fragment))
    skeleton = page.locator(".skeleton")
    expect(skeleton).to_be_visible()
    assert skeleton.get_attribute("aria-label") == "Loading"
    answers.append(True)
    for route in held:
        route.continue_()
    expect(skeleton).to_have_count(0)
