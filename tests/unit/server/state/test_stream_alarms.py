"""A stream's detector: the library's own of the same rows, the same after every restart."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from streameval import DriftDetector, Evaluator, WindowedEvaluator
from streameval.statistics import encode_engine
from streameval.wire import SegmentCodes
from streameval_server import Limits
from streameval_server._core.engine import Engine
from streameval_server._core.entries import Entry
from streameval_server._core.replay import entry_of
from streameval_server._log.rows import Format, Kind, LogRow
from streameval_server._model.alarm_change import AlarmChange
from streameval_server._model.alarm_settings import AlarmSettings
from streameval_server._model.row_kinds import (
    CaseRows,
    LabelRows,
    MergedState,
    MergeRows,
    PredictionRows,
    RetractionRows,
)
from streameval_server._model.stream_settings import SettingsUpdate, StreamSettings
from streameval_server._state.alarms.stream_alarms import ALARMS_PART
from streameval_server._state.checkpoint_parts import export_parts
from streameval_server._state.stream_file import StreamFile, stream_to_bytes

LIMITS = Limits()
START = datetime(2026, 1, 5, tzinfo=UTC)
START_US = int(START.timestamp()) * 1_000_000
MINUTE_US = 60_000_000
DAY_US = 1440 * MINUTE_US
NAMES = ("BR", "DE", "US")
WATCHES = (
    ("ranking", 0.02),
    ("auc_roc", 0.01),
    ("precision", 0.03),
    ("flagged", 0.03),
    ("calibration", 0.03),
)
YEAR_US = 365 * DAY_US
REFERENCE_US = (START_US, START_US + 2 * DAY_US)
SETTINGS = StreamSettings(
    scale="probability",
    threshold=0.7,
    segment_keys=("country",),
    alarms=AlarmSettings(
        watches=WATCHES, pane_us=10 * MINUTE_US, reference_us=REFERENCE_US, label_wait_us=0
    ),
)


class Rows:
    """Random cases; one country's lose their order at some hour."""

    def __init__(self, seed: int, *, falls_at: int = 1_000) -> None:
        self._rng = np.random.default_rng(seed)
        self._falls_at = falls_at

    def hour(self, hour: int, size: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return labels, scores and codes of countries."""
        rng = self._rng
        labels, codes = rng.random(size) < 0.3, rng.integers(len(NAMES), size=size)
        falls = (codes == 0) & (hour >= self._falls_at)
        logit = 2 * (np.where(falls, 0.2, 2.0) * labels + rng.normal(size=size)) - 3
        return labels, np.round(1 / (1 + np.exp(-logit)), 2), codes


def batch(labels: np.ndarray, scores: np.ndarray, codes: np.ndarray, at_us: object) -> CaseRows:
    segments = (SegmentCodes("country", NAMES, codes.astype(np.uint16)),)
    return CaseRows(labels, scores, None, labels.size, labels.size, at_us, segments)


def log_of(*batches: tuple[int, object], settings: StreamSettings = SETTINGS) -> list[Entry]:
    """Return the log of a stream that is created, then gets batches or changes."""
    log = [Entry(1, START_US, Kind.CREATE_STREAM, "s", "", 0, 0, None, settings)]
    for at_us, what in batches:
        revision = len(log) + 1
        if isinstance(what, AlarmChange):
            log.append(Entry(revision, at_us, Kind.CHANGE_ALARM, "s", "", 0, 0, None, what))
        elif isinstance(what, SettingsUpdate):
            log.append(Entry(revision, at_us, Kind.UPDATE_STREAM, "s", "", 0, 0, None, what))
        elif what is None:
            log.append(Entry(revision, at_us, Kind.TICK, "", "", 0, 0, None))
        else:
            log.append(Entry(revision, at_us, Kind.BATCH, "s", "", 0, 0, what))
    return log


def cases(seed: int, hours: int = 120, falls_at: int = 72) -> list[tuple[int, object]]:
    rows, found = Rows(seed, falls_at=falls_at), []
    for hour in range(hours):
        columns = rows.hour(hour)
        for part in range(2):
            at_us = START_US + (60 * hour + 30 * part + 7) * MINUTE_US
            some = tuple(column[20 * part : 20 * part + 20] for column in columns)
            # The second half is dated by its rows: a few of another pane.
            times = at_us - np.arange(20) * MINUTE_US if part else None
            found.append((at_us, batch(*some, times)))
    return found


def alarms_of(engine: Engine):
    view = engine.view("s").alarms
    assert view is not None
    return view


def detector_of(found: list[tuple[int, object]]) -> DriftDetector:
    """Return the library's detector of the same rows."""
    scope = {"scale": "probability", "resolution": 12}
    whole = WindowedEvaluator(pane=timedelta(minutes=1), **scope)
    parts = {name: WindowedEvaluator(pane=timedelta(minutes=1), **scope) for name in NAMES}
    later = []
    for at_us, rows in found:
        own = at_us if rows.event_us is None else rows.event_us
        times = np.broadcast_to(own, rows.size).astype("datetime64[us]")
        if at_us >= REFERENCE_US[1]:
            later.append((at_us, rows, times))
            continue
        whole.add_cases(labels=rows.labels, scores=rows.scores, at=times)
        codes = rows.segments[0].codes
        for code, name in enumerate(NAMES):
            own = codes == code
            parts[name].add_cases(labels=rows.labels[own], scores=rows.scores[own], at=times[own])
    for each in (whole, *parts.values()):
        each.advance(datetime.fromtimestamp(later[0][0] / 1e6, UTC))
    end = START + timedelta(days=2)
    made = DriftDetector(
        whole.between(START, end),
        watch=[name for name, _ in WATCHES],
        tolerance=dict(WATCHES),
        mean_time_to_false_alarm=timedelta(days=365),
        threshold=whole.between(START, end)._view().edge(0.7),
        pane=timedelta(minutes=10),
        segments={"country": {name: each.between(START, end) for name, each in parts.items()}},
    )
    made.advance(datetime.fromtimestamp(later[0][0] / 1e6, UTC))
    edges = np.vectorize(whole.between(START, end)._view().edge)
    for at_us, rows, times in later:
        made.advance(datetime.fromtimestamp(at_us / 1e6, UTC))
        codes = rows.segments[0].codes
        made.add_cases(
            labels=rows.labels,
            scores=edges(rows.scores),
            at=times,
            segments={"country": np.array(NAMES)[codes]},
        )
    return made


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.slow
def test_it_is_the_librarys_detector_of_the_same_rows(seed: int) -> None:
    """Reference, evidence and alarms; the segment that fell is named."""
    found = cases(seed)
    engine = Engine(LIMITS)
    engine.apply(log_of(*found))
    wanted, view = detector_of(found), alarms_of(engine)
    assert view.reference_us == REFERENCE_US
    assert view.since_us is not None
    assert view.evidence == wanted.evidence
    assert view.alarms == wanted.alarms
    assert {each.watch for each in view.alarms} >= {"auc_roc", "ranking"}
    named = [each.segment for alarm in view.alarms for each in alarm.segments]
    assert set(named) == {"country=BR"}


@pytest.mark.slow
def test_nothing_rings_without_a_change() -> None:
    engine = Engine(LIMITS)
    engine.apply(log_of(*cases(3, hours=240, falls_at=1_000)))
    assert alarms_of(engine).alarms == ()
    assert max(alarms_of(engine).evidence.values()) < 1


def by_id(seed: int, hours: int = 110) -> list[tuple[int, object]]:
    """Return predictions, labels that come hours later or never, changed ones, retractions."""
    rng, rows = random.Random(seed), Rows(seed, falls_at=60)
    truth: dict[bytes, bool] = {}
    waiting: list[tuple[int, bytes]] = []
    labelled: list[bytes] = []
    found: list[tuple[int, object]] = []
    for hour in range(hours):
        at_us = START_US + 60 * hour * MINUTE_US
        labels, scores, codes = rows.hour(hour, 100)
        ids = [b"%d-%d" % (hour, row) for row in range(labels.size)]
        segments = (SegmentCodes("country", NAMES, codes.astype(np.uint16)),)
        found.append((at_us, PredictionRows(ids, scores, len(ids), len(ids), None, segments)))
        truth.update(zip(ids, labels.tolist(), strict=True))
        waiting += [(hour + rng.randrange(3), each) for each in ids if rng.random() < 0.9]
        now = [each for due, each in waiting if due <= hour]
        waiting = [each for each in waiting if each[0] > hour]
        repeated = rng.sample(labelled, min(4, len(labelled)))
        changed = rng.sample(labelled, min(3, len(labelled)))
        labelled = now
        given = [*now, *(each for each in repeated if each not in changed), *changed]
        values = np.array([truth[each] ^ (each in changed) for each in given], dtype=np.bool_)
        found.append((at_us + 13 * MINUTE_US, LabelRows(given, values, len(given), len(given))))
        truth.update((each, not truth[each]) for each in changed)
        gone = rng.sample(now, min(2, len(now)))
        labelled = [each for each in labelled if each not in gone]
        found.append((at_us + 20 * MINUTE_US, RetractionRows(gone, len(gone))))
    return found


@pytest.mark.parametrize("maturity", [0, 60])
@pytest.mark.slow
def test_labels_by_id_count_once_when_they_come(maturity: int) -> None:
    """A repeated or changed label changes nothing, a retraction takes nothing back."""
    assert SETTINGS.alarms is not None
    alarms = replace(SETTINGS.alarms, maturity_us=maturity * MINUTE_US, watches=WATCHES[:4])
    found = by_id(5)
    engine = Engine(LIMITS)
    engine.apply(log_of(*found, settings=replace(SETTINGS, alarms=alarms)))
    view = alarms_of(engine)
    # The same rows through the library, each id's first label alone, from the same reference.
    before = [each for each in found if each[0] < REFERENCE_US[1]]
    begun = Engine(LIMITS)
    watching = replace(SETTINGS, alarms=alarms)
    begun.apply(log_of(*before, (REFERENCE_US[1], None), settings=watching))
    watched = begun._streams["s"].alarms
    assert watched is not None
    assert watched._engine is not None
    wanted = DriftDetector.from_bytes(encode_engine(watched._engine))
    known: dict[bytes, tuple[float, int, int]] = {}
    seen: set[bytes] = set()
    for at_us, rows in found:
        is_watched = at_us >= REFERENCE_US[1]
        if isinstance(rows, PredictionRows):
            codes = rows.segments[0].codes
            for id_, score, code in zip(rows.ids, rows.scores, codes, strict=True):
                known[id_] = (float(score), at_us, int(code))
            chosen = rows.ids
        elif isinstance(rows, LabelRows):
            chosen = [each for each in rows.ids if each not in seen]
            seen.update(chosen)
        else:
            continue
        if is_watched:
            wanted.advance(datetime.fromtimestamp(at_us / 1e6, UTC))
            columns = {
                "scores": [known[each][0] for each in chosen],
                "at": np.array([known[each][1] for each in chosen]).astype("datetime64[us]"),
                "segments": {"country": [NAMES[known[each][2]] for each in chosen]},
            }
            if isinstance(rows, PredictionRows):
                wanted.add_predictions(**columns)
            else:
                first = dict(zip(rows.ids, rows.labels.tolist(), strict=True))
                wanted.add_labels(labels=[first[each] for each in chosen], **columns)
    wanted.advance(datetime.fromtimestamp(found[-1][0] / 1e6, UTC))
    assert view.evidence == wanted.evidence
    assert view.alarms == wanted.alarms
    assert view.alarms


def restored(engine: Engine) -> Engine:
    """Return the engine after a checkpoint and a restart."""
    made = engine.checkpoint(-1)
    return Engine.restore(LIMITS, made.revision, made.received_us, made.changed)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2, 3))]
)
@pytest.mark.slow
def test_cuts_views_and_restarts_change_nothing(seed: int) -> None:
    """One entry at a time with restarts, all at once, or looked at: the same bytes."""
    rng = random.Random(seed)
    found = sorted([*cases(seed + 10), *by_id(seed)], key=lambda each: each[0])
    last_us = found[-1][0]
    found.insert(-30, (found[-30][0], AlarmChange(1, is_delivery=False)))
    found.insert(-20, (found[-20][0], AlarmChange(2, is_delivery=True)))
    found += [(last_us + hour * 60 * MINUTE_US, None) for hour in range(1, 4)]
    log = log_of(*found)
    hashes = set()
    for way in ("whole", "cut", "restarted"):
        engine, at = Engine(LIMITS), 0
        while at < len(log):
            step = len(log) if way == "whole" else rng.randrange(1, 40)
            engine.apply(log[at : at + step])
            at += step
            if way == "cut" and rng.random() < 0.5:
                engine.view("s")
            if way == "restarted" and rng.random() < 0.5:
                engine = restored(engine)
        hashes.add(engine.state_hash())
        assert {each.number: each.is_open for each in alarms_of(engine).alarms}[1] is False
    assert len(hashes) == 1


