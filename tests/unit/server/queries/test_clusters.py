"""Answers of streams with clusters: limits and design effects are the library's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval import Evaluator, Snapshot, compare
from streameval._counts.cluster_keys import cluster_checksums
from streameval.client._wire.decode import read_snapshot
from streameval.v1 import query_pb2, types_pb2
from streameval.wire import SegmentCodes
from streameval_server import Limits
from streameval_server._model.row_kinds import CaseRows
from streameval_server._model.stream_info import StreamInfo
from streameval_server._model.stream_settings import HOUR_US, StreamSettings
from streameval_server._queries.comparison import comparison, parse_comparison_request
from streameval_server._queries.query_engine import QueryEngine, parse_snapshot_request, snapshot
from streameval_server._queries.ranking import parse_ranking_request, ranking
from streameval_server._state.stream_state import StreamState

if TYPE_CHECKING:
    from collections.abc import Iterable

NOW = 1_767_225_600_000_000
NAMES = ("auc_roc", "average_precision", "auc_pr", "prevalence")
PLAIN = StreamSettings(segment_keys=("country",), resolution=53)
CLUSTERED = StreamSettings(
    segment_keys=("country",), resolution=53, cluster_key="user", cluster_groups=32
)


class Bursts:
    """Twenty cases of each user, who are good or bad together; a burst has one time."""

    def __init__(self, seed: int, users: int = 300) -> None:
        rng = np.random.default_rng(seed)
        self.user = np.repeat(np.arange(users), 20)
        size = self.user.size
        self.labels = rng.random(size) < rng.beta(0.4, 1.6, users)[self.user]
        self.scores = self.labels + rng.normal(0, 0.8, users)[self.user] + rng.normal(0, 0.8, size)
        minutes = rng.integers(0, 60, users)[self.user]
        self.times = NOW - HOUR_US + minutes * 60_000_000
        self.codes = rng.integers(0, 2, users)[self.user].astype(np.uint16)

    def rows(self, *, with_clusters: bool) -> CaseRows:
        size = self.labels.size
        segments = (SegmentCodes("country", ("US", "DE"), self.codes),)
        clusters = cluster_checksums(self.user) if with_clusters else None
        return CaseRows(self.labels, self.scores, None, size, size, self.times, segments,
                        clusters=clusters)  # fmt: skip

    def evaluator(self, where: np.ndarray | slice = slice(None)) -> Evaluator:
        made = Evaluator(cluster_groups=32)
        made.add_cases(
            labels=self.labels[where], scores=self.scores[where], clusters=self.user[where]
        )
        return made


def engine_of(streams: Iterable[tuple[str, StreamSettings, Bursts]]) -> QueryEngine:
    """Return a query engine over streams of bursts."""
    states = {}
    for name, settings, bursts in streams:
        state = StreamState(StreamInfo(name, NOW - HOUR_US, 1, settings), Limits(), NOW)
        state.take(bursts.rows(with_clusters=settings.cluster_groups > 0), 2, NOW)
        states[name] = state
    return QueryEngine(lambda name: states[name].view(2, NOW), lambda: NOW)


def selection(*, window: bool = True, segment: str | None = None) -> types_pb2.Selection:
    """Return a selection of the stream "s", of the last hour or of all time."""
    chosen = types_pb2.Selection(stream="s")
    if window:
        chosen.last.seconds = 3_600
    if segment is not None:
        chosen.segment.key, chosen.segment.value = "country", segment
    return chosen


def read(engine: QueryEngine, chosen: types_pb2.Selection) -> Snapshot:
    """Return a snapshot as a client decodes it."""
    request = query_pb2.GetSnapshotRequest(selection=chosen, metrics=NAMES)
    return read_snapshot(snapshot(engine, parse_snapshot_request(request)))


@pytest.mark.parametrize("window", [True, False])
def test_the_whole_has_the_intervals_of_the_library(window: bool) -> None:
    """Limits and design effects, of a window and of all time, equal those of an evaluator."""
    bursts = Bursts(1)
    answer = read(engine_of([("s", CLUSTERED, bursts)]), selection(window=window))
    direct = bursts.evaluator()
    for name in NAMES:
        found, wanted = answer.intervals[name], direct.interval(name)
        assert (found.lower, found.upper) == pytest.approx((wanted.lower, wanted.upper))
        assert found.design_effect == pytest.approx(wanted.design_effect)
        assert found.design_effect > 1.5
        assert found.warning is None
    assert not any("dependent" in text for text in answer.warnings)


def test_a_slice_takes_the_design_effect_of_the_whole() -> None:
    """It says so, and its limits are wider than without, about as with groups of its own."""
    bursts = Bursts(2)
    engine = engine_of([("s", CLUSTERED, bursts)])
    plain = engine_of([("s", PLAIN, bursts)])
    whole = read(engine, selection()).intervals
    answer = read(engine, selection(segment="US"))
    without = read(plain, selection(segment="US")).intervals
    own = bursts.evaluator(bursts.codes == 0)
    for name in NAMES:
        found = answer.intervals[name]
        assert found.design_effect == whole[name].design_effect
        assert found.width > 1.2 * without[name].width
        assert 0.6 < found.width / own.interval(name).width < 1.7
    assert any("design effect of the whole" in text for text in answer.warnings)


def test_slices_are_compared_and_ranked_with_it() -> None:
    """A slice against the rest; the rest has no groups either."""
    bursts = Bursts(3)
    engine, plain = engine_of([("s", CLUSTERED, bursts)]), engine_of([("s", PLAIN, bursts)])
    chosen = query_pb2.RankSegmentsRequest(selection=selection(), key="country", metric="auc_roc")
    query = parse_ranking_request(chosen)
    for found, without in zip(
        sorted(ranking(engine, query).segments, key=lambda each: each.segment.value),
        sorted(ranking(plain, query).segments, key=lambda each: each.segment.value),
        strict=True,
    ):
        assert found.difference.value == without.difference.value
        assert _width(found.difference) > 1.2 * _width(without.difference)
        assert found.value.interval.design_effect > 1.5
    request = query_pb2.CompareStreamsRequest(
        a=selection(segment="US"), b=selection(), metric="auc_roc"
    )
    answer = comparison(engine, parse_comparison_request(request))
    assert answer.complement
    assert answer.b.interval.design_effect > 1.5


def test_two_streams_are_compared_as_two_evaluators() -> None:
    """Of the same users: errors that both share cancel, as in the library."""
    first, second = Bursts(4), Bursts(4)
    second.scores = second.scores + np.random.default_rng(5).normal(0, 0.3, second.scores.size)
    engine = engine_of([("s", CLUSTERED, first), ("t", CLUSTERED, second)])
    other = selection()
    other.stream = "t"
    request = query_pb2.CompareStreamsRequest(
        a=selection(), b=other, metric="auc_roc", own_prevalence=True
    )
    answer = comparison(engine, parse_comparison_request(request))
    wanted = compare(first.evaluator(), second.evaluator(), metric="auc_roc")
    found = answer.difference.interval
    assert (found.lower, found.upper) == pytest.approx((wanted.lower, wanted.upper))
    assert answer.a.interval.design_effect == pytest.approx(wanted.a.design_effect)


def test_panes_warn_where_no_key_is_declared() -> None:
    """Bursts inside panes; the warning names the setting, and all time has no panes."""
    bursts = Bursts(6)
    engine = engine_of([("s", PLAIN, bursts)])
    answer = read(engine, selection())
    worst = max(interval.least_effect for interval in answer.intervals.values())
    assert worst > 1.2
    assert any("cluster_key" in text for text in answer.warnings)
    assert np.isnan(read(engine, selection(window=False)).intervals["auc_roc"].least_effect)
    calm = Bursts(7)
    calm.times = NOW - np.random.default_rng(8).integers(1, HOUR_US, calm.times.size)
    calm.scores = np.random.default_rng(9).permutation(calm.scores)
    answer = read(engine_of([("s", PLAIN, calm)]), selection())
    assert not answer.warnings


def test_scores_that_groups_do_not_tell_apart() -> None:
    """The client gets the reason of the library."""
    bursts = Bursts(10)
    bursts.scores = bursts.scores + 1e6
    found = read(engine_of([("s", CLUSTERED, bursts)]), selection()).intervals["auc_roc"]
    assert found.reason == "TOO_COARSE"
    assert np.isnan(found.design_effect)


def _width(metric: types_pb2.Metric) -> float:
    return metric.interval.upper - metric.interval.lower
