"""Counts in a table equal those of an evaluator, whenever they are read or changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streameval import Evaluator
from streameval._counts import additions, tally
from streameval._counts import cell_layout as layout
from streameval._counts.cell_layout import Layout, Span, cell_keys
from streameval._counts.resolution import MAX_BITS
from streameval.kernel import State, Tally, UnsortedCases, quantise
from streameval_server import Limits
from streameval_server._model.row_kinds import LabelRows, PredictionRows
from streameval_server._model.stream_info import StreamInfo
from streameval_server._model.stream_settings import DEFAULTS
from streameval_server._state.counting.counts import StreamCounts
from streameval_server._state.stream_state import StreamState

if TYPE_CHECKING:
    from streameval.kernel import LazyCounts, Scale

MINUTE = 60_000_000
NOW = 1_000 * MINUTE

SCORES = st.one_of(
    st.floats(-4, 4, width=16),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 1.7976931348623157e308]),
)
PROBABILITIES = st.one_of(st.floats(0, 1), st.sampled_from([0.0, -0.0, 0.5, 1.0, 1 - 2**-53]))


@pytest.fixture(autouse=True)
def _tables_for_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merge and use tables from three cases on."""
    monkeypatch.setattr(tally, "_MIN_PENDING_SCORES", 2)
    monkeypatch.setattr(additions, "_MAX_SORTED_CASES", 2)


def loose(cases: list[tuple[bool, float]]) -> UnsortedCases:
    return UnsortedCases(
        np.array([positive for positive, _ in cases], dtype=np.bool_),
        np.array([score for _, score in cases], dtype=np.float64),
        None,
    )


@given(scores=st.lists(SCORES, min_size=1), bits=st.integers(1, MAX_BITS))
def test_a_place_is_a_cell(scores: list[float], bits: int) -> None:
    """Places ascend with cells and lie within the table, and each place gives its cell's edge."""
    column = np.array(scores)
    keys = cell_keys(column, "plain")
    table = Layout.of(Span.of(keys), bits, "plain")
    assume(not table.is_sparse(1 << 40))
    places = table.places(keys)
    assert places.min() >= 0
    assert places.max() < table.width
    order = np.argsort(places, kind="stable")
    assert table.edges(places[order]).tolist() == quantise(column, bits)[order].tolist()


@given(
    parts=st.lists(st.lists(SCORES, min_size=1), min_size=2, max_size=4),
    bits=st.integers(1, 20),
)
def test_a_wider_table_has_the_places_of_a_narrower(parts: list[list[float]], bits: int) -> None:
    """A table may grow at either end."""
    span = Span(None, None)
    for part in parts:
        keys = cell_keys(np.array(part), "plain")
        narrow = Layout.of(Span.of(keys), bits, "plain")
        span = span.union(Span.of(keys))
        wide = Layout.of(span, bits, "plain")
        if not narrow.is_sparse(0):
            places = np.full(narrow.width, -1)
            for there, here in wide.slices_of(narrow):
                places[here] = np.arange(there.start, there.stop)
            assert places[narrow.places(keys)].tolist() == wide.places(keys).tolist()
            assert (places >= 0).all()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add", "add sorted", "add counted"]),
        st.sampled_from(["", "", "freeze", "look", "miss", "remove", "due"]),
        st.integers(0, 2**32 - 1),
    ),
    max_size=14,
)


