"""The client's verbs of time and late truth, against a real server."""

from __future__ import annotations

import math
import re
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval import Evaluator, InvalidInputError
from streameval.client import (
    Client,
    InvalidRequestError,
    NotFoundError,
    PreconditionError,
)
from streameval.client._buffer import clock as _clock
from streameval_server import Settings
from streameval_server.testing import running_server

if TYPE_CHECKING:
    from pathlib import Path

HOUR = timedelta(hours=1)


def test_labels_join_their_predictions_in_either_order(client: Client) -> None:
    """A prediction and its label make a case, whichever comes first, one by one or in columns."""
    stream = client.stream("join/ed")
    stream.log("a", 0.9)
    stream.label("a", True)
    stream.label(b"b", False)
    stream.log("b", 0.4)
    stream.log_cases(ids=["c", "d", "e"], scores=[0.8, 0.3, 0.2])
    stream.label_cases(ids=np.array(["d", "c"]), labels=[0, 1])
    stream.flush()
    snapshot = stream.snapshot()
    assert (snapshot.num_positive_ref, snapshot.num_negative_ref) == (2, 2)
    assert snapshot.auc_roc == 1.0
    coverage = snapshot.coverage
    assert (coverage.predictions, coverage.labelled, coverage.pending) == (5, 4, 1)
    assert coverage.labelled_share == 0.8
    assert set(coverage.delays) == {0.5, 0.9, 0.99}
    assert sum(band.predictions for band in coverage.bands) == 5
    assert "4 of 5 predictions labelled (80.0%): 1 pending" in str(snapshot)
    assert snapshot.to_dict()["coverage"]["pending"] == 1


def test_one_id_is_heard_in_order(client: Client) -> None:
    """Of several operations on an id in quick succession, the last one counts."""
    stream = client.stream("in/order")
    for _ in range(50):
        stream.log("x", 0.5)
        stream.label("x", True)
        stream.label("x", False)
        stream.retract("x")
    stream.log("x", 0.7)
    stream.label("x", True)
    stream.flush()
    evaluator = stream.evaluator()
    assert (evaluator.num_positive_ref, evaluator.num_negative_ref) == (1, 0)
    assert stream.operating_points().thresholds.tolist() == [math.inf, 0.7]
    assert stream.snapshot().coverage.retracted == 50


def test_columns_can_be_taken_back(client: Client) -> None:
    """A retraction removes labelled and unlabelled predictions."""
    stream = client.stream("re/tracted")
    stream.log_cases(ids=list("abcd"), scores=[1, 2, 3, 4])
    stream.label_cases(ids=["a", "b"], labels=[True, False])
    stream.retract_cases(ids=["a", "c"])
    stream.flush()
    snapshot = stream.snapshot()
    assert (snapshot.num_positive_ref, snapshot.num_negative_ref) == (0, 1)
    assert (snapshot.coverage.retracted, snapshot.coverage.pending) == (2, 1)


def test_a_label_that_knows_its_prediction_needs_none(client: Client) -> None:
    """A label with score and time is a case, in the pane of that time."""
    stream = client.stream("full/labels")
    yesterday = datetime.now(UTC) - 24 * HOUR
    stream.label("a", True, at=yesterday, score=0.9)
    stream.label_cases(
        ids=["b", "c"], labels=[0, 1], scores=[0.1, 0.2], at=[yesterday, yesterday - HOUR]
    )
    stream.flush()
    assert stream.snapshot().num_cases == 3
    assert stream.snapshot(window=HOUR).num_cases == 0
    assert stream.snapshot(window=(yesterday - HOUR, yesterday + HOUR)).num_cases == 3


