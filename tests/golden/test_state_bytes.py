"""The bytes of every version stay readable, and are still what is written."""

from __future__ import annotations

import json
import math
import struct
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest

from streameval import Evaluator
from streameval._counts.codec import encode_evaluator

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


def clusters() -> Evaluator:
    """Clusters of every type of key, misses of both classes, edges on both scales."""
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
    return ev


def weights() -> Evaluator:
    """Weights of both classes: of several cases a score, and of one; tiny and great ones."""
    ev = Evaluator()
    scores = np.arange(-12, 28) / 8
    ev.add_cases(labels=scores > 1, scores=scores, weights=(np.arange(40) + 1) / 8)
    ev.add_cases(
        labels=[1, 1, 1, 1], scores=[0.1, 0.1, 3.0, 5e300], weights=[2.0**-16, 70_000.5, 1.5, 2e9]
    )
    ev.add_cases(labels=[1, 0], scores=[0.25, 0.3], label_probability=[0.1, 0.3])
    ev.add_misses(3)
    ev.add_negative_misses(4)
    return ev


def weighted_cells() -> Evaluator:
    """Weights in cells of the probability scale, with a cap that drops bits."""
    ev = Evaluator(resolution=12, scale="probability", max_cells=20)
    places = np.arange(400)
    ev.add_cases(
        labels=places % 7 == 0, scores=places / 399, label_probability=(places % 5 + 1) / 8
    )
    return ev


STATES = (exact, bounded, probability, clusters, weights, weighted_cells)
CELLS = (bounded, probability, weighted_cells)


def write() -> None:
    """Write the golden files; the JSON of some stays as it is."""
    for name in DECODED:
        path_of(name).write_bytes(decoded(name).to_bytes())
    for make in STATES:
        path_of(make.__name__).write_bytes(make().to_bytes())
    for make in CELLS:
        steps = encode_evaluator(make()._view(), steps=True)
        path_of(f"{make.__name__}-steps").write_bytes(steps)


@pytest.mark.parametrize("make", STATES)
def test_golden_states(make):
    """The bytes of format 1 are readable, equal to today's, and written again."""
    data = golden(make.__name__)
    ev = make()
    assert Evaluator.from_bytes(data) == ev
    assert ev.to_bytes() == data


@pytest.mark.parametrize("make", CELLS)
def test_golden_states_as_steps(make):
    """A server's panes are written so; every reader takes them for the same state."""
    data = golden(f"{make.__name__}-steps")
    ev = make()
    assert Evaluator.from_bytes(data) == ev
    assert encode_evaluator(ev._view(), steps=True) == data


def unpacked(data: bytes, *fields: str) -> tuple[list[tuple], int]:
    """Return columns of one format of struct each, `count x type`, and the bytes taken."""
    at, found = 0, []
    for field in fields:
        found.append(struct.unpack_from(f"<{field}", data, at))
        at += struct.calcsize(f"<{field}")
    return found, at


def test_the_page_describes_weights():
    """A reader that knows docs/state-format.md alone finds the sums of the cases' weights."""
    data = golden("weights")
    (head, positives, negatives), at = unpacked(data, "4sHBbiii", "ii4B", "ii4B")
    assert head == (b"SVEE", 1, 4, 0, 0, 3, 4)
    assert struct.unpack("<I", data[-4:]) == (zlib.crc32(data[:-4]),)
    found = []
    for label, (size, total, *widths) in ((1, positives), (0, negatives)):
        types = ("", "B", "H", "", "I", "", "", "", "Q")
        scores, cases, units, high = (
            f"{size}{letter}" if letter else "0s"
            for letter in ({4: "f", 8: "d"}[widths[0]], *(types[width] for width in widths[1:]))
        )
        rests = f"{size}q" if widths[3] else "0s"
        columns, used = unpacked(data[at:], scores, cases, units, high, rests)
        at += used
        assert total == (sum(columns[1]) if widths[1] else size)
        for place, score in enumerate(columns[0]):
            number, sum_of_units = columns[1][place] if widths[1] else 1, columns[2][place]
            square = (columns[3][place] << 48) + columns[4][place] if widths[3] else sum_of_units**2
            found.append((label, score, number, sum_of_units, square))
    assert at == len(data) - 4
    scores = np.arange(-12, 28) / 8
    rows = [(score > 1, score, (place + 1) / 8) for place, score in enumerate(scores.tolist())]
    rows += [(1, 0.1, 2.0**-16), (1, 0.1, 70_000.5), (1, 3.0, 1.5), (1, 5e300, 2e9)]
    rows += [(1, 0.25, 10.0), (0, 0.3, round(65_536 / 0.3) / 65_536)]
    sums: dict[tuple[int, float], list[int]] = {}
    for label, score, weight in rows:
        entry = sums.setdefault((int(label), score), [0, 0, 0])
        units_of_row = int(weight * 65_536)
        for place, value in enumerate((1, units_of_row, units_of_row**2)):
            entry[place] += value
    expected = [(*key, *sums[key]) for key in sums]
    assert sorted(found) == sorted(expected)


