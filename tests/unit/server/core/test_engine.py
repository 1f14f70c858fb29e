"""The engine: the same log gives the same state, however it is grouped or restored."""

from __future__ import annotations

import gc
import random
import threading
import weakref
from dataclasses import replace

import numpy as np
import pytest

from streameval import Evaluator
from streameval.wire import SegmentCodes
from streameval_server import Limits
from streameval_server._core.engine import Engine
from streameval_server._core.entries import Entry
from streameval_server._log.checkpoint import LazyParts
from streameval_server._log.rows import Kind
from streameval_server._model.errors import CorruptLogError
from streameval_server._model.row_kinds import (
    CaseRows,
    LabelRows,
    MissRows,
    PredictionRows,
)
from streameval_server._model.stream_info import StreamInfo
from streameval_server._model.stream_settings import StreamSettings
from streameval_server._state.checkpoint_parts import content_parts
from streameval_server._state.counting import counts
from streameval_server._state.memory import OVERHEAD_BYTES
from streameval_server._state.stream_state import StreamState

LIMITS = Limits(max_cells=64)
NOW = 1_800_000_000_000_000
HOUR = 3600 * 1_000_000


def case_rows(rng: random.Random) -> CaseRows:
    size = rng.randint(1, 20)
    scores = np.array([rng.choice([rng.random(), 0.5, -0.0, -1e300]) for _ in range(size)])
    labels = np.array([rng.random() < 0.4 for _ in range(size)])
    counts = None
    if rng.random() < 0.3:
        counts = np.array([rng.randint(1, 5) for _ in range(size)])
    total = size if counts is None else int(counts.sum())
    return CaseRows(labels, scores, counts, size, total)


def random_log(seed: int, length: int = 60) -> list[Entry]:
    """Return entries as a committer would log them."""
    rng = random.Random(seed)
    there: set[str] = set()
    entries = []
    for revision in range(1, length + 1):
        stream = rng.choice(["a", "b/c", "d"])
        kind, rows = Kind.BATCH, None
        what = rng.random()
        if what < 0.1:
            kind = Kind.DELETE_STREAM if stream in there else Kind.CREATE_STREAM
        elif what < 0.15:
            kind = Kind.REFUSED
        elif what < 0.25:
            rows = MissRows(rng.randint(0, 3), 1, 1, 0)
            rows.total = rows.positives + rows.negatives
        elif what < 0.95:
            rows = case_rows(rng)
        if kind is Kind.DELETE_STREAM:
            there.remove(stream)
        elif rows is not None or kind is Kind.CREATE_STREAM:
            there.add(stream)
        producer = rng.choice(["", "p", "q"])
        change = StreamSettings() if kind is Kind.CREATE_STREAM else None
        entries.append(
            Entry(revision, revision * 1000, kind, stream, producer, 1, revision, rows, change)
        )
    return entries


def expected(entries: list[Entry]) -> dict[str, Evaluator]:
    """Count the entries one by one."""
    streams: dict[str, Evaluator] = {}
    for entry in entries:
        if entry.kind == Kind.DELETE_STREAM:
            del streams[entry.stream]
        elif entry.kind == Kind.CREATE_STREAM or entry.rows is not None:
            evaluator = streams.setdefault(entry.stream, Evaluator(max_cells=LIMITS.max_cells))
            if isinstance(entry.rows, MissRows):
                evaluator.add_misses(entry.rows.positives)
                evaluator.add_negative_misses(entry.rows.negatives)
            elif entry.rows is not None:
                rows = entry.rows
                counts = [1] * rows.size if rows.counts is None else rows.counts.tolist()
                for label, score, count in zip(
                    rows.labels.tolist(), rows.scores.tolist(), counts, strict=True
                ):
                    for _ in range(count):
                        evaluator.add_case(label, score)
    return streams


@pytest.mark.parametrize("seed", range(8))
def test_grouping_does_not_matter(seed):
    """One entry at a time, all at once, or anything between: the same bytes, correct counts."""
    entries = random_log(seed)
    rng = random.Random(seed)
    hashes = set()
    for pieces in (len(entries), 1, 7, 13):
        engine = Engine(LIMITS)
        cuts = sorted(rng.sample(range(1, len(entries)), pieces - 1))
        for start, end in zip([0, *cuts], [*cuts, len(entries)], strict=True):
            engine.apply(entries[start:end])
            engine.view("a")  # a view must not change the state
        hashes.add(engine.state_hash())
    assert len(hashes) == 1
    wanted = expected(entries)
    assert [info.name for info in engine.streams()] == sorted(wanted)
    for name, evaluator in wanted.items():
        assert engine.view(name).evaluator == evaluator
    assert {name: known.total for name, known in engine.catalog().items()} == {
        name: evaluator.num_positive_ref + evaluator.num_negative_ref
        for name, evaluator in wanted.items()
    }


