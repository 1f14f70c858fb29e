"""The contract keeps what was published: buf compares it with the baseline in the tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

PROTO = Path(__file__).parents[2] / "proto"


def breaking(folder: Path, buf: str) -> subprocess.CompletedProcess[str]:
    """Compare the contract in a folder with the baseline."""
    command = [buf, "breaking", "--against", str(PROTO / "baseline.binpb")]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def buf(require_command: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the path of buf, beside the interpreter first."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    return require_command("buf")


def test_nothing_published_was_broken(buf: str) -> None:
    """As `make check` asserts."""
    result = breaking(PROTO, buf)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("query", ("repeated string missing", "repeated string gone"), "changed name"),
        ("admin", ("google.protobuf.Duration p50", "double p50"), "changed type"),
        ("stream", ("string request_id = 3;", ""), "was deleted"),
        ("query", ("rpc WatchSnapshot(", "rpc Watch("), "was deleted"),
    ],
)
def test_a_break_is_found(
    buf: str, tmp_path: Path, file: str, change: tuple[str, str], message: str
) -> None:
    """A rename, another type, and what is gone."""
    folder = shutil.copytree(PROTO, tmp_path / "proto")
    path = folder / f"streameval/v1/{file}.proto"
    text = path.read_text()
    assert change[0] in text
    path.write_text(text.replace(*change))
    result = breaking(folder, buf)
    assert result.returncode == 100, result.stdout + result.stderr
    assert message in result.stdout
