"""One suite for all evaluators: in process, after a round trip of bytes, over gRPC."""

from __future__ import annotations

import decimal
import itertools
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from streameval import Evaluator, InvalidInputError
from streameval.client import Client, NotFoundError
from streameval_server.testing import running_server

from .subjects import (
    FIGURES,
    InProcess,
    RoundTrip,
    Served,
    Subject,
    content,
    counts_of,
    figures_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

NAN = math.nan


class TestContract:
    """Properties of every implementation."""

    @pytest.fixture(scope="class")
    @staticmethod
    def client() -> Iterator[Client]:
        """Return a client of a server in memory."""
        with running_server() as address, Client(address, linger_s=0.0) as client:
            yield client

    @pytest.fixture(params=["in process", "after a round trip", "over gRPC"])
    @staticmethod
    def subject(request: pytest.FixtureRequest, client: Client) -> Subject:
        """Return an empty subject."""
        match request.param:
            case "in process":
                return InProcess()
            case "after a round trip":
                return RoundTrip()
        name = f"contract/{next(_numbers)}"
        client.create_stream(name)
        return Served(client.stream(name))

    def test_empty(self, subject: Subject) -> None:
        """Without references every figure is undefined, with the reason EMPTY."""
        snapshot = subject.snapshot()
        assert counts_of(snapshot) == (0, 0, 0, 0, 0, 0)
        assert all(math.isnan(getattr(snapshot, name)) for name in FIGURES)
        assert snapshot.reasons == dict.fromkeys(FIGURES, "EMPTY")
        assert snapshot.hull is None
        assert content(subject.evaluator()) == content(Evaluator())

    @pytest.mark.parametrize("positive", [True, False])
    def test_one_class(self, subject: Subject, positive: bool) -> None:
        """With one class only, figures that need the other are undefined."""
        subject.add_cases(labels=[positive, positive], scores=[0.5, 0.25])
        snapshot = subject.snapshot()
        defined = {name for name in FIGURES if not math.isnan(getattr(snapshot, name))}
        if positive:
            # No negative reference is called positive at any recall.
            assert (snapshot.auc_pr, snapshot.average_precision, snapshot.prevalence) == (1, 1, 1)
            assert not defined & {"auc_roc", "auc_roc_hull"}
            assert set(snapshot.reasons.values()) == {"NO_NEGATIVES"}
        else:
            assert defined == {"prevalence"}
            assert snapshot.prevalence == 0
            assert set(snapshot.reasons.values()) == {"NO_POSITIVES"}
        assert set(snapshot.reasons) == set(FIGURES) - defined
        assert snapshot.hull is None

    def test_worked_example(self, subject: Subject) -> None:
        """The second source's example, with its minus signs and its miss."""
        scores = [-1.21, -1.27, -1.39, -1.47, -1.60, -1.65, -1.79, -1.80, -2.01, -3.70]
        labels = [0, 1, 0, 1, 1, 0, 0, 0, 1, 0]
        for label, score in zip(labels, scores):
            subject.add_case(bool(label), score)
        subject.add_misses(1)
        snapshot = subject.snapshot()
        assert counts_of(snapshot) == (11, 10, 5, 6, 1, 0)
        precisions = (Fraction(1, 2), Fraction(2, 4), Fraction(3, 5), Fraction(4, 9))
        assert snapshot.average_precision == pytest.approx(float(sum(precisions) / 5), abs=1e-15)
        # Positives rank above 5 + 4 + 4 + 1 negatives; the miss is below them all.
        assert snapshot.auc_roc == pytest.approx(14 / 30, abs=1e-15)

    def test_scikit_learn_agrees(self, subject: Subject) -> None:
        """Thousands of tied scores, in columns and one by one."""
        rng = np.random.default_rng(7)
        labels = rng.random(3000) < 0.1
        scores = np.round(rng.normal(labels.astype(float), 1.0), 2)
        subject.add_cases(labels=labels[:2500], scores=scores[:2500])
        for label, score in zip(labels[2500:].tolist(), scores[2500:].tolist()):
            subject.add_case(label, score)
        snapshot = subject.snapshot()
        assert counts_of(snapshot) == (3000, 3000, labels.sum(), (~labels).sum(), 0, 0)
        assert snapshot.auc_roc == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
        assert snapshot.average_precision == pytest.approx(
            average_precision_score(labels, scores), abs=1e-12
        )
        assert snapshot.auc_roc_hull >= snapshot.auc_roc
        assert snapshot.auc_pr_hull >= snapshot.auc_pr

    def test_order_does_not_matter(self, subject: Subject) -> None:
        """Tied scores are one operating point: no figure depends on the order of rows."""
        rows = [(True, 0.5), (False, 0.5), (True, -0.0), (False, 0.0), (True, 2.0)]
        for permutation in itertools.islice(itertools.permutations(rows), 0, None, 17):
            for positive, score in permutation:
                subject.add_case(positive, score)
        many = len(range(0, 120, 17))
        expected = Evaluator()
        expected.add_cases(
            labels=[p for p, _ in rows], scores=[s for _, s in rows], counts=[many] * 5
        )
        assert content(subject.evaluator()) == content(expected)
        assert figures_of(subject.snapshot()) == figures_of(expected.snapshot())

    def test_counts_and_misses(self, subject: Subject) -> None:
        """A row may stand for many cases; misses rank below every case."""
        subject.add_cases(labels=[1, 0, 1], scores=[3, 2, 1], counts=[2, 3, 0])
        subject.add_misses(4)
        subject.add_negative_misses(5)
        snapshot = subject.snapshot()
        assert counts_of(snapshot) == (14, 5, 6, 8, 4, 5)
        # 2 positives above 8 negatives, 4 tied with 5 and below 3.
        assert snapshot.auc_roc == pytest.approx((2 * 8 + 4 * 5 / 2) / 48, abs=1e-15)
        assert snapshot.average_precision == pytest.approx(2 / 6, abs=1e-15)
        assert snapshot.hull is not None
        assert snapshot.hull.tp.tolist() == [0, 2, 6]
        assert snapshot.hull.fp.tolist() == [0, 0, 8]
        assert snapshot.hull.thresholds.tolist() == [math.inf, 3.0, -math.inf]

    def test_extreme_values(self, subject: Subject) -> None:
        """Every finite float64 is a score, and counts go to 2**62 without loss."""
        scores = [5e-324, -5e-324, 1.7976931348623157e308, -1.7976931348623157e308, 0.0]
        subject.add_cases(labels=[1, 0, 1, 0, 1], scores=scores, counts=[1, 1, 1, 1, 2**61])
        evaluator = subject.evaluator()
        assert evaluator.num_positive_ref == 2**61 + 2
        points = evaluator.operating_points()
        assert sorted(points.thresholds[1:].tolist()) == sorted(scores)
        assert points.tp.tolist() == [0, 1, 2, 2**61 + 2, 2**61 + 2, 2**61 + 2]

    def test_empty_columns_do_nothing(self, subject: Subject) -> None:
        """Empty columns and zero misses are accepted."""
        subject.add_cases(labels=[], scores=[])
        subject.add_cases(labels=np.array([], bool), scores=np.array([]), counts=[])
        subject.add_misses(0)
        assert counts_of(subject.snapshot()) == (0, 0, 0, 0, 0, 0)

    @pytest.mark.parametrize(
        ("columns", "message", "field", "index"),
        [
            ({"scores": [1, NAN]}, "score must be finite, got nan at index 1", "scores", 1),
            ({"scores": [math.inf, 1]}, "score must be finite, got inf at index 0", "scores", 0),
            ({"scores": [1, -math.inf]}, "score must be finite, got -inf at index 1", "scores", 1),
            ({"scores": [1, "2"]}, "score must be a number, got '2' at index 1", "scores", 1),
            ({"scores": [None, 1]}, "score must be a number, got None at index 0", "scores", 0),
            (
                {"labels": [1, 2]},
                "label must be True, False, 1 or 0, got 2 at index 1",
                "labels",
                1,
            ),
            (
                {"labels": [NAN, 1]},
                "label must be True, False, 1 or 0, got nan at index 0",
                "labels",
                0,
            ),
            (
                {"labels": ["yes", True]},
                (
                    "label must be True, False, 1 or 0, got 'yes' at index 0; declare the positive "
                    "class: positive='yes', if it is this one"
                ),
                "labels",
                0,
            ),
            (
                {"scores": [1.0]},
                "scores must have one row for each of labels, got 1 rows and 2",
                "scores",
                None,
            ),
            (
                {"counts": [1]},
                "counts must have one row for each of labels, got 1 rows and 2",
                "counts",
                None,
            ),
            (
                {"counts": [1, -1]},
                "count must be a non-negative integer, got -1 at index 1",
                "counts",
                1,
            ),
            (
                {"counts": [0.5, 1]},
                "count must be a non-negative integer, got 0.5 at index 0",
                "counts",
                0,
            ),
            (
                {"scores": 0.5},
                "scores must be a column (a list or an array), got float",
                "scores",
                None,
            ),
        ],
    )
    def test_bad_columns(
        self,
        subject: Subject,
        columns: dict[str, Any],
        message: str,
        field: str,
        index: int | None,
    ) -> None:
        """The error names a bad value anywhere in a batch, and no row of it is counted."""
        subject.add_case(True, 1.0)
        good: dict[str, Any] = {"labels": [1, 0], "scores": [0.5, 0.25], "counts": [1, 1]}
        with pytest.raises(InvalidInputError) as caught:
            subject.add_cases(**(good | columns))
        assert (str(caught.value), caught.value.field, caught.value.index) == (
            message,
            field,
            index,
        )
        assert counts_of(subject.snapshot()) == (1, 1, 1, 0, 0, 0)

    @pytest.mark.parametrize(
        ("positive", "score", "message"),
        [
            (True, NAN, "score must be finite, got nan"),
            (True, math.inf, "score must be finite, got inf"),
            (True, "0.5", "score must be a number, got '0.5'"),
            (True, decimal.Decimal("sNaN"), "score must be finite, got sNaN"),
            (2, 0.5, "label must be True, False, 1 or 0, got 2"),
            (None, 0.5, "label must be True, False, 1 or 0, got None"),
        ],
    )
    def test_bad_case(self, subject: Subject, positive: Any, score: Any, message: str) -> None:
        """A bad case is refused with its value, and not counted."""
        with pytest.raises(InvalidInputError) as caught:
            subject.add_case(positive, score)
        assert str(caught.value) == message
        assert counts_of(subject.snapshot()) == (0, 0, 0, 0, 0, 0)

    @pytest.mark.parametrize("count", [-1, 0.5, NAN, "3", True])
    def test_bad_miss_count(self, subject: Subject, count: Any) -> None:
        """Counts of misses must be whole numbers."""
        for add in (subject.add_misses, subject.add_negative_misses):
            with pytest.raises(
                InvalidInputError, match=r"^count must be a non-negative integer, got"
            ):
                add(count)
        assert counts_of(subject.snapshot()) == (0, 0, 0, 0, 0, 0)


def test_unknown_stream() -> None:
    """Queries of an unknown stream fail."""
    with running_server() as address, Client(address) as client:
        stream = client.stream("no/such")
        with pytest.raises(NotFoundError, match="there is no stream no/such"):
            stream.snapshot()


_numbers = itertools.count()