@pytest.mark.parametrize("seed", range(8))
def test_counting_early_changes_nothing(seed, monkeypatch):
    """Rows that are counted early in idle time give the same state."""
    monkeypatch.setattr(counts, "MIN_IDLE_COUNT_ROWS", 1)
    entries = random_log(seed)
    engine, early = Engine(LIMITS), Engine(LIMITS)
    engine.apply(entries)
    has_counted = False
    for entry in entries:
        early.apply([entry])
        has_counted |= early.has_collected
        early.count()
        assert not early.has_collected
    assert has_counted
    assert early.state_hash() == engine.state_hash()


@pytest.mark.parametrize("seed", range(8))
def test_a_restored_engine_is_the_same(seed):
    """A checkpoint whose parts are of different revisions restores the same state."""
    entries = random_log(seed)
    engine = Engine(LIMITS)
    parts: dict[str, bytes] = {}
    since = 0
    for start in range(0, len(entries), 11):
        engine.apply(entries[start : start + 11])
        checkpoint = engine.checkpoint(since)
        since = checkpoint.revision
        kept = {name: parts[name] for name in checkpoint.unchanged}
        parts = kept | dict(checkpoint.changed)
    again = Engine.restore(LIMITS, engine.revision, engine.received_us, LazyParts.holding(parts))
    assert again.state_hash() == engine.state_hash()
    assert again.catalog() == engine.catalog()
    more = random_log(seed + 100, 80)[60:]
    more = [entry for entry in more if entry.rows is not None]
    for revision, entry in enumerate(more, engine.revision + 1):
        entry.revision = revision
    engine.apply(more)
    again.apply(more)
    assert again.state_hash() == engine.state_hash()


def test_only_what_changed_is_checkpointed():
    """An unchanged stream is listed, not copied."""
    rows = case_rows(random.Random(1))
    engine = Engine(LIMITS)
    engine.apply(
        [Entry(n, n, Kind.BATCH, name, "", 0, 0, rows) for n, name in [(1, "a"), (2, "b")]]
    )
    assert set(engine.checkpoint(0).changed) == {
        "marks",
        "stream/a",
        "pane/0/a",
        "verdict/0/a",
        "stream/b",
        "pane/0/b",
        "verdict/0/b",
    }
    minute = 60_000_000
    engine.apply([Entry(3, minute, Kind.BATCH, "b", "", 0, 0, rows)])
    checkpoint = engine.checkpoint(2)
    assert set(checkpoint.changed) == {"marks", "stream/b", f"pane/{minute}/b", "verdict/0/b"}
    assert checkpoint.unchanged == ("stream/a", "pane/0/a", "verdict/0/a", "pane/0/b")


def test_views_are_whole_and_shared():
    """A view never changes; while its stream is unchanged, the same object is returned."""
    rows = case_rows(random.Random(1))
    engine = Engine(LIMITS)
    engine.apply([Entry(1, 5, Kind.BATCH, "a", "", 0, 0, rows)])
    first = engine.view("a")
    engine.apply([Entry(2, 6, Kind.BATCH, "b", "", 0, 0, rows)])
    second = engine.view("a")
    assert second.whole.counts.state is first.whole.counts.state
    assert (first.revision, second.revision) == (1, 2)
    engine.apply([Entry(3, 7, Kind.BATCH, "a", "", 0, 0, rows)])
    assert first.evaluator.num_positive_ref + first.evaluator.num_negative_ref == rows.total
    assert engine.view("a").whole.counts.state is not first.whole.counts.state
    assert (first.info.name, first.info.create_us, first.info.create_revision) == ("a", 5, 1)
    assert engine.view("z") is None
    assert engine.stream("z") is None


def test_an_unchanged_stream_is_viewed_without_the_lock():
    """From the first view to the next change, whatever other streams do; never a stale view."""
    rng = random.Random(7)
    engine = Engine(LIMITS)

    def apply(stream: str, kind: Kind = Kind.BATCH) -> None:
        revision = engine.revision + 1
        rows = case_rows(rng) if kind is Kind.BATCH else None
        engine.apply([Entry(revision, revision * 1000, kind, stream, "", 0, 0, rows)])

    assert engine.unchanged_view("a") is None
    apply("a")
    assert engine.unchanged_view("a") is None
    looked = engine.view("a")
    apply("b")
    seen = engine.unchanged_view("a")
    assert seen is not None
    assert (seen.revision, seen.now_us) == (2, 2000)
    assert (seen.counts, seen.counters, seen.info) == (looked.counts, looked.counters, looked.info)
    apply("a")
    assert engine.unchanged_view("a") is None
    engine.view("a")
    state = engine._streams["a"]
    apply("a", Kind.DELETE_STREAM)
    assert engine.unchanged_view("a") is None
    assert state.last_view is None, (
        "a thread that has just looked it up would see it after deletion"
    )


