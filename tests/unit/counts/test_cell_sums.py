"""Sums of states in a table: the same as by sorting, at the same resolution, with their ranks."""

from __future__ import annotations

import numpy as np
import pytest

from streameval import Evaluator
from streameval._counts import cell_layout as layout
from streameval._counts import steps
from streameval._counts.cell_sums import CellSums, sum_cells
from streameval._counts.codec import encode_evaluator
from streameval._counts.resolution import largest_bits
from streameval._counts.run import merge_runs
from streameval._counts.state import Declared, at_resolution
from streameval.kernel import Run, ScoreCounts, State, StoredCounts, quantise

LARGEST = np.finfo(np.float64).max
EDGES = [0.0, 5e-324, -5e-324, 1e-300, -1e-300, 0.5, -0.5, 1.0, -1.0, LARGEST, -LARGEST]
KINDS = ["plain", "plain extremes", "below zero", "probability", "probability extremes"]


def drawn(kind: str, rng: np.random.Generator, size: int) -> np.ndarray:
    """Return scores of one kind."""
    scores = rng.logistic(size=size)
    if kind == "plain":
        return scores
    if kind == "plain extremes":
        return np.append(scores * 1e300, rng.choice(EDGES, 6))
    if kind == "below zero":
        return -np.exp(scores)
    if kind == "probability":
        return 1 / (1 + np.exp(-3 * scores))
    return np.append(rng.choice([0.0, 5e-324, 0.5, 1 - 2**-53, 1.0], 5), rng.random(9))


def panes(kind: str, bits: list[int], sizes: list[int]) -> list[tuple[ScoreCounts, int]]:
    """Return counts of cells, some of several cases, with their resolutions."""
    rng = np.random.default_rng(sum(bits) + sum(sizes))
    scale = "probability" if kind.startswith("probability") else "plain"
    made = []
    for own_bits, size in zip(bits, sizes, strict=True):
        runs = []
        for share in (1.0, 0.2):
            scores = quantise(drawn(kind, rng, int(share * size)), own_bits, scale)
            counts = rng.integers(1, 400, scores.size) if own_bits % 2 else None
            runs.append(Run.of(scores, counts) if scores.size else Run.EMPTY)
        made.append((ScoreCounts(runs[1], runs[0]), own_bits))
    return made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [[12] * 9, [9, 12, 11, 10, 9, 12], [1, 2, 3], [30, 31, 53, 52]])
@pytest.mark.parametrize("size", [1, 300])
@pytest.mark.parametrize("batch_cells", [1, 300, 1 << 15])
def test_a_table_has_the_sum_of_sorting(
    kind: str, bits: list[int], size: int, batch_cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packed or open, one by one or many in a pass, of any resolutions; to the bit."""
    monkeypatch.setattr(steps, "_BATCH_CELLS", batch_cells)
    monkeypatch.setattr(layout, "_MAX_CHEAP_WIDTH", 1 << 19)
    scale = "probability" if kind.startswith("probability") else "plain"
    parts = panes(kind, bits, [max(1, size - 7 * index) for index in range(len(bits))])
    least = min(bits)
    whole = [
        merge_runs([at_resolution(getattr(each, name), least, scale) for each, _ in parts])
        for name in ("positives", "negatives")
    ]
    closed = [
        StoredCounts(
            encode_evaluator(State(each, resolution=bits, declared=Declared(scale)), steps=True)
        )
        for each, bits in parts
    ]
    assert None not in closed
    packed = [(each, own_bits) for each, (_, own_bits) in zip(closed, parts, strict=True)]
    mixed = [*packed[::2], *parts[1::2]]
    for some in (parts, packed, mixed):
        sums = sum_cells(some, least, scale)
        if sums is None:
            assert "extremes" in kind or max(bits) > 12
            continue
        counts = sums.counts(scale)
        counts._check()
        assert State(counts=counts).same_content(State(counts=ScoreCounts(*whole)))
        for max_cells in (1, 3, 50, 1_000):
            edges = [run.scores for run in whole]
            fitting = largest_bits(*edges, least, max_cells, scale)
            fitted = sums.fitted(max_cells)
            assert (fitted is None) == (fitting < 1)
            if fitted is not None:
                assert fitted.bits == fitting
                fitted.counts(scale)._check()
                lower = ScoreCounts(*(at_resolution(run, fitting, scale) for run in whole))
                assert State(counts=fitted.counts(scale)).same_content(State(counts=lower))


def test_the_lowest_double_keeps_its_own_cell() -> None:
    """It is the edge of a cell whose floor is -inf, and shares no cell with its neighbour."""
    scores = quantise(np.array([-LARGEST, -1.75 * 2.0**1023, -(2.0**1023)]), 3)
    assert len(set(scores.tolist())) == 3
    sums = CellSums.of([ScoreCounts(Run.of(scores))] * 4, 3, "plain")
    assert sums is not None
    found = sums.counts("plain").positives
    assert found.scores.tolist() == sorted(scores.tolist())
    assert found.counts is not None
    assert found.counts.tolist() == [4, 4, 4]


def test_states_too_far_apart_for_a_table_are_sorted() -> None:
    """At full precision the gap between negative and positive cells may exceed int64."""
    counts = ScoreCounts(Run.of(np.array([-3.0, 3.0])))
    assert sum_cells([(counts, 53)] * 3, 53, "plain") is None
    merged = Evaluator(resolution=53)
    for _ in range(3):
        merged.merge(Evaluator(resolution=53))
    other = Evaluator(resolution=53)
    other.add_cases(labels=[1, 1], scores=[-3.0, 3.0])
    merged.merge(other, other, other)
    run = merged._view().counts.positives
    assert (run.scores.tolist(), run.multiplicities().tolist()) == ([-3.0, 3.0], [3, 3])


def test_sums_without_cells() -> None:
    """Of empty states, or with one class only."""
    assert sum_cells([(ScoreCounts(), 12)] * 3, 12, "plain") is None
    one = ScoreCounts(negatives=Run.of(np.array([0.5])))
    sums = sum_cells([(one, 12), (ScoreCounts(), 12)], 12, "plain")
    assert sums is not None
    assert (sums.counts("plain").total, sums.counts("plain").known_ranks) == (1, None)
