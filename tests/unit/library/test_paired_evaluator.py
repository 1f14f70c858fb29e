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
from scipy.stats import norm, t
from sklearn.metrics import average_precision_score, roc_auc_score

from streameval import Evaluator, InvalidInputError, PairedEvaluator
from streameval import _paired_evaluator as pairs
from streameval._uncertainty.estimates import rule_of
from streameval._uncertainty.pair_variance import GridTooCoarseError, variance_of_difference
from streameval._uncertainty.rules import Given
from streameval.statistics import Place


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
    grid = pair._grid
    ids = None if pair._ids is None else pair._ids.tolist()
    return [
        (c.a.tolist(), c.b.tolist(), c.counts.tolist()) for c in (grid.negatives, grid.positives)
    ] + [ids, *(model.to_bytes() for model in pair._models)]


def variance_of(pair, metric, prevalence=None):
    """Return the variance of the difference."""
    figures = tuple(
        rule_of(metric).uncertain(model, metric, Given(prevalence)) for model in pair._models
    )
    return variance_of_difference(pair._grid, figures, prevalence).value


def coverages(n, seeds, *, offset=0.0, max_cells=65_536):
    """Return, by metric, the share of pairs whose interval holds the true difference.

    The truth is that of two normal models, d = 1 and 2, at prevalence 0.2, by numerical
    integration over the share of positives above the score.
    """
    u = (np.arange(100_000) + 0.5) / 100_000

    def truths(shift):
        precision = np.mean(u / (u + 4 * norm.sf(norm.isf(u) + shift)))
        area = norm.cdf(shift / math.sqrt(2))
        return {"auc_roc": area, "auc_pr": precision, "average_precision": precision}

    one, two = truths(1), truths(2)
    held = dict.fromkeys(Place.COMPARISON.names(), 0)
    for seed in seeds:
        rng = np.random.default_rng([20_311, seed])
        labels = rng.random(n) < 0.2
        common, own = rng.normal(size=(2, n))
        pair = PairedEvaluator(max_cells=max_cells)
        pair.add_cases(
            labels=labels,
            scores_a=offset + common + labels,
            scores_b=offset + 0.6 * common + 0.8 * own + 2 * labels,
        )
        for metric in Place.COMPARISON.names():
            change = pair.compare(metric=metric)
            assert change.reason is None
            held[metric] += change.lower <= one[metric] - two[metric] <= change.upper
    return {metric: count / len(seeds) for metric, count in held.items()}


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
    variance = variance_of(pair, "auc_roc")

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


@pytest.mark.parametrize("metric", Place.COMPARISON.names())
def test_each_side_is_an_evaluator(metric):
    """The metrics and their intervals are those of an evaluator, however coarse the grid."""
    columns = cases()
    comparison = pair_of(columns, max_cells=20).compare(metric=metric)
    for name, side in (("scores_a", comparison.a), ("scores_b", comparison.b)):
        ev = Evaluator()
        ev.add_cases(labels=columns["labels"], scores=columns[name])
        assert side == ev.interval(metric)


def test_estimates_are_scikit_learns():
    """The difference is that of the two metrics."""
    columns = cases()
    pair = pair_of(columns)
    for metric, function in (
        ("auc_roc", roc_auc_score),
        ("average_precision", average_precision_score),
    ):
        expected = function(columns["labels"], columns["scores_a"]) - function(
            columns["labels"], columns["scores_b"]
        )
        assert pair.compare(metric=metric).difference == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("metric", Place.COMPARISON.names())
@pytest.mark.slow
def test_variance_is_that_of_resampled_differences(metric):
    """Resampling the cases gives the same spread."""
    columns = cases(1_500)
    variance = variance_of(pair_of(columns), metric)
    rng = np.random.default_rng(9)
    drawn = []
    for _ in range(250):
        rows = rng.integers(0, 1_500, 1_500)
        # Resampled rows are tied with their copies, which changes the mean, not the spread.
        resampled = some(columns, rows) | {"ids": None}
        drawn.append(pair_of(resampled).compare(metric=metric).difference)
    assert math.sqrt(variance) == pytest.approx(np.std(drawn), rel=0.15)