def test_views_without_the_lock_are_whole_while_another_thread_applies():
    """A view that is found has exactly the state at its revision."""
    rng = random.Random(8)
    engine, lock = Engine(LIMITS), threading.Lock()
    totals = {"a": [0], "b": [0]}
    entries = []
    for revision in range(1, 3001):
        stream = "a" if rng.random() < 0.05 else "b"
        rows = case_rows(rng)
        entries.append(Entry(revision, revision * 1000, Kind.BATCH, stream, "", 0, 0, rows))
        for name, so_far in totals.items():
            so_far.append(so_far[-1] + (rows.total if name == stream else 0))

    def work() -> None:
        for entry in entries:
            with lock:
                engine.apply([entry])
            engine.merge()

    applying = threading.Thread(target=work)
    applying.start()
    found = 0
    while applying.is_alive():
        view = engine.unchanged_view("a")
        if view is None:
            with lock:
                view = engine.view("a")
        else:
            found += 1
        if view is not None:
            assert view.evaluator.num_cases == totals["a"][view.revision]
    applying.join()
    assert found, "nothing was found without the lock"
    assert engine.revision == len(entries)


def test_revisions_must_follow():
    """A gap between revisions is a bug and raises."""
    engine = Engine(LIMITS)
    with pytest.raises(ValueError, match="revision 2 cannot follow 0"):
        engine.apply([Entry(2, 5, Kind.CREATE_STREAM, "a", "", 0, 0, None, StreamSettings())])


def test_streams_are_listed_in_pages():
    """In order of names, by prefix, after a name."""
    engine = Engine(LIMITS)
    names = ["a", "a/1", "a/2", "a-b", "b", "c"]
    engine.apply(
        [
            Entry(revision, 0, Kind.CREATE_STREAM, name, "", 0, 0, None, StreamSettings())
            for revision, name in enumerate(names, 1)
        ]
    )

    def listed(**options: object) -> list[str]:
        return [info.name for info in engine.streams(**options)]

    assert listed() == sorted(names)
    assert listed(limit=2) == ["a", "a-b"]
    assert listed(after="a-b", limit=2) == ["a/1", "a/2"]
    assert listed(prefix="a/") == ["a/1", "a/2"]
    assert listed(prefix="a/", after="a/1") == ["a/2"]
    assert listed(prefix="a/", after="b") == []
    assert listed(after="c") == []


def test_streams_are_measured_after_a_large_one(monkeypatch):
    """Whatever was measured in the midst of the entries, each stream is known at their end."""
    monkeypatch.setattr("streameval_server._core.engine._MAX_UNMEASURED_ROWS", 100)
    engine = Engine(LIMITS)
    entries = []
    for revision, (stream, size) in enumerate([("a", 150), ("b", 20), ("a", 150), ("c", 5)], 1):
        rows = CaseRows(np.ones(size, dtype=bool), np.arange(size) / size, None, size, size)
        entries.append(Entry(revision, NOW, Kind.BATCH, stream, "", 0, 0, rows))
    engine.apply(entries)
    states = {name: engine._streams[name] for name in ("a", "b", "c")}
    assert engine._sizes == {
        name: (state.memory_bytes, state.kept_ids) for name, state in states.items()
    }


def test_memory_is_estimated_from_above():
    """The estimate covers pending counts, panes and ids, and is 0 after deletion."""
    engine = Engine(LIMITS)
    rng = np.random.default_rng(1)
    rows = CaseRows(rng.random(1000) < 0.5, rng.random(1000), None, 1000, 1000)
    engine.apply([Entry(1, 0, Kind.BATCH, "a", "", 0, 0, rows)])
    most = 2 * (OVERHEAD_BYTES + 32 * 1024)
    assert 0 < engine.memory_bytes <= most
    engine.checkpoint(0)
    assert 0 < engine.memory_bytes <= most
    before = engine.memory_bytes
    predictions = PredictionRows([b"%d" % n for n in range(100)], rng.random(100), 100, 100)
    engine.apply([Entry(2, 0, Kind.BATCH, "a", "", 0, 0, predictions)])
    assert engine.memory_bytes >= before + 100 * 100
    assert engine.kept_ids == 100
    engine.apply([Entry(3, 0, Kind.DELETE_STREAM, "a", "", 0, 0, None)])
    assert (engine.memory_bytes, engine.kept_ids) == (0, 0)


