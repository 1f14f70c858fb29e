"""Cases with clusters: the same intervals in process, after bytes and over gRPC; every refusal."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pytest

from streameval import Evaluator, InvalidInputError, LabelJoiner
from streameval.client import Client, InvalidRequestError, RowsLostError
from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import stream_pb2
from streameval_server import Limits, Settings
from streameval_server.maintenance import LOG_NAME, verify
from streameval_server.testing import running_server

from .conftest import Wire, failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from streameval import Interval
    from streameval.client import Stream

GROUPS = 32
NAMES = ("auc_roc", "average_precision", "auc_pr", "prevalence")
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
_numbers = itertools.count()


@dataclass(frozen=True)
class Bursts:
    """Twenty cases of each user, which are good or bad together."""

    labels: np.ndarray
    scores: np.ndarray
    users: np.ndarray

    @classmethod
    def of(cls, seed: int, users: int = 100) -> Bursts:
        """Return bursts."""
        rng = np.random.default_rng(seed)
        user = np.repeat(np.arange(users), 20)
        labels = rng.random(user.size) < rng.beta(0.4, 1.6, users)[user]
        shared = rng.normal(0, 0.8, users)[user]
        return cls(labels, labels + shared + rng.normal(0, 0.8, user.size), user)

    def __getitem__(self, rows: slice | np.ndarray) -> dict[str, np.ndarray]:
        return {
            "labels": self.labels[rows],
            "scores": self.scores[rows],
            "clusters": self.users[rows],
        }

    def evaluator(self, rows: slice | np.ndarray = slice(None)) -> Evaluator:
        """Return some of the rows in an evaluator."""
        made = Evaluator(cluster_groups=GROUPS)
        made.add_cases(**self[rows])
        return made


class Subject(Protocol):
    """The interface under test: adds cases with clusters, and answers."""

    def add_case(self, positive: bool, score: float, *, cluster: Any = None) -> None: ...
    def add_cases(self, *, labels: Any, scores: Any, **columns: Any) -> None: ...
    def merge(self, other: Evaluator) -> None: ...
    def interval(self, name: str, **options: Any) -> Interval: ...
    def evaluator(self) -> Evaluator: ...


class InProcess:
    """The evaluator itself; after a round trip, rebuilt from its bytes before each call."""

    def __init__(self, *, by_bytes: bool) -> None:
        self._evaluator = Evaluator(cluster_groups=GROUPS)
        self._by_bytes = by_bytes

    def evaluator(self) -> Evaluator:
        if self._by_bytes:
            self._evaluator = Evaluator.from_bytes(self._evaluator.to_bytes())
        return self._evaluator

    def add_case(self, positive: bool, score: float, *, cluster: Any = None) -> None:
        self.evaluator().add_case(positive, score, cluster=cluster)

    def add_cases(self, **columns: Any) -> None:
        self.evaluator().add_cases(**columns)

    def merge(self, other: Evaluator) -> None:
        self.evaluator().merge(other)

    def interval(self, name: str, **options: Any) -> Interval:
        return self.evaluator().interval(name, **options)


class Served:
    """A stream of a server."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.add_case = stream.add_case
        self.add_cases = stream.add_cases

    def merge(self, other: Evaluator) -> None:
        self._stream.merge(other, source="edge", epoch=1 + next(_numbers))

    def interval(self, name: str, **options: Any) -> Interval:
        self._stream.flush()
        return self._stream.snapshot(metrics=[name], **options).intervals[name]

    def evaluator(self) -> Evaluator:
        self._stream.flush()
        return self._stream.evaluator()


@pytest.fixture(scope="module")
def quick(address: str) -> Iterator[Client]:
    """Return a client that sends at once."""
    with Client(address, linger_s=0.0) as client:
        yield client


@pytest.fixture
def clustered(quick: Client) -> Stream:
    """Return an empty stream that declares clusters."""
    name = f"clustered/{next(_numbers)}"
    quick.create_stream(name, cluster_key="user", segment_keys=["country"])
    return quick.stream(name)


@pytest.fixture(params=["in process", "after a round trip", "over gRPC"])
def subject(request: pytest.FixtureRequest, clustered: Stream) -> Subject:
    """Return an empty subject."""
    if request.param == "over gRPC":
        return Served(clustered)
    return InProcess(by_bytes=request.param == "after a round trip")