@pytest.mark.parametrize("metric", Place.COMPARISON.names())
def test_pairing_is_far_more_certain_than_two_evaluators(metric):
    """If the models mostly agree, the difference is more precise than either metric."""
    comparison = pair_of(cases(2_000, agreement=0.97)).compare(metric=metric)
    width = comparison.upper - comparison.lower
    assert width < 0.6 * min(comparison.a.width, comparison.b.width)
    assert comparison.difference > 0
    assert comparison.p_value < 1e-6


def test_cells_are_enough():
    """256 cells of each model give nearly the variance of the pairs themselves."""
    columns = cases(20_000)
    for metric in Place.COMPARISON.names():
        fine = pair_of(columns).compare(metric=metric)
        coarse_pair = PairedEvaluator(max_cells=10_000)
        coarse_pair.add_cases(**columns)
        coarse = coarse_pair.compare(metric=metric)
        assert coarse_pair._grid.cuts is not None
        width = fine.upper - fine.lower
        assert coarse.difference == fine.difference
        assert coarse.upper - coarse.lower == pytest.approx(width, rel=0.04)


@pytest.mark.parametrize("max_cells", [65_536, 256])
@pytest.mark.slow
def test_scores_with_a_large_offset_keep_their_coverage(max_cells):
    """Leading bits of 1000 + x are all the same; the pair's own quantiles are not."""
    for held in coverages(1_000, range(150), offset=1000.0, max_cells=max_cells).values():
        assert held >= 0.93


def test_an_offset_changes_nothing():
    """Cells depend on the order of the scores alone."""
    columns = cases(3_000)
    moved = columns | {name: columns[name] * 2 + 1024 for name in ("scores_a", "scores_b")}
    for max_cells in (65_536, 400):
        there = pair_of(columns, max_cells=max_cells).compare()
        here = pair_of(moved, max_cells=max_cells).compare()
        assert here.lower == pytest.approx(there.lower, abs=1e-12)
        assert here.upper == pytest.approx(there.upper, abs=1e-12)


@pytest.mark.parametrize("metric", Place.COMPARISON.names())
def test_few_cells_never_make_the_variance_smaller(metric):
    """What cells hide of each model's variance is given back to that of the difference."""
    columns = cases(3_000)
    exact = variance_of(pair_of(columns), metric)
    for cells in (8, 16, 32):
        found = pair_of(columns, max_cells=cells**2)
        try:
            variance = variance_of(found, metric)
        except GridTooCoarseError:
            assert cells < 32
            continue
        assert variance >= 0.97 * exact


@pytest.mark.parametrize("metric", Place.COMPARISON.names())
def test_a_grid_that_is_too_coarse_is_refused(metric):
    """Cells cut where other scores were: no interval, the figures as they are, and what to do."""
    pair = PairedEvaluator(max_cells=400)
    pair.add_cases(**cases(2_000))
    later = cases(20_000, seed=2)
    later |= {"scores_a": later["scores_a"] + 50, "scores_b": later["scores_b"] + 50}
    later["ids"] = later["ids"] + 2_000
    pair.add_cases(**later)
    change = pair.compare(metric=metric)
    assert change.reason == "GRID_TOO_COARSE"
    assert math.isnan(change.lower)
    assert math.isnan(change.upper)
    assert math.isnan(change.p_value)
    assert not math.isnan(change.difference)
    assert change.a == pair._models[0].interval(metric)
    assert "no interval: GRID_TOO_COARSE" in str(change)
    assert "more max_cells, or start a new one" in str(change)
    one_cell = pair_of(cases(), max_cells=1)
    assert one_cell.compare(metric=metric).reason == "GRID_TOO_COARSE"


