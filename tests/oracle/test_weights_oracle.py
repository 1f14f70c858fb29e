"""scikit-learn's own tests of ranking metrics and of sample weights, run against ours."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from streameval import functional
from streameval.adapters.sklearn import scaled_weights

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def roc_auc_score(
    y_true: Any, y_score: Any, *, sample_weight: Any = None, max_fpr: float | None = None
) -> float:
    """Return AUC-ROC with scikit-learn's arguments."""
    return functional.auc_roc(
        labels=_labels(y_true),
        scores=y_score,
        weights=_weights(y_true, y_score, sample_weight),
        max_fpr=max_fpr,
        standardize=max_fpr is not None,
    )


def average_precision_score(y_true: Any, y_score: Any, *, sample_weight: Any = None) -> float:
    """Return average precision with scikit-learn's arguments."""
    return functional.average_precision(
        labels=_labels(y_true), scores=y_score, weights=_weights(y_true, y_score, sample_weight)
    )


def roc_curve(
    y_true: Any, y_score: Any, *, sample_weight: Any = None, drop_intermediate: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the points with scikit-learn's arguments; all of them, whatever it drops."""
    del drop_intermediate
    points = functional.operating_points(
        labels=_labels(y_true), scores=y_score, weights=_weights(y_true, y_score, sample_weight)
    )
    return points.fpr, points.tpr, points.thresholds


def precision_recall_curve(
    y_true: Any, y_score: Any, *, sample_weight: Any = None, drop_intermediate: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the points in scikit-learn's order: its last one is at recall 0."""
    assert not drop_intermediate
    points = functional.operating_points(
        labels=_labels(y_true), scores=y_score, weights=_weights(y_true, y_score, sample_weight)
    )
    return points.precision[::-1], points.recall[::-1], points.thresholds[:0:-1]


def brier_score_loss(y_true: Any, y_score: Any, *, sample_weight: Any = None) -> float:
    """Return the Brier score with scikit-learn's arguments."""
    return functional.brier_score(
        labels=_labels(y_true), scores=y_score, weights=_weights(y_true, y_score, sample_weight)
    )


def log_loss(y_true: Any, y_score: Any, *, sample_weight: Any = None) -> float:
    """Return log loss with scikit-learn's arguments."""
    return functional.log_loss(
        labels=_labels(y_true), scores=y_score, weights=_weights(y_true, y_score, sample_weight)
    )


def rate_at(
    y_true: Any, y_score: Any, *, name: str, threshold: float, sample_weight: Any = None
) -> float:
    """Return a rate of the cases called positive at a threshold."""
    filled = functional.evaluator(
        labels=_labels(y_true), scores=y_score, weights=_weights(y_true, y_score, sample_weight)
    )
    return getattr(filled.confusion_at(threshold), name)


def _labels(y_true: Any) -> np.ndarray:
    return np.asarray(y_true) == 1


def _weights(y_true: Any, y_score: Any, sample_weight: Any) -> Any:
    from sklearn.utils import check_consistent_length

    check_consistent_length(y_true, y_score, sample_weight)  # their tests read its message
    return None if sample_weight is None else scaled_weights(sample_weight, field="sample_weight")


@pytest.fixture
def ranking(require, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return scikit-learn's tests of ranking metrics, in which ours take the metrics' names."""
    require("sklearn")
    module = require("sklearn.metrics.tests.test_ranking")
    for ours in (roc_auc_score, average_precision_score, roc_curve, precision_recall_curve):
        monkeypatch.setattr(module, ours.__name__, ours)
    return module


@pytest.mark.parametrize(
    ("test", "arguments"),
    [
        ("test_roc_curve", {"drop": False}),
        ("test_roc_curve_end_points", {}),
        ("test_roc_returns_consistency", {}),
        ("test_roc_curve_fpr_tpr_increasing", {}),
        ("test_score_scale_invariance", {}),
        ("test_average_precision_constant_values", {}),
        ("test_precision_recall_curve", {"drop": False}),
        ("test_partial_roc_auc_score", {}),
    ],
)
def test_their_tests_hold_for_ours(ranking: ModuleType, test: str, arguments: dict) -> None:
    """A test of theirs that names only these metrics passes with ours."""
    getattr(ranking, test)(**arguments)


@pytest.mark.parametrize("curve", [roc_curve, precision_recall_curve])
def test_their_zero_weights(ranking: ModuleType, curve: Callable[..., Any]) -> None:
    """A row of weight 0 is no row."""
    ranking.test_confusion_matrix_at_thresholds_zero_sample_weight(curve)


@pytest.mark.parametrize(
    "metric",
    [
        roc_auc_score,
        average_precision_score,
        partial(roc_auc_score, max_fpr=0.3),
        brier_score_loss,
        log_loss,
        *(partial(rate_at, name=name, threshold=0.5) for name in ("precision", "recall", "mcc")),
    ],
)
def test_their_invariances_of_sample_weights(
    require: Callable[[str], ModuleType],
    request: pytest.FixtureRequest,
    metric: Callable[..., float],
) -> None:
    """Weights of 1 are none, whole ones repeat, 0 leaves out, and their scale is free."""
    require("sklearn")
    request.config.addinivalue_line("markers", "thread_unsafe: of scikit-learn's tests")
    common = require("sklearn.metrics.tests.test_common")
    rng = np.random.RandomState(7)
    y_true = rng.randint(0, 2, size=50)
    y_score = rng.random_sample(50).round(1).clip(0.05, 0.95)  # log loss is infinite at 0 and 1
    common.check_sample_weight_invariance("ours", metric, y_true, y_score)


def test_weights_of_an_audit(require) -> None:
    """Inverse label probabilities, rounded to multiples of 2**-16, to 1e-9 of scikit-learn's."""
    metrics = require("sklearn.metrics")
    rng = np.random.default_rng(11)
    labels = rng.random(5_000) < 0.1
    scores = (rng.normal(size=5_000) + labels).round(2)
    weights = np.rint(2**16 / rng.uniform(0.01, 1.0, size=5_000)) / 2**16
    ours = functional.evaluator(labels=labels, scores=scores, weights=weights)
    theirs = metrics.average_precision_score(labels, scores, sample_weight=weights)
    assert ours.average_precision() == pytest.approx(theirs, rel=1e-9)
    theirs = metrics.roc_auc_score(labels, scores, sample_weight=weights)
    assert ours.auc_roc() == pytest.approx(theirs, rel=1e-9)
