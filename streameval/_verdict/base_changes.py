"""Whether ranking changed within a span: a test of one look, in both directions.

A pane's cases move a metric of the whole span by the metric's gradient. A figure for each step
is made of their means by class, so a prevalence that moves is no change, and steps of few cases
have no bias. Three things are no evidence of a change:

- **A daily cycle**: what a time of day has in common over the days is taken from its steps, or a
  step is a whole day.
- **Bursts**: batches of panes within steps that vary by more than their cases explain increase
  the variance, and `best_split` does so for steps.
- **Levels within the tolerance** of their mean, for instance of a weekly cycle. A greater cycle
  looks like a change as long as there is one week of it; in several weeks it is residuals.

One change is a split; two that cancel are a spell, which is a split of the steps in a circle.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streameval._counts.merge import merge_states
from streameval._drift.slow import HOURS, MIN_BATCHES
from streameval._metric_registry import BY_NAME, METRICS
from streameval._time.times import to_datetime
from streameval._uncertainty.intervals import gradient_function
from streameval._uncertainty.pane_blocks import PaneBlocks
from streameval._uncertainty.split import MIN_BLOCKS, MIN_FIGURES, Split, best_split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from streameval._common.arrays import FloatArray, IntArray
    from streameval._counts.state import State

    Pane = tuple[int, int, State]
    """Start and end in microseconds of event time, and the counts."""

LEVEL: Final = 0.01
"""How often a span without a change is taken for one with a change, at most."""
TOLERANCE: Final = 0.01
"""How far a level may be from the mean."""
MIN_CASES: Final = 10
"""Positives, and negatives, of a step on average."""

_ONE_SIDED: Final = 1.645
"""A change exceeds the tolerance where 0.95 of what it may be does."""
_HOUR_US: Final = 3_600_000_000
_DAY_US: Final = 24 * _HOUR_US
_FINE_DAYS: Final = 28
"""A longer span has steps of days."""
_METRICS: Final = [each.name for each in METRICS if each.watch and not each.is_at_threshold]
"""Of the means that alarms watch, the ones of the order of all cases."""


class BaseChange(NamedTuple):
    """A change within a base.

    Attributes
    ----------
    metric : {"auc_roc", "average_precision"}
    difference : float
        The level after it minus the level before it, to first order.
    earliest_us, latest_us : int
        Between which times it was, at a level of 0.99.
    p_value : float
        Adjusted for the choice of the split.
    """

    metric: str
    difference: float
    earliest_us: int
    latest_us: int
    p_value: float

    def __str__(self) -> str:
        verb = "fell" if self.difference < 0 else "rose"
        return (
            f"{BY_NAME[self.metric].title} {verb} by about {abs(self.difference):.2g} between "
            f"{minute_words(self.earliest_us)} and {minute_words(self.latest_us)}"
        )


def changes_in(panes: Sequence[Pane], span_us: tuple[int, int]) -> list[BaseChange]:
    """Return the changes of ranking that are evident within a span, in order of time.

    They are of AUC-ROC and of average precision at the span's prevalence. There are none where
    there are too few cases to tell, or cases have weights.

    Parameters
    ----------
    panes : sequence of (int, int, State)
        Start and end in microseconds of event time, and the counts; oldest first, without
        overlap. A pane counts if it lies within the span.
    span_us : (int, int)
        [start, end).

    Notes
    -----
    O(B K) for B panes of K coarse cells, O(n^2) for n steps.
    """
    inside = within(panes, span_us)
    states = [state for _, _, state in inside]
    if len(inside) < MIN_FIGURES or any(each.weighted is not None for each in states):
        return []
    whole = merge_states(states, revision=0)
    if min(whole.P, whole.N) < MIN_FIGURES * MIN_CASES:
        return []
    blocks = PaneBlocks.of(whole, states)
    steps = _steps(inside, blocks, span_us)
    number = steps.starts_us.size
    if number < MIN_FIGURES:
        return []
    figures = {name: _figures(blocks, steps, name, whole.P / whole.total) for name in _METRICS}
    return list(_changes(figures, steps, 0, number))


def within(panes: Sequence[Pane], span_us: tuple[int, int]) -> list[Pane]:
    """Return the panes with cases that lie within a span. O(panes)."""
    start_us, end_us = span_us
    return [each for each in panes if start_us <= each[0] and each[1] <= end_us and each[2].total]


def minute_words(time_us: int) -> str:
    """Return a time to the minute, in UTC."""
    return f"{to_datetime(time_us):%Y-%m-%d %H:%M}"


class _Steps(NamedTuple):
    """Steps of a span.

    Attributes
    ----------
    of_pane : int64[B]
        The step of each pane, ascending.
    slot_of_pane : int64[B]
        The time of day of each pane, as far as steps tell them apart.
    pane_us : int64[B]
        When each pane begins, since the span began.
    starts_us, ends_us : int64[steps]
    """

    of_pane: IntArray
    slot_of_pane: IntArray
    pane_us: IntArray
    starts_us: IntArray
    ends_us: IntArray


class _Figures(NamedTuple):
    """The figure of each step less the whole's, and its variance."""

    values: FloatArray
    variances: FloatArray


