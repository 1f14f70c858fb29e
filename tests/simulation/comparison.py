"""Compares an engine with the oracle: every count of every score, slice and pane; every id."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from streameval._joining.rules import (
    EARLY_NEGATIVE,
    EARLY_POSITIVE,
    LABELLED_NEGATIVE,
    LABELLED_POSITIVE,
    PENDING,
)
from streameval._time.effects import COVERAGE

from .oracle import MISSED_CLUSTER, UNIT, cell, cluster_cell, cluster_of, group_of
from .pair_oracle import compare_pairs

if TYPE_CHECKING:
    from streameval import Evaluator
    from streameval.kernel import State
    from streameval_server._core.engine import Engine
    from streameval_server._state.counting.coverage import PaneCoverage
    from streameval_server._state.views import StreamView

    from .oracle import Oracle, StreamOracle

Slice = tuple[str, str] | None
Place = tuple[Slice, int]
"""A slice, and the start of a pane or `ALL_TIME`."""
Found = Counter[tuple[str, float | None]]
"""Counts by kind and score; the score is None for counts without one."""

ALL_TIME = -1
_OF_SCORES = {f"{what}{sums}" for what in "PN" for sums in ("", " units", " squares")}

GROUPS = ("groups", "of clusters")
"""Stands for the counts of the whole by groups of clusters, beside the slices."""
_STATES = {
    PENDING: ("pending", None),
    LABELLED_NEGATIVE: ("labelled", False),
    LABELLED_POSITIVE: ("labelled", True),
    EARLY_NEGATIVE: ("early", False),
    EARLY_POSITIVE: ("early", True),
}


def compare(engine: Engine, oracle: Oracle) -> None:
    """Assert that an engine has the state that the oracle computes."""
    assert engine.revision == oracle.revision
    assert [info.name for info in engine.streams(limit=1 << 30)] == sorted(oracle.streams)
    for name, wanted in oracle.streams.items():
        view = engine.view(name)
        assert view is not None
        assert view.info.settings == wanted.settings, name
        assert kept_ids(engine, name) == {
            each: (kept.state, kept.positive, kept.event_us, kept.score, kept.units)
            for each, kept in wanted.ids.items()
        }, f"ids of {name}"
        assert dict(engine.catalog()[name].sources) == wanted.sources, f"sources of {name}"
        _compare_counts(view, wanted, oracle.due_us)
        _compare_delays(view, wanted, oracle.due_us)
    compare_pairs(engine, oracle)


def kept_ids(engine: Engine, name: str) -> dict[str, tuple]:
    """Return the ids that a stream keeps: state, label, event time, score and units."""
    joins = engine._streams[name].joins
    if joins is None:
        return {}
    table = joins.table
    table._check()
    slots = (table.state != table.FREE_SLOT).nonzero()[0]
    ids = {}
    for slot, each in zip(slots.tolist(), table.ids(slots), strict=True):
        state, positive = _STATES[int(table.state[slot])]
        score = None if state == "early" else float(table.score[slot])
        units = table.unit_at(slot)
        ids[each.decode()] = (state, bool(positive), int(table.event_us[slot]), score, units)
    return ids


def _compare_counts(view: StreamView, wanted: StreamOracle, now_us: int) -> None:
    found, bits = shown(view)
    expected = recounted(view, wanted, now_us)
    for place in expected.keys() | found.keys():
        mine, theirs = expected.get(place, Counter()), found.get(place, Counter())
        resolution = bits.get(place)
        if resolution is not None:
            mine = rounded(mine, resolution)
            theirs = rounded(theirs, resolution)
        assert strip(mine) == strip(theirs), (view.info.name, place, resolution)


def _compare_delays(view: StreamView, wanted: StreamOracle, now_us: int) -> None:
    """Assert that each pane has its predictions and labels, by cell, class and delay."""
    delays = view.counts.delays
    if delays is None:
        assert not wanted.delays, (view.info.name, "label delays are missing")
        return
    starts = [pane.start_us for pane in delays.panes]
    expected: dict[int, Counter[tuple[float, int]]] = defaultdict(Counter)
    for (event_us, score, positive, delay_us), count in wanted.delays.items():
        if count and event_us >= wanted.oldest_us(now_us):
            slot = 0 if positive is None else 1 + 2 * bucket_of(delay_us) + positive
            expected[starts[bisect_right(starts, event_us) - 1]][cell(score, 8), slot] += count
    for pane in delays.panes:
        rows = zip(*(column.tolist() for column in pane.rows), strict=True)
        found = {(score, slot): count for score, slot, count in rows}
        assert strip(expected[pane.start_us]) == found, (view.info.name, pane.start_us)


def bucket_of(delay_us: int) -> int:
    """Return the quarter octave of a delay, from 1 s on, in exact integers."""
    power = (delay_us**4 // 10**24).bit_length()
    return max(power, 0)


def strip(counts: Found) -> dict:
    """Return the counts that are not zero."""
    return {key: count for key, count in counts.items() if count}


def rounded(counts: Found, bits: int) -> Found:
    """Return counts by cell; as one cell where cells are wider than powers of two."""
    result: Found = Counter()
    for (what, score), count in counts.items():
        if score is None:
            result[what, None] += count
        else:
            result[what, cell(score, bits) if bits >= 1 else 0.0] += count
    return result


def recounted(view: StreamView, wanted: StreamOracle, now_us: int) -> dict[Place, Found]:
    """Return the counts that every slice and pane of a view should have."""
    panes = view.whole.panes
    starts = [pane.start_us for pane in panes]
    oldest_us = wanted.oldest_us(now_us)
    expected: dict[Place, Found] = defaultdict(Counter)
    keys = wanted.settings.segment_keys
    for (what, event_us, score, slices), count in wanted.counts.items():
        if not count:
            continue
        at = [ALL_TIME]
        if event_us >= oldest_us:
            place = bisect_right(starts, event_us) - 1
            assert place >= 0, (view.info.name, "a pane is missing", event_us)
            assert event_us < panes[place].end_us, (view.info.name, "a pane is missing", event_us)
            at.append(starts[place])
        key = (what, score if what in _OF_SCORES else None)
        segments: list[Slice] = [None, *zip(keys, slices, strict=False)]
        for segment in segments:
            for start in at:
                expected[segment, start][key] += count
        if wanted.settings.cluster_groups and what in {"P", "N", "missed P"}:
            is_missed = what == "missed P"
            group = group_of(MISSED_CLUSTER if is_missed else cluster_of(score))
            edge = -math.inf if is_missed else cluster_cell(score)
            for start in at:
                expected[GROUPS, start][f"{what[-1]} of {group}", edge] += count
    return expected


def sums_of(state: State, what: str, *, label: bool) -> Found:
    """Return a class's cases, units and squares of units, by score."""
    counted: Found = Counter()
    run = state.counts.positives if label else state.counts.negatives
    if run.sums is None:
        rows = [(count, count * UNIT, count * UNIT**2) for count in run.multiplicities().tolist()]
    else:
        rows = [
            (cases, units, (high << 48) + low) for units, cases, high, low in run.sums.T.tolist()
        ]
    for score, row in zip(run.scores.tolist(), rows, strict=True):
        for kind, count in zip((what, f"{what} units", f"{what} squares"), row, strict=True):
            counted[kind, score] += count
    return counted


