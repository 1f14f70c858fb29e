"""The scikit-learn scorers, inside scikit-learn."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from streameval import Evaluator, InvalidInputError, functional

if TYPE_CHECKING:
    from types import ModuleType


@pytest.fixture(scope="module")
def sklearn(require) -> ModuleType:
    """Return scikit-learn with the parts that are used here."""
    parts = ("datasets", "dummy", "ensemble", "linear_model", "metrics", "model_selection", "svm")
    for part in parts:
        require(f"sklearn.{part}")
    return require("sklearn")


@pytest.fixture(scope="module")
def scorers(require) -> ModuleType:
    """Return the adapter's module."""
    require("sklearn")
    return require("streameval.adapters.sklearn")


@pytest.fixture(scope="module")
def data(sklearn) -> tuple[Any, Any]:
    """Return a table of cases, a tenth of them positive."""
    table: tuple[Any, Any] = sklearn.datasets.make_classification(
        600, n_features=8, n_informative=3, weights=[0.9], flip_y=0.05, random_state=0
    )
    return table


def filled(labels: Any, scores: Any) -> Evaluator:
    """Return an evaluator of such columns."""
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=scores)
    return ev


def test_scores_a_model_by_what_it_has(sklearn, scorers, data) -> None:
    """Decision values and probabilities alike give the evaluator's areas."""
    X, y = data
    linear = sklearn.svm.LinearSVC(random_state=0).fit(X, y)
    forest = sklearn.ensemble.RandomForestClassifier(20, random_state=0).fit(X[:300], y[:300])
    for model, scores in (
        (linear, linear.decision_function(X)),
        (forest, forest.predict_proba(X)[:, 1]),
    ):
        ev = filled(y, scores)
        assert scorers.auc_pr_scorer(model, X, y) == ev.auc_pr()
        assert scorers.achievable_auc_pr_scorer(model, X, y) == ev.auc_pr(hull=True)


def test_cross_validation(sklearn, scorers, data) -> None:
    """cross_val_score gives each fold's area, as computed by hand."""
    X, y = data
    model = sklearn.linear_model.LogisticRegression()
    folds = sklearn.model_selection.StratifiedKFold(4)
    values = sklearn.model_selection.cross_val_score(
        model, X, y, cv=folds, scoring=scorers.auc_pr_scorer
    )
    by_hand = [
        filled(y[test], model.fit(X[train], y[train]).decision_function(X[test])).auc_pr()
        for train, test in folds.split(X, y)
    ]
    assert values.tolist() == by_hand


def test_a_search_optimises_the_achievable_area(sklearn, scorers, data) -> None:
    """GridSearchCV chooses the candidate with the largest mean area, among several scorers."""
    X, y = data
    search = sklearn.model_selection.GridSearchCV(
        sklearn.linear_model.LogisticRegression(class_weight="balanced"),
        {"C": [1e-4, 1e-2, 1.0]},
        scoring={
            "achievable": scorers.achievable_auc_pr_scorer,
            "interpolated": scorers.auc_pr_scorer,
            "theirs": "average_precision",
        },
        refit="achievable",
        cv=3,
    ).fit(X, y)
    means = search.cv_results_["mean_test_achievable"]
    assert search.best_score_ == means.max()
    assert (means >= search.cv_results_["mean_test_interpolated"]).all()
    near = search.cv_results_["mean_test_theirs"]
    assert search.cv_results_["mean_test_interpolated"] == pytest.approx(near, abs=0.05)


def test_an_early_stop_watches_the_area(sklearn, scorers, data) -> None:
    """Gradient boosting stops by the scorer's values on its validation part."""
    X, y = data
    model = sklearn.ensemble.HistGradientBoostingClassifier(
        scoring=scorers.achievable_auc_pr_scorer,
        early_stopping=True,
        validation_fraction=0.3,
        n_iter_no_change=3,
        max_iter=60,
        random_state=0,
    ).fit(X, y)
    assert model.n_iter_ < 60
    assert ((model.validation_score_ > 0) & (model.validation_score_ <= 1)).all()
    assert len(set(model.validation_score_)) > 1


def test_whole_weights_are_repetitions(scorers, data) -> None:
    """An integer weight repeats a row."""
    rng = np.random.default_rng(3)
    y, scores, weights = data[1][:50], rng.normal(size=50), rng.integers(0, 4, size=50)
    weighted = scorers.auc_pr_score(y, scores, sample_weight=weights)
    assert weighted == filled(y.repeat(weights), scores.repeat(weights)).auc_pr()


@pytest.mark.parametrize("scale", [1e-300, 1e-6, 1.0, 1e12, 1e300])
def test_weights_of_any_scale(scorers, data, scale: float) -> None:
    """Only ratios of weights matter, and fractions with none to 1e-9, also beyond our limits."""
    rng = np.random.default_rng(5)
    y, scores = data[1], rng.normal(size=data[1].size).round(1)
    weights = rng.lognormal(size=y.size)
    value = scorers.auc_pr_score(y, scores, sample_weight=weights * scale)
    repeats = np.rint(weights * 2**30).astype(np.int64)
    expected = functional.auc_pr(labels=y, scores=scores, counts=repeats)
    assert value == pytest.approx(expected, rel=1e-8)


