"""Weighted cases: exact sums in any order, figures in exact fractions and as scikit-learn's."""

from __future__ import annotations

import copy
import pickle
import random
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from streameval import Evaluator, InvalidInputError, compare, functional

UNIT = 2**16

# Few scores, so that there are ties; weights from one unit to the greatest, many of them 1.
_weights = st.one_of(
    st.just(1.0),
    st.integers(0, 2**20).map(lambda units: units / UNIT),
    st.integers(2**46, 2**47).map(lambda units: units / UNIT),
)
_cases = st.lists(st.tuples(st.booleans(), st.integers(-3, 3), _weights), max_size=30)


def filled(rows, **settings) -> Evaluator:
    """Return an evaluator of rows of a label, a score and a weight."""
    evaluator = Evaluator(**settings)
    evaluator.add_cases(**columns(rows))
    return evaluator


def columns(rows) -> dict[str, list]:
    """Return rows as the arguments of `add_cases`."""
    labels, scores, weights = ([row[i] for row in rows] for i in range(3))
    return {"labels": labels, "scores": [float(score) for score in scores], "weights": weights}


def some_rows(seed: int, size: int = 60, digits: int = 1) -> list[tuple[bool, float, float]]:
    """Return rows of both classes with ties."""
    rng = np.random.default_rng(seed)
    labels = rng.random(size) < 0.4
    labels[:2] = True, False
    scores = np.clip((rng.normal(size=size) + labels).round(digits) / 10 + 0.4, 0.01, 0.99)
    weights = rng.integers(1, 2**20, size=size) / UNIT
    return list(zip(labels.tolist(), scores.tolist(), weights.tolist(), strict=True))


def exact_auc_roc(rows) -> Fraction:
    """Return the share of weight of the pairs that are ordered correctly, ties half."""
    positives = [(score, Fraction(w)) for label, score, w in rows if label]
    negatives = [(score, Fraction(w)) for label, score, w in rows if not label]
    won = sum(
        w * v * (Fraction(1) if a > b else Fraction(1, 2) if a == b else 0)
        for a, w in positives
        for b, v in negatives
    )
    return won / (sum(w for _, w in positives) * sum(w for _, w in negatives))


def exact_average_precision(rows) -> Fraction:
    """Return the mean over the weight of positives of the precision at their score."""
    total, whole = Fraction(0), sum(Fraction(w) for label, _, w in rows if label)
    for threshold in {score for label, score, _ in rows if label}:
        here = sum(Fraction(w) for label, s, w in rows if label and s == threshold)
        tp = sum(Fraction(w) for label, s, w in rows if label and s >= threshold)
        called = sum(Fraction(w) for _, s, w in rows if s >= threshold)
        total += here / whole * tp / called
    return total


@pytest.mark.parametrize("seed", range(8))
def test_areas_are_those_of_exact_fractions(seed: int) -> None:
    """Areas are ratios of sums of weights, rounded at the end only."""
    rows = some_rows(seed, size=30)
    evaluator = filled(rows)
    assert evaluator.auc_roc() == float(exact_auc_roc(rows))
    assert evaluator.average_precision() == pytest.approx(
        float(exact_average_precision(rows)), rel=1e-14
    )
    weight = sum(Fraction(w) for label, _, w in rows if label)
    assert evaluator.prevalence == float(weight / sum(Fraction(w) for *_, w in rows))
    assert evaluator.weights.positives == float(weight)
    squares = sum(Fraction(w) ** 2 for label, _, w in rows if label)
    assert evaluator.weights.effective_positives == pytest.approx(float(weight**2 / squares))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("digits", [0, 1, 5])
