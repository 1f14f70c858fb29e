"""Pairs: two models on the same cases, against DeLong's covariance by brute force."""

from __future__ import annotations

import doctest
import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from streameval import Evaluator, InvalidInputError
from streameval import _paired_evaluator as pairs
from streameval._metric_registry import COMPARED_NAMES
from streameval._paired_evaluator import PairedEvaluator
from streameval._uncertainty.pair_cells import PairCells, levels_of


def cases(n=400, share=0.3, shift=(1.5, 1.0), agreement=0.8, seed=1):
    """Draw labels, two models' scores and ids; `agreement` correlates the models' errors."""
    rng = np.random.default_rng(seed)
    labels = rng.random(n) < share
    common, own = rng.normal(size=n), rng.normal(size=n)
    a = common + shift[0] * labels
    b = agreement * common + math.sqrt(1 - agreement**2) * own + shift[1] * labels
    return {"labels": labels, "scores_a": a, "scores_b": b, "ids": np.arange(n)}


def pair_of(columns, **settings):
    """Make a pair of columns."""
    pair = PairedEvaluator(**settings)
    pair.add_cases(**columns)
    pair._check()
    return pair


def some(columns, rows):
    """Take some rows of all columns."""
    return {name: column[rows] for name, column in columns.items()}


def state(pair):
    """Return all counts of a pair, for comparison to the bit."""
    return [
        (c.a.tolist(), c.b.tolist(), c.levels.tolist(), c.counts.tolist(), c.lowest, c.total)
        for c in pair._cells
    ] + [model.to_bytes() for model in pair._models]


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 4), st.integers(0, 4)), min_size=4, max_size=16
    )
)
def test_auc_roc_variance_is_delongs_with_covariance(rows):
    """var_a + var_b - 2 cov over the same cases, by DeLong's definition, ties included."""
    positives = [(a, b) for label, a, b in rows if label]
    negatives = [(a, b) for label, a, b in rows if not label]
    if min(len(positives), len(negatives)) < 2:
        return
    pair = PairedEvaluator()
    labels, a, b = zip(*rows)
    pair.add_cases(labels=labels, scores_a=a, scores_b=b, ids=range(len(rows)))
    variance = pair._variance("auc_roc", None)

    def psi(x, y):
        return (x > y) + 0.5 * (x == y)

    v10 = np.array([[psi(x[m], y[m]) for y in negatives] for m in (0, 1) for x in positives])
    v10 = v10.mean(axis=1).reshape(2, -1)
    v01 = np.array([[psi(x[m], y[m]) for x in positives] for m in (0, 1) for y in negatives])
    v01 = v01.mean(axis=1).reshape(2, -1)
    covariance = np.cov(v10) / len(positives) + np.cov(v01) / len(negatives)
    contrast = np.array([1, -1])
    assert variance == pytest.approx(contrast @ covariance @ contrast, abs=1e-14)
    means = v10.mean(axis=1)
    assert pair.compare(metric="auc_roc").difference == pytest.approx(
        means[0] - means[1], abs=1e-14
    )


@pytest.mark.parametrize("metric", COMPARED_NAMES)
def test_each_side_is_an_evaluator(metric):
    """The metrics and their intervals are those of an evaluator, at any resolution of the grid."""
    columns = cases()
    comparison = pair_of(columns, resolution=2).compare(metric=metric)
    for name, side in (("scores_a", comparison.a), ("scores_b", comparison.b)):
        ev = Evaluator()
        ev.add_cases(labels=columns["labels"], scores=columns[name])
        assert side == ev.interval(metric)


def test_estimates_are_scikit_learns():
    """The difference is that of the two metrics."""
    columns = cases()
    pair = pair_of(columns, resolution=53)
    for metric, function in (
        ("auc_roc", roc_auc_score),
        ("average_precision", average_precision_score),
    ):
        expected = function(columns["labels"], columns["scores_a"]) - function(
            columns["labels"], columns["scores_b"]
        )
        assert pair.compare(metric=metric).difference == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("metric", COMPARED_NAMES)
