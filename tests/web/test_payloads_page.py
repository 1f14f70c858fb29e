"""docs/payloads.md, docs/mappings.md: what mappings extract, and what the commands print."""

from __future__ import annotations

import doctest
import re
import shlex
import sys
from dataclasses import fields, replace
from pathlib import Path
from subprocess import check_output
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("jmespath", reason="needs the extra payloads")
pytest.importorskip("typer", reason="needs the extra cli")
from streameval.payloads import PRESETS, PayloadMapping, Reason
from streameval_server import configure
from streameval_server._payloads.intake import STORE
from streameval_server.testing import running_service

from ..pages import codes

if TYPE_CHECKING:
    from collections.abc import Callable

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "payloads.md").read_text(encoding="utf-8")
REFERENCE = (DOCS / "mappings.md").read_text(encoding="utf-8")


def keys_of(section: str) -> set[str]:
    """Return the names in the first column of a section's tables."""
    _, _, text = REFERENCE.partition(f"\n## {section}\n")
    text, _, _ = text.partition("\n## ")
    cells = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w[\w-]*)`", cell)}


@pytest.mark.parametrize(
    ("mappings", "sample", "console", "count"),
    [("mappings", "response", "payloads", 4), ("otlp", "record", "otlp", 1)],
)
def test_its_commands_print_what_it_shows(
    tmp_path: Path,
    require_command: Callable[[str], str],
    *,
    mappings: str,
    sample: str,
    console: str,
    count: int,
) -> None:
    """In order, against a server with the page's own configuration; `...` matches any text."""
    require_command("curl")
    checker = doctest.OutputChecker()
    (configuration,), (content,) = codes(PAGE, "toml", mappings), codes(PAGE, "json", sample)
    (tmp_path / "streameval.toml").write_text(configuration)
    (tmp_path / f"{sample}.json").write_text(content)
    made = configure({}, config=tmp_path / "streameval.toml", environment={}).settings
    steps = re.findall(
        r"^\$ (.*)\n((?:(?!\$ ).*\n)*)",
        "".join(codes(PAGE, "console", console)),
        re.MULTILINE,
    )
    steps = [(command, shown) for command, shown in steps if not command.startswith("pip ")]
    assert len(steps) == count
    with running_service(replace(made, listen="127.0.0.1:0", memory=True)) as addresses:
        assert addresses.http is not None
        for command, shown in steps:
            here = command.replace("http://127.0.0.1:8080", addresses.http)
            python = shlex.quote(sys.executable)
            here = re.sub(r"^streameval ", f"COLUMNS=100 {python} -m streameval ", here)
            printed = check_output(["sh", "-c", here], cwd=tmp_path, text=True, timeout=30)
            options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            assert checker.check_output(shown, f"{printed.rstrip()}\n", options), printed


def test_its_intake_is_one(tmp_path: Path) -> None:
    """The section's example is a configuration."""
    (intake,) = codes(PAGE, "toml", "intake")
    file = tmp_path / "streameval.toml"
    file.write_text(intake)
    made = configure({}, config=file, environment={}).settings
    assert (made.intake, made.intake_streams) == ("0.0.0.0:8081", ("fraud",))


def test_its_tables_are_complete() -> None:
    """Every key of a mapping, every preset, every reason."""
    keys = {each.name.rstrip("_") for each in fields(PayloadMapping) if each.init}
    assert keys_of("Mappings") == {*keys, "preset"}
    assert keys_of("Presets") == set(PRESETS)
    assert keys_of("Requests and answers") == {*(each.value for each in Reason), STORE}
