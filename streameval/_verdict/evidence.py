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
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streameval._counts.codec import encode_evaluator
from streameval._counts.merge import merge_states
from streameval._counts.state import LABELS
from streameval._drift.evidence import FRACTIONS
from streameval._drift.frozen import FrozenReference
from streameval._drift.processes import Processes
from streameval._drift.reference import (
    MIN_CASES,
    STANDARD_ERRORS,
    ReferenceCases,
)
from streameval._drift.settings import DriftSettings
from streameval._drift.side_table import DriftRows, PaneSums, RowKind, SideTable
from streameval._drift.slow import variance_of_sums
from streameval._drift.watches import BOTH_WAYS, UNITS
from streameval._verdict.level_sums import (
    HOUR_US,
    MAX_DAYS,
    MAX_FINE,
    ROW,
    SPANNED,
    Level,
    LevelSums,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._counts.state import State
    from streameval._drift.watches import Population
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
MAX_BYTES: Final = 16_384
"""The most bytes of evidence: segments get what the rest leaves."""
_FIXED_BYTES: Final = MAX_FINE * ROW.itemsize + MAX_DAYS * SPANNED.itemsize + 1_900
_BYTES_A_SEGMENT: Final = SEGMENT_SIDES * (4 * len(FRACTIONS) + 4) + 8
SHARES: Final = ("prevalence", "labelled_share")
"""Calls on a share, which is stretched if it is small."""
_PREVALENCE, _LABELLED = slice(10, 12), slice(12, 14)
_STRETCHED_SHARE: Final = 4.0
"""A larger multiple of the base's share counts as this one, in one step."""
_MAX_E_VALUE: Final = 1e30


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
    first_called_us : int64[calls]
        When it was called first.
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
    first_called_us: IntArray = field(
        default_factory=lambda: np.full(len(CALLS), -1, dtype=np.int64)
    )
    since: Level = field(default_factory=Level)
    levels: LevelSums = field(init=False)
    processes: Processes = field(init=False)
    _table: SideTable = field(init=False)

    def __post_init__(self) -> None:
        settings = _settings(self.step_us)
        self._table = SideTable(settings.sides, self.frozen.bands, settings.flagged_from)
        self.processes = Processes(
            self.frozen.thetas, 0, self.step_us, settings.mean_panes, max_blocks=1
        )
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
        reference = ReferenceCases(
            base.counts, [each.state for each in panes], [each.start_us for each in panes]
        )
        room = MAX_BYTES - _FIXED_BYTES - len(base_bytes(base))
        segments = {name: _segment(name, panes) for name in _segments(panes, room)}
        frozen = FrozenReference.unwatched(reference, segments, _settings(step_us))
        frozen, stretch = _with_shares(frozen, panes)
        return cls(
            base,
            is_declared,
            step_us,
            frozen,
            stretch,
            _longest_gap_us(base, panes),
            -(-base.end_us // step_us) * step_us,
        )

    @property
    def memory_bytes(self) -> int:
        """Memory, an upper bound. O(1)."""
        processes = self.processes
        arrays = (processes.fine, processes.coarse, processes.parts, processes.last)
        evidence = sum(each.nbytes for each in arrays) + self.frozen.thetas.nbytes
        counts = 24 * sum(len(run) for run in self.base.counts.counts.runs)
        return evidence + counts + self.levels.memory_bytes + self._table.memory_bytes + 4096

    def observe(self, panes: Iterable[Pane], until_us: int) -> None:
        """Observe what is mature up to a time of event time; the rest is left for later.

        Parameters
        ----------
        panes : iterable of Pane
            Oldest first; those before `next_us`, or not over at the last whole step before
            `until_us`, are passed over.
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
            each for each in panes if each.start_us >= self.next_us and each.end_us <= until_us
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

    def last_called_us(self, *calls: str) -> int:
        """Return when one of some calls was made last; -1 if none was."""
        return max(int(self.called_us[CALLS.index(call)]) for call in calls)

    def base_level(self) -> Level:
        """Return the sums of the base, as of a pane; predictions as far as they are known."""
        level = self._level(Pane(*self.base))
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
        level = Level()
        for each in panes:
            found = self._level(each)
            self.levels.add(each.start_us, each.end_us, found)
            level = level.plus(found)
        self.since = self.since.plus(level)
        sums = self._sums(panes, level)
        step = end_us // self.step_us - 1
        self.processes.observe(step, sums, sums.counts, self._called_sides())
        # As they are stored.
        processes = self.processes
        parts = np.minimum(processes.parts, _MAX_E_VALUE).astype(np.float32)
        processes.parts = parts.astype(np.float64)
        processes.last[1:] = processes.last[1:].max(axis=1, keepdims=True)
        self._call(step)

    def _sums(self, panes: Sequence[Pane], level: Level) -> PaneSums:
        """Return the sums of a step by segment and side. O(cells)."""
        parts = [(0, each.state) for each in panes]
        places = {name: place for place, name in enumerate(self.frozen.segments, 1)}
        parts += [
            (places[name], state)
            for each in panes
            for name, state in each.segments.items()
            if name in places
        ]
        runs = [
            (place, label, run)
            for place, state in parts
            for label, run in zip(LABELS, state.counts.runs, strict=True)
            if len(run)
        ]
        sizes = [len(run) for *_, run in runs]
        kinds = [RowKind.POSITIVE_CASE if label else RowKind.NEGATIVE_CASE for _, label, _ in runs]
        rows = DriftRows(
            np.repeat(np.array(kinds, dtype=np.uint8), sizes),
            np.concatenate([np.zeros(0), *(run.scores for *_, run in runs)]),
            np.concatenate([np.zeros(0, np.int64), *(run.multiplicities() for *_, run in runs)]),
        )
        places_of_rows = np.repeat(np.array([place for place, *_ in runs], dtype=np.int64), sizes)
        found = self._table.sums(self._table.coded(rows), places_of_rows, len(places) + 1)
        wide = PaneSums.empty(len(places) + 1, SIDES)
        wide.sums[:, :12], wide.counts[:, :12] = found.sums, found.counts
        wide.counts[1:, SEGMENT_SIDES:] = 0
        self._set_share(wide, _PREVALENCE, level.positives, level.positives + level.negatives, 0)
        self._set_share(wide, _LABELLED, level.labelled, level.predictions, 1)
        return wide

    def _set_share(self, sums: PaneSums, sides: slice, part: int, whole: int, which: int) -> None:
        """Set a share, stretched; more than four times the base's counts as four times."""
        total = min(round(part * UNITS * float(self.stretch[which])), whole * UNITS)
        sums.sums[0, sides] = total, whole * UNITS - total
        sums.counts[0, sides] = whole

    def _level(self, pane: Pane) -> Level:
        """Return the sums of a pane that a search reads. O(cells)."""
        bands, found, ranks = self.frozen.bands, {}, 0
        names: dict[bool, Population] = {True: "positives", False: "negatives"}
        for label, run in zip(LABELS, pane.state.counts.runs, strict=True):
            counts, placed = run.multiplicities(), bands.of(run.scores)
            values = bands.tables[names[label], "rank"][placed].astype(np.int64)
            ranks += int((bands.tables["predictions", "rank"][placed] * counts).sum())
            found[label] = tuple(int((counts * values**power).sum()) for power in range(3))
        (P, placements, squares), (N, others, their_squares) = found[True], found[False]
        return Level(
            P,
            N,
            pane.predictions,
            min(P + N, pane.predictions),
            placements,
            others,
            ranks,
            squares,
            their_squares,
        )

    def _called_sides(self) -> BoolArray:
        """Return which sides were called: their segments' bets go on, and no more begin."""
        return np.repeat(self.called_us >= 0, 2)

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
                at_us = (step + 1) * self.step_us
                self.called_us[index] = at_us
                if self.first_called_us[index] < 0:
                    self.first_called_us[index] = at_us
                self.processes.restart_whole(_sides_of(index), step)


def step_length(base: BaseSpan, pane_us: int) -> int:
    """Return the shortest multiple of the pane up to an hour with ten positives on average."""
    if pane_us >= HOUR_US:
        return pane_us
    positives = max(base.counts.P, 1)
    wanted_us = POSITIVES_A_STEP * (base.end_us - base.start_us) / positives
    steps = (number for number in range(1, HOUR_US // pane_us + 1))
    lengths = [number * pane_us for number in steps if HOUR_US % (number * pane_us) == 0]
    return next((each for each in lengths if each >= wanted_us), HOUR_US)


def _settings(step_us: int) -> DriftSettings:
    return DriftSettings(
        BOTH_WAYS, (TOLERANCE,) * len(BOTH_WAYS), MEAN_US, step_us, 0, None, False, False
    )


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


def _longest_gap_us(base: BaseSpan, panes: Sequence[Pane]) -> int:
    """Return the longest time without rows, to the width of the panes."""
    used = [each for each in panes if each.state.total or each.predictions]
    if not used:
        return base.end_us - base.start_us
    gaps = [after.start_us - before.end_us for before, after in pairwise(used)]
    gaps += [used[0].start_us - base.start_us, base.end_us - used[-1].end_us]
    return max(gaps) + max(each.end_us - each.start_us for each in used)


def _with_shares(
    frozen: FrozenReference, panes: Sequence[Pane]
) -> tuple[FrozenReference, FloatArray]:
    """Return a reference with the labelled share, and shares stretched so that bets can grow.

    A bet on a mean near 0 can win little, so a share below 1/4 is multiplied.
    """
    labelled, error = _labelled_share(panes)
    means = np.append(frozen.means, (labelled, 1 - labelled))
    errors = np.append(frozen.errors, (error, error))
    thetas = np.zeros((frozen.thetas.shape[0], SIDES))
    thetas[0, :12] = frozen.thetas[0]
    thetas[1:, :SEGMENT_SIDES] = frozen.thetas[1:, :SEGMENT_SIDES].astype(np.float32)
    stretch = np.ones(2)
    for place, side in enumerate((_PREVALENCE.start, _LABELLED.start)):
        share = float(means[side])
        if not 0 < share <= 1:  # also nan
            thetas[0, side : side + 2] = 0
            continue
        by = stretch[place] = max(1 / (_STRETCHED_SHARE * share), 1.0)
        reach = STANDARD_ERRORS * float(errors[side]) + min(TOLERANCE, share / 4)
        means[side : side + 2] = by * share, 1 - by * share
        errors[side : side + 2] *= by
        thetas[0, side] = max(by * (share - reach), 0.0)
        thetas[0, side + 1] = max(1 - by * (share + reach), 0.0)
    return (
        FrozenReference(frozen.bands, means, errors, thetas, frozen.segments, frozen.warnings),
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
