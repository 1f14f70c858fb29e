"""Weighted rows in one suite for all evaluators: in process, after their bytes, over gRPC."""

from __future__ import annotations

import itertools
import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from streameval import Evaluator, InvalidInputError
from streameval.client import Client
from streameval_server.testing import running_server

from .subjects import InProcess, RoundTrip, Served, Subject, content, counts_of, figures_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 900


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Return a client of a server in memory."""
    with running_server() as address, Client(address, linger_s=0.0) as client:
        yield client


@pytest.fixture(params=["in process", "after a round trip", "over gRPC"])
def subject(request: pytest.FixtureRequest, client: Client) -> Subject:
    """Return an empty subject."""
    match request.param:
        case "in process":
            return InProcess()
        case "after a round trip":
            return RoundTrip()
    return Served(client.stream(f"weighted/{next(_numbers)}"))


def columns() -> dict[str, np.ndarray]:
    """Return rows with ties, weights of any size and some 0, and probabilities of labels."""
    rng = np.random.default_rng(23)
    labels = rng.random(SIZE) < 0.4
    return {
        "labels": labels,
        "scores": np.round(rng.normal(labels.astype(float)), 1),
        "weights": rng.integers(0, 4 * 2**16, SIZE) / 2**16,
        "label_probability": rng.choice([0.25, 0.3, 1.0], SIZE),
    }


def expected() -> Evaluator:
    evaluator = Evaluator()
    evaluator.add_cases(**columns())
    return evaluator


def test_all_evaluators_count_the_same(subject: Subject) -> None:
    """Rows in columns and one by one: figures, counts, limits and the state itself."""
    rows = columns()
    head = {name: column[:600] for name, column in rows.items()}
    subject.add_cases(**head)
    for label, score, weight, share in zip(
        *(column[600:].tolist() for column in rows.values()), strict=True
    ):
        subject.add_case(label, score, weight=weight, label_probability=share)
    wanted, snapshot = expected(), subject.snapshot()
    assert content(subject.evaluator()) == content(wanted)
    assert figures_of(snapshot) == figures_of(wanted.snapshot())
    assert counts_of(snapshot) == counts_of(wanted.snapshot())
    for name, interval in wanted.snapshot().intervals.items():
        found = snapshot.intervals[name]
        assert (found.lower, found.upper) == pytest.approx((interval.lower, interval.upper)), name
        assert found.design_effect == pytest.approx(interval.design_effect), name


def test_scikit_learn_agrees(subject: Subject) -> None:
    rows = columns()
    subject.add_cases(**rows)
    weights = np.rint(2**16 * rows["weights"] / rows["label_probability"]) / 2**16
    snapshot = subject.snapshot()
    for name, function in (
        ("auc_roc", roc_auc_score),
        ("average_precision", average_precision_score),
    ):
        wanted = function(rows["labels"], rows["scores"], sample_weight=weights)
        assert getattr(snapshot, name) == pytest.approx(wanted, abs=1e-9)


def test_rows_without_a_weight_weigh_1(subject: Subject) -> None:
    """Before and after the first weight; a count stands for cases of the row's weight each."""
    subject.add_case(True, 3.0)
    subject.add_cases(labels=[0, 1], scores=[2.0, 1.0], weights=[0.5, 2], counts=[3, 1])
    subject.add_case(False, 0.0)
    wanted = Evaluator()
    wanted.add_cases(
        labels=[1, 0, 0, 0, 1, 0],
        scores=[3.0, 2.0, 2.0, 2.0, 1.0, 0.0],
        weights=[1, 0.5, 0.5, 0.5, 2, 1],
    )
    snapshot = subject.snapshot()
    assert content(subject.evaluator()) == content(wanted)
    assert counts_of(snapshot) == (6, 6, 2, 4, 0, 0)
    # Weight 1 above 2.5 negatives and weight 2 above 1, of 3 x 2.5.
    assert snapshot.auc_roc == pytest.approx((1 * 2.5 + 2 * 1) / (3 * 2.5), abs=1e-15)


@pytest.mark.parametrize(
    ("given", "message", "field", "index"),
    [
        (
            {"weights": [1, -2]},
            "weight must be finite, from 0 to 2**31, got -2.0 at index 1",
            "weights",
            1,
        ),
        ({"weights": [math.nan, 1]}, "weight must be finite, got nan at index 0", "weights", 0),
        ({"weights": [1, math.inf]}, "weight must be finite, got inf at index 1", "weights", 1),
        (
            {"weights": [1, 0.001]},
            (
                "weight 0.001 at index 1 would change by more than a thousandth if rounded to a "
                "multiple of 2**-16; multiply all weights by 2**3: figures depend on their ratios "
                "only"
            ),
            "weights",
            1,
        ),
        (
            {"weights": [1]},
            "weights must have one row for each of labels, got 1 rows and 2",
            "weights",
            None,
        ),
        (
            {"label_probability": [0.5, 0]},
            "label probability must be above 0 and at most 1, got 0.0 at index 1",
            "label_probability",
            1,
        ),
        (
            {"label_probability": 1.5},
            "label probability must be above 0 and at most 1, got 1.5",
            "label_probability",
            None,
        ),
    ],
)
def test_bad_weights(
    subject: Subject, given: dict[str, Any], message: str, field: str, index: int | None
) -> None:
    """The error names a bad value anywhere in a batch, and no row of it is counted."""
    subject.add_case(True, 1.0)
    with pytest.raises(InvalidInputError) as caught:
        subject.add_cases(labels=[1, 0], scores=[0.5, 0.25], **given)
    assert (str(caught.value), caught.value.field, caught.value.index) == (message, field, index)
    assert counts_of(subject.snapshot()) == (1, 1, 1, 0, 0, 0)


_numbers = itertools.count()


def test_a_stream_declares_its_least_label_probability(client: Client) -> None:
    """Limits are the library's under the same declaration, from when it is changed on."""
    rows, name = columns(), f"weighted/{next(_numbers)}"
    del rows["weights"]
    stream = client.stream(name)
    client.create_stream(name, scale="probability")
    rows["scores"] = np.round(1 / (1 + np.exp(-rows["scores"])), 1)
    stream.add_cases(**rows)
    stream.flush()
    for least in (None, 0.25, 0.02, None):
        settings = client.update_stream(name, min_label_probability=least).settings
        assert settings.min_label_probability == least
        ours = Evaluator(resolution=12, scale="probability", min_label_probability=least)
        ours.add_cases(**rows)
        found = stream.snapshot(window=timedelta(days=1))
        for metric in ("auc_roc", "auc_pr"):
            expected = ours.interval(metric)
            assert tuple(found.intervals[metric]) == pytest.approx(tuple(expected), rel=1e-9)
        told = [each for each in found.warnings if "twice the largest weight seen" in each]
        assert bool(told) == (least is None)
    for wrong in (1.5, 1e-300):
        with pytest.raises(InvalidInputError, match="min_label_probability must be from 2"):
            client.update_stream(name, min_label_probability=wrong)
