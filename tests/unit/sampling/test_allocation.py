"""Allocations: against brute force, the properties that every one has, wrong arguments."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from streameval import Evaluator, InvalidInputError, LabelAllocation, allocate_labels
from streameval._metric_registry import METRICS
from streameval._sampling.neyman import apportion, best_cuts

NEEDS = {"threshold": 0.6, "cost_fp": 1.0, "cost_fn": 5.0}


def labelled(seed: int, size: int = 600, prevalence: float = 0.2) -> Evaluator:
    """Return cases with scores that are probabilities."""
    rng = np.random.default_rng(seed)
    labels = rng.random(size) < prevalence
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=scores_of(rng, labels))
    return ev


def scores_of(rng: np.random.Generator, labels: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(1 - rng.normal(2.0 * labels)))


def waiting(seed: int, size: int = 3_000) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return scores_of(rng, rng.random(size) < 0.2)


@pytest.mark.parametrize("metric", [each.name for each in METRICS if each.gradient])
@pytest.mark.parametrize("size", [1, 7, 40, 500, 2_999, 3_000])
def test_every_prediction_is_in_a_band_and_has_a_chance(metric: str, size: int) -> None:
    """Each metric with a gradient: the size exactly, probabilities above 0 and at most 1."""
    row = next(each for each in METRICS if each.name == metric)
    arguments = {name: NEEDS[name] for name in row.needs}
    scores = waiting(2)
    found = allocate_labels(labelled(1), scores=scores, size=size, metric=metric, **arguments)
    assert (found.metric, found.size, found.waiting) == (metric, size, scores.size)
    assert not found.is_proportional
    assert 1 <= len(found.bands) <= 12
    assert found.bands[0].lower == -math.inf
    assert found.bands[-1].upper == math.inf
    assert all(low.upper == high.lower for low, high in itertools.pairwise(found.bands))
    for band in found.bands:
        within = (scores >= band.lower) & (scores < band.upper)
        assert band.waiting == within.sum()
        assert 1 <= band.to_label <= band.waiting
        assert band.label_probability == band.to_label / band.waiting


@pytest.mark.parametrize("size", [60, 300, 1_000])
def test_no_other_numbers_have_a_smaller_variance(size: int) -> None:
    """Neyman's: moving a label from any band to any other never makes the estimate better."""
    rng = np.random.default_rng(5)
    spread, most = rng.uniform(0.1, 4, 6), rng.integers(20, 900, 6)
    given = apportion(most * spread, np.ones_like(most), most, size)
    assert given.sum() == size
    assert ((given >= 1) & (given <= most)).all()

    def variance(numbers: np.ndarray) -> float:
        return float(((most * spread) ** 2 * (1 / numbers - 1 / most)).sum())

    best = variance(given)
    for source, target in itertools.permutations(range(6), 2):
        moved = given.copy()
        moved[source] -= 1
        moved[target] += 1
        if moved[source] >= 1 and moved[target] <= most[target]:
            assert variance(moved) >= best * (1 - 1e-3)


@pytest.mark.parametrize("seed", range(40))
def test_limits_are_settled_as_by_exhaustive_search(seed: int) -> None:
    """The numbers before rounding are shares times one factor, clipped to the limits."""
    rng = np.random.default_rng(seed)
    number = int(rng.integers(1, 9))
    shares, most = rng.exponential(size=number) + 1e-3, rng.integers(1, 40, number)
    size = int(rng.integers(number, most.sum() + 1))
    given = apportion(shares, np.ones_like(most), most, size)
    low, high = 0.0, float((most / shares).max()) * 2
    for _ in range(200):
        middle = (low + high) / 2
        under = np.clip(middle * shares, 1, most).sum() < size
        low, high = (middle, high) if under else (low, middle)
    exact = np.clip(high * shares, 1, most)
    assert given.sum() == size
    assert (np.abs(given - exact) < 1 + 1e-9).all(), (given, exact)


