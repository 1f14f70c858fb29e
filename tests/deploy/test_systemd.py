"""deploy/systemd: systemd understands the unit, and the unit fits the server."""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streameval_server import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
UNIT = (ROOT / "deploy" / "systemd" / "streameval.service").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "server.md").read_text(encoding="utf-8")
PROGRAM = "/opt/streameval/bin/streameval"
MAX_EXPOSURE_TENTHS = 13
"""systemd's own measure of what a service may do, from 0 to 100; without hardening 96."""


@pytest.fixture
def analyze(
    require_command: Callable[[str], str], tmp_path: Path
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs systemd-analyze on a unit whose program exists here."""
    path = tmp_path / "streameval.service"
    command = require_command("systemd-analyze")

    def run(unit: str, *options: str) -> subprocess.CompletedProcess[str]:
        path.write_text(unit.replace(PROGRAM, sys.executable), encoding="utf-8")
        return subprocess.run(
            [command, *options, str(path)], capture_output=True, text=True, timeout=60, check=False
        )

    return run


def test_systemd_understands_it(analyze: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """It finds nothing to say; a misspelt key it would."""
    done = analyze(UNIT, "verify", "--man=no")
    assert (done.returncode, done.stderr) == (0, "")
    misspelt = UNIT.replace("StateDirectory=", "StateDirectroy=")
    assert "StateDirectroy" in analyze(misspelt, "verify", "--man=no").stderr


def test_it_may_do_little(analyze: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """By systemd's own measure."""
    options = ("security", "--offline=true", f"--threshold={MAX_EXPOSURE_TENTHS}")
    done = analyze(UNIT, *options)
    assert done.returncode == 0, done.stdout[-300:]
    assert analyze(UNIT.replace("NoNewPrivileges=yes\n", ""), *options).returncode != 0


def test_it_fits_the_server() -> None:
    """Directories, the time to stop, and the page's commands."""
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign] # keys keep their case
    parser.read_string(UNIT)
    service = parser["Service"]
    words = service["Environment"].split()
    assert f"STREAMEVAL_DATA=/var/lib/{service['StateDirectory']}" in words
    assert service["ExecStart"].startswith(f"{PROGRAM} serve --config /etc/")
    config = Path(service["ExecStart"].rpartition(" ")[2])
    assert config.parent == Path("/etc") / service["ConfigurationDirectory"]
    assert f"{config}" in PAGE
    assert f"useradd --system --no-create-home --shell /usr/sbin/nologin {service['User']}" in PAGE
    assert re.findall(r"stop_grace, (\d+) s", UNIT) == [f"{Settings().stop_grace_s:g}"]
    compose = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    assert f"stop_grace_period: {service['TimeoutStopSec']}" in compose
