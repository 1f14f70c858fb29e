"""The table of an open pane's slices: its counts equal those of sorted rows."""

from __future__ import annotations

import numpy as np
import pytest

from streameval import Evaluator
from streameval.kernel import UnsortedCases
from streameval.wire import SegmentCodes
from streameval_server import Limits
from streameval_server._model.row_kinds import CaseRows
from streameval_server._model.stream_info import StreamInfo
from streameval_server._model.stream_settings import StreamSettings
from streameval_server._state.checkpoint_parts import content_parts
from streameval_server._state.counting import slice_table
from streameval_server._state.counting.slice_sort import slices_of, sort_by_cell
from streameval_server._state.counting.slice_table import SliceTable
from streameval_server._state.stream_state import StreamState

NOW = 1_800_000_000_000_000
MINUTE = 60_000_000
VALUES = ("US", "DE", "FR")
SEED = 20_261_121


def loose(rng: np.random.Generator, size: int, counts=None) -> UnsortedCases:
    return UnsortedCases(rng.random(size) < 0.1, rng.normal(size=size).round(3), counts)


def coded(
    some: UnsortedCases, rng: np.random.Generator, values: int = 5
) -> tuple[UnsortedCases, np.ndarray]:
    return some, rng.integers(0, values, (2, some.scores.size)).astype(np.uint16)


def new_table() -> SliceTable:
    return SliceTable(12, "plain")


def by_number(slices) -> dict[int, Evaluator]:
    found = {}
    for number, change in slices:
        change._check()
        evaluator = Evaluator(resolution=15)
        for label, run in ((True, change.positives), (False, change.negatives)):
            evaluator.add_cases(labels=[label] * len(run), scores=run.scores, counts=run.counts)
        found[number] = found.get(number, Evaluator(resolution=15)) + evaluator
    return found


@pytest.mark.parametrize("digits", [3, 9], ids=["few cells", "more than 65,536"])
@pytest.mark.parametrize("scale", ["plain", "probability"])
@pytest.mark.slow
def test_it_counts_what_sorting_counts(monkeypatch, scale, digits):
    """Over several batches, with new cells and values in later ones, on both scales."""
    rng = np.random.default_rng(SEED)
    monkeypatch.setattr(slice_table, "_MAX_BYTES", 128 << 20)
    monkeypatch.setattr(slice_table, "_MAX_SLOTS", 1 << 24)
    bits = 12 if digits == 3 else 15
    table, sorted_slices = SliceTable(bits, scale), []
    for values, spread in ((2, 1.0), (5, 1.0), (4, 3.0)):
        some = loose(rng, 60_000)
        some.scores[:] = (rng.normal(size=60_000) * spread).round(digits)
        some.scores[:3] = 0.0, -0.0, 1.0
        if scale == "probability":
            some.scores[3:] = (1 / (1 + np.exp(-9 * some.scores[3:]))).round(digits)
        rows = coded(some, rng, values)
        assert table.add(*rows)
        sorted_slices += slices_of(sort_by_cell(*rows, bits, scale))
    assert (table._size > 1 << 16) == (digits == 9)
    taken = list(table.slices())
    assert by_number(taken) == by_number(sorted_slices)


@pytest.mark.parametrize("label", [True, False])
def test_rows_of_one_class_that_share_a_cell_are_one_entry(label):
    """Also when the other class has no rows."""
    some = UnsortedCases(np.full(3, label), np.array([0.5, 0.25, 0.5]), None)
    codes = np.zeros((1, 3), dtype=np.uint16)
    ((_, change),) = slices_of(sort_by_cell(some, codes, 12, "plain"))
    run = change.positives if label else change.negatives
    assert run.scores.tolist() == [0.25, 0.5]
    assert run.counts.tolist() == [1, 2]


def test_it_refuses_rows_that_do_not_suit(monkeypatch):
    """Few rows, rows with counts, and rows that would make it too large; they change nothing."""
    rng = np.random.default_rng(SEED)
    assert not new_table().add(*coded(loose(rng, 1_000), rng))
    size = 20_000
    counted = loose(rng, size, np.full(size, 3))
    assert not new_table().add(*coded(counted, rng))
    table = new_table()
    assert table.add(*coded(loose(rng, size), rng))
    before, counts = table.nbytes, by_number(table.slices())
    monkeypatch.setattr(slice_table, "_MAX_BYTES", before)
    wide = loose(rng, size)
    wide.scores[:] = rng.normal(size=size) * 10.0 ** rng.integers(-150, 150, size)
    assert not table.add(*coded(wide, rng))
    more = loose(rng, size)
    more.scores[:] = rng.normal(size=size)
    assert not table.add(*coded(more, rng))
    assert table.nbytes == before
    assert by_number(table.slices()) == counts


def test_no_order_of_batches_makes_a_table_larger_than_it_may_be(monkeypatch):
    """The limit holds for the product of slices and cells, whichever grows first."""
    rng = np.random.default_rng(SEED)
    monkeypatch.setattr(slice_table, "_MAX_BYTES", 1 << 20)
    table = new_table()
    taken = []
    for round_ in range(12):
        rows = loose(rng, 20_000)
        rows.scores[:] = rng.normal(size=20_000).round(1 if round_ % 3 else 4)
        taken.append(table.add(*coded(rows, rng, 1 if round_ % 2 else 5)))
        assert table.nbytes <= 1 << 20
    assert True in taken
    assert False in taken


@pytest.mark.parametrize("pauses", [(), (1, 3)], ids=["at the end", "in between"])
def test_a_stream_counts_the_same_in_small_batches_and_in_large(pauses):
    """With the table or without, for panes that are filled in turn, with reads at any time."""
    rng = np.random.default_rng(SEED)
    settings = StreamSettings(segment_keys=("country",))
    streams = [StreamState(StreamInfo("s", NOW, 1, settings), Limits(), NOW) for _ in range(2)]
    size = 40_000
    labels, scores = rng.random(size * 4) < 0.1, rng.normal(size=size * 4)
    codes = rng.integers(0, 3, size * 4).astype(np.uint32)
    times = [NOW, NOW + MINUTE, NOW, NOW + 2 * MINUTE]
    revision = 2
    for at, event_us in enumerate(times):
        for stream, step in zip(streams, (size, 2_000), strict=True):
            for start in range(at * size, (at + 1) * size, step):
                rows = slice(start, start + step)
                column = SegmentCodes("country", VALUES, codes[rows])
                cases = CaseRows(labels[rows], scores[rows], None, step, step, event_us, (column,))
                stream.take(cases, revision, NOW + 2 * MINUTE)
        if at in pauses:
            streams[0].view(revision, NOW)
    views = [stream.view(revision, NOW).counts for stream in streams]
    for code, value in enumerate(VALUES):
        here = codes == code
        expected = Evaluator(resolution=12, max_cells=Limits().pane_cells)
        expected.add_cases(labels=labels[here], scores=scores[here])
        for view in views:
            number = view.names["country", value]
            assert Evaluator._of(view.all_time[number][0].state) == expected
    large, small = (dict(content_parts(stream)) for stream in streams)
    assert large == small
