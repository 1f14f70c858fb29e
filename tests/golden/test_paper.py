"""Every number in Davis and Goadrich (2006) that its text determines.

Figure 7 is left out, because the text does not determine its curves. Curve II could be
the simplest hull with AUC-ROC 0.875, (0, 0), (500, 20), (2000, 20), whose AUC-PR is
20/520 = 0.0385, the printed 0.038; but no such simple hull with integer points has
curve I's 0.813 and 0.514 (a search over hulls with two and three inner vertices
finds only arbitrary ones), and the text does not give its points.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from streameval import Evaluator, OperatingPoints, pr_between, pr_to_roc, roc_to_pr


def curve(points, P, N):
    """Return a curve through (FP, TP) points, with (0, 0) and (N, P) added."""
    points = [(0, 0), *points, (N, P)]
    return OperatingPoints(
        thresholds=np.concatenate(([np.inf], -np.arange(len(points) - 1.0))),
        fp=np.array([fp for fp, _ in points]),
        tp=np.array([tp for _, tp in points]),
        P=P,
        N=N,
    )


def test_table_1():
    """Interpolation from A to B gives the six rows of table 1."""
    points = pr_between((5, 5), (30, 10), positives=20)
    assert_array_equal(points.tp, [5, 6, 7, 8, 9, 10])
    assert_array_equal(points.fp, [5, 10, 15, 20, 25, 30])
    assert_allclose(points.recall, [0.25, 0.30, 0.35, 0.40, 0.45, 0.50], rtol=1e-15)
    assert_array_equal(points.precision.round(3), [0.500, 0.375, 0.318, 0.286, 0.265, 0.250])


def test_table_1_is_one_segment_of_an_achievable_curve():
    """`pr_hull().at` gives the same precision between the same two points."""
    ev = Evaluator()
    ev.add_cases(
        labels=[1, 0, 1, 0, 0, 1], scores=[3, 3, 2, 2, 1, 1], counts=[5, 5, 5, 25, 1970, 10]
    )
    expected = pr_between((5, 5), (30, 10), positives=20)
    assert_allclose(ev.pr_hull().at(expected.recall), expected.precision, rtol=1e-15)


def test_table_1_converts_between_the_spaces():
    """Table 1's points are on a straight line in ROC space, and convert back exactly."""
    points = pr_between((5, 5), (30, 10), positives=20)
    fpr, tpr = pr_to_roc(points.recall, points.precision, positives=20, negatives=2000)
    assert_allclose(np.diff(fpr), 5 / 2000, rtol=1e-12)
    assert_allclose(np.diff(tpr), 1 / 20, rtol=1e-12)
    recall, precision = roc_to_pr(fpr, tpr, positives=20, negatives=2000)
    assert_allclose(recall, points.recall, rtol=1e-15)
    assert_allclose(precision, points.precision, rtol=1e-15)


@pytest.mark.parametrize(
    ("true_positives", "N", "closed", "unit", "linear"),
    [
        (8, 56_164, 0.0270680, 0.0278933, 0.5129925),
        (9, 56_164, 0.0294742, 0.0302763, 0.5141384),
        (8, 53_692, 0.0274537, 0.0282698, 0.5131640),
        (9, 53_692, 0.0298634, 0.0306560, 0.5143095),
    ],
)
def test_figure_6_wrong_against_right_interpolation(true_positives, N, closed, unit, linear):
    """From one point near (0.02, 1), linear interpolation claims 17 times the area.

    433 positives and 56,164 negatives. The paper prints 0.031 and 0.50 without
    saying how 0.02 x 433 = 8.66 true positives were rounded. 8 and 9 give 0.028 and
    0.030 by its unit method; the straight lines have 0.513 and 0.514. The printed end
    point, precision 0.008, has 53,692 negatives: then 9 gives 0.0307.
    """
    P = 433
    points = curve([(0, true_positives)], P, N)
    assert points.auc_pr() == pytest.approx(closed, abs=5e-8)
    assert points.auc_pr(method="unit") == pytest.approx(unit, abs=5e-8)
    recall = true_positives / P
    straight = recall * 1 + (1 - recall) * (1 + P / (P + N)) / 2
    assert straight == pytest.approx(linear, abs=5e-8)
    assert straight > 16 * points.auc_pr(method="unit")


def test_figure_6_with_the_unrounded_point():
    """With 8.66 true positives, scaled a hundredfold, the integral is 0.0287."""
    assert curve([(0, 866)], 43_300, 5_616_400).auc_pr() == pytest.approx(0.0286564, abs=5e-8)


def test_figure_6_ends_at_53_692_negatives_as_printed():
    """433/(433 + 53,692) is the printed precision 0.008; with 56,164 it is 0.00765."""
    assert 433 / (433 + 53_692) == 0.008
    assert pytest.approx(0.00765, abs=5e-6) == 433 / (433 + 56_164)


def test_section_5_roc_area_does_not_order_pr_area():
    """A hull may have more area under ROC and far less under PR than another."""
    early = curve([(0, 10), (1500, 20)], 20, 2000)
    late = curve([(500, 20)], 20, 2000)
    assert late.auc_roc() == 0.875
    assert early.auc_roc() == 0.8125
    assert late.auc_pr() == pytest.approx(20 / 520, rel=1e-15)
    assert early.auc_pr() == pytest.approx(0.5198365, abs=5e-8)
    assert early.auc_pr() > 13 * late.auc_pr()


def test_the_hull_is_chosen_on_tuning_data():
    """Section 3's remedy: the tuning hull is optimistic, its thresholds on test data are not.

    The scores are binormal, 1 standard deviation apart, where the true AUC-ROC is
    Phi(1/sqrt 2) = 0.7602. With 20 positives in each half the hull exceeds it on
    average by more than 0.02; the test curve at the same thresholds does not.
    """
    rng = np.random.default_rng(2006)
    flattery, remedy = [], []
    for _ in range(200):
        tuning, test = Evaluator(), Evaluator()
        for half in (tuning, test):
            labels = np.arange(200) < 20
            half.add_cases(labels=labels, scores=rng.normal(size=200) + labels)
        hull = tuning.roc_hull()
        flattery.append(tuning.auc_roc(hull=True) - 0.7602)
        remedy.append(test.at_thresholds(hull.thresholds).auc_roc() - 0.7602)
    assert np.mean(flattery) > 0.02
    assert np.mean(remedy) < 0.0
