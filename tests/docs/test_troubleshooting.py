"""docs/troubleshooting.md: a remedy for each public error class and each reason of an error."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import streameval
import streameval.client
import streameval_server

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
REFUSALS = (ROOT / "docs" / "refusals.md").read_text()
SOURCES = (ROOT / "server" / "streameval_server", ROOT / "streameval" / "client")
REASON = re.compile(r"[A-Z]+(?:_[A-Z]+)*")


def is_reason(node: ast.expr | None) -> bool:
    """Tell whether an expression is a text that is written as reasons are."""
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and REASON.fullmatch(node.value) is not None
    )


def candidates(node: ast.AST) -> list[ast.expr | None]:
    """Return where a reason stands: an argument or default `reason`, a helper's argument."""
    if isinstance(node, ast.Call):
        is_helper = isinstance(node.func, ast.Name) and node.func.id in {"_exhausted", "_invalid"}
        named: list[ast.expr | None] = [
            each.value for each in node.keywords if each.arg == "reason"
        ]
        return named + (list(node.args) if is_helper else [])
    if isinstance(node, ast.FunctionDef):
        names = [
            each.arg for each in node.args.args[len(node.args.args) - len(node.args.defaults) :]
        ]
        return [
            value for name, value in zip(names, node.args.defaults, strict=True) if name == "reason"
        ]
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        is_own = is_reason(node.value) and ast.literal_eval(node.value) == node.targets[0].id
        return [node.value] if is_own else []
    return []


def every_reason() -> set[str]:
    """Return the reasons that server and client write in their sources."""
    return {
        ast.literal_eval(value)
        for folder in SOURCES
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for value in candidates(node)
        if value is not None and is_reason(value)
    }


def rows(heading: str) -> dict[str, str]:
    """Return the remedy of each name in the first column of a section's table."""
    _, _, section = PAGE.partition(f"\n## {heading}\n")
    found = {}
    for row in re.findall(r"^\| (`.*) \|$", section.partition("\n## ")[0], re.MULTILINE):
        first, *_, remedy = row.split(" | ")
        found |= dict.fromkeys(re.findall(r"`(\w+)`", first), remedy)
    return found


def test_every_public_error_class_has_a_remedy() -> None:
    """Each exception that library, client and server export, and nothing else."""
    exported = {
        name
        for module in (streameval, streameval.client, streameval_server)
        for name in module.__all__
        if isinstance(each := getattr(module, name), type) and issubclass(each, Exception)
    }
    assert {"InvalidInputError", "RowsLostError"} <= exported
    assert set(rows("Error classes")) == exported


def test_every_reason_of_an_error_has_a_remedy() -> None:
    """Reasons of answers without a figure are on the page of refusals."""
    found = every_reason()
    assert {"QUEUE_FULL", "DATA_EXPECTED", "INVALID_MERGE", "BODY_TOO_LONG", "INTERNAL"} <= found
    headings = [
        each for each in re.findall(r"^## (.+)$", PAGE, re.MULTILINE) if "class" not in each
    ]
    remedies = {name: remedy for heading in headings for name, remedy in rows(heading).items()}
    assert found - set(remedies) - set(re.findall(r"`([A-Z_]+)`", REFUSALS)) == set()
    assert set(remedies) - found == set()
    assert min(len(remedy) for remedy in remedies.values()) > 10