def test_variance_is_that_of_resampled_differences(metric):
    """Resampling the cases gives the same spread."""
    columns = cases(1_500)
    variance = pair_of(columns, resolution=53)._variance(metric, None)
    rng = np.random.default_rng(9)
    drawn = []
    for _ in range(250):
        rows = rng.integers(0, 1_500, 1_500)
        # Resampled rows are tied with their copies, which changes the mean, not the spread.
        drawn.append(pair_of(some(columns, rows)).compare(metric=metric).difference)
    assert math.sqrt(variance) == pytest.approx(np.std(drawn), rel=0.15)


@pytest.mark.parametrize("metric", COMPARED_NAMES)
def test_pairing_is_far_more_certain_than_two_evaluators(metric):
    """If the models mostly agree, the difference is more precise than either metric."""
    comparison = pair_of(cases(2_000, agreement=0.97)).compare(metric=metric)
    width = comparison.upper - comparison.lower
    assert width < 0.6 * min(comparison.a.width, comparison.b.width)
    assert comparison.difference > 0
    assert comparison.p_value < 1e-6


def test_seven_bits_are_enough():
    """Coarse cells add only a small part of the standard error."""
    columns = cases(5_000)
    for metric in COMPARED_NAMES:
        fine = pair_of(columns, resolution=53).compare(metric=metric)
        coarse = pair_of(columns).compare(metric=metric)
        width = fine.upper - fine.lower
        assert coarse.difference == fine.difference
        assert coarse.upper - coarse.lower == pytest.approx(width, rel=0.03)


def test_swapping_the_models_swaps_the_sign():
    """The difference of b and a is minus that of a and b."""
    columns = cases()
    swapped = dict(columns, scores_a=columns["scores_b"], scores_b=columns["scores_a"])
    there, back = pair_of(columns).compare(), pair_of(swapped).compare()
    assert back.difference == pytest.approx(-there.difference)
    assert back.lower == pytest.approx(-there.upper)
    assert back.p_value == pytest.approx(there.p_value, rel=1e-6)


def test_identical_models_do_not_differ_and_nobody_is_sure():
    """If no case distinguishes the models, the interval is around 0 and shrinks with the cases."""
    few, many = cases(100), cases(10_000)
    widths = []
    for columns in (few, many):
        comparison = pair_of(dict(columns, scores_b=columns["scores_a"])).compare()
        assert (comparison.difference, comparison.p_value) == (0.0, 1.0)
        assert comparison.lower == -comparison.upper < 0
        widths.append(comparison.upper - comparison.lower)
    assert widths[1] < widths[0] / 50


@pytest.mark.parametrize("metric", COMPARED_NAMES)
def test_too_few_cases(metric):
    """The result is nan, not an error."""
    for columns in (cases(0), some(cases(), np.arange(1))):
        comparison = pair_of(columns).compare(metric=metric)
        assert math.isnan(comparison.difference)
        assert math.isnan(comparison.lower)
        assert math.isnan(comparison.p_value)
        assert comparison.a.reason == "TOO_FEW"


def test_prevalence_rescales_and_is_held():
    """At another prevalence the metrics are those of an evaluator at that prevalence."""
    columns = cases()
    comparison = pair_of(columns, resolution=53).compare(metric="auc_pr", prevalence=0.01)
    ev = Evaluator()
    ev.add_cases(labels=columns["labels"], scores=columns["scores_a"])
    alone = ev.interval("auc_pr", prevalence=0.01)
    assert comparison.a.estimate == pytest.approx(alone.estimate)
    assert comparison.a.lower == pytest.approx(alone.lower)
    assert comparison.prevalence == 0.01


