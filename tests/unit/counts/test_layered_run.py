"""Runs in two layers: the same scores and ranks as runs that are merged at once."""

from __future__ import annotations

import numpy as np
import pytest

from streameval import Evaluator
from streameval._counts import layered_run
from streameval._counts.layered_run import LayeredRun, with_added
from streameval.kernel import Run, ScoreCounts


@pytest.fixture(autouse=True)
def _small_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small runs have layers."""
    monkeypatch.setattr(layered_run, "_MIN_BASE_SCORES", 32)


def scores(rng: np.random.Generator, size: int, decimals: int | None) -> np.ndarray:
    """Return scores, tied if they have few decimals."""
    drawn = rng.normal(size=size)
    return drawn if decimals is None else drawn.round(decimals)


def check_same(counts: ScoreCounts, merged: ScoreCounts) -> None:
    """Compare ranks, sizes and totals before anything is merged, then the scores."""
    run = counts.parts[1]
    assert (len(run), run.total) == (len(merged.negatives), merged.negatives.total)
    for score in (*merged.negatives.scores[::97].tolist(), 0.123456):
        assert run.count_of(score) == merged.negatives.count_of(score)
    if counts.known_ranks is not None:
        above, tied = counts.known_ranks
        fresh_above, fresh_tied = ScoreCounts(merged.positives, merged.negatives).ranks()
        assert np.array_equal(above, fresh_above)
        nothing = np.zeros_like(above)
        assert np.array_equal(
            nothing if tied is None else tied, nothing if fresh_tied is None else fresh_tied
        )


@pytest.mark.parametrize("decimals", [None, 3, 2])
@pytest.mark.parametrize("seed", range(4))
def test_layers_count_as_runs_that_are_merged_at_once(seed: int, decimals: int | None) -> None:
    """After each of many additions, with ties inside and between the layers, and repetitions."""
    rng = np.random.default_rng(seed)
    counts = ScoreCounts(
        Run.of(scores(rng, 600, decimals)), Run.of(scores(rng, 3_000, None if seed % 2 else 3))
    )
    merged = counts
    counts.ranks()
    layered = 0
    for step in range(60):
        size = int(rng.integers(0, 9))
        repeated = rng.integers(1, 4, size) if step % 3 == 2 else None
        change = ScoreCounts(
            Run.of(scores(rng, int(rng.integers(0, 3)), decimals)),
            Run.of(scores(rng, size, decimals), repeated),
        )
        counts = counts.merged(change)
        merged = ScoreCounts(
            merged.positives.merged(change.positives), merged.negatives.merged(change.negatives)
        )
        layered += isinstance(counts.parts[1], LayeredRun)
        check_same(counts, merged)
        if step % 20 == 19:
            counts._check()
            assert np.array_equal(counts.negatives.scores, merged.negatives.scores)
            assert np.array_equal(
                counts.negatives.multiplicities(), merged.negatives.multiplicities()
            )
    assert layered > 20


def test_counts_that_were_read_are_the_base_of_the_next() -> None:
    """Readers of the old counts keep them; the layers are dropped once they are merged."""
    positives = Run.of(np.arange(500.0))
    counts = ScoreCounts(positives, Run.of(np.arange(1_000.0)))
    counts.ranks()
    first = counts.merged(ScoreCounts(negatives=Run.of(np.array([0.5, 7.0]))))
    second = first.merged(ScoreCounts(negatives=Run.of(np.array([0.5, 8.5]))))
    layers = second.parts[1]
    assert isinstance(layers, LayeredRun)
    assert layers.base is counts.negatives
    assert (len(second), second.total, second.count_of(False, 0.5)) == (1_502, 1_504, 2)
    assert second.negatives.scores.size == 1_002
    assert second.parts[1] is second.negatives
    third = second.merged(ScoreCounts(negatives=Run.of(np.array([3.25]))))
    layers = third.parts[1]
    assert isinstance(layers, LayeredRun)
    assert layers.base is second.negatives
    assert counts.negatives.scores.size == 1_000


def test_the_added_scores_are_merged_when_they_are_many() -> None:
    """A sixteenth of the base; and at once where cases are removed."""
    base = Run.of(np.arange(1_000.0))
    assert not isinstance(with_added(base, Run.of(np.arange(0.5, 70.5))), LayeredRun)
    removed = with_added(base, Run.of(np.array([7.0])).negated())
    assert not isinstance(removed, LayeredRun)
    assert len(removed) == 999


@pytest.mark.parametrize("decimals", [None, 2])
def test_an_evaluator_with_layers_answers_as_a_fresh_one(decimals: int | None) -> None:
    """Additions, removals and snapshots in turn; bytes and metrics are the same."""
    rng = np.random.default_rng(3)
    labels, drawn = rng.random(4_000) < 0.3, scores(rng, 4_000, decimals)
    evaluator = Evaluator()
    evaluator.add_cases(labels=labels[:3_000], scores=drawn[:3_000])
    evaluator.snapshot()
    layered = 0
    for end in range(3_010, 4_001, 10):
        rows = slice(end - 10, end)
        evaluator.add_cases(labels=labels[rows], scores=drawn[rows])
        layered += isinstance(evaluator._view().counts.parts[1], LayeredRun)
        if end % 200 == 0:
            evaluator.remove_case(labels[end - 1], drawn[end - 1])
            evaluator.add_case(labels[end - 1], drawn[end - 1])
        fresh = Evaluator()
        fresh.add_cases(labels=labels[:end], scores=drawn[:end])
        assert evaluator.auc_roc() == fresh.auc_roc()
        assert evaluator.average_precision() == fresh.average_precision()
        assert evaluator.num_scored == fresh.num_scored
        if end % 250 == 0:
            assert evaluator.to_bytes() == fresh.to_bytes()
            evaluator._view()._check()
    assert layered > 50
