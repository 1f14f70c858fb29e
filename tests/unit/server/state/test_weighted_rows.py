"""Streams with weighted rows: each slice and pane is the evaluator of its cases.

The oracle keeps the rows in dicts and recounts. The order in which rows are counted, and
whether a checkpoint comes between them, must not show in a single byte.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from streameval import Evaluator
from streameval._counts.exact import MAX_TOTAL
from streameval.kernel import WEIGHT_UNITS
from streameval.wire import SegmentCodes
from streameval_server import Limits
from streameval_server._core.catalog import NEW, add_rows
from streameval_server._model.row_kinds import (
    CaseRows,
    LabelRows,
    MergedState,
    MergeRows,
    MissRows,
    PredictionRows,
    RetractionRows,
    Rows,
)
from streameval_server._model.stream_info import StreamInfo
from streameval_server._model.stream_settings import StreamSettings
from streameval_server._state.checkpoint_parts import content_parts, export_parts, split_part
from streameval_server._state.stream_parts import restore_stream
from streameval_server._state.stream_state import StreamState
from streameval_server._state.views import SliceView

NOW = 1_767_225_600_000_000
HOUR_US = 3_600_000_000
VALUES = ("a", "b", "c")
WEIGHTS = np.array([WEIGHT_UNITS, WEIGHT_UNITS // 2, 3 * WEIGHT_UNITS, 7, 2**30])


class Case(NamedTuple):
    """A counted case, or a miss where the score is None."""

    label: bool
    score: float | None
    units: int
    hour: int
    values: tuple[str, ...]


class Oracle:
    """What a stream counts, as lists."""

    def __init__(self) -> None:
        self.cases: list[Case] = []
        self.predictions: dict[bytes, tuple[float, int, tuple[str, ...]]] = {}
        self.labels: dict[bytes, tuple[bool, int]] = {}

    def all_cases(self) -> list[Case]:
        joined = [
            Case(self.labels[id_][0], score, self.labels[id_][1], hour, values)
            for id_, (score, hour, values) in self.predictions.items()
            if id_ in self.labels
        ]
        return [*self.cases, *joined]

    def check(self, state: StreamState, settings: dict) -> None:
        """Compare every pane of every slice, and all time."""
        view = state.view(state.revision, NOW)
        kept = self.all_cases()
        self._check_slice(view.whole, kept, settings)
        for key in range(len(state.segments.keys)):
            for value in VALUES:
                of_value = [case for case in kept if case.values[key] == value]
                found = view.slice((f"key-{key}", value))
                assert (found is not None) or not of_value
                if found is not None:
                    self._check_slice(found, of_value, settings, of_slice=True)

    @staticmethod
    def _check_slice(
        found: SliceView, cases: list[Case], settings: dict, *, of_slice: bool = False
    ) -> None:
        for pane in found.panes:
            here = [case for case in cases if pane.start_us <= case.hour < pane.end_us]
            assert pane.evaluator == _evaluator(here, settings)
            pane.evaluator._check()
        assert sum(pane.evaluator.num_cases for pane in found.panes) == len(
            [case for case in cases if case.units]
        )
        whole = Evaluator(max_cells=Limits().max_cells)
        expected = _evaluator(cases, settings if of_slice else {})
        whole.merge(expected)
        assert found.all_time == (expected if of_slice else whole)


def _evaluator(cases: list[Case], settings: dict) -> Evaluator:
    evaluator = Evaluator(**settings)
    for case in cases:
        if case.score is None:
            (evaluator.add_misses if case.label else evaluator.add_negative_misses)(1)
        else:
            evaluator.add_case(case.label, case.score, weight=case.units / WEIGHT_UNITS)
    return evaluator


def stream(keys: int, pane_cells: int = 16_384) -> StreamState:
    settings = StreamSettings(
        segment_keys=tuple(f"key-{key}" for key in range(keys)), relabel_ttl_us=10**12
    )
    info = StreamInfo("s", NOW, 1, settings)
    return StreamState(info, Limits(pane_cells=pane_cells), NOW - HOUR_US)


def rows_of(  # noqa: C901 - one branch a kind of row
    seed: int, keys: int, steps: int, *, plain: bool = False
) -> list[tuple[Rows, Oracle]]:
    """Return random rows, each with what is counted after it."""
    rng, oracle, made = np.random.default_rng(seed), Oracle(), []
    weight_of: dict[bytes, int] = {}
    for step in range(steps):
        size = int(rng.integers(1, 40))
        times = NOW - rng.integers(0, 4, size) * HOUR_US - rng.integers(0, 10**9, size)
        codes = rng.integers(0, 3, (keys, size)).astype(np.uint16)
        segments = tuple(SegmentCodes(f"key-{key}", VALUES, codes[key]) for key in range(keys))
        values = [tuple(VALUES[code] for code in column) for column in codes.T.tolist()]
        scores, labels = rng.integers(0, 12, size) / 8, rng.random(size) < 0.4
        units = None if plain or rng.random() < 0.3 else rng.choice(WEIGHTS, size=size)
        weights = [WEIGHT_UNITS] * size if units is None else units.tolist()
        ids = [b"%d" % number for number in rng.integers(0, 60, size)]
        kind = rng.integers(0, 6) if step else 0
        rows: Rows
        if kind <= 1:
            rows = CaseRows(labels, scores, None, size, size, times, segments, units)
            columns = (labels.tolist(), scores.tolist(), weights, times.tolist(), values)
            oracle.cases += [Case(*row) for row in zip(*columns, strict=True)]
        elif kind == 2:
            rows = PredictionRows(ids, scores, size, size, times, segments)
            for id_, *row in zip(ids, scores.tolist(), times.tolist(), values, strict=True):
                oracle.predictions.setdefault(id_, tuple(row))
        elif kind <= 4:
            # An id keeps the weight that it has; another one must change nothing.
            rows = LabelRows(ids, labels, size, size, times, None, units)
            for id_, label, weight in zip(ids, labels.tolist(), weights, strict=True):
                if weight_of.setdefault(id_, weight) == weight:
                    oracle.labels[id_] = (label, weight)
        elif rng.random() < 0.5:
            rows = RetractionRows(ids[:6], 6)
            for id_ in ids[:6]:
                oracle.predictions.pop(id_, None)
                oracle.labels.pop(id_, None)
                weight_of.pop(id_, None)
        else:
            misses = [int(each) for each in rng.integers(0, 3, 2)]
            shared = tuple((f"key-{key}", "a") for key in range(keys))
            rows = MissRows(*misses, 1, sum(misses), NOW, shared)
            for label, count in zip((True, False), misses, strict=True):
                oracle.cases += [Case(label, None, WEIGHT_UNITS, NOW, ("a",) * keys)] * count
        after = Oracle()
        after.cases, after.labels = list(oracle.cases), dict(oracle.labels)
        after.predictions = dict(oracle.predictions)
        made.append((rows, after))
    return made


def apply(state: StreamState, rows: list[Rows], after: Callable[[int], object]) -> dict[str, bytes]:
    for number, each in enumerate(rows):
        state.take(each, number + 2, NOW)
        after(number)
    return dict(content_parts(state))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("keys", [0, 2])
@pytest.mark.slow
def test_panes_and_slices_are_the_evaluators_of_their_cases(seed: int, keys: int) -> None:
    """After every few batches; whatever was counted at once or left for later."""
    state = stream(keys)
    settings = {"resolution": 12, "max_cells": 16_384}
    for number, (rows, oracle) in enumerate(rows_of(seed, keys, 30)):
        state.take(rows, number + 2, NOW)
        if number % 7 == 6:
            oracle.check(state, settings)
    oracle.check(state, settings)
    assert state.view(99, NOW).evaluator.weights is not None


@pytest.mark.parametrize("pane_cells", [5, 16_384])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_cuts_and_checkpoints_do_not_show(seed: int, pane_cells: int) -> None:
    """Reading between batches, and going on from a checkpoint or an export: the same bytes."""
    rows = [each for each, _ in rows_of(seed, 2, 30)]
    expected = apply(stream(2, pane_cells), rows, lambda _: None)
    read = stream(2, pane_cells)
    assert apply(read, rows, lambda number: number % 3 or read.view(number, NOW)) == expected
    first = stream(2, pane_cells)
    apply(first, rows[:17], lambda _: None)
    parts = {name: data() for name, data in export_parts(first)}
    second = restore_stream(Limits(pane_cells=pane_cells), 18, parts)
    for number, each in enumerate(rows[17:]):
        second.take(each, number + 19, NOW)
    assert dict(content_parts(second)) == expected
    assert second.weighed == first.weighed + sum(_units(each) for each in rows[17:])


def _units(rows: Rows) -> int:
    units = getattr(rows, "units", None)
    return rows.total * WEIGHT_UNITS if units is None else int(units.sum())


def test_weights_of_one_leave_the_bytes_of_none() -> None:
    """Rows whose weights are all 1 are unweighted rows, for cases and labels."""
    plain = [each for each, _ in rows_of(5, 1, 25, plain=True)]
    without = stream(1)
    apply(without, plain, lambda _: None)
    for each in plain:
        if isinstance(each, CaseRows | LabelRows):
            each.units = np.full(each.size, WEIGHT_UNITS)
    weighted = stream(1)
    apply(weighted, plain, lambda _: None)
    ours, theirs = dict(content_parts(weighted)), dict(content_parts(without))
    assert ours.pop("stream/s") != theirs.pop("stream/s")  # it notes that weights have come
    assert {split_part(name)[1]: data for name, data in ours.items()} == {
        split_part(name)[1]: data for name, data in theirs.items()
    }
    assert without.weighed is None
    assert weighted.weighed == weighted.total * WEIGHT_UNITS


def test_the_catalog_knows_what_a_stream_weighs() -> None:
    """The committer's facts and the engine's state agree after every row, merges included."""
    state, facts = stream(1), NEW
    evaluator = Evaluator()
    evaluator.add_cases(labels=[1, 0], scores=[0.5, 0.25], weights=[2, 0.5])
    evaluator.add_misses(1)
    merge = MergeRows("edge", 1, [MergedState(NOW, (), evaluator._view())], 1, 3)
    for number, (rows, _) in enumerate([*rows_of(3, 1, 10, plain=True), (merge, None)]):
        state.take(rows, number + 2, NOW)
        facts = add_rows(facts, rows)
        assert (facts.total, facts.weighed) == (state.total, state.weighed)
    assert facts.weighed == (facts.total - 3) * WEIGHT_UNITS + 7 * WEIGHT_UNITS // 2
    assert facts.weighed < MAX_TOTAL
    assert state.view(99, NOW).evaluator.weights is not None


@pytest.mark.parametrize("first_weighted", [0, 5])
def test_memory_counts_weighted_scores(first_weighted: int) -> None:
    """The counted memory is at least that of the columns of the states.

    Only the first weights of a stream make its other states larger when they are counted.
    """
    state = stream(0)
    rng = np.random.default_rng(0)
    for revision in range(2, 12):
        size = 2_000
        columns = rng.random(size) < 0.3, rng.random(size)
        units = rng.integers(1, 2**20, size) if revision > first_weighted else None
        state.take(CaseRows(*columns, None, size, size, NOW, (), units), revision, NOW)
    before = state.memory_bytes
    view = state.view(20, NOW)
    states = [view.evaluator._view(), *(pane.evaluator._view() for pane in view.whole.panes)]
    used = sum(
        column.nbytes
        for each in states
        for label in (True, False)
        for column in (each.run(label).scores, *each.run(label).columns)
    )
    assert used <= state.memory_bytes < 3 * used
    assert first_weighted or used <= before