@pytest.mark.parametrize("max_cells", [100_000, 40])
def test_order_and_merging_make_no_difference(max_cells):
    """The same cases in any order, at once, one by one or merged: the same state, to the bit."""
    columns = cases(300)
    whole = pair_of(columns, max_cells=max_cells)
    assert (whole.sampled != (1.0, 1.0)) == (max_cells == 40)
    order = np.random.default_rng(2).permutation(300)
    single = PairedEvaluator(max_cells=max_cells)
    for row in order:
        single.add_case(
            bool(columns["labels"][row]),
            columns["scores_a"][row],
            columns["scores_b"][row],
            id=int(columns["ids"][row]),
        )
        single._check()
    assert state(single) == state(whole)
    parts = [pair_of(some(columns, part), max_cells=max_cells) for part in np.split(order, 3)]
    for arranged in itertools.permutations(parts):
        merged = PairedEvaluator(max_cells=max_cells)
        merged.merge(*arranged)
        assert state(merged) == state(whole)
    added = parts[0] + parts[1] + parts[2]
    assert state(added) == state(whole)
    assert parts[0].num_cases == 100
    assert state(pickle.loads(pickle.dumps(whole))) == state(whole)


def test_removal_takes_back_what_was_added():
    """Counts are signed; after a removal the state is that of the other cases alone."""
    columns = cases(200)
    pair = pair_of(columns)
    pair.remove_cases(**some(columns, np.arange(150, 200)))
    assert state(pair) == state(pair_of(some(columns, np.arange(150))))
    before = state(pair)
    with pytest.raises(InvalidInputError, match=r"there is no .* case of score .* to remove"):
        pair.remove_cases(**some(columns, np.arange(140, 160)))
    assert state(pair) == before


def test_removal_from_a_sample_keeps_the_totals():
    """Removing a case that sampling had dropped still lowers the totals."""
    columns = cases(300)
    pair = pair_of(columns, max_cells=20)
    pair.remove_cases(**some(columns, np.arange(100)))
    assert pair.num_cases == 200
    pair._check()


def test_sampling_keeps_the_variance():
    """Over many seeds the sampled variance scatters around that of all cases."""
    columns = cases(3_000, share=0.1)
    whole = pair_of(columns)
    samples = [pair_of(columns, max_cells=100, seed=seed) for seed in range(40)]
    assert all(max(sample.sampled) < 1 for sample in samples)
    for metric in COMPARED_NAMES:
        for prevalence in (None,) if metric == "auc_roc" else (None, 0.02):
            drawn = [sample._variance(metric, prevalence) for sample in samples]
            expected = whole._variance(metric, prevalence)
            assert np.mean(drawn) == pytest.approx(expected, rel=0.2)


def test_a_sample_knows_the_true_prevalence():
    """Classes are sampled separately; class sizes are those of the totals, not of the sample."""
    columns = cases(20_000, share=0.02)
    whole, sample = pair_of(columns), pair_of(columns, max_cells=500)
    assert sample.sampled[0] > 4 * sample.sampled[1]
    for metric in COMPARED_NAMES:
        there, here = whole.compare(metric=metric), sample.compare(metric=metric)
        assert here.upper - here.lower == pytest.approx(there.upper - there.lower, rel=0.25)


def test_a_sample_without_a_class_has_no_limits():
    """All cases of one class may be dropped: the metrics stay, the limits are nan."""
    columns = cases(40)
    comparison = pair_of(columns, max_cells=1).compare()
    assert not math.isnan(comparison.difference)
    assert math.isnan(comparison.lower)
    assert math.isnan(comparison.p_value)


