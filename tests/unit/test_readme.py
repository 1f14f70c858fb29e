"""The README's snippets run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="needs the extras client and server")
from streameval_server.testing import running_server

README = Path(__file__).parents[2] / "README.md"
ADDRESS = "127.0.0.1:50051"


def test_python_snippets_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Every Python snippet runs, in order, against a server where one is named."""
    snippets = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(snippets) >= 3
    names: dict[str, object] = {}
    with running_server() as address:
        for number, snippet in enumerate(snippets):
            code = compile(snippet.replace(ADDRESS, address), f"README snippet {number}", "exec")
            exec(code, names)
    figures = [float(word) for word in capsys.readouterr().out.split()]
    assert len(figures) == 5
    assert all(0 < figure <= 1 for figure in figures)


def test_files_that_it_names_exist() -> None:
    """Relative links of the README lead somewhere."""
    links = re.findall(r"\]\((?!http)([^)]+)\)", README.read_text())
    assert links
    missing = [link for link in links if not (README.parent / link).exists()]
    assert not missing
