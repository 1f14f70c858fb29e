"""Panes that are not changed any more are kept as their counts alone, and made anew by a change."""

from __future__ import annotations

import numpy as np
import pytest

from streameval import Evaluator
from streameval._counts.stored_counts import cells_of, pack
from streameval.kernel import LazyCounts, State
from streameval.wire import SegmentCodes
from streameval_server import Limits
from streameval_server._core.engine import Engine
from streameval_server._core.entries import Entry
from streameval_server._log.rows import Kind
from streameval_server._model.row_kinds import CaseRows, LabelRows, PredictionRows
from streameval_server._model.stream_info import StreamInfo
from streameval_server._model.stream_settings import StreamSettings
from streameval_server._state.checkpoint_parts import content_parts
from streameval_server._state.stream_state import StreamState
from streameval_server._state.views import PaneView

NOW = 1_767_225_600_000_000
MINUTE_US = 60_000_000
PANES = 12


def stream(settings: StreamSettings | None = None) -> StreamState:
    """Return an empty stream."""
    return StreamState(StreamInfo("s", NOW, 1, settings or StreamSettings()), Limits(), NOW)


def cases(rows: int, seed: int, segments: tuple[SegmentCodes, ...] = ()) -> CaseRows:
    """Return cases of the last minutes."""
    rng = np.random.default_rng(seed)
    times = NOW - rng.integers(0, PANES * MINUTE_US, rows)
    return CaseRows(
        rng.random(rows) < 0.3, rng.normal(size=rows), None, rows, rows, times, segments
    )


def count_idle(state: StreamState) -> None:
    """Do what is done in idle time."""
    while state.counts.has_collected:
        state.counts.count_idle()


def resting(state: StreamState) -> list[bool]:
    """Return which panes are at rest, oldest first."""
    return [content.is_resting for content in state.counts.store.panes.contents()]


def check_memory(state: StreamState) -> None:
    """Check that the memory that changes added up is that of all parts."""
    counted = state.memory_bytes
    state.counts.store.recount_memory()
    assert state.memory_bytes == counted


def states_of(state: StreamState) -> list[State]:
    """Return the counts of each pane, as a view has them."""
    return [pane.state for pane in state.counts.frozen({}).slice(0).panes]