def test_swapping_the_models_swaps_the_sign():
    """The difference of b and a is minus that of a and b."""
    columns = cases()
    swapped = dict(columns, scores_a=columns["scores_b"], scores_b=columns["scores_a"])
    there, back = pair_of(columns).compare(), pair_of(swapped).compare()
    assert back.difference == pytest.approx(-there.difference)
    assert back.lower == pytest.approx(-there.upper)
    assert back.p_value == pytest.approx(there.p_value, rel=1e-6)


def test_identical_models_do_not_differ_and_nobody_is_sure():
    """If no case distinguishes the models, limits are what unseen cases of either model allow.

    Two standard errors of one of each class and model, or three times the greatest step.
    """
    upper = []
    for columns in (cases(100), cases(10_000)):
        comparison = pair_of(dict(columns, scores_b=columns["scores_a"])).compare()
        assert (comparison.difference, comparison.p_value) == (0.0, 1.0)
        assert comparison.lower == -comparison.upper < 0

        def value(*added):
            evaluator = Evaluator()
            evaluator.add_cases(labels=columns["labels"], scores=columns["scores_a"])  # noqa: B023
            for label, score in added:
                evaluator.add_case(label, score)
            return evaluator.auc_pr()

        lost, fallen = value() - value((True, -99.0)), value() - value((False, 99.0))
        gained = value((True, 99.0)) - value()
        variance = max(lost**2 + fallen**2 / 2, (lost + gained) ** 2 / 2)
        expected = min(
            norm.isf(0.025) * math.sqrt(2 * variance),
            -math.log(0.025) * max(lost, fallen, gained),
        )
        assert comparison.upper == pytest.approx(expected, rel=1e-9)
        upper.append(comparison.upper)
    assert upper[1] < upper[0] / 25


@pytest.mark.parametrize("metric", Place.COMPARISON.names())
def test_too_few_cases(metric):
    """The result is nan, not an error."""
    for columns in (cases(0), some(cases(), np.arange(1))):
        comparison = pair_of(columns).compare(metric=metric)
        assert math.isnan(comparison.difference)
        assert math.isnan(comparison.lower)
        assert math.isnan(comparison.p_value)
        assert comparison.a.reason == comparison.reason == "TOO_FEW"
        assert "no interval: TOO_FEW" in str(comparison)


def test_prevalence_rescales_and_is_held():
    """At another prevalence the metrics are those of an evaluator at that prevalence."""
    columns = cases()
    comparison = pair_of(columns).compare(metric="auc_pr", prevalence=0.01)
    ev = Evaluator()
    ev.add_cases(labels=columns["labels"], scores=columns["scores_a"])
    alone = ev.interval("auc_pr", prevalence=0.01)
    assert comparison.a.estimate == pytest.approx(alone.estimate)
    assert comparison.a.lower == pytest.approx(alone.lower)
    assert comparison.prevalence == 0.01


def test_order_and_merging_make_no_difference():
    """The same cases in any order, at once, one by one or merged: the same state, to the bit."""
    columns = cases(300)
    whole = pair_of(columns)
    order = np.random.default_rng(2).permutation(300)
    single = PairedEvaluator()
    for row in order:
        single.add_case(
            bool(columns["labels"][row]),
            columns["scores_a"][row],
            columns["scores_b"][row],
            id=int(columns["ids"][row]),
        )
        single._check()
    assert state(single) == state(whole)
    parts = [pair_of(some(columns, part)) for part in np.split(order, 3)]
    for arranged in itertools.permutations(parts):
        merged = PairedEvaluator()
        merged.merge(*arranged)
        assert state(merged) == state(whole)
    added = parts[0] + parts[1] + parts[2]
    assert state(added) == state(whole)
    assert parts[0].num_cases == 100
    assert state(pickle.loads(pickle.dumps(whole))) == state(whole)


