"""A data scientist: the front page, five minutes in a process, scikit-learn's calls beside ours."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from ..pages import blocks
from .conftest import ROOT, program

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Newcomer

pytestmark = pytest.mark.heavy


def test_the_front_page(newcomer: Newcomer, report: Callable[[str, float], None]) -> None:
    """Its install line and its ten lines: AUC-PR with an interval."""
    page = (ROOT / "docs" / "index.md").read_text()
    newcomer.install(page)
    printed = newcomer.python(program(page))
    report("data scientist, AUC-PR with its interval", newcomer.minutes())
    # Half of six cases are positive, every second one of the ranking.
    assert re.search(r"AUC-PR +0\.\d{4} \(0\.\d{4} to [01]\.\d{4}\)", printed), printed
    assert re.search(r"^0\.\d{3} \(0\.\d{3} to [01]\.\d{3}\)$", printed, re.MULTILINE), printed


@pytest.mark.nightly
def test_five_minutes(newcomer: Newcomer) -> None:
    """The tutorial's blocks print what it shows, with numpy and sortedcontainers only."""
    page = (ROOT / "docs" / "start-embed.md").read_text()
    newcomer.install(page)
    newcomer.python(program(page))
    installed = newcomer.run(
        "python", "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"
    )
    names = {line.partition("==")[0].lower() for line in installed.splitlines()}
    assert names - {"pip", "setuptools"} == {"streameval", "numpy", "sortedcontainers"}


@pytest.mark.nightly
def test_data_frames_and_scikit_learn(newcomer: Newcomer) -> None:
    """With pandas and scikit-learn beside it, as in a notebook."""
    page = (ROOT / "docs" / "start-embed.md").read_text()
    newcomer.install(page)
    newcomer.run("python", "-m", "pip", "install", "-q", "pandas", "scikit-learn")
    frames = [each.code for each in blocks(page) if each.needs == "pandas"]
    assert frames
    newcomer.python("\n".join([program((ROOT / "docs" / "index.md").read_text()), *frames]))
    other = (ROOT / "docs" / "from-scikit-learn.md").read_text()
    prompts = [each.code for each in blocks(other) if each.needs == "sklearn"]
    assert prompts
    newcomer.python("\n".join(prompts))
