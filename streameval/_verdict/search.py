"""Since when a mean is another one: a search that locates a change which evidence has decided.

A figure is a mean for each class (placements of positives, of negatives) in steps of an hour or
a day. At each place where the levels may part, each class adds the square of the difference in
standard errors; the greatest sum is the split of greatest likelihood ratio. Nothing here says
*that* there is a change: searched every hour, every healthy stream has one in time.

- **Places** lie a quarter of a step apart: a change in the middle of a step mixes its values.
- **Variance** is of each side's own cases, and larger where residuals from the levels vary more
  than these explain (`_uncertainty.split.inflation_of`).
- **The set of places that are not excluded** has a nominal level of 0.98. It is asked for after a
  detection, which comes when the data look the most like a change; then it still holds the
  beginning in at least 0.9 of drops of any size (bench/verdict.py): places are a quarter of a
  step wider on either side, and the variance is never taken to be less than what cases explain.
- **A return** is a second place: the middle of the steps is another level than both ends. What
  was over before the change of now began is taken out of the search for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streameval._uncertainty.split import (
    INSIDE,
    MIN_FIGURES,
    SPLIT_LEVEL,
    fit_splits,
    inflation_of,
    possible_splits,
)

if TYPE_CHECKING:
    from streameval._common.arrays import BoolArray, FloatArray, IntArray

EVIDENT: Final = 20.0
"""What is evident at one look, as twice the log-likelihood ratio: of 1,000 healthy streams of up
to 30 days one exceeded 18.9 by an episode, and 15.4 by a split."""
_MAX_COARSE: Final = 128
_PRIOR_CASES: Final = 10
"""The variance of both sides counts as this many cases of each side's own variance."""


