"""AUC-PR and average precision in one pass: the bits of each by itself."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from streameval import Evaluator
from streameval._counts.groups import Groups
from streameval._metrics.pr_areas import auc_pr_value, average_precision_value, closed_areas

SIZES = [1, 2, 500, 8_192, 8_193, 40_000]


def evaluator_of(size: int, decimals: int | None) -> Evaluator:
    """Return an evaluator of drawn scores."""
    rng = np.random.default_rng(size)
    labels = rng.random(size) < 0.5
    scores = rng.normal(size=size) + labels
    evaluator = Evaluator()
    evaluator.add_cases(
        labels=labels, scores=scores if decimals is None else scores.round(decimals)
    )
    return evaluator


def written_out(groups: Groups) -> Groups:
    """Return the groups with each constant column as one of its own values."""
    return replace(groups, p=np.array(groups.p), n=np.array(groups.n))


def same(a: float, b: float) -> bool:
    """Return whether both are the same number, or undefined."""
    return a == b or (math.isnan(a) and math.isnan(b))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("decimals", [None, 2])
def test_both_areas_have_the_bits_of_each_alone(size: int, decimals: int | None) -> None:
    """Of constant columns, and of the same counts written out."""
    groups: Groups = evaluator_of(size, decimals)._view().groups
    if not groups.P:
        assert all(map(math.isnan, closed_areas(groups)))
        return
    both = closed_areas(groups)
    for each in (groups, written_out(groups)):
        assert closed_areas(each) == both
        assert (auc_pr_value(each), average_precision_value(each)) == both
    for settings in ({"min_recall": 0.3}, {"prevalence": 0.01}, {"method": "unit"}):
        found = auc_pr_value(groups, **settings)
        assert same(found, auc_pr_value(written_out(groups), **settings))
    found = average_precision_value(groups, prevalence=0.01)
    assert same(found, average_precision_value(written_out(groups), prevalence=0.01))


@pytest.mark.parametrize("missed", [0, 3])
def test_the_order_of_the_questions_changes_nothing(missed: int) -> None:
    """Average precision that was kept with AUC-PR is the one that is computed alone."""
    answers = []
    for names in (("auc_pr", "average_precision"), ("average_precision", "auc_pr")):
        evaluator = evaluator_of(3_000, None)
        if missed:
            evaluator.add_misses(missed)
        found = {name: getattr(evaluator, name)() for name in names}
        answers.append((found["auc_pr"], found["average_precision"]))
    assert answers[0] == answers[1]