def large_batches(seed: int, *, hours: range) -> list[tuple[int, object]]:
    """Return batches that are counted before they are read; some with times, counts, weights."""
    rng, rows, found = np.random.default_rng(seed), Rows(seed, falls_at=0), []
    for hour in hours:
        at_us = START_US + (60 * hour + 8) * MINUTE_US
        size = int(rng.choice([1, 50, 5_000]))
        made = batch(*rows.hour(hour, size), None)
        if rng.random() < 0.4:
            made.event_us = at_us - rng.integers(0, 90, size) * MINUTE_US
        if rng.random() < 0.4:
            made.counts = rng.integers(1, 4, size)
            made.total = int(made.counts.sum())
        if rng.random() < 0.4:
            made.units = rng.choice([1 << 16, 3 << 15], size)
        found.append((at_us, made))
    return found


@pytest.mark.parametrize("scale", ["probability", "plain"])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.slow
def test_when_cases_are_counted_changes_nothing(seed: int, scale: str) -> None:
    """At once, one entry at a time, in idle time, before each answer: the same bytes."""
    rng = random.Random(seed)
    found = sorted(
        [*cases(seed + 20, hours=60), *large_batches(seed, hours=range(48, 60))],
        key=lambda each: each[0],
    )
    assert SETTINGS.alarms is not None
    watches = WATCHES if scale == "probability" else WATCHES[:4]
    alarms = replace(SETTINGS.alarms, watches=watches)
    log = log_of(*found, settings=replace(SETTINGS, scale=scale, alarms=alarms))
    states = set()
    for way in ("whole", "entries", "idle", "viewed"):
        engine, at = Engine(LIMITS), 0
        while at < len(log):
            step = {"whole": len(log), "entries": 1}.get(way, rng.randrange(1, 9))
            engine.apply(log[at : at + step])
            at += step
            if way == "idle":
                engine.count()
            if way == "viewed":
                engine.view("s")
                engine.alarms()
        view = alarms_of(engine)
        states.add((engine.state_hash(), repr(view)))
    assert len(states) == 1
    assert view.left_out > 0


