"""Pairs at all looks together: confidence sequences and e-values; pairs of columns in one call."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import norm, t
from sklearn.metrics import average_precision_score, roc_auc_score

from streameval import (
    Comparison,
    Evaluator,
    InvalidInputError,
    PairedEvaluator,
    compare,
    compare_paired,
)
from streameval._uncertainty.student import anytime_quantile, count_for_evidence, e_value
from streameval.statistics import Place


def columns(n: int, shift_b: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return labels and the scores of two models, whose errors correlate by 0.8."""
    labels = rng.random(n) < 0.4
    common, own = rng.normal(size=(2, n))
    other = 0.8 * common + 0.6 * own
    return {"labels": labels, "scores_a": common + labels, "scores_b": other + shift_b * labels}


def pair_of(rows: dict[str, np.ndarray], **settings: int | None) -> PairedEvaluator:
    pair = PairedEvaluator(**settings)
    pair.add_cases(**rows)
    pair._check()
    return pair


@pytest.mark.parametrize("count", [50, 200, 5_000, 1_000_000])
@pytest.mark.parametrize("z", [0.0, 0.7, 2.5, 4.0])
def test_an_e_value_is_a_mixture_of_likelihood_ratios(count: int, z: float) -> None:
    """Over drifts d ~ N(0, rho^2) of a sum S of `count` steps: E exp(d S - d^2 count/2).

    rho^2 is the one that makes the boundary at 0.05 tightest after 200 cases.
    """
    spread = -2 * math.log(0.05)
    rho = math.sqrt((spread + math.log(spread) + 1) / 200)
    total = z * math.sqrt(count)
    centre = total / (count + rho**-2)
    width = (count + rho**-2) ** -0.5

    def ratio(drift: float) -> float:
        return math.exp(drift * total - drift**2 * count / 2) * norm.pdf(drift, scale=rho)

    mixed, _ = integrate.quad(ratio, centre - 12 * width, centre + 12 * width, epsabs=0)
    assert e_value(z, count) == pytest.approx(mixed, rel=1e-8)


@pytest.mark.parametrize("count", [50, 333, 40_000])
def test_the_boundary_of_the_confidence_sequence_is_twenty(count: int) -> None:
    assert e_value(anytime_quantile(0.05, count), count) == pytest.approx(20, rel=1e-12)
    assert e_value(-anytime_quantile(0.05, count), count) == pytest.approx(20, rel=1e-12)


@pytest.mark.parametrize("metric", Place.COMPARISON.names())
def test_limits_exclude_zero_where_the_evidence_is_twenty(metric: str) -> None:
    """On the way from no difference to a great one; limits of all looks are the wider ones."""
    sides = set()
    for row, shift in enumerate(np.linspace(1.0, 1.6, 12)):
        pair = pair_of(columns(800, float(shift), np.random.default_rng(row)))
        fixed, looks = (pair.compare(metric=metric, anytime=each) for each in (False, True))
        assert fixed.e_value is not None
        assert fixed.e_value == looks.e_value
        excludes = not looks.lower <= 0 <= looks.upper
        assert excludes == (fixed.e_value >= 20)
        sides.add(excludes)
        assert looks.p_value == max(1e-12, min(1.0, 1 / fixed.e_value))
        assert looks.lower < fixed.lower < fixed.upper < looks.upper
        assert looks.a == pair._models[0].interval(metric, anytime=True)
        assert f"at all looks, e = {fixed.e_value:.3g}" in str(looks)
    assert sides == {True, False}


@pytest.mark.slow
def test_equal_models_are_seldom_told_apart_at_any_look() -> None:
    """40 streams of equal models, 12 looks each: a fixed interval errs in many, this in few."""
    streams, ever, ever_fixed = 40, 0, 0
    for stream in range(streams):
        rows = columns(1_800, 1.0, np.random.default_rng([30_519, stream]))
        pair = PairedEvaluator()
        found: list[Comparison] = []
        for start in range(0, 1_800, 150):
            pair.add_cases(**{name: each[start : start + 150] for name, each in rows.items()})
            found.append(pair.compare(metric="auc_roc"))
        ever += any(each.e_value >= 20 for each in found if not math.isnan(each.e_value or 0))
        ever_fixed += any(not each.lower <= 0 <= each.upper for each in found)
    assert ever / streams <= 0.05
    assert ever_fixed / streams > 0.1