def test_windows_choose_by_event_time(client: Client) -> None:
    """Each kind of window, scalar and columnar times, datetime and datetime64."""
    now = datetime.now(UTC)
    stream = client.stream("win/dows")
    stream.add_case(True, 0.9)
    stream.add_case(False, 0.8, at=now - 5 * HOUR)
    stream.add_cases(labels=[1, 0], scores=[0.7, 0.6], at=now - 30 * HOUR)
    when = np.datetime64(now.replace(tzinfo=None), "us") - np.array([1, 2], "timedelta64[h]")
    stream.add_cases(labels=[1, 0], scores=[0.5, 0.4], at=when)
    stream.add_misses(2, at=now - 5 * HOUR)
    stream.add_negative_misses(1)
    stream.flush()
    assert (stream.snapshot().num_cases, stream.snapshot().num_scored) == (9, 6)
    lately = stream.snapshot(window=timedelta(minutes=10))
    assert (lately.num_scored, lately.num_negative_misses, lately.num_misses) == (1, 1, 0)
    start, end = lately.window
    assert end > now - timedelta(minutes=1)
    assert timedelta(minutes=10) <= end - start <= timedelta(minutes=12)
    assert stream.snapshot(window=24 * HOUR).num_scored == 4
    assert stream.snapshot(window=24 * HOUR).num_misses == 2
    assert stream.snapshot(window=3).num_scored == 3
    assert stream.evaluator(window=24 * HOUR).num_scored == 4
    assert stream.operating_points(window=(now - 40 * HOUR, now - 20 * HOUR)).P == 1
    assert stream.roc_hull(window=24 * HOUR).P == 4
    assert stream.snapshot(window=24 * HOUR, mature_after=3 * HOUR).num_scored == 1
    assert stream.snapshot(half_life=12 * HOUR).num_scored == 6
    assert lately.resolution == 12
    assert lately.bounds["auc_roc"] if lately.num_positive_ref else not lately.bounds


def test_segments_choose_slices(client: Client) -> None:
    """Scalars, constants and columns of segment values; undeclared keys are refused."""
    made = client.create_stream("seg/ments", segment_keys=["country"], pane=timedelta(minutes=5))
    assert made.settings.segment_keys == ("country",)
    assert made.settings.pane == timedelta(minutes=5)
    stream = client.stream("seg/ments")
    stream.add_case(True, 0.9, segments={"country": "US"})
    stream.log("a", 0.5, segments={"country": "DE"})
    stream.label("a", False)
    stream.add_cases(labels=[1, 0, 1], scores=[3, 2, 1], segments={"country": ["US", "DE", ""]})
    stream.log_cases(ids=["b", "c"], scores=[1, 2], segments={"country": np.array(["US", "US"])})
    stream.label_cases(ids=["b", "c"], labels=[1, 1])
    stream.add_misses(4, segments={"country": "DE"})
    stream.flush()
    assert (stream.snapshot().num_cases, stream.snapshot().num_scored) == (11, 7)
    american = stream.snapshot(segment=("country", "US"))
    assert (american.num_cases, american.segment) == (4, ("country", "US"))
    assert "where country is US" in str(american)
    german = stream.snapshot(segment=("country", "DE"), window=HOUR)
    assert (german.num_scored, german.num_misses) == (2, 4)
    unseen = stream.snapshot(segment=("country", "FR"))
    assert unseen.num_cases == 0
    assert any("country=FR" in warning for warning in unseen.warnings)
    assert "warning: no case of country=FR" in str(unseen)
    with pytest.raises(InvalidRequestError, match="has no segment key 'plan'"):
        stream.snapshot(segment=("plan", "pro"))
    stream.add_case(True, 1.0, segments={"plan": "pro"})
    call = r"client.update_stream('seg/ments', segment_keys=['country', 'plan'])"
    with pytest.raises(PreconditionError, match=re.escape(call)):
        stream.flush()
    changed = client.update_stream(
        "seg/ments", segment_keys=["country", "plan"], relabel_ttl=timedelta(minutes=7)
    )
    assert changed.settings.segment_keys == ("country", "plan")
    assert changed.settings.relabel_ttl == timedelta(minutes=7)
    stream.add_case(True, 1.0, segments={"plan": "pro"})
    stream.flush()
    assert stream.snapshot(segment=("plan", "pro")).num_cases == 2
    with pytest.raises(PreconditionError, match="can only be added"):
        client.update_stream("seg/ments", segment_keys=["plan"])


def test_figures_come_with_what_was_asked_for(client: Client) -> None:
    """Metrics by name, levels, confidence sequences; intervals equal the library's."""
    rng = np.random.default_rng(3)
    labels = rng.random(4000) < 0.1
    scores = labels + rng.normal(size=4000)
    stream = client.stream("fig/ures")
    stream.add_cases(labels=labels, scores=scores)
    stream.flush()
    local = Evaluator()
    local.add_cases(labels=labels, scores=scores)
    snapshot = stream.snapshot(level=0.9)
    for name, interval in snapshot.intervals.items():
        expected = local.interval(name, level=0.9)
        assert interval == expected
    assert snapshot.auc_pr == local.auc_pr()
    always = stream.snapshot(anytime=True)
    assert always.intervals["auc_roc"] == local.interval("auc_roc", anytime=True)
    chosen = stream.snapshot(metrics=["maximum_f_measure", "auc_roc"])
    assert chosen.figures == {
        "maximum_f_measure": local.maximum_f_measure(),
        "auc_roc": local.auc_roc(),
    }
    assert math.isnan(chosen.auc_pr)
    shown = f"Maximum F measure  {local.maximum_f_measure():.6f}"
    assert str(chosen).splitlines()[1].strip() == shown
    assert "Maximum F measure" in chosen._repr_html_()
    assert chosen == stream.snapshot(metrics=["maximum_f_measure", "auc_roc"])
    with pytest.raises(InvalidRequestError, match="no figure is called 'auc'"):
        stream.snapshot(metrics=["auc"])
    with pytest.raises(InvalidRequestError, match="anytime"):
        stream.snapshot(window=HOUR, anytime=True)