@pytest.mark.parametrize("wide", [1 << 17, 40], ids=["tables", "most tables are too sparse"])
@pytest.mark.parametrize("scale", ["plain", "probability"])
@given(
    steps=STEPS,
    caps=st.tuples(st.sampled_from([1, 4, 9]), st.sampled_from([5, 40, 10_000])),
    data=st.data(),
)
def test_tallies_count_as_an_evaluator_and_frozen_counts_stay(
    wide: int,
    scale: Scale,
    steps: list[tuple[str, str, int]],
    caps: tuple[int, int],
    data: st.DataObject,
) -> None:
    """Equal to the bit and at the same resolution, also for counts that were not read yet."""
    bits, max_cells = caps
    drawn = SCORES if scale == "plain" else PROBABILITIES
    ours = Tally(State.empty(resolution=bits, scale=scale, max_cells=max_cells))
    peer = Evaluator(resolution=bits, scale=scale, max_cells=max_cells)
    kept: list[tuple[LazyCounts, bytes]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "_MAX_CHEAP_WIDTH", wide)
        patch.setattr(layout, "_MAX_PLACES_PER_SCORE", 2)
        for kind, then, seed in steps:
            cases = data.draw(st.lists(st.tuples(st.booleans(), drawn), min_size=1, max_size=12))
            change = loose(cases)
            counts = None
            if kind == "add counted":
                counts = np.random.default_rng(seed).integers(1, 5, len(cases))
                change = UnsortedCases(change.labels, change.scores, counts)
            ours.add(change.sorted() if kind == "add sorted" else change)
            peer.add_cases(labels=change.labels, scores=change.scores, counts=counts)
            _then(then, ours, peer, change, kept)
        assert Evaluator._of(ours.state()) == peer
        ours.state()._check()
    for frozen, expected in kept:
        assert Evaluator._of(frozen.state).to_bytes() == expected


def _then(
    what: str,
    ours: Tally,
    peer: Evaluator,
    change: UnsortedCases,
    kept: list[tuple[LazyCounts, bytes]],
) -> None:
    if what in ("freeze", "look"):
        frozen = ours.frozen()
        assert ours.frozen() is frozen
        kept.append((frozen, peer.to_bytes()))
        if what == "look":
            before = ours.memory_bytes
            assert Evaluator._of(frozen.state) == peer
            assert ours.memory_bytes == before
    elif what == "miss":
        ours.miss(2, 1)
        peer.add_misses(2)
        peer.add_negative_misses(1)
    elif what == "remove":
        one = UnsortedCases(change.labels[:1], change.scores[:1], None)
        ours.remove(one.sorted())
        peer.remove_cases(labels=one.labels, scores=one.scores)
    elif what == "due" and ours.is_due:
        ours.frozen().merge()


@pytest.mark.parametrize("parts", [3, 12])
def test_long_additions_are_counted_in_pieces(parts: int) -> None:
    """Additions of several pieces, alone and joined, count as they do when they are merged."""
    rng = np.random.default_rng(parts)
    ours = Tally(State.empty(resolution=12, scale=None, max_cells=16_384))
    assert Evaluator._of(ours.frozen().state).num_cases == 0
    expected = Evaluator(resolution=12, max_cells=16_384)
    for size in np.linspace(30, 20_000, parts).astype(int).tolist():
        labels, scores = rng.random(size) < 0.3, rng.normal(size=size)
        ours.add(UnsortedCases(labels, scores, None))
        expected.add_cases(labels=labels, scores=scores)
    assert Evaluator._of(ours.frozen().state) == expected


def test_pending_effects_keep_nothing_else_in_memory() -> None:
    """A pending row of a pane is no view that keeps the columns of all panes in memory."""
    stream = StreamState(StreamInfo("s", NOW, 1, DEFAULTS), Limits(), NOW)
    ids = [str(number).encode() for number in range(500)]
    rng = np.random.default_rng(4)
    times = NOW - rng.integers(0, 9, 500) * MINUTE
    stream.take(PredictionRows(ids, rng.normal(size=500), 500, 500, times), 2, NOW)
    stream.take(LabelRows(ids, rng.random(500) < 0.3, 500, 500), 3, NOW)
    stream.counts.flush()
    waiting = [change for each in _tallies(stream.counts) for change in each._pending]
    assert waiting
    for change in waiting:
        assert isinstance(change, UnsortedCases)
        assert change.scores.base is None
        assert change.labels.base is None


def _tallies(counts: StreamCounts) -> list[Tally]:
    panes = [pane.content.parts.values() for pane in counts.store.panes]
    return [counts.store.whole.counts, *(part.counts for parts in panes for part in parts)]
