"""Panes of a checkpoint stay bytes until they are read, and are verified when they are restored."""

from __future__ import annotations

import gc
import struct
import weakref
import zlib

import numpy as np
import pytest

from streameval import Evaluator
from streameval.kernel import StoredCounts
from streameval_server import Limits
from streameval_server._core import recovery
from streameval_server._core.engine import Engine
from streameval_server._core.entries import Entry
from streameval_server._core.recovery import open_core
from streameval_server._log.checkpoint import LazyParts
from streameval_server._log.rows import Kind
from streameval_server._log.storage import MemoryStorage
from streameval_server._model.errors import CorruptLogError
from streameval_server._model.row_kinds import CaseRows
from streameval_server._model.stream_info import StreamInfo
from streameval_server._model.stream_settings import StreamSettings
from streameval_server._state.checkpoint_parts import content_parts, export_parts
from streameval_server._state.stream_parts import restore_stream, verify_counts
from streameval_server._state.stream_state import StreamState

LIMITS = Limits()
NOW = 1_767_225_600_000_000
MINUTE_US = 60_000_000
PANES = 10


def case_rows(rng: np.random.Generator, rows: int, panes: int = PANES) -> CaseRows:
    """Return cases of the last minutes."""
    times = NOW - rng.integers(0, panes * MINUTE_US, rows)
    return CaseRows(rng.random(rows) < 0.3, rng.normal(size=rows), None, rows, rows, times)


def filled(rows: int, settings: StreamSettings) -> StreamState:
    """Return a stream of some cases in each of ten panes."""
    state = StreamState(StreamInfo("s", NOW, 1, settings), LIMITS, NOW)
    state.take(case_rows(np.random.default_rng(rows), rows), 2, NOW)
    return state


def restored(state: StreamState, revision: int = 2) -> StreamState:
    """Return it from its parts, as a start does."""
    unverified: list[StoredCounts] = []
    parts = {part: data() for part, data in export_parts(state)}
    again = restore_stream(LIMITS, revision, parts, unverified)
    verify_counts(unverified)
    return again


def unread(state: StreamState) -> int:
    """Return how many panes are bytes that nothing has read."""
    return sum(isinstance(content._parts, bytes) for content in state.counts.store.panes.contents())


@pytest.mark.parametrize("scale", ["plain", "probability"])
@pytest.mark.parametrize("rows", [60, 6_000])
def test_unread_panes_are_those_that_were_written(rows, scale):
    """The same bytes, number and memory, before they are read and after it."""
    state = StreamState(StreamInfo("s", NOW, 1, StreamSettings(scale=scale)), LIMITS, NOW)
    given = case_rows(np.random.default_rng(rows), rows)
    scores = 1 / (1 + np.exp(-given.scores))
    state.take(CaseRows(given.labels, scores, None, rows, rows, given.event_us), 2, NOW)
    again = restored(state)
    panes, memory_bytes = again.counts.store.num_panes, again.memory_bytes
    assert unread(again) == panes == state.counts.store.num_panes >= PANES
    again.counts.store.recount_memory()
    assert again.memory_bytes == memory_bytes
    assert dict(content_parts(again)) == dict(content_parts(state))
    assert unread(again) == 0
    again.counts.store.recount_memory()
    assert again.memory_bytes == memory_bytes
    for pane in again.counts.frozen({}).slice(0).panes:
        pane.state._check()


def test_rows_and_time_after_a_start_meet_the_panes():
    """Late rows, a coarser pane and expiry leave the same bytes as without the start."""
    settings = StreamSettings()
    plain, again = filled(60, settings), restored(filled(60, settings))
    for state in (plain, again):
        state.take(case_rows(np.random.default_rng(9), 50, panes=2), 3, NOW)
        state.counts.flush()
    assert unread(again) >= PANES - 3
    assert dict(content_parts(plain)) == dict(content_parts(restored(again, 3)))
    again = restored(plain, 3)
    for now_us in (NOW + 4 * 60 * MINUTE_US, NOW + 31 * 24 * 60 * MINUTE_US):
        for state in (plain, again):
            state.on_time(now_us)
        assert dict(content_parts(again)) == dict(content_parts(plain))
    assert again.counts.store.num_panes == 0


