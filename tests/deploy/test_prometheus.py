"""The alert rules and the dashboard, with the real promtool and a real Prometheus.

Prometheus scrapes a server with the settings of deploy/prometheus, over TLS and with
a token, during the demo's drift; only addresses, paths and times are changed.
"""

from __future__ import annotations

import heapq
import importlib.util
import json
import re
import ssl
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest
import trustme
import yaml

from streameval.client import AlarmSettings, Client
from streameval_server import Settings, create_token
from streameval_server.testing import running_service

from ..alarm_history import write_quiet_month
from ..http_receiver import receiver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from streameval_server._service.service import Addresses

    from ..http_receiver import Receiver

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus" / "streameval.rules.yml"
ALERTMANAGER = DEPLOY / "prometheus" / "alertmanager.yml"
UNITS = sorted(Path(__file__).parent.glob("*rules_test.yml"))
DASHBOARD = json.loads((DEPLOY / "grafana" / "dashboards" / "streameval.json").read_text())
STREAM = "fraud/online"
PAIR = ("pair/old", "pair/new")
QUIET = [f"quiet/{number}" for number in range(4)]
QUIET_MEAN_DAYS = 10
WITHIN_S = 60


def every_rule() -> list[dict[str, Any]]:
    """Return the rules of all groups."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard_expressions() -> list[str]:
    """Return the dashboard's expressions, with its variables filled in as by Grafana."""
    return [
        target["expr"].replace("$__rate_interval", "1m").replace("$stream", ".*")
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", ())
    ]


SELECTOR = re.compile(r"\b(?:streameval[a-z_:]*|up)\b(?:\{[^}]*\})?(?:\[\w+\])?")


def selectors(expression: str) -> list[str]:
    """Return the selectors of an expression."""
    return [found for found in SELECTOR.findall(expression) if found]


def example(name: str) -> str:
    """Return the rules of a group that the file has in comments."""
    found = re.search(rf"(?m)^  # - name: {name}\n(?:^  #.*\n)+", RULES.read_text())
    assert found is not None
    return "groups:\n" + found[0].replace("  # ", "  ")


def filled_in(settings: str) -> str:
    """Return Alertmanager's settings with the receiver's examples uncommented."""
    return re.sub(r"^    # ", "    ", settings, flags=re.MULTILINE)


# --- Files ------------------------------------------------------------------------------------