def content(evaluator: Evaluator) -> bytes:
    """Return the bytes of an evaluator without the cap on cells, which a server's has."""
    return Evaluator._of(evaluator._view().redeclared(max_cells=None)).to_bytes()


def same(found: Interval, wanted: Interval) -> None:
    """Assert that two intervals are the same, and allow for clusters."""
    assert tuple(found) == pytest.approx(tuple(wanted), rel=1e-12)
    assert found.design_effect == pytest.approx(wanted.design_effect, rel=1e-12)


class TestContract:
    """Properties of every implementation."""

    def test_limits_do_not_depend_on_how_rows_come(self, subject: Subject) -> None:
        """Columns and single cases give the counts and the groups of one call, to the byte."""
        bursts = Bursts.of(1)
        for start in (0, 700, 1_300):
            subject.add_cases(**bursts[start : start + 600])
        rest = np.r_[600:700, 1_900:2_000]
        for row in rest.tolist():
            score, user = float(bursts.scores[row]), int(bursts.users[row])
            subject.add_case(bool(bursts.labels[row]), score, cluster=user)
        direct = bursts.evaluator()
        assert content(subject.evaluator()) == content(direct)
        for name in NAMES:
            found = subject.interval(name)
            same(found, direct.interval(name))
            assert found.design_effect > 1.5
        plain = Evaluator()
        plain.add_cases(labels=bursts.labels, scores=bursts.scores)
        assert direct.interval("auc_roc").width > 1.2 * plain.interval("auc_roc").width

    def test_keys_of_all_types_are_one_cluster(self, subject: Subject) -> None:
        """17, "17" and b"17"; a count stands for cases of one cluster."""
        subject.add_cases(labels=[1, 0], scores=[0.9, 0.1], clusters=[17, 18])
        subject.add_cases(labels=[1, 0], scores=[0.8, 0.2], clusters=["17", "18"], counts=[2, 3])
        subject.add_case(True, 0.7, cluster=b"17")
        direct = Evaluator(cluster_groups=GROUPS)
        direct.add_cases(
            labels=[1, 0, 1, 0, 1],
            scores=[0.9, 0.1, 0.8, 0.2, 0.7],
            counts=[1, 1, 2, 3, 1],
            clusters=[17, 18, 17, 18, 17],
        )
        assert content(subject.evaluator()) == content(direct)

    def test_states_of_as_many_groups_are_merged(self, subject: Subject) -> None:
        """A merge is a sum; other numbers of groups, none and weights are refused."""
        bursts = Bursts.of(2)
        subject.add_cases(**bursts[:900])
        subject.merge(bursts.evaluator(slice(900, None)))
        direct = bursts.evaluator()
        assert content(subject.evaluator()) == content(direct)
        others = [Evaluator(), Evaluator(cluster_groups=64), Evaluator()]
        others[0].add_case(True, 0.5)
        others[1].add_case(True, 0.5, cluster="ann")
        others[2].add_case(True, 0.5, weight=2)
        for other in others:
            with pytest.raises((InvalidInputError, InvalidRequestError)) as caught:
                subject.merge(other)
            assert "cluster_groups" in str(caught.value)
            assert "\n" not in str(caught.value)
        assert content(subject.evaluator()) == content(direct)

    def test_one_group_and_coarse_scores_have_reasons(self, subject: Subject) -> None:
        """All cases of one cluster are too few; an offset hides the bits that groups keep."""
        subject.add_cases(labels=[1, 0] * 50, scores=np.arange(100.0), clusters=["ann"] * 100)
        assert subject.interval("auc_roc").reason == "TOO_FEW_CLUSTERS"
        bursts = Bursts.of(3)
        far = bursts[:]
        far["scores"] = far["scores"] + 1e6
        subject.add_cases(**far)
        found = subject.interval("auc_roc")
        assert found.reason == "TOO_COARSE"
        assert math.isnan(found.design_effect)

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"clusters": ["ann"]}, "clusters must have one row for each of labels, got 1 rows"),
            ({"clusters": [0.5, 1.5]}, "a cluster must be str, int or bytes, got 0.5 at index 0"),
            ({"clusters": ["ann", "bo"], "weights": [1, 2]}, "takes no weights"),
            ({"clusters": ["ann", "bo"], "label_probability": 0.5}, "takes no weights"),
        ],
    )
    def test_bad_columns_are_refused_at_the_call(
        self, subject: Subject, columns: dict[str, Any], message: str
    ) -> None:
        """In one line, and no row of them is counted."""
        subject.add_case(True, 1.0, cluster="ann")
        with pytest.raises(InvalidInputError) as caught:
            subject.add_cases(labels=[1, 0], scores=[0.5, 0.25], **columns)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)
        assert subject.evaluator().num_cases == 1


