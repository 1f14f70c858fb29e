"""docs/http.md: its commands print the output shown, and its table lists every route."""

from __future__ import annotations

import doctest
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from streameval_server._security.rules import rule_of
from streameval_server._web.cloud_events import CLOUD_EVENTS
from streameval_server._web.otlp_logs import OTLP_LOGS
from streameval_server._web.routes import ROUTES

from ..pages import codes
from .conftest import site

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text(encoding="utf-8")


def test_its_commands_print_what_it_shows(require_command: Callable[[str], str]) -> None:
    """In order, against a new server; `...` matches any text."""
    require_command("curl")
    checker = doctest.OutputChecker()
    (block,) = codes(PAGE, "console", "curl")
    steps = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    assert len(steps) == 4
    with site() as one:
        for command, shown in steps:
            here = command.replace("http://127.0.0.1:8080", one.addresses.http)
            printed = subprocess.check_output(["sh", "-c", here], text=True, timeout=30) + "\n"
            assert checker.check_output(shown, printed, doctest.ELLIPSIS), printed


def test_its_table_lists_every_route() -> None:
    """With each route's method and scope; payloads have a route that is no method."""
    rows = [row.split("|")[1:4] for row in PAGE.splitlines() if row.startswith("| `GET /v1")]
    rows += [row.split("|")[1:4] for row in PAGE.splitlines() if re.match(r"\| `P|\| `D", row)]
    listed = {
        path.strip(" `"): (re.match(r" \[?(\w+)", method)[1], scope.strip())
        for path, method, scope in rows
    }
    assert listed.pop(f"POST {CLOUD_EVENTS.path}") == ("payloads", "ingest")
    assert listed.pop(f"POST {OTLP_LOGS.path}") == ("logs", "ingest")
    assert listed == {
        f"{route.verb} {route.path}": (
            route.method.rpartition("/")[2],
            str(rule_of(route.method).scope),
        )
        for route in ROUTES
    }
