"""The verdict on a stream: every place says the same, to the digit, and it survives a restart."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from streameval.client import AccessError, Client, NotFoundError
from streameval.v1 import verdict_pb2
from streameval_server import Settings, create_token
from streameval_server._model.verdict_change import QUALITIES
from streameval_server._runtime import runtime
from streameval_server._web import metrics
from streameval_server.testing import running_service

from ..commands import CommandRunner, app, run
from ..http_receiver import Receiver, receiver
from .test_alarms import served

if TYPE_CHECKING:
    from pathlib import Path

    from streameval import Verdict
    from streameval_server.testing import Addresses

STREAM = "fraud/v3"
DAYS = 20
WAIT_S = 60.0


def fill(client: Client, start: datetime, *, falls_on: int | None) -> None:
    """Send `DAYS` days of cases; from one day on Italy's are in no order."""
    rng = np.random.default_rng(7)
    size = 48 * DAYS * 24
    hours = np.repeat(np.arange(DAYS * 24), 48)
    labels, is_italy = rng.random(size) < 0.3, rng.random(size) < 0.5
    has_fallen = is_italy & (hours >= 24 * (DAYS if falls_on is None else falls_on))
    scores = 1 / (1 + np.exp(-np.where(has_fallen, 0.0, 2.2) * labels - rng.normal(size=size)))
    seconds = hours * 3600 + np.tile(np.arange(48) * 75, DAYS * 24)
    times = np.datetime64(start.replace(tzinfo=None), "us") + seconds.astype("timedelta64[s]")
    client.stream(STREAM).add_cases(
        labels=labels,
        scores=scores,
        at=times,
        segments={"country": np.where(is_italy, "IT", "DE")},
    )
    client.flush()


def until(client: Client, quality: str, stream: str = STREAM) -> Verdict:
    """Wait until the verdict has a quality, stays, and is not about to be computed again.

    What is loaded settles for ten seconds; then steps are observed some at a time. The log has
    the quality within two seconds.
    """
    ends, looks = time.monotonic() + WAIT_S, [client.stream(stream).verdict()]
    while not (
        looks[-6:].count(looks[-1]) == 6
        and looks[-1].quality == quality == called(looks[-1])
        and looks[-1].valid_until > datetime.now(UTC) + timedelta(seconds=20)
    ):
        assert time.monotonic() < ends, str(looks[-1])
        time.sleep(0.25)
        looks.append(client.stream(stream).verdict())
    return looks[-1]


def called(verdict: Verdict) -> str:
    """Return what the log says that it is called."""
    return verdict.history[-1].quality if verdict.history else "immature"


def fetched(addresses: Addresses, path: str) -> Any:
    with urllib.request.urlopen(f"{addresses.http}{path}", timeout=20) as response:
        return response.read().decode()


