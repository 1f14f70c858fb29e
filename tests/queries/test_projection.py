"""Projections of a server: the library's on the same rows, refused where these are not all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from streameval import LabelJoiner, Projection, WindowedEvaluator
from streameval.client._wire.decode import read_snapshot
from streameval.v1 import query_pb2, types_pb2
from streameval_server import Limits
from streameval_server._core.engine import Engine
from streameval_server._core.entries import Entry
from streameval_server._log.checkpoint import LazyParts
from streameval_server._log.rows import Kind
from streameval_server._model.errors import RequestError
from streameval_server._model.row_kinds import CaseRows, LabelRows, PredictionRows
from streameval_server._model.stream_settings import StreamSettings
from streameval_server._queries import query_engine
from streameval_server._queries.projections import projection_message
from streameval_server._queries.query_engine import (
    QueryEngine,
    parse_snapshot_request,
    snapshot,
)
from streameval_server._queries.series import parse_series_request, series
from streameval_server._state.stream_file import StreamFile

LIMITS = Limits()
DAY = timedelta(days=1)
DAY_US = 86_400_000_000
START = datetime(2026, 1, 1, tzinfo=UTC)
START_US = 1_767_225_600_000_000
DAYS, TTL_DAYS, PER_DAY = 26, 5, 300
SETTINGS = StreamSettings(
    pane_us=DAY_US,
    retention_us=90 * DAY_US,
    label_ttl_us=TTL_DAYS * DAY_US,
    relabel_ttl_us=DAY_US,
    scale="probability",
)


class Stream:
    """Predictions of each day, with labels of positives up to four days later; in both places."""

    def __init__(self, num_days: int = DAYS) -> None:
        rng = np.random.default_rng(11)
        shape = (num_days, PER_DAY)
        self.positives = rng.random(shape) < 0.25
        self.scores = 1 / (1 + np.exp(-rng.normal(1.6 * self.positives)))
        days = np.arange(num_days)[:, None]
        self.due = days + np.where(self.positives, rng.integers(0, 4, shape), 0)
        self.ids = np.arange(num_days * PER_DAY).astype("S").reshape(shape)
        self.revision = 1
        self.engine = Engine(LIMITS)
        self.log = [Entry(1, START_US, Kind.CREATE_STREAM, "s", "", 0, 0, None, SETTINGS)]
        self.engine.apply(self.log)
        self.now_us = START_US
        self.joiner = LabelJoiner(
            WindowedEvaluator(pane=DAY, retention=90 * DAY, scale="probability"),
            ttl=TTL_DAYS * DAY,
            relabel_ttl=DAY,
            keep_delays=True,
        )
        for day in range(num_days):
            self._day(day)
        self.queries = QueryEngine(lambda _: self.engine.view("s"), lambda: self.now_us)

    def _day(self, day: int) -> None:
        # Not at midnight: the clock's pane is that of the day.
        at = START + (day + 0.5) * DAY
        self.now_us = START_US + day * DAY_US + DAY_US // 2
        known = self.due == day
        ids, labels = self.ids[known].tolist(), self.positives[known]
        self.joiner.advance(at)
        self.joiner.log_cases(ids=self.ids[day].tolist(), scores=self.scores[day], at=at)
        self.joiner.label_cases(ids=ids, labels=labels, at=at)
        self.take(PredictionRows(self.ids[day].tolist(), self.scores[day], PER_DAY, PER_DAY))
        self.take(LabelRows(ids, labels, len(ids), len(ids)))

    def take(self, rows: CaseRows | LabelRows | PredictionRows) -> None:
        """Take a batch at the present time."""
        self.revision += 1
        entry = Entry(self.revision, self.now_us, Kind.BATCH, "s", "", 0, 0, rows)
        self.log.append(entry)
        self.engine.apply([entry])

    def asked(self, **fields) -> types_pb2.Snapshot:
        request = query_pb2.GetSnapshotRequest(projection=True, **fields)
        return snapshot(self.queries, parse_snapshot_request(request))


def last(days: int, **fields) -> types_pb2.Selection:
    selection = types_pb2.Selection(stream="s", **fields)
    selection.last.FromTimedelta(days * DAY)
    return selection


def expected(stream: Stream, days: int) -> Projection:
    return stream.joiner.projection(stream.joiner.evaluator.last(days * DAY))


@pytest.fixture(scope="module")
def stream() -> Stream:
    return Stream()


@pytest.mark.parametrize("days", [3, 4, 1])
def test_figures_are_those_of_the_librarys_joiner(stream: Stream, days: int) -> None:
    """Now, projected, interval, limits, reason, backtest: to the last bit, through the message."""
    found = read_snapshot(stream.asked(selection=last(days))).projection
    wanted = expected(stream, days)
    assert [each.to_dict() for each in found.figures] == [
        each.to_dict() for each in wanted.headline()
    ]
    assert found.assumption == wanted.assumption
    assert (found.labelled_share, found.prevalence) == (wanted.labelled_share, wanted.prevalence)
    assert found.fit == pytest.approx(wanted.fit, rel=0, abs=0, nan_ok=True)
    if days > 1:
        assert [each.reason for each in found.figures] == [None] * 3
        assert len(found.figures[0].backtest) >= 10
        assert "assumed: labelling depends on" in str(found)


def test_rows_of_a_series_are_projected_as_windows_are(stream: Stream) -> None:
    """Of the figures that were asked for; pages have at most 50 rows; none without asking."""
    request = query_pb2.ListWindowsRequest(projection=True, metrics=["auc_pr"])
    request.selection.stream = "s"
    request.selection.between.start_time.FromDatetime(START + 20 * DAY)
    request.selection.between.end_time.FromDatetime(START + 26 * DAY)
    request.step.FromTimedelta(3 * DAY)
    rows = series(stream.queries, parse_series_request(request)).snapshots
    assert len(rows) == 2
    newest = rows[-1].projection
    assert [each.name for each in newest.metrics] == ["auc_pr", "auc_pr"]
    between = types_pb2.Selection(stream="s", between=request.selection.between)
    between.between.start_time.FromDatetime(START + 23 * DAY)
    alone = stream.asked(selection=between).projection
    assert newest.metrics == alone.metrics[1:]
    assert newest.labelled_share == alone.labelled_share
    assert parse_series_request(request).page_size == 50
    request.projection = False
    plain = series(stream.queries, parse_series_request(request)).snapshots
    assert not any(row.HasField("projection") for row in plain)
    for row, other in zip(rows, plain, strict=True):
        row.ClearField("projection")
        assert row == other


def test_an_unchanged_window_is_projected_once_a_minute(stream: Stream, monkeypatch) -> None:
    """The answer is kept while the stream and the minute are the same."""
    computed: list[object] = []

    def counted(*arguments, **names):
        computed.append(arguments)
        return projection_message(*arguments, **names)

    monkeypatch.setattr(query_engine, "projection_message", counted)
    queries = QueryEngine(lambda _: stream.engine.view("s"), lambda: stream.now_us)
    for minutes, times in ((0, 1), (0, 1), (1, 2)):
        monkeypatch.setattr(stream, "now_us", stream.now_us + minutes * 60_000_000)
        queries.projection(*_arguments(stream))
        assert len(computed) == times


@pytest.mark.parametrize(
    ("days", "said", "first"),
    [
        (5, "its first week is not over yet.", None),
        (9, "complete at 2026-01-11 00:49; projected 0.72 (0.70 to 0.74).", 0),
        (11, "90 % of the labels are in; projected 0.69 (0.66 to 0.72).", 7),
        (12, "no change is known", None),
    ],
)
def test_a_verdict_that_is_too_early_says_what_is_projected(
    days: int, said: str, first: int | None
) -> None:
    """What a query for all since the base projects, and the library, to the digit."""
    early = Stream(days)
    found = early.queries.verdicts.of(early.engine.view("s")).message()
    assert said in found.sentence
    ev = early.joiner.evaluator
    verdict = ev.verdict(project=early.joiner.projection, label_wait=3 * DAY)
    limits = ("estimate", "lower", "upper")
    if first is None:
        assert not found.HasField("projected")
        assert verdict.projected is None
        return
    between = types_pb2.Selection(stream="s")
    between.between.start_time.FromDatetime(START + first * DAY)
    between.between.end_time.FromDatetime(START + days * DAY)
    *_, own = early.asked(selection=between).projection.metrics
    assert (own.name, own.HasField("prevalence")) == ("auc_pr", False)
    assert found.projected.estimate == own.projected
    told, asked = (
        [getattr(each, name) for name in limits] for each in (found.projected, verdict.projected)
    )
    assert told == asked
    assert told[1:] == [own.interval.lower, own.interval.upper]
    assert verdict.sentence.split(";")[1] == found.sentence.split(";")[1]


def test_a_verdict_projects_once_an_hour() -> None:
    """Rows that come move nothing in it meanwhile, and a clock of the asker's never does."""
    early = Stream(11)
    verdicts = early.queries.verdicts
    first = verdicts.of(early.engine.view("s")).message().projected
    ids = ["new"]
    for minutes, is_same in ((50, True), (11, False)):
        early.now_us += minutes * 60_000_000
        early.take(PredictionRows(ids, np.array([0.5]), 1, 1))
        early.take(LabelRows(ids, np.array([True]), 1, 1))
        ids = ["newer"]
        view = early.engine.view("s")
        later = verdicts.of(view, early.now_us + 30 * DAY_US).message().projected
        assert (later == first) is is_same
        assert (verdicts.of(view).message().projected == first) is is_same