@pytest.mark.parametrize(
    ("send_rows", "field", "message"),
    [
        (
            lambda s: s.add_cases(labels=[1, 0], scores=[0.5, 0.25]),
            "cases.clusters",
            "the stream declares clusters, by user, so every row needs one: give clusters",
        ),
        (
            lambda s: s.log_cases(ids=["a", "b"], scores=[0.5, 0.25]),
            "predictions.clusters",
            "the stream declares clusters, by user, so every row needs one: give clusters",
        ),
        (
            lambda s: s.add_cases(labels=[1, 0], scores=[0.5, 0.25], weights=[2, 1]),
            "cases.clusters",
            "the stream declares clusters, by user, so every row needs one: give clusters",
        ),
        (
            lambda s: s.label_cases(ids=["a", "b"], labels=[1, 0], weights=[2, 1]),
            "labels.weights",
            "a stream that declares clusters takes no weights",
        ),
        (
            lambda s: s.label_cases(ids=["a", "b"], labels=[1, 0], label_probability=0.5),
            "labels.weights",
            "a stream that declares clusters takes no weights",
        ),
        (
            lambda s: s.add_misses(2),
            "misses",
            "misses have no cluster, which the stream declares for every row",
        ),
    ],
)
def test_a_clustered_stream_refuses_what_it_cannot_group(
    clustered: Stream, send_rows: Callable[[Stream], None], field: str, message: str
) -> None:
    """The batch is refused whole, in one line that names the field."""
    clustered.add_case(True, 1.0, cluster="ann")
    clustered.flush()
    send_rows(clustered)
    with pytest.raises(RowsLostError) as caught:
        clustered.flush()
    (refused,) = caught.value.refusals
    assert refused.code == "INVALID_ARGUMENT"
    assert refused.message.startswith(message)
    assert [each.field for each in refused.violations] == [field]
    found = clustered.snapshot()
    assert (found.num_cases, found.coverage.predictions if found.coverage else 0) == (1, 0)


def test_a_stream_without_clusters_refuses_them(quick: Client, fresh: str) -> None:
    """Cases, predictions and states; the streams that a first batch creates have none."""
    text = "the stream declares no clusters: create one with cluster_key"
    for declared in (True, False):
        name = f"{fresh}/{declared}"
        if declared:
            quick.create_stream(name)
        stream = quick.stream(name)
        stream.add_cases(labels=[1, 0], scores=[0.5, 0.25], clusters=["ann", "bo"])
        with pytest.raises(RowsLostError, match="2 rows in 1 batch refused") as caught:
            stream.flush()
        assert [each.message for each in caught.value.refusals] == [text]
    stream.add_case(True, 0.5)
    stream.log("a", 0.5, cluster="ann")
    with pytest.raises(RowsLostError) as caught:
        stream.flush()
    assert [each.message for each in caught.value.refusals] == [text]
    assert stream.snapshot().num_cases == 1
    with pytest.raises(InvalidRequestError, match="cluster_groups"):
        stream.merge(Bursts.of(4).evaluator(), source="edge", epoch=1)
    assert stream.snapshot().num_cases == 1


def test_labels_with_scores_have_no_cluster(wire: Wire, fresh: str) -> None:
    """Only a prediction brings the cluster; the label's own score cannot count."""
    settings = stream_pb2.StreamSettings(cluster_groups=8)
    request = stream_pb2.CreateStreamRequest(
        stream=stream_pb2.Stream(name=fresh, settings=settings)
    )
    wire.streams.CreateStream(request)
    rows = pb.Labels(ids=["a"], positives=[True], scores=[0.5])
    failed = failure(lambda: wire.one(pb.Batch(stream=fresh, labels=rows)))
    text = (
        "labels with scores have no cluster, which the stream declares: "
        "send the scores as predictions"
    )
    assert failed.fields == [
        ("labels.scores", text),
    ]