def series(addresses: Addresses, name: str, **labels: str) -> float | None:
    """Return the value of one series of a scrape."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(fetched(addresses, "/metrics"))
        for sample in family.samples
    }.get((name, frozenset({**labels, "stream": STREAM}.items())))


def test_every_place_says_the_same_to_the_digit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """List, command, JSON, client and metrics; after a restart as before; until it is accepted."""
    monkeypatch.setattr(metrics, "_MAX_AGE_S", 0.0)  # each scrape collects for itself
    monkeypatch.setattr(metrics, "_MAX_WAIT_S", 20.0)
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    start = midnight - timedelta(days=DAYS)
    settings = Settings(listen="127.0.0.1:0", http="127.0.0.1:0", data=tmp_path / "data")
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        client.create_stream(STREAM, segment_keys=["country"], scale="probability")
        client.create_mark(STREAM, "v4 deployed", at=start + timedelta(days=12, minutes=5))
        fill(client, start, falls_on=12)
        found = until(client, "worse")
        assert found.base is not None
        assert found.base.start == start
        assert found.base.end == start + timedelta(days=7)
        assert found.since is not None
        assert found.since.earliest <= start + timedelta(days=12) <= found.since.latest
        assert found.since.annotations == ("v4 deployed",)
        assert found.figures[0].metric == "auc_pr"
        assert found.figures[0].difference.upper < 0
        assert [each.segment for each in found.because] == ["country=IT"]

        last = found.history[-1]
        # As it was known then: steps of a history are observed some at a time.
        assert abs(last.since - found.since.likeliest) <= timedelta(days=1)
        assert datetime.now(UTC) - last.called < timedelta(minutes=5)
        assert not last.is_accepted
        assert all(each.quality != "worse" for each in found.history[:-1])
        assert f"worse since {last.since:%Y-%m-%d %H:%M}" in str(found)

        plain = found.to_dict()
        assert (
            json.loads(run("verdict", "--server", addresses.grpc, STREAM, "--json").stdout) == plain
        )
        assert (
            run("verdict", "--server", addresses.grpc, STREAM).stdout.split() == str(found).split()
        )
        size = re.match(
            r"fell (0\.\d{2,4}) · since [A-Z][a-z]{2} \d+ · country=IT$", found.happened
        )
        numbers = re.match(r"AUC-PR fell from (0\.\d+) to (0\.\d+) since ", found.sentence)
        assert Decimal(numbers[1]) - Decimal(numbers[2]) == Decimal(size[1])
        table = (
            CommandRunner(env={"COLUMNS": "160"})
            .invoke(app, ["top", "--server", addresses.grpc])
            .stdout
        )
        assert f" worse: {found.happened} " in table
        assert f" {found.figures[0].difference.estimate:+.3f} " in table
        assert "1 stream, 1 worse. " in table
        (listed,) = client.list_summaries()
        assert listed.verdict is not None
        # A list keeps the verdict that it has read for as long as it says the same.
        assert listed.verdict.to_dict() == {
            **plain,
            "at": listed.verdict.to_dict()["at"],
            "valid_until": listed.verdict.to_dict()["valid_until"],
        }
        answer = json.loads(fetched(addresses, f"/v1/streams/{STREAM}:verdict"))["verdict"]
        assert answer["sentence"] == found.sentence
        assert answer["happened"] == found.happened
        assert answer["history"][-1]["quality"] == "VERDICT_QUALITY_WORSE"
        assert datetime.fromisoformat(answer["history"][-1]["since"]) == last.since
        headline = answer["figures"][0]
        for name, interval in (
            ("before", found.figures[0].before),
            ("now", found.figures[0].now),
            ("difference", found.figures[0].difference),
        ):
            shown = tuple(headline[name][each] for each in ("estimate", "lower", "upper"))
            assert shown == (interval.estimate, interval.lower, interval.upper)
        assert series(addresses, "streameval_verdict", quality="worse") == 1
        assert series(addresses, "streameval_verdict", quality="steady") == 0
        since = series(addresses, "streameval_verdict_since_timestamp_seconds")
        assert since == found.since.likeliest.timestamp()
        difference = found.figures[0].difference
        for suffix, value in (
            ("", difference.estimate),
            ("_lower", difference.lower),
            ("_upper", difference.upper),
        ):
            assert series(addresses, f"streameval_verdict_difference{suffix}") == value

    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        again = client.stream(STREAM).verdict()
        same = {**again.to_dict(), "at": plain["at"], "valid_until": plain["valid_until"]}
        assert same == plain
        accepted = client.accept_normal(STREAM)
        assert accepted.quality == "immature"
        assert accepted.base is None or accepted.base.is_declared
        assert accepted.history[:-1] == found.history
        assert accepted.history[-1].is_accepted
        latest = found.since.latest.replace(second=0, microsecond=0)
        assert accepted.history[-1].since == latest


def test_a_new_stream_has_a_verdict_and_none_has_none(tmp_path: Path) -> None:
    """It says what it waits for; `admin` is needed to accept, `query` to read."""
    tokens = tmp_path / "tokens"
    reader = create_token(tokens, "reader", ("query",))
    admin = create_token(tokens, "admin", ("query", "admin"))
    settings = Settings(listen="127.0.0.1:0", data=tmp_path / "data", tokens=tokens)
    with running_service(settings) as addresses:
        with Client(addresses.grpc, token=admin) as client:
            client.create_stream(STREAM)
        with Client(addresses.grpc, token=reader) as client:
            found = client.stream(STREAM).verdict()
            assert found.quality == "immature"
            assert "no rows" in found.sentence
            assert found.base is None
            with pytest.raises(NotFoundError):
                client.stream("no/such").verdict()
            with pytest.raises(AccessError):
                client.accept_normal(STREAM)


def next_event(hook: Receiver) -> dict[str, Any]:
    """Return the next event that a receiver gets."""
    told = hook.arrived.get(timeout=WAIT_S)
    assert told.headers["webhook-signature"].startswith("v1,")
    event: dict[str, Any] = json.loads(told.body)
    assert event["type"] == "verdict.changed"
    assert event["data"]["stream"] == STREAM
    return event["data"]


def test_a_webhook_is_told_when_the_quality_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what it was told before, no more than once an hour; a restart repeats nothing."""
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    with receiver() as hook:
        with served(tmp_path, hook) as (_, client):
            client.create_stream(STREAM, segment_keys=["country"], scale="probability")
            fill(client, midnight - timedelta(days=DAYS), falls_on=12)
            first = next_event(hook)
            assert first["previous"] == "immature"
            until(client, "worse")
        monkeypatch.setattr(runtime, "_TOLD_US", 0)
        with served(tmp_path, hook) as (_, client):
            if first["quality"] != "VERDICT_QUALITY_WORSE":  # it was told before the fall
                second = next_event(hook)
                assert second["previous"] == QUALITIES[quality_of(first)]
                assert second["quality"] == "VERDICT_QUALITY_WORSE"
            monkeypatch.setattr(runtime, "_TOLD_US", 3_600_000_000)
            client.accept_normal(STREAM)
            until(client, "immature")
            ends = time.monotonic() + WAIT_S
            while client.list_summaries()[0].verdict.quality != "immature":
                assert time.monotonic() < ends
            assert hook.arrived.empty()
            monkeypatch.setattr(runtime, "_TOLD_US", 0)
            last = next_event(hook)
            assert (last["previous"], last["quality"]) == ("worse", "VERDICT_QUALITY_IMMATURE")


def quality_of(data: dict[str, Any]) -> int:
    return verdict_pb2.VerdictQuality.Value(data["quality"])
