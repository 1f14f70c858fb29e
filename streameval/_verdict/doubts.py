"""What may look like a change, or hide in one: bursts, cycles, a level that wanders.

It is read from residuals, the distance of each step from the level of its time, so that a change
is no evidence of dependence. Where hours vary more than their cases explain (the square of the
Birge ratio), cases come in bursts. Where batches of 6 hours vary more than hours do, there is a
cycle if days vary less, and else the level wanders.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import numpy as np

from streameval._drift.slow import batch_ratios, most_by_chance
from streameval._uncertainty.split import unseen_cycle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import FloatArray, IntArray
    from streameval._drift.slow import BatchRatio
    from streameval._verdict.search import Change, StepSums

_UNITS: Final = 1 << 20
"""Of a standard deviation: residuals are integers."""
_DAY: Final = 24


def doubts(steps: StepSums, change: Change | None, *, base_start_us: int) -> tuple[str, ...]:
    """Return what the residuals show, and what so short a time cannot show. O(steps).

    Parameters
    ----------
    steps : StepSums
        As of `find_change`.
    change : Change or None
        From it; None where nothing has changed.
    base_start_us : int
        When the base begins.

    Returns
    -------
    tuple of str
        At most two, each with what to do; empty where there is nothing to say.
    """
    if not steps.starts_us.size:
        return ()
    found = []
    dependence = _dependence(steps, change)
    if dependence is not None:
        found.append(dependence)
    short = unseen_cycle(timedelta(microseconds=int(steps.ends_us[-1]) - base_start_us))
    if short is not None:
        found.append(f"base and now together cover {short}; wait, or declare an earlier base")
    return tuple(found)


def _dependence(steps: StepSums, change: Change | None) -> str | None:
    """Return how the steps of the class where it is plainest depend on one another."""
    width = (steps.ends_us - steps.starts_us).min()
    fine = steps.part(steps.ends_us - steps.starts_us == width)
    cuts = []
    if change is not None:
        cuts = [each.likeliest_us for each in change if each is not None]
    piece = np.searchsorted(np.array(cuts, dtype=np.int64), fine.starts_us, side="right")
    texts = [
        _said(_ratios(fine.starts_us.tolist(), piece, *columns))
        for columns in zip(*fine.sums, strict=True)
    ]
    return max((each for each in texts if each is not None), default=(0.0, None))[1]


def _ratios(starts_us: Sequence[int], piece: IntArray, *sums: FloatArray) -> list[BatchRatio]:
    """Return how much batches of a class vary, over what their cases explain."""
    residuals = np.zeros(len(starts_us))
    for which in np.unique(piece):
        count, total, square = (each[piece == which] for each in sums)
        cases = count.sum()
        if cases > 1:
            level = total.sum() / cases
            variance = (square.sum() - cases * level**2) / (cases - 1)
            deviation = math.sqrt(variance) if variance > 0 else math.inf
            residuals[piece == which] = (total - count * level) / deviation
    units = np.rint(residuals * _UNITS).astype(np.int64).tolist()
    of_cases = [each for each in zip(starts_us, units, sums[0].tolist(), strict=True) if each[2]]
    timed = [each[:2] for each in of_cases]
    return batch_ratios(timed, _UNITS**2, float(sums[0].sum()))


def _said(found: Sequence[BatchRatio]) -> tuple[float, str] | None:
    """Return the ratio of variances and what it says; None where chance explains it."""
    if not found:
        return None
    hour, longest = found[0], found[-1]
    burst = max(hour.ratio, 1.0)
    slow = [each for each in found[1:] if each.ratio / burst > most_by_chance(each.batches - 1)]
    if not slow:
        if not hour.is_more:
            return None
        return hour.ratio, (
            f"steps vary {math.sqrt(hour.ratio):.1f} times as much as their cases explain: rows "
            "come in bursts, and limits are too narrow; declare clusters (cluster_key)"
        )
    most = max(slow, key=lambda each: each.ratio)
    if longest.hours == _DAY and longest.ratio < most.ratio:
        return most.ratio, (
            "hours of a day differ and days do not: there is a daily cycle; compare whole days"
        )
    text = f"batches of {most.hours} hours vary {math.sqrt(most.ratio):.1f} times as much as "
    text += "their cases explain: the level wanders, and this may be a part of it; "
    return most.ratio, f"{text}watch for some days, or take a longer base"