def test_too_few_cases_for_all_looks() -> None:
    """Below 50 of a class there is a fixed interval, and no other; nothing is 0 or 1 instead."""
    pair = pair_of(columns(100, 2.0, np.random.default_rng(1)))
    assert min(pair.num_positive_ref, pair.num_negative_ref) < 50
    looks = pair.compare(anytime=True)
    assert (looks.reason, pair.compare().reason) == ("TOO_FEW", None)
    for value in (looks.lower, looks.upper, looks.p_value, looks.e_value, pair.compare().e_value):
        assert value is not None
        assert math.isnan(value)
    assert "50 of each at all looks" in str(looks)


def test_equal_scores_are_evidence_for_equality() -> None:
    """No case differs: the e-value is below 1 and falls; where all differ it is great."""
    rows = columns(1_000, 1.0, np.random.default_rng(2))
    same = pair_of(rows | {"scores_b": rows["scores_a"]})
    first = same.compare(metric="auc_roc").e_value
    assert first is not None
    assert 0 < first < 1
    looks = same.compare(metric="auc_roc", anytime=True)
    assert looks.lower == -looks.upper < 0
    assert looks.p_value == 1.0
    perfect = rows["labels"].astype(float)
    opposite = pair_of(rows | {"scores_a": perfect, "scores_b": -perfect})
    found = opposite.compare(metric="auc_roc", anytime=True)
    assert found.difference == 1.0
    assert found.lower > 0.9
    assert found.e_value is not None
    assert 1e30 < found.e_value < math.inf


@pytest.mark.slow
def test_columns_in_one_call_are_exact() -> None:
    """Beyond the caps of an evaluator; figures are scikit-learn's, variance that of all pairs."""
    rows = columns(200_000, 1.2, np.random.default_rng(3))
    for metric, function in (
        ("auc_roc", roc_auc_score),
        ("average_precision", average_precision_score),
    ):
        found = compare_paired(**rows, metric=metric)
        a, b = (function(rows["labels"], rows[side]) for side in ("scores_a", "scores_b"))
        assert found.difference == pytest.approx(a - b, abs=1e-12)
        capped = pair_of(rows).compare(metric=metric)
        assert found.upper - found.lower == pytest.approx(capped.upper - capped.lower, rel=0.02)
    whole = pair_of(rows, max_cells=None)
    assert whole._grid.cuts is None
    assert len(whole._grid.negatives) + len(whole._grid.positives) == 200_000


def test_one_call_is_an_evaluator_filled_once() -> None:
    rows = columns(300, 1.3, np.random.default_rng(4)) | {"ids": np.arange(300)}
    for arguments in ({}, {"metric": "auc_roc", "level": 0.9}, {"prevalence": 0.01}):
        assert compare_paired(**rows, **arguments) == pair_of(rows).compare(**arguments)
    with pytest.raises(InvalidInputError, match="id 7 at index 299 is repeated") as caught:
        compare_paired(**(rows | {"ids": [*range(299), 7]}))
    assert (caught.value.field, caught.value.index) == ("ids", 299)
    with pytest.raises(InvalidInputError, match="pairs are compared by"):
        compare_paired(**rows, metric="recall")


def test_delongs_test_is_the_same_statistic() -> None:
    """DeLong's z (1988), from placements: our variance, plus four unseen cases; Student's t."""
    rows = columns(400, 1.25, np.random.default_rng(5))
    labels = rows["labels"]
    placements = []
    for name in ("scores_a", "scores_b"):
        positives, negatives = rows[name][labels], rows[name][~labels]
        wins = (positives[:, None] > negatives) + 0.5 * (positives[:, None] == negatives)
        placements.append((wins.mean(axis=1), wins.mean(axis=0)))
    of_positives, of_negatives = (placements[0][side] - placements[1][side] for side in (0, 1))
    difference = of_positives.mean()
    parts = [each.var(ddof=1) / len(each) for each in (of_positives, of_negatives)]
    estimated = variance = sum(parts)
    moved = abs(of_negatives - difference)
    moving = moved.sum() ** 2 / (moved**2).sum()
    freedom = estimated**2 / (
        parts[0] ** 2 / (len(of_positives) - 1) + parts[1] ** 2 / (moving - 1)
    )
    ours = compare_paired(**rows, metric="auc_roc")
    assert ours.difference == pytest.approx(difference, abs=1e-14)
    assert 2 * norm.sf(abs(difference) / math.sqrt(variance)) < ours.p_value
    for wins, _ in placements:  # a positive below all negatives, and a negative above all positives
        variance += sum((wins.mean() / (size + 1)) ** 2 for size in (labels.sum(), (~labels).sum()))
    freedom *= (variance / estimated) ** 2  # the unseen part is not estimated
    expected = 2 * t.sf(abs(difference) / math.sqrt(variance), freedom)
    assert ours.p_value == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("z", "count"), [(0.3, 50), (1.0, 200), (-2.4, 777), (2.9, 50_000)])
