"""Several classes: figures against scikit-learn, variances against simulation and identities."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.preprocessing import label_binarize

from streameval import Evaluator, InvalidInputError, one_vs_rest
from streameval._uncertainty.class_means import class_figures
from streameval._uncertainty.estimates import figure_of

METRICS = ("auc_pr", "average_precision", "auc_roc")


def sample(
    rng: np.random.Generator, rows: int, shares: list[float], gains: list[float], digits: int = 2
) -> tuple[np.ndarray, np.ndarray]:
    """Return classes and rounded probabilities; each class's own score is higher by its gain."""
    codes = rng.choice(len(shares), size=rows, p=shares)
    scores = rng.normal(size=(rows, len(shares)))
    scores[np.arange(rows), codes] += np.array(gains)[codes]
    odds = np.exp(scores)
    return codes, np.round(odds / odds.sum(axis=1, keepdims=True), digits)


def figures(metric: str, codes: np.ndarray, scores: np.ndarray):
    """Return the figures of all classes with the influences of the rows."""
    found = one_vs_rest(codes, scores, classes=range(scores.shape[1]))
    groups = [each._view().groups for each in found.evaluators.values()]
    return class_figures(metric, groups, codes, scores), groups


@pytest.mark.parametrize("digits", [1, 9])
@pytest.mark.parametrize("average", ["macro", "weighted"])
def test_means_are_scikit_learn_s(average: str, digits: int) -> None:
    """Macro and weighted means of AUC-ROC and average precision, with and without ties."""
    codes, scores = sample(np.random.default_rng(1), 400, [0.6, 0.3, 0.1], [1, 2, 1], digits)
    truth = label_binarize(codes, classes=[0, 1, 2])
    found = one_vs_rest(codes, scores)
    mean = getattr(found, average)
    assert mean("auc_roc").estimate == pytest.approx(
        roc_auc_score(truth, scores, average=average), rel=1e-12
    )
    assert mean("average_precision").estimate == pytest.approx(
        average_precision_score(truth, scores, average=average), rel=1e-12
    )
    assert found[1].auc_roc() == pytest.approx(roc_auc_score(truth[:, 1], scores[:, 1]))


@pytest.mark.parametrize("metric", METRICS)
def test_a_class_has_the_variance_of_its_evaluator(metric: str) -> None:
    """The squares of a class's influences add up to the variance that its interval has."""
    codes, scores = sample(np.random.default_rng(2), 300, [0.5, 0.4, 0.1], [1, 1, 2])
    found, groups = figures(metric, codes, scores)
    for column, each in enumerate(groups):
        variance = float((found.influences[:, column] ** 2).sum())
        assert variance == pytest.approx(figure_of(each, metric).variance, rel=1e-12)
        assert found.influences[:, column].sum() == pytest.approx(0, abs=1e-12)


def test_two_complementary_classes_are_one() -> None:
    """With p and 1 - p both AUC-ROC are one number: its mean is as uncertain as it is."""
    rng = np.random.default_rng(3)
    labels = rng.random(200) < 0.3
    p = rng.integers(0, 100, size=200) / 128 + 0.2 * labels
    found, groups = figures("auc_roc", labels.astype(np.int64), np.column_stack((-p, p)))
    one = figure_of(groups[1], "auc_roc")
    for mean in (found.macro(), found.weighted()):
        assert mean.estimate == pytest.approx(one.estimate, rel=1e-12)
        assert mean.variance == pytest.approx(one.variance, rel=1e-12)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.slow
def test_the_variance_is_that_of_repeated_samples(metric: str) -> None:
    """Both means' variance against the scatter of the means of 600 samples.

    Their ratio is within four of its standard errors (6 %), and a sum of the classes'
    own variances is not.
    """
    rng = np.random.default_rng(4)
    shares, gains = [0.15, 0.25, 0.6], [0.3, 2.5, 1.2]
    macro, weighted, apart = [], [], []
    for _ in range(600):
        codes, scores = sample(rng, 300, shares, gains)
        found, groups = figures(metric, codes, scores)
        macro.append(found.macro())
        weighted.append(found.weighted())
        weights = found.positives / len(codes)
        apart.append(weights**2 @ [figure_of(each, metric).variance for each in groups])
    for means in (macro, weighted):
        observed = np.var([each.estimate for each in means], ddof=1)
        assert np.mean([each.variance for each in means]) / observed == pytest.approx(1, abs=0.24)
    if metric == "auc_pr":
        # The weights vary, and so do shared rows.
        assert np.mean(apart) / np.var([each.estimate for each in weighted], ddof=1) < 0.7