def merged(hour: int, columns: tuple[np.ndarray, np.ndarray, np.ndarray]) -> MergeRows:
    """Return the same cases as states that were aggregated elsewhere, one for each country."""
    labels, scores, codes = columns
    at_us = START_US + (60 * hour + 7) * MINUTE_US
    states = []
    for code in range(len(NAMES)):
        evaluator = Evaluator(resolution=12, scale="probability")
        evaluator.add_cases(labels=labels[codes == code], scores=scores[codes == code])
        states.append(MergedState(at_us, (("country", NAMES[code]),), evaluator._view()))
    return MergeRows("edge", hour + 1, states, labels.size, labels.size)


@pytest.mark.slow
def test_cases_that_were_aggregated_elsewhere_are_observed() -> None:
    """The same alarms and evidence as of the rows themselves."""
    found = []
    for is_merged in (False, True):
        rows, given = Rows(7, falls_at=60), []
        for hour in range(90):
            at_us = START_US + (60 * hour + 7) * MINUTE_US
            columns = rows.hour(hour)
            given.append((at_us, merged(hour, columns) if is_merged else batch(*columns, None)))
        engine = Engine(LIMITS)
        engine.apply(log_of(*given))
        found.append(alarms_of(engine))
    assert found[0].alarms == found[1].alarms
    assert found[0].evidence == found[1].evidence
    assert found[0].alarms


