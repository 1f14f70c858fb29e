"""A detector without its public checks: rows to panes, panes to evidence, evidence to alarms."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._drift.alarm import CHANGED_AT, Alarm, acknowledged, named_segments
from streameval._drift.change import LEVEL, estimate_change
from streameval._drift.open_panes import OpenPanes
from streameval._drift.past_cases import PastCases
from streameval._drift.processes import Processes
from streameval._drift.side_table import CLUSTER_GROUPS, MAX_MULTIPLICITY, SideTable
from streameval._drift.watches import COMPANIONS
from streameval._time.times import to_datetime, to_us
from streameval._uncertainty.interval import Interval
from streameval._uncertainty.student import normal_quantile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from streameval._common.arrays import BoolArray, IntArray
    from streameval._counts.state import State
    from streameval._drift.alarm import DriftedSegment, First
    from streameval._drift.frozen import FrozenReference
    from streameval._drift.settings import DriftSettings
    from streameval._drift.side_table import CellCases, DriftRows, PaneSums

MAX_KEPT_ALARMS: Final = 32
"""The most alarms that are kept; of more, the oldest that are acknowledged are dropped."""


@dataclass(slots=True, eq=False)
class DriftEngine:
    """The state of a detector.

    Attributes
    ----------
    settings : DriftSettings
    frozen : FrozenReference
    table : SideTable
    panes : OpenPanes
    processes : Processes
    now_us : int
    changed_us : list of int
        When scores, and the share of positives, were known to have changed; -1 if not.
    alarms : list of Alarm
        By number.
    num_alarms : int
        How many were raised; the last number.
    """

    CLUSTER_GROUPS: ClassVar = CLUSTER_GROUPS
    MAX_MULTIPLICITY: ClassVar = MAX_MULTIPLICITY

    settings: DriftSettings
    frozen: FrozenReference
    table: SideTable = field(init=False)
    panes: OpenPanes = field(init=False)
    processes: Processes = field(init=False)
    now_us: int = 0
    changed_us: list[int] = field(default_factory=lambda: [-1, -1])
    alarms: list[Alarm] = field(default_factory=list)
    num_alarms: int = 0

    def __post_init__(self) -> None:
        self.table = SideTable(self.settings.sides, self.frozen.bands, self.settings.flagged_from)
        self.panes = OpenPanes(len(self.frozen.thetas), self.table)
        self.processes = Processes(
            self.frozen.thetas, len(COMPANIONS), self.settings.pane_us, self.settings.mean_panes
        )

    def panes_of(self, times_us: IntArray, received_us: int | IntArray) -> IntArray:
        """Return the pane that counts each row. O(n).

        That of its time; if it was observed before the row came, the oldest that was not.
        """
        own: IntArray = np.maximum(times_us // self.settings.pane_us, self._first_open(received_us))
        return own

    def pane_of(self, time_us: int, received_us: int) -> int:
        """Return the pane that counts a row, as `panes_of`. O(1)."""
        settings = self.settings
        first_open = (received_us - settings.maturity_us) // settings.pane_us
        return max(time_us // settings.pane_us, first_open)

    def add(self, rows: DriftRows, panes: IntArray | int, parts: Sequence[IntArray]) -> None:
        """Add checked rows to panes that are not observed yet. O(n x parts).

        Parameters
        ----------
        rows : DriftRows
        panes : int or int64[n]
            Of all rows, or of each, from `panes_of`.
        parts : sequence of int64[n]
            For each key of segments the part of each row, -1 where it has none.
        """
        self.panes.add(self.table.coded(rows), panes, parts)

    def add_cells(self, cases: CellCases, panes: IntArray | int, parts: Sequence[IntArray]) -> None:
        """Add cases as cells, after `table.index_cells`; else as `add`. O(n x parts)."""
        self.panes.add(self.table.coded_cells(cases), panes, parts)

    @property
    def reads_scores(self) -> bool:
        """Whether rows need their scores as the reference keeps them, not only to the band."""
        return any(each.name == "calibration" for each in self.settings.watches)

    @property
    def due_us(self) -> int | None:
        """When `advance` observes something next; None without rows. O(open panes)."""
        hour, first = self.processes.hour, self.panes.first
        end = None if first is None else first + 1
        if hour >= 0:
            end_of_hour = (hour + 1) * self.processes.panes_an_hour
            end = end_of_hour if end is None else min(end, end_of_hour)
        settings = self.settings
        return None if end is None else end * settings.pane_us + settings.maturity_us

    def advance(self, now_us: int) -> None:
        """Observe the panes and hours that are over at a time, and raise alarms. O(panes due)."""
        self.now_us = max(self.now_us, now_us)
        self._observe_before(int(self._first_open(self.now_us)), {})

    def replay(
        self,
        parts: Sequence[Sequence[tuple[int, int, State]]],
        now_us: int,
        declared_us: int,
        resolution: int | None = None,
    ) -> int:
        """Observe cases of before as if their labels had come in time. O(n log n).

        Nothing was observed or added yet. A pane that was kept is one observation, at its end; one
        that is not over waits for more rows. Alarms of times before `declared_us` are past: they
        are closed, so that a change that goes on raises another.

        Parameters
        ----------
        parts : sequence of sequence of (int, int, State)
            The start and end of panes in microseconds, and their counts: of the whole, then of
            each segment.
        now_us, declared_us : int
        resolution : int, optional
            Significant bits of a score that the reference has.

        Returns
        -------
        int
            Cases of the whole that are left out, because others of their pane have weights.
        """
        starts: dict[int, int] = {}
        left_out = 0
        for part, panes in enumerate(parts):
            cases = PastCases.of(panes, self.settings, resolution)
            opened = self._add_past(part, cases, now_us)
            if not part:
                starts, left_out = opened, cases.left_out
        self.now_us = min(declared_us, now_us)
        self._observe_before(int(self._first_open(self.now_us)), starts)
        self._close_past(starts)
        self.now_us = now_us
        self._observe_before(int(self._first_open(now_us)), starts)
        return left_out

    def _add_past(self, part: int, cases: PastCases, now_us: int) -> dict[int, int]:
        """Add cases of before; return the first pane of each time that is longer than a pane."""
        pane_us = self.settings.pane_us
        # What is kept of now is in a pane that has not ended.
        panes = np.minimum(cases.ends_us - 1, np.maximum(cases.starts_us, now_us)) // pane_us
        self.panes.add(self.table.coded(cases.rows), panes, (), part)
        if cases.clusters is not None:
            groups, ends_us = self.table.coded(cases.clusters), cases.cluster_ends_us
            at = np.minimum(ends_us - 1, now_us) // pane_us
            self.panes.add(groups, at, (), part, only_groups=True)
        distinct, first = np.unique(panes, return_index=True)
        opening = cases.starts_us[first] // pane_us
        longer = opening < distinct
        return dict(zip(distinct[longer].tolist(), opening[longer].tolist(), strict=True))

    def _observe_before(self, first_open: int, starts: Mapping[int, int]) -> None:
        """Observe panes before one; `starts` has the first pane of longer times."""
        width = self.processes.panes_an_hour
        for pane, sums in self.panes.take_before(first_open):
            self._close_hour(before=pane // width)
            independent = sums.independent(self.settings.has_clusters)
            sides, start = self._open_sides(), starts.get(pane, pane)
            self.processes.observe(pane, sums, independent, sides, start)
            self._name_segments()
            self._check(pane, sums)
        self._close_hour(before=first_open // width)

    def _close_past(self, starts: Mapping[int, int]) -> None:
        """Close all alarms as past."""
        for index, alarm in enumerate(self.alarms):
            first = to_us(alarm.earliest) // self.settings.pane_us
            # A change late in a long pane shows from the next one on.
            earliest = self._start_of(starts.get(first - 1, first))
            self.alarms[index] = replace(alarm, is_past=True, earliest=earliest)
            self._restart_after(self.alarms[index])

    def acknowledge(self, number: int, at_us: int) -> Alarm:
        """Acknowledge an alarm and restart its segments; after the last open one companions too."""
        index = next((i for i, each in enumerate(self.alarms) if each.number == number), None)
        if index is None:
            message = f"there is no alarm {number}: it was never raised, or is no longer kept"
            raise InvalidInputError(message, field="number")
        self.alarms[index] = acknowledged(self.alarms[index], to_datetime(at_us))
        self._restart_after(self.alarms[index])
        return self.alarms[index]

    def _restart_after(self, alarm: Alarm) -> None:
        """Restart the segments of an alarm that was closed; after the last one companions too."""
        pane = max(int(self._first_open(self.now_us)) - 1, -1)
        self.processes.restart_segments(self._sides_of(alarm), pane)
        if not any(each.is_open for each in self.alarms):
            self.processes.restart_companions(pane)
            self.changed_us = [-1, -1]

    def evidence(self, index: int) -> float:
        """Return the evidence of a watch as a share of what raises an alarm."""
        needed = self.settings.mean_panes * len(self.settings.watches)
        return self.processes.evidence(self.settings.sides_of(index)) / needed

    def _first_open(self, now_us: int | IntArray) -> IntArray:
        """Return the first pane that is not over, maturity included, at a time."""
        return np.asarray((now_us - self.settings.maturity_us) // self.settings.pane_us)

    def _close_hour(self, before: int) -> None:
        """Observe the hour that is being summed, if it is over."""
        hour = self.processes.hour
        if 0 <= hour < before:
            self.processes.close_hour()
            self._check((hour + 1) * self.processes.panes_an_hour - 1)

    def _check(self, pane: int, sums: PaneSums | None = None) -> None:
        """Raise the alarms that are due after an observation."""
        at_us = (pane + 1) * self.settings.pane_us + self.settings.maturity_us
        if sums is not None:
            self._check_companions(at_us)
        for index in range(len(self.settings.watches)):
            if self.evidence(index) >= 1:
                self._raise_alarm(index, pane, at_us)
                self.processes.restart_whole(self.settings.sides_of(index), pane)

    def _open_sides(self) -> BoolArray:
        """Return of which sides an alarm is open."""
        found = np.zeros(self.processes.restarts.size, dtype=np.bool_)
        for alarm in self.alarms:
            if alarm.is_open:
                found[self._sides_of(alarm)] = True
        return found

    def _sides_of(self, alarm: Alarm) -> slice:
        names = [each.name for each in self.settings.watches]
        return self.settings.sides_of(names.index(alarm.watch))

    def _explaining(self, sides: slice) -> tuple[DriftedSegment, ...]:
        """Return the segments whose own evidence explains a change."""
        e_values = self.processes.part_values(sides)[1:].tolist()
        return named_segments(dict(zip(self.frozen.segments, e_values, strict=True)))

    def _name_segments(self) -> None:
        """Name more segments in open alarms: a large change may raise one before they are known."""
        for place, alarm in enumerate(self.alarms):
            if alarm.is_open:
                segments = self._explaining(self._sides_of(alarm))
                if len(segments) > len(alarm.segments):
                    self.alarms[place] = replace(alarm, segments=segments)

    def _check_companions(self, at_us: int) -> None:
        watched = self.processes.num_watched
        for which in range(2):
            sides = slice(watched + 2 * which, watched + 2 * which + 2)
            is_changed = self.processes.part_values(sides)[0] >= CHANGED_AT
            if is_changed and self.changed_us[which] < 0:
                self.changed_us[which] = at_us

    def _raise_alarm(self, index: int, pane: int, at_us: int) -> None:
        watch, at = self.settings.watches[index], to_datetime(at_us)
        for place, each in enumerate(self.alarms):
            if each.watch == watch.name and each.is_open:
                self.alarms[place] = replace(each, repeats=each.repeats + 1, last_at=at)
                return
        sides = self.settings.sides_of(index)
        frozen = self.frozen
        change = estimate_change(
            self.processes, sides, frozen.means[sides], frozen.errors[sides], pane
        )
        side = watch.sides[change.side]
        mean = float(self.frozen.means[sides.start + change.side])
        lower, upper = sorted((side.shown(change.lower), side.shown(change.upper)))
        value, reference = side.shown(change.mean), side.shown(mean)
        margin = normal_quantile((1 - LEVEL) / 2) * side.unit
        margin *= float(self.frozen.errors[sides.start + change.side])
        difference = value - reference
        low, high = (
            difference - float(np.hypot(value - lower, margin)),
            difference + float(np.hypot(upper - value, margin)),
        )
        self.num_alarms += 1
        self.alarms.append(
            Alarm(
                number=self.num_alarms,
                watch=watch.name,
                changed=watch.titles[change.side],
                direction="rose" if side.is_mirrored else "fell",
                raised_at=at,
                since=self._start_of(change.since),
                earliest=self._start_of(change.earliest),
                latest=self._start_of(change.latest),
                reference=reference,
                value=Interval(lower, upper, LEVEL, "blocks", value),
                difference=Interval(low, high, LEVEL, "blocks", difference),
                segments=self._explaining(sides),
                changed_first=self._changed_first(),
                scores_changed_at=_time(self.changed_us[0]),
                labels_changed_at=_time(self.changed_us[1]),
                look_at=watch.look_at,
                repeats=0,
                last_at=at,
            )
        )
        if len(self.alarms) > MAX_KEPT_ALARMS:
            done = next(each for each in self.alarms if not each.is_open)
            self.alarms.remove(done)

    def _changed_first(self) -> First:
        scores, labels = self.changed_us
        if scores < 0 and labels < 0:
            return "neither"
        return "scores" if labels < 0 or 0 <= scores <= labels else "labels"

    def _start_of(self, pane: int) -> datetime:
        return to_datetime(pane * self.settings.pane_us)


def _time(at_us: int) -> datetime | None:
    return None if at_us < 0 else to_datetime(at_us)
