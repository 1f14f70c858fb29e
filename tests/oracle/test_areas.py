"""Areas against fractions, 60-digit arithmetic and scikit-learn."""

import math
from decimal import Decimal, getcontext
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import trapezoid
from sklearn.metrics import average_precision_score, roc_auc_score

from streameval import Evaluator
from streameval._counts.groups import Groups
from streameval._metrics import pr_areas
from streameval._metrics.areas import step_groups
from streameval._metrics.pr_areas import auc_pr_value, average_precision_value
from streameval._metrics.roc_areas import auc_roc_value, partial_auc_roc_value
from streameval._metrics.skew import (
    auc_pr_minimum_value,
    auc_pr_normalized_value,
    auc_prg_value,
)

CASES = st.lists(
    st.tuples(st.booleans(), st.integers(0, 8), st.integers(1, 3)), min_size=0, max_size=25
)
MISSES = st.sampled_from([0, 0, 1, 3])


def evaluator(cases, misses=0, negative_misses=0):
    """Count the cases (positive, score, count)."""
    ev = Evaluator()
    ev.add_cases(
        labels=[c[0] for c in cases],
        scores=[float(c[1]) for c in cases],
        counts=[c[2] for c in cases],
    )
    ev.add_misses(misses)
    ev.add_negative_misses(negative_misses)
    return ev


def expanded(cases, misses=0, negative_misses=0):
    """Return labels and scores, one entry per reference, misses below all."""
    labels, scores = [], []
    for positive, score, count in cases:
        labels += [positive] * count
        scores += [score] * count
    labels += [True] * misses + [False] * negative_misses
    scores += [-1] * (misses + negative_misses)
    return labels, scores


def points_of(labels, scores):
    """Return the (FP, TP) points of a curve, by counting."""
    points = [(0, 0)]
    for threshold in sorted(set(scores), reverse=True):
        called = [y for y, s in zip(labels, scores, strict=True) if s >= threshold]
        points.append((len(called) - sum(called), sum(called)))
    return points


def same(value, expected, rel):
    """Assert that a float equals a number of another type to `rel`, or that both are undefined."""
    if expected is None:
        assert math.isnan(value)
    elif expected == 0:
        assert value == 0
    else:
        error = float(abs(Fraction(value) / Fraction(expected) - 1))
        assert error <= rel


def wilcoxon(labels, scores):
    """Count pairs; a tie is half a pair."""
    up = [s for y, s in zip(labels, scores, strict=True) if y]
    down = [s for y, s in zip(labels, scores, strict=True) if not y]
    if not up or not down:
        return None
    wins = sum(2 * (u > d) + (u == d) for u in up for d in down)
    return Fraction(wins, 2 * len(up) * len(down))


def unit_area(points, P):
    """Sum the paper's composite trapezoid at every integer TP, in fractions."""
    if P == 0:
        return None
    total = Fraction(0)
    for (x0, y0), (x1, y1) in pairwise(points):
        if y1 == y0:
            continue
        skew = Fraction(x1 - x0, y1 - y0)
        row = []
        for t in range(y0, y1 + 1):
            called = t + x0 + skew * (t - y0)
            row.append(t / called if called else 1 / (1 + skew))
        total += sum(row) - (row[0] + row[-1]) / 2
    return total / P


def exact_area(points, P, *, factor=1, from_tp=0):
    """Integrate in 60 digits by the antiderivative of t/(a t + b)."""
    if P == 0:
        return None
    getcontext().prec = 60
    total = Decimal(0)
    factor, from_tp = Decimal(factor), Decimal(from_tp)
    for (x0, y0), (x1, y1) in pairwise(points):
        if y1 == y0 or y1 <= from_tp:
            continue
        a = 1 + factor * (x1 - x0) / Decimal(y1 - y0)
        b = factor * x0 - (a - 1) * y0
        low, high = max(Decimal(y0), from_tp), Decimal(y1)
        if b == 0:
            total += (high - low) / a
        else:
            log = ((a * high + b) / (a * low + b)).ln()
            total += (high - low) / a - b / (a * a) * log
    return total / P