def shown(view: StreamView) -> tuple[dict[Place, Found], dict[Place, int]]:
    """Return the counts of every slice and pane of a view, and its resolution in bits."""
    found: dict[Place, Found] = {}
    bits: dict[Place, int] = {}

    def add_place(place: Place, evaluator: Evaluator, coverage: PaneCoverage) -> None:
        state = evaluator._view()
        state.counts._check()
        found[place] = counted = Counter()
        if state.resolution is not None:
            bits[place] = state.resolution
        for what, label in (("P", True), ("N", False)):
            counted += sums_of(state, what, label=label)
        counted["missed P", None] = state.missed_positives // state.unit
        counted["missed N", None] = state.missed_negatives // state.unit
        for name in COVERAGE:
            counted[name, None] = getattr(coverage.counts, name)
        clusters = state.clusters
        has_clusters = view.info.settings.cluster_groups > 0 and place[0] is None
        assert (clusters.num_groups > 0) == has_clusters
        if has_clusters:
            clusters._check()
            columns = (clusters.edges.tolist(), clusters.codes.tolist(), clusters.counts.tolist())
            found[GROUPS, place[1]] = by_group = Counter()
            for edge, code, count in zip(*columns, strict=True):
                by_group[f"{'NP'[code & 1]} of {code >> 1}", edge] += count

    segments: list[Slice] = [None]
    segments += [
        (key, value) for key in view.info.settings.segment_keys for value in view.segments(key)
    ]
    for segment in segments:
        part = view.slice(segment)
        assert part is not None
        add_place((segment, ALL_TIME), part.all_time, part.coverage)
        for pane in part.panes:
            add_place((segment, pane.start_us), pane.evaluator, pane.coverage)
    return found, bits