def test_memory_counts_the_panes_that_wait() -> None:
    """At least what their sums take, with the most panes that may be open."""
    assert SETTINGS.alarms is not None
    alarms = replace(SETTINGS.alarms, maturity_us=48 * 10 * MINUTE_US)
    engine = Engine(LIMITS)
    engine.apply(log_of(*cases(2, hours=60), settings=replace(SETTINGS, alarms=alarms)))
    state = engine._streams["s"]
    watched = state.alarms
    assert watched is not None
    before = watched.memory_bytes
    state.counts.count()
    watched.settle()
    assert watched._engine is not None
    waiting = watched._engine.panes.items()
    size = sum(column.nbytes for _, sums in waiting for column in sums)
    assert len(waiting) > 10
    assert watched._engine.panes.memory_bytes == size
    assert min(before, watched.memory_bytes) > size


@pytest.mark.slow
def test_an_export_carries_the_detector() -> None:
    """Its alarms, what was delivered, and how it goes on."""
    found = cases(1)
    engine = Engine(LIMITS)
    log = log_of(*found, (found[-1][0], AlarmChange(1, is_delivery=True)))
    engine.apply(log[:-1])
    made = engine.export("s")
    assert made is not None
    revision, data = made()
    file = StreamFile.from_bytes(data)
    assert any(part.startswith(ALARMS_PART) for part in file.parts)
    file.check("t", LIMITS)
    other = file.restored("t", 7, LIMITS)
    view = other.view(revision, engine.received_us).alarms
    assert view == alarms_of(engine)
    assert stream_to_bytes(
        "s", revision, engine.received_us, 0, {n: d() for n, d in export_parts(other)}
    )


