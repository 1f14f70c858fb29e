"""Alarms of a running server: declared, raised, sent, acknowledged, still there after a restart."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
import urllib.request
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import grpc
import numpy as np
import pytest
from typer.testing import CliRunner

from streameval import InvalidInputError
from streameval.client import AlarmSettings, Client, InvalidRequestError, NotFoundError
from streameval.v1 import query_pb2, query_pb2_grpc, types_pb2
from streameval_server import Settings, SettingsError
from streameval_server._runtime.runtime import Runtime
from streameval_server.testing import running_service

from ..commands import app
from ..http_receiver import Receiver, receiver

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from streameval_server import Addresses

SECRET = "a secret of more than 24 bytes"
WAIT_S = 60.0


def columns(rng: np.random.Generator, size: int, *, good: bool) -> dict[str, object]:
    """Return cases that a model orders well, or in France not at all."""
    labels = rng.random(size) < 0.3
    french = rng.random(size) < 0.5
    distance = np.where(french & (not good), -3.0, 3.0)
    scores = 1 / (1 + np.exp(-(distance * labels + rng.normal(size=size) - 1)))
    return {
        "labels": labels,
        "scores": scores,
        "segments": {"country": np.where(french, "FR", "DE")},
    }


def declared(now: datetime, **changes: object) -> AlarmSettings:
    given = {
        "watches": {"auc_roc": 0.01, "precision": 0.02},
        "mean_time_to_false_alarm": timedelta(hours=1),
        "pane": timedelta(seconds=1),
        "reference": (now - timedelta(days=3), now - timedelta(days=1)),
    }
    return AlarmSettings(**{**given, **changes})


def filled(client: Client, now: datetime, name: str = "fraud/v1") -> None:
    """Create a stream with two good days."""
    client.create_stream(name, segment_keys=["country"], threshold=0.6, scale="probability")
    rng = np.random.default_rng(1)
    for hour in range(48):
        at = now - timedelta(days=3) + timedelta(hours=hour, minutes=30)
        client.stream(name).add_cases(**columns(rng, 60, good=True), at=at)
    client.flush()


def test_rows_that_are_sent_again_are_warned_of(tmp_path: Path) -> None:
    """In the status, on the command line and after a restart; not where each is sent once."""
    now, settings = datetime.now(UTC), Settings(listen="127.0.0.1:0", data=tmp_path)
    known = []
    for is_first in (True, False):
        with running_service(settings) as addresses, Client(addresses.grpc) as client:
            for name, times in (("again", 5), ("once", 1)):
                if is_first:
                    sent_again(client, now, name, times)
                ends = time.monotonic() + WAIT_S
                while (status := client.stream_alarms(name)) is None or status.waits_for:
                    assert time.monotonic() < ends, status
                    time.sleep(0.02)
                printed = command("alarms", "show", "--server", addresses.grpc, name)
                assert ("note: rows of one hour" in printed) == (times > 1)
                if times == 1:
                    assert not status.warnings
                    continue
                (warning,) = status.warnings
                assert "in several panes of 1m" in warning
                assert "cluster_key" in warning
                known.append(warning)
    assert known[0] == known[1]


def sent_again(client: Client, now: datetime, name: str, times: int) -> None:
    """Create a stream with two days of rows, each sent this often in ten minutes, and alarms."""
    client.create_stream(name, scale="probability")
    rng = np.random.default_rng(1)
    # The panes of the reference are hours, so the ten minutes are within one.
    start = np.datetime64((now - timedelta(days=3)).replace(tzinfo=None), "h")
    for hour in range(1, 48):
        rows = columns(rng, 60 // times, good=True)
        at = start + np.timedelta64(60 * hour, "m") + rng.integers(10, size=60).astype("m8[m]")
        client.stream(name).add_cases(
            labels=np.tile(rows["labels"], times), scores=np.tile(rows["scores"], times), at=at
        )
    client.flush()
    given = declared(now, watches={"auc_roc": 0.01}, pane=timedelta(minutes=1))
    client.update_stream(name, alarms=given)


def until_watching(client: Client, name: str):
    """Return the status of a stream that has frozen its reference."""
    ends = time.monotonic() + WAIT_S
    while time.monotonic() < ends:
        status = client.stream_alarms(name)
        if status is not None and status.state != "waiting":
            return status
        time.sleep(0.02)
    raise AssertionError(f"not watching in {WAIT_S} s: {status}")


def until_raised(client: Client, name: str = "fraud/v1"):
    """Send bad cases until an open alarm names a segment; return the stream's status."""
    rng, ends = np.random.default_rng(2), time.monotonic() + WAIT_S
    while time.monotonic() < ends:
        client.stream(name).add_cases(**columns(rng, 200, good=False))
        client.flush()
        status = client.stream_alarms(name)
        if status is not None and status.state == "firing" and status.alarms[0].segments:
            return status
        time.sleep(0.02)
    raise AssertionError(f"no alarm in {WAIT_S} s: {status}")