@pytest.mark.parametrize("rows", [60, 60_000])
def test_idle_time_opens_no_pane(rows):
    """A start with many panes has nothing to do when it is idle: they are packed already."""
    again = restored(filled(rows, StreamSettings()))
    panes = unread(again)
    assert panes >= PANES
    while again.counts.has_collected:
        again.counts.count_idle()
    assert unread(again) == panes


def test_streams_of_the_same_settings_share_them() -> None:
    """Those that are written in the same way, to the sign of a zero; others have their own."""
    given = [
        StreamSettings(),
        StreamSettings(),
        StreamSettings(threshold=0.0),
        StreamSettings(threshold=-0.0),
    ]
    first, second, zero, negative = (restored(filled(60, settings)) for settings in given)
    assert first.info.settings is second.info.settings
    for state, settings in zip((first, second, zero, negative), given, strict=True):
        assert repr(state.info.settings) == repr(settings)
        assert dict(content_parts(state)) == dict(content_parts(filled(60, settings)))


def engine_of(rows: int) -> Engine:
    """Return an engine of one stream, at revision 1."""
    engine = Engine(LIMITS)
    taken = case_rows(np.random.default_rng(rows), rows)
    engine.apply([Entry(1, NOW, Kind.BATCH, "s", "", 0, 0, taken)])
    return engine


def test_a_checkpoint_leaves_unread_panes_as_they_are():
    """They are unchanged, and their bytes are not encoded again; the state is the same."""
    engine = engine_of(60)
    written = dict(engine.checkpoint(0).changed)
    again = Engine.restore(LIMITS, 1, NOW, LazyParts.holding(written))
    panes = unread(again._streams["s"])
    checkpoint = again.checkpoint(1)
    assert unread(again._streams["s"]) == panes >= PANES
    assert set(checkpoint.unchanged) == written.keys() - {"marks"}
    assert again.memory_bytes == sum(size for size, _ in again._sizes.values())
    assert again.state_hash() == engine.state_hash()


def test_wrong_counts_of_a_pane_are_found_at_the_start():
    """Behind right checksums: at the start, where the log can be replayed, not in a query."""
    written = dict(engine_of(60).checkpoint(0).changed)
    wrong = Evaluator(resolution=12, max_cells=16_384)
    wrong.add_cases(labels=[True, True], scores=[0.5, 0.75])
    body = wrong.to_bytes()[:-12] + struct.pack("<ff", 0.75, 0.5)
    sealed = body + struct.pack("<I", zlib.crc32(body))
    part = next(part for part in written if part.startswith("pane/"))
    written[part] = struct.pack("<IIII", 0, len(sealed), 0, 0) + sealed
    with pytest.raises(CorruptLogError, match=r"cannot be read: .* not finite and ascending"):
        Engine.restore(LIMITS, 1, NOW, LazyParts.holding(written))
    for length in (0, 3, 16, 40):
        written[part] = struct.pack("<IIII", 0, length, 0, 0)[: max(length, 3)]
        with pytest.raises(CorruptLogError, match="a stream in the checkpoint cannot be read"):
            Engine.restore(LIMITS, 1, NOW, LazyParts.holding(written))


def test_the_objects_of_a_great_checkpoint_are_not_collected_but_freed(monkeypatch):
    """Python's collector leaves them alone, and a stream that is deleted leaves memory."""
    monkeypatch.setattr(recovery, "_MIN_FROZEN_OBJECTS", 0)
    before = gc.get_freeze_count()
    try:
        core = open_core(MemoryStorage(), LIMITS)
        assert gc.isenabled()
        assert gc.get_freeze_count() > before
        written = dict(engine_of(60).checkpoint(0).changed)
        with recovery._without_collector():
            engine = Engine.restore(LIMITS, 1, NOW, LazyParts.holding(written))
        left = weakref.ref(engine._streams["s"])
        engine.apply([Entry(2, NOW, Kind.DELETE_STREAM, "s", "", 0, 0, None)])
        assert left() is None
        core.storage.close()
    finally:
        gc.unfreeze()