def _width_us(panes: Sequence[Pane], length_us: int, cases: float) -> int:
    """Return the least width of a step that panes, cases and a long span allow."""
    least_us = max(end_us - start_us for start_us, end_us, _ in panes)
    if length_us > _FINE_DAYS * _DAY_US:
        least_us = max(least_us, _DAY_US)
    fits = [
        hours * _HOUR_US
        for hours in HOURS[1:]
        if hours * _HOUR_US >= least_us and cases * hours * _HOUR_US >= MIN_CASES * length_us
    ]
    widths = fits or [max(HOURS[-1] * _HOUR_US, least_us)]
    return widths[0] if length_us >= MIN_BLOCKS * widths[0] else max(HOURS[0] * _HOUR_US, least_us)


def _steps(panes: Sequence[Pane], blocks: PaneBlocks, span_us: tuple[int, int]) -> _Steps:
    """Return steps of one width, merged until each has enough cases. O(B)."""
    start_us, length_us = span_us[0], span_us[1] - span_us[0]
    sizes = blocks.counts.sum(axis=2)
    width_us = _width_us(panes, length_us, float(sizes.sum(axis=1).min()))
    pane_us = np.array([each[0] - start_us for each in panes])
    last = max(length_us // width_us - 1, 0)
    raw = np.minimum(pane_us // width_us, last)
    cases = np.array([np.bincount(raw, own, last + 1) for own in sizes])
    ends, kept = [], np.zeros(2)
    for step in range(last + 1):
        kept += cases[:, step]
        if kept.min() >= MIN_CASES:
            ends.append(step + 1)
            kept = np.zeros(2)
    # What the last of them leaves over is part of it.
    ends[-1:] = [last + 1]
    ends_us = start_us + np.array(ends) * width_us
    ends_us[-1] = span_us[1]
    has_days = length_us >= MIN_FIGURES * _DAY_US
    return _Steps(
        np.searchsorted(ends, raw, side="right"),
        pane_us % _DAY_US // width_us if has_days else np.zeros_like(pane_us),
        pane_us,
        np.concatenate(([start_us], ends_us[:-1])),
        ends_us,
    )


def _figures(blocks: PaneBlocks, steps: _Steps, metric: str, prevalence: float) -> _Figures:
    """Return a metric by steps, to first order: what its cases move it by, by class. O(B K)."""
    arguments = (prevalence,) if BY_NAME[metric].is_rescaled else ()
    gradient = gradient_function(metric, arguments)(blocks.cells)
    number = steps.starts_us.size
    values, spreads = np.zeros(number), np.zeros(number)
    residuals, expected = np.zeros(steps.of_pane.size), 0.0
    for counts, moved in zip(blocks.counts, (gradient.negative, gradient.positive), strict=True):
        cases, sums = counts.sum(axis=1), counts @ moved
        of_slot = np.maximum(np.bincount(steps.slot_of_pane, cases), 1.0)
        of_day = np.bincount(steps.slot_of_pane, sums) / of_slot
        sums -= cases * of_day[steps.slot_of_pane]
        of_step = np.bincount(steps.of_pane, cases, number)
        means = np.bincount(steps.of_pane, sums, number) / of_step
        residuals += sums - cases * means[steps.of_pane]
        # Within steps, each case from the mean of its time of day and step.
        own = (of_day[steps.slot_of_pane] + means[steps.of_pane])[:, None]
        squares = float((counts * (moved - own) ** 2).sum())
        expected += squares
        values += cases.sum() * means
        spreads += cases.sum() * squares / of_step
    return _Figures(values, spreads * _dependence(residuals, expected, steps))


def _dependence(residuals: FloatArray, expected: float, steps: _Steps) -> float:
    """Return by how much batches within steps vary more than their cases explain, 1 or more."""
    most = 1.0
    for hours in HOURS:
        batches = np.unique(steps.pane_us // (hours * _HOUR_US), return_inverse=True)[1]
        number = int(batches.max()) + 1
        # The sum over a step is 0.
        freedom = number - steps.starts_us.size
        if freedom >= MIN_BATCHES and expected > 0:
            sums = np.bincount(batches, residuals)
            most = max(most, float(sums @ sums) / expected * number / freedom)
    return most


class _Found(NamedTuple):
    """Evident splits of a metric, one or the two of a spell, and their adjusted p-value."""

    p_value: float
    metric: str
    splits: list[Split]


def _changes(
    figures: Mapping[str, _Figures], steps: _Steps, first: int, end: int
) -> Iterator[BaseChange]:
    """Yield the evident changes between the steps of a range, in order of time."""
    if end - first < MIN_FIGURES:
        return
    parts = {name: _Figures(*(each[first:end] for each in own)) for name, own in figures.items()}
    found = _most_evident(parts, _split) or _most_evident(parts, _spell)
    if found is None:
        return
    start = first
    for split in found.splits:
        yield from _changes(figures, steps, start, first + split.at)
        start = first + split.at
        yield BaseChange(
            found.metric,
            split.difference,
            # A change inside of a step shows from it or from the next on.
            int(steps.starts_us[first + split.first - 1]),
            int(steps.ends_us[first + split.last]),
            found.p_value,
        )
    yield from _changes(figures, steps, start, end)


def _most_evident(
    parts: Mapping[str, _Figures], search: Callable[[_Figures], list[Split]]
) -> _Found | None:
    """Return what a search finds in the metric where it is most evident; None by chance."""
    found = [
        _Found(splits[0].p_value, name, splits)
        for name, each in parts.items()
        if (splits := search(each))
    ]
    best = min(found, key=itemgetter(0), default=None)
    # Of each metric two searches.
    return best if best is not None and best.p_value < LEVEL / (2 * len(parts)) else None


def _split(part: _Figures) -> list[Split]:
    """Return the best split, of a fall or a rise."""
    found = [_signed_split(part, sign) for sign in (1.0, -1.0)]
    return [each for each in found if each is not None][:1]


def _signed_split(part: _Figures, sign: float) -> Split | None:
    """Return the best split that is a fall with the sign 1, a rise with -1."""
    if part.values.size < MIN_FIGURES:
        return None
    found = best_split(sign * part.values, part.variances, 1 - LEVEL)
    if found is None or -found.difference < 2 * TOLERANCE + _ONE_SIDED * found.error:
        return None
    return found._replace(difference=sign * found.difference)


def _spell(part: _Figures) -> list[Split]:
    """Return the two splits of the best spell, between which the level is another one.

    In a circle of steps, a spell and the rest are one split. O(n^2 log n).
    """
    size = part.values.size
    found = []
    for turn in range(1, size):
        turned = _Figures(*(np.roll(each, -turn) for each in part))
        split = _signed_split(turned, 1.0)
        if split is not None and (turn + split.at) % size:
            found.append((split.p_value, turn, split))
    if not found:
        return []
    p_value, turn, split = min(found, key=itemgetter(0))
    first, last = sorted((turn, (turn + split.at) % size))
    sign = 1.0 if last == turn else -1.0
    splits = []
    for start, at, end, way in ((0, first, last, sign), (first, last, size, -sign)):
        own = _signed_split(_Figures(*(each[start:end] for each in part)), way)
        whole = way * split.difference
        known = split._replace(at=at - start, first=at - start, last=at - start, difference=whole)
        own = known if own is None else own
        splits.append(
            own._replace(
                at=start + own.at,
                first=start + own.first,
                last=start + own.last,
                p_value=p_value * size,
            )
        )
    return splits
