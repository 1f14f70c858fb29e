"""Influences and variances against brute force: pairs of cases, and derivatives by differences."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from streameval import Evaluator
from streameval._counts.groups import Groups
from streameval._metrics.influence import (
    auc_pr_influence,
    auc_roc_influence,
    average_precision_influence,
)
from streameval._uncertainty.estimates import figure_of
from streameval._uncertainty.sampling_variance import negatives_between, sampling_variance

MISSED = -1000.0
AREAS = ("auc_roc", "auc_pr", "average_precision")


def groups_of(positives, negatives, missed_p=0, missed_n=0):
    """Count the groups, one distinct score after another."""
    scores = sorted(set(positives), reverse=True)
    p = [sum(s == t for s in positives) for t in scores]
    n = [sum(s == t for s in negatives) for t in scores]
    tp = [sum(s > t for s in positives) for t in scores]
    fp = [sum(s > t for s in negatives) for t in scores]
    columns = [np.array(column, dtype=np.int64) for column in (p, n, tp, fp)]
    return Groups(
        np.array(scores, dtype=np.float64),
        *columns,
        missed_p,
        missed_n,
        len(positives) + missed_p,
        len(negatives) + missed_n,
    )


scores = st.lists(st.integers(0, 6).map(float), min_size=2, max_size=12)
misses = st.integers(0, 3)


@given(scores, scores, misses, misses)
def test_auc_roc_variance_is_delongs(positives, negatives, missed_p, missed_n):
    """DeLong's two sums over all pairs, in fractions, ties and misses included."""
    groups = groups_of(positives, negatives, missed_p, missed_n).with_misses()
    above = positives + [MISSED] * missed_p
    below = negatives + [MISSED] * missed_n

    def psi(x, y):
        return Fraction(int(x > y)) + Fraction(int(x == y), 2)

    of_positives = [sum(psi(x, y) for y in below) / len(below) for x in above]
    of_negatives = [sum(psi(x, y) for x in above) / len(above) for y in below]
    auc = sum(of_positives) / len(above)

    def spread(values):
        return sum((v - auc) ** 2 for v in values) / (len(values) - 1) / len(values)

    influence = auc_roc_influence(groups)
    assert influence.estimate == pytest.approx(float(auc), rel=1e-14)
    expected = float(spread(of_positives) + spread(of_negatives))
    assert sampling_variance(influence, groups) == pytest.approx(expected, rel=1e-12, abs=1e-18)


def area(p, n, gaps, lost_p, *, name, prevalence):
    """Compute average precision or the interpolated area of real-valued counts, by definition."""
    p, n, gaps = (np.asarray(column, dtype=np.float64) for column in (p, n, gaps))
    P, N = p.sum() + lost_p, n.sum() + gaps.sum()
    weight = 1.0 if prevalence is None else P / N * (1 - prevalence) / prevalence
    tp = np.cumsum(p) - p
    fp = weight * (np.cumsum(gaps[:-1]) + np.cumsum(n) - n)
    n = weight * n
    if name == "average_precision":
        return float((p * (tp + p) / (tp + p + fp + n)).sum() / P)
    # Gauss-Legendre with enough nodes to be exact on any smooth piece.
    nodes, weights = np.polynomial.legendre.leggauss(60)
    s = (nodes + 1) / 2
    x = tp[:, None] + np.outer(p, s)
    y = fp[:, None] + np.outer(n, s)
    return float((p * (x / (x + y) @ weights) / 2).sum() / P)


@settings(max_examples=40)
@pytest.mark.parametrize("prevalence", [None, 0.2])
@pytest.mark.parametrize("name", ["average_precision", "auc_pr"])
@given(data=st.tuples(scores, scores, misses, misses))
def test_influences_are_derivatives(data, name, prevalence):
    """The change of the metric by one infinitesimal case more, at every rank."""
    groups = groups_of(*data)
    if name == "auc_pr":
        groups = groups.with_misses()
        influence = auc_pr_influence(groups, prevalence)
    else:
        influence = average_precision_influence(groups, prevalence)
    gaps = negatives_between(groups)
    lost = groups.P - groups.p.sum()
    size = len(groups.p)
    step = 1e-5

    def moved(which, row):
        values = []
        for sign in (1, -1):
            columns = [c.astype(np.float64) for c in (groups.p, groups.n, gaps)]
            columns[which][row] += sign * step
            values.append(area(*columns, lost, name=name, prevalence=prevalence))
        return (values[0] - values[1]) / (2 * step)

    assert influence.estimate == pytest.approx(
        area(groups.p, groups.n, gaps, lost, name=name, prevalence=prevalence), rel=1e-9
    )
    # Subtract the mean influence, which comes from the totals P and N.
    mean_p = float(groups.p @ influence.positive) / groups.P
    mean_n = float(groups.n @ influence.tied + gaps @ influence.between) / groups.N
    slope = influence.prevalence_slope
    assert mean_p == pytest.approx(influence.estimate + slope, rel=1e-9)
    assert mean_n == pytest.approx(-slope, rel=1e-9, abs=1e-12)
    if prevalence is None:
        mean_p -= slope
        mean_n += slope
    for row in range(size):
        assert moved(0, row) * groups.P == pytest.approx(
            influence.positive[row] - mean_p, rel=1e-4, abs=1e-5
        )
        if groups.n[row]:
            assert moved(1, row) * groups.N == pytest.approx(
                influence.tied[row] - mean_n, rel=1e-4, abs=1e-5
            )
    for row in range(size + 1):
        if gaps[row]:
            assert moved(2, row) * groups.N == pytest.approx(
                influence.between[row] - mean_n, rel=1e-4, abs=1e-5
            )


