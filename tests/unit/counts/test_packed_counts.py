"""Packed states: the same content in less memory, in whatever order they are read."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import Evaluator
from streameval._counts import cell_sums, merge
from streameval._counts.codec import encode_evaluator
from streameval._counts.stored_counts import cells_of, pack
from streameval.kernel import (
    Scale,
    ScoreCounts,
    State,
    StoredCounts,
    decode_evaluator,
    merge_states,
)

EXTREMES = [0.0, -0.0, 5e-324, -5e-324, 1.7976931348623157e308, -1.7976931348623157e308]
SCORES = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(EXTREMES))
CASES = st.lists(st.tuples(st.booleans(), SCORES, st.sampled_from([1, 2, 300, 2**40])), max_size=30)


def state_of(cases: list[tuple[bool, float, int]], bits: int, scale: Scale = "plain") -> State:
    """Return the state of cases that occur several times each."""
    evaluator = Evaluator(resolution=bits, scale=scale, max_cells=4_000)
    if cases:
        labels, scores, counts = zip(*cases, strict=True)
        evaluator.add_cases(labels=labels, scores=scores, counts=counts)
    evaluator.add_misses(3)
    return evaluator._view()


def packed(state: State) -> State:
    """Return another state of the same content, packed."""
    other = replace(state, counts=ScoreCounts(*state.counts.runs))
    pack(other)
    return other


@given(cases=CASES, bits=st.integers(1, 53), is_probability=st.booleans())
def test_packing_keeps_every_score(
    cases: list[tuple[bool, float, int]], bits: int, is_probability: bool
) -> None:
    """At every resolution and on both scales, to the byte; totals are known without opening."""
    if is_probability:
        cases = [(label, 1 / (1 + abs(score)), count) for label, score, count in cases]
    state = state_of(cases, bits, "probability" if is_probability else "plain")
    other = packed(state)
    assert cells_of(other) is not None
    assert (other.P, other.N, other.num_scored) == (state.P, state.N, state.num_scored)
    assert other.num_scores == len(state.counts)
    assert other.same_content(state)
    other._check()
    assert encode_evaluator(other) == encode_evaluator(state)
    assert StoredCounts.bytes_of(other) == encode_evaluator(state, steps=True)
    assert StoredCounts.bytes_of(replace(other, missed_positives=9)) == encode_evaluator(
        replace(state, missed_positives=9), steps=True
    )
    assert decode_evaluator(StoredCounts.bytes_of(other)).same_content(state)
    # A reader opens the counts for itself.
    assert other.counts.runs is not other.counts.runs


@given(
    parts=st.lists(st.tuples(CASES, st.integers(1, 20), st.booleans()), min_size=3, max_size=8),
    is_probability=st.booleans(),
)
@pytest.mark.slow
def test_packed_states_have_the_same_sum(
    parts: list[tuple[list[tuple[bool, float, int]], int, bool]], is_probability: bool
) -> None:
    """Packed or open, of all resolutions and in sparse tables, to the bit."""
    states = []
    for cases, bits, _ in parts:
        if is_probability:
            shares = [(label, 1 / (1 + abs(score)), count) for label, score, count in cases]
            states.append(state_of(shares, bits, "probability"))
        else:
            states.append(state_of(cases, bits))
    mixed = [
        packed(state) if is_packed else state
        for state, (_, _, is_packed) in zip(states, parts, strict=True)
    ]
    whole = merge_states(states, revision=0)
    for others in (mixed, [packed(state) for state in states]):
        merged = merge_states(others, revision=0)
        merged._check()
        assert merged.same_content(whole)


@pytest.mark.parametrize("size", [30, 3_000, 40_000])
def test_large_packed_states_have_the_same_sum(size: int) -> None:
    """Of few cells and of many, whose resolutions differ by their caps."""
    rng = np.random.default_rng(size)
    states = []
    for pane in range(12):
        labels = rng.random(size) < 0.1
        scores = rng.logistic(scale=1 + pane, size=size) + labels
        evaluator = Evaluator(resolution=12, max_cells=4_096)
        evaluator.add_cases(labels=labels, scores=scores)
        states.append(evaluator._view())
    merged = merge_states([packed(state) for state in states], revision=0)
    assert merged.same_content(merge_states(states, revision=0))


def test_a_state_that_is_packed_during_a_merge_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server packs panes in idle time, while other threads sum them."""
    states = [state_of([(True, index / 8, 2), (False, 0.25, 3)], 8) for index in range(4)]
    whole = merge_states(states, revision=1)
    for state in states[:3]:
        pack(state)

    def packing_the_last(*arguments: object) -> object:
        pack(states[3])
        return cell_sums.sum_cells(*arguments)

    monkeypatch.setattr(merge, "sum_cells", packing_the_last)
    found = merge_states(states, revision=1)
    assert cells_of(states[3]) is not None
    assert found.same_content(whole)


def test_exact_and_weighted_counts_are_not_packed() -> None:
    """They stay as they are."""
    exact, weighted, coarse = Evaluator(), Evaluator(resolution=8), Evaluator(max_cells=1)
    exact.add_cases(labels=[1, 0], scores=[0.5, 0.25])
    weighted.add_cases(labels=[1, 0], scores=[0.5, 0.25], weights=[0.5, 2])
    coarse.add_cases(labels=[1, 0], scores=[-3.5, 1e300])
    for evaluator in (exact, weighted, coarse):
        state = evaluator._view()
        pack(state)
        assert cells_of(state) is None


PACKED_PANES = """
import gc, tracemalloc
import numpy as np
from streameval import Evaluator
from streameval._counts.stored_counts import pack

rng = np.random.default_rng(1)
labels = rng.random(1_000) < 0.05

def packed(scores):
    evaluator = Evaluator(resolution=12)
    evaluator.add_cases(labels=labels, scores=scores)
    state = evaluator._view()
    pack(state)
    return state

packed(rng.logistic(size=1_000))  # what the first one leaves in caches is not a pane's
tracemalloc.start()
kept = [packed(scores) for scores in rng.logistic(size=(20, 1_000))]
gc.collect()
print(tracemalloc.get_traced_memory()[0], sum(each.counts.stored.memory_bytes for each in kept))
"""


def test_a_packed_pane_takes_less_memory() -> None:
    """A pane of a thousand cases takes at most 4 KB, where its columns had 15 KB.

    Traced in a process of its own: after thousands of other tests 4.2 KB were traced.
    """
    command = [sys.executable, "-c", PACKED_PANES]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    taken, counted = map(int, shown.split())
    assert taken <= 20 * 4_000
    assert counted <= taken
    assert counted <= 20 * 3_200
