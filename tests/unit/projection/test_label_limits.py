"""Limits that hold whatever the missing labels are, against every labelling."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from streameval import Evaluator
from streameval._projection.delay_counts import CELL_BITS
from streameval._projection.label_limits import PartlyLabelled, label_limits
from streameval.kernel import quantise

METRICS = [
    ("auc_roc", None),
    ("auc_pr", None),
    ("auc_pr", 0.1),
    ("average_precision", None),
    ("average_precision", 0.3),
]


def partly_labelled(scores: list[float], labels: list[bool | None]) -> PartlyLabelled:
    """Return the cells of cases, None for a missing label."""
    edges = quantise(np.array(scores), CELL_BITS, "probability")
    cells = np.unique(edges)
    kinds = [
        np.array(
            [
                sum(label is kind for label, e in zip(labels, edges, strict=True) if e == cell)
                for cell in cells
            ]
        )
        for kind in (True, False, None)
    ]
    return PartlyLabelled(cells, *kinds, "probability")


def extremes(
    scores: list[float], labels: list[bool | None], metric: str, prevalence: float | None
) -> tuple[float, float]:
    """Return the least and greatest value of any labels, by trying all."""
    missing = [at for at, label in enumerate(labels) if label is None]
    arguments = {} if prevalence is None else {"prevalence": prevalence}
    values = []
    for given in itertools.product([False, True], repeat=len(missing)):
        whole = list(labels)
        for at, label in zip(missing, given, strict=True):
            whole[at] = label
        evaluator = Evaluator()
        evaluator.add_cases(labels=whole, scores=scores)
        value = getattr(evaluator, metric)(**arguments)
        values.append(value)
    return min(values), max(values)


@pytest.mark.parametrize(("metric", "prevalence"), METRICS)
def test_no_labels_leave_the_limits(metric: str, prevalence: float | None) -> None:
    """Every labelling of random cases, with ties and shared cells, is within the limits."""
    for seed in range(12):
        rng = random.Random(seed)
        pool = [rng.random() for _ in range(8)]
        # Scores of one cell, in both orders of their labels.
        pool += [0.5001, 0.5002]
        scores = [rng.choice(pool) for _ in range(14)]
        labels = [rng.choice([True, False, None]) for _ in scores]
        labels[:4] = [True, False, True, False]
        lower, upper = label_limits(partly_labelled(scores, labels), metric, prevalence)
        least, greatest = extremes(scores, labels, metric, prevalence)
        assert lower <= least <= greatest <= upper <= 1, seed


@pytest.mark.parametrize(("metric", "prevalence"), METRICS)
def test_limits_are_near_the_extremes(metric: str, prevalence: float | None) -> None:
    """With 40 labels of each class and few missing, the bound is at most 0.03 too wide.

    That of average precision is above by what interpolated precision is above precision.
    """
    rng = random.Random(4)
    cells = np.linspace(0.1, 0.9, 88)
    labels: list[bool | None] = [rng.random() < at for at in cells.tolist()]
    for at in range(5, 88, 11):
        labels[at] = None
    lower, upper = label_limits(partly_labelled(cells.tolist(), labels), metric, prevalence)
    least, greatest = extremes(cells.tolist(), labels, metric, prevalence)
    assert least - 0.03 <= lower <= least
    assert greatest <= upper <= greatest + (0.07 if metric == "average_precision" else 0.03)


def test_a_case_where_the_best_labels_are_not_the_highest() -> None:
    """A positive moved up out of a large tie lowers average precision: the bound still holds."""
    scores = [0.9] * 10 + [0.4] * 7 + [0.1]
    labels: list[bool | None] = [False] * 9 + [None] + [True] * 6 + [None, False]
    lower, upper = label_limits(partly_labelled(scores, labels), "average_precision", None)
    least, greatest = extremes(scores, labels, "average_precision", None)
    assert lower <= least <= greatest <= upper


def test_known_labels_leave_one_value() -> None:
    """Without missing labels both limits are the value, but for the order inside cells."""
    scores, labels = [0.9, 0.8, 0.3, 0.2], [True, False, True, False]
    for metric, prevalence in METRICS:
        cases = partly_labelled(scores, labels)
        lower, upper = label_limits(cases, metric, prevalence)
        least, greatest = extremes(scores, labels, metric, prevalence)
        assert lower == pytest.approx(least, abs=1e-9)
        expected = 1.0 if upper == 1.0 else greatest
        assert upper == pytest.approx(expected, abs=1e-9)


def test_a_class_that_may_be_empty_has_no_limits() -> None:
    """With no label at all an area may be anything."""
    cases = partly_labelled([0.9, 0.2], [None, None])
    assert label_limits(cases, "auc_roc", None) == (0.0, 1.0)
    assert label_limits(cases, "average_precision", 0.2) == (0.0, 1.0)