@given(cases=CASES, misses=MISSES, negative_misses=MISSES)
def test_every_area_on_small_inputs(cases, misses, negative_misses):
    """Ties, misses of both classes and empty classes, all areas at once."""
    ev = evaluator(cases, misses, negative_misses)
    labels, scores = expanded(cases, misses, negative_misses)
    points = points_of(labels, scores)
    P = sum(labels)
    N = len(labels) - P
    assert (ev.num_positive_ref, ev.num_negative_ref) == (P, N)
    same(ev.auc_roc(), wilcoxon(labels, scores), 0.5**53)
    same(ev.auc_pr(), exact_area(points, P), 2e-15)
    same(ev.auc_pr(method="unit"), unit_area(points, P), 2e-15)
    found = [
        Fraction(y1 - y0, P) * Fraction(y1, x1 + y1)
        for (x0, y0), (x1, y1) in pairwise(points)
        if y1 > y0
    ]
    if misses:  # the last group is that of the misses
        found.pop()
    same(ev.average_precision(), sum(found, Fraction(0)) if P else None, 2e-15)


@given(cases=CASES, misses=MISSES, negative_misses=MISSES)
def test_hull_areas_on_small_inputs(cases, misses, negative_misses):
    """The hull's areas are those of the least concave curve above the points."""
    labels, scores = expanded(cases, misses, negative_misses)
    ev = evaluator(cases, misses, negative_misses)
    P = sum(labels)
    N = len(labels) - P
    points = points_of(labels, scores)
    # By definition: the highest chord above each FP; the vertices are where its slope changes.
    corners = []
    for i, (x, y) in enumerate(points):
        below = any(
            (y - y0) * (x1 - x0) <= (y1 - y0) * (x - x0) and (x0, y0) != (x1, y1)
            for x0, y0 in points[:i]
            for x1, y1 in points[i + 1 :]
        )
        if not below:
            corners.append((x, y))
    hull = ev.roc_hull()
    assert list(zip(hull.fp.tolist(), hull.tp.tolist(), strict=True)) == corners
    doubled = sum((x1 - x0) * (y1 + y0) for (x0, y0), (x1, y1) in pairwise(corners))
    expected = Fraction(doubled, 2 * P * N) if P and N else None
    same(ev.auc_roc(hull=True), expected, 0.5**53)
    same(ev.auc_pr(hull=True), exact_area(corners, P), 2e-15)
    same(ev.auc_pr(hull=True, method="unit"), unit_area(corners, P), 2e-15)
    same(hull.auc_pr(), exact_area(corners, P), 2e-15)


@given(cases=CASES, misses=MISSES, percent=st.integers(0, 99))
def test_pr_area_above_a_recall(cases, misses, percent):
    """min_recall limits the integral; 1 - recall bounds it."""
    ev = evaluator(cases, misses)
    labels, scores = expanded(cases, misses)
    P = sum(labels)
    from_tp = Decimal(percent / 100 * P)
    expected = exact_area(points_of(labels, scores), P, from_tp=from_tp)
    value = ev.auc_pr(min_recall=percent / 100)
    same(value, expected, 1e-13)


@given(cases=CASES, misses=MISSES, prevalence=st.sampled_from([0.001, 0.05, 0.5, 0.99]))
def test_prevalence_rescales_negatives(cases, misses, prevalence):
    """auc_pr and average_precision at another prevalence, negatives weighted."""
    ev = evaluator(cases, misses)
    labels, scores = expanded(cases, misses)
    points = points_of(labels, scores)
    P = sum(labels)
    N = len(labels) - P
    if P == 0 or N == 0:
        assert math.isnan(ev.auc_pr(prevalence=prevalence))
        assert math.isnan(ev.average_precision(prevalence=prevalence))
        return
    factor = Fraction(P, N) * (1 - Fraction(prevalence)) / Fraction(prevalence)
    getcontext().prec = 60
    weight = Decimal(factor.numerator) / factor.denominator
    same(ev.auc_pr(prevalence=prevalence), exact_area(points, P, factor=weight), 5e-15)
    found = [
        Fraction(y1 - y0, P) * Fraction(y1, 1) / (x1 * factor + y1)
        for (_, y0), (x1, y1) in pairwise(points)
        if y1 > y0
    ]
    if misses:
        found.pop()
    same(ev.average_precision(prevalence=prevalence), sum(found, Fraction(0)), 5e-15)


