"""How a stream is now: its cases since a change, figures against the base, segments that explain.

Without a change, now is the last one or two weeks, counted from the base's end, so that the
windows of all looks are few and one confidence sequence holds in each.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from streameval._counts.merge import merge_states
from streameval._metric_registry import BY_NAME, Place
from streameval._time.window import Window
from streameval._verdict.difference import cases_since, changed_figure
from streameval._verdict.evidence_base import TOLERANCE
from streameval._verdict.level_sums import DAY_US
from streameval._verdict.search import Beginning
from streameval._verdict.share import explained_share
from streameval._verdict.verdict import Because

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._counts.state import State
    from streameval._verdict.evidence import Evidence
    from streameval._verdict.evidence_base import Pane
    from streameval._verdict.verdict import Quality, VerdictFigure

WINDOW_US: Final = 7 * DAY_US
WINDOW_CASES: Final = 100
"""Positives, and negatives, of now without a change; fewer only if there are no more."""
TELLING: Final = 0.5
"""The width from which on the limits of a difference tell nothing of it."""
ALPHA: Final = 0.05
"""That a fall larger than said is excluded wrongly, at any look of all: at most this."""


class Now(NamedTuple):
    """The cases of now.

    Attributes
    ----------
    states : list of State
        Since each possible beginning, the last one first.
    panes : list of Pane
        Of the first state.
    number : int
        Of a window without a change: how many windows begin before it.
    """

    states: list[State]
    panes: list[Pane]
    number: int = 0

    @property
    def has_weights(self) -> bool:
        """Whether a case has a weight."""
        return any(each.state.weighted is not None for each in self.panes)


def cases_of_now(evidence: Evidence, panes: Sequence[Pane], beginning: Beginning | None) -> Now:
    """Return the mature cases since a change, or without one of the last weeks. O(S log S)."""
    end_us = evidence.base.end_us
    mature = [
        each
        for each in panes
        if each.start_us >= end_us and each.end_us <= evidence.next_us and each.state.total
    ]
    number = 0
    if beginning is None:
        number, start_us = _window_start(mature, end_us, evidence.next_us)
        beginning = Beginning(start_us, start_us, start_us)
    states = cases_since([(each.start_us, each.state) for each in mature], beginning)
    latest_us = beginning.latest_us
    after = [each for each in mature if each.start_us >= latest_us] or mature[-1:]
    return Now(states, after if states else [], number)


def _window_start(mature: Sequence[Pane], end_us: int, next_us: int) -> tuple[int, int]:
    """Return the newest start of a window with cases enough, and its number."""
    P = N = 0
    places = list(mature)
    newest = max((next_us - end_us) // WINDOW_US - 1, 0)
    for number in range(newest, -1, -1):
        start_us = end_us + number * WINDOW_US
        while places and places[-1].start_us >= start_us:
            state = places.pop().state
            P, N = P + state.P, N + state.N
        if min(P, N) >= WINDOW_CASES:
            return number, start_us
    return 0, end_us


def figures_of(
    evidence: Evidence,
    states: Sequence[State],
    threshold: float | None,
    costs: tuple[float | None, float | None],
) -> tuple[VerdictFigure, ...]:
    """Return the headline, AUC-ROC, and what is at a declared threshold."""
    if not states:
        return ()
    base = _window(evidence.base.counts)
    since = [_window(state) for state in states]
    given = {"threshold": threshold, "cost_fp": costs[0], "cost_fn": costs[1]}
    known = {name: value for name, value in given.items() if value is not None}
    return tuple(
        changed_figure(base, since, name, **{each: known[each] for each in BY_NAME[name].needs})
        for name in Place.VERDICT.names(known)
    )


def is_order_changed(evidence: Evidence, now: Now, quality: Quality) -> bool:
    """Return whether figures of the cases of now agree with a call of worse or better.

    Evidence compares each case with the base, so scores that all move, as after a calibration,
    look like a change of order, while the order among the cases of now is as it was.
    A call stands where the difference since one of the possible beginnings is beyond the
    tolerance, or no figure can tell.
    """
    base, sign = _window(evidence.base.counts), 1.0 if quality == "better" else -1.0
    can_tell = False
    for name in Place.VERDICT.names([]):
        for state in now.states:
            found = changed_figure(base, [_window(state)], name).difference
            if sign * (found.lower if quality == "better" else found.upper) > TOLERANCE:
                return True
            can_tell = can_tell or found.upper - found.lower < TELLING
    return not can_tell


def _window(state: State) -> Window:
    return Window(state, 0, 1)


def excluded_fall(evidence: Evidence, now: Now, figures: Sequence[VerdictFigure]) -> float:
    """Return the least fall of the headline that is excluded at every look; nan without one.

    A confidence sequence runs from the start of each window; window k has the share
    1/((k + 1)(k + 2)) of the error, and all of them together have no more than `ALPHA`.
    """
    if not now.states or not figures:
        return math.nan
    prevalence = figures[0].prevalence
    states = [each.state for each in now.panes]
    window = Window(now.states[0], 0, 1, states, [each.start_us for each in now.panes])
    # Of two-sided intervals of which one limit is read.
    level = 1 - 2 * ALPHA / ((now.number + 1) * (now.number + 2))
    after = window.interval("auc_pr", level=level, anytime=True, prevalence=prevalence)
    before = _window(evidence.base.counts).interval(
        "auc_pr", level=1 - 2 * ALPHA, prevalence=prevalence
    )
    effect = after.least_effect if after.least_effect > 1 else 1.0
    below = math.hypot(after.estimate - after.lower, before.upper - before.estimate)
    return max(before.estimate - after.estimate + math.sqrt(effect) * below, 0.0)


def because_of(
    evidence: Evidence, panes: Sequence[Pane], now: Now, prevalence: float | None
) -> tuple[Because, ...]:
    """Return the segments with evidence of their own, the largest share first."""
    base = evidence.base
    before = [p for p in panes if p.start_us >= base.start_us and p.end_us <= base.end_us]
    is_kept = sum(each.state.total for each in before) == base.counts.total
    found = []
    for named in evidence.named_segments():
        share, name = None, named.segment
        then, since = (_segment(name, each) for each in (before, now.panes))
        if is_kept and prevalence is not None and then is not None and since is not None:
            whole = evidence.base.counts, now.states[0]
            share = explained_share(*whole, then, since, prevalence=prevalence)
        found.append(Because(name, share, named.e_value))
    return tuple(sorted(found, key=lambda each: (-(each.share or 0.0), -each.e_value)))


def _segment(name: str, panes: Sequence[Pane]) -> State | None:
    states = [each.segments[name] for each in panes if name in each.segments]
    return merge_states(states, revision=0) if states else None
