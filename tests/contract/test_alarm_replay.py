"""Alarms that are declared over history: what is proposed, refused, and would have rung."""

from __future__ import annotations

import json
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval.client import AlarmSettings, Client, InvalidRequestError, PreconditionError
from streameval_server import Settings
from streameval_server.testing import running_service

from ..http_receiver import receiver
from .test_alarms import WAIT_S, command, served

if TYPE_CHECKING:
    from pathlib import Path

DAY = timedelta(days=1)
WATCH = {"auc_roc": 0.01}


def filled(client: Client, start: datetime, hours: range, name: str = "m/1", **changes: int):
    """Add cases of each hour; from hour `worse` on the model is worse in France."""
    rng = np.random.default_rng(hours.start)
    if not hours.start:
        client.create_stream(name, scale="probability", segment_keys=["country"])
    stream = client.stream(name)
    for hour in hours:
        labels, french = rng.random(80) < 0.3, rng.random(80) < 0.5
        is_worse = changes.get("worse", 10**6) <= hour < changes.get("until", 10**6)
        distance = np.where(french & is_worse, -1.0, 2.0)
        scores = 1 / (1 + np.exp(1 - 2 * rng.normal(distance * labels)))
        country = {"country": np.where(french, "FR", "DE")}
        at = start + timedelta(hours=hour, minutes=30)
        stream.add_cases(labels=labels, scores=scores, at=at, segments=country)
    client.flush()


def whole_day(days: int) -> datetime:
    now = datetime.now(UTC)
    return now.replace(hour=0, minute=0, second=0, microsecond=0) - days * DAY


def test_a_past_fall_would_have_rung(tmp_path: Path) -> None:
    """The first week is proposed; the alarm is past, is not open, and stays after a restart."""
    start = whole_day(12)
    settings = Settings(listen="127.0.0.1:0", data=tmp_path)
    fell = start + timedelta(hours=24 * 8 + 6)
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        filled(client, start, range(12 * 24), worse=24 * 8 + 6, until=24 * 10)
        client.update_stream("m/1", alarms=AlarmSettings(watches=WATCH))
        status = client.stream_alarms("m/1")
        assert status.state == "watching"
        assert status.reference == (start, start + 7 * DAY)
        (alarm,) = status.alarms
        assert alarm.is_past
        assert not alarm.is_open
        assert alarm.earliest <= fell <= alarm.latest
        assert fell < alarm.raised_at < fell + DAY
        assert [each.segment for each in alarm.segments] == ["country=FR"]
        assert client.list_alarms(open_only=True) == []
        shown = command("alarms", "show", "--server", addresses.grpc, "m/1")
        assert f"m/1: alarm 1 (auc_roc), would have rung {alarm.raised_at:%Y-%m-%d %H:%M}" in shown
        assert "acknowledged" not in shown
        with urllib.request.urlopen(f"{addresses.http}/v1/alarms?stream=m/1") as answer:
            listed = json.load(answer)["statuses"][0]["alarms"]
        assert [each["isPast"] for each in listed] == [True]
        with pytest.raises(
            PreconditionError, match=r"alarm 1 of stream m/1 is past: .* acknowledge"
        ):
            client.acknowledge_alarm("m/1", 1)
        # Declared again it is the same detector.
        client.update_stream("m/1", alarms=AlarmSettings(watches=WATCH))
        assert client.stream_alarms("m/1") == status
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        assert client.stream_alarms("m/1") == status


def test_a_fall_that_goes_on_rings_again(tmp_path: Path) -> None:
    """What comes after the declaration raises an alarm of its own, the only one that is sent."""
    start = whole_day(9)
    with receiver() as hook, served(tmp_path, hook) as (_, client):
        filled(client, start, range(9 * 24), worse=24 * 8)
        settings = AlarmSettings(
            watches=WATCH, pane=timedelta(seconds=1), mean_time_to_false_alarm=timedelta(hours=1)
        )
        client.update_stream("m/1", alarms=settings)
        (past,) = client.stream_alarms("m/1").alarms
        assert past.is_past
        hours = range(9 * 24, 9 * 24 + 1)
        while not (found := client.list_alarms(open_only=True)):
            now = datetime.now(UTC) - timedelta(hours=9 * 24, minutes=30)
            filled(client, now, hours, worse=0)
        (alarm,) = found[0].alarms
        assert not alarm.is_past
        assert alarm.number == 2
        sent = json.loads(hook.arrived.get(timeout=WAIT_S).body)
        assert sent["data"]["number"] == 2


def test_a_reference_with_a_change_in_it_is_refused() -> None:
    """With the dates and what to declare instead; nothing has changed then."""
    start = whole_day(21)
    with running_service() as addresses, Client(addresses.grpc) as client:
        filled(client, start, range(21 * 24), worse=24 * 10)
        mixed = AlarmSettings(watches=WATCH, reference=(start + 7 * DAY, start + 14 * DAY))
        fell = start + 10 * DAY
        message = (
            rf"alarms: the reference has a change in it \(.* fell by about 0\.\d+ between "
            rf"{fell - DAY:%Y-%m-%d} \d\d:00 and {fell + DAY:%Y-%m-}\d\d \d\d:00\): declare the "
            rf"alarms without a reference, and {start:%Y-%m-%d} 00:00 to "
            rf"{start + 7 * DAY:%Y-%m-%d} 00:00 is taken, or name a time without a change"
        )
        with pytest.raises(InvalidRequestError, match=message) as caught:
            client.update_stream("m/1", alarms=mixed)
        assert [each.field for each in caught.value.violations] == ["stream.settings.alarms"]
        assert client.stream_alarms("m/1") is None
        said = command(
            "alarms", "declare", "--server", addresses.grpc, "m/1", "--watch", "auc_roc=0.01"
        )
        assert (
            f"its reference is {start:%Y-%m-%d} 00:00 to {start + 7 * DAY:%Y-%m-%d} 00:00" in said
        )
        assert "alarm 1 (auc_roc), would have rung" in said
        early = f"{start:%Y-%m-%d}..{start + 7 * DAY:%Y-%m-%d}"
        late = f"{start + 11 * DAY:%Y-%m-%d}..{start + 18 * DAY:%Y-%m-%d}"
        arguments = (
            "alarms",
            "declare",
            "--server",
            addresses.grpc,
            "m/1",
            "--watch",
            "auc_roc=0.01",
        )
        assert "would have rung" in command(*arguments, "--reference", early)
        since = f"{start + 18 * DAY:%Y-%m-%d} 00:00"
        said = command(*arguments, "--reference", late)
        assert f"would not have rung since {since}, if labels had come in time" in said
