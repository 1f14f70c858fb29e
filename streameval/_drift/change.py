"""Since when and by how much a mean has changed, from the sums of its process."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streameval._uncertainty.student import normal_quantile

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray, IntArray
    from streameval._drift.processes import Processes

LEVEL: Final = 0.95


class ChangeEstimate(NamedTuple):
    """What the sums say of a change.

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


def estimate_change(
    processes: Processes, sides: slice, means: FloatArray, pane: int
) -> ChangeEstimate:
    """Return since when and by how much the mean of a process has changed. O(blocks).

    The side with the most evidence is taken. Suppose that the mean was the reference's before
    the start of a block, and another one from there on. With a normal mean, the variance of
    panes as blocks and the same prior for every pane, this gives the probability that each
    block holds the change: its median is the estimate, its central 95 % give the limits. The
    mean is averaged over these starts, of the rows from each one on; its variance is the
    variance of panes as blocks plus the variance between the starts. All of it is chosen after
    the data and at the time of the alarm, so it describes and does not promise.

    Parameters
    ----------
    processes : Processes
        With evidence in `fine`.
    sides : slice
        Of the process.
    means : float64[sides]
        Of its sides in the reference.
    pane : int
        The pane of the alarm.
    """
    evidence = processes.fine[sides]
    side = int(np.argmax(evidence.sum(axis=(1, 2)) + processes.coarse[sides].sum(axis=1)))
    ends = np.append(processes.starts[1:], pane + 1)
    sums = processes.summaries[:, sides.start + side]
    shares = _shares(sums, float(means[side]), ends - processes.starts)
    below = np.cumsum(shares)
    tail = (1 - LEVEL) / 2
    first, median, last = (
        min(int(np.searchsorted(below, share)), shares.size - 1) for share in (tail, 0.5, 1 - tail)
    )
    mean, error = _mean_and_error(sums, shares)
    margin = normal_quantile((1 - LEVEL) / 2) * error
    return ChangeEstimate(
        int(processes.starts[first]),
        int(processes.starts[median]),
        int(ends[last]),
        side,
        mean,
        max(mean - margin, 0.0),
        min(mean + margin, 1.0),
    )


def _since(sums: FloatArray) -> FloatArray:
    """Return the sums of the rows from the start of each block on."""
    found: FloatArray = np.cumsum(sums[:, ::-1], axis=1)[:, ::-1]
    return found


def _spreads(sums: FloatArray, means: FloatArray) -> FloatArray:
    """Return the sums over panes of the squared distance of their totals from a mean's."""
    _, _, rows2, cross, total2 = sums
    found: FloatArray = np.maximum(total2 - 2 * means * cross + means * means * rows2, 0.0)
    return found


def _shares(sums: FloatArray, reference: float, panes: IntArray) -> FloatArray:
    """Return how likely each block holds the change; all add up to 1."""
    rows, total = sums[:2]
    within = _spreads(sums, total / np.maximum(rows, 1)).sum()
    # One more case at either end: a mean of equal values is not known exactly.
    variance = (within + max(reference, 1 - reference) ** 2) / (rows.sum() + 1)
    is_counted = rows > 0  # blocks before the last alarm have no rows
    rows, total = _since(sums)[:2]
    distance = total / np.maximum(rows, 1) - reference
    # On every side a fall is bad, so a rise is no evidence.
    logs = rows * np.minimum(distance, 0.0) ** 2 / (2 * variance)
    weights = np.where(
        is_counted, panes * np.exp(logs - logs.max(where=is_counted, initial=0.0)), 0.0
    )
    shares: FloatArray = weights / weights.sum()
    return shares


def _mean_and_error(sums: FloatArray, shares: FloatArray) -> tuple[float, float]:
    """Return the mean since the change, and its standard error."""
    possible = shares > 0
    sums, shares = _since(sums)[:, possible], shares[possible]
    rows, total = sums[:2]
    means = total / rows
    unseen = np.maximum(means, 1 - means) / (rows + 1)
    mean = float(shares @ means)
    variances = _spreads(sums, means) / rows**2 + unseen**2 + (means - mean) ** 2
    return mean, math.sqrt(float(shares @ variances))
