"""The webhook of alarms with receivers that refuse, hang, or answer byte by byte."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from streameval_server._service import alarm_webhook

from ..http_receiver import receiver
from .test_alarms import WAIT_S, declared, filled, served, until_raised

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for alarms, and send those again that were refused, ten times as often."""
    monkeypatch.setattr(alarm_webhook, "_PAUSE_S", 0.05)
    monkeypatch.setattr(alarm_webhook, "_MIN_RETRY_S", 0.1)


def stream_of(body: bytes) -> str:
    """Return the stream of the alarm that a request carries."""
    found: str = json.loads(body)["data"]["stream"]
    return found


def until(true: Callable[[], object], what: str) -> None:
    """Wait for a condition."""
    ends = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < ends, f"{what} in {WAIT_S} s"
        time.sleep(0.02)


def test_an_alarm_that_is_refused_delays_no_other(tmp_path: Path) -> None:
    """It is sent again and again; the next stream's alarm is taken meanwhile."""
    now = datetime.now(UTC)
    with receiver() as hook, served(tmp_path, hook) as (_, client):
        hook.status_of = lambda body: 422 if stream_of(body) == "a" else 200
        for name in ("a", "b"):
            filled(client, now, name)
            client.update_stream(name, alarms=declared(now))
            until_raised(client, name)
        until(lambda: client.stream_alarms("b").alarms[0].delivered, "the other one is taken")
        assert not any(each.delivered for each in client.stream_alarms("a").alarms)
        number = len(hook.requests)
        until(
            lambda: any(stream_of(each.body) == "a" for each in hook.requests[number:]),
            "another attempt",
        )


def test_a_body_of_an_id_never_differs(tmp_path: Path) -> None:
    """While its segments are named, it repeats and more is known, and after a restart."""
    now = datetime.now(UTC)
    with receiver() as hook:
        hook.status_of = lambda _: 503
        with served(tmp_path, hook) as (_, client):
            filled(client, now)
            client.update_stream("fraud/v1", alarms=declared(now))
            alarm = until_raised(client).alarms[0]
            assert alarm.segments
            until(lambda: hook.requests, "an attempt")
            number = len(hook.requests)
            until(lambda: len(hook.requests) > number + 1, "another attempt")
            while not client.stream_alarms("fraud/v1").alarms[0].repeats:
                until_raised(client)
            number = len(hook.requests)
            until(lambda: len(hook.requests) > number + 1, "an attempt of the alarm that repeats")
        number = len(hook.requests)
        hook.status_of = None
        with served(tmp_path, hook) as (_, client):
            until(
                lambda: client.stream_alarms("fraud/v1").alarms[0].delivered, "it is taken at last"
            )
        assert len(hook.requests) > number
    bodies = {each.body for each in hook.requests if each.headers["webhook-id"] == alarm.id}
    (body,) = bodies
    data = json.loads(body)["data"]
    assert data["id"] == alarm.id
    assert data.keys().isdisjoint({"segments", "repeats", "lastAt", "acknowledgedAt", "delivered"})
    assert data.keys() >= {"stream", "watch", "changed", "value", "since", "raisedAt"}


def test_a_stream_that_is_made_again_has_its_own_alarms(tmp_path: Path) -> None:
    """Alarm 1 of a deleted stream is not sent any more; that of the new one is, in its own name."""
    now = datetime.now(UTC)
    with receiver() as hook, served(tmp_path, hook) as (_, client):
        hook.status_of = lambda _: 500
        filled(client, now)
        client.update_stream("fraud/v1", alarms=declared(now))
        old = until_raised(client).alarms[0].id
        until(lambda: hook.requests, "an attempt")
        client.delete_stream("fraud/v1")
        filled(client, now)
        client.update_stream("fraud/v1", alarms=declared(now))
        new = until_raised(client).alarms[0]
        assert new.number == 1
        number = len(hook.requests)
        hook.status_of = None
        until(lambda: client.stream_alarms("fraud/v1").alarms[0].delivered, "it is taken")
        taken = [each.headers["webhook-id"] for each in hook.requests[number:]]
        assert new.id in taken
        assert old not in taken[1:]  # one attempt may have been under way


def test_an_alarm_that_is_acknowledged_is_not_sent_again(tmp_path: Path) -> None:
    """Also where the receiver has refused it before."""
    now = datetime.now(UTC)
    with receiver() as hook, served(tmp_path, hook) as (_, client):
        hook.status_of = lambda _: 503
        filled(client, now)
        client.update_stream("fraud/v1", alarms=declared(now, watches={"auc_roc": 0.01}))
        first = until_raised(client).alarms[0]
        until(lambda: hook.requests, "an attempt")
        client.acknowledge_alarm("fraud/v1", 1)
        second = until_raised(client).alarms[-1]
        assert second.number == 2
        number = len(hook.requests)
        hook.status_of = None
        until(lambda: client.stream_alarms("fraud/v1").alarms[-1].delivered, "the next is taken")
        taken = [each.headers["webhook-id"] for each in hook.requests[number:]]
        assert second.id in taken
        assert first.id not in taken[1:]
        assert not client.stream_alarms("fraud/v1").alarms[0].delivered


@contextmanager
def slow_receiver() -> Iterator[str]:
    """Answer the head of a response for ever, one byte at a time; yield the address."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nx: ")
                try:
                    while not ended.wait(0.02):
                        connection.sendall(b"x")
                except OSError:
                    return

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        finally:
            ended.set()
            thread.join()


def test_a_receiver_that_answers_byte_by_byte_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeout is of the whole request, not of each byte."""
    monkeypatch.setattr(alarm_webhook, "_TIMEOUT_S", 0.3)
    found: list[str | None] = []
    with slow_receiver() as url:
        sending = threading.Thread(target=lambda: found.append(alarm_webhook._post(url, b"{}", {})))
        sending.start()
        sending.join(WAIT_S)
        assert not sending.is_alive()
    assert found
    assert found[0] is not None
    assert found[0].startswith("127.0.0.1")


def test_a_host_that_no_name_server_can_be_asked_for_is_a_failed_attempt() -> None:
    """Not an error that ends the sender: the name is encoded only as it is looked up."""
    found = alarm_webhook._post(f"https://{'a' * 70}.example.org/", b"{}", {})
    assert found is not None
    assert "UnicodeError" in found


@pytest.mark.parametrize(
    ("owner", "name"), [(alarm_webhook, "signed"), (alarm_webhook.AlarmWebhook, "_waiting")]
)
def test_an_unexpected_failure_does_not_end_the_sender(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    owner: object,
    name: str,
) -> None:
    """Of one alarm, or of the look for them: it is logged, and the alarm is sent afterwards."""
    now, original, failures = datetime.now(UTC), getattr(owner, name), iter([KeyError("odd")])

    def failing(*arguments: object) -> object:
        for failure in failures:
            raise failure
        return original(*arguments)

    monkeypatch.setattr(alarm_webhook, "_RECORD_RETRY_S", 0.1)
    with receiver() as hook, served(tmp_path, hook) as (_, client):
        monkeypatch.setattr(owner, name, failing)
        filled(client, now)
        client.update_stream("fraud/v1", alarms=declared(now))
        until_raised(client)
        until(lambda: client.stream_alarms("fraud/v1").alarms[0].delivered, "the alarm is taken")
    assert "'odd'" in caplog.text
