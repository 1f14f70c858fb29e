"""What deploy/ has for Prometheus, Alertmanager and Grafana."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus" / "streameval.rules.yml"
ALERTMANAGER = DEPLOY / "prometheus" / "alertmanager.yml"
DASHBOARD = json.loads((DEPLOY / "grafana" / "dashboards" / "streameval.json").read_text())


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


SELECTOR = re.compile(
    r"\b(?:streameval[a-z_:]*|grpc_server_[a-z_]+|up)\b(?:\{[^}]*\})?(?:\[\w+\])?"
)


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
