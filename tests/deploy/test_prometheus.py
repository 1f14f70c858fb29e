"""A real Prometheus scrapes a server over TLS and with a token, during a drift."""

from __future__ import annotations

import heapq
import json
import ssl
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import httpx
import numpy as np
import pytest
import trustme
import yaml

from streameval.client import AlarmSettings, Client
from streameval_server import Settings, create_token
from streameval_server._web import metrics
from streameval_server.testing import running_service

from ..alarm_history import write_quiet_month
from ..http_receiver import receiver
from .monitoring import dashboard_expressions, every_rule, example, selectors
from .prometheus import WITHIN_S, Watched, running_alertmanager, running_prometheus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.heavy

STREAM = "fraud/online"
PAIR = ("pair/old", "pair/new")
QUIET = [f"quiet/{number}" for number in range(4)]
QUIET_MEAN_DAYS = 10
STEP = timedelta(minutes=5)
ROWS_PER_STEP = 500


def hours_of_payments(client: Client, hours: int) -> None:
    """Stream hours of payments up to now, declare alarms, then drift until one rings.

    A server's detector observes rows on the server's clock, so those after the drift come in
    steps of some tenths of a second, not of five minutes.
    """
    random = np.random.default_rng(2)
    client.create_stream(STREAM)
    stream = client.stream(STREAM)
    begin = datetime.now(UTC) - timedelta(hours=hours)
    waiting: list[tuple[datetime, str, bool]] = []

    def send(number: int, at: datetime | None, distance: float) -> None:
        now = begin + number * STEP
        labels = random.random(ROWS_PER_STEP) < 0.02
        ids = [f"payment-{number}-{row}" for row in range(labels.size)]
        stream.log_cases(ids=ids, scores=random.normal(distance * labels), at=at)
        for id_, label, minutes in zip(ids, labels, random.gamma(2, 6, labels.size), strict=True):
            heapq.heappush(waiting, (now + timedelta(minutes=minutes), id_, bool(label)))
        arrived = []
        while waiting and waiting[0][0] <= now + STEP:
            arrived.append(heapq.heappop(waiting))
        if arrived:
            known = [label for _, _, label in arrived]
            stream.label_cases(ids=[id_ for _, id_, _ in arrived], labels=known)
        stream.flush()

    steps = hours * (timedelta(hours=1) // STEP)
    for number in range(steps):
        send(number, begin + number * STEP, 3.0)
    settings = AlarmSettings(
        watches={"auc_roc": 0.02},
        pane=timedelta(seconds=1),
        reference=(begin, datetime.now(UTC)),
        label_wait=timedelta(0),
    )
    client.update_stream(STREAM, alarms=settings)
    ends = time.monotonic() + 2 * WITHIN_S
    while client.stream_alarms(STREAM).state != "firing":
        assert time.monotonic() < ends, client.stream_alarms(STREAM)
        send(steps, None, 1.0)
        steps += 1


def calibrated_cases(client: Client) -> None:
    """Send cases of a stream on the probability scale, which has figures of calibration."""
    client.create_stream("rated", scale="probability")
    rng = np.random.default_rng(3)
    scores = rng.random(1_000)
    client.stream("rated").add_cases(labels=rng.random(1_000) < scores, scores=scores)
    client.flush()


def pair_of_models(client: Client) -> None:
    """Send two models' scores of the same ids, with labels that tell which one is better."""
    for name in PAIR:
        client.create_stream(name)
    client.create_pair(*PAIR, name="rollout")
    rng = np.random.default_rng(4)
    labels = rng.random(4_000) < 0.2
    ids = [f"order-{number}" for number in range(labels.size)]
    common = rng.normal(1.5 * labels)
    for name, noise in zip(PAIR, (1.5, 0.3), strict=True):
        stream = client.stream(name)
        stream.log_cases(ids=ids, scores=common + rng.normal(0, noise, labels.size))
    client.stream(PAIR[0]).label_cases(ids=ids, labels=labels)
    client.flush()


def until_decided(client: Client) -> None:
    """Wait for the pair's first look: at the end of a minute of the server's clock."""
    ends = time.monotonic() + 2 * WITHIN_S
    while client.compare_pair("rollout").decided_since is None:
        assert time.monotonic() < ends, client.compare_pair("rollout")
        time.sleep(0.2)


@pytest.fixture(scope="module")
def watched(
    tmp_path_factory: pytest.TempPathFactory, require_command: Callable[[str], str]
) -> Iterator[Watched]:
    """Return a server after a drift, and a Prometheus that has scraped it.

    It has streams of a month, too, in which nothing has changed, and a pair that is decided.
    """
    prometheus = require_command("prometheus")
    alertmanager = require_command("prometheus-alertmanager")
    path = tmp_path_factory.mktemp("prometheus")
    ca = trustme.CA()
    leaf = ca.issue_cert("localhost", "127.0.0.1")
    leaf.private_key_pem.write_to_path(path / "server.key")
    leaf.cert_chain_pems[0].write_to_path(path / "server.pem")
    ca.cert_pem.write_to_path(path / "ca.pem")
    tokens = path / "tokens.toml"
    (path / "prometheus.token").write_text(create_token(tokens, "prometheus", ["query"]))
    token = create_token(tokens, "demo", ["ingest", "query", "admin"])
    write_quiet_month(path / "data", QUIET, mean_days=QUIET_MEAN_DAYS)
    settings = Settings(
        listen="127.0.0.1:0",
        data=path / "data",
        tls_certificate=path / "server.pem",
        tls_key=path / "server.key",
        tokens=tokens,
    )
    with (
        pytest.MonkeyPatch.context() as patched,
        running_service(settings) as addresses,
        Client(addresses.grpc, token=token, root_certificates=path / "ca.pem") as client,
    ):
        patched.setattr(metrics, "_MAX_AGE_S", 0.9)  # as running_prometheus scrapes
        pair_of_models(client)
        hours_of_payments(client, 6)
        calibrated_cases(client)
        until_decided(client)
        with (
            receiver() as team,
            running_alertmanager(alertmanager, path, team) as alerts,
            running_prometheus(prometheus, path, addresses, alerts) as url,
        ):
            one = Watched(
                addresses,
                url,
                team,
                {"authorization": f"Bearer {token}"},
                ssl.create_default_context(cafile=path / "ca.pem"),
            )
            # Rows arrive in another stream during the scrapes.
            stream, number = client.stream("live"), 0

            def scraped() -> bool:
                nonlocal number
                number += 1
                stream.log(f"live-{number}", float(np.sin(number)))
                stream.label(f"live-{number}", number % 50 == 0)
                stream.flush()
                calls = "rate(grpc_server_handled_total[1m])"
                return len(one.query(calls)) > 0 and len(one.query("streameval_auc_pr")) > 0

            one.until(scraped, "two scrapes")
            yield one


def test_it_scrapes_over_tls_with_its_token(watched: Watched) -> None:
    """The target is up, and its metrics are the server's."""
    targets = httpx.get(f"{watched.url}/api/v1/targets", timeout=20).json()["data"]
    (target,) = targets["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
    assert target["scrapeUrl"].startswith("https://")
    (found,) = watched.query(f'streameval_auc_pr{{stream="{STREAM}", window="all"}}')
    assert 0 < float(found["value"][1]) < 1


def test_every_expression_of_the_dashboard_returns_data(watched: Watched) -> None:
    """No panel is empty for a server in use."""
    missing = set(dashboard_expressions())

    def all_there() -> bool:
        for expression in sorted(missing):
            if watched.query(expression):
                missing.discard(expression)
        return not missing

    watched.until(all_there, f"data for {missing}")


def test_every_selector_of_the_rules_returns_data(watched: Watched) -> None:
    """No rule has a selector without a series."""
    asked = {selector for rule in every_rule() for selector in selectors(rule["expr"])}
    (group,) = yaml.safe_load(example("streameval-settings"))["groups"]
    (floor,) = group["rules"]
    # Without the example in use no stream has a floor.
    asked.remove(floor["record"])
    asked |= set(selectors(floor["expr"].replace("fraud/v3", STREAM)))
    assert len(asked) > 20
    # A working server has no such calls; other calls have the same labels.
    missing = {selector.replace('code="Internal"', 'code="OK"') for selector in asked}

    def all_there() -> bool:
        for selector in sorted(missing):
            if watched.query(selector):
                missing.discard(selector)
        return not missing

    watched.until(all_there, f"data for {missing}")


def test_a_pair_has_its_series_and_the_alert_that_it_is_decided(watched: Watched) -> None:
    """They are the server's own comparison; the better model is named by the sign."""
    watched.until(lambda: "StreamevalPairDecided" in watched.firing(), "the alert")
    (alert,) = watched.firing()["StreamevalPairDecided"]
    assert (alert["pair"], alert["a"], alert["b"]) == ("rollout", *PAIR)
    answer = httpx.get(
        f"{watched.addresses.http}/v1/pairs/rollout:compare",
        params={"metric": "auc_pr"},
        headers=watched.headers,
        verify=watched.verify,
    ).json()["comparison"]
    of_pair = f'pair="rollout", a="{PAIR[0]}", b="{PAIR[1]}"'

    def value(name: str, labels: str = 'metric="auc_pr"') -> float:
        (found,) = watched.query(f"streameval_pair_{name}{{{of_pair}, {labels}}}")
        return float(found["value"][1])

    difference = [value(f"auc_pr_difference{suffix}", "") for suffix in ("", "_lower", "_upper")]
    of_limits = answer["anytime"]
    assert difference == pytest.approx(
        [answer["compared"]["difference"]["value"], of_limits["lower"], of_limits["upper"]]
    )
    assert difference[1] < difference[2] < 0
    assert value("evidence") == 1
    since = datetime.fromisoformat(answer["decidedSince"]).timestamp()
    assert value("decided_timestamp_seconds") == pytest.approx(since)
    assert value("shared_ids", "") == 4_000
    assert value("shared_share", "") == 1
    labelled = [value("labelled_ids", f'class="{name}"') for name in ("positive", "negative")]
    assert sum(labelled) == 4_000
    assert not watched.query(f"streameval_pair_refused{{{of_pair}}}")
    assert float(watched.query("streameval_pairs_left_out")[0]["value"][1]) == 0


def test_the_drift_raises_the_alert(watched: Watched) -> None:
    """The detector's; no other alert fires of the stream, and every rule is well."""
    watched.until(lambda: "StreamevalAlarm" in watched.firing(), "the alert")
    of_stream = {
        name: alert
        for name, alerts in watched.firing().items()
        for alert in alerts
        if alert.get("stream") == STREAM
    }
    assert of_stream.keys() == {"StreamevalAlarm"}
    assert of_stream["StreamevalAlarm"]["watch"] == "auc_roc"
    (evidence,) = watched.query(f'streameval_alarm_evidence{{stream="{STREAM}"}}')
    assert 0 <= float(evidence["value"][1]) <= 1
    errors = httpx.get(f"{watched.url}/api/v1/rules", timeout=20).json()["data"]["groups"]
    for group in errors:
        for rule in group["rules"]:
            assert rule["health"] == "ok", rule


def test_the_drift_arrives_at_the_receiver_once(watched: Watched) -> None:
    """Alertmanager gets it every second and has sent one message after ten of them."""
    watched.until(lambda: watched.messages(STREAM), "a message")
    begin = watched.sent()
    watched.until(lambda: watched.sent() >= begin + 10, "ten more alerts at Alertmanager")
    (message,) = watched.messages(STREAM)
    (alert,) = message["alerts"]
    assert message["receiver"] == "team"
    assert alert["labels"]["alertname"] == "StreamevalAlarm"
    assert alert["annotations"]["summary"] == f"{STREAM}: auc_roc is worse than its reference"


@pytest.mark.nightly
def test_a_month_without_drift_arrives_at_most_at_the_stated_rate(watched: Watched) -> None:
    """Of streams whose detectors all watch: alarms, repeats included, and messages of them."""
    waiting = watched.query('streameval_alarm_waiting{stream=~"quiet/.*"} == 0')
    assert {each["metric"]["stream"] for each in waiting} == set(QUIET)
    page = json.loads(
        httpx.get(
            f"{watched.addresses.http}/v1/alarms", headers=watched.headers, verify=watched.verify
        ).text
    )
    raised = sum(
        1 + each["repeats"]
        for status in page["statuses"]
        if status["stream"] in QUIET
        for each in status.get("alarms", ())
    )
    allowed = len(QUIET) * 30 / QUIET_MEAN_DAYS
    assert raised <= allowed
    # What the drifted stream has sent came in one round with those.
    watched.until(lambda: watched.messages(STREAM), "a message")
    assert sum(len(watched.messages(stream)) for stream in QUIET) <= raised
