"""The panes of a window as blocks: the same counts, however many panes are counted at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streameval import Evaluator
from streameval._counts import cell_layout, steps
from streameval._counts.cluster_cells import coarse_cells
from streameval._counts.stored_counts import pack
from streameval._uncertainty import pane_cells
from streameval._uncertainty.pane_blocks import PaneBlocks
from streameval.kernel import ScoreCounts, State, StoredCounts, merge_states


def copies(states: list[State]) -> list[State]:
    """Return other states of the same content, without what the first ones keep."""
    return [replace(state, counts=ScoreCounts(*state.counts.runs)) for state in states]


def panes(seed: int, *, is_weighted: bool = False) -> list[State]:
    """Return panes of all kinds: without cases, with misses, ties, both signs, weights."""
    rng = np.random.default_rng(seed)
    found = []
    for pane in range(7):
        evaluator = Evaluator()
        size = int(rng.integers(0, 60)) if pane else 0
        scores = np.round(rng.normal(scale=3, size=size), int(rng.integers(0, 9)))
        labels = rng.random(size) < 0.4
        weights = rng.choice([0.5, 1.0, 2.0], size) if is_weighted and pane > 2 else None
        evaluator.add_cases(labels=labels, scores=scores, weights=weights)
        evaluator.add_misses(pane % 3)
        evaluator.add_negative_misses(pane % 2)
        found.append(evaluator._view())
    return found


def brute_force(states: list[State], unit: int) -> tuple[list[float], np.ndarray, np.ndarray]:
    """Return the cells, best first, and the tables, case by case."""
    rows = []
    for pane, state in enumerate(states):
        for label in (False, True):
            run = state.counts.weighed().run(label)
            scale = 1 if unit > 1 else 1 / 2**16
            for score, units, square in zip(run.scores, run.counts, run.squares(), strict=True):
                edge = float(coarse_cells(np.array([score]), 5)[0][0])
                rows.append((edge, pane, label, units * scale, square * scale**2))
            missed = (state.missed_positives if label else state.missed_negatives) // state.unit
            if missed:
                rows.append((-np.inf, pane, label, missed * unit, missed * unit**2))
    edges = sorted({row[0] for row in rows}, reverse=True)
    counts, squares = np.zeros((2, 2, len(states), len(edges)))
    for edge, pane, label, count, square in rows:
        counts[int(label), pane, edges.index(edge)] += count
        squares[int(label), pane, edges.index(edge)] += square
    return edges, counts, squares


@pytest.mark.parametrize("max_scores", [1, 40, 10_000])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.slow
def test_blocks_are_the_cases_counted_one_by_one(
    seed: int, max_scores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one pass or in several, with panes that are known and panes that are new."""
    monkeypatch.setattr(pane_cells, "_MAX_COUNTED_SCORES", max_scores)
    states = panes(seed, is_weighted=seed % 2 == 1)
    for known in (states[:3], states):
        whole = merge_states(known, revision=0)
        blocks = PaneBlocks.of(whole, known)
        edges, counts, squares = brute_force(known, whole.unit)
        assert blocks.cells.scores.tolist() == edges
        assert blocks.counts.tolist() == counts.tolist()
        if whole.unit > 1:
            assert blocks.squares.tolist() == squares.tolist()
        assert (blocks.cells.P, blocks.cells.N) == (whole.P, whole.N)
        assert np.array_equal(blocks.cells.tp, np.cumsum(blocks.cells.p) - blocks.cells.p)


@pytest.mark.parametrize("scale", ["plain", "probability"])
@pytest.mark.parametrize("batch_cells", [1, 1 << 15])
@pytest.mark.parametrize("is_sparse", [True, False])
@pytest.mark.parametrize("largest", [0.7, 1e9])
def test_packed_panes_have_the_blocks_of_open_ones(
    scale: str, batch_cells: int, is_sparse: bool, largest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several resolutions, beside open ones; none is opened for a table that is not sparse."""
    monkeypatch.setattr(steps, "_BATCH_CELLS", batch_cells)
    if is_sparse:
        monkeypatch.setattr(cell_layout, "_MAX_CHEAP_WIDTH", 0)
        monkeypatch.setattr(cell_layout, "_MAX_PLACES_PER_SCORE", 0)
    rng = np.random.default_rng(batch_cells)
    states = []
    for pane in range(9):
        evaluator = Evaluator(resolution=[12, 12, 7][pane % 3], scale=scale, max_cells=5_000)
        scores = rng.random(pane * 40)
        scores = scores if scale == "probability" else np.exp(8 * scores) - 500 * (pane % 2)
        scores = np.minimum(scores, largest)
        counts = rng.integers(1, 400, scores.size) if pane > 4 else None
        evaluator.add_cases(labels=rng.random(scores.size) < 0.3, scores=scores, counts=counts)
        evaluator.add_misses(pane % 3)
        evaluator.add_negative_misses(pane % 2)
        states.append(evaluator._view())
    whole = merge_states(states, revision=0)
    want = PaneBlocks.of(whole, states)
    packed = copies(states)
    for state in packed[1:]:
        pack(state)
    opened = []
    open_ = StoredCounts.open
    monkeypatch.setattr(StoredCounts, "open", lambda self: opened.append(self) or open_(self))
    found = PaneBlocks.of(whole, packed)
    assert bool(opened) == is_sparse
    assert found.cells.scores.tolist() == want.cells.scores.tolist()
    assert found.counts.tolist() == want.counts.tolist()
