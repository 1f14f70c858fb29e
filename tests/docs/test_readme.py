"""The package index shows the README: its links are absolute, and lead to pages of the docs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SITE = PROJECT["urls"]["Documentation"] + "/en/latest/"
LINKS = sorted({match[1] for match in re.finditer(r"\]\(([^)\s]+)\)", README)})
GENERATED = {"reference-commands", "reference-metrics"}


@pytest.mark.parametrize("link", LINKS)
def test_a_link_of_the_readme_is_a_page_of_the_docs(link: str) -> None:
    """Sphinx copies a picture to _images when a page shows it."""
    assert link.startswith("https://")
    if not link.startswith(SITE):
        return
    path, _, anchor = link.removeprefix(SITE).partition("#")
    if path.startswith("_images/"):
        picture = f"images/{path.removeprefix('_images/')}"
        assert (ROOT / "docs" / picture).exists()
        pages = (ROOT / "docs").glob("*.md")
        assert any(f"({picture})" in page.read_text() for page in pages)
        return
    name = path.removesuffix(".html")
    assert name in GENERATED or (ROOT / f"docs/{name}.md").exists()
    if anchor:
        headings = re.findall(r"^#+ (.+)$", (ROOT / f"docs/{name}.md").read_text(), re.MULTILINE)
        assert anchor in {
            re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings
        }


def test_the_links_of_the_package_are_pages() -> None:
    """The same for those that the index shows beside it."""
    for link in PROJECT["urls"].values():
        page = link.removeprefix(PROJECT["urls"]["Documentation"]).removeprefix("/en/latest/")
        assert not page or (ROOT / f"docs/{page.removesuffix('.html')}.md").exists()