def test_figures_are_those_of_scikit_learn(require, seed: int, digits: int) -> None:
    """Every figure that scikit-learn has too agrees with it to 1e-9."""
    metrics = require("sklearn.metrics")
    labels, scores, weights = map(np.array, zip(*some_rows(seed, 200, digits), strict=True))
    evaluator = Evaluator()
    evaluator.add_cases(labels=labels, scores=scores, weights=weights)

    def same(ours: float, theirs: float) -> None:
        assert ours == pytest.approx(theirs, abs=1e-9, rel=1e-9)

    given_weights = {"sample_weight": weights}
    same(evaluator.auc_roc(), metrics.roc_auc_score(labels, scores, **given_weights))
    same(
        evaluator.auc_roc(max_fpr=0.3, standardize=True),
        metrics.roc_auc_score(labels, scores, max_fpr=0.3, **given_weights),
    )
    same(
        evaluator.average_precision(),
        metrics.average_precision_score(labels, scores, **given_weights),
    )
    same(evaluator.brier_score(), metrics.brier_score_loss(labels, scores, **given_weights))
    same(evaluator.log_loss(), metrics.log_loss(labels, scores, **given_weights))
    fpr, tpr, thresholds = metrics.roc_curve(
        labels, scores, drop_intermediate=False, **given_weights
    )
    points = evaluator.operating_points()
    np.testing.assert_allclose(points.fpr, fpr, atol=1e-12)
    np.testing.assert_allclose(points.tpr, tpr, atol=1e-12)
    np.testing.assert_array_equal(points.thresholds, thresholds)
    called = scores >= 0.5
    at = evaluator.confusion_at(0.5)
    matrix = metrics.confusion_matrix(labels, called, **given_weights)
    np.testing.assert_allclose([[at.tn, at.fp], [at.fn, at.tp]], matrix, rtol=1e-12)
    same(at.precision, metrics.precision_score(labels, called, **given_weights))
    same(at.recall, metrics.recall_score(labels, called, **given_weights))
    same(at.accuracy, metrics.accuracy_score(labels, called, **given_weights))
    same(at.mcc, metrics.matthews_corrcoef(labels, called, **given_weights))
    same(at.f_beta(2.0), metrics.fbeta_score(labels, called, beta=2.0, **given_weights))


@pytest.mark.parametrize("seed", range(3))
def test_integer_weights_are_repetitions(seed: int) -> None:
    """A weight of k gives every figure of ratios that k equal cases give."""
    rng = np.random.default_rng(seed)
    size = 120
    labels, scores = rng.random(size) < 0.3, rng.random(size).round(2).clip(0.01, 0.99)
    times = rng.integers(1, 5, size=size)
    weighted, repeated = Evaluator(), Evaluator()
    weighted.add_cases(labels=labels, scores=scores, weights=times)
    repeated.add_cases(labels=labels, scores=scores, counts=times)
    for name in (
        *("auc_roc", "auc_pr", "average_precision", "auc_pr_normalized", "auc_pr_minimum"),
        *("auc_prg", "maximum_f_measure", "maximum_mcc", "ks_statistic", "gini"),
        *("brier_score", "log_loss", "area_under_pr_curve"),
    ):
        ours, theirs = getattr(weighted, name)(), getattr(repeated, name)()
        assert ours == pytest.approx(theirs, rel=1e-12), name
    assert weighted.auc_pr(prevalence=0.01) == pytest.approx(repeated.auc_pr(prevalence=0.01))
    assert weighted.auc_pr(hull=True) == pytest.approx(repeated.auc_pr(hull=True))
    assert weighted.brier_decomposition() == pytest.approx(repeated.brier_decomposition())
    hulls = weighted.roc_hull(), repeated.roc_hull()
    np.testing.assert_array_equal(hulls[0].thresholds, hulls[1].thresholds)
    np.testing.assert_array_equal(hulls[0].tp, hulls[1].tp)
    assert hulls[0].auc_pr() == pytest.approx(hulls[1].auc_pr())
    tables = weighted.reliability(), repeated.reliability()
    np.testing.assert_array_equal(tables[0].counts, tables[1].counts)
    assert tables[0].calibration_error == pytest.approx(tables[1].calibration_error)
    for target in ("precision", "flagged_share"):
        assert weighted.threshold_for(**{target: 0.3}) == repeated.threshold_for(**{target: 0.3})
    assert weighted.best_threshold(cost_fp=1, cost_fn=3) == repeated.best_threshold(
        cost_fp=1, cost_fn=3
    )
    np.testing.assert_allclose(weighted.cost_curve().cost, repeated.cost_curve().cost)
    np.testing.assert_allclose(weighted.pr_curve(), repeated.pr_curve())
    np.testing.assert_allclose(
        weighted.eleven_pt_interp_precision(), repeated.eleven_pt_interp_precision()
    )
    assert weighted.num_cases == size
    assert sum(weighted.weights[:2]) == repeated.num_cases


