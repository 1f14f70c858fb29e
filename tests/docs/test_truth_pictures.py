"""The pictures of labels, clusters and weights show what the library computes today.

docs/truth_pictures.py writes the numbers of each picture into its description. They are
computed again here, and the page must quote them as they are.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest

DOCS = Path(__file__).parents[2] / "docs"
DESCRIPTION = ".//{http://purl.org/dc/elements/1.1/}description"
QUOTED = {
    "labels": ("late-labels.md", r"(?:now|projected|end) (\d\.\d+(?: \(.*?\))?)", 6),
    "backtest": ("late-labels.md", r"(\d+) windows, largest error ([\d.]+)", 2),
    "clusters": ("clusters.md", r": (\d+) of", 2),
}
"""The page that quotes each description, what it quotes, and how many values that are."""


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    """Return docs/truth_pictures.py as a module."""
    pytest.importorskip("matplotlib", reason="the pictures need matplotlib").use("svg")
    sys.path.insert(0, str(DOCS))
    try:
        return importlib.import_module("truth_pictures")
    finally:
        sys.path.remove(str(DOCS))


def description(name: str) -> str:
    """Return the numbers inside a picture that is checked in."""
    text = ET.parse(DOCS / "images" / f"truth-{name}.svg").findtext(DESCRIPTION)
    assert text
    return text


@pytest.mark.parametrize(
    "name",
    [
        "weights",
        "clusters",
        pytest.param("labels", marks=pytest.mark.nightly),
        pytest.param("backtest", marks=pytest.mark.nightly),
    ],
)
def test_a_picture_is_current(pictures: ModuleType, name: str) -> None:
    picture = pictures.PICTURES[name]()
    assert description(name) == "\n".join(picture.numbers)


@pytest.mark.parametrize("name", QUOTED)
def test_the_page_quotes_what_a_picture_shows(name: str) -> None:
    file, pattern, number = QUOTED[name]
    page = " ".join((DOCS / file).read_text().split())
    quoted = [
        value for found in re.finditer(pattern, description(name)) for value in found.groups()
    ]
    assert len(quoted) == number
    assert [value for value in quoted if value not in page] == []
