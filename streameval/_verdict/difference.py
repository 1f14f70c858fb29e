"""How much a figure changed: base, now, and the hull of now minus base over all beginnings."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from streameval._counts.merge import merge_states
from streameval._metric_registry import BY_NAME
from streameval._uncertainty.compare import Difference, common_prevalence
from streameval._uncertainty.interval import Interval
from streameval._uncertainty.intervals import checked_costs
from streameval._uncertainty.rules import Given
from streameval._verdict.verdict import VerdictFigure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._counts.state import State
    from streameval._uncertainty.intervals import UncertaintyQueries
    from streameval._verdict.search import Beginning

MAX_BEGINNINGS: Final = 8
"""Beginnings of which the hull is: the limits, and others between them."""


def cases_since(
    panes: Sequence[tuple[int, State]], beginning: Beginning, *, most: int = MAX_BEGINNINGS
) -> list[State]:
    """Return the cases since each possible beginning, the last one first. O(cells) for each.

    Parameters
    ----------
    panes : sequence of (int, State)
        When each begins, in microseconds, and its cases; in order of time.
    beginning : Beginning
    most : int
        How many beginnings there are at most: both limits, and others evenly between them.

    Returns
    -------
    list of State
        The first one has the cases that are after the change in any case, or if there is no such
        pane, the newest pane. Empty if that begins before the first possible beginning.
    """
    after = [place for place, (start, _) in enumerate(panes) if start >= beginning.earliest_us]
    if not after:
        return []
    sure = max(1, sum(panes[place][0] >= beginning.latest_us for place in after))
    possible = after[: len(after) - sure + 1][::-1]
    step = max(1.0, (len(possible) - 1) / (most - 1))
    places = [possible[round(step * each)] for each in range(round((len(possible) - 1) / step) + 1)]
    found: list[State] = []
    for end, start in pairwise((len(panes), *places)):
        states = [state for _, state in panes[start:end]]
        found.append(merge_states([*found[-1:], *states], revision=0))
    return found


def changed_figure(
    base: UncertaintyQueries,
    since: Sequence[UncertaintyQueries],
    metric: str,
    *,
    level: float = 0.95,
    threshold: float | None = None,
    cost_fp: float | None = None,
    cost_fn: float | None = None,
) -> VerdictFigure:
    """Return a figure of base and now, and limits of the difference. O(G) for each beginning.

    The data that show when a change began are the ones that show how large it is: since the
    likeliest beginning alone, it is too large on average. So `now` is what is after the last
    possible beginning, and the limits of the difference are the least and the greatest over all
    beginnings, each side with its own variance.

    Parameters
    ----------
    base : Evaluator
    since : sequence of Evaluator
        From `cases_since`.
    metric : str
        One that has an interval. An area in precision-recall space is at the greater prevalence
        of base and now.
    level : float
    threshold, cost_fp, cost_fn : float, optional
        As `compare` takes them.
    """
    costs = checked_costs(metric, cost_fp, cost_fn)
    prevalence = None
    if BY_NAME[metric].is_rescaled:
        views = since[0]._view(), base._view()
        prevalence = common_prevalence((each.P, each.N) for each in views)
    given = Given(prevalence, threshold, costs)
    found = [Difference.of((each, base), metric, (given, given)) for each in since]
    limits = [each.limits(1 - level) for each in found]
    known = [each for each in limits if not math.isnan(each[0])] or limits[:1]
    difference = Interval(
        min(lower for lower, _ in known),
        max(upper for _, upper in known),
        level,
        "square-and-add",
        found[0].estimate,
        refused=found[0].reason if math.isnan(limits[0][0]) else None,
    )
    now, before = found[0].intervals(level)
    return VerdictFigure(metric, prevalence, before, now, difference)
