"""Scores as probabilities at the edges: outside [0, 1], nothing scored, misses, 0 and 1."""

from __future__ import annotations

import math

import pytest

from streameval import Evaluator, InvalidInputError

QUERIES = ("brier_score", "log_loss", "brier_decomposition", "reliability")


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize(("score", "shown"), [(1.5, "1.5"), (-0.25, "-0.25")])
def test_scores_that_are_no_probabilities_are_refused(name: str, score: float, shown: str) -> None:
    """The first query about probabilities names the invalid score."""
    ev = Evaluator()
    ev.add_cases(labels=[1, 0], scores=[0.5, score])
    message = f"score must be between 0 and 1 to be read as a probability, got {shown}"
    with pytest.raises(InvalidInputError, match=message) as caught:
        getattr(ev, name)()
    assert caught.value.field == "scores"


def test_nothing_scored_is_undefined() -> None:
    """Misses have no score, so misses alone give nan."""
    ev = Evaluator()
    ev.add_misses(3)
    ev.add_negative_misses(2)
    assert math.isnan(ev.brier_score())
    assert math.isnan(ev.log_loss())
    assert math.isnan(ev.brier_decomposition().miscalibration)
    for strategy in ("width", "mass"):
        table = ev.reliability(strategy=strategy)
        assert len(table) == table.lower.size == 0
        assert math.isnan(table.calibration_error)
        assert math.isnan(table.largest_calibration_error)


def test_misses_change_nothing() -> None:
    """These metrics cover the scored cases only."""
    ev = Evaluator()
    ev.add_cases(labels=[1, 0, 1], scores=[0.9, 0.2, 0.6])
    before = (ev.brier_score(), ev.log_loss(), ev.brier_decomposition())
    ev.add_misses(5)
    ev.add_negative_misses(7)
    assert (ev.brier_score(), ev.log_loss(), ev.brier_decomposition()) == before
    assert ev.reliability().counts.sum() == 3


def test_certainty_is_perfect_or_infinitely_wrong() -> None:
    """A correct 0 or 1 costs nothing; one certain mistake costs everything."""
    ev = Evaluator()
    ev.add_cases(labels=[1, 0], scores=[1.0, 0.0])
    assert ev.brier_score() == ev.log_loss() == 0.0
    assert math.copysign(1, ev.log_loss()) == 1
    ev.add_case(True, 0.0)
    assert ev.log_loss() == math.inf
    assert ev.brier_score() == pytest.approx(1 / 3)


def test_one_class_is_enough() -> None:
    """A forecast of one class alone still has a Brier score."""
    ev = Evaluator()
    ev.add_cases(labels=[1, 1], scores=[0.5, 1.0])
    assert ev.brier_score() == 0.125
    parts = ev.brier_decomposition()
    assert (parts.miscalibration, parts.discrimination, parts.uncertainty) == (0.125, 0.0, 0.0)


def test_edges_belong_to_the_bin_below() -> None:
    """Bins are open below and closed above, but 0 is in the first."""
    ev = Evaluator()
    ev.add_cases(labels=[0, 0, 1, 1, 1], scores=[0.0, 0.1, 0.3, 0.30000000000000004, 1.0])
    table = ev.reliability(10)
    assert table.upper.tolist() == [0.1, 0.3, 0.4, 1.0]
    assert table.counts.tolist() == [2, 1, 1, 1]


@pytest.mark.parametrize("bins", [0, -3, 2.5, "10", 10**9, 2**63])
def test_bad_bins_are_refused(bins: object) -> None:
    """The number of bins is a positive integer up to a limit."""
    with pytest.raises(InvalidInputError, match="bins must be an integer from 1 to 1000000, got"):
        Evaluator().reliability(bins)


def test_bad_strategy_is_refused() -> None:
    """Bins have equal width or equal mass."""
    with pytest.raises(InvalidInputError, match="strategy must be 'width' or 'mass', got 'even'"):
        Evaluator().reliability(strategy="even")


def test_an_answer_is_kept_until_the_next_change() -> None:
    """A second query returns the same table; after a change, another."""
    ev = Evaluator()
    ev.add_case(True, 0.5)
    table = ev.reliability()
    assert ev.reliability() is table
    ev.add_case(False, 0.5)
    assert ev.reliability().counts.tolist() == [2]