def test_a_view_reads_panes_at_rest_and_late_rows_open_those_they_change() -> None:
    """States stay the same objects while a pane rests; counts are those of a stream without."""
    state, peer = stream(), stream()
    for each in (state, peer):
        each.take(cases(3_000, 1), 2, NOW)
        each.counts.flush()
    before = states_of(state)
    assert not any(resting(state))
    counted = state.memory_bytes
    count_idle(state)
    assert all(resting(state))
    assert state.memory_bytes < counted
    check_memory(state)
    assert all(map(isinstance, state.counts.frozen({}).panes, [dict] * PANES))
    for revision, seed in ((3, 2), (4, 3)):
        late = cases(4, seed)
        for each in (state, peer):
            each.take(late, revision, NOW)
            each.counts.count()
        changed = set(((NOW - late.event_us) // MINUTE_US).tolist())
        assert resting(state).count(False) == len(changed) <= 4
        check_memory(state)
        after = states_of(state)
        same = [old is new for old, new in zip(before, after, strict=True)]
        assert same == resting(state)
        assert dict(content_parts(state)) == dict(content_parts(peer))
        count_idle(state)
        assert all(resting(state))
        assert all(map(lambda a, b: a is b, states_of(state), after))
        views = state.counts.frozen({}).panes
        assert sum(isinstance(pane, PaneView) for pane in views) == PANES - len(changed)
        assert dict(content_parts(state)) == dict(content_parts(peer))
        before = after
    for pane in before:
        pane._check()


def test_counts_that_two_threads_merge_have_one_state() -> None:
    """The first: that is the one that is packed, whatever the slower thread has merged."""
    packed: list[State] = []
    is_first = True

    def merged(source: Evaluator) -> State:
        nonlocal is_first
        found = Evaluator._view(Evaluator.from_bytes(source.to_bytes()))
        if is_first:  # another thread merges meanwhile, and packs its state
            is_first = False
            packed.append(counts.state)
            pack(packed[0])
        return found

    evaluator = Evaluator(resolution=12)
    evaluator.add_cases(labels=[True, False], scores=[0.75, 0.25])
    counts = LazyCounts(evaluator, merged)
    assert counts.state is packed[0]
    assert cells_of(counts.state) is not None


def test_rows_of_panes_at_rest_grow_no_more_than_was_counted_when_they_came() -> None:
    """What makes a pane anew is counted with the rows, before they are."""
    state = stream()
    state.take(cases(100, 1), 2, NOW)
    state.counts.flush()
    count_idle(state)
    assert all(resting(state))
    state.take(cases(200, 2), 3, NOW)
    promised = state.memory_bytes
    state.counts.flush()
    assert not any(resting(state))
    assert state.memory_bytes <= promised
    check_memory(state)


def test_time_merges_and_drops_panes_at_rest() -> None:
    """They coarsen and expire as panes that have all of their objects."""
    state, peer = stream(), stream()
    for each in (state, peer):
        each.take(cases(500, 5), 2, NOW)
        each.counts.flush()
    count_idle(state)
    for hours, panes in ((5, 1), (800, 0)):
        for each in (state, peer):
            each.on_time(NOW + hours * 60 * MINUTE_US)
        assert len(resting(state)) == panes
        assert dict(content_parts(state)) == dict(content_parts(peer))
        check_memory(state)
        count_idle(state)
        assert all(resting(state))


@pytest.mark.parametrize("kind", ["slices", "labels by id", "open"])
def test_panes_of_more_than_their_counts_do_not_rest(kind: str) -> None:
    """Slices, what is known of labels by id, and panes that are still filled."""
    keys = ("country",) if kind == "slices" else ()
    state = stream(StreamSettings(segment_keys=keys))
    if kind == "slices":
        codes = (np.arange(300) % 2).astype(np.uint16)
        state.take(cases(300, 1, (SegmentCodes("country", ("de", "fr"), codes),)), 2, NOW)
    elif kind == "open":
        rows = cases(300, 1)
        rows = CaseRows(rows.labels, rows.scores, None, 300, 300, np.full(300, NOW - MINUTE_US))
        state.take(rows, 2, NOW)
    else:
        ids = [b"%d" % row for row in range(300)]
        times = cases(300, 1).event_us
        state.take(PredictionRows(ids, np.arange(300) / 300, 300, 300, times), 2, NOW)
        state.take(LabelRows(ids, np.arange(300) % 3 == 0, 300, 300), 3, NOW)
    state.counts.flush()
    count_idle(state)
    assert resting(state)
    assert not any(resting(state))
    check_memory(state)


@pytest.mark.parametrize(
    "settings", [StreamSettings(cluster_groups=4), StreamSettings()], ids=["clusters", "weights"]
)
def test_counts_that_are_not_packed_rest_as_they_are(settings: StreamSettings) -> None:
    """Those by groups of clusters, and sums of weights: the same states, without the rest."""
    state, rows = stream(settings), cases(300, 1)
    if settings.cluster_groups:
        clusters = np.arange(300, dtype=np.uint64)
        rows = CaseRows(rows.labels, rows.scores, None, 300, 300, rows.event_us, clusters=clusters)
    else:
        units = np.full(300, 3 << 15)
        rows = CaseRows(rows.labels, rows.scores, None, 300, 300, rows.event_us, units=units)
    state.take(rows, 2, NOW)
    before = states_of(state)
    want = dict(content_parts(state))
    count_idle(state)
    assert all(resting(state))
    check_memory(state)
    assert not state.counts.has_collected
    assert all(map(lambda a, b: a is b, states_of(state), before))
    assert dict(content_parts(state)) == want


def test_panes_that_a_view_filled_are_packed_in_the_next_idle_time() -> None:
    """Few rows are counted by a view at first; then nothing else would pack their panes."""
    engine = Engine(Limits())
    engine.apply([Entry(1, NOW, Kind.BATCH, "s", "", 0, 0, cases(60, 1))])
    engine.merge()
    assert not engine.has_collected
    view = engine.view("s")
    assert view is not None
    held = [pane.state for pane in view.whole.panes]
    while engine.has_collected:
        engine.count()
    assert all(cells_of(state) is not None for state in held)
    assert all(resting(engine._streams["s"]))
    assert engine.memory_bytes < view.counters.state_bytes
    assert not engine.has_collected


def test_idle_time_packs_a_few_panes_at_a_time() -> None:
    """However many streams a reader has looked at, a query waits for some milliseconds."""
    engine = Engine(Limits())
    names = [f"stream-{number}" for number in range(20)]
    for revision, name in enumerate(names, start=1):
        engine.apply([Entry(revision, NOW, Kind.BATCH, name, "", 0, 0, cases(60, revision))])
    engine.merge()
    for name in names:
        engine.view(name)
    panes, packed = sum(len(resting(engine._streams[name])) for name in names), 0
    while engine.has_collected:
        engine.count()
        now = sum(sum(resting(engine._streams[name])) for name in names)
        assert packed < now <= packed + 8
        packed = now
    assert packed == panes > 200
