"""A stream that declares clusters: groups beside the whole, for all time and by pane."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from streameval import Evaluator
from streameval._counts.cluster_keys import cluster_checksums
from streameval.kernel import UnsortedCases, groups_of
from streameval.wire import SegmentCodes
from streameval_server import Limits
from streameval_server._model.row_kinds import (
    CaseRows,
    LabelRows,
    MergedState,
    MergeRows,
    PredictionRows,
    RetractionRows,
)
from streameval_server._model.stream_info import StreamInfo
from streameval_server._model.stream_settings import DAY_US, HOUR_US, MINUTE_US, StreamSettings
from streameval_server._state.checkpoint_parts import content_parts, export_parts
from streameval_server._state.stream_parts import restore_stream
from streameval_server._state.stream_state import NEVER, StreamState

NOW = 1_767_225_600_000_000
GROUPS = 8
KEY = "user"
SETTINGS = StreamSettings(
    segment_keys=("country",), cluster_key=KEY, cluster_groups=GROUPS, label_ttl_us=DAY_US
)


def stream(settings: StreamSettings = SETTINGS) -> StreamState:
    return StreamState(StreamInfo("s", NOW, 1, settings), Limits(), NOW)


@dataclass
class Expected:
    """Every case that counts: its time, label, score and cluster."""

    cases: dict[object, tuple[int, bool, float, int]] = field(default_factory=dict)

    def evaluator(self, start_us: int = 0, end_us: int = NEVER) -> Evaluator:
        """Return the cases of a span in an evaluator with clusters."""
        made = Evaluator(cluster_groups=GROUPS)
        here = [each for each in self.cases.values() if start_us <= each[0] < end_us]
        if here:
            _, labels, scores, users = zip(*here, strict=True)
            made.add_cases(labels=labels, scores=scores, clusters=users)
        return made


def assert_counts(state: StreamState, expected: Expected) -> None:
    """Assert the groups of all time and of each pane, and that slices have none."""
    view = state.view(state.revision, NOW)
    slices = [(view.evaluator, expected.evaluator())]
    slices += [
        (pane.evaluator, expected.evaluator(pane.start_us, pane.end_us))
        for pane in view.whole.panes
    ]
    for found, wanted in slices:
        found_groups, wanted_groups = found._view().clusters, wanted._view().clusters
        assert found_groups is not None
        assert wanted_groups is not None
        assert found_groups.same_content(wanted_groups)
        found._check()
    for value in view.segments("country"):
        part = view.slice(("country", value))
        assert part is not None
        assert part.all_time.cluster_groups is None
        assert all(pane.evaluator.cluster_groups is None for pane in part.panes)


class Feed:
    """Sends rows to a stream, and keeps what should count."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.state, self.expected = stream(), Expected()
        self.now = NOW
        self.revision = 1
        self._predicted: dict[bytes, tuple[int, float, int]] = {}

    def take(self, rows: CaseRows | PredictionRows | LabelRows | RetractionRows) -> None:
        while self.state.due_us <= self.now:
            self.state.pass_time(self.now, self.revision, 1_000)
        self.state.on_time(self.now)
        self.revision += 1
        self.state.take(rows, self.revision, self.now)

    def columns(self, size: int) -> tuple[np.ndarray, ...]:
        scores = self.rng.integers(-8, 24, size) / 16
        times = self.now - self.rng.integers(0, 3 * HOUR_US, size)
        return scores, times, self.rng.integers(0, 30, size)

    def segments(self, size: int) -> tuple[SegmentCodes, ...]:
        codes = self.rng.integers(0, 2, size).astype(np.uint16)
        return (SegmentCodes("country", ("US", "DE"), codes),)

    def cases(self, size: int) -> None:
        scores, times, users = self.columns(size)
        labels, counts = self.rng.random(size) < 0.4, None
        if self.rng.random() < 0.3:
            counts = self.rng.integers(1, 4, size)
        repeats = np.ones(size, dtype=np.int64) if counts is None else counts
        rows = CaseRows(labels, scores, counts, size, int(repeats.sum()), times,
                        self.segments(size), clusters=cluster_checksums(users))  # fmt: skip
        self.take(rows)
        for row in range(size):
            for copy in range(int(repeats[row])):
                case = (int(times[row]), bool(labels[row]), float(scores[row]), int(users[row]))
                self.expected.cases[self.revision, row, copy] = case

    def predictions(self, size: int) -> None:
        scores, times, users = self.columns(size)
        ids = [b"%d-%d" % (self.revision, row) for row in range(size)]
        rows = PredictionRows(ids, scores, size, size, times, self.segments(size),
                              clusters=cluster_checksums(users))  # fmt: skip
        self.take(rows)
        columns = zip(times.tolist(), scores.tolist(), users.tolist(), strict=True)
        self._predicted.update(zip(ids, columns, strict=True))

    def labels(self, size: int) -> None:
        ids = self._some_ids(size)
        labels = self.rng.random(len(ids)) < 0.4
        self.take(LabelRows(ids, labels, len(ids), len(ids)))
        for id_, label in zip(ids, labels.tolist(), strict=True):
            time, score, user = self._predicted[id_]
            self.expected.cases[id_] = (time, label, score, user)

    def retractions(self, size: int) -> None:
        ids = self._some_ids(size)
        self.take(RetractionRows(ids, len(ids)))
        for id_ in ids:
            self.expected.cases.pop(id_, None)
            del self._predicted[id_]

    def _some_ids(self, size: int) -> list[bytes]:
        known = list(self._predicted)[-500:]
        chosen = self.rng.choice(len(known), min(size, len(known)), replace=False)
        return [known[place] for place in chosen]

    def step(self) -> None:
        self.now += int(self.rng.integers(0, 20 * MINUTE_US))
        kinds = [self.cases, self.predictions, self.labels, self.retractions]
        kinds[self.rng.choice(4, p=[0.4, 0.3, 0.2, 0.1])](int(self.rng.integers(1, 60)))