@given(_cases, st.integers(0, 9))
def test_order_parts_and_ways_do_not_matter(rows, seed: int) -> None:
    """Any order, any cut into merged parts, and rows one by one give the same bytes."""
    whole = filled(rows)
    whole._check()
    shuffled = random.Random(seed).sample(rows, len(rows))
    one_by_one = Evaluator()
    for label, score, weight in shuffled:
        one_by_one.add_case(label, float(score), weight=weight)
    assert one_by_one.num_cases == sum(weight > 0 for *_, weight in rows)
    assert one_by_one.to_bytes() == whole.to_bytes()
    cut = len(rows) // 3
    parts = [filled(shuffled[:cut]), filled(shuffled[cut : 2 * cut]), filled(shuffled[2 * cut :])]
    merged = Evaluator()
    merged.merge(*parts)
    assert merged.to_bytes() == whole.to_bytes()
    assert parts[2] + parts[0] + parts[1] == whole


@given(_cases)
def test_bytes_copies_and_pickles_keep_everything(rows) -> None:
    """Bytes, copies and pickles are equal and give the same figures."""
    whole = filled(rows)
    whole.add_misses(3)
    for other in (
        Evaluator.from_bytes(whole.to_bytes()),
        copy.deepcopy(whole),
        pickle.loads(pickle.dumps(whole)),
    ):
        assert other == whole
        assert other.to_bytes() == whole.to_bytes()
        assert other.weights == whole.weights
        assert (other.num_cases, other.num_misses) == (whole.num_cases, 3)


@given(_cases, _cases)
def test_what_is_removed_was_never_there(kept, removed) -> None:
    """Adding and removing cases leaves the bytes that only the others give."""
    whole = filled(kept + removed)
    whole.remove_cases(**columns(removed))
    assert whole.to_bytes() == filled(kept).to_bytes()
    whole._check()


@given(_cases, st.integers(1, 6))
def test_bounded_evaluators_are_those_of_the_cells(rows, bits: int) -> None:
    """Dropping bits early, late or by a cap sums the weights of whole cells."""
    early = filled(rows, resolution=bits)
    late = Evaluator(resolution=bits)
    late.merge(filled(rows))
    assert early.to_bytes() == late.to_bytes()
    capped = filled(rows, max_cells=3)
    capped._check()
    assert capped.num_cells <= 3
    assert capped.num_cases == early.num_cases
    assert Evaluator.from_bytes(capped.to_bytes()) == capped


def test_bounds_hold_the_exact_figures() -> None:
    """Limits of a bounded evaluator contain the figure of the exact one, weights included."""
    rows = some_rows(3, size=300, digits=5)
    exact, bounded = filled(rows), filled(rows, resolution=3)
    for name in ("auc_roc", "auc_pr", "average_precision", "auc_pr_hull", "maximum_f_measure"):
        lower, upper = bounded.bounds(name)
        value = exact.auc_pr(hull=True) if name == "auc_pr_hull" else getattr(exact, name)()
        assert lower <= value <= upper, name
        assert upper - lower > 0.001, name


def test_weights_that_are_all_one_are_none() -> None:
    """Weights of 1, and states that come back to them, are unweighted to the byte."""
    plain, weighted = Evaluator(), Evaluator()
    columns = {"labels": [1, 0, 1, 0], "scores": [0.9, 0.9, 0.4, 0.1], "counts": [2, 1, 70_000, 1]}
    plain.add_cases(**columns)
    weighted.add_cases(**columns, weights=[1, 1, 1, 1])
    assert weighted.to_bytes() == plain.to_bytes()
    assert weighted.weights is None
    weighted.add_case(True, 0.4, weight=0.5)
    assert weighted.weights is not None
    assert weighted.to_bytes() != plain.to_bytes()
    weighted.remove_case(True, 0.4, weight=0.5)
    assert weighted.to_bytes() == plain.to_bytes()
    assert weighted.precision_at(1) == plain.precision_at(1)
    # Half and one and a half have the sum of two ones, and not the squares.
    halves = Evaluator()
    halves.add_cases(labels=[1, 1], scores=[0.4, 0.4], weights=[0.5, 1.5])
    assert halves.weights.effective_positives == 1.6