@given(cases=CASES, misses=MISSES, negative_misses=MISSES)
def test_gain_area_on_small_inputs(cases, misses, negative_misses):
    """The gain area, from the gains of interpolated points, in fractions."""
    ev = evaluator(cases, misses, negative_misses)
    labels, scores = expanded(cases, misses, negative_misses)
    P = sum(labels)
    N = len(labels) - P
    if P == 0 or N == 0:
        assert math.isnan(ev.auc_prg())
        assert math.isnan(ev.precision_recall_gain_curve().area())
        return
    ratio = Fraction(P, N)
    zero = Fraction(P * P, P + N)
    gains = []
    points = points_of(labels, scores)
    for (x0, y0), (x1, y1) in pairwise(points):
        if y0 < zero < y1:
            x = x0 + (zero - y0) / (y1 - y0) * (x1 - x0)
            gains.append((Fraction(0), 1 - ratio * x / zero))
        if y1 >= zero:
            gains.append((1 - ratio * Fraction(P - y1, y1), 1 - ratio * Fraction(x1, y1)))
    area = sum(
        ((r1 - r0) * (p0 + p1) / 2 for (r0, p0), (r1, p1) in pairwise(gains)),
        Fraction(0),
    )
    # Gains of both signs may cancel, so the tolerance is absolute.
    size = max(abs(float(g[1])) for g in gains)
    assert ev.auc_prg() == pytest.approx(float(area), abs=1e-13 * max(size, 1))
    curve = ev.precision_recall_gain_curve()
    assert curve.area() == pytest.approx(float(area), abs=1e-13 * max(size, 1))
    assert curve.recall_gain[0] == pytest.approx(0, abs=1e-14)
    assert curve.recall_gain[-1] == 1


@given(cases=CASES, misses=MISSES, percent=st.integers(1, 99))
def test_partial_roc_areas_in_fractions(cases, misses, percent):
    """max_fpr integrates TPR up to it, min_recall 1 - FPR above it."""
    ev = evaluator(cases, misses)
    labels, scores = expanded(cases, misses)
    points = points_of(labels, scores)
    P = sum(labels)
    N = len(labels) - P
    limit = percent / 100
    if P == 0 or N == 0:
        assert math.isnan(ev.auc_roc(max_fpr=limit))
        assert math.isnan(ev.auc_roc(min_recall=limit))
        return
    by_fpr = by_recall = Fraction(0)
    for (x0, y0), (x1, y1) in pairwise(points):
        stop = min(Fraction(limit) * N, Fraction(x1))
        if stop > x0:
            level = y0 + Fraction(y1 - y0, x1 - x0) * (stop - x0)
            by_fpr += (stop - x0) * (y0 + level) / 2
        start = max(Fraction(limit) * P, Fraction(y0))
        if start < y1:
            level = x0 + Fraction(x1 - x0, y1 - y0) * (start - y0)
            by_recall += (y1 - start) * (N - (level + x1) / 2)
    assert ev.auc_roc(max_fpr=limit) == pytest.approx(float(by_fpr / P / N), rel=1e-12)
    assert ev.auc_roc(min_recall=limit) == pytest.approx(float(by_recall / P / N), rel=1e-12)


@given(cases=CASES, percent=st.integers(1, 100))
def test_against_scikit_learn(cases, percent):
    """Without misses: AUC, McClish's partial AUC and AP are scikit-learn's."""
    labels, scores = expanded(cases)
    if not 0 < sum(labels) < len(labels):
        return
    ev = evaluator(cases)
    assert ev.auc_roc() == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
    theirs = roc_auc_score(labels, scores, max_fpr=percent / 100)
    ours = ev.auc_roc(max_fpr=percent / 100, standardize=True)
    assert ours == pytest.approx(theirs, abs=1e-12)
    assert ev.average_precision() == pytest.approx(
        average_precision_score(labels, scores), abs=1e-12
    )


