"""A window: the sum of some panes, as one evaluator's worth of queries.

A window is read-only and says which time it covers. With a half-life its counts
are weighted: each pane counts round(2^16 2^(-age/half-life)) times. Figures are
ratios of counts, so the weights' scale does not matter to them; an interval
must not take weighted counts for a sample size, so variances are summed with
squared weights and sample sizes are Kish's effective ones (Kish 1965).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from streameval._estimates import influence_of, value_of
from streameval._evaluator import Evaluator
from streameval._influence import Influence, negatives_between
from streameval._limits import Figure
from streameval._multiset import LIMIT, Run, ScoreCounts, too_many
from streameval._queries import EvaluatorQueries
from streameval._snapshot import Snapshot, take_snapshot
from streameval._state import State, merge_states
from streameval._times import to_datetime

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from streameval._groups import FloatArray, Groups, IntArray

WEIGHT_ONE = 1 << 16
"""The weight of a pane of age 0."""


class Window(EvaluatorQueries):
    """The cases of a run of panes: every query of `Evaluator`, no mutation.

    Attributes
    ----------
    start, end : datetime
        What it covers, [start, end): the time that was asked for, widened to
        whole panes.
    num_cases, num_positive_ref, num_negative_ref : int
        Undecayed.
    """

    def __init__(self, state: State, start_us: int, end_us: int) -> None:
        self._state = state
        self.start = to_datetime(start_us)
        self.end = to_datetime(end_us)
        self.num_positive_ref = state.P
        self.num_negative_ref = state.N
        self.num_cases = state.counts.total

    def _view(self) -> State:
        return self._state

    @property
    def resolution(self) -> int | None:
        """Significant bits of a score that are kept."""
        return self._state.resolution

    def evaluator(self) -> Evaluator:
        """Return an evaluator of its own with these counts. O(1)."""
        return Evaluator._of(self._state)

    def snapshot(self) -> Snapshot:
        """Return the figures. O(G), once."""
        return self._state.cached("snapshot", lambda: take_snapshot(self))

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {_iso(self.start)} to {_iso(self.end)}: "
            f"P={self.num_positive_ref}, N={self.num_negative_ref}>"
        )


class DecayedWindow(Window):
    """A window in which old cases count less.

    Parameters
    ----------
    state : State
        Counts times weights.
    squares : State
        Counts times squared weights, over `WEIGHT_ONE`.
    whole : sequence of State
        The undecayed counts.
    """

    def __init__(
        self,
        state: State,
        squares: State,
        *,
        whole: Sequence[State],
        start_us: int,
        end_us: int,
    ) -> None:
        super().__init__(state, start_us, end_us)
        self._squares = squares
        self.num_positive_ref = sum(each.P for each in whole)
        self.num_negative_ref = sum(each.N for each in whole)
        self.num_cases = sum(each.counts.total for each in whole)
        self._misses = (
            sum(each.missed_positives for each in whole),
            sum(each.missed_negatives for each in whole),
        )

    def evaluator(self) -> Evaluator:
        """Return an evaluator with the weighted counts; its intervals would be too narrow."""
        return super().evaluator()

    def snapshot(self) -> Snapshot:
        """Return the figures, of the weighted counts; the counts are undecayed. O(G), once."""
        return self._state.cached(
            "snapshot",
            lambda: replace(
                take_snapshot(self),
                num_cases=self.num_cases,
                num_positive_ref=self.num_positive_ref,
                num_negative_ref=self.num_negative_ref,
                num_misses=self._misses[0],
                num_negative_misses=self._misses[1],
            ),
        )

    def _figure(self, name: str, prevalence: float | None) -> Figure:
        return weighted_figure(self._state.groups, self._squares.groups, name, prevalence)


def merged_window(states: Sequence[State], start_us: int, end_us: int) -> Window:
    """Return the window that is the sum of some states. O(S log S)."""
    return Window(merge_states(states, revision=0), start_us, end_us)


def weights_of(ages_us: Sequence[int], half_life_us: int) -> list[int]:
    """Return each pane's integer weight; 0 from 17 half-lives on. O(n)."""
    return [round(WEIGHT_ONE * 2.0 ** (-age / half_life_us)) for age in ages_us]