def test_misses_and_unweighted_cases_weigh_one() -> None:
    """Misses, and cases without a weight, added before or after weights, weigh 1."""
    evaluator = Evaluator()
    evaluator.add_misses(2)
    evaluator.add_case(True, 0.9)
    evaluator.add_cases(labels=[1, 0], scores=[0.5, 0.4], weights=[2.5, 4])
    evaluator.add_negative_misses(3)
    evaluator.add_case(False, 0.2)
    assert (evaluator.num_positive_ref, evaluator.num_negative_ref) == (4, 5)
    assert (evaluator.num_misses, evaluator.num_negative_misses) == (2, 3)
    assert evaluator.weights[:2] == (5.5, 8.0)
    assert evaluator.confusion_at(0.4).recall == 3.5 / 5.5
    evaluator.remove_misses(2)
    evaluator.remove_negative_misses(3)
    with pytest.raises(InvalidInputError, match="count must be at most 0"):
        evaluator.remove_misses(1)
    assert evaluator.weights == (3.5, 5.0, 3.5**2 / 7.25, 25 / 17)
    snapshot = evaluator.snapshot()
    assert (snapshot.num_cases, snapshot.weights) == (4, evaluator.weights)
    assert "of equal weight" in str(snapshot)


def test_label_probability_is_the_inverse_weight() -> None:
    """A probability p weighs 1/p, rounded to a multiple of 2**-16; a weight is divided by it."""
    evaluator, other = Evaluator(), Evaluator()
    evaluator.add_cases(labels=[1, 1, 0], scores=[3, 2, 1], label_probability=[0.3, 1, 0.25])
    other.add_cases(
        labels=[1, 1, 0], scores=[3, 2, 1], weights=[round(UNIT / 0.3) / UNIT, 1.0, 4.0]
    )
    assert evaluator.to_bytes() == other.to_bytes()
    evaluator.remove_case(True, 3.0, label_probability=0.3)
    other.remove_case(True, 3.0, weight=round(UNIT / 0.3) / UNIT)
    evaluator.add_case(False, 4.0, weight=3.0, label_probability=0.5)
    other.add_case(False, 4.0, weight=6.0)
    assert evaluator == other
    evaluator.add_cases(labels=[0, 1], scores=[5, 5], label_probability=0.5)
    other.add_cases(labels=[0, 1], scores=[5, 5], weights=[2, 2])
    assert evaluator == other


@pytest.mark.parametrize(
    ("arguments", "message", "field"),
    [
        ({"weights": [1, -1]}, "weight must be finite, from 0 to 2**31, got -1.0", "weights"),
        ({"weights": [1, np.nan]}, "weight must be finite, got nan", "weights"),
        ({"weights": [1, np.inf]}, "weight must be finite, got inf", "weights"),
        ({"weights": [1, 2.0**32]}, "weight must be finite, from 0 to 2**31", "weights"),
        ({"weights": [1, 1 / 300]}, "multiply all weights by 2**2:", "weights"),
        ({"weights": [1, "2"]}, "weight must be a number, got '2'", "weights"),
        ({"label_probability": [1, 0]}, "label probability must be above 0", "label_probability"),
        ({"label_probability": [1, 1.5]}, "must be above 0 and at most 1", "label_probability"),
        ({"label_probability": [1, np.nan]}, "label probability must be", "label_probability"),
        (
            {"weights": [1, 2**31], "label_probability": [1, 0.5]},
            "weight over label probability must be at most 2**31",
            "label_probability",
        ),
    ],
)
def test_bad_input_changes_nothing(arguments, message: str, field: str) -> None:
    """Each bad weight or probability is one line, for columns and for a single case."""
    evaluator = filled(some_rows(1))
    before = evaluator.to_bytes(), evaluator.revision
    with pytest.raises(InvalidInputError) as caught:
        evaluator.add_cases(labels=[1, 0], scores=[0.5, 0.5], **arguments)
    assert message in str(caught.value)
    assert (caught.value.field, caught.value.index) == (field, 1)
    names = {"weights": "weight", "label_probability": "label_probability"}
    with pytest.raises(InvalidInputError) as caught:
        evaluator.add_case(True, 0.5, **{names[key]: each[1] for key, each in arguments.items()})
    assert caught.value.field == names[field]
    assert "\n" not in str(caught.value)
    assert (evaluator.to_bytes(), evaluator.revision) == before


