"""Queries keep little: one slice's windows at a time, and bounded answers."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from dataclasses import replace

import numpy as np
import pytest

from streameval import Evaluator, Window
from streameval._time import window_cache
from streameval.v1 import query_pb2
from streameval.wire import SegmentCodes
from streameval_server import Limits
from streameval_server._model.row_kinds import CaseRows, PredictionRows
from streameval_server._model.stream_info import StreamInfo
from streameval_server._model.stream_settings import DEFAULTS
from streameval_server._queries.derived_answers import DerivedAnswers
from streameval_server._queries.label_sample import label_sample, parse_label_sample_request
from streameval_server._queries.query_engine import QueryEngine, parse_snapshot_request, snapshot
from streameval_server._queries.ranking import parse_ranking_request, ranking
from streameval_server._state.stream_state import StreamState

NOW = 1_767_225_600_000_000
HOUR_US = 3_600_000_000
VALUES = tuple(f"{value:02}" for value in range(12))


@pytest.fixture(scope="module")
def view():
    """Return a stream of twelve slices in sixty panes."""
    settings = replace(DEFAULTS, segment_keys=("k",))
    state = StreamState(StreamInfo("s", NOW, 1, settings), Limits(), NOW)
    rng = np.random.default_rng(1)
    labels = rng.random(6_000) < 0.3
    codes = SegmentCodes("k", VALUES, rng.integers(0, 12, 6_000).astype(np.uint16))
    times = NOW - (rng.random(6_000) * HOUR_US).astype(np.int64)
    scores = rng.normal(size=6_000) + labels
    state.take(CaseRows(labels, scores, None, 6_000, 6_000, times, (codes,)), 2, NOW)
    return state.view(2, NOW)


def engine_of(view, **options) -> QueryEngine:
    return QueryEngine(lambda _: view, lambda: NOW, **options)


def test_a_ranking_holds_the_windows_of_one_slice(view, monkeypatch):
    """The rest of each slice is as large as the whole: only one is in memory."""
    alive: list[weakref.ref[object]] = []
    most = 0
    without = Window.without

    def noted(self: Window, part: Window) -> Window:
        nonlocal most
        gc.collect()
        most = max(most, sum(each() is not None for each in alive))
        found = without(self, part)
        alive.append(weakref.ref(found._view()))
        return found

    monkeypatch.setattr(Window, "without", noted)
    request = query_pb2.RankSegmentsRequest(key="k")
    request.selection.stream = "s"
    request.selection.last.FromSeconds(3_600)
    answer = ranking(engine_of(view), parse_ranking_request(request))
    assert len(answer.segments) == len(alive) == len(VALUES)
    assert all(each.HasField("p_value") for each in answer.segments)
    assert most <= 1


def test_states_forget_answers_beyond_the_limit():
    """The least recently used first; a collected state is not counted, and a query can repeat."""
    rng = np.random.default_rng(2)
    states = []
    for _ in range(6):
        ev = Evaluator()
        ev.add_cases(labels=rng.random(2_000) < 0.5, scores=rng.random(2_000))
        states.append(ev._view())
    derived = DerivedAnswers(100_000)
    wanted = []
    for state in states:
        derived.use(state)
        wanted.append(Evaluator._of(state).auc_pr())
    derived.end()
    sizes = [state.derived_bytes() for state in states]
    assert sizes[0] < 1_000
    assert sizes[-1] > 20_000
    assert sum(sizes[-2:]) <= derived.memory_bytes <= 100_000
    assert [Evaluator._of(state).auc_pr() for state in states] == wanted
    del state, ev
    states.clear()
    gc.collect()
    assert derived.memory_bytes == 0


def test_caches_count_what_they_hold_and_stay_within_their_limit(view):
    """Whatever is asked, and a small limit changes no answer."""
    large, small = engine_of(view), engine_of(view, max_cache_bytes=400_000)
    for seconds in range(60, 3_600, 240):
        request = query_pb2.GetSnapshotRequest()
        request.selection.stream = "s"
        request.selection.last.FromSeconds(seconds)
        question = parse_snapshot_request(request)
        answers = [snapshot(each, question) for each in (large, small)]
        assert answers[0] == answers[1]
        for each in (large, small):
            each.end()
    # The newest value of a cache may exceed its share alone.
    assert 0 < small.memory_bytes < 1_000_000 < large.memory_bytes


@pytest.mark.parametrize("max_cells", [300, 16_384])
def test_many_panes_are_summed_a_few_at_a_time(max_cells):
    """The sum is that of all at once, to the bit, also where a pane has lost bits."""
    rng = np.random.default_rng(3)
    states = []
    for number in range(40):
        ev = Evaluator(resolution=12, max_cells=max_cells)
        labels = rng.random(900) < 0.4
        ev.add_cases(labels=labels, scores=rng.normal(size=900) * 10.0 ** (number % 5))
        states.append(ev._view())
    at_once = window_cache._merged(states, max_cells=1_000_000)
    assert window_cache._merged(states, max_cells=1_500).same_content(at_once)
    assert at_once.total == 36_000


def test_a_draw_of_labels_takes_less_than_the_ids_that_wait():
    """The ids are objects a part at a time: with the stream's memory within what is counted."""
    number = 400_000
    stream = StreamState(StreamInfo("s", 0, 1, DEFAULTS), Limits(), 0)
    scores = np.random.default_rng(1).normal(size=number)
    ids = [b"order-%d" % row for row in range(number)]
    stream.take(PredictionRows(ids, scores, number, number), 2, 1_000_000)
    view, before = stream.view(2, 1_000_000), stream.memory_bytes
    request = query_pb2.SampleForLabelsRequest(size=1_000, seed=7, draw_ids=True)
    request.selection.stream = "s"
    asked = parse_label_sample_request(request)
    tracemalloc.start()
    found = label_sample(
        QueryEngine(lambda _: view, lambda: 1_000_000, waiting=lambda _: (view, stream.waiting())),
        asked,
    )
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found.ids) == 1_000
    assert taken < 100 * number
    assert taken < before
