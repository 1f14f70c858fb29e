"""A repository that has the files of this checkout, under the tag of their version."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import streameval

from ..conftest import refuse

ROOT = Path(__file__).parents[2]
TAG = f"v{streameval.__version__}"
COMMITTED = "2026-01-02T03:04:05Z"


def git(folder: Path, *arguments: object) -> str:
    """Run git in a folder, as an author of its own, at `COMMITTED`."""
    variables = {
        "GIT_CONFIG_GLOBAL": "/dev/null",
        **{f"GIT_{who}_DATE": COMMITTED for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_NAME": "A" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "a@mail.example" for who in ("AUTHOR", "COMMITTER")},
    }
    words = ["git", "-C", str(folder), *map(str, arguments)]
    done = subprocess.run(words, check=True, env=variables, capture_output=True, text=True)
    return done.stdout


def make_tagged(folder: Path) -> None:
    """Write the repository; its changelog has a date."""
    if not (ROOT / ".git").exists():
        refuse("this tree is not a clone")
    for name in filter(None, git(ROOT, "ls-files", "-coz", "--exclude-standard").split("\0")):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            shutil.copy(ROOT / name, target)
    changelog = folder / "CHANGELOG.md"
    heading = rf"^## {re.escape(streameval.__version__)} - .*$"
    dated, count = re.subn(
        heading,
        f"## {streameval.__version__} - {COMMITTED[:10]}",
        changelog.read_text(),
        flags=re.MULTILINE,
    )
    assert count == 1
    changelog.write_text(dated)
    git(folder, "init", "-q")
    commit(folder)


def commit(folder: Path) -> None:
    """Commit what is in the folder, and move the tag there."""
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "-m", "Release")
    git(folder, "tag", "--force", TAG)
