"""Pairs of weighted cases and of clusters, against sums over single cases."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from scipy.stats import chi2, norm, t
from sklearn.metrics import average_precision_score, roc_auc_score

from streameval import Evaluator, InvalidInputError, PairedEvaluator, compare_paired
from streameval.kernel import groups_of
from streameval.statistics import Place
from streameval.wire import cluster_column

FIGURES = {"auc_roc": roc_auc_score, "average_precision": average_precision_score}


def columns(n: int = 300, seed: int = 1, shift_b: float = 1.4) -> dict[str, np.ndarray]:
    """Return labels and two models' scores."""
    rng = np.random.default_rng(seed)
    labels = rng.random(n) < 0.35
    common, own = rng.normal(size=(2, n))
    return {
        "labels": labels,
        "scores_a": common + labels,
        "scores_b": 0.8 * common + 0.6 * own + shift_b * labels,
    }


def weights(n: int, seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 9, n) / 4


def bursts(n: int, size: int = 10) -> np.ndarray:
    return np.arange(n) // size


def pair_of(rows: dict[str, np.ndarray], **settings: int | None) -> PairedEvaluator:
    pair = PairedEvaluator(**settings)
    pair.add_cases(**rows)
    pair._check()
    return pair


def state(pair: PairedEvaluator) -> object:
    """Return all counts, for comparison to the bit."""
    grid = pair._grid
    cells = [grid.negatives, grid.positives]
    if grid.groups is not None:
        sides = (grid.groups.a, grid.groups.b)
        cells += [each for side in sides for each in (side.negatives, side.positives)]
    return [(each.a.tolist(), each.b.tolist(), each.columns.tolist()) for each in cells] + [
        model.to_bytes() for model in pair._models
    ]


def moved_by_each(rows: dict[str, np.ndarray], metric: str, weighing: np.ndarray) -> np.ndarray:
    """Return the derivative of the difference by each case's weight, by finite differences."""
    labels = rows["labels"]

    def difference(weighing: np.ndarray) -> float:
        a, b = (
            FIGURES[metric](labels, rows[side], sample_weight=weighing)
            for side in ("scores_a", "scores_b")
        )
        return float(a - b)

    step = 1e-4
    moved = []
    for case in range(labels.size):
        ends = []
        for sign in (1, -1):
            changed = weighing.copy()
            changed[case] += sign * step
            ends.append(difference(changed))
        moved.append((ends[0] - ends[1]) / (2 * step))
    return np.array(moved)


@pytest.mark.parametrize("metric", FIGURES)
@pytest.mark.slow
def test_the_variance_of_weighted_cases_is_that_of_single_ones(metric: str) -> None:
    """Sum of (weight times derivative)^2, each class's times n/(n - 1) of effective cases."""
    rows, weighing = columns(), weights(300)
    pair = pair_of(rows | {"weights": weighing})
    moved = weighing * moved_by_each(rows, metric, weighing)
    expected = 0.0
    for label in (True, False):
        of_class = rows["labels"] == label
        effective = weighing[of_class].sum() ** 2 / (weighing[of_class] ** 2).sum()
        expected += float((moved[of_class] ** 2).sum()) * effective / (effective - 1)
    change, difference = pair._compared(metric, 0.95, None, anytime=False)
    assert difference.variance == pytest.approx(expected, rel=1e-5)
    a, b = (
        FIGURES[metric](rows["labels"], rows[side], sample_weight=weighing)
        for side in ("scores_a", "scores_b")
    )
    assert change.difference == pytest.approx(a - b, abs=1e-12)
    for side, model in ((change.a, "scores_a"), (change.b, "scores_b")):
        own = Evaluator()
        own.add_cases(labels=rows["labels"], scores=rows[model], weights=weighing)
        assert side == own.interval(metric)


@pytest.mark.parametrize("metric", FIGURES)
@pytest.mark.parametrize("label", [True, False])
def test_only_one_class_has_weights(metric: str, label: bool) -> None:
    """As of an audit of the negatives alone: the same as with all weights times a constant."""
    rows = columns()
    weighing = np.where(rows["labels"] == label, 2.5, 1.0)
    found = pair_of(rows | {"weights": weighing}).compare(metric=metric)
    scaled = pair_of(rows | {"weights": 1.5 * weighing}).compare(metric=metric)
    assert found.reason is None
    for name in ("difference", "lower", "upper", "p_value"):
        assert getattr(found, name) == pytest.approx(getattr(scaled, name), rel=1e-9), name