def test_a_time_series_comes_whole(client: Client) -> None:
    """More steps than a page holds, each with its own window, also empty ones."""
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    stream = client.stream("ser/ies")
    for minutes in (5, 50, 95):
        stream.add_cases(labels=[1, 0], scores=[0.9, 0.1], at=now - timedelta(minutes=minutes))
    stream.flush()
    start = now - 2 * HOUR
    rows = stream.series(start, now, timedelta(minutes=1))
    assert len(rows) == 120
    assert sum(row.num_cases for row in rows) == 6
    assert [row.window[0] for row in rows] == [start + timedelta(minutes=i) for i in range(120)]
    full = [row for row in rows if row.num_cases]
    assert [row.auc_roc for row in full] == [1.0] * 3
    assert set(full[0].figures) == {"auc_pr", "auc_roc"}
    assert rows[0].reasons["auc_roc"] == "EMPTY"
    table = repr(rows).splitlines()
    assert table[0] == "120 steps"
    assert table[1].split()[:4] == ["from", "(UTC)", "cases", "positives"]
    assert f"  {full[0].window[0]:%Y-%m-%d %H:%M}" in table[2 + rows.index(full[0])]
    assert "1.0000" in table[2 + rows.index(full[0])]
    assert len(rows.to_rows()) == rows._repr_html_().count("<tr>") - 1 == 120
    long = stream.series(now - 20 * HOUR, now, timedelta(minutes=1), metrics=["prevalence"])
    assert sum(row.num_cases for row in long) == 6
    with pytest.raises(InvalidInputError, match="start must be before end"):
        stream.series(now, start, HOUR)


def test_sides_are_compared(client: Client) -> None:
    """Streams, windows against the rest, segments; overlaps are refused with an error."""
    client.create_stream("com/pare", segment_keys=["country"])
    stream = client.stream("com/pare")
    rng = np.random.default_rng(5)
    for country, shift in (("US", 2.0), ("DE", 0.5)):
        labels = rng.random(2000) < 0.2
        scores = shift * labels + rng.normal(size=2000)
        stream.add_cases(labels=labels, scores=scores, segments={"country": country})
    client.flush()
    american, german = (
        stream.select(segment=("country", "US")),
        stream.select(segment=("country", "DE")),
    )
    found = client.compare(american, german)
    assert found.metric == "auc_pr"
    assert found.difference == pytest.approx(found.a.estimate - found.b.estimate)
    assert 0 < found.lower < found.difference < found.upper
    assert found.p_value < 0.001
    sides = [stream.evaluator(segment=each.segment) for each in (american, german)]
    assert found.prevalence == max(each.prevalence for each in sides)
    assert found.auc_roc == client.compare(american, german, metric="auc_roc")
    assert "the greater of the two" in str(found)
    assert not found.complement
    rest = client.compare(american, "com/pare", metric="auc_roc", level=0.9)
    assert rest.complement
    assert (rest.prevalence, rest.level) == (None, 0.9)
    assert rest.b.estimate == pytest.approx(stream.evaluator(segment=german.segment).auc_roc())
    assert client.compare(american, german, prevalence="own").prevalence is None
    assert client.compare(american, german, prevalence=0.01).prevalence == 0.01
    with pytest.raises(PreconditionError, match="same cases"):
        client.compare(stream, stream)
    with pytest.raises(NotFoundError):
        client.compare(stream, "no/stream")
    with pytest.raises(InvalidInputError, match="prevalence must be"):
        client.compare(american, german, prevalence=2.0)
    stream.add_case(True, 0.5, segments={"country": "FR"})
    client.flush()
    french = stream.select(segment=("country", "FR"))
    assert "(no interval: NO_NEGATIVES, b has no negative case)" in str(
        client.compare(german, french)
    )
    ranking = stream.rank_segments("country")
    assert [row.segment[1] for row in ranking] == ["DE", "US", "FR"]
    assert [row.reason for row in ranking] == [None, None, "NO_NEGATIVES"]
    assert ranking.prevalence == found.prevalence
    worst = ranking.segments[0]
    assert worst.difference < worst.upper < 0
    assert worst.p_value < 0.001
    assert worst.value.estimate < ranking.segments[1].value.estimate
    assert len(ranking) == 3
    assert worst.num_positive_ref + worst.num_negative_ref == 2000