def test_long_segments_agree_with_short_ones():
    """The series for small growth agrees with the closed forms: a fine grid against quadrature."""
    rng = np.random.default_rng(3)
    positives = rng.integers(0, 40, 3_000).astype(float).tolist()
    negatives = rng.integers(0, 37, 5_000).astype(float).tolist()
    groups = groups_of(positives, negatives)
    influence = auc_pr_influence(groups)
    expected = area(
        groups.p, groups.n, negatives_between(groups), 0, name="auc_pr", prevalence=None
    )
    assert influence.estimate == pytest.approx(expected, rel=1e-9)


def test_estimates_are_scikit_learns():
    """The means of the influences are the metrics."""
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 2, 400)
    values = np.round(rng.normal(labels, 1.0), 1)
    groups = groups_of(values[labels == 1].tolist(), values[labels == 0].tolist())
    assert auc_roc_influence(groups).estimate == pytest.approx(roc_auc_score(labels, values))
    assert average_precision_influence(groups).estimate == pytest.approx(
        average_precision_score(labels, values)
    )


def test_variance_of_average_precision_is_the_bootstraps():
    """The influence function agrees with resampling on a large sample."""
    rng = np.random.default_rng(7)
    labels = (rng.random(4_000) < 0.2).astype(int)
    values = rng.normal(1.2 * labels, 1.0)
    groups = groups_of(values[labels == 1].tolist(), values[labels == 0].tolist())
    for name, influence in (
        ("average_precision", average_precision_influence(groups)),
        ("auc_pr", auc_pr_influence(groups)),
    ):
        gaps = negatives_between(groups)
        drawn = []
        for _ in range(600):
            P = rng.binomial(groups.P + groups.N, groups.P / (groups.P + groups.N))
            p = rng.multinomial(P, groups.p / groups.P)
            both = np.concatenate((groups.n, gaps))
            n = rng.multinomial(groups.P + groups.N - P, both / groups.N)
            size = len(p)
            kept = p > 0  # rows without positives only add their negatives to later rows
            rows = np.flatnonzero(kept)
            before = np.cumsum(n[size:-1]) + np.cumsum(n[:size]) - n[:size]
            tp = (np.cumsum(p) - p)[rows] + p[rows]
            called = tp + before[rows] + n[:size][rows]
            drawn.append((p[rows] * (tp - (name == "auc_pr") / 2) / called).sum() / P)
        spread = np.std(drawn)
        assert math.sqrt(sampling_variance(influence, groups)) == pytest.approx(spread, rel=0.12)


@pytest.mark.parametrize("step", [0.001, 0.75])
@pytest.mark.parametrize("missed", [(0.0, 0.0), (0.25, 0.1)])
@pytest.mark.parametrize("prevalence", [None, 0.05])
def test_standard_errors_are_the_spread_of_fresh_streams(step, missed, prevalence):
    """The spread of new streams, with ties and misses, equals the estimate of each.

    For the area under the interpolated curve the misses are one tied group at
    the end, which the curve crosses to (N, P); for average precision they are
    positives and negatives without influence.
    """
    rng = np.random.default_rng(20_263)
    names = ("auc_pr", "average_precision") if prevalence else AREAS
    estimates = {name: [] for name in names}
    for _ in range(300):
        labels = rng.random(1_000) < 0.2
        scored = rng.random(1_000) >= np.where(labels, *missed)
        values = np.round(rng.normal(1.5 * labels, 1) / step) * step
        ev = Evaluator()
        ev.add_cases(labels=labels[scored], scores=values[scored])
        ev.add_misses(int((labels & ~scored).sum()))
        ev.add_negative_misses(int((~labels & ~scored).sum()))
        for name in names:
            estimates[name].append(figure_of(ev._view().groups, name, prevalence))
    for name in names:
        spread = np.std([each.estimate for each in estimates[name]])
        error = np.sqrt(np.mean([each.variance for each in estimates[name]]))
        assert error == pytest.approx(spread, rel=0.13), name
