"""Rows of closed panes wait for their slices, and end in the same bytes as if they did not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval.kernel import Tally
from streameval.wire import SegmentCodes
from streameval_server import Limits
from streameval_server._model.row_kinds import (
    CaseRows,
    LabelRows,
    MissRows,
    PredictionRows,
    RetractionRows,
)
from streameval_server._model.stream_info import StreamInfo
from streameval_server._model.stream_settings import StreamSettings
from streameval_server._state.checkpoint_parts import content_parts
from streameval_server._state.stream_state import StreamState

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = 1_767_225_600_000_000
HOUR_US = 3_600_000_000
VALUES = tuple("abc")


def stream(keys: int, pane_cells: int = 16_384) -> StreamState:
    settings = StreamSettings(segment_keys=tuple(f"key-{key}" for key in range(keys)))
    return StreamState(
        StreamInfo("s", NOW, 1, settings), Limits(pane_cells=pane_cells), NOW - HOUR_US
    )


def run(
    state: StreamState, seed: int, hours: float, after: Callable[[StreamState, int], object]
) -> dict[str, bytes]:
    """Apply random rows, most of them labels that change; return the content."""
    rng, now, ids, keys = np.random.default_rng(seed), NOW, 0, len(state.segments.keys)
    for revision in range(2, 26):
        now += int(rng.integers(0, 90_000_000))
        while state.due_us <= now:
            state.pass_time(now, revision, 1_000)
        size = int(rng.integers(1, 60))
        times = now - (rng.random(size) * hours * HOUR_US).astype(np.int64)
        segments = tuple(
            SegmentCodes(f"key-{key}", VALUES, rng.integers(0, 3, size).astype(np.uint16))
            for key in range(keys)
        )
        kind = rng.choice(["cases", "predictions", "labels", "retractions", "misses"],
                          p=[0.2, 0.25, 0.35, 0.1, 0.1])  # fmt: skip
        scores, labels = rng.normal(size=size), rng.random(size) < 0.4
        if kind == "cases":
            rows = CaseRows(labels, scores, None, size, size, times, segments)
        elif kind == "predictions" or not ids:
            names = [b"id-%d" % number for number in range(ids, ids + size)]
            ids += size
            rows = PredictionRows(names, scores, size, size, times, segments)
        elif kind == "misses":
            rows = MissRows(1, 2, 1, 3, int(times[0]))
        else:
            names = [b"id-%d" % number for number in set(rng.integers(0, ids, size).tolist())]
            rows = (
                RetractionRows(names, len(names))
                if kind == "retractions"
                else LabelRows(names, labels[: len(names)], len(names), len(names))
            )
        state.take(rows, revision, now)
        after(state, revision)
    return dict(content_parts(state))


@pytest.mark.parametrize("hours", [0.02, 0.3, 3.2])
@pytest.mark.parametrize("pane_cells", [16, 16_384])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.slow
def test_counting_late_gives_the_same_bytes(seed, pane_cells, hours):
    """Read after each entry, in idle time, or never; also where caps make the order matter."""
    afters = (
        lambda state, _revision: state.counts.flush(),
        lambda state, revision: revision % 3 or state.counts.count_idle(),
        lambda state, revision: revision % 7 or state.counts.flush(),
        lambda _state, _revision: None,
    )
    at_once, *later = [run(stream(2, pane_cells), seed, hours, after) for after in afters]
    assert all(content == at_once for content in later)


def test_labels_that_change_are_counted_in_each_slice_once(monkeypatch):
    """Ten labels of each of 50 ids, spread over panes, change each slice by one merge."""
    state, rng = stream(3), np.random.default_rng(5)
    ids = [b"id-%d" % number for number in range(50)]
    times = NOW - (rng.random(50) * 2 * HOUR_US).astype(np.int64)
    segments = tuple(
        SegmentCodes(f"key-{key}", VALUES, rng.integers(0, 3, 50).astype(np.uint16))
        for key in range(3)
    )
    state.take(PredictionRows(ids, rng.normal(size=50), 50, 50, times, segments), 2, NOW)
    merged = []
    exchange, remove = Tally.exchange, Tally.remove
    monkeypatch.setattr(Tally, "exchange", lambda *args: merged.append(args[0]) or exchange(*args))
    monkeypatch.setattr(Tally, "remove", lambda *args: merged.append(args[0]) or remove(*args))
    labels = np.arange(50) % 2 == 0
    for revision in range(3, 13):
        labels = ~labels
        state.take(LabelRows(ids, labels, 50, 50), revision, NOW + revision)
    slices = {id(pane.content.parts[0].counts) for pane in state.counts.store.panes}
    slices.add(id(state.counts.store.whole.counts))
    before = len(merged)
    assert {id(each) for each in merged} == slices
    state.counts.flush()
    assert len(merged) == before, "each label is new to its slices, so nothing is removed from them"
    whole = state.view(13, NOW).whole.all_time._view().counts
    assert (whole.positives.total, whole.negatives.total) == (labels.sum(), (~labels).sum())


def test_rows_that_create_a_pane_may_remove_what_waits():
    """An entry changes a label that no slice has counted yet, and begins a new pane."""
    state, ids = stream(1), [b"id-0", b"id-1", b"id-2"]
    times = NOW - np.arange(3) * HOUR_US // 2
    codes = (SegmentCodes("key-0", VALUES, np.zeros(3, dtype=np.uint16)),)
    state.take(PredictionRows(ids, np.full(3, 0.5), 3, 3, times, codes), 2, NOW)
    state.take(LabelRows(ids, np.full(3, True), 3, 3), 3, NOW)
    state.counts.count()
    assert state.counts.has_uncounted
    changed = LabelRows(
        [b"id-0", b"id-3"], np.array([False, True]), 2, 2, NOW - HOUR_US // 4, np.full(2, 0.5)
    )
    state.take(changed, 4, NOW)
    state.counts.flush()
    slices = [part.counts.state().counts for part in state.counts.store.slices.values()]
    found = [(each.positives.total, each.negatives.total) for each in slices]
    assert found == [(3, 1), (1, 0), (2, 1)], "the whole; without a value; with one"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_counting_waiting_rows_grows_nothing(seed):
    """What slices will take is counted when rows arrive, not when a query counts them."""
    rng, state = np.random.default_rng(seed), stream(4)
    for revision in range(2, 8):
        size = 800
        times = NOW - (rng.random(size) * 2.9 * HOUR_US).astype(np.int64)
        segments = tuple(
            SegmentCodes(f"key-{key}", VALUES, rng.integers(0, 3, size).astype(np.uint16))
            for key in range(4)
        )
        ids = [b"id-%d-%d" % (revision, row) for row in range(size)]
        scores = rng.normal(size=size)
        if revision % 2:
            rows = PredictionRows(ids, scores, size, size, times, segments)
        else:
            rows = CaseRows(scores > 1, scores, None, size, size, times, segments)
        state.take(rows, revision, NOW)
        before = state.memory_bytes
        state.counts.flush()
        assert state.memory_bytes <= before
        assert state.memory_bytes > 0.2 * before
