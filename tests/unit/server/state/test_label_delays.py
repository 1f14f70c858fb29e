"""Label delays of a stream: those of the library's joiner, from the batch that begins them."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from streameval import CorruptStateError, LabelJoiner, WindowedEvaluator
from streameval.statistics import DelayCounts
from streameval_server import Limits
from streameval_server._core.engine import Engine
from streameval_server._core.entries import Entry
from streameval_server._log.checkpoint import LazyParts
from streameval_server._log.rows import Kind
from streameval_server._model.errors import CorruptLogError
from streameval_server._model.row_kinds import CaseRows, LabelRows, PredictionRows, RetractionRows
from streameval_server._model.stream_settings import SettingsUpdate, StreamSettings
from streameval_server._state.delays.label_delays import DELAY_PART
from streameval_server._state.stream_file import StreamFile
from streameval_server._state.stream_parts import restore_stream

LIMITS = Limits()
HOUR = timedelta(hours=1)
HOUR_US = 3_600_000_000
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_US = 1_767_268_800_000_000
SETTINGS = StreamSettings(
    pane_us=HOUR_US,
    retention_us=240 * HOUR_US,
    label_ttl_us=30 * HOUR_US,
    relabel_ttl_us=10 * HOUR_US,
    expired="negative",
)
Step = tuple[int, list[PredictionRows | LabelRows | RetractionRows]]


def steps(seed: int, hours: int = 80) -> list[Step]:
    """Return what arrives in each hour: predictions, then labels, changed ones and retractions."""
    rng = random.Random(seed)
    live: list[bytes] = []
    found: list[Step] = []
    for hour in range(hours):
        new = [b"%d-%d" % (hour, row) for row in range(rng.randrange(12))]
        scores = np.array([rng.choice([rng.random(), 0.5, 3.25]) for _ in new])
        live += new
        known = rng.sample(live, min(len(live), rng.randrange(12)))
        labels = np.array([rng.random() < 0.4 for _ in known], dtype=np.bool_)
        gone = rng.sample(live, min(len(live), rng.randrange(3)))
        rows = [
            PredictionRows(new, scores, len(new), len(new)),
            LabelRows(known, labels, len(known), len(known)),
            RetractionRows(gone, len(gone)),
        ]
        found.append((hour, [each for each in rows if each.size]))
    return found


def entries(found: list[Step]) -> list[Entry]:
    """Return the log of a stream: created, then its batches."""
    log = [Entry(1, NOON_US, Kind.CREATE_STREAM, "s", "", 0, 0, None, SETTINGS)]
    for hour, batches in found:
        for rows in batches:
            revision, now_us = len(log) + 1, NOON_US + hour * HOUR_US
            log.append(Entry(revision, now_us, Kind.BATCH, "s", "", 0, 0, rows))
    return log


def joiner_of(found: list[Step]) -> LabelJoiner:
    """Return the library's joiner of the same rows."""
    into = WindowedEvaluator(pane=HOUR, retention=240 * HOUR, resolution=12)
    joiner = LabelJoiner(
        into, ttl=30 * HOUR, relabel_ttl=10 * HOUR, expired="negative", keep_delays=True
    )
    for hour, batches in found:
        at = NOON + hour * HOUR
        # The engine lets things fall due before an entry, the joiner before a call.
        joiner.advance(at)
        for rows in batches:
            if isinstance(rows, PredictionRows):
                joiner.log_cases(ids=rows.ids, scores=rows.scores, at=at)
            elif isinstance(rows, LabelRows):
                joiner.label_cases(ids=rows.ids, labels=rows.labels, at=at)
            else:
                joiner.retract_cases(ids=rows.ids, at=at)
    return joiner


def engine_of(log: list[Entry]) -> Engine:
    engine = Engine(LIMITS)
    engine.apply(log)
    return engine


def delays_of(engine: Engine) -> dict[int, bytes]:
    """Return the bytes of each pane that has any rows."""
    view = engine.view("s")
    assert view is not None
    if view.counts.delays is None:
        return {}
    return {each.start_us: each() for each in view.counts.delays.panes if each.rows.counts.size}