@pytest.mark.parametrize("prevalence", [0.5, 0.05, 0.005])
@pytest.mark.parametrize("shape", ["smooth", "tied", "reversed"])
def test_accuracy_on_long_inputs(prevalence, shape):
    """auc_pr stays within 5e-15 of 60-digit arithmetic, and AP is scikit-learn's."""
    rng = np.random.default_rng(7)
    labels = rng.random(30_000) < prevalence
    scores = rng.normal(size=labels.size) + (-2 if shape == "reversed" else 1.5) * labels
    if shape == "tied":
        scores = scores.round(1)
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=scores)
    points = ev.operating_points()
    pairs = list(zip(points.fp.tolist(), points.tp.tolist(), strict=True))
    same(ev.auc_pr(), exact_area(pairs, points.P), 5e-15)
    assert ev.average_precision() == pytest.approx(
        average_precision_score(labels, scores), rel=1e-12
    )
    assert ev.auc_roc() == pytest.approx(roc_auc_score(labels, scores), rel=1e-12)


def chain(points, P, N):
    """Make the groups of a curve through (FP, TP) points."""
    fp = np.array([x for x, _ in points], dtype=np.int64)
    tp = np.array([y for _, y in points], dtype=np.int64)
    return step_groups(-np.arange(float(len(points))), fp, tp, P, N)


@pytest.mark.parametrize(
    "points",
    [
        [(0, 0), (0, 3), (10**6, 4), (10**7, 200), (10**7, 1000)],
        [(0, 0), (5, 5), (30, 1000)],
        [(0, 0), (7, 0), (7, 900), (50_000, 1000)],
        [(0, 0), (10**12, 1000)],
        [(0, 0), (10**12, 0), (10**12, 1000)],
    ],
)
def test_unit_method_on_long_pieces(points):
    """Euler-Maclaurin plus the directly summed units equal the sum in fractions."""
    P, N = points[-1][1], points[-1][0]
    same(auc_pr_value(chain(points, P, N), method="unit"), unit_area(points, P), 3e-15)


@pytest.mark.parametrize("negatives", range(12, 32))
def test_unit_method_where_euler_maclaurin_begins(negatives):
    """Accurate to the last digits on both sides of the change of method."""
    for P in (1, 2, 40):
        points = [(0, 0), (negatives, 0), (negatives, P)]
        same(auc_pr_value(chain(points, P, negatives), method="unit"), unit_area(points, P), 1e-15)


def test_unit_method_of_a_huge_piece():
    """With 2^40 positives the trapezoid equals the integral, in bounded time and memory."""
    points = [(0, 0), (2**10, 2**39), (2**50, 2**40)]
    groups = chain(points, 2**40, 2**50)
    assert auc_pr_value(groups, method="unit") == pytest.approx(auc_pr_value(groups), rel=1e-12)


def test_unit_method_above_a_recall():
    """A cut between integers starts with a part of a unit."""
    points = [(0, 0), (5, 5), (30, 10)]
    groups = chain(points, 10, 30)
    nodes = [6.5, 7, 8, 9, 10]
    precision = [t / (t + 5 + 5 * (t - 5)) for t in nodes]
    expected = trapezoid(precision, nodes) / 10
    assert auc_pr_value(groups, method="unit", min_recall=0.65) == pytest.approx(
        expected, rel=1e-14
    )