@pytest.mark.parametrize(("seed", "size", "number"), [(1, 5, 2), (2, 7, 3), (3, 8, 8), (4, 6, 1)])
def test_bands_are_cut_where_their_costs_are_least(seed: int, size: int, number: int) -> None:
    """Against every cut."""
    costs = np.triu(np.random.default_rng(seed).random((size + 1, size + 1)), 1)

    def cost(firsts: tuple[int, ...]) -> float:
        return sum(costs[start, end] for start, end in itertools.pairwise((*firsts, size)))

    every = [(0, *cut) for cut in itertools.combinations(range(1, size), number - 1)]
    assert tuple(best_cuts(costs, number).tolist()) == min(every, key=cost)


def test_labels_go_where_the_metric_can_change() -> None:
    """Above a threshold precision reads labels, below it none: a quarter is spread evenly."""
    scores = waiting(3, 10_000)
    found = allocate_labels(
        labelled(1, 2_000), scores=scores, size=1_000, metric="precision", threshold=0.8
    )
    below = sum(band.to_label for band in found.bands if band.upper <= 0.75)
    above = sum(band.to_label for band in found.bands if band.lower >= 0.79)
    share_below = (scores < 0.75).mean()
    assert share_below > 0.7
    assert below <= 250
    assert above > 600


def test_without_a_class_labels_are_spread_evenly() -> None:
    """With labels of one class, or none, each band has the same probability within rounding."""
    negatives = Evaluator()
    negatives.add_cases(labels=[0, 0], scores=[0.2, 0.7])
    for ev in (Evaluator(), negatives):
        found = allocate_labels(ev, scores=waiting(4), size=300)
        assert found.is_proportional
        assert all(abs(band.to_label - band.waiting / 10) <= 1 for band in found.bands)
        assert "in proportion, for there is no gradient yet" in str(found)


def test_misses_and_weights_of_what_is_labelled_count() -> None:
    """Equal weights change nothing; misses move the gradient, and with it the numbers."""
    scores = waiting(6)
    rng = np.random.default_rng(8)
    labels = rng.random(500) < 0.2
    before = scores_of(rng, labels)
    plain, weighted, missed = Evaluator(), Evaluator(), Evaluator()
    plain.add_cases(labels=labels, scores=before)
    weighted.add_cases(labels=labels, scores=before, weights=np.full(500, 1.0))
    missed.add_cases(labels=labels, scores=before)
    missed.add_misses(300)
    found = [
        allocate_labels(ev, scores=scores, size=400, metric="auc_pr")
        for ev in (plain, weighted, missed)
    ]
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_an_infinite_metric_is_drawn_for_in_proportion() -> None:
    """A positive with the score 0 has an infinite log loss: no label can be of more use."""
    ev = Evaluator()
    ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.2, 0.4, 0.6])
    scores = np.repeat([0.0, 0.3, 0.7, 1.0], 50)
    found = allocate_labels(ev, scores=scores, size=40, metric="log_loss")
    assert found.size == 40
    assert found.is_proportional
    finite = allocate_labels(ev, scores=scores[50:150], size=40, metric="log_loss")
    assert not finite.is_proportional


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 0}, "size must be from 1 to the 3 predictions that wait, got 0"),
        ({"size": 4}, "size must be from 1 to the 3 predictions that wait, got 4"),
        ({"size": 1.5}, "size must be an integer, got 1.5"),
        ({"size": True}, "size must be an integer, got True"),
        ({"scores": []}, "no prediction waits for its label"),
        ({"scores": [0.1, math.nan]}, "score must be finite, got nan at index 1"),
        ({"metric": "maximum_mcc"}, "labels cannot be allocated for 'maximum_mcc'; they can for:"),
        ({"metric": 3}, "labels cannot be allocated for 3; they can for:"),
        ({"metric": "recall"}, "recall needs a threshold: threshold=..."),
        ({"metric": "auc_roc", "prevalence": 0.1}, "auc_roc does not depend on a prevalence"),
        ({"prevalence": 1}, "prevalence must be between 0 and 1, got 1"),
        ({"scores": [0.1, 2.0], "metric": "brier_score"}, ""),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    """One line that says what is wrong."""
    ev = Evaluator()
    ev.add_cases(labels=[1, 0], scores=[0.9, 0.4])
    with pytest.raises(InvalidInputError) as found:
        allocate_labels(ev, **{"scores": [0.1, 0.5, 0.9], "size": 1, **arguments})
    assert str(found.value).startswith(message)


