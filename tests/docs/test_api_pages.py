"""docs/api_pages.py: each public name is on one page of the reference, and no page is long."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

import streameval

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def api_pages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return docs/api_pages.py as a module."""
    pytest.importorskip("sphinx", reason="reads what Sphinx reads")
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("api_pages")


def test_a_class_is_there_with_its_members(api_pages: ModuleType) -> None:
    """Methods, inherited ones, and properties; nothing of a base of Python's own."""
    names = [block.name for block in api_pages.blocks_of("streameval.Evaluator")]
    assert names[0] == "Evaluator"
    assert {"Evaluator.add_cases", "Evaluator.auc_pr", "Evaluator.num_cases"} <= set(names)
    assert len(names) == len(set(names))
    of_errors = [block.name for block in api_pages.blocks_of("streameval.InvalidInputError")]
    assert not [name for name in of_errors if name.endswith("with_traceback")]


def test_no_page_is_long(api_pages: ModuleType) -> None:
    """A part is one block, or at most as many lines as a page has."""
    blocks = api_pages.blocks_of("streameval.Evaluator")
    parts = api_pages.parts(blocks)
    assert [block for part in parts for block in part] == blocks
    assert len(parts) > 5
    long = [part for part in parts if sum(block.lines for block in part) > api_pages.MAX_LINES]
    assert all(len(part) == 1 for part in long)


def test_each_line_of_the_contract_is_on_a_page(api_pages: ModuleType) -> None:
    """Cut between services, messages and enumerations, up to the file's last line."""
    for proto in (DOCS.parent / "proto" / "streameval" / "v1").glob("*.proto"):
        blocks = api_pages.proto_blocks(proto)
        found = [line for each in blocks for line in _numbers(each.directive)]
        assert found == list(range(1, len(proto.read_text().splitlines()) + 1)), proto
        assert all(each.lines <= api_pages.MAX_PROTO_LINES for each in blocks), proto


def _numbers(lines: str) -> range:
    begin, end = map(int, lines.split("-"))
    return range(begin, end + 1)


def test_the_help_of_a_command_is_cut_between_its_commands(api_pages: ModuleType) -> None:
    """Each page has one title, and all pages the whole text."""
    commands = [f"### `streameval admin {name}`\n" + "text\n" * 99 for name in "abc"]
    pages = api_pages.command_pages("## `streameval admin`\n" + "".join(commands))
    assert [page.splitlines()[0] for page in pages] == [
        "# `streameval admin`",
        "# `streameval admin`, page 2",
    ]
    assert "".join(pages).count("text") == 297
    assert all(page.count("\n## ") == many for page, many in zip(pages, (2, 1), strict=True))


def test_every_public_name_of_the_library_is_named() -> None:
    """By a reference page, as an object or by its module."""
    pages = "".join(page.read_text() for page in DOCS.glob("reference-*.md"))
    missing = [
        name
        for name in streameval.__all__
        if not name.startswith("_") and f"<!-- api: streameval.{name} -->" not in pages
    ]
    assert missing == []
