"""The bytes of every version stay readable, and are still what is written."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from streameval import Evaluator

DATA = Path(__file__).parent / "data"
STATE_TOOL = Path(__file__).parents[2] / "examples" / "node" / "state.mjs"
DECODED = ("exact", "other", "sum", "probability")


def exact() -> Evaluator:
    """Scores of both widths, repeated, of both classes, and misses."""
    ev = Evaluator()
    scores = np.arange(-12, 28) / 8
    ev.add_cases(labels=scores > 1, scores=scores)
    ev.add_cases(labels=[1, 0, 0], scores=[0.1, 0.1, 0.3], counts=[7, 70_000, 1])
    ev.add_misses(3)
    ev.add_negative_misses(4)
    return ev


def bounded() -> Evaluator:
    """Cells of the plain scale, with a cap that drops bits."""
    ev = Evaluator(resolution=12, max_cells=20)
    scores = np.sin(np.arange(400))
    ev.add_cases(labels=np.arange(400) % 7 == 0, scores=scores)
    return ev


def probability() -> Evaluator:
    """Cells of the probability scale."""
    ev = Evaluator(resolution=3, scale="probability")
    ev.add_cases(labels=np.arange(100) > 60, scores=np.arange(100) / 99)
    return ev


@pytest.mark.parametrize("make", [exact, bounded, probability])
def test_golden_states(make):
    """The bytes of version 0.1 are readable, equal to today's, and written again."""
    data = (DATA / f"state-1-{make.__name__}.bin").read_bytes()
    ev = make()
    assert Evaluator.from_bytes(data) == ev
    assert ev.to_bytes() == data


def test_golden_state_with_clusters():
    """Format 2: clusters of every type of key, misses of both classes, edges on both scales."""
    ev = Evaluator(cluster_groups=32)
    scores = np.arange(-20, 40) / 16
    ev.add_cases(labels=scores > 1, scores=scores, clusters=np.arange(60) // 4)
    ev.add_cases(
        labels=[1, 0, 0],
        scores=[0.999, 0.1, 3e8],
        counts=[7, 70_000, 1],
        clusters=["ann", "bo", "zoë"],
    )
    ev.add_misses(3, cluster=b"ann")
    ev.add_negative_misses(4, cluster=-17)
    data = (DATA / "state-2-clusters.bin").read_bytes()
    assert Evaluator.from_bytes(data) == ev
    assert ev.to_bytes() == data


def golden(name: str) -> bytes:
    """Return the bytes of a golden file."""
    return (DATA / f"state-1-{name}.bin").read_bytes()


@pytest.mark.parametrize("name", DECODED)
def test_golden_files_contain_what_their_json_says(name):
    """An evaluator that counts the rows of the JSON has the bytes of the file."""
    found = json.loads((DATA / f"state-1-{name}.json").read_text())
    ev = Evaluator(resolution=found["resolution"], scale=found["scale"])
    for label, column in ((1, "positives"), (0, "negatives")):
        scores, counts = zip(*found[column], strict=True)
        ev.add_cases(labels=[label] * len(scores), scores=scores, counts=counts)
    ev.add_misses(found["missedPositives"])
    ev.add_negative_misses(found["missedNegatives"])
    assert ev.to_bytes() == golden(name)


def test_the_golden_sum():
    """It is the merge of the other two."""
    ev = Evaluator.from_bytes(golden("exact"))
    ev.merge(Evaluator.from_bytes(golden("other")))
    assert ev.to_bytes() == golden("sum")


def add_by_node(node: str, into: Path, *names: str) -> subprocess.CompletedProcess[str]:
    """Add golden states in Node."""
    paths = [str(DATA / f"state-1-{name}.bin") for name in names]
    return subprocess.run(
        [node, str(STATE_TOOL), str(into), *paths],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("names", [[name] for name in DECODED] + [["other", "exact"]])
def test_another_language_writes_the_same_bytes(names, tmp_path, require_command):
    """Node decodes, adds and encodes: one state is unchanged, two are the sum."""
    into = tmp_path / "sum.bin"
    done = add_by_node(require_command("node"), into, *names)
    assert (done.returncode, done.stderr) == (0, "")
    assert into.read_bytes() == golden(names[0] if len(names) == 1 else "sum")


def test_another_language_refuses_what_does_not_add_up(tmp_path, require_command):
    """Another resolution; a state that may have to drop bits."""
    node, into = require_command("node"), tmp_path / "sum.bin"
    assert "resolution differs" in add_by_node(node, into, "exact", "probability").stderr
    assert "max_cells" in add_by_node(node, into, "bounded").stderr
    assert not into.exists()
