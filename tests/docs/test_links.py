"""Links and pictures of all Markdown pages lead to files and headings; addresses exist.

An absolute address leads to a site in `SITES`, to a name that is reserved for examples, or
to this machine: no test asks the network, so a new site is added here by who has opened it.
"""

from __future__ import annotations

import re
import subprocess
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt

from ..conftest import refuse
from ..distributions import ROOT, TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Generated from help texts and the metric registry when the site is built.
GENERATED = {ROOT / "docs" / f"reference-{name}.md" for name in ("commands", "metrics")}
SITES = {
    "cloudevents.io",
    "creativecommons.org",
    "en.wikipedia.org",
    "github.com",
    "google.aip.dev",
    "grpc.io",
    "jmespath.org",
    "json-schema.org",
    "matplotlib.org",
    "maven.apache.org",
    "prometheus.io",
    "protobuf.dev",
    "purl.org",
    "semver.org",
    "www.apache.org",
    "www.contributor-covenant.org",
    "www.sqlite.org",
    "www.standardwebhooks.com",
    "www.w3.org",
}
# At github.com, where a site is what an owner has.
OWNERS = {
    "cloudevents",
    "confluentinc",
    "grpc-ecosystem",
    "kserve",
    "numpy",
    "triton-inference-server",
}
# Reserved by RFC 2606 and RFC 5737, or without a dot: a name of this machine or of a cluster.
RESERVED = re.compile(
    r"(.+\.)?example(\.org|\.com)?|127\.\d+\.\d+\.\d+|192\.0\.2\.\d+|[\w-]+|streameval\.evaluation"
)
ADDRESS = re.compile(r"https?://(?:\w+:\w+@)?(\w(?:[\w.-]*\w)?)(?::\d+)?(/[\w.-]+)?")
OURS = {
    each[0] for each in ADDRESS.finditer(TABLES["streameval"]["tool"]["streameval"]["repository"])
}
MARKDOWN = MarkdownIt("commonmark").enable("table")


class Link(NamedTuple):
    """Where a link or a picture of a page leads, and its heading there."""

    target: str
    anchor: str


def links(page: str) -> Iterator[Link]:
    """Yield the links and pictures of a page's text, also of tables and of HTML."""
    for token in (
        each for block in MARKDOWN.parse(page) for each in (block, *(block.children or ()))
    ):
        found = [token.attrs.get("href"), token.attrs.get("src")]
        if token.type.startswith("html_"):
            found += re.findall(r"(?:href|src)=\"([^\"]*)\"", token.content)
        for address in filter(None, found):
            target, _, anchor = unquote(str(address)).partition("#")
            yield Link(target, anchor)


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site's builder make them."""
    tokens = MARKDOWN.parse(page.read_text())
    found = set()
    for opening, title in pairwise(tokens):
        # The site has no deeper ones (`myst_heading_anchors`).
        if opening.type == "heading_open" and opening.tag in {"h1", "h2", "h3"}:
            text = "".join(each.content for each in title.children or ())
            found.add(re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-"))
    return found


def is_broken(page: Path, link: Link) -> bool:
    """Whether a relative link of a page leads to no file, or to no heading of it."""
    target = (page.parent / link.target).resolve() if link.target else page
    if target in GENERATED:
        return False
    if not target.exists() or not target.is_relative_to(ROOT):
        return True
    return bool(link.anchor) and link.anchor not in anchors(target)


def is_unknown(host: str, path: str) -> bool:
    """Whether an address leads to a site that is neither known nor reserved."""
    if host == "github.com":
        return path.removeprefix("/") not in OWNERS
    return host not in SITES and not RESERVED.fullmatch(host)


def read(path: Path) -> str:
    """Return the text of a file, none of a picture."""
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return ""


@pytest.fixture(scope="module")
def files(require_command: Callable[[str], str]) -> list[Path]:
    """Return the files of the repository."""
    command = [require_command("git"), "-C", ROOT, "ls-files", "-co", "--exclude-standard", "-z"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        refuse("this tree is not a clone")
    paths = [ROOT / name for name in filter(None, done.stdout.split("\0"))]
    return [path for path in paths if path.is_file()]


def test_links_lead_to_files_and_headings(files: list[Path]) -> None:
    """Each relative link and picture of each page."""
    found = [
        (page, link)
        for page in files
        if page.suffix == ".md"
        for link in links(page.read_text())
        if not re.match(r"[a-z]+:", link.target)
    ]
    assert len(found) > 300
    assert not [(str(page), link) for page, link in found if is_broken(page, link)]


def test_addresses_lead_to_sites_that_exist(files: list[Path]) -> None:
    """Each absolute address in pages, sources, messages and files for operators."""
    found = [
        (path, match)
        for path in files
        if path.name != "package-lock.json" and "vendor" not in path.parts  # written by others
        for match in ADDRESS.finditer(read(path))
    ]
    assert len(found) > 100
    unknown = {(str(path), each[0]) for path, each in found if is_unknown(*each.groups(""))}
    assert not {(path, address) for path, address in unknown if address not in OURS}


def test_pages_that_sources_name_exist(files: list[Path]) -> None:
    """Messages, docstrings and comments name a page by its path."""
    named = {
        page
        for path in files
        if path.suffix != ".md"
        for page in re.findall(r"\bdocs/[\w-]+\.md\b", read(path))
    }
    assert len(named) > 20
    assert not [page for page in {ROOT / page for page in named} - GENERATED if not page.exists()]


@pytest.mark.parametrize(
    "place",
    ["streameval.readthedocs.io/en/latest/", "streameval.dev", "github.com/streameval/streameval"],
)
def test_an_address_of_ours_that_does_not_exist_is_refused(place: str) -> None:
    """The project has no site; its repository's address is a setting, which is empty."""
    match = ADDRESS.match(f"https://{place}")
    assert match
    assert is_unknown(*match.groups(""))


@pytest.mark.parametrize(
    "page", ["[x](gone.md)", "![x](../gone.png)", "[x](#gone)", "[x](why.md#gone)"]
)
def test_a_link_to_nothing_is_broken(page: str) -> None:
    """A missing file, picture or heading."""
    (link,) = links(page)
    assert is_broken(ROOT / "docs" / "index.md", link)