def test_a_reference_that_is_too_small_waits() -> None:
    """It says what is missing; one without times grows until it has enough."""
    few = [
        (START_US + hour * 60 * MINUTE_US, batch(*Rows(1).hour(hour, 1), None)) for hour in (1, 2)
    ]
    late = START_US + 3 * DAY_US
    engine = Engine(LIMITS)
    engine.apply(log_of(*few, (late, None)))
    assert "at least 30 are needed" in alarms_of(engine).waits_for
    assert SETTINGS.alarms is not None
    week = replace(SETTINGS, alarms=replace(SETTINGS.alarms, reference_us=None))
    many = [
        (START_US + (8 * 24 + hour) * 60 * MINUTE_US, batch(*Rows(1).hour(hour), None))
        for hour in range(20)
    ]
    engine = Engine(LIMITS)
    engine.apply(log_of(*few, *many, (START_US + 12 * DAY_US, None), settings=week))
    view = alarms_of(engine)
    assert view.waits_for == ""
    assert view.reference_us == (START_US, START_US + 9 * DAY_US)


@pytest.mark.slow
def test_labels_are_waited_for() -> None:
    """Where rows come by id the reference waits for label_ttl, unless told otherwise."""
    assert SETTINGS.alarms is not None
    unset = replace(SETTINGS.alarms, label_wait_us=None)
    found = by_id(1, hours=60)
    for settings, is_watching in (
        (replace(SETTINGS, alarms=unset), False),
        (replace(SETTINGS, alarms=unset, label_ttl_us=DAY_US // 4), True),
    ):
        engine = Engine(LIMITS)
        engine.apply(log_of(*found, settings=settings))
        assert (alarms_of(engine).since_us is not None) is is_watching


@pytest.mark.slow
def test_other_settings_begin_anew() -> None:
    """Of the alarms, or of a threshold that is watched; numbers go on, what was before is past."""
    found = cases(1)
    last_us = found[-1][0]
    assert SETTINGS.alarms is not None
    whole = Engine(LIMITS)
    whole.apply(log_of(*found))
    for changes, is_new in (
        ({"threshold": 0.5}, True),
        ({"alarms": replace(SETTINGS.alarms, pane_us=MINUTE_US)}, True),
        ({"alarms": SETTINGS.alarms}, False),
        ({"max_pending": 7}, False),
    ):
        engine = restored(whole)
        before = alarms_of(engine).alarms
        update = Entry(len(found) + 2, last_us, Kind.UPDATE_STREAM, "s", "", 0, 0, None)
        update.change = SettingsUpdate(changes)
        engine.apply([update])
        view = alarms_of(engine)
        assert (view.since_us == last_us) is is_new
        if is_new:
            assert view.alarms[0].number == before[-1].number + 1
            assert all(each.is_past and not each.is_open for each in view.alarms)
        else:
            assert view.alarms == before
        engine = restored(engine)
        assert alarms_of(engine) == view
    engine.apply(
        [
            Entry(
                len(found) + 3, last_us, Kind.UPDATE_STREAM, "s", "", 0, 0, None,
                SettingsUpdate({"alarms": None}),
            )
        ]
    )  # fmt: skip
    assert engine.view("s").alarms is None


@pytest.mark.parametrize("is_declared", [True, False])
def test_a_reference_to_come_with_a_change_in_it(*, is_declared: bool) -> None:
    """A declared one waits and says why; else the first stable week after the change is taken."""
    week_us = START_US, START_US + 7 * DAY_US
    assert SETTINGS.alarms is not None
    alarms = replace(SETTINGS.alarms, reference_us=week_us if is_declared else None)
    settings = replace(SETTINGS, alarms=alarms)
    engine = Engine(LIMITS)
    engine.apply(log_of(*cases(1, 24 * 17, falls_at=84), settings=settings))
    view = alarms_of(engine)
    if is_declared:
        assert view.waits_for.startswith("the reference has a change in it (")
        assert " between 2026-01-07 00:00 and 2026-01-10 00:00" in view.waits_for
        assert view.waits_for.endswith("00:00 is taken, or name a time without a change")
        assert view.reference_us == week_us
    else:
        assert not view.waits_for
        assert view.reference_us[0] >= START_US + 4 * DAY_US
        assert view.reference_us[1] - view.reference_us[0] == 7 * DAY_US
    again = restored(engine)
    assert alarms_of(again) == view
    assert again.state_hash() == engine.state_hash()


def test_a_change_of_an_alarm_in_the_log() -> None:
    """Its bytes are read back, and others are refused."""
    for change in (AlarmChange(1, is_delivery=False), AlarmChange(2**32 - 1, is_delivery=True)):
        row = LogRow(
            9, START_US, Kind.CHANGE_ALARM, Format.BY_KIND, "s", "", 0, 0, 0, change.to_bytes()
        )
        assert entry_of(row).change == change