@pytest.mark.parametrize("metric", Place.COMPARISON.names())
def test_merged_cells_agree_with_the_whole(metric):
    """Each cut at its own quantiles, then anew together: the same figures, nearly the width."""
    columns = cases(12_000)
    order = np.random.default_rng(2).permutation(12_000)
    parts = [pair_of(some(columns, part), max_cells=900) for part in np.split(order, 3)]
    whole, exact = pair_of(columns, max_cells=900), pair_of(columns)
    for arranged in itertools.permutations(parts):
        merged = PairedEvaluator(max_cells=900)
        merged.merge(*arranged)
        merged._check()
        there, here = exact.compare(metric=metric), merged.compare(metric=metric)
        assert (here.difference, here.a, here.b) == (there.difference, there.a, there.b)
        assert here.upper - here.lower == pytest.approx(there.upper - there.lower, rel=0.1)
    assert whole.num_cases == merged.num_cases
    copied = pickle.loads(pickle.dumps(merged))
    assert state(copied) == state(merged)
    assert copied.compare(metric=metric) == here


def test_parts_of_one_cut_merge_exactly():
    """Pairs with the same cells add up without being cut anew, and removal finds every case."""
    columns, more = cases(2_000), cases(500, seed=3)
    more["ids"] = more["ids"] + 2_000
    base = pair_of(columns, max_cells=100)
    part = PairedEvaluator(max_cells=100) + base
    part.add_cases(**more)
    part.remove_cases(**columns)
    part._check()
    together = base + part
    one = base + PairedEvaluator(max_cells=100)
    one.add_cases(**more)
    assert state(together) == state(one)
    one.remove_cases(**more)
    assert state(one) == state(base)
    one.remove_cases(**columns)
    assert one._grid.cuts is None
    assert one.num_cases == 0


def test_removal_takes_back_what_was_added():
    """Counts are signed; after a removal the state is that of the other cases alone."""
    columns = cases(200)
    pair = pair_of(columns)
    pair.remove_cases(**some(columns, np.arange(150, 200)))
    assert state(pair) == state(pair_of(some(columns, np.arange(150))))
    before = state(pair)
    with pytest.raises(InvalidInputError, match="id 150 at index 10 has no case to remove"):
        pair.remove_cases(**some(columns, np.arange(140, 160)))
    other = some(columns, [0]) | {"scores_a": [9.0]}
    with pytest.raises(InvalidInputError, match=r"there is no .* case of score 9.0 to remove"):
        pair.remove_cases(**other)
    two = np.flatnonzero(columns["labels"])[:2]
    swapped = some(columns, two) | {"scores_b": columns["scores_b"][two[::-1]]}
    with pytest.raises(InvalidInputError, match="cannot remove a pair that was not added"):
        pair.remove_cases(**swapped)
    assert state(pair) == before


def test_ids_are_optional():
    """Without ids everything is the same but that repeats are not seen."""
    columns = cases()
    without = pair_of(columns | {"ids": None})
    for metric in Place.COMPARISON.names():
        assert without.compare(metric=metric) == pair_of(columns).compare(metric=metric)
    without.add_cases(**(columns | {"ids": None}))
    assert without.num_cases == 800
    without.add_case(True, 0.5, 0.4)
    without.remove_cases(labels=[1], scores_a=[0.5], scores_b=[0.4])
    assert without.num_cases == 800


@pytest.mark.parametrize(
    ("ids", "message", "index"),
    [
        ([400, 7, 401], "id 7 at index 1 is repeated", 1),
        ([400, 401, 400], "id 400 at index 2 is repeated", 2),
        (np.array([5, 400, 401]), "id 5 at index 0 is repeated", 0),
        (["x", "y", "x"], "id 'x' at index 2 is repeated", 2),
    ],
)
def test_a_repeated_id_is_refused(ids, message, index):
    """Nothing is half applied: no score, no entry, no id."""
    pair = pair_of(cases())
    before = state(pair)
    with pytest.raises(InvalidInputError, match=message) as caught:
        pair.add_cases(labels=[1, 0, 1], scores_a=[3, 2, 1], scores_b=[1, 2, 3], ids=ids)
    assert (caught.value.field, caught.value.index) == ("ids", index)
    assert state(pair) == before
    pair.add_cases(labels=[1, 0], scores_a=[3, 2], scores_b=[1, 2], ids=["x", 400])
    pair._check()


