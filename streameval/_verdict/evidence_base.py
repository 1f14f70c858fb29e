"""What evidence keeps of its base: means and thetas of all sides, segments, the longest gap."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streameval._counts.codec import encode_evaluator
from streameval._counts.merge import merge_states
from streameval._drift.evidence import FRACTIONS
from streameval._drift.frozen import FrozenReference
from streameval._drift.reference import MIN_CASES, STANDARD_ERRORS, ReferenceCases
from streameval._drift.settings import DriftSettings
from streameval._drift.slow import variance_of_sums
from streameval._drift.watches import BOTH_WAYS, UNITS
from streameval._verdict.level_sums import HOUR_US, MAX_DAYS, MAX_FINE, ROW, SPANNED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streameval._common.arrays import FloatArray
    from streameval._counts.state import State
    from streameval._verdict.base import BaseSpan

TOLERANCE: Final = 0.01
MEAN_US: Final = 100 * 8766 * HOUR_US
"""The mean time to a false call of all means together: 100 years."""
POSITIVES_A_STEP: Final = 10
CALLS: Final = (
    "ranking_worse",
    "auc_roc_worse",
    "ranking_better",
    "auc_roc_better",
    "scores",
    "prevalence",
    "labelled_share",
)
"""What is called, each a mean or the two sides of one, in the order of the sides."""
SIDES: Final = 2 * len(CALLS)
SEGMENT_SIDES: Final = 4
"""Segments are watched for what becomes worse."""
MAX_SEGMENTS: Final = 32
MAX_BYTES: Final = 16_384 - 24 * 9
"""The most bytes of evidence: segments get what the rest leaves. 16 KB with the 24 last changes of
quality that a server keeps."""
_FIXED_BYTES: Final = MAX_FINE * ROW.itemsize + MAX_DAYS * SPANNED.itemsize + 1_982
_BYTES_A_SEGMENT: Final = SEGMENT_SIDES * (4 * len(FRACTIONS) + 2) + 2
SHARES: Final = ("prevalence", "labelled_share")
"""Calls on a share, which is stretched if it is small."""
PREVALENCE, LABELLED = slice(10, 12), slice(12, 14)
_MISSING: Final = 1 / 9
"""The labels that may be missing when a step is observed, a tenth, over the others."""
_STRETCHED_SHARE: Final = 4.0
"""A larger multiple of the base's share counts as this one, in one step."""


class Pane(NamedTuple):
    """What one pane of event time has.

    Attributes
    ----------
    start_us, end_us : int
    state : State
        Of the cases that have a label.
    predictions : int
        With and without a label; 0 where it is not known.
    segments : mapping of str to State
        By ``"key=value"``.
    """

    start_us: int
    end_us: int
    state: State
    predictions: int = 0
    segments: Mapping[str, State] = {}

    @property
    def width_us(self) -> int:
        """How long it is."""
        return self.end_us - self.start_us


def frozen_base(
    base: BaseSpan, panes: Sequence[Pane], step_us: int
) -> tuple[FrozenReference, FloatArray]:
    """Return what later cases are compared with, and by what shares are multiplied. O(n)."""
    reference = ReferenceCases(
        base.counts, [each.state for each in panes], [each.start_us for each in panes]
    )
    room = MAX_BYTES - _FIXED_BYTES - len(base_bytes(base))
    segments = {name: _segment(name, panes) for name in _segments(panes, room)}
    return _with_shares(FrozenReference.unwatched(reference, segments, settings_of(step_us)), panes)


def settings_of(step_us: int) -> DriftSettings:
    """Return the settings of a detector that looks both ways."""
    return DriftSettings(
        BOTH_WAYS, (TOLERANCE,) * len(BOTH_WAYS), MEAN_US, step_us, 0, None, False, False
    )


