"""The evidence of a stream that declared nothing: the detector of docs/alarms.md, both ways.

Each mean against the base, with a tolerance of `TOLERANCE`: the order of cases (ranking,
AUC-ROC) becomes worse or better; the prevalence, the scores and the share of labelled predictions
move. Each is called at most once in `MEAN_US` times their number, so all together once in
`MEAN_US`, however often they are looked at.

A step of event time is observed once, when its labels are in; a row that comes later changes
figures and no evidence. The state follows from the panes that were observed alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from streameval._drift.alarm import named_segments
from streameval._drift.processes import Processes
from streameval._drift.reference import MIN_CASES, TABLES
from streameval._drift.side_table import PaneSums
from streameval._drift.watches import UNITS
from streameval._verdict.evidence_base import (
    CALLS,
    LABELLED,
    PREVALENCE,
    SEGMENT_SIDES,
    SIDES,
    Pane,
    frozen_base,
    longest_gap_us,
    settings_of,
    step_length,
)
from streameval._verdict.level_sums import DAY_US, HOUR_US, Level, LevelSums

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._counts.state import State
    from streameval._drift.alarm import DriftedSegment
    from streameval._drift.frozen import FrozenReference
    from streameval._verdict.base import BaseSpan

OPEN_FOR_US: Final = 14 * DAY_US
"""How long after a call no more bets begin on segments: while a change lasts, calls repeat."""
_MAX_E_VALUE: Final = 1e30
_TABLE_SIDES: Final = [0, 1, 2, 3, 8]
_MIRRORED_SIDES: Final = [4, 5, 6, 7, 9]
"""The sides of the mean of each of `TABLES`, and of its mirror."""
_CLASSES: Final = {"positives": [0], "negatives": [1], "predictions": [0, 1]}


@dataclass(slots=True, eq=False)
class Evidence:
    """The evidence since a base.

    Attributes
    ----------
    base : BaseSpan
    is_declared : bool
    step_us : int
        The length of a step.
    frozen : FrozenReference
        Means and thetas of all `SIDES`.
    stretch : float64[2]
        By which the prevalence and the labelled share are multiplied before they are observed.
    longest_gap_us : int
        The longest time without rows in the base.
    next_us : int
        The start of what is not observed yet, in event time.
    called_us : int64[calls]
        When each of `CALLS` was called last, in event time; -1 if it was not.
    since : Level
        Sums of all that was observed.
    """

    base: BaseSpan
    is_declared: bool
    step_us: int
    frozen: FrozenReference
    stretch: FloatArray
    longest_gap_us: int
    next_us: int
    called_us: IntArray = field(default_factory=lambda: np.full(len(CALLS), -1, dtype=np.int64))
    since: Level = field(default_factory=Level)
    levels: LevelSums = field(init=False)
    processes: Processes = field(init=False)
    # By class, band and table; 0 where a table is not of a class.
    _values: IntArray = field(init=False)

    def __post_init__(self) -> None:
        mean_panes = settings_of(self.step_us).mean_panes
        self.processes = Processes(self.frozen.thetas, 0, self.step_us, mean_panes, max_blocks=1)
        bands = self.frozen.bands
        self._values = np.zeros((2, bands.edges.size + 1, len(TABLES)), dtype=np.int64)
        for at, key in enumerate(TABLES):
            self._values[_CLASSES[key[0]], :, at] = bands.tables[key]
        self.levels = LevelSums(max(HOUR_US, self.step_us), self.base.end_us)

    @classmethod
    def begin(
        cls, base: BaseSpan, panes: Sequence[Pane], pane_us: int, *, is_declared: bool = False
    ) -> Evidence:
        """Return the evidence that begins at the end of a base.

        Parameters
        ----------
        base : BaseSpan
        panes : sequence of Pane
            Of the base, oldest first.
        pane_us : int
            The stream's pane.
        is_declared : bool

        Raises
        ------
        InvalidInputError
            With weights, or fewer than 30 cases of a class.

        Notes
        -----
        O(n) for each side and segment. Segments are the ones with the most cases, at most 32
        and as many as the bytes have room for.
        """
        step_us = step_length(base, pane_us)
        frozen, stretch = frozen_base(base, panes, step_us)
        return cls(
            base,
            is_declared,
            step_us,
            frozen,
            stretch,
            longest_gap_us(base, panes),
            -(-base.end_us // step_us) * step_us,
        )

    def observe(self, panes: Iterable[Pane], until_us: int) -> None:
        """Observe what is mature up to a time of event time; the rest is left for later.

        Parameters
        ----------
        panes : iterable of Pane
            Oldest first; those before `next_us`, or not over at the last whole step before
            `until_us`, are passed over, and panes with weights, because evidence counts cases.
        until_us : int
            All labels of event time before it are in, or are not waited for.

        Notes
        -----
        O(cells) a pane and O(segments) a step. Time without panes passes as well.
        """
        until_us = until_us // self.step_us * self.step_us
        if until_us <= self.next_us:
            return
        mature = (
            each
            for each in panes
            if each.start_us >= self.next_us
            and each.end_us <= until_us
            and each.state.weighted is None
        )
        for end_us, here in _by_step(mature, self.step_us):
            self._observe_step(end_us, here)
        self.next_us = until_us
        self._close_hour(until_us)
        self.levels.close(until_us)

    def evidence(self, call: str) -> float:
        """Return the evidence of a call as a share of what makes it."""
        index = CALLS.index(call)
        needed = self.processes.mean_panes * len(CALLS)
        return self.processes.evidence(_sides_of(index)) / needed

    def segment_values(self) -> dict[str, float]:
        """Return the e-value of each segment: of having become worse, by both means."""
        values = self.processes.part_values(slice(0, SEGMENT_SIDES))[1:].tolist()
        return dict(zip(self.frozen.segments, values, strict=True))

    def named_segments(self) -> tuple[DriftedSegment, ...]:
        """Return the segments that became worse by e-Benjamini-Hochberg. O(m log m)."""
        return named_segments(self.segment_values())

    def last_called_us(self, *calls: str) -> int:
        """Return when one of some calls was made last; -1 if none was."""
        return max(int(self.called_us[CALLS.index(call)]) for call in calls)

    @property
    def is_early(self) -> bool:
        """Whether fewer than `MIN_CASES` of a class were observed since the base."""
        return min(self.since.positives, self.since.negatives) < MIN_CASES

    def base_level(self) -> Level:
        """Return the sums of the base, as of a pane; predictions as far as they are known."""
        (level,) = self._levels([Pane(*self.base)], self._counts([[self.base.counts]]))
        share = self.mean_of("labelled_share")
        labelled = level.positives + level.negatives
        if not share > 0:
            return level
        return level._replace(predictions=round(labelled / share), labelled=labelled)

    def mean_of(self, call: str) -> float:
        """Return the base's prevalence or labelled share; nan if it is not known."""
        side, place = {"prevalence": (10, 0), "labelled_share": (12, 1)}[call]
        return float(self.frozen.means[side] / self.stretch[place])

    def _observe_step(self, end_us: int, panes: Sequence[Pane]) -> None:
        self._close_hour(panes[0].start_us)
        names = self.frozen.segments
        segments = [[p.segments[name] for p in panes if name in p.segments] for name in names]
        counts = self._counts([*([each.state] for each in panes), *segments])
        whole, parts = np.split(counts, [len(panes)])
        level = Level()
        for each, found in zip(panes, self._levels(panes, whole), strict=True):
            self.levels.add(each.start_us, each.end_us, found)
            level = level.plus(found)
        self.since = self.since.plus(level)
        sums = self._sums(np.concatenate((whole.sum(axis=0, keepdims=True), parts)), level)
        step = end_us // self.step_us - 1
        self.processes.observe(step, sums, sums.counts, self._open_sides(end_us))
        # As they are stored.
        processes = self.processes
        parts = np.minimum(processes.parts, _MAX_E_VALUE).astype(np.float32)
        processes.parts = parts.astype(np.float64)
        processes.last[1:] = processes.last[1:].max(axis=1, keepdims=True)
        self._call(step)

    def _counts(self, groups: Sequence[Sequence[State]]) -> IntArray:
        """Return the cases of groups of states by class and band, [groups, 2, bands]. O(cells)."""
        runs = [
            (2 * place + number, run)
            for place, states in enumerate(groups)
            for state in states
            for number, run in enumerate(state.counts.runs)
        ]
        bands, size = self.frozen.bands, self._values.shape[1]
        firsts = np.repeat([size * at for at, _ in runs], [len(run) for _, run in runs])
        placed = bands.of(np.concatenate([run.scores for _, run in runs]))
        cases = np.concatenate([run.multiplicities() for _, run in runs])
        counts = np.bincount(firsts + placed, cases, minlength=2 * len(groups) * size)
        return counts.astype(np.int64).reshape(-1, 2, size)

    def _sums(self, counts: IntArray, level: Level) -> PaneSums:
        """Return the sums of the whole and of each segment by side, of cases by class and band."""
        sums = PaneSums.empty(len(counts), SIDES)
        totals = np.tensordot(counts, self._values, axes=2)
        numbers = counts.sum(axis=2)
        numbers = np.column_stack((numbers, numbers, numbers.sum(axis=1)))
        sums.sums[:, _TABLE_SIDES], sums.sums[:, _MIRRORED_SIDES] = totals, numbers * UNITS - totals
        sums.counts[:, _TABLE_SIDES] = sums.counts[:, _MIRRORED_SIDES] = numbers
        sums.counts[1:, SEGMENT_SIDES:] = 0
        self._set_share(sums, PREVALENCE, level.positives, level.positives + level.negatives, 0)
        self._set_share(sums, LABELLED, level.labelled, level.predictions, 1)
        return sums

    def _set_share(self, sums: PaneSums, sides: slice, part: int, whole: int, which: int) -> None:
        """Set a share, stretched; more than four times the base's counts as four times."""
        total = min(round(part * UNITS * float(self.stretch[which])), whole * UNITS)
        sums.sums[0, sides] = total, whole * UNITS - total
        sums.counts[0, sides] = whole

    def _levels(self, panes: Sequence[Pane], counts: IntArray) -> list[Level]:
        """Return the sums of each pane that a search reads, of its cases by class and band."""
        ranks = np.stack((self._values[0, :, 2], self._values[1, :, 3]))
        numbers, totals, squares = ((counts * ranks**power).sum(axis=2) for power in range(3))
        of_all = (counts * self._values[..., 4]).sum(axis=(1, 2))
        columns = np.column_stack((numbers, totals, of_all, squares)).tolist()
        return [
            Level(P, N, each.predictions, min(P + N, each.predictions), *others)
            for each, (P, N, *others) in zip(panes, columns, strict=True)
        ]

    def _open_sides(self, at_us: int) -> BoolArray:
        """Return which sides were called of late: segments' bets go on, and no more begin."""
        is_open = (self.called_us >= 0) & (at_us - self.called_us < OPEN_FOR_US)
        return np.repeat(is_open, 2)

    def _close_hour(self, until_us: int) -> None:
        """Observe the hour that is being summed, if it is over."""
        hour = self.processes.hour
        if 0 <= hour < until_us // HOUR_US:
            self.processes.close_hour()
            self._call((hour + 1) * self.processes.panes_an_hour - 1)

    def _call(self, step: int) -> None:
        """Call what has evidence enough, and let it begin again."""
        for index, call in enumerate(CALLS):
            if self.evidence(call) >= 1:
                self.called_us[index] = (step + 1) * self.step_us
                self.processes.restart_whole(_sides_of(index), step)


def _sides_of(index: int) -> slice:
    return slice(2 * index, 2 * index + 2)


def _by_step(panes: Iterable[Pane], step_us: int) -> Iterator[tuple[int, list[Pane]]]:
    """Yield the panes of each step with its end; a wider pane is a step of its own."""
    here: list[Pane] = []
    end_us = 0
    for each in panes:
        each_end_us = -(-each.end_us // step_us) * step_us
        if here and each_end_us != end_us:
            yield end_us, here
            here = []
        end_us = each_end_us
        here.append(each)
    if here:
        yield end_us, here