def test_a_verdict_waits_for_a_projection_only_where_it_is_asked_for() -> None:
    """Metrics, lists and webhooks say all else, and the projection once it is made."""
    early = Stream(11)
    verdicts, view = early.queries.verdicts, early.engine.view("s")
    plain = verdicts.of(view, projects=False).message()
    assert not plain.HasField("projected")
    whole = verdicts.of(view).message()
    assert whole.sentence.startswith(plain.sentence.removesuffix("."))
    assert whole.sentence != plain.sentence
    assert verdicts.of(view, projects=False).message() == whole
    plain.projected.CopyFrom(whole.projected)
    plain.sentence = whole.sentence
    assert plain == whole
    early.now_us += 61 * 60_000_000
    assert not verdicts.of(early.engine.view("s"), projects=False).message().HasField("projected")


def _arguments(stream: Stream):
    request = query_pb2.GetSnapshotRequest(projection=True, selection=last(3))
    resolved = stream.queries.resolve(parse_snapshot_request(request).selection)
    return stream.queries.labels(resolved), resolved, 0.95


def test_replay_checkpoint_and_export_have_the_same_projection(stream: Stream) -> None:
    """The message of the engine that took the batches, byte for byte at the same clock."""
    expected = stream.asked(selection=last(3)).projection.SerializeToString(deterministic=True)
    replayed = Engine(LIMITS)
    replayed.apply(stream.log)
    checkpoint = replayed.checkpoint(-1)
    restored = Engine.restore(
        LIMITS, checkpoint.revision, checkpoint.received_us, LazyParts(checkpoint.changed.makers)
    )
    file = StreamFile.from_bytes(replayed.export("s")()[1])
    file.check("s", LIMITS)
    imported = Engine(LIMITS)
    imported.apply(
        [Entry(1, stream.now_us, Kind.IMPORT_STREAM, "s", "", 0, 0, None, file)],
    )
    for engine in (replayed, restored, imported):
        queries = QueryEngine(engine.view, lambda: stream.now_us)
        request = query_pb2.GetSnapshotRequest(projection=True, selection=last(3))
        found = snapshot(queries, parse_snapshot_request(request)).projection
        assert found.SerializeToString(deterministic=True) == expected


