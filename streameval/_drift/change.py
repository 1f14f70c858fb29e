"""Since when and by how much a mean has changed, from the sums of its process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streameval._uncertainty.split import INSIDE, SPLIT_LEVEL, fit_splits, possible_splits
from streameval._uncertainty.student import normal_quantile

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray
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
    processes: Processes, sides: slice, means: FloatArray, errors: FloatArray, pane: int
) -> ChangeEstimate:
    """Return since when and by how much the mean of a process has changed. O(blocks).

    The side with the most evidence is taken. Its beginning is a split of the reference and the
    blocks (`_uncertainty.split`), with the variance of panes as blocks; it may lie inside a
    block, which then mixes both levels. The mean is of the rows of the blocks after the
    likeliest beginning; its limits are the hull of the limits over all beginnings that are not
    excluded. All of it is chosen after the data and at the time of the alarm, so it describes
    and does not promise.

    Parameters
    ----------
    processes : Processes
        With evidence in `fine`.
    sides : slice
        Of the process.
    means, errors : float64[sides]
        Of its sides in the reference, and their standard errors.
    pane : int
        The pane of the alarm.
    """
    evidence = processes.fine[sides]
    side = int(np.argmax(evidence.sum(axis=(1, 2)) + processes.coarse[sides].sum(axis=1)))
    ends = np.append(processes.starts[1:], pane + 1)
    sums = processes.summaries[:, sides.start + side]
    known = int(np.argmax(sums[0] > 0))  # blocks before the last alarm have no rows
    gains = _gains(sums[:, known:], float(means[side]), float(errors[side]))
    places = len(INSIDE)  # whole numbers of these are panes
    starts = places * processes.starts[known:]
    split = possible_splits(gains, starts, places * ends[known:], SPLIT_LEVEL)
    # What is certainly after each place: without the block in which it lies.
    possible = np.minimum(known - (-split.possible // places), ends.size - 1)
    best = min(known - (-split.best // places), ends.size - 1)
    values, margins = _since(sums)
    return ChangeEstimate(
        split.earliest // places,
        split.likeliest // places,
        -(-split.latest // places),
        side,
        float(values[best]),
        max(float((values - margins)[possible].min()), 0.0),
        min(float((values + margins)[possible].max()), 1.0),
    )


def _gains(sums: FloatArray, reference: float, error: float) -> FloatArray:
    """Return by how much a fall from each place on is more likely than none."""
    rows, total = sums[:2]
    levels = total / np.maximum(rows, 1)
    # One more case at either end: a mean of equal values is not known exactly.
    variance = (_spreads(sums, levels).sum() + max(reference, 1 - reference) ** 2) / (
        rows.sum() + 1
    )
    values = np.append(reference, levels)
    precisions = np.append(1 / error**2, rows / variance)
    # On every side a fall is bad, so a rise is no evidence.
    fits = fit_splits(values[None], precisions[None], INSIDE)
    gains: FloatArray = np.minimum(fits.z[0], 0.0) ** 2
    return gains


def _since(sums: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean of the rows from the start of each block on, and how far limits are."""
    since: FloatArray = np.cumsum(sums[:, ::-1], axis=1)[:, ::-1]
    rows = np.maximum(since[0], 1)
    means = since[1] / rows
    unseen = np.maximum(means, 1 - means) / (rows + 1)
    errors = np.sqrt(_spreads(since, means) / rows**2 + unseen**2)
    return means, normal_quantile((1 - LEVEL) / 2) * errors


def _spreads(sums: FloatArray, means: FloatArray) -> FloatArray:
    """Return the sums over panes of the squared distance of their totals from a mean's."""
    _, _, rows2, cross, total2 = sums
    found: FloatArray = np.maximum(total2 - 2 * means * cross + means * means * rows2, 0.0)
    return found