def test_ids_of_merged_pairs():
    """A case that two pairs have is refused; so is a merge of pairs with and without ids."""
    columns = cases()
    pair, rest = pair_of(some(columns, slice(250))), pair_of(some(columns, slice(249, 400)))
    before = state(pair)
    with pytest.raises(InvalidInputError, match="1 ids are in more than one"):
        pair.merge(rest)
    with pytest.raises(InvalidInputError, match="some of these pairs were filled with ids"):
        pair.merge(pair_of(columns | {"ids": None}))
    assert state(pair) == before
    pair.merge(PairedEvaluator())
    assert state(pair) == before
    assert state(PairedEvaluator() + pair) == before


def test_ids_of_removed_cases():
    """An id that was removed may come again; an unknown one has no case; all or none have ids."""
    columns = cases(20)
    pair = pair_of(columns)
    one = some(columns, [3])
    before = state(pair)
    pair.remove_cases(**one)
    pair._check()
    with pytest.raises(InvalidInputError, match="id 3 at index 0 has no case to remove"):
        pair.remove_cases(**one)
    pair.add_cases(**one)
    assert state(pair) == before
    twice = some(columns, [3, 3])
    with pytest.raises(InvalidInputError, match="id 3 at index 1 has no case to remove"):
        pair.remove_cases(**twice)
    with pytest.raises(InvalidInputError, match="filled with ids"):
        pair.add_case(True, 0.5, 0.4)
    with pytest.raises(InvalidInputError, match="filled without ids"):
        pair_of(columns | {"ids": None}).add_case(True, 0.5, 0.4, id=99)
    assert state(pair) == before
    pair.remove_cases(**columns)
    pair.add_case(True, 0.5, 0.4)
    assert pair.num_cases == 1


@pytest.mark.slow
def test_differences_err_at_most_as_often_as_they_say():
    """Two models of equal quality differ at the 5 % level in at most 5 % of trials.

    By the variance of the sample alone, without unseen cases, in about 5 %.
    """
    found = dict.fromkeys(Place.COMPARISON.names(), 0)
    without = dict.fromkeys(Place.COMPARISON.names(), 0)
    trials = 250
    for seed in range(trials):
        pair = pair_of(cases(300, 0.3, (1.2, 1.2), 0.7, seed=seed))
        for metric in Place.COMPARISON.names():
            comparison, difference = pair._compared(metric, 0.95, None, anytime=False)
            found[metric] += comparison.p_value < 0.05
            error = t.isf(0.025, difference.freedom) * math.sqrt(difference.variance)
            without[metric] += abs(comparison.difference) > error
    for metric, count in found.items():
        assert count / trials <= 0.05
        assert 0.02 <= without[metric] / trials <= 0.085


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
        ({"scale": "logit"}, "'probability' or None"),
        ({"max_cells": 0}, "positive integer or None, got 0"),
        ({"max_cells": 2.5}, "positive integer or None, got 2.5"),
        ({"max_cells": "9"}, "positive integer or None, got '9'"),
        ({"max_cells": True}, "positive integer or None, got True"),
    ],
)
def test_bad_settings(setting, message):
    """Invalid settings are refused by the constructor."""
    with pytest.raises(InvalidInputError, match=message):
        PairedEvaluator(**setting)


def test_other_refusals():
    """Different settings do not merge; only three metrics compare; probabilities are checked."""
    pair = pair_of(cases())
    with pytest.raises(InvalidInputError, match="same settings"):
        pair.merge(PairedEvaluator(max_cells=9))
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
