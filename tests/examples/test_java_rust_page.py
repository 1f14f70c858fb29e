"""docs/java-rust.md, run by Maven and by Cargo against a real server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streameval import Evaluator
from streameval_server import Settings
from streameval_server.testing import running_server

from ..pages import codes

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "java-rust.md").read_text(encoding="utf-8")
FILES = {
    "java": {"pom.xml": ("xml", "java"), "src/main/java/Monitor.java": ("java", "java")},
    "rust": {
        "Cargo.toml": ("toml", "rust"),
        "build.rs": ("rust", "build"),
        "src/main.rs": ("rust", "main"),
    },
}
"""The files of each example, by the blocks of the page that have them."""

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]


@pytest.mark.parametrize(
    ("name", "tool", "scheme"), [("java", "mvn", ""), ("rust", "cargo", "http://")]
)
def test_its_example_prints_what_it_shows(
    tmp_path: Path, require_command: Callable[[str], str], name: str, tool: str, scheme: str
) -> None:
    """From the blocks of the page and proto/ alone; the figures are an evaluator's."""
    require_command(tool)
    shutil.copytree(ROOT / "proto", tmp_path / "proto")
    for path, (language, needs) in FILES[name].items():
        (code,) = codes(PAGE, language, needs)
        assert f"`{path}`:\n" in PAGE
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(code)
    (console,) = codes(PAGE, "console", name)
    (command,), shown = re.findall(r"^\$ (.*)$", console, re.MULTILINE), console.partition("\n")[2]
    with running_server(Settings(listen="127.0.0.1:0", memory=True)) as address:
        environment = {**os.environ, "STREAMEVAL": f"{scheme}{address}"}
        done = subprocess.run(
            command.split(),
            check=False,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=1700,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    # Maven colours its output, also where there is none.
    assert re.sub(r"\x1b\[\d*m", "", done.stdout).strip() == shown.strip()
    ev = Evaluator()
    ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.7, 0.6])
    assert shown == f"auc_roc {ev.auc_roc():.4f}\nauc_pr {ev.auc_pr():.4f}\n"