@contextmanager
def served(directory: Path, hook: Receiver) -> Iterator[tuple[Addresses, Client]]:
    secret = directory / "secret"
    secret.write_text(SECRET + "\n")
    settings = Settings(
        listen="127.0.0.1:0",
        data=directory / "data",
        webhook=f"{hook.url}/alarms?team=fraud",
        webhook_secret=secret,
    )
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        yield addresses, client


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as response:
        return response.read().decode()


def command(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_an_alarm_from_the_declaration_to_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every way to see it says the same; the receiver gets it once, and it stays acknowledged."""
    now = datetime.now(UTC)
    monkeypatch.setattr(Runtime, "changed_verdicts", lambda *_: [])
    with receiver() as hook:
        hook.answers = [(503, {}), (302, {"location": "http://127.0.0.1:1/"})]
        with served(tmp_path, hook) as (addresses, client):
            filled(client, now)
            given = declared(now)
            info = client.update_stream("fraud/v1", alarms=given)
            assert info.settings.alarms == given
            status = until_raised(client)
            assert status.reference == given.reference
            assert status.watching_since is not None
            assert set(status.evidence) == set(given.watches)
            alarm = status.alarms[0]
            assert alarm.direction == "fell"
            assert alarm.value.upper < alarm.reference
            assert alarm.since <= alarm.raised_at
            assert [each.segment for each in alarm.segments] == ["country=FR"]

            with grpc.insecure_channel(addresses.grpc) as channel:
                snapshot = query_pb2_grpc.QueryServiceStub(channel).GetSnapshot(
                    query_pb2.GetSnapshotRequest(selection=types_pb2.Selection(stream="fraud/v1"))
                )
                watched = next(
                    query_pb2_grpc.QueryServiceStub(channel).WatchSnapshot(
                        query_pb2.WatchSnapshotRequest(
                            selection=types_pb2.Selection(stream="fraud/v1")
                        )
                    )
                )
            assert watched.open_alarms[0].id == alarm.id
            # Another watch may have followed since.
            assert snapshot.snapshot.open_alarms >= sum(each.is_open for each in status.alarms)
            page = json.loads(fetched(f"{addresses.http}/v1/alarms?openOnly=true"))
            (listed,) = page["statuses"]
            assert (listed["state"], listed["stream"]) == ("ALARM_STATE_FIRING", "fraud/v1")
            assert listed["alarms"][0]["id"] == alarm.id
            metrics = fetched(f"{addresses.http}/metrics")
            series = f'streameval_alarm_firing{{stream="fraud/v1",watch="{alarm.watch}"}} 1.0'
            assert series in metrics
            assert 'streameval_alarm_waiting{stream="fraud/v1"} 0.0' in metrics
            shown = command("alarms", "list", "--server", addresses.grpc, "--open")
            assert f"alarm 1 ({alarm.watch})" in shown
            assert "country=FR" in shown

            sent = [hook.arrived.get(timeout=WAIT_S) for _ in range(3)]
            assert {each.headers["webhook-id"] for each in sent} == {alarm.id}
            last = sent[-1]
            assert last.path == "/alarms?team=fraud"
            content = f"{alarm.id}.{last.headers['webhook-timestamp']}.".encode() + last.body
            digest = hmac.new(SECRET.encode(), content, hashlib.sha256).digest()
            assert last.headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
            event = json.loads(last.body)
            assert event["type"] == "alarm.raised"
            assert event["data"]["id"] == alarm.id
            assert {each.body for each in sent} == {last.body}
            ends = time.monotonic() + WAIT_S
            while not client.stream_alarms("fraud/v1").alarms[0].delivered:
                assert time.monotonic() < ends

            closed = client.acknowledge_alarm("fraud/v1", 1)
            assert closed.acknowledged_at is not None
            assert client.acknowledge_alarm("fraud/v1", 1) == closed
            with pytest.raises(NotFoundError, match="has no alarm 99"):
                client.acknowledge_alarm("fraud/v1", 99)
            before = client.stream_alarms("fraud/v1")
            while before.state != "watching":
                assert time.monotonic() < ends
                for each in before.alarms:
                    client.acknowledge_alarm("fraud/v1", each.number)
                before = client.stream_alarms("fraud/v1")
        taken = {each.headers["webhook-id"] for each in hook.requests}
        num_requests = len(hook.requests)
        with served(tmp_path, hook) as (_, client):
            after = client.stream_alarms("fraud/v1")
            assert after.alarms == before.alarms
            assert set(after.evidence) == set(before.evidence)
            assert client.get_stream("fraud/v1").settings.alarms == given
            client.update_stream("fraud/v1", alarms=None)
            assert client.stream_alarms("fraud/v1") is None
            assert client.list_alarms() == []
        assert len(hook.requests) == num_requests
        assert alarm.id in taken


def test_what_cannot_be_declared() -> None:
    """Each is refused with the value and the way out, and changes nothing."""
    now = datetime.now(UTC)
    with running_service() as addresses, Client(addresses.grpc) as client:
        filled(client, now)
        long_ago = now - timedelta(days=20), now - timedelta(days=10)
        for changes, message in (
            ({"watches": {"auc_roc": 1.0}}, "tolerance must be at least 0 and below 1, got 1.0"),
            ({"watches": {"gini": 0.1}}, "watch must be of ranking, auc_roc, .*, got 'gini'"),
            ({"watches": {"placement": 0.1}}, "watch must be of .*, got 'placement'"),
            ({"watches": {}}, "watch names nothing"),
            ({"pane": timedelta(hours=2)}, "must be at least one pane of 2:00:00, got 1:00:00"),
            ({"pane": timedelta(milliseconds=5)}, "pane must be from 1 s to 3660 d, got 0.005 s"),
            ({"maturity": timedelta(seconds=49)}, "maturity must be at most 48 panes"),
            (
                {"mean_time_to_false_alarm": timedelta(days=366_001)},
                "mean_time_to_false_alarm must be from 1 s to 366000 d",
            ),
            ({"reference": long_ago}, "the reference has no rows"),
            (
                {"reference": (now - timedelta(days=3), now - timedelta(days=3, hours=-2))},
                "at least 30 are needed",
            ),
            ({"watches": {"auc_roc": 0.999}}, "no change of auc_roc could be seen"),
        ):
            with pytest.raises(InvalidRequestError, match=message) as caught:
                client.update_stream("fraud/v1", alarms=declared(now, **changes))
            assert [each.field for each in caught.value.violations] == ["stream.settings.alarms"], (
                changes
            )
        client.create_stream("plain")
        with pytest.raises(InvalidRequestError, match="threshold is needed to watch precision"):
            client.update_stream("plain", alarms=declared(now, reference=None))
        with pytest.raises(InvalidInputError, match="alarms must be AlarmSettings or None"):
            client.update_stream("plain", alarms={"auc_roc": 0.01})
        assert client.list_alarms() == []
        assert client.get_stream("fraud/v1").settings.alarms is None


def test_a_reference_that_waits_for_no_labels_is_kept_so() -> None:
    """Zero is not the default, which is the time that labels have; other types are refused."""
    with running_service() as addresses, Client(addresses.grpc) as client:
        client.create_stream("m/1")
        for wait in (timedelta(0), timedelta(hours=1), "90m", None):
            given = AlarmSettings(watches={"ranking": 0.1}, label_wait=wait)
            assert client.update_stream("m/1", alarms=given).settings.alarms == given
        for changes, message in (
            ({"label_wait": "1x"}, "label_wait '1x': use a span such as 90s, 15m, 1h or 7d"),
            ({"label_wait": 5}, "label_wait must be a timedelta, got 5; or a text such as 1h"),
            ({"label_wait": -timedelta(1)}, "label_wait must be positive"),
            ({"reference": 5}, r"reference must be \(start, end\), got 5"),
            ({"reference": (datetime.now(UTC),)}, r"reference must be \(start, end\)"),
        ):
            with pytest.raises(InvalidInputError, match=message):
                client.update_stream("m/1", alarms=AlarmSettings(watches={}, **changes))


def test_a_detector_that_waits() -> None:
    """It says what for; the command line declares, shows and stops it."""
    with running_service() as addresses, Client(addresses.grpc) as client:
        client.create_stream("m/1", threshold=0.5)
        arguments = (
            "m/1",
            "--server",
            addresses.grpc,
            "--watch",
            "auc_roc=0.01",
            "--watch",
            "recall=0.05",
        )
        twice = CliRunner().invoke(app, ("alarms", "declare", *arguments, "--watch", "recall=0.1"))
        assert (twice.exit_code, "names one thing twice" in twice.output) == (2, True)
        assert client.get_stream("m/1").settings.alarms is None
        many_years = "30000d"  # one a month in all of a thousand streams
        said = command("alarms", "declare", *arguments, "--mean-time", many_years)
        assert "waits for the end of its reference" in said
        for line in ("auc_roc (0.01), recall (0.05)", "in 30000d on average, in panes of 1m"):
            assert line in said
            assert line in command("alarms", "show", "--server", addresses.grpc, "m/1")
        status = client.stream_alarms("m/1")
        assert status.state == "waiting"
        start, end = status.reference
        assert end - start == timedelta(days=7)
        assert client.get_stream("m/1").settings.alarms.watches == {
            "auc_roc": 0.01,
            "recall": 0.05,
        }
        assert "m/1 is waiting" in command("alarms", "show", "--server", addresses.grpc, "m/1")
        listed = json.loads(command("alarms", "list", "--server", addresses.grpc, "--json"))
        assert [each["stream"] for each in listed] == ["m/1"]
        assert (
            command("alarms", "list", "--server", addresses.grpc, "--open") == "no alarm is open\n"
        )
        command("alarms", "stop", "--server", addresses.grpc, "m/1")
        assert client.stream_alarms("m/1") is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"webhook": "http://example.org/x"}, "must be https"),
        ({"webhook": "ftp://127.0.0.1/x"}, "must be https"),
        ({"webhook": "https://user:pass@example.org"}, "no user or password"),
        ({"webhook": "https:///x"}, "must be https://HOST"),
        ({"webhook": "https://example.org:99999/"}, "must be a URL"),
        ({"webhook": "https://example.org/a b"}, "no spaces"),
        ({"webhook": "https://exa mple.org/"}, "no spaces"),
        ({"webhook": "https://example.org/ä"}, "only ASCII after its host"),
        ({"webhook": "https://example.org/?team=ä"}, "only ASCII after its host"),
        ({"webhook_secret": None}, "need each other"),
    ],
)
def test_a_webhook_that_is_refused(
    tmp_path: Path, changes: dict[str, str | None], message: str
) -> None:
    given = {"webhook": "https://example.org/x", "webhook_secret": tmp_path / "secret"}
    Settings(listen="127.0.0.1:0", memory=True, **given)
    with pytest.raises(SettingsError, match=message):
        Settings(listen="127.0.0.1:0", memory=True, **{**given, **changes})


def test_a_secret_that_is_too_short(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("short")
    settings = Settings(
        listen="127.0.0.1:0",
        memory=True,
        webhook="https://example.org/x",
        webhook_secret=tmp_path / "secret",
    )
    with pytest.raises(SettingsError, match="at least 24 bytes, got 5"), running_service(settings):
        pass


def test_a_reference_that_depends_on_itself_over_hours_is_told(client: Client) -> None:
    """In the status and on the command line; one that does not has no warning."""
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    start, rng = now - timedelta(days=8), np.random.default_rng(5)
    for name, noise in (("slow/v1", 1.5), ("even/v1", 0.0)):
        client.create_stream(name, threshold=0.6, scale="probability")
        apart = 2.0  # a memory of ten hours: one of a day looks like a change, and is refused
        for hour in range(7 * 24):
            apart = 2 + 0.9 * (apart - 2) + 0.44 * noise * rng.normal()
            labels = rng.random(60) < 0.3
            scores = 1 / (1 + np.exp(1 - rng.normal(apart * labels)))
            at = start + timedelta(hours=hour, minutes=30)
            client.stream(name).add_cases(labels=labels, scores=scores, at=at)
        client.flush()
        declared = AlarmSettings(
            watches={"auc_roc": 0.01}, reference=(start, start + timedelta(days=7))
        )
        client.update_stream(name, alarms=declared)
    slow, even = until_watching(client, "slow/v1"), until_watching(client, "even/v1")
    assert even.warnings == ()
    told = slow.warnings[-1]  # rows of one hour depend on one another too
    assert "depend on one another over hours" in told
    assert "of batches of 24 hours" in told
    assert told in slow.to_dict()["warnings"]
