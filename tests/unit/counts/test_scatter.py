"""Counting cells with a table gives the same result as sorting."""

from __future__ import annotations

import numpy as np
import pytest

from streameval._counts import cell_layout as layout
from streameval.kernel import Run, quantise, rank_cells

LARGEST = np.finfo(np.float64).max
EDGES = [0.0, 5e-324, -5e-324, 1e-300, -1e-300, 0.5, -0.5, 1.0, -1.0, LARGEST, -LARGEST]


def panes(kind: str, bits: int, number: int) -> list[Run]:
    """Return runs of cells of one kind of scores."""
    rng = np.random.default_rng(bits + 11)
    scale = "probability" if kind.startswith("probability") else "plain"
    made = []
    for _ in range(number):
        drawn = rng.logistic(size=int(rng.integers(0, 200)))
        if kind == "plain":
            scores = drawn
        elif kind == "plain extremes":
            scores = np.append(drawn * 1e300, rng.choice(EDGES, 6))
        elif kind == "probability":
            scores = 1 / (1 + np.exp(-3 * drawn))
        else:
            scores = np.append(rng.choice([0.0, 5e-324, 0.5, 1 - 2**-53, 1.0], 5), rng.random(9))
        made.append(Run.of(quantise(scores, bits, scale)))
    return made


@pytest.mark.parametrize("kind", ["plain", "plain extremes", "probability", "probability extremes"])
@pytest.mark.parametrize("bits", [-11, 0, 1, 2, 7, 12, 30, 53])
@pytest.mark.parametrize("wide", [True, False])
def test_scores_as_they_came_are_counted_and_ranked_as_by_sorting(kind, bits, wide, monkeypatch):
    """In any order, some with counts, on one side of zero or on both."""
    if wide:
        monkeypatch.setattr(layout, "_MAX_CHEAP_WIDTH", 1 << 18)
    rng = np.random.default_rng(bits + 11)
    scale = "probability" if kind.startswith("probability") else "plain"
    drawn = np.concatenate([run.scores for run in panes(kind, 53, 3)])
    middle = 0.0 if scale == "plain" else 0.5
    for some in (drawn, drawn[drawn < middle], drawn[drawn >= middle], -drawn[drawn == 0.0]):
        if not some.size:
            continue
        scores = rng.permutation(np.repeat(some, 2))
        edges = quantise(scores, bits, scale)
        found, ranks = rank_cells(scores, bits, scale)
        assert np.array_equal(found[ranks], edges)
        assert np.array_equal(found, np.unique(edges))


def test_signs_that_are_too_far_apart_for_a_table():
    """At full precision the gap between negative and positive cells may exceed int64."""
    scores = np.array([-3.0, 3.0])
    edges, ranks = rank_cells(scores, 53, "plain")
    assert (edges.tolist(), ranks.tolist()) == ([-3.0, 3.0], [0, 1])


def test_no_scores_have_no_cells():
    """Also if no table is used."""
    edges, ranks = rank_cells(np.empty(0), 12, "plain")
    assert edges.size == ranks.size == 0
