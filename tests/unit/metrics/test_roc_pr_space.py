"""Conversions between ROC and PR space, and interpolation between points."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from streameval import Evaluator, InvalidInputError, dominates, pr_between, pr_to_roc, roc_to_pr


@given(P=st.integers(1, 1000), N=st.integers(1, 10**6), rates=st.tuples(*(st.floats(0.01, 1),) * 2))
def test_there_and_back(P, N, rates):
    """Theorem 3.1: except at recall 0, both spaces have the same points."""
    fpr, tpr = rates
    recall, precision = roc_to_pr([fpr], [tpr], positives=P, negatives=N)
    back = pr_to_roc(recall, precision, positives=P, negatives=N)
    assert_allclose(back[1], [tpr], rtol=1e-15)
    # 1 - precision keeps only what the precision's own rounding left of it.
    assert_allclose(back[0], [fpr], rtol=1e-9, atol=1e-15 * P / N)


def test_recall_0_forward():
    """At recall 0 the precision is 0, or 1 if nothing is called positive."""
    recall, precision = roc_to_pr([0, 0.5], [0, 0], positives=2, negatives=4)
    assert_array_equal(recall, 0)
    assert_array_equal(precision, [1, 0])


@pytest.mark.parametrize(
    ("recall", "precision", "message"),
    [
        ([0.5, 0], [1, 1], "recall must be above 0, got 0 at index 1: recall 0 has no inverse"),
        ([0.5], [0], "precision must be above 0, got 0 at index 0"),
        ([1.5], [1], r"recall must be in \[0, 1\], got 1.5 at index 0"),
        ([0.5], [np.nan], r"precision must be in \[0, 1\], got nan"),
        ([1.0], [0.1], "precision 0.1 at recall 1.0, index 0, needs more than all 4 negatives"),
        ([1.0], [0.5, 0.6], r"same shape, got \(1,\) and \(2,\)"),
    ],
)
def test_points_without_a_confusion_matrix(recall, precision, message):
    """Each message names the point and the reason."""
    with pytest.raises(InvalidInputError, match=message):
        pr_to_roc(recall, precision, positives=2, negatives=4)


@pytest.mark.parametrize("totals", [(0, 1), (1, 0), (-1, 5)])
def test_totals_are_needed(totals):
    """Rates without references have no points."""
    positives, negatives = totals
    for convert in (roc_to_pr, pr_to_roc):
        with pytest.raises(InvalidInputError, match="must be at least 1"):
            convert([0.5], [0.5], positives=positives, negatives=negatives)


def test_corners_survive():
    """(1, 1) has the prevalence as precision at recall 1, exactly."""
    fpr, tpr = pr_to_roc([1.0], [1 / 3], positives=2, negatives=4)
    assert_array_equal(fpr, [1.0])
    assert_array_equal(tpr, [1.0])


def test_between_from_nothing():
    """On a piece from (0, 0) the precision is constant."""
    points = pr_between((0, 0), (30, 10), positives=20)
    assert_allclose(points.precision, 0.25)
    assert points.recall[0] == 0


@pytest.mark.parametrize(
    ("a", "b", "positives", "message"),
    [
        ((5, 5), (4, 6), 20, "must gain true positives and lose nothing"),
        ((5, 5), (6, 5), 20, "must gain true positives and lose nothing"),
        ((-1, 0), (6, 5), 20, "must gain"),
        ((5, 5), (30, 21), 20, "b has 21 true positives, more than all 20"),
    ],
)
def test_between_refuses(a, b, positives, message):
    """Points must ascend and not exceed the total."""
    with pytest.raises(InvalidInputError, match=message):
        pr_between(a, b, positives)


def test_curves_of_different_totals_are_refused():
    """Theorem 3.2 requires fixed totals."""
    a, b = Evaluator(), Evaluator()
    a.add_cases(labels=[1, 0], scores=[1.0, 0.0])
    b.add_cases(labels=[1, 0, 0], scores=[1.0, 0.0, 0.5])
    with pytest.raises(InvalidInputError, match="different totals"):
        dominates(a.operating_points(), b.operating_points())


def test_unknown_space_is_refused():
    """There are two spaces."""
    a = Evaluator()
    a.add_cases(labels=[1, 0], scores=[1.0, 0.0])
    with pytest.raises(InvalidInputError, match="space must be 'roc' or 'pr', got 'det'"):
        dominates(a.roc_hull(), a.roc_hull(), space="det")
