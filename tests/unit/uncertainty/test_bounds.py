"""Bounds against every order, ties included, of the cases inside each cell."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streameval import Evaluator, InvalidInputError
from streameval._counts.groups import Groups
from streameval._counts.resolution import MAX_BITS, MIN_BITS
from streameval._uncertainty.bounds import BoundsQueries, value_of_view
from streameval._uncertainty.cell_orders import (
    hides_order,
    least_average_precision,
)
from streameval.kernel import quantise
from streameval.statistics import BY_NAME, Place

from .rankings import Ranking, every_order


def build(groups, missed=(0, 0)):
    """Return groups from (p, n) pairs, best first; pairs without positives only add to fp."""
    rows, tp, fp = [], 0, 0
    for index, (p, n) in enumerate(groups):
        if p:
            rows.append((-float(index), p, n, tp, fp))
        tp, fp = tp + p, fp + n
    columns = list(zip(*rows)) or [()] * 5
    return Groups(
        scores=np.array(columns[0], dtype=np.float64),
        **{
            name: np.array(column, dtype=np.int64)
            for name, column in zip(("p", "n", "tp", "fp"), columns[1:])
        },
        missed_positives=missed[0],
        missed_negatives=missed[1],
        P=tp + missed[0],
        N=fp + missed[1],
    )


class Counted(BoundsQueries):
    """A view with these groups, bounded or exact."""

    revision = 0
    scale = "plain"
    unit, weighted, min_label_probability = 1, None, None

    def __init__(self, groups, *, resolution):
        self.groups, self.resolution = groups, resolution
        self.P, self.N = groups.P, groups.N
        self._answers = {}

    def _view(self):
        return self

    def cached(self, key, compute):
        if key not in self._answers:
            self._answers[key] = compute()
        return self._answers[key]


def figure_bounds(groups, name, *, exact, **arguments):
    """Return the bounds of one metric of bounded (or exact) groups."""
    return Counted(groups, resolution=None if exact else 12).bounds(name, **arguments)


def value_of(view, name, arguments):
    """Return a metric of a view."""
    metric = BY_NAME[name]
    return value_of_view(view, metric, **{**arguments, **metric.arguments})


SMALL = [
    ([(2, 2)], (0, 0)),
    ([(1, 1)], (0, 0)),
    ([(1, 3)], (1, 2)),
    ([(3, 1)], (1, 0)),
    ([(0, 1), (2, 2), (1, 1)], (0, 0)),
    ([(2, 1), (0, 2), (1, 2)], (1, 1)),
    ([(1, 1), (1, 1), (1, 1), (1, 1)], (0, 1)),
    ([(2, 0), (1, 2), (2, 1)], (0, 0)),
    ([(0, 3), (3, 0), (1, 2)], (2, 0)),
    ([(1, 2), (2, 1), (0, 1), (1, 1)], (0, 0)),
]
FIGURES = [
    ("auc_roc", {}, lambda r: r.auc_roc()),
    ("auc_roc_hull", {}, lambda r: r.auc_roc_hull()),
    ("auc_pr", {}, lambda r: r.auc_pr()),
    ("auc_pr", {"method": "unit"}, lambda r: r.unit()),
    ("auc_pr_hull", {}, lambda r: r.auc_pr_hull()),
    ("auc_pr_normalized", {}, lambda r: r.auc_pr_normalized()),
    ("auc_prg", {}, lambda r: r.gain()),
    ("average_precision", {}, lambda r: r.average_precision()),
    (
        "average_precision",
        {"prevalence": 0.125},
        lambda r: r.average_precision(Fraction(r.P, r.N) * 7),
    ),
    ("maximum_f_measure", {}, lambda r: r.maximum_f_measure()),
    ("maximum_f_measure", {"beta": 0.5}, lambda r: r.maximum_f_measure(Fraction(1, 2))),
    ("maximum_f_measure", {"beta": 3.0}, lambda r: r.maximum_f_measure(3)),
    ("maximum_mcc", {}, lambda r: r.maximum_mcc()),
    *(("precision_at", {"rank": k}, lambda r, k=k: r.precision_at(k)) for k in (0, 1, 2, 3, 5, 99)),
    ("reciprocal_rank", {}, lambda r: r.reciprocal_rank()),
    ("r_precision", {}, lambda r: r.precision_at(r.P)),
    ("gini", {}, lambda r: 2 * r.auc_roc() - 1),
    ("recall_at", {"rank": 3}, lambda r: 3 * r.precision_at(3) / r.P),
    (
        "lift_at",
        {"rank": 2},
        lambda r: r.precision_at(2) * Fraction(r.P + r.N, r.P),
    ),
]


@pytest.mark.parametrize(("cells", "missed"), SMALL)
@pytest.mark.parametrize(
    ("name", "arguments", "value"), FIGURES, ids=lambda v: v if isinstance(v, str) else ""
)
@pytest.mark.slow
def test_some_order_attains_each_bound_and_none_exceeds_it(cells, missed, name, arguments, value):
    """Rigorous: no order exceeds them. Tight: some order attains them up to rounding."""
    lower, upper = figure_bounds(build(cells, missed), name, exact=False, **arguments)
    values = [value(ranking) for ranking in every_order(cells, missed)]
    assert lower <= min(values)
    assert max(values) <= upper
    assert lower == pytest.approx(float(min(values)), rel=1e-12, abs=1e-12)
    assert upper == pytest.approx(float(max(values)), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("cells", "missed"), SMALL)
def test_eleven_points_are_attained_and_never_exceeded(cells, missed):
    """Each of the eleven points has its own limits."""
    name = "eleven_pt_interp_precision"
    lower, upper = figure_bounds(build(cells, missed), name, exact=False)
    values = [ranking.eleven_pt() for ranking in every_order(cells, missed)]
    for i, column in enumerate(zip(*values)):
        assert lower[i] <= min(column)
        assert max(column) <= upper[i]
        assert lower[i] == pytest.approx(float(min(column)), rel=1e-13)
        assert upper[i] == pytest.approx(float(max(column)), rel=1e-13)


@pytest.mark.parametrize(("cells", "missed"), SMALL)
@pytest.mark.parametrize(
    ("name", "arguments", "value"), FIGURES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_exact_bounds_are_the_value(cells, missed, name, arguments, value):
    """Without a resolution ties are real: the bounds differ by rounding alone."""
    lower, upper = figure_bounds(build(cells, missed), name, exact=True, **arguments)
    exact = value(Ranking(cells, missed))
    assert lower <= exact <= upper
    assert upper - lower < 1e-12


PARTS = [
    ("auc_roc", {"max_fpr": 0.3}),
    ("auc_roc", {"max_fpr": 0.3, "standardize": True}),
    ("auc_roc", {"min_recall": 0.4}),
    ("auc_roc_hull", {"max_fpr": 0.3}),
    ("auc_pr", {"min_recall": 0.4}),
    ("auc_pr", {"min_recall": 0.4, "method": "unit", "prevalence": 0.2}),
    ("auc_pr_hull", {"min_recall": 0.4}),
    ("auc_pr", {"hull": True, "prevalence": 0.01}),
]


@pytest.mark.parametrize(("cells", "missed"), SMALL)
@pytest.mark.parametrize(("name", "arguments"), PARTS, ids=str)
@pytest.mark.slow
def test_parts_of_areas_are_attained_and_never_exceeded(cells, missed, name, arguments):
    """The other arguments of a metric's method are passed on, and keep the guarantee."""
    lower, upper = figure_bounds(build(cells, missed), name, exact=False, **arguments)
    values = []
    for ranking in every_order(cells, missed):
        view = Counted(build(ranking.finite, missed), resolution=None)
        values.append(value_of(view, name, arguments))
    assert lower <= min(values)
    assert max(values) <= upper
    assert lower == pytest.approx(min(values), abs=1e-12)
    assert upper == pytest.approx(max(values), abs=1e-12)


