"""States are refused before a merge exactly when the merge would refuse them."""

from __future__ import annotations

from itertools import product

import pytest

from streameval import Evaluator, InvalidInputError
from streameval._counts.exact import MAX_TOTAL
from streameval._counts.merge import check_mergeable
from streameval.kernel import merge_states


def state(count: int = 1, score: float = 0.5, **settings):
    evaluator = Evaluator(**settings)
    evaluator.add_cases(labels=[1, 0], scores=[score, 0.25], counts=[count, 1])
    return evaluator._view()


STATES = {
    "exact": state(),
    "outside": state(score=-3.0),
    "cells": state(resolution=12),
    "probabilities": state(resolution=12, scale="probability"),
    "capped": state(scale="probability", max_cells=64),
    "many": state(count=MAX_TOTAL // 2),
    "clusters": Evaluator(cluster_groups=8)._view(),
}


PAIRS = list(product(STATES, STATES))


def checked(a: str, b: str) -> str:
    """Return why a check refuses two states; empty if it does not."""
    try:
        check_mergeable([STATES[a], STATES[b]])
    except InvalidInputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_a_check_refuses_what_a_merge_refuses(a, b):
    """Every pair of states is refused by both with the same message, or by neither."""
    refusal = ""
    try:
        merge_states([STATES[a], STATES[b]], revision=0)
    except InvalidInputError as error:
        refusal = str(error)
    assert checked(a, b) == refusal


def test_the_pairs_cover_each_refusal():
    """Some pairs have scales, scores, totals or clusters that do not go together; some merge."""
    refusals = {checked(a, b) for a, b in PAIRS}
    assert "" in refusals
    for text in (
        "no cells in common",
        "scores between 0 and 1",
        "must stay below",
        "same cluster_groups",
    ):
        assert any(text in each for each in refusals), (text, refusals)