def step_length(base: BaseSpan, pane_us: int) -> int:
    """Return the shortest multiple of the pane up to an hour with ten positives on average."""
    if pane_us >= HOUR_US:
        return pane_us
    positives = max(base.counts.P, 1)
    wanted_us = POSITIVES_A_STEP * (base.end_us - base.start_us) / positives
    steps = (number for number in range(1, HOUR_US // pane_us + 1))
    lengths = [number * pane_us for number in steps if HOUR_US % (number * pane_us) == 0]
    return next((each for each in lengths if each >= wanted_us), HOUR_US)


def base_bytes(base: BaseSpan) -> bytes:
    """Return a base's counts as bytes: cells in steps."""
    return encode_evaluator(base.counts, steps=True)


def _segments(panes: Sequence[Pane], room: int) -> list[str]:
    """Return the segments with the most cases, sorted, as many as there is room for."""
    totals: dict[str, int] = {}
    for each in panes:
        for name, state in each.segments.items():
            totals[name] = totals.get(name, 0) + state.total
    found = []
    for name in sorted(totals, key=lambda name: (-totals[name], name))[:MAX_SEGMENTS]:
        room -= _BYTES_A_SEGMENT + len(name.encode()) + 2
        if room < 0:
            break
        found.append(name)
    return sorted(found)


def _segment(name: str, panes: Sequence[Pane]) -> ReferenceCases:
    states = [(each.start_us, each.segments[name]) for each in panes if name in each.segments]
    whole = merge_states([state for _, state in states], revision=0)
    return ReferenceCases(whole, [state for _, state in states], [start for start, _ in states])


def longest_gap_us(base: BaseSpan, panes: Sequence[Pane]) -> int:
    """Return the longest time without rows after the first, to the width of the panes.

    A base begins with a day, a stream at any hour: what is empty before its first row is no gap.
    """
    used = [each for each in panes if each.state.total or each.predictions]
    if not used:
        return base.end_us - base.start_us
    # As far as it may reach into the wider of the panes at its ends.
    between = [
        after.start_us - before.end_us + max(before.width_us, after.width_us)
        for before, after in pairwise(used)
    ]
    return max(base.end_us - used[-1].start_us, *between, 0)


def _with_shares(
    frozen: FrozenReference, panes: Sequence[Pane]
) -> tuple[FrozenReference, FloatArray]:
    """Return a reference with the labelled share, and shares stretched so that bets can grow.

    A bet on a mean near 0 can win little, so a share below 1/4 is multiplied. A step is observed
    while up to a tenth of a class's labels is missing, which is no change.
    """
    labelled, error = _labelled_share(panes)
    means = np.append(frozen.means, (labelled, 1 - labelled))
    errors = np.append(frozen.errors, (error, error))
    thetas = np.zeros((frozen.thetas.shape[0], SIDES))
    thetas[0, :12] = frozen.thetas[0]
    # As they are stored.
    thetas[1:, :SEGMENT_SIDES] = np.floor(frozen.thetas[1:, :SEGMENT_SIDES] * UNITS) / UNITS
    stretch = np.ones(2)
    for place, side in enumerate((PREVALENCE.start, LABELLED.start)):
        share = float(means[side])
        if not 0 < share <= 1:  # also nan
            thetas[0, side : side + 2] = 0
            continue
        by = stretch[place] = max(1 / (_STRETCHED_SHARE * share), 1.0)
        # At most as many labels of a class are missing in a step that is observed.
        missing = _MISSING * share * ((1 - share) if side == PREVALENCE.start else 1.0)
        reach = STANDARD_ERRORS * float(errors[side]) + min(TOLERANCE, share / 4) + missing
        means[side : side + 2] = by * share, 1 - by * share
        errors[side : side + 2] *= by
        thetas[0, side] = max(by * (share - reach), 0.0)
        thetas[0, side + 1] = max(1 - by * (share + reach), 0.0)
    return (
        FrozenReference(frozen.bands, means, errors, thetas, frozen.segments),
        stretch,
    )


def _labelled_share(panes: Sequence[Pane]) -> tuple[float, float]:
    """Return the share of predictions with a label and its standard error; nan if not known."""
    known = [each for each in panes if each.predictions]
    whole = sum(each.predictions for each in known)
    labelled = sum(min(each.state.total, each.predictions) for each in known)
    if len(known) < 2 or whole < MIN_CASES:
        return float("nan"), float("nan")
    days: dict[int, int] = {}
    for each in known:
        residual = min(each.state.total, each.predictions) * whole - labelled * each.predictions
        day = each.start_us // (24 * HOUR_US)
        days[day] = days.get(day, 0) + residual
    variance = labelled * (whole - labelled) / whole**3
    if len(days) > 1:
        variance = max(variance, variance_of_sums(days.values(), (whole * whole) ** 2))
    return labelled / whole, float(np.sqrt(variance)) + 1 / (whole + 1)