def test_weights_of_one_are_no_weights() -> None:
    """Also where a pair with other weights has lost those again."""
    rows = columns()
    plain = pair_of(rows)
    assert state(pair_of(rows | {"weights": np.ones(300)})) == state(plain)
    other = {name: each[:40] for name, each in columns(seed=7).items()} | {"weights": weights(40)}
    plain.add_cases(**other)
    plain._check()
    assert state(plain) != state(pair_of(rows))
    plain.remove_cases(**other)
    assert state(plain) == state(pair_of(rows))


def test_weighted_pairs_merge_in_any_order() -> None:
    """Parts with and without weights; a weight of 0 drops its row; copies are equal."""
    rows = columns() | {"weights": np.append(np.ones(100), weights(200))}
    whole = pair_of(rows)
    parts = [
        pair_of({name: each[start : start + 100] for name, each in rows.items()})
        for start in (200, 0, 100)
    ]
    merged = PairedEvaluator()
    merged.merge(*parts)
    merged._check()
    assert state(merged) == state(whole) == state(pickle.loads(pickle.dumps(whole)))
    none = {name: each[:5] for name, each in columns(seed=9).items()} | {"weights": np.zeros(5)}
    whole.add_cases(**none)
    assert state(merged) == state(whole)
    halved = pair_of(rows | {"weights": None, "label_probability": 1 / rows["weights"] / 4})
    change, other = halved.compare(), merged.compare()
    assert change.difference == pytest.approx(other.difference, abs=1e-12)
    assert change.upper == pytest.approx(other.upper, abs=1e-9)


def test_weighted_cells_hide_little() -> None:
    """Cut into 32 cells for each model, limits are near those of single cases."""
    rows = columns(2_000, seed=3) | {"weights": weights(2_000)}
    exact, cells = pair_of(rows, max_cells=None), pair_of(rows, max_cells=1_024)
    assert cells._grid.cuts is not None
    for metric in Place.COMPARISON.names():
        wide, narrow = (each.compare(metric=metric) for each in (cells, exact))
        assert wide.reason is None
        ratio = (wide.upper - wide.lower) / (narrow.upper - narrow.lower)
        assert 0.9 < ratio < 1.15


def test_few_effective_cases_are_refused() -> None:
    weighing = weights(300)
    weighing[:3] = 2.0**20
    change = pair_of(columns() | {"weights": weighing}).compare()
    assert change.reason == "TOO_FEW_EFFECTIVE"
    assert math.isnan(change.lower)
    assert "one case may have more than a fifth" in str(change)


def test_a_declared_probability_bounds_the_unseen_case() -> None:
    """Equal scores: limits by the step of a case of weight 1/p; without p the answer says so."""
    rows = columns()
    rows |= {"scores_b": rows["scores_a"], "label_probability": np.full(300, 0.5)}
    area = roc_auc_score(rows["labels"], rows["scores_a"])
    positives, negatives = (2 * np.count_nonzero(rows["labels"] == each) for each in (True, False))
    for least, weight in ((None, 2), (0.5, 2), (0.2, 5), (0.75, 2)):
        found = compare_paired(**rows, metric="auc_roc", min_label_probability=least)
        lost, fallen = (weight * area / (size + weight) for size in (positives, negatives))
        half = norm.isf(0.025) * math.sqrt(2 * (lost**2 + fallen**2))
        expected = min(half, -math.log(0.025) * lost)
        assert (found.lower, found.upper) == pytest.approx((-expected, expected), rel=1e-6)
        is_told = least in {None, 0.75}  # a weight of 2 exceeds 1/0.75
        assert bool(found.warnings) == is_told
        assert ("unseen case is taken to weigh 4" in str(found)) == is_told
        pair = PairedEvaluator(min_label_probability=least)
        pair.add_cases(**rows)
        assert ("unseen case is taken to weigh 4" in pair.verdict(metric="auc_roc")) == is_told
    with pytest.raises(InvalidInputError, match="same settings"):
        pair.merge(PairedEvaluator())
    with pytest.raises(InvalidInputError, match="min_label_probability must be from 2"):
        PairedEvaluator(min_label_probability=2.0)