def restored(engine: Engine) -> Engine:
    checkpoint = engine.checkpoint(-1)
    return Engine.restore(
        LIMITS, checkpoint.revision, checkpoint.received_us, LazyParts(checkpoint.changed.makers)
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.slow
def test_delays_are_those_of_the_librarys_joiner(seed: int) -> None:
    """Of the same rows, pane by pane, byte by byte; expiry and coarser panes included."""
    found = steps(seed)
    joiner = joiner_of(found)
    joiner.projection(joiner.evaluator.last(HOUR))
    expected = {
        pane.start_us: pane.content.to_bytes()
        for pane in joiner._counter.delays
        if pane.content.rows().counts.size
    }
    assert delays_of(engine_of(entries(found))) == expected
    assert len(expected) > 50


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_neither_grouping_nor_queries_nor_a_checkpoint_make_a_difference(seed: int) -> None:
    """One state: applied at once, singly with a view after each, restored, and from old parts."""
    log = entries(steps(seed))
    most = 4 * len(log) // 5
    whole, single = engine_of(log), Engine(LIMITS)
    for entry in log:
        single.apply([entry])
        delays_of(single)
    again = restored(engine_of(log[:most]))
    again.apply(log[most:])
    parts = engine_of(log[:most])
    first = parts.checkpoint(-1)
    data = dict(first.changed.pop_all())
    parts.apply(log[most:])
    second = parts.checkpoint(first.revision)
    unchanged = {name: data[name] for name in second.unchanged}
    assert any(name.startswith(DELAY_PART) for name in unchanged)
    pieced = Engine.restore(
        LIMITS,
        second.revision,
        second.received_us,
        LazyParts.holding(unchanged | dict(second.changed.pop_all())),
    )
    engines = (whole, single, again, restored(whole), pieced)
    assert len({engine.state_hash() for engine in engines}) == 1
    for engine in engines:
        counted = engine._streams["s"].counts.delays
        assert counted.memory_bytes >= sum(each.content.nbytes for each in counted.panes)


def test_an_export_is_the_stream() -> None:
    """Imported under another name it goes on as the original does, byte for byte."""
    log = entries(steps(7))
    half = engine_of(log[: len(log) // 2])
    _, data = half.export("s")()
    copy = Engine(LIMITS)
    file = StreamFile.from_bytes(data)
    file.check("s", LIMITS)
    copy.apply([Entry(1, NOON_US, Kind.TICK, "", "", 0, 0, None)])
    copy._streams["s"] = file.restored("s", 1, LIMITS)
    for engine in (half, copy):
        for entry in log[len(log) // 2 :]:
            state = engine._streams["s"]
            while state.due_us <= entry.received_us:
                state.pass_time(entry.received_us, entry.revision, 10**9)
            state.take(entry.rows, entry.revision, entry.received_us)
    assert delays_of(half) == delays_of(copy)
    broken = dict(file.parts)
    start = next(name for name in broken if name.startswith(DELAY_PART))
    broken[start] = DelayCounts().to_bytes()[:-1] + b"\0"
    with pytest.raises(CorruptLogError):
        restore_stream(LIMITS, 1, broken)
    with pytest.raises(CorruptStateError):
        StreamFile.from_bytes(data[:-1])


def test_retention_takes_delays_with_it() -> None:
    """A shorter one drops their panes with those of the counts, a longer one brings none back."""
    log = entries(steps(8))
    engine = engine_of(log)
    revision, now_us = len(log), log[-1].received_us
    before = delays_of(engine)
    for step, hours in enumerate((34, 240)):
        change = SettingsUpdate({"retention_us": hours * HOUR_US})
        engine.apply(
            [Entry(revision + 1 + step, now_us, Kind.UPDATE_STREAM, "s", "", 0, 0, None, change)]
        )
        counts = engine._streams["s"].counts
        counts.delays.panes._check()
        assert min(delays_of(engine)) == min(pane.start_us for pane in counts.store.panes)
    after = delays_of(engine)
    assert {start: before[start] for start in after} == after
    assert 20 < len(after) < len(before)


def test_streams_without_ids_keep_no_delays() -> None:
    """Cases leave the state without them."""
    rows = CaseRows(np.array([True, False]), np.array([0.9, 0.1]), None, 2, 2)
    engine = engine_of([Entry(1, NOON_US, Kind.BATCH, "s", "", 0, 0, rows)])
    assert engine.view("s").counts.delays is None
