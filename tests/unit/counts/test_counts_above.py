"""Counts at a threshold, found without the counts at every other one."""

from __future__ import annotations

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streameval import Evaluator
from streameval._counts.layered_run import with_added
from streameval.kernel import Run, ScoreCounts, State

CASES = st.lists(
    st.tuples(st.booleans(), st.sampled_from([-2.0, -0.0, 0.1, 0.5, 0.75, 3.0]), st.integers(1, 3))
)
THRESHOLDS = (-np.inf, -2.5, -2.0, -1.0, 0.0, 0.1, 0.3, 0.5, 0.75, 3.0, 4.0, np.inf)


@given(CASES, st.integers(0, 2), st.integers(0, 2), st.booleans())
def test_a_threshold_alone_counts_as_among_all(
    cases: list[tuple[bool, float, int]], missed: int, missed_negatives: int, weighted: bool
) -> None:
    """With repetitions, misses and weights, at, between and beyond the scores."""
    evaluator = Evaluator()
    for label, score, count in cases:
        if weighted:
            evaluator.add_case(label, score, weight=0.5 + count)
        else:
            evaluator.add_cases(labels=[label], scores=[score], counts=[count])
    evaluator.add_misses(missed)
    evaluator.add_negative_misses(missed_negatives)
    state = evaluator._view()
    for threshold in THRESHOLDS:
        assert state.above(threshold) == state.cumulative.above(threshold), threshold


@given(CASES, st.integers(0, 2), st.integers(0, 2))
def test_cumulative_counts_are_those_of_each_threshold(
    cases: list[tuple[bool, float, int]], missed: int, missed_negatives: int
) -> None:
    """Counted by brute force; with repetitions, scores of both classes, and misses."""
    evaluator = Evaluator()
    for label, score, count in cases:
        evaluator.add_cases(labels=[label], scores=[score], counts=[count])
    evaluator.add_misses(missed)
    evaluator.add_negative_misses(missed_negatives)
    found = evaluator._view().cumulative
    scores = sorted({score + 0.0 for _, score, _ in cases}, reverse=True)
    lowest = [-np.inf] if missed or missed_negatives else []
    assert found.thresholds.tolist() == [np.inf, *scores, *lowest]
    assert not np.signbit(found.thresholds[found.thresholds == 0.0]).any()
    for threshold, tp, fp in zip(*(found.thresholds, found.tp, found.fp), strict=True):
        above = [
            sum(count for label, score, count in cases if label is each and score >= threshold)
            for each in (True, False)
        ]
        if threshold == -np.inf:
            above = [above[0] + missed, above[1] + missed_negatives]
        assert [tp, fp] == above


def test_a_run_of_layers_is_not_merged() -> None:
    """A live evaluator's figures at a threshold cost no copy of its scores."""
    run = with_added(Run.of(np.arange(100_000.0)), Run.of(np.array([7.0, 7.5, 99_999.5])))
    found = [run.above(score) for score in (0.0, 7.25, 99_999.0, 1e6)]
    assert found == [100_003, 99_992 + 2, 2, 0]
    counts = ScoreCounts(Run.of(np.array([1.0])), run)
    assert State(counts).above(7.25) == (0, 99_994)
    assert counts.parts[1] is run
    assert len(counts.negatives) == 100_002
    assert counts.negatives.above(7.25) == found[1]


def test_figures_at_a_threshold_take_no_memory() -> None:
    """Operating points take some 50 B for each distinct score while they are computed."""
    rng = np.random.default_rng(1)
    evaluator = Evaluator()
    evaluator.add_cases(labels=rng.random(100_000) < 0.1, scores=rng.random(100_000))
    assert evaluator.num_cells == 100_000
    tracemalloc.start()
    try:
        evaluator.confusion_at(0.5)
        assert tracemalloc.get_traced_memory()[1] < 50_000
        evaluator.operating_points()
        assert tracemalloc.get_traced_memory()[1] < 60 * 100_000
    finally:
        tracemalloc.stop()