@pytest.mark.parametrize("metric", FIGURES)
@pytest.mark.slow
def test_the_effect_of_clusters_is_what_the_difference_loses_without_a_group(metric: str) -> None:
    """V is (B - 1)/B times the sum of (l_g - mean l)^2; the effect is V over the cases' variance.

    l_g is what the difference loses without group g, taken as a loss of all its weight at the
    slope of half of its weight; within 2 % of the loss itself (the jackknife).
    """
    rows = columns()
    groups = groups_of(np.frombuffer(cluster_column(bursts(300)), "<u4"), 32)
    change, difference = pair_of(rows | {"clusters": bursts(300)}, cluster_groups=32)._compared(
        metric, 0.95, None, anytime=False
    )

    def at(group: int, weight: float) -> float:
        weighing = np.where(groups == group, weight, 1.0)
        a, b = (
            FIGURES[metric](rows["labels"], rows[side], sample_weight=weighing)
            for side in ("scores_a", "scores_b")
        )
        return float(a - b)

    step, sizes = 1e-6, np.bincount(groups)
    filled = np.flatnonzero(sizes)
    assert sizes[filled].min() > 300 / 32
    slopes = np.array([at(each, 0.5 + step) - at(each, 0.5 - step) for each in filled]) / (2 * step)
    losses = np.array([at(each, 1.0) - at(each, 0.0) for each in filled])
    between, exact = (float(each.var()) * (filled.size - 1) for each in (slopes, losses))
    effect = difference.effect
    assert effect.blocks is not None
    assert effect.blocks.variance == pytest.approx(between, rel=1e-5)
    assert effect.value == pytest.approx(max(1.0, between / difference.variance), rel=1e-5)
    assert between == pytest.approx(exact, rel=0.02)
    assert change.design_effect == effect.value


def dependent(n: int, rng: np.random.Generator, size: int) -> dict[str, np.ndarray]:
    """Return cases whose bursts share their label and most of both models' errors."""
    count = n // size
    labels = rng.random(count) < 0.4
    of_burst = rng.normal(size=(2, count))
    labels, a, b = (np.repeat(each, size) for each in (labels, *of_burst))
    own = rng.normal(size=(2, n))
    return {
        "labels": labels,
        "scores_a": labels + 0.9 * a + 0.4 * own[0],
        "scores_b": labels + 0.9 * b + 0.4 * own[1],
        "clusters": np.arange(n) // size,
    }


@pytest.mark.parametrize("max_cells", [None, 1_024])
def test_bursts_widen_a_difference_until_it_holds_the_truth(max_cells: int | None) -> None:
    """40 pairs of equal models, bursts of 10: with clusters about 95 %, without 30 % less."""
    held = {"with": 0, "without": 0}
    for seed in range(40):
        rows = dependent(1_500, np.random.default_rng([88, seed]), size=10)
        found = pair_of(rows, cluster_groups=32, max_cells=max_cells).compare(metric="auc_roc")
        held["with"] += found.lower <= 0 <= found.upper
        assert found.design_effect > 1.5
        assert found.a.design_effect > 1.5
        del rows["clusters"]
        found = pair_of(rows, max_cells=max_cells).compare(metric="auc_roc")
        held["without"] += found.lower <= 0 <= found.upper
    assert held["with"] >= 36
    assert held["without"] <= 27


def test_clusters_of_one_case_each_widen_by_chance_alone() -> None:
    """The effect D is max(1, chi-square/31) on average; limits take t of the groups' freedom.

    An unseen case of a class counts as D whole cases, with the greatest D of the difference and
    of both models, or as the mean cluster of the class.
    """
    effects = []
    for seed in range(30):
        rows = columns(600, seed=seed)
        clustered = pair_of(rows | {"clusters": np.arange(600)}, cluster_groups=32)
        found, difference = clustered._compared("auc_roc", 0.95, None, anytime=False)
        other, plain = pair_of(rows)._compared("auc_roc", 0.95, None, anytime=False)
        assert (found.difference, difference.variance) == (other.difference, plain.variance)
        effect = difference.effect
        assert effect.blocks is not None
        squares = (effect.blocks.sums - effect.blocks.sums.mean()) ** 2
        freedom = min(31, 3 * squares.sum() ** 2 / (squares**2).sum())
        positives = np.count_nonzero(rows["labels"])
        greatest = max(effect.value, found.a.design_effect, found.b.design_effect)
        cases = [round(max(greatest, size)) for size in effect.sizes]
        unseen = sum(
            (added * each.estimate / (size + added)) ** 2
            for each in (found.a, found.b)
            for size, added in zip((positives, 600 - positives), cases)
        )
        estimated = plain.variance * effect.value
        total = estimated + unseen
        half = t.isf(0.025, freedom * (total / estimated) ** 2) * math.sqrt(total)
        assert found.upper - found.difference == pytest.approx(half, rel=1e-6)
        effects.append(effect.value)
    chance = chi2(31)
    mean = chance.expect(lambda x: max(1.0, x / 31))
    spread = math.sqrt(chance.expect(lambda x: max(1.0, x / 31) ** 2) - mean**2)
    assert np.mean(effects) == pytest.approx(mean, abs=3 * spread / math.sqrt(30))


