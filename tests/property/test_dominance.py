"""Theorem 3.2: one curve dominates another in ROC space iff it does in PR space."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streameval import OperatingPoints, dominates
from streameval._metrics.hull import hull_vertices
from streameval._metrics.operating_points import Curve


@st.composite
def pairs_of_curves(draw):
    """Draw two curves with the same totals and few points, so that dominance is common."""
    P, N = draw(st.integers(0, 6)), draw(st.integers(0, 6))
    scale = draw(st.sampled_from([1, 2**21, 2**40]))
    curves = []
    for _ in range(2):
        inner = draw(st.lists(st.tuples(st.integers(0, N), st.integers(0, P)), max_size=4))
        fp = sorted(x for x, _ in inner)
        tp = sorted(y for _, y in inner)
        points = sorted({(0, 0), *zip(fp, tp, strict=True), (N, P)})
        curves.append(
            OperatingPoints(
                thresholds=np.concatenate(([np.inf], -np.arange(len(points) - 1.0))),
                fp=np.array([x for x, _ in points]) * scale,
                tp=np.array([y for _, y in points]) * scale,
                P=P * scale,
                N=N * scale,
            )
        )
    return curves


def fewest_fp(curve, t, *, after):
    """Return the least FP at TP = t, or with `after` just above it, as a fraction."""
    fp, tp = curve.fp.tolist(), curve.tp.tolist()
    segments = list(zip(fp, tp, fp[1:], tp[1:], strict=False))
    values = []
    for x0, y0, x1, y1 in segments:
        if y0 < y1 and (y0 <= t < y1 if after else y0 < t <= y1):
            values.append(x0 + Fraction((x1 - x0) * (t - y0), y1 - y0))
    return min(values)


def brute(a, b):
    """Compare at all points of either in PR space, in fractions."""
    levels = sorted({*a.tp.tolist(), *b.tp.tolist()})
    return all(
        fewest_fp(a, t, after=after) <= fewest_fp(b, t, after=after)
        for after, wanted in ((False, levels[1:]), (True, levels[:-1]))
        for t in wanted
    )


def doubled_area(curve):
    """Return twice the area under the curve in count space, an integer."""
    fp, tp = curve.fp.tolist(), curve.tp.tolist()
    return sum((fp[i] - fp[i - 1]) * (tp[i] + tp[i - 1]) for i in range(1, len(fp)))


@given(pairs_of_curves())
def test_same_answer_in_both_spaces(curves):
    """`dominates` agrees with itself in the other space and with fractions."""
    a, b = curves
    answer = dominates(a, b, space="roc")
    assert dominates(a, b, space="pr") == answer
    assert answer == brute(a, b)


@given(pairs_of_curves())
def test_the_hull_dominates_its_points(curves):
    """The hull dominates its own curve, and nothing else unless that is the hull."""
    curve = curves[0]
    vertices = hull_vertices(curve.groups())
    hull = Curve(vertices.thresholds, vertices.fp, vertices.tp, P=curve.P, N=curve.N)
    for space in ("roc", "pr"):
        assert dominates(hull, curve, space=space)
        assert dominates(curve, curve, space=space)
        assert dominates(curve, hull, space=space) == (doubled_area(curve) == doubled_area(hull))


@given(pairs_of_curves())
def test_a_dominating_curve_has_no_less_area(curves):
    """Dominance orders both areas."""
    a, b = curves
    if dominates(a, b) and a.P and a.N:
        assert a.auc_roc() >= b.auc_roc()
        assert a.auc_pr() >= b.auc_pr() * (1 - 1e-15)