SETTLED_IDS = StreamSettings(
    segment_keys=("country",), cluster_groups=GROUPS, label_ttl_us=20 * DAY_US,
    relabel_ttl_us=20 * DAY_US, expired="drop",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_groups_are_those_of_the_cases(seed: int) -> None:
    """Cases, predictions, labels, relabels and retractions, while panes coarsen; and restored."""
    feed = Feed(seed)
    feed.state = stream(SETTLED_IDS)
    feed.predictions(30)
    for step in range(40):
        feed.step()
        if step % 13 == 12:
            assert_counts(feed.state, feed.expected)
    assert_counts(feed.state, feed.expected)
    parts = {name: encode() for name, encode in export_parts(feed.state)}
    again = restore_stream(Limits(), feed.revision, parts)
    assert dict(content_parts(again)) == dict(content_parts(feed.state))
    feed.state = again
    for _ in range(4):
        feed.step()
    assert_counts(feed.state, feed.expected)


def test_panes_that_coarsen_keep_their_groups() -> None:
    """After three hours panes of a minute are one of an hour."""
    feed = Feed(5)
    for _ in range(5):
        feed.cases(300)
    narrow = len(feed.state.view(feed.revision, feed.now).whole.panes)
    feed.now += 10 * HOUR_US
    feed.cases(1)
    assert len(feed.state.view(feed.revision, feed.now).whole.panes) < narrow / 5
    assert_counts(feed.state, feed.expected)


def test_a_view_does_not_change() -> None:
    """Rows that come after a view was taken, and before it is read, are not in it."""
    feed = Feed(6)
    feed.cases(40)
    before = feed.state.view(feed.revision, feed.now)
    wanted = feed.expected.evaluator()
    feed.cases(40)
    feed.state.counts.count()
    groups = before.evaluator._view().clusters
    expected = wanted._view().clusters
    assert groups is not None
    assert expected is not None
    assert groups.same_content(expected)
    assert_counts(feed.state, feed.expected)


def test_merged_states_bring_their_groups() -> None:
    """A merge counts in the whole with its groups, and in slices without."""
    state, rng = stream(), np.random.default_rng(8)
    users = rng.integers(0, 30, 200)
    labels, scores = rng.random(200) < 0.3, rng.random(200)
    sent = Evaluator(cluster_groups=GROUPS)
    sent.add_cases(labels=labels, scores=scores, clusters=users)
    merged = MergedState(NOW, (("country", "US"),), sent._view())
    state.take(MergeRows("batch", 1, [merged], 10, 200), 2, NOW)
    expected = Expected()
    for row in range(200):
        case = (NOW, bool(labels[row]), float(scores[row]), int(users[row]))
        expected.cases[row] = case
    assert_counts(state, expected)


def test_clusters_do_not_depend_on_how_rows_are_cut() -> None:
    """The same rows in batches of any size give the same bytes."""
    rng = np.random.default_rng(9)
    size = 3_000
    labels, scores = rng.random(size) < 0.3, rng.normal(size=size)
    times = NOW - rng.integers(0, 5 * HOUR_US, size)
    checksums = cluster_checksums(rng.integers(0, 400, size))
    contents = []
    for step in (size, 700, 90):
        state = stream(StreamSettings(cluster_groups=32))
        for start in range(0, size, step):
            here = slice(start, start + step)
            cut = labels[here]
            rows = CaseRows(cut, scores[here], None, cut.size, cut.size, times[here],
                            clusters=checksums[here])  # fmt: skip
            state.take(rows, 2, NOW)
        contents.append(dict(content_parts(state)))
    assert contents[0] == contents[1] == contents[2]
    direct = Evaluator(cluster_groups=32)
    groups = groups_of(checksums, 32).astype(np.uint16)
    direct._add_rows(UnsortedCases(labels, scores, None, clusters=groups))
    found = state.view(2, NOW).evaluator
    assert found.interval("auc_roc") == direct.interval("auc_roc")
