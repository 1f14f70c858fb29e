"""Server-sent events: the first at once, then the newest only; the end; the server's stop."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from streameval_server import Settings, create_token
from streameval_server._web import events as events_module
from streameval_server.testing import running_service

from .conftest import Event, Site, events, reason, site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WATCH = "/v1/streams/{}:watch"


def only(stream: Iterator[Event | str]) -> Iterator[Event]:
    """Yield events without comments."""
    return (each for each in stream if isinstance(each, Event))


def positives(event: Event) -> int:
    """Return how many positives a snapshot has."""
    return int(event.data["snapshot"]["numPositiveRef"])


def test_at_once_and_whenever_it_moves(served: Site) -> None:
    """The first event comes without a change; each has its revision."""
    first = served.show("sse/a", "+-")
    wait = {"selection.minRevision": first, "metrics": "auc_pr"}
    with served.http.stream("GET", WATCH.format("sse/a"), params=wait) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        coming = only(events(answer))
        event = next(coming)
        assert (event.name, event.id, positives(event)) == ("snapshot", str(first), 1)
        assert [metric["name"] for metric in event.data["snapshot"]["metrics"]] == ["auc_pr"]
        served.push("sse/other", "+")
        second = served.push("sse/a", "+-")
        event = next(coming)
        assert (event.id, positives(event)) == (str(second), 2)


def test_no_more_than_five_a_second(served: Site) -> None:
    """Changes in between are in the next event."""
    served.show("sse/b", "+")
    with served.http.stream("GET", WATCH.format("sse/b")) as answer:
        coming = only(events(answer))
        seen = [positives(next(coming))]
        begun = time.monotonic()
        while len(seen) < 4:
            for _ in range(3):
                last = served.push("sse/b", "+")
            event = next(coming)
            seen.append(positives(event))
        took = time.monotonic() - begun
    assert took >= 0.5
    assert seen == sorted(seen)
    assert last > 0


def test_a_slow_reader_gets_the_newest(served: Site) -> None:
    """Answers that it did not read in time are not computed: there is no queue of old ones."""
    served.show("sse/slow", "+")
    url = served.http.base_url
    with socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect((url.host, url.port))
        path = WATCH.format("sse/slow")
        raw.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        with served.http.stream("GET", path) as answer:
            quick = only(events(answer))
            next(quick)
            for _ in range(5):
                served.push("sse/slow", "+")
                next(quick)
        raw.settimeout(20)
        text = b""
        while b'"numPositiveRef": "6"' not in text:
            text += raw.recv(65536)
        assert text.count(b"event: snapshot") <= 6


def test_many_streams(served: Site) -> None:
    """All of them first, then those that changed, and those deleted."""
    served.show("sse/m1", "+-")
    served.show("sse/m2", "++-")
    names = {"streams": ["sse/m1", "sse/m2", "sse/m3"], "metrics": "auc_pr"}
    with served.http.stream("GET", "/v1/streams:watch", params=names) as answer:
        coming = only(events(answer))
        event = next(coming)
        told = {each["snapshot"]["stream"] for each in event.data["snapshots"]}
        assert (event.name, told) == ("snapshots", {"sse/m1", "sse/m2"})
        assert event.data["missing"] == ["sse/m3"]
        revision = served.push("sse/m2", "+")
        event = next(coming)
        (moved,) = event.data["snapshots"]
        assert (moved["snapshot"]["stream"], moved["snapshot"]["numPositiveRef"]) == ("sse/m2", "3")
        assert int(event.id) >= revision
        served.http.delete("/v1/streams/sse/m1")
        assert next(coming).data["missing"] == ["sse/m1"]


def test_a_silent_stream_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comments show a client that the server is alive."""
    monkeypatch.setattr(events_module, "HEARTBEAT_S", 0.05)
    with site() as one:
        one.show("a", "+")
        with one.http.stream("GET", WATCH.format("a")) as answer:
            coming = events(answer)
            assert isinstance(next(coming), Event)
            assert [next(coming) for _ in range(3)] == [": ", ": ", ": "]


def test_what_cannot_begin_is_an_ordinary_refusal(served: Site) -> None:
    """An unknown stream or a wrong request gets an error response instead of events."""
    answer = served.http.get(WATCH.format("no/such"))
    assert (answer.status_code, reason(answer)) == (404, "NO_STREAM")
    wrong = {"minInterval": "-1s"}
    served.show("sse/c", "+")
    answer = served.http.get(WATCH.format("sse/c"), params=wrong)
    assert answer.status_code == 400
    assert answer.json()["message"].startswith("min_interval must not be negative")


def test_it_ends_with_the_stream(served: Site) -> None:
    """The last event says why."""
    served.show("sse/d", "+")
    with served.http.stream("GET", WATCH.format("sse/d")) as answer:
        coming = only(events(answer))
        next(coming)
        served.http.delete("/v1/streams/sse/d")
        last = next(coming)
        assert (last.name, last.data["code"]) == ("error", 5)
        assert not list(coming)


def test_it_ends_with_the_token(tmp_path: Path) -> None:
    """A revoked token ends its open responses too."""
    path = tmp_path / "tokens.toml"
    token = create_token(path, "web", ["query", "ingest"])
    settings = Settings(listen="127.0.0.1:0", memory=True, tokens=path)
    headers = {"authorization": f"Bearer {token}"}
    with site(settings, headers=headers) as one:
        one.show("a", "+")
        with one.http.stream("GET", WATCH.format("a")) as answer:
            coming = only(events(answer))
            next(coming)
            other = create_token(tmp_path / "others.toml", "other", ["ingest"])
            path.write_text((tmp_path / "others.toml").read_text())
            deadline = time.monotonic() + 20
            push = {"batch": {"cases": {"scores": [0.5], "positives": [True]}}}
            sender = {"authorization": f"Bearer {other}"}
            while True:  # until the file has been read again
                sent = httpx.post(
                    f"{one.addresses.http}/v1/streams/a:ingest", json=push, headers=sender
                )
                if sent.status_code == 200:
                    break
                assert time.monotonic() < deadline
            last = next(coming)
            assert (last.name, last.data["code"]) == ("error", 16)
            assert not list(coming)


def test_a_stop_ends_it_and_a_new_server_resumes() -> None:
    """UNAVAILABLE with a delay, at once; a client that reconnects gets the newest first."""
    begun = time.monotonic()
    with running_service() as addresses:
        http = httpx.Client(base_url=addresses.http, timeout=20)
        one = Site(addresses, http, None)
        one.show("a", "+")
        stream = http.stream("GET", WATCH.format("a"))
        answer = stream.__enter__()
        coming = only(events(answer))
        assert positives(next(coming)) == 1
        begun = time.monotonic()
    took = time.monotonic() - begun
    last = next(coming)
    assert (last.name, last.data["code"]) == ("error", 14)
    (retry,) = (each for each in last.data["details"] if "retryDelay" in each)
    assert retry["retryDelay"] == "1s"
    assert not list(coming)
    stream.__exit__(None, None, None)
    http.close()
    assert took < 5


def test_readers_that_leave_hold_nothing() -> None:
    """A stop does not wait for connections that were cut."""
    with running_service() as addresses:
        with httpx.Client(base_url=addresses.http, timeout=20) as http:
            Site(addresses, http, None).show("a", "+")
            for _ in range(5):
                with http.stream("GET", WATCH.format("a")) as answer:
                    next(events(answer))
        begun = time.monotonic()
    assert time.monotonic() - begun < 5