class ByIds:
    """Predictions with clusters, their labels, other labels and retractions."""

    def __init__(self, seed: int) -> None:
        self.rows = Bursts.of(seed, users=60)
        size = self.rows.labels.size
        rng = np.random.default_rng(seed + 1)
        self.ids = [f"order-{row}" for row in range(size)]
        self.first = rng.random(size) < 0.5
        self.kept = rng.random(size) < 0.9
        self.late = np.arange(size) % 3 == 0

    def send(self, to: Any, at: datetime) -> None:
        """Send labels before and after their predictions, change some, retract some rows."""
        ids, rows = np.array(self.ids), self.rows
        to.label_cases(ids=list(ids[self.late]), labels=self.first[self.late], at=at)
        to.log_cases(ids=self.ids, scores=rows.scores, at=at, clusters=rows.users)
        to.label_cases(ids=list(ids[~self.late]), labels=self.first[~self.late], at=at)
        to.label_cases(ids=self.ids, labels=rows.labels, at=at)
        gone = list(ids[~self.kept])
        if isinstance(to, LabelJoiner):
            to.retract_cases(ids=gone, at=at)
        else:
            to.retract_cases(ids=gone)


@pytest.mark.parametrize("kind", ["in process", "after a round trip", "over gRPC"])
def test_labels_count_in_the_cluster_of_their_prediction(quick: Client, kind: str) -> None:
    """In either order, changed, and retracted: what is left is one evaluator's."""
    feed, now = ByIds(5), datetime.now(UTC) - HOUR
    if kind == "over gRPC":
        name = f"clustered/{next(_numbers)}"
        quick.create_stream(name, cluster_key="user", label_ttl=DAY, relabel_ttl=DAY)
        stream = quick.stream(name)
        feed.send(stream, now)
        stream.flush()
        found = stream.evaluator()
    else:
        joiner = LabelJoiner(Evaluator(cluster_groups=GROUPS), ttl=DAY, relabel_ttl=DAY)
        feed.send(joiner, now)
        if kind == "after a round trip":
            joiner = LabelJoiner.from_bytes(joiner.to_bytes())
        assert isinstance(joiner.evaluator, Evaluator)
        found = joiner.evaluator
    assert content(found) == content(feed.rows.evaluator(feed.kept))


def test_windows_thresholds_and_decay_allow_for_clusters(quick: Client, fresh: str) -> None:
    """A window's figures, rates at the declared threshold, and a half-life's design effect."""
    quick.create_stream(fresh, cluster_key="user", resolution=53, threshold=0.5)
    stream, bursts = quick.stream(fresh), Bursts.of(6)
    now = datetime.now(UTC)
    stream.add_cases(**bursts[:], at=now - timedelta(minutes=30))
    stream.flush()
    direct = bursts.evaluator()
    found = stream.snapshot(window=HOUR, metrics=[*NAMES, "precision", "recall"]).intervals
    for name in NAMES:
        same(found[name], direct.interval(name))
    for name in ("precision", "recall"):
        same(found[name], direct.interval(name, threshold=0.5))
        assert found[name].design_effect > 1.5
    decayed = stream.snapshot(half_life=10_000 * DAY, metrics=["auc_roc"]).intervals["auc_roc"]
    assert decayed.design_effect == pytest.approx(
        direct.interval("auc_roc").design_effect, rel=0.01
    )


def test_clusters_survive_restarts(tmp_path: Path, free_address: str) -> None:
    """Settings, groups and waiting predictions: from the log, then from a checkpoint."""
    settings = Settings(listen=free_address, data=tmp_path)
    feed, now = ByIds(7), datetime.now(UTC) - HOUR
    expected = feed.rows.evaluator(feed.kept)
    expected.add_case(True, 9.0, cluster="ann")
    with running_server(settings) as address, Client(address) as client:
        client.create_stream("kept", cluster_key="user", label_ttl=DAY, relabel_ttl=DAY)
        stream = client.stream("kept")
        feed.send(stream, now)
        stream.log("late", 9.0, at=now, cluster="ann")
        client.flush()
    for start in range(3):
        assert verify(tmp_path / LOG_NAME, Limits()).ok
        with running_server(settings) as address, Client(address) as client:
            made = client.get_stream("kept").settings
            assert (made.cluster_key, made.cluster_groups) == ("user", GROUPS)
            stream = client.stream("kept")
            if not start:
                stream.label("late", True, at=now)
                stream.flush()
            assert content(stream.evaluator()) == content(expected)