def test_other_bad_input_changes_nothing() -> None:
    """Columns of another length, and sums that are too large, are refused."""
    evaluator = Evaluator()
    for arguments, message in (
        ({"weights": [1]}, "weights must have one row for each of labels, got 1 rows and 2"),
        ({"label_probability": [1]}, "label_probability must have one row for each of labels"),
        ({"weights": [2**31, 1], "counts": [2**16, 1]}, "weights together below 2**46"),
        ({"weights": [2**-16, 1], "counts": [2**38, 1]}, r"must stay below 2**38"),
    ):
        with pytest.raises(InvalidInputError) as caught:
            evaluator.add_cases(labels=[1, 0], scores=[0.5, 0.5], **arguments)
        assert message in str(caught.value)
    for _ in range(2):
        evaluator.add_cases(labels=[1], scores=[1], counts=[2**14 - 1], weights=[2**31])
    evaluator.add_case(True, 1.0, weight=2.0**31)
    with pytest.raises(InvalidInputError, match="weights together below"):
        evaluator.add_case(True, 1.0, weight=2.0**31)
    assert evaluator.num_cases == 2**15 - 1
    evaluator._check()


def test_removal_of_a_weight_that_no_case_has() -> None:
    """Where sums tell, the first row at fault is named and nothing changes."""
    evaluator = Evaluator()
    evaluator.add_cases(labels=[1, 1, 0], scores=[0.5, 0.5, 0.5], weights=[2, 3, 1])
    before = evaluator.to_bytes()
    with pytest.raises(InvalidInputError) as caught:
        evaluator.remove_cases(labels=[0, 1], scores=[0.5, 0.5], weights=[1, 4])
    assert str(caught.value) == (
        "there is no positive case of score 0.5 and weight 4 to remove at index 1"
    )
    with pytest.raises(InvalidInputError, match="there is no positive case of score"):
        evaluator.remove_case(True, 0.5)
    with pytest.raises(InvalidInputError, match="there is no negative case of score"):
        evaluator.remove_case(False, 0.6, weight=1.0)
    assert evaluator.to_bytes() == before
    evaluator.remove_case(False, 0.5)
    evaluator.remove_case(True, 0.5, weight=3.0)
    evaluator.remove_case(True, 0.5, weight=2.0)
    assert evaluator == Evaluator()


def test_metrics_of_ranks_are_refused() -> None:
    """What counts cases one by one has no value where cases have weights."""
    evaluator = filled(some_rows(2))
    for ask in (
        lambda: evaluator.precision_at(3),
        evaluator.r_precision,
        evaluator.pr_breakeven_point,
        evaluator.reciprocal_rank,
        evaluator.ranked_report,
        lambda: evaluator.recall_at(3),
        lambda: evaluator.lift_at(3),
        lambda: evaluator.auc_pr(method="unit"),
        lambda: evaluator.operating_points().auc_pr(method="unit"),
        lambda: evaluator.bounds("precision_at", rank=3),
        lambda: evaluator.interval("auc_pr", method="bootstrap"),
    ):
        with pytest.raises(InvalidInputError, match="no meaning where cases have weights"):
            ask()
    assert evaluator.lift_at(fraction=1) == 1.0


def test_curves_count_weights() -> None:
    """Counts of curves are sums of weights; areas of curves are those of the evaluator."""
    evaluator = filled(some_rows(4))
    points = evaluator.operating_points()
    assert evaluator.weights[:2] == (points.P, points.N)
    assert points.auc_pr() == evaluator.auc_pr()
    assert points.auc_roc() == evaluator.auc_roc()
    assert evaluator.roc_hull().auc_roc() == evaluator.auc_roc(hull=True)
    assert evaluator.pr_hull().tp[-1] == evaluator.weights.positives
    assert evaluator.at_thresholds([0.5]).tp[1] == evaluator.confusion_at(0.5).tp
    from streameval import dominates

    assert dominates(evaluator.roc_hull(), points)