def test_rows_that_waited_count_when_they_were_added(
    free_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows without a time are dated by the server's clock at the time when they were added."""
    real = _clock.clock_ns
    ahead_ns = [0]
    monkeypatch.setattr("streameval.client._buffer.clock.clock_ns", lambda: real() + ahead_ns[0])
    # The client's wall clock is two days ahead: only the server's clock dates rows.
    wall = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: wall() + 172_800 * 10**9)
    with Client(free_address) as client:
        stream = client.stream("wai/ted")
        stream.log("a", 0.9)
        stream.add_cases(labels=[0], scores=[0.1])
        ahead_ns[0] = 2 * 3600 * 10**9  # two hours without a server
        stream.label("a", True)
        stream.add_case(False, 0.2)
        monkeypatch.setattr(time, "time_ns", wall)
        with running_server(Settings(listen=free_address, memory=True)):
            stream.flush()
            now = datetime.now(UTC)
            assert stream.snapshot().num_cases == 3
            assert stream.snapshot(window=HOUR).num_cases == 1
            then = stream.snapshot(window=(now - 2.1 * HOUR, now - 1.9 * HOUR))
            assert (then.num_positive_ref, then.num_negative_ref) == (1, 1)


def test_labels_after_a_restart_find_their_predictions(free_address: str, tmp_path: Path) -> None:
    """Predictions wait durably; rows that are sent twice count once."""
    settings = Settings(listen=free_address, data=tmp_path)
    with Client(free_address) as client:
        stream = client.stream("re/started")
        with running_server(settings):
            stream.log_cases(ids=[f"id-{i}" for i in range(3000)], scores=np.arange(3000.0))
            stream.flush()
            # In flight when the server stops, or still in the buffer: both can happen.
            stream.label_cases(ids=[f"id-{i}" for i in range(2000)], labels=[1, 0] * 1000)
        stream.retract_cases(ids=[f"id-{i}" for i in range(500)])
        with running_server(settings):
            stream.flush()
            snapshot = stream.snapshot()
            assert (snapshot.num_positive_ref, snapshot.num_negative_ref) == (750, 750)
            coverage = snapshot.coverage
            assert (coverage.predictions, coverage.pending, coverage.retracted) == (3000, 1000, 500)
            assert client.statistics().acked == 5500


