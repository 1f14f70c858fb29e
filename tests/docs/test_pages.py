"""Every page of the documentation: its examples run, the tests that it names exist.

The examples of a page run in their order, in one namespace and one folder, against a
server without a disk whose address replaces the one in the pages. Python blocks with
prompts and console blocks must print what they show, where `...` matches any text. A
block whose second word names a library needs that library and runs in another test
(test_pages and test_example_pages of tests/golden).
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from streameval_server import Settings
from streameval_server.testing import running_server

from ..pages import Block, blocks
from .test_links import GENERATED

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    {*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/*.md")} - GENERATED
)
ADDRESS = "127.0.0.1:50051"
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def examples(page: Path) -> list[Block]:
    """Return the blocks that run in this module."""
    return [
        block
        for block in blocks(page.read_text())
        if block.language in {"python", "pycon", "console"} and not block.needs
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commands: Path) -> Path:
    """Run in an empty folder, with the command on the path and without its variables."""
    for name in os.environ:
        if name.startswith("STREAMEVAL_") and name != "STREAMEVAL_TEST_REQUIRE":
            monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", f"{commands}:{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", [page for page in PAGES if examples(page)], ids=page_name)
def test_examples(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples run and print what the page shows."""
    names: dict[str, Any] = {"__name__": "page"}
    with running_server(Settings(listen="127.0.0.1:0", memory=True)) as address:
        monkeypatch.setenv("STREAMEVAL_SERVER", address)
        for block in examples(page):
            code = block.code.replace(ADDRESS, address)
            where = f"{page_name(page)}, line {block.line}"
            if block.language == "console":
                _console(code, where, folder)
            elif ">>> " in code:
                _prompt(code, where, names)
            elif block.language == "python":
                exec(compile(code, where, "exec"), names)


def _prompt(code: str, where: str, names: dict[str, Any]) -> None:
    test = doctest.DocTestParser().get_doctest(code, {}, where, where, 0)
    test.globs = names
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    failed, _ = runner.run(test, out=report.append, clear_globs=False)
    assert not failed, "".join(report)


def _console(code: str, where: str, folder: Path) -> None:
    for step in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
        command, expected = _parted(step)
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, f"{where}: {command}\n{done.stdout}"
        if expected.strip():
            same = doctest.OutputChecker().check_output(expected, done.stdout, OPTIONS)
            assert same, f"{where}: {command}\nprinted\n{done.stdout}\nthe page shows\n{expected}"


def _parted(step: str) -> tuple[str, str]:
    """Return a command, with the lines that a backslash joins to it, and its output."""
    lines = step.splitlines(keepends=True)
    end = next(k for k, line in enumerate(lines, 1) if not line.endswith("\\\n"))
    return "".join(lines[:end]), "".join(lines[end:])


def pytest_commands(page: Path) -> list[str]:
    """Return the pytest commands that a page's tables name."""
    return re.findall(r"`(pytest [^`]+)`", page.read_text())


PROMISES = sorted(ROOT.glob("docs/robustness*.md"))


@pytest.mark.parametrize("command", [each for page in PROMISES for each in pytest_commands(page)])
def test_commands_of_robustness_select_tests(command: str) -> None:
    """Each path of a command exists, and some test in it has one of the words after -k."""
    words = shlex.split(command)[1:]
    paths = [ROOT / word for word in words if word.startswith("tests/")]
    assert paths, command
    assert all(path.exists() for path in paths), command
    if "-k" in words:
        wanted = words[words.index("-k") + 1].replace(" or ", " ").split()
        files = [
            file for path in paths for file in ([path] if path.is_file() else path.rglob("*.py"))
        ]
        names = " ".join(re.findall(r"def (test_\w+)", "".join(map(Path.read_text, files))))
        assert any(word in names for word in wanted), command


def promises(page: Path) -> list[tuple[str, str, str]]:
    """Return each promise, its command, and where it runs."""
    rows = re.findall(r"^\| (.+?) \| .+ \| (.+?) \| ([^|]+) \|$", page.read_text(), re.MULTILINE)
    return [row for row in rows if row[0] != "promise"]


def test_every_promise_says_where_it_runs() -> None:
    """In `.ci/run`, in `.ci/nightly`, or both; a command with `nightly` tests says so."""
    rows = [row for page in PROMISES for row in promises(page)]
    assert len(rows) > 60
    for promise, command, where in rows:
        assert re.fullmatch(r"(run|nightly)(: [^;]+)?(; (run|nightly)(: [^;]+)?)?", where), promise
        long = "-m nightly" in command or "python " in command or "or nightly" in command
        assert not long or "nightly" in where, promise


PROMISED = (ROOT / "docs" / "evidence-security.md").read_text()


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(\S+\.py::test_\w+)`", PROMISED))))
def test_tests_of_security_exist(name: str) -> None:
    """Each test that the page names is a function in its file."""
    file, _, function = name.partition("::")
    path = ROOT / "tests" / file
    assert path.is_file()
    assert re.search(rf"^(async )?def {function}\(", path.read_text(), re.MULTILINE)


def test_each_promise_of_security_names_tests() -> None:
    """No row is without one, and each promise of SECURITY.md leads to a section of rows."""
    rows = re.findall(r"^- .+$", PROMISED, re.MULTILINE)
    assert len(rows) > 25
    assert all("::test_" in row for row in rows)
    _, _, promises = (ROOT / "SECURITY.md").read_text().partition("## What is promised\n")
    promised = re.findall(r"^- (.*?:)", promises.partition("\n## ")[0], re.MULTILINE)
    titles = re.findall(r"^## (.+)\n\n- ", PROMISED, re.MULTILINE)
    anchors = [title.lower().replace(" ", "-") for title in titles]
    assert promised == [
        f"[{title}](docs/evidence-security.md#{anchor}):"
        for title, anchor in zip(titles, anchors, strict=True)
    ]
