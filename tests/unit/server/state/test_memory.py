"""What a stream counts as its memory covers what Python and numpy allocated for it."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest

from streameval._counts.stored_counts import cells_of
from streameval.wire import SegmentCodes
from streameval_server import Limits
from streameval_server._core.producer_marks import Marks
from streameval_server._model.errors import Code, Refused
from streameval_server._model.row_kinds import CaseRows, LabelRows, PredictionRows
from streameval_server._model.stream_info import StreamInfo
from streameval_server._model.stream_settings import StreamSettings
from streameval_server._state.checkpoint_parts import content_parts
from streameval_server._state.counting import counts
from streameval_server._state.stream_state import StreamState

BUDGET = 1.25
NOW = 1_767_225_600_000_000
HOUR_US = 3_600_000_000
VALUES = tuple(f"{value:03}" for value in range(20))


def stream(keys: int) -> StreamState:
    settings = StreamSettings(segment_keys=tuple(f"key-{key}" for key in range(keys)))
    return StreamState(StreamInfo("s", NOW, 1, settings), Limits(), NOW)


def segments(rng: np.random.Generator, rows: int, keys: int) -> tuple[SegmentCodes, ...]:
    codes = rng.integers(0, len(VALUES), (keys, rows)).astype(np.uint16)
    return tuple(SegmentCodes(f"key-{key}", VALUES, column) for key, column in enumerate(codes))


def cases(rng: np.random.Generator, rows: int, keys: int, hours: float) -> CaseRows:
    labels = rng.random(rows) < 0.2
    times = NOW - (rng.random(rows) * hours * HOUR_US).astype(np.int64)
    scores = rng.normal(size=rows) + labels
    return CaseRows(labels, scores, None, rows, rows, times, segments(rng, rows, keys))


def sliced_panes(state: StreamState, rng: np.random.Generator) -> None:
    for revision in range(2, 6):
        state.take(cases(rng, 1_300, 4, 0.95), revision, NOW)


def thin_additions(state: StreamState, rng: np.random.Generator) -> None:
    for revision in range(2, 32):
        state.take(cases(rng, 300, 4, 0.01), revision, NOW)
        state.counts.count()


def waiting_pieces(state: StreamState, rng: np.random.Generator) -> None:
    for revision in range(2, 202):
        state.take(cases(rng, 7, 4, 0.95), revision, NOW)


def labelled_ids(state: StreamState, rng: np.random.Generator) -> None:
    for revision in range(2, 12, 2):
        ids = [b"order-%d-%d" % (revision, row) for row in range(300)]
        times = NOW - (rng.random(300) * 0.95 * HOUR_US).astype(np.int64)
        columns = segments(rng, 300, 4)
        state.take(
            PredictionRows(ids, rng.normal(size=300), 300, 300, times, columns), revision, NOW
        )
        labels = LabelRows(ids, rng.random(300) < 0.1, 300, 300)
        state.take(labels, revision + 1, NOW + 60_000_000)


def waiting_ids(state: StreamState, rng: np.random.Generator) -> None:
    for revision in range(2, 12):
        ids = [b"order-%d-%d" % (revision, row) for row in range(2_000)]
        state.take(PredictionRows(ids, rng.random(2_000), 2_000, 2_000), revision, NOW)


def labels_of_many_panes(state: StreamState, rng: np.random.Generator) -> None:
    """Few predictions a minute, and labels in small batches, in any order."""
    state.keep_ids()
    ids = [b"order-%d" % row for row in range(4_000)]
    times = NOW - np.sort(rng.integers(0, 3 * HOUR_US, 4_000))
    state.take(PredictionRows(ids, rng.normal(size=4_000), 4_000, 4_000, times), 2, NOW)
    order = rng.permutation(4_000)
    for revision in range(3, 83):
        mine = [ids[row] for row in order[50 * (revision - 3) : 50 * (revision - 2)]]
        labels = LabelRows(mine, rng.random(50) < 0.1, 50, 50)
        state.take(labels, revision, NOW + revision * 60_000_000)
        if revision % 4 == 0:
            state.counts.count()


def one_pane_of_ids(state: StreamState, rng: np.random.Generator) -> None:
    """Many predictions of one minute, labelled later."""
    state.keep_ids()
    labelled_ids(state, rng)
    for revision in range(20, 30):
        ids = [b"order-%d-%d" % (revision, row) for row in range(2_000)]
        state.take(PredictionRows(ids, rng.random(2_000), 2_000, 2_000), revision, NOW)
        labels = LabelRows(ids[:1_000], rng.random(1_000) < 0.1, 1_000, 1_000)
        state.take(labels, revision, NOW + 60_000_000)


def all_time(state: StreamState, rng: np.random.Generator) -> None:
    for revision in range(2, 6):
        state.take(cases(rng, 20_000, 0, 0.001), revision, NOW)


@pytest.mark.parametrize(
    ("fill", "keys"),
    [
        (sliced_panes, 4),
        (thin_additions, 4),
        (waiting_pieces, 4),
        (labelled_ids, 4),
        (waiting_ids, 0),
        (labels_of_many_panes, 0),
        (one_pane_of_ids, 4),
        (all_time, 0),
    ],
)
@pytest.mark.slow
def test_a_stream_counts_what_it_takes(fill, keys):
    """Before and after its slices are counted, and with a view whose counts were merged."""
    # What is made once for all streams is not counted by any.
    fill(stream(keys), np.random.default_rng(1))
    gc.collect()
    tracemalloc.start()
    try:
        state = stream(keys)
        fill(state, np.random.default_rng(1))
        shares = [_share(state)]
        state.counts.flush()
        shares.append(_share(state))
        view = state.view(99, NOW)
        for segment in (None, *view.counts.names):
            part = view.slice(segment)
            for pane in () if part is None else part.panes:
                assert pane.evaluator is not None
        delays = view.counts.delays
        for rows in () if delays is None else delays.panes:
            assert rows.rows.counts.size
        shares.append(_share(state))
    finally:
        tracemalloc.stop()
    assert max(shares) <= BUDGET, shares
    assert state.total


def _share(state: StreamState) -> float:
    gc.collect()
    return tracemalloc.get_traced_memory()[0] / state.memory_bytes


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.slow
def test_marks_count_what_they_take(refused):
    """Also their refusals, and nothing once the producers are forgotten."""
    text = "x" * 300
    gc.collect()
    tracemalloc.start()
    try:
        marks = Marks(ttl_us=1_000_000)
        for number in range(3_000):
            why = Refused(Code.NOT_FOUND, text + str(number), ((text, text),)) if refused else None
            marks.record(
                f"{number:0100}", number + 10**15, number + 1_000, NOW, revision=number, refused=why
            )
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken <= BUDGET * marks.memory_bytes, (taken, marks.memory_bytes)
    again = Marks.from_bytes(marks.to_bytes(), 1_000_000)
    assert again.memory_bytes == marks.copy().memory_bytes == marks.memory_bytes
    marks.record("", 0, 0, NOW + 2_000_000)
    assert marks.memory_bytes == len(marks) == 0


@pytest.mark.slow
def test_rows_of_closed_panes_wait_together(monkeypatch):
    """They are counted in their slices when these are read, to the same bytes as at once."""

    def filled(max_rows: int) -> tuple[StreamState, int]:
        monkeypatch.setattr(counts, "_MAX_DEFERRED_ROWS", max_rows)
        state, rng = stream(3), np.random.default_rng(2)
        for revision in range(2, 5):
            state.take(cases(rng, 3_000, 3, 1.0), revision, NOW)
        state.counts.count()
        panes = [pane.content for pane in state.counts.store.panes]
        return state, sum(content.deferred.size for content in panes)

    at_once, none = filled(0)
    later, waiting = filled(1 << 30)
    assert (none, waiting) == (0, 9_000)
    while later.counts.has_collected:
        later.counts.count_idle()
    assert dict(content_parts(later)) == dict(content_parts(at_once))
    before = later.memory_bytes
    later.counts.store.recount_memory()
    assert later.memory_bytes == before


@pytest.mark.parametrize("keys", [0, 2])
@pytest.mark.slow
def test_closed_panes_are_packed_in_idle_time(keys):
    """The same bytes and answers in less memory; late rows open what they change."""
    state, rng = stream(keys), np.random.default_rng(4)
    peer, again = stream(keys), np.random.default_rng(4)
    for revision in range(2, 5):
        state.take(cases(rng, 3_000, keys, 2.9), revision, NOW)
        peer.take(cases(again, 3_000, keys, 2.9), revision, NOW)
        view = state.counts.frozen({})
        kept = [pane.state for pane in view.slice(0).panes]
        before = state.memory_bytes
        while state.counts.has_collected:
            state.counts.count_idle()
        assert state.memory_bytes < before
        # A view that was taken before reads the same states, which are packed now.
        assert [pane.state for pane in state.counts.frozen({}).slice(0).panes] == kept
        assert all(cells_of(each) is not None for each in kept)
        assert dict(content_parts(state)) == dict(content_parts(peer))
        counted = state.memory_bytes
        state.counts.store.recount_memory()
        assert state.memory_bytes == counted
    for pane in state.counts.frozen({}).slice(0).panes:
        pane.state._check()


@pytest.mark.heavy
def test_the_memory_of_packed_panes_is_counted():
    """Panes of a few and of many cases, with slices, that were read before."""
    tracemalloc.start()
    try:
        state, rng = stream(1), np.random.default_rng(5)
        for revision in range(2, 12):
            state.take(cases(rng, 20_000, 1, 2.9), revision, NOW)
        state.counts.frozen({})
        while state.counts.has_collected:
            state.counts.count_idle()
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken <= BUDGET * state.memory_bytes, (taken, state.memory_bytes)
