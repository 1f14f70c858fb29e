"""LingPipe's metrics against brute force: every order of every tie, in fractions."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import auc, average_precision_score, roc_auc_score
from sklearn.metrics import roc_curve as sklearn_roc_curve

from streameval import Evaluator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CLOSE = {"rel_tol": 1e-13, "abs_tol": 1e-15}


@dataclass(frozen=True)
class Data:
    """A few cases with many ties, and misses of both classes."""

    cases: tuple[tuple[bool, float], ...]
    missed: int
    missed_negatives: int

    @property
    def P(self) -> int:
        return sum(label for label, _ in self.cases) + self.missed

    @property
    def N(self) -> int:
        return sum(not label for label, _ in self.cases) + self.missed_negatives

    def evaluator(self) -> Evaluator:
        ev = Evaluator()
        for label, score in self.cases:
            ev.add_case(label, score)
        ev.add_misses(self.missed)
        ev.add_negative_misses(self.missed_negatives)
        return ev

    def orders(self) -> Iterator[list[bool]]:
        """Every ranking of the labels that the scores allow; all are equally likely."""
        ties = []
        for score in sorted({score for _, score in self.cases}, reverse=True):
            tied = [label for label, each in self.cases if each == score]
            ties.append(list(itertools.combinations(range(len(tied)), sum(tied))))
            ties[-1] = [[i in chosen for i in range(len(tied))] for chosen in ties[-1]]
        for parts in itertools.product(*ties):
            yield [label for part in parts for label in part]

    def expectation(self, metric: Callable[[list[bool]], Fraction]) -> Fraction:
        values = [metric(order) for order in self.orders()]
        return sum(values, Fraction(0)) / len(values)

    def points(self) -> list[tuple[float, int, int]]:
        """(score, TP, FP) at every distinct score, best first."""
        rows = []
        for score in sorted({score for _, score in self.cases}, reverse=True):
            labels = [label for label, each in self.cases if each >= score]
            rows.append((score, sum(labels), len(labels) - sum(labels)))
        return rows


SCORES = st.sampled_from([-3.5, -1.0, 0.0, 0.25, 2.0])
DATA = st.builds(
    Data,
    cases=st.lists(st.tuples(st.booleans(), SCORES), max_size=9).map(tuple),
    missed=st.integers(0, 3),
    missed_negatives=st.integers(0, 3),
)


@given(data=DATA, rank=st.integers(1, 14))
def test_precision_at_is_the_expectation_over_orders(data: Data, rank: int) -> None:
    """Precision at a rank averages over all orders of ties; ranks beyond the last are errors."""
    metric = data.evaluator().precision_at(rank)
    if not data.cases:
        assert math.isnan(metric)
        return
    assert metric == float(data.expectation(lambda order: Fraction(sum(order[:rank]), rank)))


@given(data=DATA)
def test_r_precision_is_the_expectation_over_orders(data: Data) -> None:
    """R-precision is precision at rank P, misses counted in P."""
    ev = data.evaluator()
    assert math.isnan(ev.r_precision()) == (data.P == 0 or not data.cases)
    if data.P and data.cases:
        expected = data.expectation(lambda order: Fraction(sum(order[: data.P]), data.P))
        assert ev.r_precision() == ev.pr_breakeven_point() == float(expected)


@given(data=DATA)
def test_reciprocal_rank_is_the_expectation_over_orders(data: Data) -> None:
    """The reciprocal rank averages 1/rank of the first positive over all orders of ties."""
    metric = data.evaluator().reciprocal_rank()
    if data.P == 0:
        assert math.isnan(metric)
        return

    def reciprocal(order: list[bool]) -> Fraction:
        return Fraction(1, order.index(True) + 1) if any(order) else Fraction(0)

    assert math.isclose(metric, data.expectation(reciprocal), **CLOSE)


@given(data=DATA, rank=st.integers(0, 14))
def test_recall_and_lift_at_are_the_expectation_over_orders(data: Data, rank: int) -> None:
    """Recall and lift at a rank come from the same expected positives."""
    ev = data.evaluator()
    if data.P == 0:
        assert math.isnan(ev.recall_at(rank))
        assert math.isnan(ev.lift_at(rank))
        return
    found = data.expectation(lambda order: Fraction(sum(order[:rank])))
    assert ev.recall_at(rank) == float(found / data.P)
    if rank and data.cases:
        assert ev.lift_at(rank) == float(found / rank / Fraction(data.P, data.P + data.N))
    else:
        assert math.isnan(ev.lift_at(rank))


@given(data=DATA)
def test_pr_curves_follow_their_definition(data: Data) -> None:
    """Both PR curves have the rows of their definitions, and no others."""
    ev = data.evaluator()
    if data.P == 0:
        assert ev.pr_curve().shape == ev.pr_curve(True).shape == (0, 2)
        assert math.isnan(ev.area_under_pr_curve())
        return
    points = [(Fraction(tp, data.P), Fraction(tp, tp + fp)) for _, tp, fp in data.points() if tp]
    rows = [(0, 1), *points, (1, 0)]
    assert ev.pr_curve().tolist() == [[float(r), float(p)] for r, p in rows]
    recalls = sorted({r for r, _ in points})
    best = [(r, max(p for other, p in points if other >= r)) for r in recalls]
    best = [(0, 1), *best, *([(1, 0)] if 1 not in recalls else [])]
    assert ev.pr_curve(True).tolist() == [[float(r), float(p)] for r, p in best]
    assert math.isclose(ev.area_under_pr_curve(), trapezoid(rows), **CLOSE)
    assert math.isclose(ev.area_under_pr_curve(True), trapezoid(best), **CLOSE)


@given(data=DATA)
def test_pr_score_curves_follow_their_definition(data: Data) -> None:
    """With scores there are no limit points; True keeps the highest score of each recall."""
    ev = data.evaluator()
    if data.P == 0:
        assert ev.pr_score_curve().shape == ev.pr_score_curve(True).shape == (0, 3)
        return
    rows = [[tp / data.P, tp / (tp + fp), score] for score, tp, fp in data.points()]
    assert ev.pr_score_curve().tolist() == rows
    kept = {}
    for recall, _, score in rows:
        if recall > 0:
            best = max(p for r, p, _ in rows if r >= recall)
            kept.setdefault(recall, [recall, best, score])
    assert ev.pr_score_curve(True).tolist() == list(kept.values())


@given(data=DATA)
def test_roc_curves_follow_their_definition(data: Data) -> None:
    """The ROC curve has every point and (1, 1); True keeps the best of each rate."""
    ev = data.evaluator()
    if data.P == 0 or data.N == 0:
        assert ev.roc_curve().shape == ev.roc_curve(True).shape == (0, 2)
        assert math.isnan(ev.area_under_roc_curve())
        assert math.isnan(ev.area_under_roc_curve(True))
        return
    rows = [(Fraction(0), Fraction(0))]
    rows += [(Fraction(fp, data.N), Fraction(tp, data.P)) for _, tp, fp in data.points()]
    rows += [(Fraction(1), Fraction(1))] if rows[-1] != (1, 1) else []
    assert ev.roc_curve().tolist() == [[float(x), float(y)] for x, y in rows]
    best = [(rate, max(y for x, y in rows if x == rate)) for rate in sorted({x for x, _ in rows})]
    assert ev.roc_curve(True).tolist() == [[float(x), float(y)] for x, y in best]
    assert ev.area_under_roc_curve() == float(trapezoid(rows)) == ev.auc_roc()
    assert math.isclose(ev.area_under_roc_curve(True), trapezoid(best), **CLOSE)
    # The first row is at (0, tpr > 0), so no area is lost before it: it is never below.
    assert ev.area_under_roc_curve(True) >= ev.area_under_roc_curve() - 1e-15


@given(data=DATA)
def test_eleven_points_compare_integers(data: Data) -> None:
    """Entry i is the best precision where 10 TP >= i P, and 0 if no score reaches it."""
    metrics = data.evaluator().eleven_pt_interp_precision()
    if data.P == 0:
        assert np.isnan(metrics).all()
        return
    points = data.points()
    expected = [1.0]
    expected += [
        float(max((Fraction(t, t + f) for _, t, f in points if 10 * t >= i * data.P), default=0))
        for i in range(1, 11)
    ]
    assert metrics.tolist() == expected


@given(data=DATA, beta=st.sampled_from([0.5, 1.0, 2.0, 1e-200, 1e200]))
def test_maximum_f_is_that_of_the_best_finite_threshold(data: Data, beta: float) -> None:
    """The maximum F is the largest over all finite thresholds, misses in P."""
    metric = data.evaluator().maximum_f_measure(beta)
    if data.P == 0:
        assert math.isnan(metric)
        return
    weight = Fraction(beta) ** 2
    values = [(1 + weight) * tp / (weight * data.P + tp + fp) for _, tp, fp in data.points() if tp]
    assert math.isclose(metric, max(values, default=Fraction(0)), **CLOSE)


@given(data=DATA, seed=st.randoms(use_true_random=False))
def test_the_order_of_arrival_changes_nothing(data: Data, seed: object) -> None:
    """No metric depends on the order in which cases were added."""
    shuffled = list(data.cases)
    seed.shuffle(shuffled)
    a = data.evaluator()
    b = Data(tuple(shuffled), data.missed, data.missed_negatives).evaluator()
    assert str(a) == str(b)
    assert a.pr_score_curve().tolist() == b.pr_score_curve().tolist()


def test_scikit_learn_agrees_where_it_means_the_same() -> None:
    """Without misses the ROC curve, its area and AP are scikit-learn's."""
    rng = np.random.default_rng(7)
    labels = rng.random(400) < 0.3
    scores = np.round(rng.normal(labels * 1.2), 1)
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=scores)
    fpr, tpr, _ = sklearn_roc_curve(labels, scores, drop_intermediate=False)
    np.testing.assert_allclose(ev.roc_curve(), np.column_stack((fpr, tpr)), atol=1e-15)
    assert ev.area_under_roc_curve() == pytest.approx(roc_auc_score(labels, scores), abs=1e-14)
    assert ev.average_precision() == pytest.approx(
        average_precision_score(labels, scores), abs=1e-14
    )
    rows = ev.pr_curve()
    assert ev.area_under_pr_curve() == pytest.approx(auc(rows[:, 0], rows[:, 1]), abs=1e-14)


def trapezoid(rows: list[tuple[Fraction, Fraction]]) -> Fraction:
    """Return the area under rows joined by straight lines, exactly."""
    pairs = itertools.pairwise(rows)
    return sum(((b[0] - a[0]) * (b[1] + a[1]) / Fraction(2) for a, b in pairs), Fraction(0))
