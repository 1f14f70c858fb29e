"""The river adapter, inside river."""

from __future__ import annotations

import copy
import pickle
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from streameval import Evaluator, InvalidInputError

if TYPE_CHECKING:
    from types import ModuleType

    from streameval.adapters.river import BinaryArea


@pytest.fixture(scope="module")
def river(require) -> ModuleType:
    """Return river with the parts that are used here."""
    for part in ("anomaly", "datasets", "evaluate", "linear_model", "metrics", "preprocessing"):
        require(f"river.{part}")
    return require("river")


@pytest.fixture
def make(require) -> type[BinaryArea]:
    """Return the adapter's class."""
    require("river")
    adapter: type[BinaryArea] = require("streameval.adapters.river").BinaryArea
    return adapter


def cases(count: int, seed: int = 1) -> list[tuple[bool, dict[bool, float]]]:
    """Return labels and probabilities as river's classifiers give them."""
    rng = random.Random(seed)
    drawn = []
    for _ in range(count):
        label = rng.random() < 0.3
        p = round(min(1.0, max(0.0, rng.gauss(0.6 if label else 0.4, 0.2))), 2)
        drawn.append((label, {False: 1 - p, True: p}))
    return drawn


def expected(rows: Any) -> Evaluator:
    """Return an evaluator of such cases."""
    ev = Evaluator()
    for label, probability in rows:
        ev.add_case(label, probability[True])
    return ev


@pytest.mark.parametrize("figure", ["auc_pr", "average_precision", "auc_roc"])
def test_follows_scikit_learn_at_every_step(make, require, figure: str) -> None:
    """After every prefix the area equals scikit-learn's, or the evaluator's."""
    peers = require("sklearn.metrics")
    metric = make(metric=figure)
    rows = cases(60)
    for count, (label, probability) in enumerate(rows, 1):
        metric.update(label, probability)
        seen = rows[:count]
        labels, scores = [y for y, _ in seen], [p[True] for _, p in seen]
        if len(set(labels)) < 2:
            continue
        if figure == "auc_pr":
            value = expected(seen).auc_pr()
        elif figure == "auc_roc":
            value = peers.roc_auc_score(labels, scores)
        else:
            value = peers.average_precision_score(labels, scores)
        assert metric.get() == pytest.approx(value, abs=1e-12)


def model(river: ModuleType) -> Any:
    """Return a small classifier."""
    return river.preprocessing.StandardScaler() | river.linear_model.LogisticRegression()


def test_progressive_validation(river, make) -> None:
    """Inside progressive_val_score it counts the same cases as river's own metrics."""
    dataset = river.datasets.Phishing()
    ours, rolling = make(metric="auc_roc"), river.metrics.RollingROCAUC(window_size=5000)
    for metric in (ours, rolling):
        river.evaluate.progressive_val_score(dataset, model(river), metric)
    assert ours.get() == pytest.approx(rolling.get(), abs=1e-9)
    assert ours.evaluator.num_cases == dataset.n_samples


def test_beside_a_metric_of_labels(river, make) -> None:
    """A sum with a metric that needs labels works, as with river's own metrics."""
    dataset = river.datasets.Phishing().take(300)
    both = make(metric="auc_pr") + river.metrics.Accuracy()
    river.evaluate.progressive_val_score(dataset, model(river), both)
    area, accuracy = both.get()
    assert 0.5 < area < 1
    assert 0.5 < accuracy < 1
    assert repr(both).startswith("BinaryArea(auc_pr): ")


@pytest.mark.parametrize("size", [1, 5, 50])
def test_rolling(river, make, size: int) -> None:
    """Inside utils.Rolling the area is that of the last cases."""
    rolling = river.utils.Rolling(make, window_size=size, metric="average_precision")
    rows = cases(120)
    for count, (label, probability) in enumerate(rows, 1):
        rolling.update(label, probability)
        if count % 7 == 0:
            window = expected(rows[max(0, count - size) : count])
            assert rolling.get() == pytest.approx(window.average_precision(), nan_ok=True)


def test_revert_undoes_update(make) -> None:
    """A reverted case leaves no trace; a case that was not counted cannot be reverted."""
    metric = make()
    rows = cases(20)
    for label, probability in rows:
        metric.update(label, probability, w=3)
    metric.update(True, 0.25)
    metric.revert(True, 0.25)
    for label, probability in rows:
        metric.revert(label, probability, w=2)
    assert metric.evaluator == expected(rows)
    with pytest.raises(InvalidInputError, match=r"there is no positive case of score 0\.25"):
        metric.revert(True, 0.25)
    assert metric.evaluator == expected(rows)


