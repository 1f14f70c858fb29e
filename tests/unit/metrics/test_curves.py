"""The ROC hull and the achievable PR curve as objects."""

from statistics import NormalDist

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from streameval import Evaluator, InvalidInputError


def evaluator(labels, scores, misses=0):
    """Count the cases and misses."""
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=scores)
    ev.add_misses(misses)
    return ev


def test_hull_of_a_small_ranking():
    """Vertices, thresholds, rates and slopes of five cases."""
    hull = evaluator([1, 0, 1, 0, 0], [5.0, 4.0, 3.0, 2.0, 1.0]).roc_hull()
    assert_array_equal(hull.fp, [0, 0, 1, 3])
    assert_array_equal(hull.tp, [0, 1, 2, 2])
    assert_array_equal(hull.thresholds, [np.inf, 5, 3, -np.inf])
    assert_array_equal(hull.slopes, [np.inf, 1, 0])
    assert_allclose(hull.fpr, [0, 0, 1 / 3, 1])
    assert_array_equal(hull.tpr, [0, 0.5, 1, 1])


def test_the_last_threshold_is_a_score_where_a_positive_has_it():
    """A curve that ends in positives ends at their score."""
    hull = evaluator([1, 0, 1], [3.0, 2.0, 1.0]).roc_hull()
    assert_array_equal(hull.thresholds, [np.inf, 3, 1])


def test_misses_end_the_hull_at_minus_infinity():
    """Missed positives are the last group."""
    hull = evaluator([1, 0], [3.0, 2.0], misses=2).roc_hull()
    assert_array_equal(hull.thresholds, [np.inf, 3, -np.inf])
    assert (hull.fp[-1], hull.tp[-1]) == (1, 3)


def test_hull_thresholds_reach_the_hull():
    """On the same data `at_thresholds` of the hull's thresholds is the hull."""
    rng = np.random.default_rng(1)
    labels = rng.random(500) < 0.2
    ev = evaluator(labels, rng.normal(size=500).round(1) + labels, misses=3)
    hull = ev.roc_hull()
    chosen = ev.at_thresholds(hull.thresholds)
    assert_array_equal(chosen.fp, hull.fp)
    assert_array_equal(chosen.tp, hull.tp)
    assert chosen.auc_pr() == ev.auc_pr(hull=True) == hull.auc_pr() == ev.pr_hull().auc_pr()


def test_achievable_curve():
    """Same vertices; the first precision at recall 0, the best at recall 1."""
    ev = evaluator([0, 1, 0, 1, 0, 0], [6.0, 5.0, 4.0, 3.0, 2.0, 1.0])
    hull = ev.pr_hull()
    assert_array_equal(hull.fp, ev.roc_hull().fp)
    assert_array_equal(hull.recall, [0, 1, 1])
    assert_allclose(hull.precision, [0.5, 0.5, 1 / 3])
    assert_allclose(hull.at([0, 0.3, 1]), [0.5, 0.5, 0.5])
    assert hull.at(0.5).shape == ()
    assert hull.at([[0.1], [0.2]]).shape == (2, 1)


def test_achievable_curve_is_nowhere_below_a_point():
    """At the recall of every operating point it has no lower precision."""
    rng = np.random.default_rng(2)
    labels = rng.random(300) < 0.1
    ev = evaluator(labels, rng.normal(size=300) + labels, misses=2)
    points = ev.operating_points()
    some = points.tp > 0
    best = ev.pr_hull().at(points.recall[some])
    assert np.all(best >= points.precision[some] * (1 - 1e-15))


def test_achievable_curve_integrates_to_its_area():
    """`at` is the integrand of auc_pr(hull=True)."""
    rng = np.random.default_rng(4)
    labels = rng.random(400) < 0.3
    ev = evaluator(labels, rng.normal(size=400) + labels)
    middles = (np.arange(200_000) + 0.5) / 200_000
    assert ev.pr_hull().at(middles).mean() == pytest.approx(ev.auc_pr(hull=True), abs=1e-9)


@pytest.mark.parametrize("recall", [-0.1, 1.1, np.nan, np.inf])
def test_recalls_out_of_range_are_refused(recall):
    """The message names the recall."""
    hull = evaluator([1, 0], [1.0, 0.0]).pr_hull()
    with pytest.raises(InvalidInputError, match=r"recall must be in \[0, 1\], got .* at index 1"):
        hull.at([0.5, recall])