def decayed_window(
    states: Sequence[State], weights: Sequence[int], *, start_us: int, end_us: int
) -> DecayedWindow:
    """Return the sum of states times weights. O(S log S)."""
    kept = [(state, weight) for state, weight in zip(states, weights, strict=True) if weight]
    # At least 1, so that both sums hold the same scores.
    squares = [
        _scaled(state, max(1, round(weight * weight / WEIGHT_ONE))) for state, weight in kept
    ]
    return DecayedWindow(
        merge_states([_scaled(state, weight) for state, weight in kept], revision=0),
        merge_states(squares, revision=0),
        whole=[state for state, _ in kept],
        start_us=start_us,
        end_us=end_us,
    )


def weighted_figure(groups: Groups, squares: Groups, name: str, prevalence: float | None) -> Figure:
    """Return a figure of weighted counts with its variance. O(G).

    Parameters
    ----------
    groups : Groups
        Counts times weights.
    squares : Groups
        Counts times squared weights, over `WEIGHT_ONE`, of the same scores.
    """
    positives, negatives = _effective(groups.P, squares.P), _effective(groups.N, squares.N)
    if name == "prevalence":
        effective = _effective(groups.P + groups.N, squares.P + squares.N)
        share = groups.P / (groups.P + groups.N) if effective else math.nan
        variance = share * (1 - share) / effective if effective else math.nan
        return Figure(share, variance, int(effective * share), int(effective * (1 - share)))
    variance = math.nan
    if min(positives, negatives) >= 2:
        if name != "average_precision":
            groups, squares = groups.with_misses(), squares.with_misses()
        influence = influence_of(groups, name, prevalence)
        variance = _of_positives(influence, groups, squares) / (positives - 1)
        variance += _of_negatives(influence, groups, squares) / (negatives - 1)
        if prevalence is None:
            variance += (1 / positives + 1 / negatives) * influence.prevalence_slope**2
    return Figure(value_of(groups, name, prevalence), variance, int(positives), int(negatives))


def _of_positives(influence: Influence, groups: Groups, squares: Groups) -> float:
    return _scatter(
        np.append(influence.positive, 0.0),
        np.append(groups.p, groups.P - int(groups.p.sum())),
        np.append(squares.p, squares.P - int(squares.p.sum())),
    )


def _of_negatives(influence: Influence, groups: Groups, squares: Groups) -> float:
    return _scatter(
        np.concatenate((influence.tied, influence.between)),
        np.concatenate((groups.n, negatives_between(groups))),
        np.concatenate((squares.n, negatives_between(squares))),
    )


def _scatter(values: FloatArray, weights: IntArray, squares: IntArray) -> float:
    """Return the mean square distance from the weighted mean, under squared weights."""
    mean = float((weights * values).sum()) / float(weights.sum())
    centred = values - mean
    return float((squares * centred * centred).sum()) / float(squares.sum())


def _effective(weighted: int, squared: int) -> float:
    """Return Kish's effective sample size, (sum w)^2 / sum w^2."""
    return weighted * weighted / (squared * WEIGHT_ONE) if squared else 0.0


def _scaled(state: State, weight: int) -> State:
    """Return the state with every count times a weight. O(n)."""
    if state.total * weight >= LIMIT:
        raise too_many()
    positives, negatives = state.counts.positives, state.counts.negatives
    return replace(
        state,
        counts=ScoreCounts(_times(positives, weight), _times(negatives, weight)),
        missed_positives=state.missed_positives * weight,
        missed_negatives=state.missed_negatives * weight,
        _answers={},
    )


def _times(run: Run, weight: int) -> Run:
    if weight == 1 or not run.scores.size:
        return run
    counts = np.full(run.scores.size, weight) if run.counts is None else run.counts * weight
    counts.flags.writeable = False
    return Run(run.scores, counts, run.total * weight)


def _iso(time: datetime) -> str:
    return time.isoformat(timespec="seconds")