@pytest.mark.parametrize("total", [2**31 - 1, 2**31 + 1, 2**40 + 3, 2**61 - 1])
def test_pair_counts_beyond_int64(total):
    """AUC-ROC of huge counts is the correctly rounded fraction of Python integers."""
    points = [(0, 0), (1, total // 3), (total // 5, total // 2), (total - 1, total - 1)]
    points.append((total, total))
    doubled = sum((x1 - x0) * (y1 + y0) for (x0, y0), (x1, y1) in pairwise(points))
    groups = chain(points, total, total)
    assert auc_roc_value(groups) == doubled / (2 * total * total)


def test_blocks_do_not_show(monkeypatch):
    """The areas are the same for any block size, up to rounding."""
    rng = np.random.default_rng(11)
    labels = rng.random(5000) < 0.3
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=(rng.normal(size=5000) + labels).round(2))
    groups = ev.operating_points().groups()
    metrics = []
    for block in (1, 7, 8192):
        monkeypatch.setattr(pr_areas, "_BLOCK_ROWS", block)
        metrics.append(
            (
                auc_pr_value(groups),
                auc_pr_value(groups, method="unit"),
                auc_pr_value(groups, min_recall=0.123),
                average_precision_value(groups),
            )
        )
    np.testing.assert_allclose(metrics[0], metrics[2], rtol=1e-14)
    np.testing.assert_allclose(metrics[1], metrics[2], rtol=1e-14)


@pytest.mark.parametrize(("P", "N"), [(1, 1), (3, 1000), (1000, 3), (5, 10**9), (2**50, 7)])
def test_minimum_is_boyds_formula_and_the_worst_ranking(P, N):
    """1 + (1 - pi) ln(1 - pi)/pi, and the area with all negatives first."""
    getcontext().prec = 60
    rest = Decimal(N) / (P + N)
    formula = 1 + rest * rest.ln() / (Decimal(P) / (P + N))
    same(auc_pr_minimum_value(P, N), formula, 5e-15)
    worst = chain([(0, 0), (N, 0), (N, P)], P, N)
    assert auc_pr_value(worst) == pytest.approx(auc_pr_minimum_value(P, N), rel=5e-15)


def test_gain_area_of_the_always_positive_classifier_is_zero():
    """If all cases are tied, the precision gain is 0 at every recall gain."""
    assert auc_prg_value(chain([(0, 0), (1000, 50)], 50, 1000)) == pytest.approx(0, abs=1e-15)
    assert auc_prg_value(chain([(0, 0), (0, 50), (1000, 50)], 50, 1000)) == 1


def standardized_area(points, P, N, max_fpr, min_recall):
    """McClish's scale in fractions; the curve is a chain of straight pieces."""
    lost = Fraction(0)
    width = 1 - Fraction(min_recall) if max_fpr is None else Fraction(max_fpr)
    for (x0, y0), (x1, y1) in pairwise(points):
        a, b = (Fraction(x0, N), Fraction(y0, P)), (Fraction(x1, N), Fraction(y1, P))
        if max_fpr is None:  # 1 - TPR against 1 - FPR is the curve of the classes exchanged
            a, b = (1 - b[1], 1 - b[0]), (1 - a[1], 1 - a[0])
        end = min(b[0], width)
        if a[0] < end:
            height = a[1] + (b[1] - a[1]) * (end - a[0]) / (b[0] - a[0])
            lost += (end - a[0]) * (1 - (a[1] + height) / 2)
    return 1 - lost / (width * (2 - width))


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize(
    "part",
    [
        {"max_fpr": 1e-12},
        {"max_fpr": 0.1},
        {"max_fpr": 1 - 2**-53},
        {"min_recall": 1e-3},
        {"min_recall": 0.9},
        {"min_recall": 1 - 2**-53},
    ],
    ids=str,
)
def test_standardized_parts_stay_in_the_unit_interval(seed, part):
    """A perfect part has exactly 1, the worst at least 0; next to 1 the digits are those of 1."""
    rng = np.random.default_rng(seed)
    P, N = (int(10 ** rng.uniform(0, 9)) for _ in range(2))
    for points in (
        skewed_points(P, N, seed),
        [(0, 0), (0, P - 1), (max(N // 10**6, 1), P), (N, P)],
        [(0, 0), (0, P), (N, P)],
        [(0, 0), (N, 0), (N, P)],
    ):
        # A group takes its negatives before the step to the next one.
        value = partial_auc_roc_value(chain(points, P, N), **part, standardize=True)
        limits = {"max_fpr": None, "min_recall": None, **part}
        exact = standardized_area(points, P, N, **limits)
        assert 0 <= value <= 1
        assert abs(Fraction(value) - exact) <= 2.0**-53 + 1e-13 * min(exact, 1 - exact)


def gain_area(points, P, N):
    """Integrate precision gain over recall gain in fractions."""
    zero = Fraction(P * P, P + N)
    area = Fraction(0)
    for (x0, y0), (x1, y1) in pairwise(points):
        if y1 <= zero or y0 == y1:
            continue
        start = max(Fraction(y0), zero)
        at = x0 + (start - y0) / (y1 - y0) * (x1 - x0)
        heights = 1 - Fraction(P, N) * (at / start + Fraction(x1, y1)) / 2
        area += Fraction(P, N) * (P / start - Fraction(P, y1)) * heights
    return area


def normalized_area(points, P, N):
    """Rescale the integral of the precision, in 60 digits."""
    getcontext().prec = 60
    area = Decimal(0)
    for (x0, y0), (x1, y1) in pairwise(points):
        p, n = Decimal(y1 - y0), Decimal(x1 - x0)
        s, above = p + n, Decimal(x0 + y0)
        if p == 0:
            continue
        if above == 0:
            area += p * p / s
        else:
            log = ((above + s) / above).ln()
            area += p / s * (p * (1 - above / s * log) + y0 * log)
    x = Decimal(P) / N
    least = 1 - (1 + x).ln() / x
    return (area / P - least) / (1 - least)


def skewed_points(P, N, seed):
    """Return random points of a curve that is better than chance, from (0, 0) to (N, P)."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 12))
    x = np.sort(rng.random(size) ** rng.choice([1, 3]))
    y = np.sort(rng.random(size) ** rng.choice([1, 0.3, 0.01]))
    inner = sorted((int(a * N), int(max(a, b) * P)) for a, b in zip(x, y, strict=True))
    return [(0, 0), *inner, (N, P)]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    ("P", "N"),
    [
        (10**8, 1),
        (10**8, 3),
        (10**11, 1000),
        (10**4, 10**4),
        (5, 10**6),
        (10**3, 10**9),
        (2**53 + 1, 1),
        (2**54, 1),
        (2**60 + 1, 2**20 + 1),
        (2**61, 2**60 + 1),
    ],
)
def test_normalised_and_gain_areas_at_any_skew(P, N, seed):
    """Fractions and 60 digits, also where P/(P + N) rounds to 1: a relative error below 1e-12.

    A gain area next to 0 is a sum of positive and negative gains; it is compared with the
    rounding of its terms.
    """
    points = skewed_points(P, N, seed)
    groups = chain(points, P, N)
    same(auc_pr_normalized_value(groups), normalized_area(points, P, N), 1e-12)
    expected = gain_area(points, P, N)
    assert abs(Fraction(auc_prg_value(groups)) - expected) <= 1e-12 * max(abs(expected), 1e-3)


@pytest.mark.parametrize(("P", "N"), [(2**54, 1), (2**54 + 1, 1), (2**61, 1), (1, 2**61), (7, 5)])
def test_areas_of_the_best_and_of_the_worst_ranking(P, N):
    """Exactly 1 for the best; the worst has a normalised area of 0."""
    best, worst = chain([(0, 0), (0, P), (N, P)], P, N), chain([(0, 0), (N, 0), (N, P)], P, N)
    assert auc_prg_value(best) == auc_pr_normalized_value(best) == 1
    assert auc_pr_normalized_value(worst) == pytest.approx(0, abs=1e-14)
    expected = float(gain_area([(0, 0), (N, 0), (N, P)], P, N))
    assert auc_prg_value(worst) == pytest.approx(expected, rel=1e-12, abs=1e-14)
    ev = Evaluator()
    ev.add_cases(labels=[1, 0, 1], scores=[3, 2, 1], counts=[P - P // 3, N, max(P // 3, 1)])
    curve = ev.precision_recall_gain_curve()
    assert curve.recall_gain[0] == 0
    assert curve.recall_gain[-1] == 1
    assert curve.area() == pytest.approx(ev.auc_prg(), abs=1e-12)


def empty_groups(P, N):
    """Return groups without a scored positive."""
    none = np.empty(0, dtype=np.int64)
    return Groups(np.empty(0), none, none, none, none, P, 0, P, N)


@pytest.mark.parametrize("P", [0, 3])
@pytest.mark.parametrize("N", [0, 2])
def test_no_groups(P, N):
    """Without scored positives AP is 0 or undefined; nothing raises."""
    groups = empty_groups(P, N)
    assert (
        average_precision_value(groups) == 0 if P else math.isnan(average_precision_value(groups))
    )
    areas = groups.with_misses()
    for value in (auc_roc_value(areas), partial_auc_roc_value(areas, max_fpr=0.5)):
        assert math.isnan(value) == (P == 0 or N == 0)
    assert math.isnan(auc_pr_value(areas)) == (P == 0)
    assert math.isnan(auc_prg_value(areas)) == (P == 0 or N == 0)
