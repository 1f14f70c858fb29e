"""A real Prometheus and a real Alertmanager, with the settings of deploy/prometheus.

Only addresses, paths and times are changed.
"""

from __future__ import annotations

import json
import re
import ssl
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import yaml

from .monitoring import ALERTMANAGER, DEPLOY, RULES, filled_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from streameval_server import Addresses

    from ..http_receiver import Receiver

WITHIN_S = 60


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