def test_promtool_takes_the_files(require_command: Callable[[str], str]) -> None:
    """Promtool accepts the rules and the settings."""
    promtool = require_command("promtool")
    for command in (
        ("check", "rules", "--lint=all", "--lint-fatal", RULES),
        ("check", "config", "--syntax-only", DEPLOY / "prometheus" / "prometheus.yml"),
    ):
        done = subprocess.run(
            [promtool, *command], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_amtool_takes_the_settings_as_shipped_and_filled_in(
    require_command: Callable[[str], str], tmp_path: Path
) -> None:
    """Both are valid; critical alerts and others have the one receiver, which is empty at first."""
    amtool = require_command("amtool")
    filled = tmp_path / ALERTMANAGER.name
    filled.write_text(filled_in(ALERTMANAGER.read_text()))
    for path in (ALERTMANAGER, filled):
        for command in (
            ("check-config", str(path)),
            (
                *("config", "routes", "test", f"--config.file={path}"),
                *("--verify.receivers=team", "severity=critical", "stream=a"),
            ),
        ):
            done = subprocess.run(
                [amtool, *command], capture_output=True, text=True, timeout=60, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
    shipped, by_hand = (yaml.safe_load(path.read_text()) for path in (ALERTMANAGER, filled))
    assert shipped["receivers"] == [{"name": "team"}]
    assert by_hand["receivers"][0].keys() == {"name", "webhook_configs", "email_configs"}
    severities = {rule["labels"]["severity"] for rule in every_rule() if "alert" in rule}
    (route,) = shipped["route"]["routes"]
    assert route["matchers"] == ['severity = "critical"']
    assert "critical" in severities


def test_prometheus_and_the_containers_name_one_alertmanager() -> None:
    """Prometheus sends to the name and port of the compose file's service."""
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    ((found,),) = (each["static_configs"] for each in config["alerting"]["alertmanagers"])
    (service, port) = found["targets"][0].split(":")
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    assert services[service]["ports"] == [f"127.0.0.1:{port}:{port}"]
    (flag,) = (word for word in services[service]["command"] if "--config.file=" in word)
    (mounted,) = (each for each in services[service]["volumes"] if each.startswith("./deploy"))
    source, target, _ = mounted.split(":")
    assert (ROOT / source / flag.removeprefix(f"--config.file={target}/")) == ALERTMANAGER


def test_scrapes_come_as_the_server_expects_them() -> None:
    """With these settings each scrape gets new figures."""
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    assert config["global"]["scrape_interval"] == f"{Settings().metrics_interval_s:g}s"
    assert not any("scrape_interval" in job for job in config["scrape_configs"])


def test_each_alert_fires_when_it_should(require_command: Callable[[str], str]) -> None:
    """With its delay, and in no other case; there is a test case for each alert."""
    promtool = require_command("promtool")
    done = subprocess.run(
        [promtool, "test", "rules", *UNITS], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    fired = {
        test["alertname"]
        for units in UNITS
        for case in yaml.safe_load(units.read_text())["tests"]
        for test in case["alert_rule_test"]
        if test["exp_alerts"]
    }
    assert fired == {rule["alert"] for rule in every_rule() if "alert" in rule}


def test_the_example_of_a_floor_is_relative_to_the_prevalence(
    require_command: Callable[[str], str], tmp_path: Path
) -> None:
    """Uncommented it is taken, is three times the odds, and one stream may have its own."""
    promtool = require_command("promtool")
    (tmp_path / "rules.yml").write_text(example("streameval-settings"))
    series = 'streameval_references{{job="s", stream="{}", window="all", class="{}"}}'
    counts = {"clicks": (20, 980), "even": (500, 500), "fraud/v3": (20, 980)}
    case = {
        "rule_files": ["rules.yml"],
        "tests": [
            {
                "input_series": [
                    {"series": series.format(stream, name), "values": f"{count}x5"}
                    for stream, both in counts.items()
                    for name, count in zip(("positive", "negative"), both, strict=True)
                ],
                "promql_expr_test": [
                    {
                        "expr": "streameval:auc_pr:floor",
                        "eval_time": "3m",
                        "exp_samples": [
                            {
                                "labels": f'streameval:auc_pr:floor{{job="s", stream="{stream}"}}',
                                "value": floor,
                            }
                            for stream, floor in {
                                "clicks": 60 / 1_040,
                                "even": 0.75,
                                "fraud/v3": 0.6,
                            }.items()
                        ],
                    }
                ],
            }
        ],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(case))
    done = subprocess.run(
        [promtool, "test", "rules", tmp_path / "test.yml"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_of_intervals_fires_where_no_alarms_are_declared(
    require_command: Callable[[str], str], tmp_path: Path
) -> None:
    """Uncommented it fires after its time, and not for a stream whose detector speaks for it."""
    promtool = require_command("promtool")
    (tmp_path / "rules.yml").write_text(example("streameval-intervals"))
    series = 'streameval_figure_difference_upper{{stream="{}", figure="auc_pr"}}'
    alert = {
        "exp_labels": {"severity": "info", "stream": "bad", "figure": "auc_pr"},
        "exp_annotations": {
            "summary": "bad: AUC-PR has fallen",
            "description": "By -0.050 at the least, against the windows before.",
        },
    }
    case = {
        "rule_files": ["rules.yml"],
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": series.format("bad"), "values": "0.1x9 -0.05x40"},
                    {"series": series.format("watched"), "values": "-0.05x50"},
                    {"series": 'streameval_alarm_waiting{stream="watched"}', "values": "0x50"},
                ],
                "alert_rule_test": [
                    {"eval_time": at, "alertname": "StreamevalWorseThanBefore", "exp_alerts": each}
                    for at, each in (("20m", []), ("30m", [alert]))
                ],
            }
        ],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(case))
    done = subprocess.run(
        [promtool, "test", "rules", tmp_path / "test.yml"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_is_one() -> None:
    """Every panel has a title and its own place; no expression occurs twice."""
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["title"] for panel in panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    asked = dashboard_expressions()
    assert len(asked) == len(set(asked)) > 20
    sources = yaml.safe_load(
        (DEPLOY / "grafana" / "provisioning" / "datasources" / "streameval.yml").read_text()
    )["datasources"]
    named = {target["datasource"]["uid"] for p in panels for target in p.get("targets", ())}
    named |= {panel["datasource"]["uid"] for panel in panels if "datasource" in panel}
    assert named == {"${datasource}"}
    chosen, stream = DASHBOARD["templating"]["list"]
    assert (chosen["name"], chosen["type"], chosen["query"]) == (
        "datasource",
        "datasource",
        "prometheus",
    )
    assert stream["datasource"]["uid"] == "${datasource}"
    assert {chosen["current"]["value"]} == {source["uid"] for source in sources}


# --- A real Prometheus ------------------------------------------------------------------------


@dataclass
class Watched:
    """A server, the Prometheus that scrapes it, and the receiver of its alerts."""

    addresses: Addresses
    url: str
    team: Receiver
    headers: dict[str, str]
    verify: ssl.SSLContext

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return an instant vector."""
        answer = httpx.get(f"{self.url}/api/v1/query", params={"query": expression}, timeout=20)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]["result"]

    def until(self, true: Callable[[], object], what: str) -> None:
        """Wait for a condition; scrapes come once a second."""
        deadline = time.monotonic() + WITHIN_S
        while not true():
            assert time.monotonic() < deadline, f"{what} within {WITHIN_S} s"
            time.sleep(0.2)

    def messages(self, stream: str) -> list[dict[str, Any]]:
        """Return what Alertmanager has sent of a stream that fires."""
        found = [json.loads(each.body) for each in list(self.team.requests)]
        return [
            message
            for message in found
            if message["groupLabels"].get("stream") == stream and message["status"] == "firing"
        ]

    def sent(self) -> float:
        """Return how many alerts Prometheus has sent to Alertmanager."""
        text = httpx.get(f"{self.url}/metrics", timeout=20).text
        counters = re.findall(r"(?m)^prometheus_notifications_sent_total.* (\S+)$", text)
        return sum(map(float, counters))

    def firing(self) -> dict[str, list[dict[str, str]]]:
        """Return the labels of the alerts that fire, by name."""
        alerts = httpx.get(f"{self.url}/api/v1/alerts", timeout=20).json()["data"]["alerts"]
        found: dict[str, list[dict[str, str]]] = {}
        for alert in alerts:
            if alert["state"] == "firing":
                found.setdefault(alert["labels"]["alertname"], []).append(alert["labels"])
        return found


def hours_of_the_demo(client: Client, hours: int) -> None:
    """Stream hours of the demo's payments up to now, declare alarms, then drift until one rings.

    A server's detector observes rows on the server's clock, so those after the drift come in
    steps of some tenths of a second, not of five minutes.
    """
    demo = ROOT / "demo" / "fraud.py"
    spec = importlib.util.spec_from_file_location("demo_fraud", demo)
    assert spec is not None
    assert spec.loader is not None
    fraud = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fraud)
    payments = fraud.Payments(fraud.SEED)
    model = fraud.SGDClassifier(
        loss="log_loss", alpha=1e-3, learning_rate="constant", eta0=0.002, random_state=0
    )
    features, labels, *_ = payments.take(20_000)
    model.partial_fit(features, labels, classes=[False, True])
    client.create_stream(STREAM)
    stream = client.stream(STREAM)
    begin = datetime.now(UTC) - timedelta(hours=hours)
    waiting: list[tuple[datetime, str, bool]] = []

    def step(number: int, at: datetime | None) -> None:
        now = begin + number * fraud.STEP
        features, truth, *_ = payments.take(fraud.ROWS_PER_STEP)
        ids = [f"payment-{number}-{i}" for i in range(len(truth))]
        stream.log_cases(ids=ids, scores=model.decision_function(features), at=at)
        delays = payments.delays(len(truth))
        for id_, label, minutes in zip(ids, truth, delays, strict=True):
            heapq.heappush(waiting, (now + minutes * timedelta(minutes=1), id_, bool(label)))
        arrived = []
        while waiting and waiting[0][0] <= now + fraud.STEP:
            arrived.append(heapq.heappop(waiting))
        if arrived:
            known = [label for _, _, label in arrived]
            stream.label_cases(ids=[id_ for _, id_, _ in arrived], labels=known)
        stream.flush()

    steps = hours * (timedelta(hours=1) // fraud.STEP)
    for number in range(steps):
        step(number, begin + number * fraud.STEP)
    settings = AlarmSettings(
        watches={fraud.WATCH: fraud.TOLERANCE},
        pane=timedelta(seconds=1),
        reference=(begin, datetime.now(UTC)),
        label_wait=timedelta(0),
    )
    client.update_stream(STREAM, alarms=settings)
    payments.drift()
    ends = time.monotonic() + 2 * WITHIN_S
    while client.stream_alarms(STREAM).state != "firing":
        assert time.monotonic() < ends, client.stream_alarms(STREAM)
        step(steps, None)
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
    client.create_pair(*PAIR)
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
    while client.compare_pair(*PAIR).decided_since is None:
        assert time.monotonic() < ends, client.compare_pair(*PAIR)
        time.sleep(0.2)


@pytest.fixture(scope="module")
def watched(
    tmp_path_factory: pytest.TempPathFactory, require_command: Callable[[str], str]
) -> Iterator[Watched]:
    """Return a server after the demo's drift, and a Prometheus that has scraped it.

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
        metrics_interval_s=1.0,  # as running_prometheus scrapes
    )
    with (
        running_service(settings) as addresses,
        Client(addresses.grpc, token=token, root_certificates=path / "ca.pem") as client,
    ):
        pair_of_models(client)
        hours_of_the_demo(client, 6)
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
                calls = "rate(streameval_calls_total[1m])"
                return len(one.query(calls)) > 0 and len(one.query("streameval_figure")) > 0

            one.until(scraped, "two scrapes")
            yield one


@contextmanager
def running_alertmanager(command: str, path: Path, team: Receiver) -> Iterator[str]:
    """Run an Alertmanager with the settings as shipped and a webhook; yield HOST:PORT.

    It looks at its groups each second, so that a second message would come soon.
    """
    settings = yaml.safe_load(filled_in(ALERTMANAGER.read_text()))
    settings["route"] |= {"group_wait": "0s", "group_interval": "1s"}
    (one,) = settings["receivers"]
    del one["email_configs"]
    one["webhook_configs"] = [{"url": team.url}]
    (path / ALERTMANAGER.name).write_text(yaml.safe_dump(settings))
    log = path / "alertmanager.log"
    arguments = (
        f"--config.file={path / ALERTMANAGER.name}",
        f"--storage.path={path / 'alertmanager'}",
        "--web.listen-address=127.0.0.1:0",
        "--cluster.listen-address=",
    )
    with running(command, arguments, log, r"Listening on\W+address=(\S+)") as address:
        yield address


@contextmanager
def running_prometheus(
    command: str, path: Path, addresses: Addresses, alertmanager: str
) -> Iterator[str]:
    """Run a Prometheus with the settings of deploy/prometheus on a free port; yield its address."""
    assert addresses.http is not None
    text = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
    text = text.replace("15s", "1s").replace("/etc/streameval-monitoring", str(path))
    text = text.replace("server:8080", addresses.http.removeprefix("https://"))
    text = text.replace("alertmanager:9093", alertmanager)
    (path / "prometheus.yml").write_text(text)
    rules = re.sub(r"for: \w+", "for: 0s", RULES.read_text())
    (path / RULES.name).write_text(rules)
    log = path / "prometheus.log"
    arguments = (
        f"--config.file={path / 'prometheus.yml'}",
        f"--storage.tsdb.path={path / 'tsdb'}",
        "--web.listen-address=127.0.0.1:0",
        # What fires is sent again after this, not after a minute.
        "--rules.alert.resend-delay=1s",
    )
    with running(command, arguments, log, r'msg="Listening on" address=(\S+)') as address:
        yield f"http://{address}"


@contextmanager
def running(command: str, arguments: Iterable[str], log: Path, listens: str) -> Iterator[str]:
    """Run a program until its log says where it listens, and yield that."""
    with log.open("w") as out:
        process = subprocess.Popen(
            [command, *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    try:
        deadline = time.monotonic() + WITHIN_S
        while not (found := re.findall(listens, log.read_text())):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield found[0]
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.heavy
def test_it_scrapes_over_tls_with_its_token(watched: Watched) -> None:
    """The target is up, and its figures are the server's."""
    targets = httpx.get(f"{watched.url}/api/v1/targets", timeout=20).json()["data"]
    (target,) = targets["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
    assert target["scrapeUrl"].startswith("https://")
    (figure,) = watched.query(
        f'streameval_figure{{stream="{STREAM}", figure="auc_pr", window="all"}}'
    )
    assert 0 < float(figure["value"][1]) < 1


@pytest.mark.heavy
def test_every_expression_of_the_dashboard_returns_data(watched: Watched) -> None:
    """No panel is empty for a server in use."""
    missing = set(dashboard_expressions())

    def all_there() -> bool:
        for expression in sorted(missing):
            if watched.query(expression):
                missing.discard(expression)
        return not missing

    watched.until(all_there, f"data for {missing}")


@pytest.mark.heavy
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
    missing = {selector.replace('code="INTERNAL"', 'code="OK"') for selector in asked}

    def all_there() -> bool:
        for selector in sorted(missing):
            if watched.query(selector):
                missing.discard(selector)
        return not missing

    watched.until(all_there, f"data for {missing}")


@pytest.mark.heavy
def test_a_pair_has_its_series_and_the_alert_that_it_is_decided(watched: Watched) -> None:
    """They are the server's own comparison; the better model is named by the sign."""
    watched.until(lambda: "StreamevalPairDecided" in watched.firing(), "the alert")
    (alert,) = watched.firing()["StreamevalPairDecided"]
    assert (alert["a"], alert["b"], alert["figure"]) == (*PAIR, "auc_pr")
    answer = httpx.get(
        f"{watched.addresses.http}/v1/pairs:compare",
        params={"a": PAIR[0], "b": PAIR[1], "metric": "auc_pr"},
        headers=watched.headers,
        verify=watched.verify,
    ).json()["comparison"]
    of_pair = f'a="{PAIR[0]}", b="{PAIR[1]}"'

    def value(name: str, labels: str = 'figure="auc_pr"') -> float:
        (found,) = watched.query(f"streameval_pair_{name}{{{of_pair}, {labels}}}")
        return float(found["value"][1])

    assert value("difference") == pytest.approx(answer["difference"]["value"])
    assert value("difference_lower") == pytest.approx(answer["anytime"]["lower"])
    assert value("difference_upper") == pytest.approx(answer["anytime"]["upper"])
    assert value("difference_lower") < value("difference_upper") < 0
    assert value("evidence") == 1
    since = datetime.fromisoformat(answer["decidedSince"]).timestamp()
    assert value("decided_timestamp_seconds") == pytest.approx(since)
    assert value("shared_ids", "") == 4_000
    assert value("shared_share", "") == 1
    labelled = [value("labelled_ids", f'class="{name}"') for name in ("positive", "negative")]
    assert sum(labelled) == 4_000
    assert not watched.query(f"streameval_pair_refused{{{of_pair}}}")
    assert float(watched.query("streameval_pairs_left_out")[0]["value"][1]) == 0


@pytest.mark.heavy
def test_the_demos_drift_raises_the_alert(watched: Watched) -> None:
    """The detector's; no other alert fires of the stream, and every rule is well."""
    watched.until(lambda: "StreamevalAlarm" in watched.firing(), "the alert")
    of_stream = {
        name: alert
        for name, alerts in watched.firing().items()
        for alert in alerts
        if alert.get("stream") == STREAM
    }
    assert of_stream.keys() == {"StreamevalAlarm"}
    assert of_stream["StreamevalAlarm"]["watch"] == "placement"
    (evidence,) = watched.query(f'streameval_alarm_evidence{{stream="{STREAM}"}}')
    assert 0 <= float(evidence["value"][1]) <= 1
    errors = httpx.get(f"{watched.url}/api/v1/rules", timeout=20).json()["data"]["groups"]
    for group in errors:
        for rule in group["rules"]:
            assert rule["health"] == "ok", rule


@pytest.mark.heavy
def test_the_drift_arrives_at_the_receiver_once(watched: Watched) -> None:
    """Alertmanager gets it every second and has sent one message after ten of them."""
    watched.until(lambda: watched.messages(STREAM), "a message")
    begin = watched.sent()
    watched.until(lambda: watched.sent() >= begin + 10, "ten more alerts at Alertmanager")
    (message,) = watched.messages(STREAM)
    (alert,) = message["alerts"]
    assert message["receiver"] == "team"
    assert alert["labels"]["alertname"] == "StreamevalAlarm"
    assert alert["annotations"]["summary"] == f"{STREAM}: placement is worse than its reference"


@pytest.mark.heavy
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
    # What the demo's stream has sent came in one round with those.
    watched.until(lambda: watched.messages(STREAM), "a message")
    assert sum(len(watched.messages(stream)) for stream in QUIET) <= raised