class StepSums(NamedTuple):
    """Sums of the values of each class by step; steps do not overlap and are in order of time.

    Attributes
    ----------
    starts_us, ends_us : int64[n]
    counts, totals, squares : float64[C, n]
        Cases, the sum of their values and of the values' squares; values from 0 to 1.
    """

    starts_us: IntArray
    ends_us: IntArray
    counts: FloatArray
    totals: FloatArray
    squares: FloatArray

    def part(self, chosen: slice | BoolArray) -> StepSums:
        """Return some of the steps."""
        counts, totals, squares = (each[:, chosen] for each in self.sums)
        return StepSums(self.starts_us[chosen], self.ends_us[chosen], counts, totals, squares)

    def with_cases(self) -> StepSums:
        """Return the steps that have a case of a class."""
        return self.part(self.counts.sum(axis=0) > 0)

    def merged(self, number: int) -> StepSums:
        """Return runs of `number` steps as one each; the last run may have fewer."""
        at = np.arange(0, self.starts_us.size, number)
        last = np.append(at[1:], self.starts_us.size) - 1
        counts, totals, squares = (np.add.reduceat(each, at, axis=1) for each in self.sums)
        return StepSums(self.starts_us[at], self.ends_us[last], counts, totals, squares)

    def before(self, later: StepSums) -> StepSums:
        """Return these steps and then later ones of the same classes."""
        counts, totals, squares = (
            np.concatenate(pair, axis=1) for pair in zip(self.sums, later.sums, strict=True)
        )
        starts, ends = (
            np.concatenate(pair)
            for pair in ((self.starts_us, later.starts_us), (self.ends_us, later.ends_us))
        )
        return StepSums(starts, ends, counts, totals, squares)

    @property
    def sums(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Counts, totals and squares."""
        return self.counts, self.totals, self.squares


class Beginning(NamedTuple):
    """When a change began: the limits, and the most likely time."""

    earliest_us: int
    likeliest_us: int
    latest_us: int


class Change(NamedTuple):
    """Since when there is another level, and since when not any more; None if it still is."""

    since: Beginning
    returned: Beginning | None


def find_change(base: StepSums, steps: StepSums, *, level: float = SPLIT_LEVEL) -> Change | None:
    """Return when a change began, and when it was over; None without cases since the base.

    Parameters
    ----------
    base : StepSums
        One step: what the level was known to be.
    steps : StepSums
        After it, with the same classes. The last ones are now.
    level : float
        Nominal, of the places that are not excluded.

    Returns
    -------
    Change or None
        Of the change that lasts until now; if there is none that is evident, and there was one
        that is over, of the last one of these; else of the best split, evident or not.

    Notes
    -----
    O(n), and O(128^2) for each change that is over. It describes one look and promises nothing
    about the rate of changes found.
    """
    series = base.before(steps.with_cases())
    over: tuple[StepSums, StepSums] | None = None
    while series.starts_us.size > 2:
        episode = _episode(series)
        if episode is None:
            break
        first, last, width = episode
        over = series.part(slice(last)), series.part(slice(first, None))
        # The step in which it ended has both levels: left in, it is an episode of its own.
        series = base.before(series.part(slice(last + width, None)))
    if series.starts_us.size < 2 and over is None:
        return None
    gains = _gains(series) if series.starts_us.size > 1 else np.zeros(0)
    if over is None or gains.max(initial=0.0) >= EVIDENT:
        return Change(_beginning(series, gains, level), None)
    since, returned = (_beginning(each, _gains(each), level) for each in over)
    return Change(since, returned)


def _beginning(series: StepSums, gains: FloatArray, level: float) -> Beginning:
    """Return the times of the places that are not excluded, a place wider on either side."""
    starts, ends = series.starts_us[1:], series.ends_us[1:]
    found = possible_splits(gains, starts, ends, level, first=int(series.ends_us[0]))
    return Beginning(found.earliest, found.likeliest, found.latest)


def _gains(series: StepSums) -> FloatArray:
    """Return by how much two levels are more likely than one, for each place. O(n)."""
    at = series.starts_us.size
    for _ in range(2):
        values, precisions = _figures(series, at)
        at = 1 + int(np.argmax(_explained(values, precisions))) // len(INSIDE)
    return _explained(values, _deflated(values, precisions, slice(at, None)))


def _explained(values: FloatArray, precisions: FloatArray) -> FloatArray:
    """Return the sum over classes of what two levels explain, for each place. O(n)."""
    found: FloatArray = (fit_splits(values, precisions, INSIDE).z ** 2).sum(axis=0)
    return found


def _figures(series: StepSums, at: int) -> tuple[FloatArray, FloatArray]:
    """Return the means and precisions of steps, with each side's own variance of a case.

    `at` is the first step after the place; the number of steps for one variance of all.
    """
    values = series.totals / np.maximum(series.counts, 1)
    whole = _variance(series)
    variances = np.empty_like(values)
    for side in (slice(at), slice(at, None)):
        cases = series.counts[:, side].sum(axis=1)
        own = cases * _variance(series.part(side)) + _PRIOR_CASES * whole
        variances[:, side] = (own / (cases + _PRIOR_CASES))[:, None]
    return values, series.counts / variances


def _variance(series: StepSums) -> FloatArray:
    """Return each class's variance of a case, with one case more at the end that is further."""
    cases, total, square = (each.sum(axis=1) for each in series.sums)
    mean = total / np.maximum(cases, 1)
    within = np.maximum(square - cases * mean**2, 0.0)
    found: FloatArray = (within + np.maximum(mean, 1 - mean) ** 2) / (cases + 1)
    return found


def _residuals(values: FloatArray, precisions: FloatArray, inner: slice) -> FloatArray:
    """Return the distance of each step from its level in standard errors."""
    levels = np.empty_like(values)
    is_inner = np.zeros(values.shape[1], dtype=np.bool_)
    is_inner[inner] = True
    for part in (is_inner, ~is_inner):
        levels[:, part] = _mean(values[:, part], precisions[:, part])
    residuals: FloatArray = (values - levels) * np.sqrt(precisions)
    return residuals


def _mean(values: FloatArray, precisions: FloatArray) -> FloatArray:
    known = precisions.sum(axis=1, keepdims=True)
    sums = (values * precisions).sum(axis=1, keepdims=True)
    means: FloatArray = sums / np.where(known > 0, known, 1.0)
    return means


def _deflated(values: FloatArray, precisions: FloatArray, inner: slice) -> FloatArray:
    """Return precisions that allow for steps that vary more than their cases explain."""
    residuals = _residuals(values, precisions, inner)
    found = precisions.copy()
    for place, each in enumerate(residuals):
        of_cases = each[1:][precisions[place, 1:] > 0]
        if of_cases.size >= MIN_FIGURES:
            found[place] /= inflation_of(of_cases)
    return found


def _episode(series: StepSums) -> tuple[int, int, int] | None:
    """Return from which step to before which the level was another one; None if it was not.

    The last of the three is how many steps these places are apart. The base and all other steps
    have one level. An episode ends before the last step, and explains evidently more than a
    change that lasts.
    """
    width = -(-series.starts_us.size // _MAX_COARSE)
    coarse = series.part(slice(1)).before(series.part(slice(1, None)).merged(width))
    values, precisions = _figures(coarse, coarse.starts_us.size)
    gains = _episode_gains(values, precisions)
    first, last = divmod(int(np.argmax(gains)), gains.shape[1])
    precisions = _deflated(values, precisions, slice(first, last))
    gains = _episode_gains(values, precisions)
    lasting, ended = gains[:, -1].max(), gains[:, :-1]
    first, last = divmod(int(np.argmax(ended)), ended.shape[1])
    if ended[first, last] - lasting < EVIDENT:
        return None
    return 1 + (first - 1) * width, 1 + (last - 1) * width, width


def _episode_gains(values: FloatArray, precisions: FloatArray) -> FloatArray:
    """Return by how much another level from a step to before another is more likely. O(n^2)."""
    nothing = np.zeros((len(values), 1))
    distances = precisions * (values - _mean(values, precisions))
    sums, weights = (
        np.concatenate((nothing, np.cumsum(each, axis=1)), axis=1)
        for each in (distances, precisions)
    )
    inner = weights[:, None, :] - weights[:, :, None]
    moved = sums[:, None, :] - sums[:, :, None]
    outer = weights[:, -1:, None] - inner
    spread = inner * outer / np.maximum(inner + outer, 1e-300)
    is_known = spread > 0
    gains = np.where(is_known, moved**2 / np.where(is_known, spread, 1.0), 0.0).sum(axis=0)
    gains[0] = 0  # the base is not part of one
    found: FloatArray = np.triu(gains, k=1)
    return found