def test_functions_take_weights() -> None:
    """`functional` is the evaluator."""
    rows = columns(some_rows(5))
    assert functional.auc_pr(**rows) == filled(some_rows(5)).auc_pr()
    assert tuple(functional.interval("auc_roc", **rows)) == tuple(
        filled(some_rows(5)).interval("auc_roc")
    )


def test_comparison_of_weighted_with_unweighted() -> None:
    """A comparison rescales both sides to the prevalence of all weight."""
    plain, weighted = Evaluator(), Evaluator()
    rng = np.random.default_rng(8)
    labels = rng.random(2_000) < 0.2
    scores = rng.normal(size=2_000) + labels
    plain.add_cases(labels=labels, scores=scores)
    weighted.add_cases(labels=labels, scores=scores, weights=np.full(2_000, 2.0))
    found = compare(plain, weighted, metric="auc_pr")
    assert found.difference == pytest.approx(0.0, abs=1e-12)
    assert found.prevalence == pytest.approx(labels.mean())
    assert found.lower < 0 < found.upper


@pytest.mark.parametrize(
    "weights", [[1 / 3, 2.7], [0.0076295, 1e9 + 0.1], [0, 0.1], [np.pi, 2**31]]
)
def test_weights_are_rounded_to_the_nearest_multiple(weights: list[float]) -> None:
    """One by one and as a column; what was added with a weight is removed with it."""
    column, single = Evaluator(), Evaluator()
    column.add_cases(labels=[1, 0], scores=[0.5, 0.4], weights=weights)
    for label, score, weight in zip((1, 0), (0.5, 0.4), weights, strict=True):
        single.add_case(label, score, weight=weight)
    assert column == single
    nearest = [Fraction(round(Fraction(weight) * UNIT), UNIT) for weight in weights]
    assert (column.weights.positives, column.weights.negatives) == tuple(map(float, nearest))
    assert all(
        abs(each - Fraction(w)) * 1_000 <= w for each, w in zip(nearest, weights, strict=True)
    )
    column.remove_cases(labels=[1, 0], scores=[0.5, 0.4], weights=weights)
    assert column.num_cases == 0


@pytest.mark.parametrize("size", [200_000, 1_000_000])
def test_normalised_weights_are_refused_with_the_factor_that_mends_them(size: int) -> None:
    """The factor is a power of two: no figure changes, and scikit-learn's is the same."""
    rng = np.random.default_rng(size)
    labels, scores = rng.random(size) < 0.3, rng.random(size)
    weights = rng.lognormal(sigma=0.5, size=size)
    weights /= weights.sum()
    with pytest.raises(InvalidInputError, match="would change by more than a thousandth") as caught:
        Evaluator().add_cases(labels=labels, scores=scores, weights=weights)
    factor = 2.0 ** int(re.search(r"multiply all weights by 2\*\*(\d+)", str(caught.value))[1])
    assert weights.min() * factor / 2 < 0.5**17 * 1_000 <= weights.min() * factor
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=scores, weights=weights * factor)
    expected = roc_auc_score(labels, scores, sample_weight=weights)
    assert ev.auc_roc() == pytest.approx(expected, abs=1e-6)


def test_weights_that_no_factor_mends() -> None:
    """The message says which ones are too small next to the greatest."""
    with pytest.raises(InvalidInputError, match=r"no factor mends it.* those below 0\.00036"):
        Evaluator().add_cases(labels=[1, 0], scores=[0.5, 0.4], weights=[1e-5, 1e8])


def test_a_comparison_says_what_it_assumes_of_weights():
    """Of the side whose weights nothing bounds, in its interval and in the text; of no other."""
    weighted, plain = filled(some_rows(1)), Evaluator()
    rows = columns(some_rows(2, size=80))
    plain.add_cases(labels=rows["labels"], scores=rows["scores"])
    found = compare(plain, weighted)
    assert found.a.warning is None
    assert found.b.warning == weighted.interval("auc_pr").warning
    assert found.warnings == (f"b: {found.b.warning}",)
    assert str(found).splitlines()[-1] == found.warnings[0]
