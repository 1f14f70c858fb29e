"""docs/refusals.md names every refusal; a new seed finds the coverage of docs/evidence-map.md."""

from __future__ import annotations

import ast
import os
import re
import secrets
from pathlib import Path

import pytest

from streameval.v1 import pair_pb2, types_pb2

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "refusals.md"
REASON = re.compile(r"[A-Z]+(?:_[A-Z]+)+")
ENUMS = (types_pb2.UndefinedReason, types_pb2.ProjectionRefusal, pair_pb2.PairRefusal)
STATISTICS = ("_uncertainty", "_projection", "_sampling", "_drift", "_breakdown", "_metrics")
NO_REASONS = {"UNKNOWN"}
"""What a client says of a reason that it does not know."""


def reasons_of(path: Path) -> set[str]:
    """Return the texts of a module that are written as reasons are, and members of enums."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
        if isinstance(node, ast.ClassDef) and node.name.endswith(("Reason", "Refusal")):
            targets = [each.targets[0] for each in node.body if isinstance(each, ast.Assign)]
            found |= {each.id for each in targets if isinstance(each, ast.Name)}
    return {each for each in found if REASON.fullmatch(each)}


def every_reason() -> set[str]:
    """Return what the contract, the library and the queries of the server give as a reason."""
    found = set()
    for enum in ENUMS:
        names = enum.keys()
        prefix = names[0].removesuffix("UNSPECIFIED")
        found |= {name.removeprefix(prefix) for name in names} - {"UNSPECIFIED"}
    folders = [ROOT / "streameval" / each for each in STATISTICS]
    for folder in (*folders, ROOT / "server" / "streameval_server" / "_queries"):
        for path in folder.rglob("*.py"):
            found |= reasons_of(path)
    return found - NO_REASONS


def test_the_page_names_every_reason_of_a_refusal() -> None:
    found = every_reason()
    assert {"TOO_FEW_EFFECTIVE", "FIT_FAILED", "SELECTIONS_OVERLAP", "NO_LABELS"} <= found
    named = set(re.findall(r"`([A-Z_]+)`", PAGE.read_text()))
    assert found - named == set()
    assert named - found == set()


CELLS = (
    "areas: equal, d=1, 200 at 0.05",
    "areas: Student 3 df, d=3, 200 at 0.5",
    "rates: recall 0.98, fpr 0.002, 50 at 0.5",
    "calibration: beta 2,6, odds times 1.3, 300",
    "clusters: 50 clusters, log-normal, larger",
    "weights: below a score one in eight, 400 at 0.05",
    "differences: equal, d=1, 400 at 0.02",
    "pairs: half a percent of positives sink, 200 at 0.5",
    "falls: eight times as much at the end, 5 positives at 0.1",
)
REPLICATES = 400
CHANCE = 1e-5
"""Of a failure where every figure covers 0.93 exactly."""


@pytest.mark.heavy
def test_a_third_seed_finds_the_coverage(monkeypatch: pytest.MonkeyPatch) -> None:
    stats = pytest.importorskip("scipy.stats", reason="truths are integrals")
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    truth_map = __import__("truth_map")
    seed = int(os.environ.get("STREAMEVAL_TEST_MAP_SEED") or secrets.randbits(32))
    rows = [
        row
        for name in CELLS
        for cell in truth_map.cells_of(name)
        for row in truth_map.measure(cell, seed, REPLICATES, 0)
    ]
    assert {row.part for row in rows} == {name.partition(":")[0] for name in CELLS}
    low = []
    for row in rows:
        answers = round(row.replicates * (1 - row.refused))
        missed = round((1 - row.coverage) * answers) if answers else 0
        chance = stats.binom.sf(missed - 1, answers, 1 - truth_map.MIN_COVERAGE) if missed else 1
        if chance < CHANCE / len(rows):
            low.append(f"{row.figure} of {row.part}: {row.cell}: {missed} of {answers} missed")
    assert low == [], f"STREAMEVAL_TEST_MAP_SEED={seed}"