def test_bad_rows_are_refused_at_the_call(client: Client) -> None:
    """Ids, times and segments are checked with the server's words; nothing is added."""
    before = client.statistics().added
    stream = client.stream("bad/ids")
    naive = datetime(2026, 1, 1)  # noqa: DTZ001 - must be refused
    now = datetime(2026, 1, 1, tzinfo=UTC)
    calls = {
        "id must not be empty": lambda: stream.log("", 1.0),
        "id must be at most 128 bytes of UTF-8, got 130": lambda: stream.log("é" * 65, 1.0),
        "id must be a text or an integer, got 0.3": lambda: stream.label(0.3, True),
        "id must be UTF-8, got b": lambda: stream.retract(b"\xff"),
        "id must be valid Unicode": lambda: stream.log("\ud800", 1.0),
        "score must be finite, got nan": lambda: stream.log("a", float("nan")),
        "score must be finite, got inf": lambda: stream.label("a", True, score=float("inf")),
        "label must be True, False, 1 or 0, got 2": lambda: stream.label("a", 2),
        "at must have a time zone": lambda: stream.log("a", 1.0, at=naive),
        "at is missing": lambda: stream.log("a", 1.0, at=np.datetime64("NaT", "us")),
        "id must not be empty at index 1": lambda: stream.log_cases(ids=["a", ""], scores=[1, 2]),
        "ids must be a text or an integer, got None at index 0": lambda: stream.retract_cases(
            ids=[None]
        ),
        "ids must be a column": lambda: stream.retract_cases(ids="abc"),
        "scores must have one row for each of ids": lambda: stream.log_cases(ids=["a"], scores=[]),
        "labels must have one row": lambda: stream.label_cases(ids=["a"], labels=[]),
        "a segment key must be": lambda: stream.log("a", 1.0, segments={"a b": "c"}),
        "segment value must be a string, got 3": lambda: stream.log("a", 1.0, segments={"a": 3}),
        "segment value must be a string, got \\[": lambda: stream.log("a", 1, segments={"a": []}),
        "segment value __other__ is reserved": lambda: stream.add_case(
            True, 1.0, segments={"a": "__other__"}
        ),
        "segment value must be at most 128 bytes of UTF-8, got 129": lambda: stream.add_misses(
            1, segments={"a": "x" * 129}
        ),
        "segments must be a mapping": lambda: stream.log("a", 1.0, segments=["country"]),
        "segment value must be a string, got 3 at index 1": lambda: stream.add_cases(
            labels=[1, 0], scores=[1, 2], segments={"a": ["x", 3]}
        ),
        "must have one row for each of labels": lambda: stream.add_cases(
            labels=[1, 0], scores=[1, 2], segments={"a": ["x"]}
        ),
        "window must be a timedelta, a text": lambda: stream.snapshot(window=1.5),
        "window '1x': use a span such as 90s": lambda: stream.snapshot(window="1x"),
        "half_life '0h': use a span": lambda: stream.snapshot(half_life="0h"),
        "step 'day': use a span": lambda: stream.series(now, now + HOUR, "day"),
        "window must be positive": lambda: stream.snapshot(window=timedelta(0)),
        "window must be at least 1 case": lambda: stream.snapshot(window=0),
        "window must be a \\(start, end\\)": lambda: stream.snapshot(window=(1, 2, 3)),
        "give a window or a half_life": lambda: stream.snapshot(window=HOUR, half_life=HOUR),
        "segment 'country': use key=value": lambda: stream.snapshot(segment="country"),
        "segment must be .country=US": lambda: stream.snapshot(segment=["country", "US"]),
        "metrics must be a list": lambda: stream.snapshot(metrics="auc_pr"),
        "give at least one setting": lambda: client.update_stream("bad/ids"),
        "orphans must be 'drop' or 'miss'": lambda: client.create_stream("x", orphans="keep"),
        "resolution must be a positive integer": lambda: client.create_stream("x", resolution=0),
        "pane must be a timedelta": lambda: client.create_stream("x", pane=60),
        "segment_keys must be a list": lambda: client.create_stream("x", segment_keys="country"),
        "stream name must be a string": lambda: client.stream(3),
    }
    for text, call in calls.items():
        with pytest.raises(InvalidInputError, match=f"^{text}|{text}"):
            call()
    assert client.statistics().added == before


def test_spans_and_segments_may_be_texts(client: Client) -> None:
    """A text and the value that it is ask for the same cases; labels may be texts, too."""
    client.create_stream("texts", segment_keys=["country"], pane="1m", retention="2d")
    settings = client.get_stream("texts").settings
    assert (settings.pane, settings.retention) == (timedelta(minutes=1), timedelta(days=2))
    stream = client.stream("texts")
    now = datetime.now(UTC)
    stream.add_cases(
        labels=["fraud", "ok", "fraud", "ok"],
        scores=[0.9, 0.7, 0.4, 0.1],
        at=[now - timedelta(hours=hours) for hours in (20, 20, 0, 0)],
        segments={"country": ["US", "US", "US", "DE"]},
        positive="fraud",
    )
    client.flush()
    assert stream.snapshot(window="1h", segment="country=US").num_positive_ref == 1
    assert stream.snapshot(window="1d", segment="country=US").num_cases == 3
    for text, value in (("1h", timedelta(hours=1)), ("1d", timedelta(days=1))):
        assert stream.evaluator(window=text) == stream.evaluator(window=value)
        assert stream.select(window=text) == stream.select(window=value)
    segment = stream.select(segment="country=US").segment
    assert segment == ("country", "US")
    start = now - timedelta(hours=24)
    rows = stream.series(start, now, "6h", segment="country=US", metrics=["prevalence"])
    assert sum(each.num_cases for each in rows) == sum(
        each.num_cases
        for each in stream.series(
            start, now, timedelta(hours=6), segment=segment, metrics=["prevalence"]
        )
    )
    for text, cases in (("1h", 2), ("1d", 4)):
        (found,) = client.list_summaries(prefix="texts", window=text)
        assert found.snapshot.num_cases == cases