def test_a_window_with_other_cases_is_refused() -> None:
    """A case that came with its label is in the window and not among the predictions."""
    mixed = Stream()
    rows = CaseRows(np.array([True]), np.array([0.5]), None, 1, 1)
    mixed.take(rows)
    found = read_snapshot(mixed.asked(selection=last(3))).projection
    assert {each.reason.name for each in found.figures} == {"OTHER_CASES"}
    assert all(each.limits is None for each in found.figures)


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        (types_pb2.Selection(stream="s"), "a projection is of a window, got all time"),
        (last(3, segment=types_pb2.Segment(key="a")), "a projection is of the whole stream"),
    ],
)
def test_what_cannot_be_projected_is_refused_at_once(stream: Stream, selection, words) -> None:
    """One line that names the field."""
    with pytest.raises(RequestError, match=words) as refused:
        stream.asked(selection=selection)
    assert refused.value.violations[0][0] == "projection"


def test_a_stream_without_ids_has_no_projection() -> None:
    """One line, and the code of a request that the stream does not fit."""
    engine = Engine(LIMITS)
    rows = CaseRows(np.array([True]), np.array([0.5]), None, 1, 1)
    engine.apply([Entry(1, START_US, Kind.BATCH, "s", "", 0, 0, rows)])
    queries = QueryEngine(lambda _: engine.view("s"), lambda: START_US)
    request = query_pb2.GetSnapshotRequest(projection=True, selection=last(3))
    with pytest.raises(RequestError, match="stream s has no predictions by id") as refused:
        snapshot(queries, parse_snapshot_request(request))
    assert refused.value.reason == "NO_LABELS_BY_ID"