# ---- whole evaluators: streams against the exact metrics -----------------------------


def streams():
    """Return named streams of (labels, scores, scale)."""
    rng = np.random.default_rng(3)
    labels = rng.random(4000) < 0.2
    smooth = rng.normal(labels * 1.5)
    chance = 1 / (1 + np.exp(-smooth))
    return {
        "smooth": (labels, smooth, None),
        "negative": (labels, -np.exp(-smooth), None),
        "saturated": (labels, 1 / (1 + np.exp(-12 * smooth)), "probability"),
        "float32": (
            labels,
            (1 / (1 + np.exp(np.float32(-6 * smooth)))).astype(float),
            "probability",
        ),
        "saturated plain": (labels, 1 / (1 + np.exp(-12 * smooth)), None),
        "denormal": (labels, smooth * 1e-308, None),
        "huge": (labels, smooth * 2e307, None),
        "both ends": (labels, np.where(chance > 0.5, 1 - 1e-12 * chance, 1e-12 * chance), None),
        "tied": (labels, np.round(smooth, 1), None),
        "one cell": (labels, 1 + chance * 1e-9, None),
        # Inside every cell the order is the worst, or the best, of all.
        "negatives first": (labels, 1 + np.arange(4000) // 40 + (~labels) * 1e-6, None),
        "positives first": (labels, 1 + np.arange(4000) // 40 + labels * 1e-6, None),
    }


ASKED = [
    *((name, {}) for name in Place.BOUNDS.names() if not name.endswith("_at")),
    ("auc_pr", {"method": "unit", "prevalence": 0.01}),
    ("auc_roc", {"max_fpr": 0.05, "standardize": True}),
    ("average_precision", {"prevalence": 0.001}),
    ("maximum_f_measure", {"beta": 2.0}),
    *(("precision_at", {"rank": k}) for k in (1, 7, 100, 1500, 4001)),
    ("recall_at", {"fraction": 0.1}),
    ("lift_at", {"rank": 50}),
]


@pytest.mark.parametrize("name", streams())
@pytest.mark.parametrize("settings", [{"resolution": 12}, {"resolution": 4}, {"max_cells": 50}])
def test_exact_figures_never_leave_the_bounds(name, settings):
    """Metrics of an exact evaluator with the same cases and misses lie inside."""
    labels, scores, scale = streams()[name]
    exact, bounded = Evaluator(), Evaluator(scale=scale, **settings)
    for evaluator in (exact, bounded):
        evaluator.add_cases(labels=labels, scores=scores)
        evaluator.add_misses(5)
        evaluator.add_negative_misses(11)
    for figure, arguments in ASKED:
        lower, upper = bounded.bounds(figure, **arguments)
        kept = dict(arguments)
        if figure.endswith("_hull"):
            kept["hull"] = True
        value = getattr(exact, figure.removesuffix("_hull"))(**kept)
        assert np.all(lower <= value), (figure, arguments)
        assert np.all(value <= upper), (figure, arguments)
        own_lower, own_upper = exact.bounds(figure, **arguments)
        assert np.all(own_lower <= value)
        assert np.all(value <= own_upper)
        assert np.all(own_upper - own_lower < 1e-11 * np.maximum(1, np.abs(value)))


@given(
    st.lists(st.tuples(st.integers(1, 400), st.integers(0, 400)), min_size=1, max_size=12),
    st.sampled_from([None, 0.5, 0.01]),
)
@pytest.mark.slow
def test_least_average_precision_is_its_sum(cells, prevalence):
    """The closed form equals the sum over every positive, in fractions."""
    groups = build(cells)
    assume(groups.N > 0)
    factor = (
        1 if prevalence is None else Fraction(groups.P, groups.N) * (1 / Fraction(prevalence) - 1)
    )
    total = Fraction(0)
    for p, n, tp, fp in zip(groups.p, groups.n, groups.tp, groups.fp):
        T, B = int(tp), factor * (int(fp) + int(n))
        total += sum(Fraction(T + i) / (T + i + B) for i in range(1, int(p) + 1))
    closed = least_average_precision(groups, factor=float(factor))
    assert closed == pytest.approx(float(total / groups.P), rel=4e-15)


def test_limits_hold_where_counts_are_no_doubles():
    """Counts near 2^53 and 2^60: an exact ratio of integers, and no overflow."""
    many = 2**59
    groups = build([(many, many // 3), (many, many)])
    lower, upper = figure_bounds(groups, "auc_roc", exact=False)
    exact = Fraction(many * (many // 3 + many) + many * many, 2 * many * (many // 3 + many))
    assert lower <= exact <= upper
    for name in ("auc_pr", "average_precision", "auc_roc_hull", "auc_pr_hull"):
        lower, upper = figure_bounds(groups, name, exact=False)
        assert 0 < lower < upper <= 1


@pytest.mark.parametrize("seed", range(6))
def test_skew_aware_bounds_enclose_and_are_narrow_with_few_negatives(seed):
    """With P >> N the limits of a few wide cells hold, and those of exact counts are near."""
    rng = np.random.default_rng(seed)
    labels = rng.random(40) < 0.5
    labels[:2] = True, False
    counts = np.where(labels, rng.integers(1, 10**9, 40), 1)
    scores = rng.normal(labels * 3.0)
    exact, bounded = Evaluator(), Evaluator(resolution=2)
    for evaluator in (exact, bounded):
        evaluator.add_cases(labels=labels, scores=scores, counts=counts)
    for name in ("auc_pr_normalized", "auc_prg"):
        value = getattr(exact, name)()
        lower, upper = bounded.bounds(name)
        assert lower <= value <= upper
        own_lower, own_upper = exact.bounds(name)
        assert own_lower <= value <= own_upper
        assert own_upper - own_lower < 1e-13


@pytest.mark.parametrize("cells", [[], [(0, 3)], [(2, 0)]])
@pytest.mark.parametrize("name", Place.BOUNDS.names())
def test_undefined_figures_have_undefined_bounds(cells, name):
    """The bounds are nan exactly where the metric is."""
    arguments = {"rank": 1} if name.endswith("_at") else {}
    view = Counted(build(cells), resolution=None)
    value = value_of(view, name, arguments)
    for exact in (True, False):
        lower, upper = figure_bounds(build(cells), name, exact=exact, **arguments)
        assert np.array_equal(np.isnan(lower), np.isnan(value))
        assert np.array_equal(np.isnan(upper), np.isnan(value))


def test_all_positives_missed():
    """The miss group is exact, and metrics at finite thresholds are 0."""
    groups = build([(0, 3)], (2, 1))
    assert figure_bounds(groups, "reciprocal_rank", exact=False) == (0, 0)
    assert figure_bounds(groups, "maximum_f_measure", exact=False) == (0, 0)
    assert figure_bounds(groups, "average_precision", exact=False) == (0, 0)
    lower, upper = figure_bounds(groups, "auc_roc", exact=False)
    assert lower == pytest.approx(1 / 8)
    assert upper == pytest.approx(1 / 8)


def test_names_and_arguments_are_checked():
    """An unknown name is refused with the known ones; a metric's own checks still apply."""
    groups = build([(1, 1)])
    with pytest.raises(InvalidInputError, match="bounds are known for auc_pr, ") as caught:
        figure_bounds(groups, "brier", exact=False)
    assert caught.value.field == "metric"
    with pytest.raises(InvalidInputError, match="rank"):
        figure_bounds(groups, "precision_at", exact=False, rank=-1)
    with pytest.raises(InvalidInputError, match="prevalence"):
        figure_bounds(groups, "average_precision", exact=False, prevalence=2.0)
    with pytest.raises(TypeError, match="depth"):
        figure_bounds(groups, "auc_roc", exact=False, depth=2)
    with pytest.raises(InvalidInputError, match=r"^bounds of precision_at need a rank: ") as caught:
        figure_bounds(groups, "precision_at", exact=False)
    assert caught.value.field == "rank"


def test_a_second_query_is_free():
    """Bounds are cached with the revision."""
    evaluator = Evaluator(resolution=3)
    evaluator.add_cases(labels=[0, 1, 0, 1], scores=[0.1, 0.11, 0.5, 0.6])
    assert evaluator.bounds("auc_pr") is evaluator.bounds("auc_pr")


def test_a_cell_of_one_double_is_a_real_tie():
    """Saturated probabilities share 1.0 exactly: nothing is hidden there."""
    exact, bounded = Evaluator(), Evaluator(resolution=3, scale="probability")
    for evaluator in (exact, bounded):
        evaluator.add_cases(labels=[1, 0, 1, 0], scores=[1.0, 1.0, 1 - 2**-53, 1 - 2**-53])
    for name in ("auc_roc", "auc_pr", "average_precision", "precision_at"):
        arguments = {"rank": 1} if name == "precision_at" else {}
        assert bounded.bounds(name, **arguments) == exact.bounds(name, **arguments)
    all_bits = Evaluator(resolution=53)
    all_bits.add_cases(labels=[1, 0], scores=[0.3, 0.3])
    assert all_bits.bounds("auc_roc") == pytest.approx((0.5, 0.5))


@pytest.mark.parametrize("scale", ["plain", "probability"])
@pytest.mark.parametrize("bits", [MIN_BITS, -5, 1, 12, MAX_BITS - 2, MAX_BITS - 1, MAX_BITS])
def test_which_cells_hide_an_order(scale, bits):
    """Exactly the cells of two doubles or more, also at the largest doubles and around 0."""
    largest, least = np.finfo(np.float64).max, np.nextafter(0.0, 1.0)
    scores = np.array([1.0, 1 - 2**-53, 0.75, 0.5, 0.1, 1e-300, least, 0.0])
    if scale == "plain":
        ends = np.array([-least, -1.0, -np.nextafter(largest, 0), -largest])
        scores = np.concatenate(([largest, np.nextafter(largest, 0)], scores, ends))
    edges = np.unique(quantise(scores, bits, scale))[::-1]
    one = np.ones(edges.size, dtype=np.int64)
    groups = Groups(edges, one, one, one, one, 0, 0, 9, 9)
    following = [math.nextafter(edge, math.inf) for edge in edges.tolist()]
    last = 1.0 if scale == "probability" else largest
    shared = [
        value <= last and quantise(np.array([value]), bits, scale)[0] == edge
        for value, edge in zip(following, edges.tolist(), strict=True)
    ]
    assert hides_order(groups, bits, scale).tolist() == shared