def test_the_order_of_classes_does_not_matter() -> None:
    """Columns in another order, or by name: the same means, to rounding."""
    codes, scores = sample(np.random.default_rng(5), 200, [0.4, 0.3, 0.3], [1, 1, 1])
    names = np.array(["ant", "bee", "cow"])[codes]
    first = one_vs_rest(names, scores)
    assert first.classes == ("ant", "bee", "cow")
    frame = pd.DataFrame(scores[:, [2, 0, 1]], columns=["cow", "ant", "bee"])
    for other in (
        one_vs_rest(names, frame),
        one_vs_rest(names, pl.from_pandas(frame)),
        one_vs_rest(names, pa.Table.from_pandas(frame)),
        one_vs_rest(names, {name: frame[name] for name in frame}),
        one_vs_rest(names, scores[:, [2, 0, 1]].tolist(), classes=["cow", "ant", "bee"]),
    ):
        assert other.classes == ("cow", "ant", "bee")
        assert other["bee"] == first["bee"]
        for mean in ("macro", "weighted"):
            one, two = getattr(first, mean)(), getattr(other, mean)()
            assert (two.lower, two.estimate, two.upper) == pytest.approx(
                (one.lower, one.estimate, one.upper), rel=1e-12
            )


def test_the_caller_s_array_may_change_afterwards() -> None:
    """The means are those of the rows as they were."""
    codes, scores = sample(np.random.default_rng(6), 100, [0.5, 0.5], [1, 1])
    found, before = one_vs_rest(codes, scores), one_vs_rest(codes, scores.copy()).macro()
    scores[:] = 0.5
    codes[:] = 0
    assert found.macro() == before


def test_perfect_and_useless_classes() -> None:
    """At a mean of 1 the interval has a width; at chance it holds 1/2."""
    codes = np.arange(60) % 3
    perfect = one_vs_rest(codes, np.eye(3)[codes]).macro("auc_roc")
    assert perfect.estimate == perfect.upper == 1.0
    assert 0.9 < perfect.lower < 1.0
    blind = one_vs_rest(codes, np.ones((60, 3))).macro("auc_roc")
    assert blind.estimate == 0.5
    assert blind.lower < 0.5 < blind.upper


def test_few_rows_and_absent_classes() -> None:
    """Too few rows of a class: no limits. A class without rows: no macro mean."""
    found = one_vs_rest(["a", "a", "b", "b", "c"], np.eye(3)[[0, 0, 1, 1, 2]])
    mean = found.macro()
    assert (mean.estimate, mean.reason) == (1.0, "TOO_FEW")
    absent = one_vs_rest([0, 1, 0, 1], np.eye(3)[[0, 1, 0, 1]], classes=[0, 1, 2])
    assert math.isnan(absent.macro().estimate)
    assert absent.weighted().estimate == 1.0
    assert absent.weighted().reason == "TOO_FEW"
    assert "undefined" in str(absent)
    nothing = one_vs_rest([], np.empty((0, 2)), classes=["a", "b"])
    assert math.isnan(nothing.macro().estimate)
    assert math.isnan(nothing.weighted().estimate)


def test_it_prints_and_gives_rows() -> None:
    """A row for each class, then the means."""
    codes, scores = sample(np.random.default_rng(7), 90, [0.4, 0.3, 0.3], [1, 1, 1])
    found = one_vs_rest(codes, scores)
    lines = str(found).splitlines()
    assert len(lines) == 7
    assert lines[1].split()[:3] == ["class", "rows", "AUC-PR"]
    assert f"{found.macro():.3f}" in lines[5]
    assert f"{found.weighted('auc_roc'):.3f}" in lines[6]
    assert found._repr_html_().count("<tr>") == 6
    frame = pd.DataFrame(found.to_rows())
    assert frame["class"].tolist() == [0, 1, 2]
    assert frame.auc_pr[1] == found[1].auc_pr()
    assert isinstance(found[1], Evaluator)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"probabilities": [0.5, 0.5, 0.2, 0.1]}, r"one column for each class, got shape \(4,\)"),
        ({"probabilities": [[1, 2], [1]]}, "rows of equal length"),
        ({"probabilities": np.ones((4, 3))}, r"has 3 columns, got 2 classes; give classes="),
        ({"probabilities": np.ones((4, 3)), "classes": ["a", "b"]}, "has 3 columns, got 2 classes"),
        ({"classes": ["a", "c"]}, r"label 'b' at index 1 is none of the classes \['a', 'c'\]"),
        ({"classes": ["a", "a"]}, "classes must differ"),
        ({"labels": ["a", None, "a", "b"]}, "labels must not have missing values.* index 1"),
        ({"labels": ["a", "b"]}, "probabilities must have one row for each of labels, got 4"),
        ({"probabilities": np.full((4, 2), np.nan)}, "score must be finite, got nan at index 0"),
        ({"probabilities": {"a": [1] * 4, "b": [1] * 4}, "classes": ["a", "b"]}, "leave classes"),
    ],
)
def test_what_is_refused(arguments: dict, message: str) -> None:
    """Each refusal names the argument, and the row where there is one."""
    given = {"labels": list("abab"), "probabilities": np.eye(2)[[0, 1, 0, 1]]}
    with pytest.raises(InvalidInputError, match=message):
        one_vs_rest(**given | arguments)


def test_only_areas_have_means() -> None:
    """Other metrics have no mean with an interval."""
    found = one_vs_rest(["a", "b"], np.eye(2))
    with pytest.raises(InvalidInputError, match="no mean over classes of 'brier_score'; there is"):
        found.macro("brier_score")
    with pytest.raises(InvalidInputError, match="level must be between 0 and 1, got 1"):
        found.weighted(level=1)
