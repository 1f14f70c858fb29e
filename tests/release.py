"""The last release, from the repository's history, for tests of two versions together."""

from __future__ import annotations

import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

from .conftest import refuse

ROOT = Path(__file__).parents[1]

FALLBACK = "d2c8951ee011a709da0a6d520b5d918c6783c7de"
"""The commit that stands for the last release as long as no tag `v*` is an ancestor of HEAD."""


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], check=False, capture_output=True, timeout=60
    )


def last_release() -> str:
    """Return the newest tag `v*` before HEAD, or `FALLBACK`; skip where the history lacks it."""
    found = _git("describe", "--tags", "--match", "v*", "--abbrev=0", "HEAD^")
    name = found.stdout.decode().strip() if found.returncode == 0 else FALLBACK
    there = f"{name}^{{commit}}"
    if _git("cat-file", "-e", there).returncode:
        # A shallow clone: its origin may give this one commit.
        _git("fetch", "--quiet", "--depth", "1", "origin", name)
    if _git("cat-file", "-e", there).returncode:
        refuse(f"the last release, {name}, is not in this clone's history: git fetch --unshallow")
    return name


def unpack_release(folder: Path) -> str:
    """Write the files of the last release into a folder; return its tag or commit."""
    return unpack(folder, last_release())


def unpack(folder: Path, name: str) -> str:
    """Write the files of a tag or commit into a folder; return its name."""
    archive = _git("archive", "--format=tar", name)
    assert archive.returncode == 0, archive.stderr.decode()
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        # As an attribute, which Pythons before 3.11.4 ignore.
        files.extraction_filter = getattr(tarfile, "data_filter", None)
        files.extractall(folder)
    return name
