"""Sums of panes in a table of cells: the same whole as by sorting."""

from __future__ import annotations

import numpy as np
import pytest

from streameval import Evaluator
from streameval._counts import merge
from streameval.kernel import State, merge_states


def panes(seed: int, *, scale: str, max_cells: int | None) -> list[State]:
    """Return panes of several resolutions and sizes, with both signs, ties and misses."""
    rng = np.random.default_rng(seed)
    states = []
    for pane in range(6):
        evaluator = Evaluator(
            resolution=int(rng.choice([5, 9, 12])), scale=scale, max_cells=max_cells
        )
        size = int(rng.choice([1, 30, 400]))
        scores = rng.logistic(size=size) * 4 - 6 * (seed % 3 == 1)
        if scale == "probability":
            scores = 1 / (1 + np.exp(-scores))
        # Cells next to 0 and 1 would make a table of few cells wide.
        scores = np.clip(
            np.round(scores, 3), *((0.01, 0.99) if scale == "probability" else (-40, 40))
        )
        scores[np.abs(scores) < 0.05] = 0.05
        evaluator.add_cases(labels=rng.random(size) < 0.4, scores=scores)
        evaluator.add_misses(pane % 2)
        states.append(evaluator._view())
    return states


@pytest.mark.parametrize("scale", ["plain", "probability"])
@pytest.mark.parametrize("max_cells", [None, 40])
@pytest.mark.parametrize("seed", range(6))
def test_few_scores_that_are_sorted_have_the_sum_of_a_table(
    seed: int, scale: str, max_cells: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit and at the same resolution, of panes at equal and at other resolutions."""
    states = panes(seed, scale=scale, max_cells=max_cells)
    if seed % 2:
        states = [state for state in states if state.resolution == states[0].resolution] * 3
    found = merge_states(states, revision=0)
    monkeypatch.setattr(merge, "_MAX_SORTED_CELLS", 0)
    want = merge_states(states, revision=0)
    found._check()
    assert found.same_content(want)
    assert Evaluator._of(found).to_bytes() == Evaluator._of(want).to_bytes()
    for column in ("scores", "p", "n", "tp", "fp"):
        assert (getattr(found.groups, column) == getattr(want.groups, column)).all()