def test_levels_are_geometric_and_belong_to_the_id():
    """Half of the ids at each further level; strings and integers of any kind of column."""
    levels = levels_of(np.arange(100_000), seed=3)
    for level in range(6):
        assert np.mean(levels >= level) == pytest.approx(0.5**level, rel=0.05)
    assert levels_of(list(range(50)), 3).tolist() == levels[:50].tolist()
    assert levels_of(np.arange(50, dtype=np.uint8), 3).tolist() == levels[:50].tolist()
    assert levels_of(np.arange(50), 4).tolist() != levels[:50].tolist()
    names = [f"order-{i}" for i in range(20_000)]
    assert np.mean(levels_of(names, 3) >= 1) == pytest.approx(0.5, abs=0.02)
    assert levels_of(np.array(names[:9]), 3).tolist() == levels_of(names[:9], 3).tolist()
    assert levels_of([-1, 2**64 - 1], 0).tolist() == [levels_of(np.array([-1]), 0)[0]] * 2
    assert levels_of([], 0).size == 0


def test_everything_may_be_forgotten():
    """A cap below any one level's entries leaves an empty sample, and the totals."""
    cells = PairCells(
        np.arange(5.0), np.arange(5.0), np.full(5, 2, dtype=np.int8), np.ones(5, np.int64), total=5
    ).fitted(3)
    assert (len(cells), cells.lowest, cells.total) == (0, 3, 5)


def test_differences_err_as_often_as_they_say():
    """Two models of equal quality differ at the 5 % level in about 5 % of trials."""
    found = dict.fromkeys(COMPARED_NAMES, 0)
    trials = 250
    for seed in range(trials):
        pair = pair_of(cases(300, 0.3, (1.2, 1.2), 0.7, seed=seed))
        for metric in COMPARED_NAMES:
            found[metric] += pair.compare(metric=metric).p_value < 0.05
    for count in found.values():
        assert 0.02 <= count / trials <= 0.085


@pytest.mark.parametrize(
    ("change", "message", "field"),
    [
        ({"labels": [1, 2]}, "label must be", "labels"),
        ({"scores_a": [0.1, math.nan]}, "finite, got nan at index 1", "scores_a"),
        ({"scores_b": [math.inf, 0.1]}, "finite, got inf at index 0", "scores_b"),
        ({"scores_b": [0.1]}, "one row for each of labels", "scores_b"),
        ({"ids": ["x"]}, "one row for each of labels", "ids"),
        ({"ids": ["x", 1.5]}, "a string or an integer, got float at index 1", "ids"),
        ({"ids": ["x", True]}, "got bool at index 1", "ids"),
        ({"ids": [0, 2**64]}, "must fit 64 bits", "ids"),
        ({"ids": "ab"}, "must be a column", "ids"),
        ({"ids": 7}, "must be a column", "ids"),
    ],
)
def test_bad_columns_change_nothing(change, message, field):
    """Each is refused with field and index."""
    columns = {"labels": [1, 0], "scores_a": [0.5, 0.4], "scores_b": [0.3, 0.2], "ids": [1, 2]}
    pair = pair_of(columns)
    before = state(pair)
    with pytest.raises(InvalidInputError, match=message) as caught:
        pair.add_cases(**(columns | change))
    assert caught.value.field == field
    assert state(pair) == before


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"resolution": 0}, "between 1 and 53"),
        ({"scale": "logit"}, "'probability' or None"),
        ({"max_cells": 0}, "at least 1"),
    ],
)
def test_bad_settings(setting, message):
    """Invalid settings are refused by the constructor."""
    with pytest.raises(InvalidInputError, match=message):
        PairedEvaluator(**setting)


def test_other_refusals():
    """Different settings do not merge; only three metrics compare; probabilities are checked."""
    pair = pair_of(cases())
    with pytest.raises(InvalidInputError, match="same resolution"):
        pair.merge(PairedEvaluator(seed=1))
    with pytest.raises(InvalidInputError, match="pairs are compared by"):
        pair.compare(metric="prevalence")
    with pytest.raises(InvalidInputError, match="does not depend"):
        pair.compare(metric="auc_roc", prevalence=0.1)
    with pytest.raises(InvalidInputError, match="level"):
        pair.compare(level=2)
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        PairedEvaluator(scale="probability").add_case(True, 0.5, 1.5, id="x")


def test_examples():
    """The docstrings' examples run."""
    assert doctest.testmod(pairs).failed == 0
