"""A product owner: a file of scores, and the web page of the demo, in a browser."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ..conftest import refuse
from ..pages import blocks
from .conftest import ROOT, Newcomer, program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

pytestmark = pytest.mark.heavy

START = (ROOT / "docs" / "start-look.md").read_text()


def test_a_file_of_scores(newcomer: Newcomer, report: Callable[[str, float], None]) -> None:
    """The page's file, its command with a picture, and its plot; what a server needs."""
    newcomer.install(START)
    codes = [each.code for each in blocks(START) if each.language == "python"]
    newcomer.python(codes[0])
    (console,) = (each.code for each in blocks(START) if each.language == "console")
    command, _, shown = console.removeprefix("$ ").partition("\n")
    printed = newcomer.run(*command.split())
    report("product owner, AUC-PR of a file", newcomer.minutes())
    assert re.sub(r" +$", "", printed, flags=re.MULTILINE) == shown.partition("$ ls")[0]
    newcomer.python(program(START))
    for picture in ("curves.png", "pr.png"):
        assert (newcomer.folder / picture).read_bytes().startswith(b"\x89PNG")
    refused = newcomer.run("sh", "-c", "streameval serve; test $? = 2")
    assert refused == (
        "streameval: streameval_server is missing; pip install 'streameval[server]'\n"
    )


@pytest.fixture
def clone(tmp_path: Path, require_command: Callable[[str], str]) -> Path:
    """Return the files of this tree as a clone has them, without an environment."""
    git = require_command("git")
    require_command("make")
    listed = subprocess.run(
        [git, "-C", ROOT, "ls-files", "-z"], check=False, capture_output=True, text=True
    )
    if listed.returncode:
        refuse("this tree is not a clone")
    for name in filter(None, listed.stdout.split("\0")):
        target = tmp_path / "clone" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    return tmp_path / "clone"


@pytest.mark.nightly
def test_the_page_of_the_demo(
    clone: Path,
    wheels: Path,
    require: Callable[[str], ModuleType],
    chromium: str,
    report: Callable[[str, float], None],
) -> None:
    """`DEMO_STAY=1 make demo` in a clone: the page shows the figures that the demo prints."""
    sync_api = require("playwright.sync_api")
    newcomer = Newcomer(clone, wheels)
    newcomer.environment["DEMO_STAY"] = "1"
    make = ("make", "demo", f"PYTHON={sys.executable}")
    says = r"\nfraud/v3 +AUC-PR (0\.\d{3}) \((.+)\) in the last 7 days[\s\S]+The web page: (\S+) "
    with newcomer.running(*make, says=says) as demo, sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(demo[3])
        link = page.get_by_role("link", name="fraud/v3")
        sync_api.expect(link).to_be_visible(timeout=60_000)
        report("product owner, the streams on the page of the demo", newcomer.minutes())
        page.goto(f"{demo[3]}/#/stream/fraud%2Fv3?window=7d")
        limits = re.compile(r"0\.\d{3} to 0\.\d{3}")
        sync_api.expect(page.locator("#more-auc_pr")).to_contain_text(limits)
        # Rows have come since the figure was printed.
        shown = float(page.locator("#figure-auc_pr").inner_text())
        assert abs(shown - float(demo[1])) <= 0.0015
        browser.close()
