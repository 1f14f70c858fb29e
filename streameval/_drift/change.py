"""Since when and by how much a mean has changed, from the evidence of its process."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streameval._uncertainty.student import normal_quantile

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray
    from streameval._drift.processes import Processes

LEVEL: Final = 0.95


class Change(NamedTuple):
    """What the evidence says of a change.

    Attributes
    ----------
    earliest, since, latest : int
        Panes: the limits of when it began, and the best estimate.
    side : int
        The side with the most evidence, from the process's first.
    mean, lower, upper : float
        Of the side's values since then.
    """

    earliest: int
    since: int
    latest: int
    side: int
    mean: float
    lower: float
    upper: float


def estimate_change(processes: Processes, sides: slice, pane: int) -> Change:
    """Return since when and by how much the mean of a process has changed. O(blocks).

    The evidence of a side is a sum over the panes in which its bets began. Taken as weights, as
    Bayes's rule does from an even prior, 95 % of them give the limits and the median gives
    the estimate; each to the width of a block. The mean is that of the rows since, with
    the variance of panes as blocks. It is chosen after the data, so its interval is a
    description and promises no coverage: bench/alarms.py measures it.

    Parameters
    ----------
    processes : Processes
        With evidence in `fine`.
    sides : slice
        Of the process.
    pane : int
        The pane of the alarm.
    """
    evidence = processes.fine[sides]
    side = int(np.argmax(evidence.sum(axis=(1, 2)) + processes.coarse[sides].sum(axis=1)))
    weights = evidence[side].sum(axis=0)
    below = np.cumsum(weights) / weights.sum()
    tail = (1 - LEVEL) / 2
    first, median, last = (int(np.searchsorted(below, share)) for share in (tail, 0.5, 1 - tail))
    last = min(last, weights.size - 1)
    ends = np.append(processes.starts[1:], pane)
    sums = processes.summaries[:, sides.start + side, median:].sum(axis=-1)
    mean, error = _mean_and_error(sums)
    margin = normal_quantile((1 - LEVEL) / 2) * error
    return Change(
        int(processes.starts[first]),
        int(processes.starts[median]),
        int(ends[last]),
        side,
        mean,
        max(mean - margin, 0.0),
        min(mean + margin, 1.0),
    )


def _mean_and_error(sums: FloatArray) -> tuple[float, float]:
    rows, total, rows2, cross, total2 = (float(each) for each in sums)
    mean = total / rows
    spread = max(total2 - 2 * mean * cross + mean * mean * rows2, 0.0)
    # One more case at either end: a mean of equal values is not known exactly.
    unseen = max(mean, 1 - mean) / (rows + 1)
    return mean, math.sqrt(spread / rows**2 + unseen**2)