def test_bad_weights_are_refused(scorers, data) -> None:
    """A weight that is negative or not finite is refused by the caller's name for it."""
    y = data[1]
    for bad in (-1.0, np.nan, np.inf):
        weights = np.where(np.arange(y.size) == 3, bad, 1.0)
        with pytest.raises(InvalidInputError, match="weight must be finite") as caught:
            scorers.auc_pr_score(y, np.zeros(y.size), sample_weight=weights)
        assert (caught.value.field, caught.value.index) == ("sample_weight", 3)


def test_other_labels(sklearn, scorers, data) -> None:
    """Labels -1 and 1 need no `pos_label`; others do, as with scikit-learn's own scorers."""
    X, y = data
    value = scorers.auc_pr_scorer(sklearn.linear_model.LogisticRegression().fit(X, y), X, y)
    signed = np.where(y, 1, -1)
    model = sklearn.linear_model.LogisticRegression().fit(X, signed)
    assert scorers.auc_pr_scorer(model, X, signed) == pytest.approx(value)
    words = np.where(y, "bad", "good")
    scorer = sklearn.metrics.make_scorer(
        scorers.auc_pr_score, response_method="predict_proba", pos_label="bad"
    )
    model = sklearn.linear_model.LogisticRegression().fit(X, words)
    assert scorer(model, X, words) == pytest.approx(value)


@pytest.mark.parametrize("labels", [["no", "yes"], ["no", "no"], [0, 2], [2, 2], [0, 1, 2]])
def test_labels_that_are_not_told_apart_are_refused(scorers, labels) -> None:
    """Labels that do not contain the positive one, and more than two, are an error."""
    with pytest.raises(InvalidInputError, match="y_true must hold pos_label=1 and one other label"):
        scorers.auc_pr_score(labels, np.zeros(len(labels)))


def test_undefined_is_nan(scorers) -> None:
    """Without positives there is no area."""
    for labels in ([0, 0], [-1, -1], [False, False], []):
        assert np.isnan(scorers.auc_pr_score(labels, np.zeros(len(labels))))
        assert np.isnan(scorers.achievable_auc_pr_score(labels, np.zeros(len(labels))))


def test_scorers_are_pickled(scorers) -> None:
    """A scorer can be pickled, as searches with workers need."""
    restored = pickle.loads(pickle.dumps(scorers.achievable_auc_pr_scorer))
    assert restored._score_func is scorers.achievable_auc_pr_score


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        ([1, np.nan, 1, 0], "nan"),
        (np.array([1, np.nan, 1, np.nan]), "nan"),
        (np.array([1, np.nan, 1, 0], dtype=np.float32), "nan"),
        ([1, None, 1, 0], "None"),
        ([True, float("nan"), True, False], "nan"),
        (["1", "", "1", "0"], "''"),
        (["1", "N/A", "1", "0"], "'N/A'"),
        (np.array(["1", "nan", "1", "0"]), "'nan'"),
        (np.array([1, None, 1, 0], dtype=object), "None"),
        (np.ma.masked_array([1, 1, 1, 0], mask=[0, 1, 0, 0]), "null"),
    ],
)
@pytest.mark.parametrize("name", ["auc_pr_score", "achievable_auc_pr_score"])
def test_missing_labels_are_refused(scorers, name: str, labels: Any, shown: str) -> None:
    """As scikit-learn does; they are no negatives."""
    with pytest.raises(InvalidInputError, match="y_true must not have missing values") as caught:
        getattr(scorers, name)(labels, [0.9, 0.2, 0.8, 0.95])
    assert (caught.value.field, caught.value.index) == ("y_true", 1)
    assert shown in str(caught.value)


def test_missing_labels_of_pandas(scorers, require) -> None:
    """Of nullable columns, of objects and of floats."""
    pandas = require("pandas")
    for column in (
        pandas.Series([1, None, 0], dtype="Int64"),
        pandas.Series([1, pandas.NA, 0], dtype=object),
        pandas.Series([1, None, 0]),
        pandas.Series(["1", None, "0"]),
        pandas.Series(["1", None, "0"], dtype="category"),
    ):
        with pytest.raises(InvalidInputError, match="y_true must not have missing values"):
            scorers.auc_pr_score(column, [0.1, 0.2, 0.3])


def test_labels_are_compared_as_values(scorers) -> None:
    """Texts of numbers are those numbers, so that a column read as text is the same."""
    scores, expected = (
        [0.9, 0.7, 0.4, 0.1],
        scorers.auc_pr_score([1, 0, 1, 0], [0.9, 0.7, 0.4, 0.1]),
    )
    for labels in (["1", "0", "1", "0"], ["1.0", "0.0", "1.0", "0.0"], [True, False, True, False]):
        assert scorers.auc_pr_score(labels, scores) == expected
    assert scorers.auc_pr_score(["NA", "US", "NA", "US"], scores, pos_label="NA") == expected
    assert scorers.auc_pr_score([1, -1, 1, -1], scores) == expected