def test_only_evaluators_and_windows_are_labelled_cases() -> None:
    with pytest.raises(InvalidInputError, match="labelled must be an Evaluator or a Window"):
        allocate_labels([0.5], scores=[0.1], size=1)
    with pytest.raises(InvalidInputError, match="where clusters are declared labels take no prob"):
        allocate_labels(Evaluator(cluster_groups=8), scores=[0.1], size=1)
    with pytest.raises(TypeError, match="unexpected keyword"):
        allocate_labels(labelled(1), scores=[0.1], size=1, metric="auc_roc", threshold=0.5)


def test_an_allocation_is_a_table_in_print() -> None:
    """A line for each band, the highest scores first."""
    found = allocate_labels(Evaluator(), scores=waiting(1), size=16)
    assert isinstance(found, LabelAllocation)
    head, *rows = str(found).splitlines()
    assert head.startswith("16 of 3,000 predictions to label, for auc_pr")
    assert len(rows) == len(found.bands) == 2
    assert "inf" in rows[0]


def test_no_band_is_drawn_with_less_than_the_declared_probability() -> None:
    """A design that was declared before the draw holds for it, or the draw says what it takes."""
    rng = np.random.default_rng(9)
    labelled = Evaluator(min_label_probability=0.03)
    labels = rng.random(2_000) < 0.05
    labelled.add_cases(labels=labels, scores=rng.normal(2.0 * labels))
    waiting = rng.normal(2.0 * (rng.random(20_001) < 0.05))
    for size in (601, 640, 1_500, 20_001):
        allocation = allocate_labels(labelled, scores=waiting, size=size)
        assert allocation.size == size
        assert allocation.min_label_probability >= 0.03
    assert allocation.min_label_probability == 1.0
    undeclared = Evaluator()
    undeclared.add_cases(labels=labels, scores=rng.normal(2.0 * labels))
    assert allocate_labels(undeclared, scores=waiting, size=1_200).min_label_probability < 0.03
    with pytest.raises(InvalidInputError, match="size must be at least 601 to draw each of 20001"):
        allocate_labels(labelled, scores=waiting, size=600)


@pytest.mark.slow
def test_a_draw_of_a_rare_class_is_answered_and_holds_the_truth() -> None:
    """1,500 of 20,000 at a prevalence of 0.005: all answered, as the design is known."""
    rng = np.random.default_rng(20_036)

    def population(size: int) -> tuple[np.ndarray, np.ndarray]:
        labels = rng.random(size) < 0.005
        return labels, rng.normal(2.0 * labels)

    whole = Evaluator()
    whole.add_cases(**dict(zip(("labels", "scores"), population(2_000_000), strict=True)))
    truth, held = whole.average_precision(), 0
    for seed in range(60):
        labels, scores = population(20_000)
        allocation = allocate_labels(
            Evaluator(), scores=scores, size=1_500, metric="average_precision"
        )
        ids = [str(row) for row in range(20_000)]
        sample = allocation.draw(ids=ids, scores=scores, seed=seed)
        rows = np.array(sample.ids).astype(int)
        ev = Evaluator(min_label_probability=allocation.min_label_probability)
        ev.add_cases(
            labels=labels[rows],
            scores=scores[rows],
            label_probability=sample.label_probabilities,
        )
        interval = ev.interval("average_precision")
        assert labels[rows].sum() < 2 or interval.reason is None
        held += truth in interval
    # 60 samples: 0.93 less four standard errors.
    assert held >= 60 * (0.93 - 4 * (0.93 * 0.07 / 60) ** 0.5)