@pytest.mark.parametrize(
    "parts",
    [{}, {"marks": b"x"}, {"marks": b"", "stream/a": b"x"}, {"marks": b"", "stream/a": bytes(60)}],
)
def test_damaged_parts_are_refused(parts):
    """A checkpoint that cannot be read must not become an empty state."""
    with pytest.raises(CorruptLogError):
        Engine.restore(LIMITS, 1, 1, LazyParts.holding(parts))


def test_a_deleted_stream_leaves_memory_at_once():
    """Counts, panes and ids are freed by reference counting, without the cycle collector."""
    rng = random.Random(4)
    ids = [b"%d" % i for i in range(300)]
    predictions = PredictionRows(ids, np.linspace(0, 1, 300), 300, 300)
    labels = LabelRows(ids[:200], np.arange(200) % 3 == 0, 200, 200)
    rows = [case_rows(rng), MissRows(1, 1, 1, 2), predictions, labels, case_rows(rng)]
    day_us = 24 * 3600 * 1_000_000
    entries = [
        Entry(revision, revision * day_us, Kind.BATCH, "a", "", 0, 0, each)
        for revision, each in enumerate(rows, start=1)
    ]
    engine = Engine(LIMITS)
    engine.apply(entries)
    assert engine.view("a").whole.panes
    engine.checkpoint(0)
    state = engine._streams["a"]
    parts = state, state.counts, state.counts.store, state.joins, state.joins.table
    left = [weakref.ref(each) for each in parts]
    del state, parts
    gc.disable()
    try:
        engine.apply([Entry(6, 6 * day_us, Kind.DELETE_STREAM, "a", "", 0, 0, None)])
        assert [each() for each in left] == [None] * 5
    finally:
        gc.enable()
    assert engine.memory_bytes == engine.kept_ids == 0
    engine.apply([Entry(7, 40 * day_us, Kind.TICK, "", "", 0, 0, None)])


def test_a_stream_may_be_deleted_and_made_again_at_once():
    """Within one call: what was scheduled for the first stream does not affect the second."""
    rng = random.Random(5)
    kinds = [Kind.BATCH, Kind.DELETE_STREAM, Kind.BATCH, Kind.DELETE_STREAM]
    rows = [case_rows(rng) if kind is Kind.BATCH else None for kind in kinds]
    entries = [
        Entry(revision, revision, kind, "a", "", 0, 0, each)
        for revision, (kind, each) in enumerate(zip(kinds, rows, strict=True), start=1)
    ]
    for size in (3, 4):
        engine = Engine(LIMITS)
        engine.apply(entries[:size])
        engine.apply([Entry(size + 1, 10**15, Kind.TICK, "", "", 0, 0, None)])
        assert (engine.stream("a") is None) == (size == 4)
        assert (engine.memory_bytes == 0) == (size == 4)


@pytest.mark.parametrize("looks", [(3,), (2, 3), (1,)])
def test_views_change_nothing(looks):
    """Rows from before a longer retention are in no pane; a view does not change that."""

    def lived(looks) -> dict[str, bytes]:
        short = StreamSettings(retention_us=3 * HOUR)
        state = StreamState(StreamInfo("s", NOW, 1, short), LIMITS, NOW)
        state.update(replace(short, retention_us=720 * HOUR), 2, NOW)
        scores = np.linspace(0, 1, 5)
        for revision in (3, 4):
            rows = CaseRows(scores > 0.5, scores, None, 5, 5, NOW - 24 * HOUR)
            state.take(rows, revision, NOW + revision)
            if revision - 2 in looks:
                state.view(revision, NOW)
        for hours in (6, 12):
            if state.due_us <= NOW + hours * HOUR:
                state.pass_time(NOW + hours * HOUR, 5, 1 << 40)
            if 3 in looks:
                state.view(revision, NOW)
        assert state.counts.beyond_retention == 10
        return dict(content_parts(state))

    assert lived(looks) == lived(())


def test_memory_is_known_when_panes_close():
    """Slices whose first pane is closed are new in the all-time counts."""
    values = tuple(map(str, range(30)))
    state = StreamState(StreamInfo("s", NOW, 1, StreamSettings(segment_keys=("c",))), LIMITS, NOW)
    scores = np.linspace(0, 1, 30)
    for minute in range(4):
        at_us = NOW + minute * 60 * 1_000_000
        codes = (SegmentCodes("c", values, np.arange(30, dtype=np.uint32)),)
        state.take(CaseRows(scores > 0.5, scores, None, 30, 30, at_us, codes), 2 + minute, at_us)
        state.counts.flush()
        known = state.memory_bytes
        state.counts.store.recount_memory()
        assert state.memory_bytes == known
