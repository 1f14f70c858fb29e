"""Since when a series of figures is lower: one split of its steps, and how well it is known.

Each step has a figure and its interval, from which its variance comes. A split divides the
steps into earlier and later ones; each part has a mean, weighted by precision. The split is
chosen whose later mean is lower by the most standard errors; this is the maximum likelihood
estimate for one drop in otherwise constant figures. The split's p-value is multiplied by the
number of splits (Bonferroni), so at most a share of `MAX_P_VALUE` of constant series is said
to have fallen; of simulated ones of 24 steps 1.6 % are.

Which steps the drop may have come at is the likelihood ratio's confidence set with the limits of
Siegmund (1988, International Statistical Review 56:31-48): twice the log-likelihood that a split
loses to the best one exceeds x with probability 1 - (1 - exp(-x/2))^2 where it is the true one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.result import Result
from streameval._common.values import shown

if TYPE_CHECKING:
    import numpy.typing as npt

MAX_P_VALUE = 0.05

_MIN_WIDTH = 1e-70
"""Narrower intervals are left out: squares of quotients of widths must not underflow to 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Fall(Result):
    """A series that is lower from one of its steps on.

    Attributes
    ----------
    index : int
        The first step that is lower, most likely.
    first, last : int
        The first and the last step of which that may be so, at `level`.
    difference : float
        The mean from it on minus the mean before it, each weighted by precision; negative.
        It is of the best split, so it is too large on average where a fall is barely evident.
    p_value : float
        Two-sided, adjusted for the number of splits.
    level : float
    """

    index: int
    first: int
    last: int
    difference: float
    p_value: float
    level: float


def find_fall(
    values: npt.ArrayLike, lower: npt.ArrayLike, upper: npt.ArrayLike, *, level: float = 0.95
) -> Fall | None:
    """Return since which step a series is lower; None where chance explains the best split.

    Parameters
    ----------
    values : float[n]
        The figures of steps, in order of time, of which no two share a case. nan where there is
        none: such a step, and one without an interval, is left out.
    lower, upper : float[n]
        Their intervals.
    level : float
        The coverage of those, and of the steps that are returned.

    Returns
    -------
    Fall or None
        Its steps are indices into `values`.

    Raises
    ------
    InvalidInputError
        When the lengths differ, or `level` is not between 0 and 1.

    Notes
    -----
    O(n). It finds one drop, not a slow decline, whose steps it splits somewhere in the middle, and
    no rise. Of simulated drops of 1.5 standard errors of a step or more that were found, 24 steps
    of unequal width and at least 3 on each side, 96 % or more came within `first` and `last`; of
    drops of one standard error, few of which are found, 90 % to 95 %.

    Examples
    --------
    >>> figures = [0.81, 0.79, 0.80, 0.71, 0.69, 0.70]
    >>> fall = find_fall(figures, [f - 0.04 for f in figures], [f + 0.04 for f in figures])
    >>> fall.index, fall.first, fall.last, round(fall.difference, 3)
    (3, 3, 3, -0.1)
    >>> find_fall(figures[:3], [0.7] * 3, [0.9] * 3) is None
    True
    """
    if not 0 < level < 1:
        message = f"level must be between 0 and 1, got {shown(level)}"
        raise InvalidInputError(message, field="level")
    columns = [np.asarray(each, dtype=np.float64) for each in (values, lower, upper)]
    if {each.shape for each in columns} != {(columns[0].size,)}:
        lengths = ", ".join(str(each.shape) for each in columns)
        message = f"values, lower and upper must be one-dimensional and as long, got {lengths}"
        raise InvalidInputError(message, field="values")
    figures, low, high = columns
    with np.errstate(over="ignore", invalid="ignore"):
        widths = high - low
    known = np.flatnonzero(np.isfinite(figures) & (widths > _MIN_WIDTH) & (widths < 1 / _MIN_WIDTH))
    if known.size < 2:
        return None
    figures, widths = figures[known], widths[known]
    # Parts of the greatest precision: a level near 0 would make all of them 0.
    narrowest = float(widths.min())
    weights = (narrowest / widths) ** 2
    before, after = np.cumsum(weights)[:-1], np.cumsum(weights[::-1])[-2::-1]
    sums = weights * figures
    difference = np.cumsum(sums[::-1])[-2::-1] / after - np.cumsum(sums)[:-1] / before
    limit = -NormalDist().inv_cdf((1 - level) / 2)
    z = difference / np.sqrt(1 / before + 1 / after) * (2 * limit / narrowest)
    best = int(np.argmin(z))
    p_value = min(1.0, z.size * math.erfc(-z[best] / math.sqrt(2)))
    if z[best] >= 0 or p_value >= MAX_P_VALUE:
        return None
    lost = -2 * math.log((1 - level) / (1 + math.sqrt(level)))  # 1 - sqrt(level), also near 1
    possible = np.flatnonzero((z < 0) & (z[best] ** 2 - z**2 <= lost))
    return Fall(
        int(known[best + 1]),
        int(known[possible[0] + 1]),
        int(known[possible[-1] + 1]),
        float(difference[best]),
        p_value,
        level,
    )
