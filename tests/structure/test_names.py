"""Names that are spelled in one way in the whole project."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path
    for package in ("streameval", "server")
    for path in (ROOT / package).rglob("*.py")
    if not path.stem.endswith(("_pb2", "_pb2_grpc"))
)


def _unsuffixed(tree: ast.Module) -> list[str]:
    """Return parameters, variables and fields that are timeouts and do not end in `_s`."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        else:
            continue
        if name.lower().endswith("timeout"):
            found.append(f"line {node.lineno}: {name}")
    return found


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("def flush(self, timeout: float): ...", ["line 1: timeout"]),
        ("EXIT_TIMEOUT = 2.0", ["line 1: EXIT_TIMEOUT"]),
        ("def flush(self, timeout_s: float): wait(timeout=timeout_s)", []),
    ],
)
def test_the_check_sees_a_timeout_without_its_unit(source: str, wrong: list[str]) -> None:
    assert _unsuffixed(ast.parse(source)) == wrong


def test_timeouts_say_their_unit() -> None:
    """A timeout is `timeout_s`, or ends so: seconds, in Python, in options and in files."""
    wrong = {
        str(path.relative_to(ROOT)): found
        for path in SOURCES
        if (found := _unsuffixed(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert len(SOURCES) > 200
    assert wrong == {}
