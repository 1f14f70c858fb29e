"""README and changelog are one page each; on the index links are absolute, or there are none."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from email.message import Message
from email.parser import HeaderParser
from typing import TYPE_CHECKING

import pytest

import streameval

from ..distributions import FOLDERS, PROJECTS, ROOT, TABLES
from ..pages import blocks
from .test_links import MARKDOWN, links

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

README = (ROOT / "README.md").read_text()
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
REPOSITORY = "https://github.example/streameval"
TAG = f"v{streameval.__version__}"


def test_it_is_one_page() -> None:
    """Short enough to be read: 500 words, two blocks of code, one picture."""
    assert len(README.split()) <= 500
    assert len(re.findall(r"^```", README, re.MULTILINE)) == 2 * 2
    assert len(blocks(README)) == 1
    assert README.count("![") == 1


def test_the_first_version_is_one_page_of_the_changelog() -> None:
    """At most 800 words of what it does."""
    (first,) = re.findall(r"^## 0\.1\.0 .*?(?=^## |\Z)", CHANGELOG, re.MULTILINE | re.DOTALL)
    assert len(first.split()) <= 800


def test_it_begins_with_the_installation() -> None:
    """Of both parts from the checkout, in one command; then `make demo` and `make test`."""
    _, block, _ = README.split("```", 2)
    commands = [line.partition("  ")[0] for line in block.splitlines() if line]
    assert commands == [
        "pip install '.[all]' ./server",
        "streameval serve",
        "make demo",
        "make test",
    ]


def words(page: str) -> list[str]:
    """Return the words of a page's text and code; a picture has none."""
    text = ""
    for block in MARKDOWN.parse(page):
        for each in block.children or [block]:
            if each.type != "image":
                text += each.content or " " * (each.type == "softbreak")
        text += " "
    return text.split()


@pytest.fixture
def described(tmp_path: Path, require: Callable[[str], object]) -> Callable[[str, str], Message]:
    """Return a function that builds a distribution's metadata with an address in the setting."""
    require("hatchling")
    require("hatch_fancy_pypi_readme")

    def metadata(name: str, address: str) -> Message:
        files = [ROOT / "streameval/__init__.py", ROOT / "server/hatch_build.py"]
        for each, folder in FOLDERS.items():
            texts = ("README.md", "pyproject.toml", *PROJECTS[each]["license-files"])
            files += [folder / text for text in texts]
        for file in files:
            target = tmp_path / file.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
        settings = tmp_path / "pyproject.toml"
        setting = f'repository = "{TABLES["streameval"]["tool"]["streameval"]["repository"]}"\n'
        assert settings.read_text().count(setting) == 1
        settings.write_text(settings.read_text().replace(setting, f'repository = "{address}"\n'))
        folder = tmp_path / FOLDERS[name].relative_to(ROOT)
        code = "from hatchling.build import *; prepare_metadata_for_build_wheel('.')"
        subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
        (made,) = folder.glob("*.dist-info/METADATA")
        return HeaderParser().parsestr(made.read_text())

    return metadata


@pytest.mark.parametrize("name", FOLDERS)
def test_without_an_address_nothing_leads_away(
    name: str, described: Callable[[str, str], Message]
) -> None:
    """The description has the README's words, without links and pictures; there is no address."""
    metadata = described(name, "")
    page = (FOLDERS[name] / "README.md").read_text()
    assert not metadata.get_all("Project-URL")
    assert not metadata.get_all("Dynamic")
    assert metadata["Description-Content-Type"] == "text/markdown"
    description = metadata.get_payload()
    assert "](" in page
    assert not [*links(description)]
    assert words(description) == words(page)


@pytest.mark.parametrize("name", FOLDERS)
def test_with_an_address_every_link_is_a_file_of_the_tag(
    name: str, described: Callable[[str, str], Message]
) -> None:
    """Pages as GitHub shows them, the picture as it is stored, and the package's own links."""
    metadata = described(name, f"{REPOSITORY}/")
    page = (FOLDERS[name] / "README.md").read_text()
    found = [link.target for link in links(metadata.get_payload())]
    assert len(found) == len([*links(page)])
    urls = [each.split(", ")[1] for each in metadata.get_all("Project-URL")]
    assert REPOSITORY in urls
    for address in {*found, *urls} - {REPOSITORY}:
        kind = "raw" if address.endswith(".png") else "blob"
        assert (ROOT / address.removeprefix(f"{REPOSITORY}/{kind}/{TAG}/")).is_file(), address


def test_an_address_is_of_https(described: Callable[[str, str], Message]) -> None:
    """Anything else would make relative links."""
    with pytest.raises(subprocess.CalledProcessError):
        described("streameval", "github.example/streameval")