def test_clusters_widen_equal_scores() -> None:
    """As much as they widen the models' own figures."""
    rows = columns(2_000, seed=4)
    same = rows | {"scores_b": rows["scores_a"]}
    ranks = np.argsort(np.argsort(rows["scores_a"]))
    bursty = pair_of(same | {"clusters": ranks // 100}, cluster_groups=32)
    assert bursty.compare(metric="auc_roc").upper > pair_of(same).compare(metric="auc_roc").upper


def test_counts_by_group_are_taken_back_and_merged() -> None:
    """To the bit, exact and in cells."""
    rows = columns(900, seed=5) | {"clusters": bursts(900)}
    whole = pair_of(rows, cluster_groups=16)
    parts = [
        pair_of({name: each[start::3] for name, each in rows.items()}, cluster_groups=16)
        for start in range(3)
    ]
    merged = parts[2] + parts[0] + parts[1]
    merged._check()
    assert state(merged) == state(whole)
    extra = {name: each[:50] for name, each in columns(seed=6).items()} | {"clusters": ["x"] * 50}
    merged.add_cases(**extra)
    merged.remove_cases(**extra)
    assert state(merged) == state(whole)
    cells = pair_of(rows, cluster_groups=16, max_cells=256)
    cells.remove_cases(**{name: each[:300] for name, each in rows.items()})
    cells._check()
    assert cells.num_cases == 600


@pytest.mark.parametrize(
    ("settings", "extra", "message"),
    [
        ({}, {"clusters": [1] * 300}, "give it cluster_groups=32"),
        ({"cluster_groups": 32}, {}, "every case needs one"),
        (
            {"cluster_groups": 32},
            {"clusters": [1] * 300, "weights": np.ones(300)},
            "a pair that declares clusters takes no weights",
        ),
        ({}, {"weights": np.full(300, -1.0)}, "weight must be finite, from 0"),
        ({}, {"weights": np.full(300, 1e-9)}, "multiple of 2"),
        ({}, {"weights": np.ones(299)}, "weights"),
    ],
)
def test_bad_weights_and_clusters_change_nothing(
    settings: dict[str, int], extra: dict[str, object], message: str
) -> None:
    pair = PairedEvaluator(**settings)
    before = state(pair)
    with pytest.raises(InvalidInputError, match=message):
        pair.add_cases(**(columns() | extra))
    assert state(pair) == before


def test_one_row_and_one_call() -> None:
    """A case by itself is a row of a column; `compare_paired` takes the same columns."""
    one, rows = PairedEvaluator(cluster_groups=32), columns(60, seed=8)
    for label, a, b in zip(*rows.values()):
        one.add_case(bool(label), a, b, cluster="ann")
    column = pair_of(rows | {"clusters": ["ann"] * 60}, cluster_groups=32)
    assert state(one) == state(column)
    weighted = PairedEvaluator()
    weighted.add_case(True, 0.5, 0.7, weight=2.5, id="x")
    assert weighted._grid.positives.units.tolist() == [round(2.5 * 65_536)]
    rows = columns(800)
    pair = pair_of(rows | {"clusters": bursts(800)}, cluster_groups=32)
    assert compare_paired(**rows, clusters=bursts(800)) == pair.compare()
    assert (
        compare_paired(**rows, weights=weights(800))
        == pair_of(rows | {"weights": weights(800)}).compare()
    )
    with pytest.raises(InvalidInputError, match="same settings"):
        pair.merge(pair_of(rows))


def test_one_group_says_nothing_of_its_variance() -> None:
    """All cases in one cluster: no limits, and it says so."""
    found = pair_of(columns() | {"clusters": ["x"] * 300}, cluster_groups=32).compare()
    assert math.isnan(found.lower)
    assert found.reason == "TOO_FEW_CLUSTERS"
