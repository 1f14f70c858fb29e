"""Results are equal by value, on every Python, whatever made their nan.

Met in python/cpython#120645 and #128294, google/or-tools#4420 (Python 3.13 compares field by
field), python-attrs/attrs#305 and wtfpython#395 (tuples compare by identity first).
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import pickle
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import streameval
from streameval import (
    Alarm,
    DriftDetector,
    Evaluator,
    Interval,
    PairedEvaluator,
    WindowedEvaluator,
    allocate_labels,
    compare,
    compare_paired,
    evaluate_by,
    find_fall,
)
from streameval._common.result import Result

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

START = datetime(2026, 1, 1, tzinfo=UTC)
NOT_RESULTS = {"MergeState", "Selection", "RefusedBatch", "Violation"}
"""What a caller makes, and what the message of an error consists of."""


def nan() -> float:
    """Return a nan that is no other object's: only `math.nan` is identical to itself."""
    return float("nan")


def cases(size: int = 400, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.random(size) < 0.3
    return labels, 1 / (1 + np.exp(-1.0 * labels - rng.normal(size=size)))


def evaluator(seed: int = 1, **settings: object) -> Evaluator:
    labels, scores = cases(seed=seed)
    made = Evaluator(**settings)
    clusters = {"clusters": np.arange(labels.size) // 3} if settings.get("cluster_groups") else {}
    made.add_cases(labels=labels, scores=scores, **clusters)
    return made


def windowed() -> WindowedEvaluator:
    labels, scores = cases()
    made = WindowedEvaluator(pane=timedelta(hours=1), retention=timedelta(days=30))
    at = [START + timedelta(minutes=7 * row) for row in range(labels.size)]
    made.add_cases(labels=labels, scores=scores, at=at)
    return made


def fallen() -> WindowedEvaluator:
    made = WindowedEvaluator(pane=timedelta(hours=1))
    for hour in range(8):
        labels, scores = cases(seed=hour)
        shown = scores if hour < 4 else 1 - scores
        made.add_cases(labels=labels, scores=shown, at=START + timedelta(hours=hour))
    return made


def paired() -> PairedEvaluator:
    labels, scores = cases()
    made = PairedEvaluator()
    made.add_cases(labels=labels, scores_a=scores, scores_b=np.sqrt(scores))
    return made


def detector() -> DriftDetector:
    rng = np.random.default_rng(1)
    reference, days = Evaluator(), []
    for day in range(12):
        labels = rng.random(1440) < 0.2
        scores = (2 if day < 8 else 0) * labels + rng.normal(size=1440)
        at = [START + timedelta(days=day, minutes=minute) for minute in range(1440)]
        days.append({"labels": labels, "scores": scores, "at": at})
    for each in days[:7]:
        reference.add_cases(labels=each["labels"], scores=each["scores"])
    made = DriftDetector(
        reference,
        watch="auc_roc",
        tolerance=0.01,
        mean_time_to_false_alarm=timedelta(days=365),
    )
    for each in days[7:]:
        made.add_cases(**each)
    return made


def sample() -> object:
    labels, scores = cases()
    allocation = allocate_labels(evaluator(), scores=scores, size=30)
    return allocation, allocation.draw(ids=list(map(str, range(labels.size))), scores=scores)


MADE: Mapping[str, Callable[[], Any]] = {
    "interval": lambda: evaluator().interval("auc_roc"),
    "undefined interval": lambda: Evaluator().interval("auc_pr"),
    "interval of a window": lambda: windowed().last(timedelta(days=1)).interval("auc_pr"),
    "interval of clusters": lambda: evaluator(cluster_groups=32).interval("auc_roc"),
    "bounds and snapshot": lambda: (s := evaluator(resolution=4).snapshot(), dict(s.bounds)),
    "snapshot of nothing": lambda: Evaluator().snapshot(),
    "comparison": lambda: compare(evaluator(), evaluator(2)),
    "undefined comparison": lambda: compare(evaluator(), Evaluator()),
    "paired comparison": lambda: paired().compare(metric="auc_roc"),
    "compare_paired": lambda: compare_paired(labels=[1, 0], scores_a=[0, 1], scores_b=[1, 0]),
    "alarms": lambda: detector().alarms,
    "fall": lambda: find_fall(fallen().panes()),
    "reliability": lambda: evaluator().reliability(),
    "calibration": lambda: evaluator().brier_decomposition(),
    "points": lambda: evaluator().operating_points(),
    "hulls": lambda: (evaluator().roc_hull(), evaluator().pr_hull()),
    "costs": lambda: evaluator().cost_curve(),
    "gain": lambda: evaluator().precision_recall_gain_curve(),
    "confusion": lambda: evaluator().confusion_at(0.5),
    "sample": sample,
}


@pytest.mark.parametrize("name", MADE)
def test_what_is_computed_twice_is_equal(name: str) -> None:
    """Two computations of the same columns are equal, and so are their hashes and a copy."""
    first, second = MADE[name](), MADE[name]()
    assert first == second
    assert first == pickle.loads(pickle.dumps(second))
    for one, other in zip(*(each if type(each) is tuple else (each,) for each in (first, second))):
        if isinstance(one, Result):
            assert one is not other
            assert hash(one) == hash(other)


def test_rankings_are_equal_with_the_evaluators_of_their_groups() -> None:
    """Groups that are ranked twice are equal; another case in one group is another ranking."""
    labels, scores = cases()

    def ranking(change: int = 0) -> streameval.GroupRanking:
        groups = [("a", "b", "few")[min(row % 3, 2 if row < 5 else 1)] for row in range(400)]
        return evaluate_by(
            labels=labels, scores=scores + change * (np.arange(400) == 399), by=groups
        )

    assert ranking() == ranking()
    assert hash(ranking()) == hash(ranking())
    assert any(math.isnan(each.p_value) for each in ranking())
    assert ranking() != ranking(change=1)


@dataclass(frozen=True, slots=True, eq=False)
class Held(Result):
    """A result with one field of any kind."""

    value: Any
    note: list[int] = field(default_factory=list, hash=False)


@dataclass(frozen=True, slots=True, eq=False)
class HeldToo(Held):
    """Another class with the same fields."""


@pytest.mark.parametrize(
    ("make", "other"),
    [
        (nan, 0.0),
        (nan, None),
        (lambda: np.float64("nan"), 1.0),
        (lambda: np.float32("nan"), 1.0),
        (lambda: (1.0, nan()), (nan(), 1.0)),
        (lambda: ((nan(), "a"),), ((nan(), "b"),)),
        (lambda: {"a": nan()}, {"b": nan()}),
        (lambda: {"a": {"b": (nan(),)}}, {"a": {"b": (0.0,)}}),
        (lambda: np.array([1.0, np.nan]), np.array([np.nan, 1.0])),
        (lambda: np.array([1, 2]), np.array([1, 2, 3])),
        (lambda: np.array([[1.0, nan()]]), np.array([1.0, nan()])),
        (lambda: Interval(nan(), nan(), level=0.95, method="wilson"), None),
        (lambda: Held(Held(nan())), Held(Held(1.0))),
        (lambda: [nan()], [1.0]),
        (lambda: START, START + timedelta(seconds=1)),
    ],
)
def test_values_are_equal_and_hashed_by_what_they_are(
    make: Callable[[], object], other: object
) -> None:
    """Each kind of value equals one that was made apart from it, and no other."""
    assert Held(make()) == Held(make())
    assert hash(Held(make())) == hash(Held(make()))
    assert len({Held(make()), Held(make()), Held(other)}) == 2
    assert Held(make()) != Held(other)
    assert Held(make()) != HeldToo(make())


def test_both_zeros_are_one_value() -> None:
    """What compares equal as a number has one hash, alone and in an array."""
    for zero, minus in ((0.0, -0.0), (np.zeros(2), -np.zeros(2)), (1, 1.0)):
        assert Held(zero) == Held(minus)
        assert hash(Held(zero)) == hash(Held(minus))


def test_a_field_without_hash_still_decides_equality() -> None:
    """`hash=False` leaves a costly field out of the hash only."""
    assert Held(1, [1]) != Held(1, [2])
    assert hash(Held(1, [1])) == hash(Held(1, [2]))


def test_each_field_decides() -> None:
    """An alarm with another value in any field is another alarm."""
    (alarm, *_) = detector().alarms
    for each in dataclasses.fields(Alarm):
        assert replace(alarm, **{each.name: "another"}) != alarm, each.name


@pytest.mark.parametrize("package", ["streameval", "streameval.client"])
def test_every_public_result_is_one(package: str, require: Callable[[str], ModuleType]) -> None:
    """No public frozen dataclass has an equality of its own, generated or written."""
    if package == "streameval.client":
        require("grpc")
    module = importlib.import_module(package)
    public = [getattr(module, name) for name in module.__all__ if name not in NOT_RESULTS]
    frozen = [
        each
        for each in public
        if dataclasses.is_dataclass(each) and each.__dataclass_params__.frozen
    ]
    assert len(frozen) > 15
    for each in frozen:
        assert each.__eq__ is Result.__eq__, each
        assert each.__hash__ is Result.__hash__, each
