"""Predictions with clusters: each label counts in the cluster of its prediction."""

from __future__ import annotations

import struct
import zlib
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from streameval import (
    CorruptStateError,
    Evaluator,
    InvalidInputError,
    LabelJoiner,
    WindowedEvaluator,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
GROUPS = 8


def joiner(**changes: Any) -> LabelJoiner:
    """Return a joiner into panes with clusters."""
    into = WindowedEvaluator(cluster_groups=GROUPS)
    return LabelJoiner(into, **{"ttl": DAY, "relabel_ttl": DAY, **changes})


def evaluator_of(cases: dict[str, tuple[bool, float, str]]) -> Evaluator:
    """Return an evaluator of label, score and cluster by id."""
    made = Evaluator(resolution=12, max_cells=16_384, cluster_groups=GROUPS)
    if cases:
        labels, scores, clusters = zip(*cases.values(), strict=True)
        made.add_cases(labels=labels, scores=scores, clusters=clusters)
    return made


def all_time(joined: LabelJoiner) -> Evaluator:
    """Return the sum of the panes."""
    assert isinstance(joined.evaluator, WindowedEvaluator)
    return Evaluator._of(joined.evaluator.between(NOON - DAY, NOON + 10 * DAY)._view())


class Verbs:
    """The verbs of a joiner, as columns or row by row."""

    def __init__(self, joined: LabelJoiner, *, by_columns: bool) -> None:
        self.joined = joined
        self.by_columns = by_columns

    def log(self, ids: list[str], scores: Any, clusters: list[str], now: datetime) -> None:
        if self.by_columns:
            self.joined.log_cases(ids=ids, scores=scores, at=now, clusters=clusters)
            return
        for id_, score, cluster in zip(ids, scores, clusters, strict=True):
            self.joined.log(id_, score, at=now, cluster=cluster)

    def label(self, ids: list[str], positives: Any, now: datetime) -> None:
        if self.by_columns:
            self.joined.label_cases(ids=ids, labels=positives, at=now)
            return
        for id_, positive in zip(ids, positives, strict=True):
            self.joined.label(id_, bool(positive), at=now)

    def retract(self, ids: list[str], now: datetime) -> None:
        if self.by_columns:
            self.joined.retract_cases(ids=ids, at=now)
            return
        for id_ in ids:
            self.joined.retract(id_, at=now)


@pytest.mark.parametrize("by_columns", [True, False])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_every_case_counts_in_its_predictions_cluster(seed: int, by_columns: bool) -> None:
    """Labels before and after predictions, relabels and retractions, against dicts."""
    rng = np.random.default_rng(seed)
    joined = joiner()
    verbs = Verbs(joined, by_columns=by_columns)
    predicted: dict[str, tuple[float, str]] = {}
    labelled: dict[str, bool] = {}
    retracted: set[str] = set()
    for step in range(60):
        now = NOON + step * MINUTE
        ids = [f"id-{number}" for number in rng.choice(300, 20, replace=False)]
        ids = [each for each in ids if each not in retracted]
        scores = rng.integers(0, 12, len(ids)) / 12
        clusters = [f"user-{user}" for user in rng.integers(0, 20, len(ids))]
        positives = rng.random(len(ids)) < 0.5
        kind = rng.choice(["log", "label", "retract"], p=[0.5, 0.4, 0.1])
        if kind == "log":
            verbs.log(ids, scores, clusters, now)
            for id_, score, cluster in zip(ids, scores.tolist(), clusters, strict=True):
                predicted.setdefault(id_, (score, cluster))
        elif kind == "label":
            verbs.label(ids, positives, now)
            labelled.update(zip(ids, positives.tolist(), strict=True))
        else:
            gone = [each for each in ids if predicted.pop(each, None)]
            verbs.retract(gone, now)
            retracted.update(gone)
        joined._check()
    cases = {each: (labelled[each], *predicted[each]) for each in labelled.keys() & predicted}
    assert len(cases) > 50
    assert all_time(joined) == evaluator_of(cases)


def test_expiry_counts_in_the_predictions_cluster() -> None:
    """A prediction that expires as a negative case has its cluster too."""
    joined = joiner(expired="negative")
    joined.log_cases(ids=["a", "b", "c"], scores=[0.1, 0.2, 0.3], at=NOON, clusters=[1, 2, 3])
    joined.label("a", True, at=NOON)
    joined.advance(NOON + 3 * DAY)
    expected = {"a": (True, 0.1, "1"), "b": (False, 0.2, "2"), "c": (False, 0.3, "3")}
    assert all_time(joined) == evaluator_of(expected)


def test_one_batch_that_adds_and_removes() -> None:
    """Equal scores of different clusters do not cancel within a batch of labels."""
    joined = joiner()
    ids = [f"id-{number}" for number in range(20)]
    users = [f"user-{number}" for number in range(20)]
    joined.log_cases(ids=ids, scores=[0.5] * 20, at=NOON, clusters=users)
    joined.label_cases(ids=ids[:10], labels=[True] * 10, at=NOON)
    joined.label_cases(ids=ids, labels=[False] * 10 + [True] * 10, at=NOON)
    expected = {id_: (row >= 10, 0.5, users[row]) for row, id_ in enumerate(ids)}
    assert all_time(joined) == evaluator_of(expected)


def test_interval_allows_for_clusters() -> None:
    """The same bursts give the interval of an evaluator that got the cases directly."""
    rng = np.random.default_rng(5)
    users = np.repeat(np.arange(100), 20)
    labels = rng.random(2_000) < rng.beta(0.4, 1.6, 100)[users]
    scores = labels + rng.normal(0, 0.7, 100)[users] + rng.normal(0, 0.7, 2_000)
    ids = [f"id-{number}" for number in range(2_000)]
    joined = LabelJoiner(Evaluator(cluster_groups=32), ttl=DAY)
    joined.log_cases(ids=ids, scores=scores, at=NOON, clusters=users)
    joined.label_cases(ids=ids, labels=labels, at=NOON)
    direct = Evaluator(cluster_groups=32)
    direct.add_cases(labels=labels, scores=scores, clusters=users)
    assert joined.evaluator == direct
    assert isinstance(joined.evaluator, Evaluator)
    assert joined.evaluator.interval("auc_roc").design_effect > 1.5


def test_copies_and_bytes() -> None:
    """A copy and a round trip keep the groups of predictions that wait."""
    joined = joiner()
    joined.log_cases(ids=["a", "b"], scores=[0.1, 0.2], at=NOON, clusters=["ann", "bo"])
    joined.label("early", True, at=NOON)
    for again in (joined.copy(), LabelJoiner.from_bytes(joined.to_bytes())):
        assert again == joined
        again._check()
        again.label("b", True, at=NOON)
        again.log("early", 0.9, at=NOON, cluster="cy")
        expected = {"b": (True, 0.2, "bo"), "early": (True, 0.9, "cy")}
        assert all_time(again) == evaluator_of(expected)
        assert again != joined


def test_a_group_that_the_evaluator_does_not_have_is_refused() -> None:
    """Bytes that were altered, with a checksum that fits."""
    joined = joiner()
    joined.log("a", 0.25, at=NOON, cluster="ann")
    data = bytearray(joined.to_bytes())
    inner = data.index(b"SVEJ")
    (size,) = struct.unpack_from("<q", data, 7)
    # The group is the last column of the joiner.
    struct.pack_into("<H", data, inner + size - 6, GROUPS)
    struct.pack_into("<I", data, inner + size - 4, zlib.crc32(data[inner : inner + size - 4]))
    struct.pack_into("<I", data, len(data) - 4, zlib.crc32(data[:-4]))
    with pytest.raises(CorruptStateError, match="contradict"):
        LabelJoiner.from_bytes(data)


def test_refusals() -> None:
    """Each contradiction is one clear line, and nothing has changed."""
    plain, joined = LabelJoiner(Evaluator(), ttl=DAY), joiner()
    before = joined.to_bytes()
    wrong: Any = 0.5
    cases: list[tuple[Any, str]] = [
        (lambda: plain.log("a", 0.5, at=NOON, cluster="ann"), "needs an evaluator that declares"),
        (lambda: joined.log("a", 0.5, at=NOON), "every case needs one"),
        (lambda: joined.log_cases(ids=["a"], scores=[0.5], at=NOON), "every case needs one"),
        (
            lambda: joined.log_cases(ids=["a"], scores=[0.5], at=NOON, clusters=["ann", "bo"]),
            "one row for each of ids, got 2",
        ),
        (lambda: joined.log("a", 0.5, at=NOON, cluster=wrong), "must be str, int or bytes"),
        (lambda: joiner(orphans="miss"), "orphans must be 'drop'"),
        (lambda: joiner(keep_delays=True), "without cluster_groups"),
    ]
    for call, message in cases:
        with pytest.raises(InvalidInputError, match=message):
            call()
    assert joined.to_bytes() == before
