"""Operating points, and the points at chosen thresholds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from streameval import InvalidInputError, OperatingPoints
from streameval._metrics.operating_points import precision_of

SCORES = st.lists(st.sampled_from([-2.0, -1.5, 0.0, 0.25, 3.0, 1e300]), max_size=12)
NONE = np.empty(0)


def points(positive, negative, misses=(0, 0)):
    """Return the points of unsorted scores, one case each."""
    (up, up_counts), (down, down_counts) = (
        np.unique(np.array(column, dtype=float), return_counts=True)
        for column in (positive, negative)
    )
    return OperatingPoints.from_classes(
        positive_scores=up,
        positive_counts=up_counts,
        negative_scores=down,
        negative_counts=down_counts,
        missed_positives=misses[0],
        missed_negatives=misses[1],
    )


@given(positive=SCORES, negative=SCORES, misses=st.tuples(*(st.integers(0, 2),) * 2))
def test_points_are_counts_at_each_threshold(positive, negative, misses):
    """Each row counts the cases at or above its threshold; the ends are fixed."""
    curve = points(positive, negative, misses)
    finite = sorted({*positive, *negative}, reverse=True)
    tail = [-np.inf] if any(misses) else []
    assert_array_equal(curve.thresholds, [np.inf, *finite, *tail])
    for threshold, fp, tp in zip(curve.thresholds, curve.fp, curve.tp, strict=True):
        everything = threshold == -np.inf
        assert tp == sum(s >= threshold for s in positive) + everything * misses[0]
        assert fp == sum(s >= threshold for s in negative) + everything * misses[1]
    assert (curve.fp[-1], curve.tp[-1]) == (curve.N, curve.P)
    assert curve.fp.dtype == curve.tp.dtype == np.int64


@given(
    positive=SCORES,
    negative=SCORES,
    misses=st.tuples(*(st.integers(0, 2),) * 2),
    cuts=st.lists(st.sampled_from([-3.0, -1.5, -0.0, 0.0, 0.1, 0.25, 5.0, np.inf, -np.inf])),
)
def test_at_thresholds_counts_again(positive, negative, misses, cuts):
    """Chosen thresholds in any order, between scores and beyond them."""
    chosen = points(positive, negative, misses).at_thresholds(cuts)
    expected = sorted({*cuts, np.inf, -np.inf}, reverse=True)
    assert_array_equal(chosen.thresholds, expected)
    for threshold, fp, tp in zip(expected, chosen.fp, chosen.tp, strict=True):
        everything = threshold == -np.inf
        assert tp == sum(s >= threshold for s in positive) + everything * misses[0]
        assert fp == sum(s >= threshold for s in negative) + everything * misses[1]


def test_every_threshold_gives_the_whole_curve_back():
    """At all thresholds of a curve the areas are the curve's."""
    rng = np.random.default_rng(3)
    curve = points(rng.normal(1, 1, 50), rng.normal(0, 1, 80), (2, 3))
    again = curve.at_thresholds(curve.thresholds)
    assert_array_equal(again.fp, curve.fp)
    assert_array_equal(again.tp, curve.tp)
    assert again.auc_roc() == curve.auc_roc()
    assert again.auc_pr() == curve.auc_pr()
    assert again.auc_roc(hull=True) == curve.auc_roc(hull=True)
    assert again.auc_pr(hull=True, method="unit") == curve.auc_pr(hull=True, method="unit")


def test_nan_threshold_is_refused():
    """The message names the threshold."""
    with pytest.raises(InvalidInputError, match="must not be NaN, got nan at index 1") as caught:
        points([1], [0]).at_thresholds([0.5, np.nan])
    assert (caught.value.field, caught.value.index) == ("thresholds", 1)


def test_rates():
    """Rates are counts over totals; precision is 1 if nothing is called positive."""
    curve = points([2, 1], [1, 0])
    assert_array_equal(curve.tpr, [0, 0.5, 1, 1])
    assert_array_equal(curve.recall, curve.tpr)
    assert_array_equal(curve.fpr, [0, 0, 0.5, 1])
    assert_array_equal(curve.specificity, [1, 1, 0.5, 0])
    assert_array_equal(curve.precision, [1, 1, 2 / 3, 0.5])
    assert len(curve) == 4


@pytest.mark.parametrize("misses", [(0, 0), (2, 0), (0, 2), (1, 1)])
def test_without_cases(misses):
    """An empty evaluator has (0, 0), and a point for the misses if there are any."""
    curve = points([], [], misses)
    assert len(curve) == (2 if any(misses) else 1)
    assert np.isnan(curve.tpr).all() == (misses[0] == 0)
    assert np.isnan(curve.fpr).all() == (misses[1] == 0)
    assert curve.groups().p.sum() == misses[0]


def test_points_cannot_be_changed():
    """Cached points are shared between readers."""
    with pytest.raises(ValueError, match="read-only"):
        points([1], [0]).tp[0] = 5


def test_precision_of_nothing():
    """The precision 0/0 is 1."""
    assert_array_equal(precision_of(np.array([0, 3]), np.array([0, 1])), [1, 0.25])