def test_whole_weights_are_repetitions(make) -> None:
    """A weight of three is three cases, and of zero none."""
    weighted, repeated = make(), make()
    for weight, (label, probability) in enumerate(cases(4)):
        weighted.update(label, probability, w=float(weight))
        for _ in range(weight):
            repeated.update(label, probability)
    assert weighted.evaluator == repeated.evaluator
    assert weighted.evaluator.num_cases == 6


def test_other_weights_are_rounded_and_taken_back(make) -> None:
    """A weight of a third counts as the nearest multiple of 2**-16, and reverting knows it."""
    metric = make()
    metric.update(True, 0.5, w=1 / 3)
    assert metric.evaluator.weights.positives == round(2**16 / 3) / 2**16
    metric.revert(True, 0.5, w=1 / 3)
    assert metric.evaluator.num_cases == 0


@pytest.mark.parametrize("w", [-1, float("nan"), float("inf"), 2.0**32])
def test_bad_weights_are_refused(make, w: float) -> None:
    """A weight that is negative, not finite or too large is refused, and nothing changes."""
    metric = make()
    with pytest.raises(InvalidInputError, match=r"weight must be finite"):
        metric.update(True, 0.5, w=w)
    assert metric.evaluator.num_cases == 0


def test_positive_label(make) -> None:
    """`pos_val` names the positive label and picks its probability; an absent one is 0."""
    metric = make(metric="auc_roc", pos_val="spam")
    metric.update("spam", {"spam": 0.8, "ham": 0.2})
    metric.update("ham", {"ham": 1.0})
    metric.update("ham", {"spam": 0.9, "ham": 0.1})
    assert metric.get() == 0.5


def test_which_models_it_takes(river, make) -> None:
    """Classifiers and anomaly detectors have scores; regressions and filters do not."""
    metric = make()
    detector = river.anomaly.HalfSpaceTrees(seed=1)
    assert metric.works_with(model(river))
    assert metric.works_with(detector)
    assert not metric.works_with(river.anomaly.ThresholdFilter(detector, threshold=0.5))
    assert not metric.works_with(river.linear_model.LinearRegression())


def test_anomaly_scores_of_any_scale(river, make, require) -> None:
    """An anomaly detector's scores are ranked without scaling."""
    rng = random.Random(2)
    data = [({"x": rng.gauss(0, 1) + 6 * (i % 20 == 0)}, i % 20 == 0) for i in range(400)]
    metric = make(metric="auc_roc")
    steps = river.evaluate.iter_progressive_val_score(
        data,
        river.preprocessing.StandardScaler() | river.anomaly.OneClassSVM(nu=0.2),
        metric,
        yield_predictions=True,
    )
    scores = [step["Prediction"] for step in steps]
    assert not all(0 <= score <= 1 for score in scores)
    peers = require("sklearn.metrics")
    value = peers.roc_auc_score([y for _, y in data], scores)
    assert metric.get() == pytest.approx(value, abs=1e-12)


def test_clone_copy_pickle(make) -> None:
    """A clone is empty with the same settings; copies and pickles keep the counts."""
    metric = make(metric="auc_roc", pos_val=1, resolution=8, scale="probability")
    for label, probability in cases(30):
        metric.update(int(label), probability)
    clone = metric.clone()
    assert clone._get_params() == metric._get_params()
    assert clone.evaluator == Evaluator(resolution=8, scale="probability")
    for other in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        assert other.evaluator == metric.evaluator
        assert other.get() == metric.get()
        other.update(1, 0.5)
        assert other.evaluator != metric.evaluator


def test_conventions(river, make) -> None:
    """It has the attributes of river's metrics, and compares like them."""
    good, bad = make(metric="auc_roc"), make(metric="auc_roc")
    assert isinstance(good, river.metrics.base.BinaryMetric)
    assert good.bigger_is_better
    assert good.works_with_weights
    assert not good.requires_labels
    assert repr(good) == "BinaryArea(auc_roc): nan%"
    for label, probability in cases(50):
        good.update(label, probability)
        bad.update(not label, probability)
    assert good > bad
    assert str(good) == f"BinaryArea(auc_roc): {good.get():.2%}"


