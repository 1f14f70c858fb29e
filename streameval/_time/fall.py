"""Since when a figure is lower: one split of a series of windows, and how well it is known.

Windows are merged into steps of at least `MIN_CASES` of each class, by whole days where the
series has `CYCLE_DAYS` of them, so that a daily cycle is in no step's figure. Then two things
keep a constant model's figures from looking like a fall as traffic grows:

- **Bias.** Average precision of few positives is too high, by about B/P. Half of two
  neighbouring steps shows B (Quenouille 1956): the mean of their figures less the figure of
  their sum is B over the positives of both. B/P is taken from each figure.
- **Weights.** A figure's estimated variance follows the figure, so that low figures of few
  cases would weigh too much. One variance per positive and one per negative, means over all
  steps, give each step's variance from its numbers of cases.

`_uncertainty.split` finds the split.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.result import Result
from streameval._common.values import shown
from streameval._counts.exact import dot
from streameval._counts.merge import merge_states
from streameval._evaluator import Evaluator
from streameval._metric_registry import BY_NAME
from streameval._metrics.gradients import cells_of
from streameval._metrics.queries import ViewQueries
from streameval._time.window import Window, state_of
from streameval._uncertainty.compare import compare
from streameval._uncertainty.intervals import (
    check_level,
    check_prevalence,
    check_threshold,
    checked_costs,
)
from streameval._uncertainty.rules import Given
from streameval._uncertainty.split import (
    CYCLE_DAYS,
    MAX_P_VALUE,
    MIN_FIGURES,
    best_split,
    unseen_cycle,
)
from streameval._uncertainty.weighted_variance import class_sums

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from streameval._common.arrays import FloatArray, IntArray
    from streameval._counts.state import State

MIN_CASES = 30
"""Positives, and negatives, of a step."""
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, eq=False)
class Fall(Result):
    """A figure that is lower from one of its windows on, at one look.

    Attributes
    ----------
    index : int
        The first window that is lower, most likely.
    first, last : int
        The first and the last window of which that may be so, at `level`. A fall in the middle
        of a window counts from that window or the next.
    difference : float
        The mean from it on minus the mean before it, each weighted by cases; negative.
        It is of the best split, so it is too large on average where a fall is barely evident.
    p_value : float
        Two-sided, adjusted for the choice of the split.
    level : float
    warnings : tuple of str
        What else looks like such a fall: a cycle that the windows do not cover twice, or fewer
        positives where the figure may be the same at one prevalence.
    """

    index: int
    first: int
    last: int
    difference: float
    p_value: float
    level: float
    warnings: tuple[str, ...] = ()


def find_fall(
    windows: Iterable[Window],
    metric: str = "auc_pr",
    *,
    level: float = 0.95,
    threshold: float | None = None,
    cost_fp: float | None = None,
    cost_fn: float | None = None,
) -> Fall | None:
    """Return since which window a figure is lower; None where chance explains the best split.

    It is an answer for one look: of a constant model asked about again and again, it finds a
    fall in time. To watch a stream, declare an alarm.

    Parameters
    ----------
    windows : iterable of Window
        In order of time, without overlap, such as `WindowedEvaluator.panes` yields.
    metric : str
        One that has an interval.
    level : float
        The coverage of the windows that are returned.
    threshold, cost_fp, cost_fn : float, optional
        Of a metric that needs them, as in `Evaluator.interval`.

    Returns
    -------
    Fall or None
        Its windows are indices into `windows`. None also with fewer than three steps of 30
        positives and 30 negatives: that many are merged into one step.

    Raises
    ------
    InvalidInputError
        When a window begins before the end of the one before it, or has decayed, and where
        `Evaluator.interval` refuses the metric or what it is given.

    Notes
    -----
    O(S log S) for S distinct scores in all, where windows are merged, and O(S) else. It finds
    one drop, not a slow decline, which it splits somewhere in the middle, and no rise.

    Examples
    --------
    >>> from datetime import datetime, timedelta, timezone
    >>> import numpy as np
    >>> from streameval import WindowedEvaluator
    >>> random = np.random.default_rng(1)
    >>> start = datetime(2026, 1, 5, tzinfo=timezone.utc)
    >>> ev = WindowedEvaluator(pane=timedelta(hours=1))
    >>> for hour in range(24):
    ...     labels = random.random(500) < 0.2
    ...     scores = random.normal(labels * (2.0 if hour < 16 else 1.0))
    ...     ev.add_cases(labels=labels, scores=scores, at=start + timedelta(hours=hour))
    >>> fall = find_fall(ev.panes(), "auc_roc")
    >>> fall.index, fall.first, fall.last, round(fall.difference, 2)
    (16, 16, 16, -0.17)
    >>> fall.warnings
    ('the windows cover less than two days: a daily cycle looks the same',)
    """
    check_level(level)
    check_prevalence(None, metric)
    check_threshold(threshold, metric)
    costs = checked_costs(metric, cost_fp, cost_fn)
    unit = 1.0 if costs is None else costs.high
    given = Given(threshold=threshold, costs=None if costs is None else costs.relative)
    series = checked_windows(windows)
    measured = [_measured(series, run, metric, given) for run in _runs(series)]
    steps = [each for each in measured if not math.isnan(each.value)]
    if len(steps) < MIN_FIGURES:
        return None
    if not any(each.spreads.any() for each in steps):
        # A recall of 1, then of 0, varies in all windows together only.
        whole = _measured(series, range(len(series)), metric, given)
        of_cases = whole.sizes * whole.spreads
        steps = [each._replace(spreads=of_cases / each.sizes) for each in steps]
    values = np.array([each.value for each in steps]) - _bias(steps, metric, given)
    split = best_split(values, _variances(steps), level)
    if split is None:
        return None
    before, first, last = (steps[each] for each in (split.first - 1, split.first, split.last))
    return Fall(
        steps[split.at].run.start,
        # A drop inside of a step may have come at any of its windows but the first.
        first.run.start if len(before.run) == 1 else before.run.start + 1,
        last.run.stop - 1,
        split.difference * unit,
        split.p_value,
        level,
        (*_unseen(series), *_rarer_positives(steps, split.at, metric)),
    )


class _Step(NamedTuple):
    """A run of windows, merged.

    Attributes
    ----------
    run : range
        Which windows.
    state : State
        The sum of their counts.
    value : float
        The figure.
    sizes : float64[2]
        How many positives and negatives there are, with weights Kish's effective numbers.
    spreads : float64[2]
        What each class adds to the figure's variance.
    """

    run: range
    state: State
    value: float
    sizes: FloatArray
    spreads: FloatArray


def checked_windows(windows: Iterable[Window]) -> list[Window]:
    """Return windows in order of time, or refuse them. O(n)."""
    series = list(windows)
    for index, each in enumerate(series):
        if type(each) is not Window:
            message = f"windows[{index}] must be a window without decay, got {shown(each)}"
            raise InvalidInputError(message, field="windows", index=index)
        if index and each.start < series[index - 1].end:
            message = (
                f"windows[{index}] begins at {each.start.isoformat()}, before the end of the "
                f"window before it, {series[index - 1].end.isoformat()}: give windows in order of "
                "time that share no case, such as panes() of a WindowedEvaluator"
            )
            raise InvalidInputError(message, field="windows", index=index)
    return series


def _runs(series: Sequence[Window]) -> list[range]:
    """Return which windows are one step: with enough cases, of whole days in a long series."""
    runs: list[range] = []
    if not series:
        return runs
    end = series[-1].end
    days = (end - series[0].start) // _DAY
    start, positives, negatives = 0, 0, 0
    for index, each in enumerate(series):
        positives += each.num_positive_ref
        negatives += each.num_negative_ref
        if days >= CYCLE_DAYS and index + 1 < len(series):
            # Days end with the series, and what the first of them leaves over is part of it.
            here, after = ((end - at.end) // _DAY for at in (each, series[index + 1]))
            if min(here, days - 1) == min(after, days - 1):
                continue
        if min(positives, negatives) >= MIN_CASES:
            runs.append(range(start, index + 1))
            start, positives, negatives = index + 1, 0, 0
    if runs and start < len(series):
        runs[-1] = range(runs[-1].start, len(series))
    return runs


def _measured(series: Sequence[Window], run: range, metric: str, given: Given) -> _Step:
    """Return the step of a run of windows, whose figure may be nan. O(S)."""
    # A window without cases may be kept at another resolution.
    state = _sum([state_of(series[index]) for index in run if series[index].num_cases])
    value = _value(state, metric, given)
    if math.isnan(value):
        return _Step(run, state, value, np.zeros(2), np.zeros(2))
    cells = cells_of(state)
    squares: list[IntArray | FloatArray] = [cells.p, cells.n]
    sizes = np.array([state.P, state.N], dtype=np.float64)
    if state.weighted is not None:
        sums = class_sums(state, state.weighted, cells)
        squares = [each.squares for each in sums]
        sizes = np.array([each.effective for each in sums])
    gradient = BY_NAME[metric].gradient
    assert gradient is not None, metric
    moved = gradient(cells, *given.arguments)
    spreads = np.array(
        [
            dot(square, derivative**2)
            for square, derivative in zip(squares, (moved.positive, moved.negative), strict=True)
        ]
    )
    return _Step(run, state, value, sizes, spreads)


def _sum(states: Sequence[State]) -> State:
    return states[0] if len(states) == 1 else merge_states(states, revision=0)


def _value(state: State, metric: str, given: Given) -> float:
    return float(BY_NAME[metric].function(ViewQueries(state), **given.keywords))


def _bias(steps: Sequence[_Step], metric: str, given: Given) -> FloatArray:
    """Return by how much each figure is too high because it is of few positives. O(S log S).

    A difference counts by the inverse of its positives: it is of few that the bias is of.
    """
    positives = np.array([each.sizes[0] for each in steps])
    differences, inverses = 0.0, 0.0
    for index in range(0, len(steps) - 1, 2):
        pair = steps[index : index + 2]
        whole = _value(_sum([each.state for each in pair]), metric, given)
        if not math.isnan(whole):
            shares = positives[index : index + 2] / positives[index : index + 2].sum()
            differences += float(shares @ [each.value for each in pair]) - whole
            inverses += 1 / float(positives[index : index + 2].sum())
    bias: FloatArray = differences / inverses / positives if inverses else np.zeros(len(steps))
    return bias


def _variances(steps: Sequence[_Step]) -> FloatArray:
    """Return each figure's variance, of equal variances of all positives, and of all negatives."""
    sizes = np.array([each.sizes for each in steps])
    unbiased = sizes / np.maximum(sizes - 1, 1)
    of_cases = sizes * np.array([each.spreads for each in steps]) * unbiased
    means = (sizes * of_cases).sum(axis=0) / sizes.sum(axis=0)
    variances: FloatArray = (means / sizes).sum(axis=1)
    return variances


def _unseen(series: Sequence[Window]) -> tuple[str, ...]:
    """Return which cycle looks the same as a fall in so short a series."""
    found = unseen_cycle(series[-1].end - series[0].start)
    return () if found is None else (f"the windows cover {found}",)


def _rarer_positives(steps: Sequence[_Step], at: int, metric: str) -> tuple[str, ...]:
    """Return whether an area is lower at the steps' own prevalences only. O(S log S)."""
    if not BY_NAME[metric].is_rescaled:
        return ()
    before, after = (
        Evaluator._of(_sum([each.state for each in part])) for part in (steps[:at], steps[at:])
    )
    if after.prevalence >= before.prevalence:
        return ()
    change = compare(after, before, metric=metric)
    if change.difference < 0 and not change.p_value >= MAX_P_VALUE:
        return ()
    shares = f"{before.prevalence:.3g} and then {after.prevalence:.3g} of the cases"
    return (
        f"positives are rarer from then on, {shares}: at one prevalence {metric} may be the same",
    )
