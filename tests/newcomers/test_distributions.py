"""Both distributions from a folder of wheels by name, and from their source distributions."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest

import streameval

from ..distributions import FOLDERS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.heavy

PIP = (sys.executable, "-m", "pip")


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
