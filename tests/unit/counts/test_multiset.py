"""The multiset: runs, signed merges, and the ranks that merges update."""

from collections import Counter

import numpy as np
import pytest

from streameval._counts.run import NegativeCountError, merge_runs
from streameval.kernel import Run, ScoreCounts


def run_of(counts: dict[float, int]) -> Run:
    """Build a run from a dict."""
    return Run.of(
        np.array(list(counts), dtype=np.float64), np.array(list(counts.values()), dtype=np.int64)
    )


def as_dict(run: Run) -> dict[float, int]:
    """Read a run as a dict, after checking it."""
    run._check()
    counts = np.ones(len(run), dtype=np.int64) if run.counts is None else run.counts
    return dict(zip(run.scores.tolist(), counts.tolist()))


def test_a_run_sorts_and_groups():
    """Scores in any order become distinct ascending scores with counts."""
    run = Run.of(np.array([3.0, 1.0, 3.0, 2.0]))
    assert as_dict(run) == {1.0: 1, 2.0: 1, 3.0: 2}
    assert run.total == 4


def test_counts_that_are_all_one_are_not_kept():
    """A run has one normal form: without counts if all of them are 1."""
    assert run_of({1.0: 1, 2.0: 1}).counts is None
    assert run_of({1.0: 2}).merged(run_of({1.0: -1})).counts is None


def test_negative_zero_is_zero():
    """-0.0 and 0.0 are one score, stored as 0.0."""
    assert as_dict(Run.of(np.array([-0.0, 0.0]))) == {0.0: 2}


def test_a_run_does_not_share_memory_with_its_input():
    """Changing the array that was passed in does not change the run."""
    scores = np.array([1.0, 2.0])
    run = Run.of(scores)
    scores[0] = 9.0
    assert as_dict(run) == {1.0: 1, 2.0: 1}
    with pytest.raises(ValueError, match="read-only"):
        run.scores[0] = 5.0


def test_check_finds_what_is_broken():
    """`_check` refuses a run that violates an invariant."""
    ordered = np.array([1.0, 2.0])
    ordered.flags.writeable = False
    Run(ordered, None, 2)._check()
    with pytest.raises(AssertionError):
        Run(ordered, None, 3)._check()
    backwards = ordered[::-1]
    with pytest.raises(AssertionError):
        Run(backwards, None, 2)._check()
    ones = np.array([1, 1])
    ones.flags.writeable = False
    with pytest.raises(AssertionError, match="all 1"):
        Run(ordered, ones, 2)._check()


@pytest.mark.parametrize("size", [0, 1, 3, 40, 700])
@pytest.mark.parametrize("other", [0, 1, 3, 40, 700])
@pytest.mark.parametrize("most", [1, 3])
def test_merging_equals_adding_counters(size, other, most):
    """Every way of merging, short into long or long with long, adds counts."""
    rng = np.random.default_rng(size * 1000 + other)
    for universe in (60, 10**6):
        a = Counter(rng.integers(0, universe, size).tolist())
        b = Counter(rng.integers(0, universe, other).tolist())
        if most == 1:
            a, b = Counter(a.keys()), Counter(b.keys())
        assert as_dict(run_of(a).merged(run_of(b))) == a + b
        assert as_dict(merge_runs([run_of(a), run_of(b), run_of(b)])) == a + b + b


@pytest.mark.parametrize("taken", [1, 5, 400])
def test_a_signed_merge_takes_away(taken):
    """Scores whose counts add up to 0 are removed; the others stay."""
    rng = np.random.default_rng(taken)
    there = Counter(rng.integers(0, 300, 600).tolist())
    gone = Counter(rng.permutation(list(there.elements()))[:taken].tolist())
    assert as_dict(run_of(there).merged(run_of(gone).negated())) == there - gone


def test_taking_more_than_there_is_names_the_score():
    """A merge that would leave a negative count is refused."""
    for there in (run_of({1.0: 2, 2.0: 1}), Run.EMPTY, run_of({5.0: 1})):
        for change in (ScoreCounts(run_of({1.0: -3})), ScoreCounts(Run.EMPTY, run_of({1.0: -3}))):
            with pytest.raises(NegativeCountError, match="score 1"):
                ScoreCounts(there, there).merged(change)


def test_many_empty_runs_merge_to_nothing():
    """No runs, or only empty ones, have no scores."""
    assert merge_runs([]) is Run.EMPTY
    assert merge_runs([Run.EMPTY, Run.EMPTY, Run.EMPTY]) is Run.EMPTY


def brute_ranks(positives: dict, negatives: dict) -> tuple[list[int], list[int]]:
    """Count, for each positive score, best first, the negatives above it and tied with it."""
    scores = sorted(positives, reverse=True)
    above = [sum(n for s, n in negatives.items() if s > score) for score in scores]
    return above, [negatives.get(score, 0) for score in scores]


@pytest.mark.parametrize("universe", [30, 400, 10**7])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.slow
def test_ranks_are_carried_through_small_changes(universe, signed):
    """After each small change the updated ranks equal recomputed ones."""
    rng = np.random.default_rng(universe)
    held = [Counter(rng.integers(0, universe, n).tolist()) for n in (900, 700)]
    counts = ScoreCounts(run_of(held[0]), run_of(held[1]))
    for _ in range(15):
        counts.ranks()
        change = []
        for each in held:
            delta = Counter()
            for score in rng.integers(0, universe, 8).tolist():
                delta[score] += int(rng.integers(1, 3))
            if signed:
                for score in rng.permutation(list(each.elements()))[:8].tolist():
                    delta[score] -= 1
                # A score may be drawn twice: never remove more than is left.
                for score in list(delta):
                    delta[score] = max(delta[score], -each[score])
            each.update(delta)
            for score in [s for s, n in each.items() if not n]:
                del each[score]
            change.append(run_of({s: n for s, n in delta.items() if n}))
        counts = counts.merged(ScoreCounts(*change))
        counts._check()
        above, tied = counts.ranks()
        want_above, want_tied = brute_ranks(*held)
        assert above.tolist() == want_above
        assert (
            np.zeros(len(above), dtype=np.int64) if tied is None else tied
        ).tolist() == want_tied


def test_distinct_scores_over_both_classes_count_once():
    """A score of both classes is one cell."""
    counts = ScoreCounts(run_of({1.0: 1, 2.0: 5}), run_of({2.0: 1, 3.0: 1, 4.0: 1}))
    assert counts.num_distinct() == 4
    assert ScoreCounts().num_distinct() == 0