def test_unknown_figure(make) -> None:
    """An unknown area is refused with the known ones."""
    with pytest.raises(InvalidInputError, match=r"metric must be one of auc_pr, .* got 'f1'"):
        make(metric="f1")


@pytest.mark.parametrize(
    "label", [None, float("nan"), "", "N/A", np.nan, np.datetime64("NaT", "us")]
)
def test_a_label_that_is_missing_is_refused(make, label: Any) -> None:
    """It is no negative; nothing is counted."""
    metric = make(metric="auc_roc")
    for call in (metric.update, metric.revert):
        with pytest.raises(InvalidInputError, match="y_true is missing, got"):
            call(label, 0.5)
    assert not metric.evaluator.num_cases


def test_labels_are_compared_as_values(make) -> None:
    """As river does, every other class is negative; a class may be called None."""
    metric = make(metric="auc_roc")
    for label in (True, 1, 1.0, "1", "True", np.True_, "spam", 2, ("a", "b"), 0, False):
        metric.update(label, 0.5)
    assert (metric.evaluator.num_positive_ref, metric.evaluator.num_negative_ref) == (6, 5)
    named = make(metric="auc_roc", pos_val="None")
    named.update("None", 0.5)
    assert named.evaluator.num_positive_ref == 1
    tuples = make(metric="auc_roc", pos_val=("a", "b"))
    tuples.update(("a", "b"), 0.5)
    tuples.update(("a", "c"), 0.5)
    assert (tuples.evaluator.num_positive_ref, tuples.evaluator.num_negative_ref) == (1, 1)


@pytest.mark.parametrize(
    ("pos_val", "keys"),
    [
        *((True, keys) for keys in [("1", "0"), ("true", "false"), (1.0, 0.0), (np.True_, 0)]),
        *(("1", keys) for keys in [(1, 0), (True, False), ("1.0", "0.0")]),
        ("a", ("a", None)),
        (("a", 1), (("a", 1), ("b", 1))),
        (True, (("a", 1), ("b", 1))),
    ],
)
def test_a_probability_is_found_by_its_value(make, pos_val: Any, keys: tuple[Any, Any]) -> None:
    """A model that learned "1" gives the probability of "1"; one that knows no such class, 0."""
    metric = make(metric="auc_roc", pos_val=pos_val)
    metric.update(pos_val, {keys[0]: 0.8, keys[1]: 0.2})
    has_class = not (pos_val is True and isinstance(keys[0], tuple))
    metric.revert(pos_val, 0.8 if has_class else 0.0)
    assert metric.evaluator.num_cases == 0


@pytest.mark.parametrize(("pos_val", "other"), [(True, False), ("spam", "ham"), (False, True)])
def test_a_decision_is_a_score_of_one_or_zero(make, pos_val: Any, other: Any) -> None:
    """What `predict_one` gives, which ensembles of river hand to their members' metrics."""
    metric = make(metric="auc_roc", pos_val=pos_val)
    for label, decision in ((pos_val, pos_val), (pos_val, other), (other, other), (other, other)):
        metric.update(label, decision)
    assert metric.get() == 0.75
    with pytest.raises(InvalidInputError, match="score must be a number, got None"):
        metric.update(pos_val, None)


def test_members_of_a_forest(river, make, require) -> None:
    """ARFClassifier does the same (online-ml/river#1273)."""
    forest = require("river.forest")
    classifier = forest.ARFClassifier(n_models=3, seed=1, metric=make(metric="auc_roc"))
    for x, y in river.datasets.Phishing().take(120):
        classifier.predict_proba_one(x)
        classifier.learn_one(x, y)
    assert classifier.predict_proba_one(x)


def test_members_of_an_ensemble(river, make, require) -> None:
    """SRPClassifier clones its metric for each member, and weighs their votes by it."""
    ensemble = require("river.ensemble")
    classifier = ensemble.SRPClassifier(n_models=3, seed=1, metric=make(metric="auc_roc"))
    for x, y in river.datasets.Phishing().take(120):
        classifier.predict_proba_one(x)
        classifier.learn_one(x, y)
    counted = [member.metric.evaluator.num_cases for member in classifier]
    assert len(counted) == 3
    assert min(counted) > 0
    assert all(0 <= member.metric.get() <= 1 for member in classifier)
