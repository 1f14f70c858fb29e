"""Functions on columns return what an evaluator returns."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from streameval import Evaluator, InvalidInputError, functional

rng = np.random.default_rng(2)
LABELS = rng.random(200) < 0.3
SCORES = np.round(rng.random(200), 2)
COUNTS = rng.integers(0, 4, 200)


@pytest.mark.parametrize("name", sorted(set(functional.__all__) - {"evaluator", "interval"}))
@pytest.mark.parametrize("counts", [None, COUNTS])
def test_each_function_is_the_method_of_its_name(name, counts):
    """Same columns, same answer."""
    ev = Evaluator()
    ev.add_cases(labels=LABELS, scores=SCORES, counts=counts)
    got = getattr(functional, name)(labels=LABELS, scores=SCORES, counts=counts)
    want = getattr(ev, name)()
    if isinstance(want, float):
        assert got == want
    elif isinstance(want, np.ndarray):
        assert np.array_equal(got, want)
    elif hasattr(want, "tp"):
        assert np.array_equal(got.tp, want.tp)
        assert np.array_equal(got.thresholds, want.thresholds)
    else:
        assert got == want


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("auc_roc", {"hull": True}),
        ("auc_roc", {"max_fpr": 0.2, "standardize": True}),
        ("auc_roc", {"min_recall": 0.5}),
        ("auc_pr", {"hull": True, "prevalence": 0.01}),
        ("auc_pr", {"method": "unit"}),
        ("auc_pr", {"min_recall": 0.5}),
        ("average_precision", {"prevalence": 0.01}),
        ("maximum_f_measure", {"beta": 2.0}),
        ("roc_curve", {"interpolate": True}),
        ("pr_curve", {"interpolate": True}),
    ],
)
def test_arguments_are_handed_on(name, arguments):
    """Other arguments are passed to the method."""
    ev = functional.evaluator(labels=LABELS, scores=SCORES)
    got = getattr(functional, name)(labels=LABELS, scores=SCORES, **arguments)
    assert np.array_equal(got, getattr(ev, name)(**arguments))
    assert not np.array_equal(got, getattr(ev, name)())


def test_intervals_in_one_call():
    """Level and prevalence are passed on."""
    ev = functional.evaluator(labels=LABELS, scores=SCORES)
    got = functional.interval("auc_pr", labels=LABELS, scores=SCORES, level=0.9, prevalence=0.1)
    assert got == ev.interval("auc_pr", level=0.9, prevalence=0.1)


def test_bad_columns_are_refused_with_the_same_words():
    """Columns are validated in one place."""
    with pytest.raises(InvalidInputError, match="score must be finite, got nan at index 1"):
        functional.auc_pr(labels=[1, 0], scores=[0.5, float("nan")])


def test_all_is_sorted_and_complete():
    """Every public function is exported, and nothing else."""
    assert list(functional.__all__) == sorted(functional.__all__)
    here = {
        name
        for name, value in vars(functional).items()
        if getattr(value, "__module__", None) == functional.__name__ and name[0] != "_"
    }
    assert here == set(functional.__all__)


def test_columns_are_named_and_shown() -> None:
    """The signature has the columns and the options; an error names the function called."""
    shown = inspect.signature(functional.auc_roc).parameters
    assert list(shown)[:6] == ["labels", "scores", "counts", "weights", "positive", "negative"]
    assert "max_fpr" in shown
    for call in (lambda: functional.auc_roc([1], [2]), lambda: functional.auc_roc(labels=[1])):
        with pytest.raises(TypeError, match=r"^auc_roc\(\) takes keywords: write auc_roc\(labels"):
            call()
    with pytest.raises(TypeError, match=r"^auc_roc\(\) got an unexpected keyword argument 'at'"):
        functional.auc_roc(labels=[1, 0], scores=[2, 1], at=3)


@pytest.mark.parametrize("name", functional.__all__)
def test_the_names_of_scikit_learn(name):
    """y_true and y_score are labels and scores; one of two names, never both."""
    function = getattr(functional, name)
    got = function(y_true=LABELS, y_score=SCORES)
    want = function(labels=LABELS, scores=SCORES)
    columns = ("fp", "tp", "thresholds") if hasattr(want, "tp") else ()
    for each, other in (
        [(got, want)]
        if not columns
        else ((getattr(got, column), getattr(want, column)) for column in columns)
    ):
        if isinstance(each, np.ndarray):
            np.testing.assert_array_equal(each, other)  # nan and inf, too
        else:
            assert each == other
    mixed = function(labels=LABELS, y_score=SCORES)
    assert str(mixed) == str(want)
    with pytest.raises(TypeError, match=rf"^{name}\(\) takes labels= or y_true=, not both"):
        function(labels=LABELS, y_true=LABELS, scores=SCORES)


def test_columns_of_curves_are_in_the_order_that_is_said():
    """The code in the docstrings: recall before precision, both rising with the rows."""
    points = functional.operating_points(y_true=LABELS, y_score=SCORES)
    fpr, tpr = functional.roc_curve(y_true=LABELS, y_score=SCORES).T
    assert (fpr[0], tpr[0], fpr[-1], tpr[-1]) == (0, 0, 1, 1)
    assert np.array_equal(fpr, points.fpr)
    recall, precision = functional.pr_curve(y_true=LABELS, y_score=SCORES).T
    assert (np.diff(recall) >= 0).all()
    assert recall[-1] == 1
    assert precision[0] == 1 or recall[0] == 0
    lower, upper = functional.interval("auc_roc", y_true=LABELS, y_score=SCORES)
    assert lower < functional.auc_roc(y_true=LABELS, y_score=SCORES) < upper
