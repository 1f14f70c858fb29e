"""States merged into a tally: those that wait give the same bytes as one merge each."""

from __future__ import annotations

import numpy as np
import pytest

from streameval import Evaluator
from streameval._counts.codec import encode_evaluator
from streameval.kernel import ScoreCounts, State, Tally, UnsortedCases, merge_states
from streameval_server._state.counting.empty_counts import empty_counts

CASES = 120
CELLS = (64, 1_000, 1 << 18)


def sent(rng: np.random.Generator, scale: str, *, weighted: bool = False) -> State:
    """Return a state of some cases and misses, exact or in cells."""
    bits = int(rng.choice([0, 3, 8, 12])) or None
    evaluator = Evaluator(resolution=bits, scale=scale if bits else None)
    size = int(rng.integers(0, CASES))
    scores = rng.random(size).round(int(rng.integers(1, 9)))
    weights = rng.integers(1, 4, size) / 2 if weighted and size else None
    labels = rng.random(size) < 0.3
    evaluator.add_cases(labels=labels, scores=scores, weights=weights)
    if rng.random() < 0.3:
        evaluator.add_misses(2)
        evaluator.add_negative_misses(1)
    return evaluator._view()


def merged(state: State, other: State) -> State:
    """Return the sum, by one merge of the library."""
    other = other.redeclared(max_cells=state.max_cells, scale=state.scale)
    return merge_states([state, other], revision=0)


@pytest.mark.parametrize("scale", ["plain", "probability"])
@pytest.mark.parametrize("bits", [None, 8, 12])
@pytest.mark.parametrize("cells", CELLS)
@pytest.mark.slow
def test_waiting_states_give_the_bytes_of_one_merge_each(scale, bits, cells):
    """Of any resolutions, between cases, removals and readers; a reader changes no memory."""
    for seed in range(12):
        rng = np.random.default_rng([seed, cells, bits or 0])
        empty = empty_counts(bits, scale, cells, 0)
        tally, expected = Tally(empty), empty
        for _ in range(40):
            act = rng.random()
            state = sent(rng, scale)
            if act < 0.7:
                tally.add_state(state)
                expected = merged(expected, state)
            elif act < 0.8:
                size = int(rng.integers(1, CASES))
                cases = UnsortedCases(rng.random(size) < 0.3, rng.random(size), None)
                own = Evaluator()
                own.add_cases(labels=cases.labels, scores=cases.scores)
                tally.add(cases)
                expected = merged(expected, own._view())
                if rng.random() < 0.5:
                    tally.remove(cases)
                    less = cases.sorted()
                    change = ScoreCounts(
                        expected.quantised(less.positives).negated(),
                        expected.quantised(less.negatives).negated(),
                    )
                    expected = expected.changed(change, revision=0)
            elif act < 0.9:
                memory = tally.memory_bytes
                tally.frozen().merge()
                assert tally.memory_bytes == memory
            else:
                tally.pack()
        tally.state()._check()
        assert encode_evaluator(tally.state()) == encode_evaluator(expected)


def test_weighted_states_are_merged_at_once():
    """A state with weights never waits, nor does one that comes after it."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        expected = empty_counts(12, "plain", 1 << 14, 0)
        tally = Tally(expected)
        for weighted in rng.random(12) < 0.4:
            state = sent(rng, "plain", weighted=bool(weighted))
            tally.add_state(state)
            expected = merged(expected, state)
        assert encode_evaluator(tally.state()) == encode_evaluator(expected)


def test_many_states_are_due_for_a_merge():
    """States that wait are due once they take a multiple of what is merged, not before."""
    rng = np.random.default_rng(5)
    evaluator = Evaluator(resolution=12)
    evaluator.add_cases(labels=rng.random(1_000) < 0.1, scores=rng.normal(size=1_000))
    tally = Tally(empty_counts(12, "plain", 1 << 14, 0))
    due = []
    for _ in range(6):
        tally.add_state(evaluator._view())
        due.append(tally.is_due)
    assert due == [False] * 4 + [True] * 2
    tally.frozen().merge()
    tally.add_state(evaluator._view())
    assert not tally.is_due
    assert tally.state().num_cases == 7_000
