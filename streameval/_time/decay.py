"""A window in which old cases count less.

Each pane counts round(2^16 2^(-age/half-life)) times. Figures are ratios of counts,
so the scale of the weights cancels. A weighted count is no sample size, so intervals
sum variances with squared weights and use Kish's effective sample sizes (Kish 1965).

Where cases have weights of their own, each is multiplied by its pane's and rounded to a
multiple of 2^-16, and the window is one of weighted cases (`weighted_variance`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._counts.exact import MAX_TOTAL, too_many
from streameval._counts.merge import merge_states, subtract_states
from streameval._counts.multiset import ScoreCounts
from streameval._counts.run import Run
from streameval._counts.state import settled
from streameval._evaluator import Evaluator
from streameval._metric_registry import BY_NAME
from streameval._metrics.queries import ViewQueries
from streameval._snapshot import Snapshot, take_snapshot
from streameval._time.decayed_weights import decayed_weights, without_decayed
from streameval._time.window import Window, WindowCounts, mixed_decay_error
from streameval._uncertainty.cluster_effect import cluster_effect
from streameval._uncertainty.error_costs import error_shares
from streameval._uncertainty.estimates import value_of
from streameval._uncertainty.intervals import gradient_function
from streameval._uncertainty.limits import Figure
from streameval._uncertainty.rules import share_figure
from streameval._uncertainty.sampling_variance import (
    SamplingError,
    negatives_between,
    negatives_mean,
)
from streameval._uncertainty.unseen_cases import with_mean_step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streameval._common.arrays import FloatArray, IntArray
    from streameval._counts.groups import Groups
    from streameval._counts.state import State
    from streameval._metrics.confusion import Confusion
    from streameval._metrics.costs import ErrorCosts
    from streameval._metrics.influence import Influence
    from streameval._time.window import PaneState
    from streameval._uncertainty.design_effect import DesignEffect
    from streameval._uncertainty.rules import ErrorShares, Parts

WEIGHT_ONE = 1 << 16
"""The weight of a pane of age 0."""


class DecayedWindow(Window):
    """A window in which old cases count less.

    Parameters
    ----------
    state : State
        Counts times weights.
    squares : State or None
        Counts times squared weights, over `WEIGHT_ONE`; None where cases have weights of
        their own, whose squares `state` has.
    counted : WindowCounts
        Its counts, undecayed.
    """

    def __init__(
        self,
        state: State,
        squares: State | None,
        counted: WindowCounts,
        *,
        start_us: int,
        end_us: int,
    ) -> None:
        super().__init__(state, start_us, end_us)
        self.squares = squares
        self.counted = counted

    def evaluator(self) -> Evaluator:
        """Return an evaluator of the weighted counts.

        Its intervals are too narrow where no case has a weight of its own: it takes weighted
        counts for a sample size. Where some have, misses are rounded down to whole ones.
        """
        counts = self._state.counts
        if counts.has_weights:
            return Evaluator._of(settled(self._state, counts, unit=WEIGHT_ONE))
        return super().evaluator()

    def _figures(self) -> Snapshot:
        """Return the figures of the weighted counts; the counts are undecayed."""
        return self._state.cached(
            "snapshot",
            lambda: replace(take_snapshot(self), **self.counted._asdict()),
        )

    def without(self, part: Window) -> DecayedWindow:
        """Return the rest without a part with the same half-life and the same `now`."""
        if not isinstance(part, DecayedWindow):
            raise mixed_decay_error()
        if (self.squares is None) != (part.squares is None):
            message = "of two decayed windows, both or neither must have cases with weights"
            raise InvalidInputError(message, field="part")
        if self.squares is None or part.squares is None:
            state, squares = without_decayed(self._state, part._view()), None
        else:
            state = subtract_states(self._state, part._view())
            squares = subtract_states(self.squares, part.squares)
        start_us, end_us = self._span_us
        counted = self.counted.without(part.counted)
        return DecayedWindow(state, squares, counted, start_us=start_us, end_us=end_us)

    def _figure(self, name: str, prevalence: float | None) -> Figure:
        if self.squares is None:
            return super()._figure(name, prevalence)
        return weighted_figure(self._state.groups, self.squares.groups, name, prevalence)

    def _cluster_effect(self, name: str, arguments: tuple[float, ...]) -> DesignEffect:
        gradient = gradient_function(name, arguments)
        return cluster_effect(self._state, gradient, squares=self.squares, square_unit=WEIGHT_ONE)

    def _effective_scored(self) -> float:
        if self.squares is None:
            return super()._effective_scored()
        sums = (
            state.P + state.N - state.missed_positives - state.missed_negatives
            for state in (self._state, self.squares)
        )
        return _effective(*sums)

    def _share_figure(self, parts: Callable[[Confusion], Parts], threshold: float) -> Figure:
        if self.squares is None:
            return super()._share_figure(parts, threshold)
        weighted, squares = (
            parts(ViewQueries(view).confusion_at(threshold)) for view in (self._state, self.squares)
        )
        effective = _effective(sum(weighted), sum(squares))
        hits = effective * weighted[0] / (sum(weighted) or 1)
        return share_figure(hits, effective - hits)

    def _error_shares(self, threshold: float, costs: ErrorCosts) -> ErrorShares:
        if self.squares is None:
            return super()._error_shares(threshold, costs)
        effective = _effective(self._state.P + self._state.N, self.squares.P + self.squares.N)
        return error_shares(self.confusion_at(threshold), costs, effective)


def decayed_window(
    panes: Sequence[PaneState],
    half_life_us: int,
    *,
    now_us: int,
    empty: State,
    has_weights: bool = False,
) -> DecayedWindow:
    """Return the sum of panes, each weighted by 2^(-age / half_life). O(S log S).

    Parameters
    ----------
    panes : sequence of PaneState
        Oldest first.
    half_life_us, now_us : int
        A pane's age is counted from its end to `now_us`.
    empty : State
        The sum of no panes.
    has_weights : bool
        Whether the window is a part of one whose cases have weights; it is taken as true
        where a case of `panes` has one.
    """
    weights = [_weight(max(0, now_us - pane.end_us), half_life_us) for pane in panes]
    kept = [(pane.state, weight) for pane, weight in zip(panes, weights, strict=True) if weight]
    squares = None
    if has_weights or any(state.counts.has_weights for state, _ in kept):
        summed = decayed_weights(kept, empty)
    else:
        summed = merge_states(
            [_scaled(state, weight) for state, weight in kept] or [empty], revision=0
        )
        # At least 1, so that both sums have the same scores.
        scaled = [
            _scaled(state, max(1, round(weight * weight / WEIGHT_ONE))) for state, weight in kept
        ]
        squares = merge_states(scaled or [empty], revision=0)
    each = [WindowCounts.of(state) for state, _ in kept] or [WindowCounts.of(empty)]
    return DecayedWindow(
        summed,
        squares,
        WindowCounts(*map(sum, zip(*each, strict=True))),
        start_us=panes[0].start_us if panes else now_us,
        end_us=panes[-1].end_us if panes else now_us,
    )


def _weight(age_us: int, half_life_us: int) -> int:
    """Return a pane's integer weight; 0 from 17 half-lives on."""
    share: float = 2.0 ** (-age_us / half_life_us)
    return round(WEIGHT_ONE * share)


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
    estimator = BY_NAME[name].estimator
    if estimator is None:
        effective = _effective(groups.P + groups.N, squares.P + squares.N)
        if not effective:
            return Figure(math.nan, math.nan, 0, 0)
        share = groups.P / (groups.P + groups.N)
        variance = share * (1 - share) / effective
        return Figure(share, variance, int(effective * share), int(effective * (1 - share)))
    value, sizes = value_of(groups, name, prevalence), (int(positives), int(negatives))
    if min(positives, negatives) < 2:
        return Figure(value, math.nan, *sizes)
    groups, squares = estimator.counted(groups), estimator.counted(squares)
    influence = estimator.influence(groups, prevalence)
    spreads = [
        effective / (effective - 1) * of_class(influence, groups, squares)
        for effective, of_class in ((positives, _of_positives), (negatives, _of_negatives))
    ]
    mean = negatives_mean(influence, groups)
    error = SamplingError.of(spreads[0], positives, spreads[1], negatives, mean)
    variance = error.variance
    if prevalence is None:
        variance += (1 / positives + 1 / negatives) * float(influence.prevalence_slope) ** 2
    if estimator.derivatives is None:
        return Figure(value, variance, *sizes)
    figure = Figure(value, variance, *sizes, error.freedom)
    return with_mean_step(figure, groups, estimator, prevalence)


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
    """Return the mean squared distance from the weighted mean, with squared weights."""
    mean = float((weights * values).sum()) / float(weights.sum())
    centred = values - mean
    return float((squares * centred * centred).sum()) / float(squares.sum())


def _effective(weighted: float, squared: float) -> float:
    """Return Kish's effective sample size, (sum w)^2 / sum w^2."""
    return weighted * weighted / (squared * WEIGHT_ONE) if squared else 0.0


def _scaled(state: State, weight: int) -> State:
    """Return the state with every count times a weight. O(n)."""
    if state.total * weight >= MAX_TOTAL:
        raise too_many()
    positives, negatives = state.counts.runs
    return replace(
        state,
        counts=ScoreCounts(_times(positives, weight), _times(negatives, weight)),
        missed_positives=state.missed_positives * weight,
        missed_negatives=state.missed_negatives * weight,
        clusters=state.clusters.times(weight),
    )


def _times(run: Run, weight: int) -> Run:
    if weight == 1 or not run.scores.size:
        return run
    counts = np.full(run.scores.size, weight) if run.counts is None else run.counts * weight
    counts.flags.writeable = False
    return Run(run.scores, counts, run.total * weight)
