"""Both distributions from the checkout as the README says, from wheels, from their sources."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import venv
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest

import streameval

from ..distributions import FOLDERS
from .conftest import ROOT, program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .conftest import Newcomer

pytestmark = pytest.mark.heavy

PIP = (sys.executable, "-m", "pip")


def test_the_readme(newcomer: Newcomer, free_port: Callable[[], int]) -> None:
    """Its first command installs both; the second serves what its program asks."""
    page = (ROOT / "README.md").read_text()
    install, serve = (line.partition("  ")[0] for line in page.split("```")[1].split("\n")[1:3])
    venv.create(newcomer.folder / ".venv", with_pip=True)
    newcomer.run("sh", "-c", re.sub(r"\.(?=/server|\[)", str(ROOT), install))
    newcomer.environment["STREAMEVAL_LISTEN"] = f"127.0.0.1:{free_port()}"
    newcomer.environment["STREAMEVAL_HTTP"] = f"127.0.0.1:{free_port()}"
    with newcomer.running(*serve.split(), says=r"listening on (\S+)\n") as started:
        printed = newcomer.python(program(page.replace("127.0.0.1:50051", started[1])))
    assert "1 of 1 predictions labelled" in printed


def test_the_extra_finds_the_server_in_an_index(wheels: Path, tmp_path: Path) -> None:
    """`pip install streameval[server]` takes both from where the wheels are, in one version."""
    report = tmp_path / "report.json"
    wanted = f"streameval[server]=={streameval.__version__}"
    options = ("-q", "--dry-run", "--ignore-installed", "--report", report, "--find-links", wheels)
    subprocess.run([*PIP, "install", *options, wanted], check=True)
    found = {each["metadata"]["name"]: each for each in json.loads(report.read_text())["install"]}
    for name in FOLDERS:
        assert found[name]["metadata"]["version"] == streameval.__version__
        assert found[name]["download_info"]["url"].startswith(wheels.as_uri())
    assert {"grpcio", "jmespath", "starlette", "uvicorn"} <= {*found}


def test_a_source_distribution_builds_the_same_wheel(wheels: Path, tmp_path: Path) -> None:
    """Each by itself: the server's has its version without the library's sources."""
    for name, folder in FOLDERS.items():
        sources, built = tmp_path / name, tmp_path / f"{name}-wheel"
        build = (sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", sources)
        subprocess.run(build, cwd=folder, check=True)
        (archive,) = sources.iterdir()
        subprocess.run([*PIP, "wheel", "-q", "--no-deps", "-w", built, archive], check=True)
        (wheel,) = built.iterdir()
        contents = [
            {each.filename: each.CRC for each in ZipFile(path / wheel.name).filelist}
            for path in (built, wheels)
        ]
        assert contents[0] == contents[1]
        assert any(name.endswith("/METADATA") for name in contents[0])