def test_the_number_of_cases_to_decide(z: float, count: int) -> None:
    """The first at which the e-value is 20, found by trying."""
    needed = count_for_evidence(z, count, 20.0)

    def evidence(at: float) -> float:
        return e_value(z * math.sqrt(at / count), at)

    assert evidence(needed) >= 20 > evidence(needed - 0.6)
    tried = np.linspace(count, needed - 0.6, 500)
    assert max(evidence(float(at)) for at in tried) < 20


def test_no_number_of_cases_decides_without_a_difference() -> None:
    assert count_for_evidence(0.0, 100, 20.0) == math.inf
    assert count_for_evidence(1e-12, 100, 20.0) == math.inf
    assert count_for_evidence(9.0, 100, 20.0) == 100


def test_a_rollout_ends_with_a_sentence() -> None:
    """Who is better and by how much, or how many labels that takes, or why there is no answer."""
    rng = np.random.default_rng(6)
    better = pair_of(columns(2_000, 1.5, rng))
    looks = better.compare(anytime=True)
    assert better.verdict(names=("v3", "v4")) == (
        f"v4 is better than v3 by {-looks.difference:.4f} in AUC-PR "
        f"({-looks.upper:.4f} to {-looks.lower:.4f} at all looks), on 2,000 cases"
    )
    assert better.verdict(metric="auc_roc").startswith("b is better than a by ")
    swapped = {"scores_a": "scores_b", "scores_b": "scores_a"}
    rows = columns(2_000, 1.5, np.random.default_rng(6))
    turned = pair_of({swapped.get(name, name): each for name, each in rows.items()})
    assert turned.verdict(names=("v4", "v3")) == better.verdict(names=("v3", "v4"))
    near = pair_of(columns(600, 1.15, np.random.default_rng(8)))
    text = near.verdict(metric="auc_roc")
    assert text.startswith("not decided: a minus b is -0.0")
    assert text.endswith("more labels decide at this difference")
    rows = columns(500, 1.0, np.random.default_rng(9))
    same = pair_of(rows | {"scores_b": rows["scores_a"]})
    assert same.verdict().endswith("a decision takes over 100 times as many at this difference")
    few = pair_of(columns(60, 1.0, rng))
    assert few.verdict().startswith("no answer: TOO_FEW, it needs two positives")
    with pytest.raises(InvalidInputError, match="pairs are compared by"):
        few.verdict(metric="recall")


def test_the_labels_that_it_takes_are_about_as_many_as_it_says() -> None:
    """Streams of a steady difference decide at about the foretold number, in the median."""
    ratios = []
    for stream in range(24):
        rows = columns(8_000, 1.16, np.random.default_rng([41, stream]))
        pair = pair_of({name: each[:400] for name, each in rows.items()})
        change, difference = pair._compared("auc_roc", 0.95, None, anytime=True)
        assert change.e_value is not None
        if change.e_value >= 20 or change.difference > 0:
            continue
        foretold = min(8_000, 400 * difference.growth_to_decide())
        decided = 8_000
        for size in range(500, 8_001, 250):
            more = pair_of({name: each[:size] for name, each in rows.items()})
            if (more.compare(metric="auc_roc").e_value or 0) >= 20:
                decided = size
                break
        ratios.append(decided / foretold)
    assert len(ratios) >= 10
    assert 0.5 < float(np.median(ratios)) < 2.0


def test_sides_that_may_have_the_same_cases_are_warned_of() -> None:
    """As many positives and negatives, 20 or more: two models of the same cases have that."""
    rows = columns(300, 1.2, np.random.default_rng(11))

    def side(name: str, size: int) -> Evaluator:
        ev = Evaluator()
        ev.add_cases(labels=rows["labels"][:size], scores=rows[name][:size])
        return ev

    change = compare(side("scores_a", 300), side("scores_b", 300), metric="auc_roc")
    positives = int(rows["labels"].sum())
    (warning,) = change.warnings
    assert warning == (
        f"both sides have {positives} positives and {300 - positives} negatives: if two models "
        "scored the same cases, the sides are not independent; use compare_paired"
    )
    assert str(change).endswith(f"\n{warning}")
    assert not compare(side("scores_a", 300), side("scores_b", 299)).warnings
    assert not compare(side("scores_a", 30), side("scores_b", 30)).warnings
    assert not compare_paired(**rows).warnings
