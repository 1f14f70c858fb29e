"""The alert rules, Alertmanager's settings and the dashboard: the tools take them, and they fit."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from streameval_server._web import metrics

from .monitoring import (
    ALERTMANAGER,
    DASHBOARD,
    DEPLOY,
    ROOT,
    RULES,
    dashboard_expressions,
    every_rule,
    example,
    filled_in,
)

if TYPE_CHECKING:
    from collections.abc import Callable

UNITS = sorted(Path(__file__).parent.glob("*rules_test.yml"))


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
    assert int(config["global"]["scrape_interval"].removesuffix("s")) > metrics._MAX_AGE_S
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


def check_rules(promtool: str, directory: Path, case: dict[str, object]) -> None:
    """Let promtool run a test of the rules in a directory."""
    path = directory / "test.yml"
    path.write_text(yaml.safe_dump(case))
    done = subprocess.run(
        [promtool, "test", "rules", path], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


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
    check_rules(promtool, tmp_path, case)


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