def test_classes_that_are_absent():
    """Without positives precision is nan; without negatives it is 1."""
    none = evaluator([0, 0], [1.0, 0.0]).pr_hull()
    assert np.isnan(none.precision).all()
    assert np.isnan(none.at([0, 1])).all()
    only = evaluator([1, 1], [1.0, 0.0]).pr_hull()
    assert_array_equal(only.precision, 1)
    assert_array_equal(only.at([0, 0.5, 1]), 1)
    empty = Evaluator()
    assert len(empty.roc_hull()) == 1
    assert empty.roc_hull().slopes.size == 0


def test_answers_are_computed_once_a_revision():
    """The hull's arrays are shared until something changes."""
    ev = evaluator([1, 0], [1.0, 0.0])
    assert ev.roc_hull().fp is ev.pr_hull().fp
    before = ev.roc_hull()
    ev.add_case(True, 0.5)
    assert len(before) == 3
    assert ev.roc_hull().tp[-1] == 2


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"max_fpr": 0}, r"max_fpr must be in \(0, 1\], got 0"),
        ({"max_fpr": 1.5}, r"max_fpr must be in \(0, 1\], got 1.5"),
        ({"max_fpr": float("nan")}, "max_fpr"),
        ({"min_recall": 1}, r"min_recall must be in \[0, 1\), got 1"),
        ({"min_recall": -0.5}, "min_recall"),
        ({"max_fpr": 0.5, "min_recall": 0.5}, "not both"),
    ],
)
def test_bad_limits_of_roc_areas(kwargs, message):
    """Also where the area itself is undefined."""
    for ev in (evaluator([1, 0], [1.0, 0.0]), Evaluator()):
        with pytest.raises(InvalidInputError, match=message):
            ev.auc_roc(**kwargs)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"method": "linear"}, "method must be 'closed' or 'unit', got 'linear'"),
        ({"prevalence": 0}, r"prevalence must be in \(0, 1\), got 0"),
        ({"prevalence": 1.0}, "prevalence"),
        ({"min_recall": 1.0}, "min_recall"),
    ],
)
def test_bad_settings_of_pr_areas(kwargs, message):
    """Also where the area itself is undefined."""
    for ev in (evaluator([1, 0], [1.0, 0.0]), Evaluator()):
        with pytest.raises(InvalidInputError, match=message):
            ev.auc_pr(**kwargs)


def test_standardized_min_recall():
    """The diagonal has 0.5, a perfect curve 1, on either side's partial area."""
    tie = evaluator([1, 1, 0, 0], [0.0] * 4)
    perfect = evaluator([1, 1, 0, 0], [1.0, 1.0, 0.0, 0.0])
    for limit in ({"min_recall": 0.7}, {"max_fpr": 0.3}):
        assert tie.auc_roc(**limit, standardize=True) == pytest.approx(0.5)
        assert perfect.auc_roc(**limit, standardize=True) == pytest.approx(1)
    assert perfect.auc_roc(min_recall=0.7) == pytest.approx(0.3)


def test_misses_in_the_areas_and_not_in_ap():
    """With misses auc_pr adds the precision of chance for the tail, AP adds nothing."""
    ev = evaluator([1, 0, 0, 0], [3.0, 2.0, 1.0, 0.0], misses=1)
    assert ev.average_precision() == 0.5
    assert ev.auc_pr() > 0.5
    assert ev.auc_roc() == 0.5


def test_one_curve_at_two_prevalences():
    """The design's example: one binormal ROC curve, 0.54 at 0.05 and 0.18 at 0.005.

    The scores are quantiles, 2 standard deviations apart. With this number of cases
    average precision nearly equals the interpolated area.
    """
    normal = np.array([NormalDist().inv_cdf((i + 0.5) / 20_000) for i in range(20_000)])
    ev = Evaluator()
    ev.add_cases(labels=np.ones(20_000, bool), scores=normal + 2)
    ev.add_cases(labels=np.zeros(20_000, bool), scores=normal)
    for prevalence, expected in ((0.05, 0.54), (0.005, 0.185)):
        assert ev.auc_pr(prevalence=prevalence) == pytest.approx(expected, abs=0.005)
        ours, step = ev.auc_pr(prevalence=prevalence), ev.average_precision(prevalence=prevalence)
        assert step == pytest.approx(ours, abs=1e-4)