def test_the_page_describes_clusters():
    """A reader that knows docs/state-format.md alone finds the groups' rows of the table."""
    data = golden("clusters")
    (head, *classes, table), at = unpacked(data, "4sHBbiii", "ii4B", "ii4B", "HqB")
    assert (head[:3], table[0], table[2]) == ((b"SVEE", 1, 8), 32, 4)
    assert struct.unpack("<I", data[-4:]) == (zlib.crc32(data[:-4]),)
    at += sum(size * (scores + cases) for size, _, scores, cases, *_ in classes)
    whole, size = Evaluator.from_bytes(data), table[1]
    (edges, codes, counts), used = unpacked(data[at:], f"{size}d", f"{size}H", f"{size}I")
    assert at + used == len(data) - 4
    rows = list(zip(edges, codes, counts, strict=True))
    assert rows == sorted(rows)
    added = [sum(count for _, code, count in rows if code % 2 == label) for label in (0, 1)]
    assert added == [whole.num_negative_ref, whole.num_positive_ref]
    # The positives that were never scored are ann's: SplitMix64's mix of her key's CRC-32.
    key = (zlib.crc32(b"ann") + 0x9E3779B97F4A7C15) % 2**64
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        key = (key ^ key >> shift) * factor % 2**64
    assert (-math.inf, 2 * (key % 32) + 1, 3) in rows


def path_of(name: str) -> Path:
    """Return where the golden file of a state is."""
    return DATA / f"state-1-{name.replace('_', '-')}.bin"


def golden(name: str) -> bytes:
    """Return the bytes of a golden file."""
    return path_of(name).read_bytes()


def decoded(name: str) -> Evaluator:
    """Return an evaluator that counts the rows of a golden JSON."""
    found = json.loads((DATA / f"state-1-{name}.json").read_text())
    ev = Evaluator(resolution=found["resolution"], scale=found["scale"])
    for label, column in ((1, "positives"), (0, "negatives")):
        scores, counts = zip(*found[column], strict=True)
        ev.add_cases(labels=[label] * len(scores), scores=scores, counts=counts)
    ev.add_misses(found["missedPositives"])
    ev.add_negative_misses(found["missedNegatives"])
    return ev


@pytest.mark.parametrize("name", DECODED)
def test_golden_files_contain_what_their_json_says(name):
    assert decoded(name).to_bytes() == golden(name)


def test_the_golden_sum():
    """It is the merge of the other two."""
    ev = Evaluator.from_bytes(golden("exact"))
    ev.merge(Evaluator.from_bytes(golden("other")))
    assert ev.to_bytes() == golden("sum")


def add_by_node(node: str, into: Path, *names: str) -> subprocess.CompletedProcess[str]:
    """Add golden states in Node."""
    paths = [str(DATA / f"state-{name}.bin") for name in names]
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
    done = add_by_node(require_command("node"), into, *(f"1-{name}" for name in names))
    assert (done.returncode, done.stderr) == (0, "")
    assert into.read_bytes() == golden(names[0] if len(names) == 1 else "sum")


def test_another_language_refuses_what_does_not_add_up(tmp_path, require_command):
    """Another resolution; a state that may have to drop bits."""
    node, into = require_command("node"), tmp_path / "sum.bin"
    assert "resolution differs" in add_by_node(node, into, "1-exact", "1-probability").stderr
    assert "max_cells" in add_by_node(node, into, "1-bounded").stderr
    assert not into.exists()


@pytest.mark.parametrize(
    ("name", "what"),
    [("clusters", "clusters"), ("weights", "weights"), ("probability-steps", "steps")],
)
def test_another_language_names_what_it_does_not_read(name, what, tmp_path, require_command):
    """Groups of clusters, or weights, are not dropped: the state is refused by name."""
    into = tmp_path / "sum.bin"
    done = add_by_node(require_command("node"), into, f"1-{name}")
    assert f"a state with {what} is not read here" in done.stderr
    assert not into.exists()
