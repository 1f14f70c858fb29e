"""The base of a verdict: the earliest whole weeks that are mature and have no change in them.

Spans are tried in the order of their ends, and each choice rests on what lies before the end
alone, so a stream whose history is loaded at once has the base that it would have had.
`base_changes` tells whether a change is evident.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streameval._counts.merge import merge_states
from streameval._counts.multiset import ScoreCounts
from streameval._counts.run import Run
from streameval._counts.state import State
from streameval._drift.reference import MIN_CASES, class_quantiles
from streameval._verdict.base_changes import changes_in, minute_words, within

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from streameval._common.arrays import FloatArray
    from streameval._verdict.base_changes import BaseChange, Pane

MAX_CELLS: Final = 256
BASE_CASES: Final = 100
"""Positives, and negatives, of a base; `MIN_CASES` suffice from `LONG_DAYS` on."""
LONG_DAYS: Final = 28

_DAY_US: Final = 86_400_000_000
_WEEK_US: Final = 7 * _DAY_US


class BaseSpan(NamedTuple):
    """A base: its time in microseconds, [start, end), and its cases in at most 256 cells."""

    start_us: int
    end_us: int
    counts: State

    @classmethod
    def of(cls, span_us: tuple[int, int], states: Iterable[State]) -> BaseSpan:
        """Return the base of the panes of a time. O(S log S)."""
        return cls(*span_us, in_cells(merge_states(list(states), revision=0)))


class NoBase(NamedTuple):
    """Why there is no base, and when to ask again; None: once there are cases."""

    reason: str
    again_us: int | None


def choose_base(panes: Sequence[Pane], at_us: int, maturity_us: int) -> BaseSpan | NoBase:
    """Return the base of a stream at a time, or why there is none.

    Parameters
    ----------
    panes : sequence of (int, int, State)
        Start and end in microseconds of event time, and the counts; oldest first, without
        overlap. A pane counts for a span if it lies within it.
    at_us : int
    maturity_us : int
        How long after its end a time has the labels that it will have.

    Notes
    -----
    O(panes) for each week and day on which a span ends, until one suffices; a span is tested in
    O(B K) for B panes of K coarse cells.
    """
    panes = [each for each in panes if each[2].total]
    if not panes:
        return NoBase("it has no labelled cases", None)
    if any(state.weighted is not None for _, _, state in panes):
        return NoBase("its cases have weights, and a base counts cases", None)
    mature_us = at_us - maturity_us
    starts = [panes[0][0] // _DAY_US * _DAY_US]
    refused: dict[int, BaseChange] = {}
    for end_us in range(starts[0] + _WEEK_US, mature_us + 1, _DAY_US):
        for start_us in _tried(starts, refused, end_us):
            inside = within(panes, (start_us, end_us))
            if _lacks_cases(inside, end_us - start_us):
                continue
            found = changes_in(inside, (start_us, end_us))
            if not found:
                return BaseSpan.of((start_us, end_us), [each for *_, each in inside])
            refused[start_us] = found[-1]
            after_us = -(-found[-1].latest_us // _DAY_US) * _DAY_US
            if after_us not in starts:
                starts.append(after_us)
    again_us = _next_end(starts, mature_us) + maturity_us
    return NoBase(_reason(panes, list(refused.values()), mature_us, again_us), again_us)


def in_cells(state: State) -> State:
    """Return the same cases in at most `MAX_CELLS` cells, cut at quantiles of each class.

    A case gets the lowest score of its cell, so ranking within a cell is lost. Clusters are left
    out. O(S log S).
    """
    runs = state.counts.runs
    if sum(map(len, runs)) > MAX_CELLS:
        number = MAX_CELLS // 2 - 1
        cuts = [
            class_quantiles(run.scores, run.multiplicities(), number) for run in runs if len(run)
        ]
        edges = np.unique(np.concatenate([*cuts, [min(run.scores[0] for run in runs if len(run))]]))
        runs = _moved(runs[0], edges), _moved(runs[1], edges)
    counts = ScoreCounts(*runs)
    return State(
        counts, state.missed_positives, state.missed_negatives, state.resolution, state.declared
    )


def _moved(run: Run, edges: FloatArray) -> Run:
    """Return a class's cases with the greatest edge at or below each score."""
    scores = edges[np.searchsorted(edges, run.scores, side="right") - 1]
    return Run.of_ordered(scores, run.multiplicities())


def _tried(starts: Sequence[int], refused: Mapping[int, BaseChange], end_us: int) -> list[int]:
    """Return from where on whole weeks end at a time, the longest first.

    One with a change in it is tried at up to four weeks: more weeks may show that it is a cycle.
    """
    return [
        start_us
        for start_us in sorted(starts)
        if end_us > start_us
        and not (end_us - start_us) % _WEEK_US
        and (start_us not in refused or end_us - start_us <= LONG_DAYS * _DAY_US)
    ]


def _next_end(starts: Sequence[int], mature_us: int) -> int:
    """Return when whole weeks from one of the starts end next."""
    weeks = [max((mature_us - each) // _WEEK_US, 0) + 1 for each in starts]
    return min(each + number * _WEEK_US for each, number in zip(starts, weeks, strict=True))


def _lacks_cases(panes: Sequence[Pane], length_us: int) -> bool:
    needed = MIN_CASES if length_us >= LONG_DAYS * _DAY_US else BASE_CASES
    return any(
        sum(number) < needed
        for number in ([each.P for *_, each in panes], [each.N for *_, each in panes])
    )


def _reason(
    panes: Sequence[Pane], changes: Sequence[BaseChange], mature_us: int, again_us: int
) -> str:
    if changes:
        return f"{changes[-1]}: a base needs whole weeks without a change"
    mature = [state for _, end_us, state in panes if end_us <= mature_us]
    if mature_us < panes[0][0] // _DAY_US * _DAY_US + _WEEK_US:
        return f"its first week and the labels of that are complete at {minute_words(again_us)}"
    return (
        f"it has {sum(each.P for each in mature)} positives and "
        f"{sum(each.N for each in mature)} negatives whose labels are in: {BASE_CASES} of each "
        f"are needed in whole weeks, {MIN_CASES} after {LONG_DAYS} days"
    )
