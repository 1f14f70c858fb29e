"""A stream's detector: it waits for its reference, freezes it, replays what is kept, then watches.

Where no reference is declared, the first stable weeks that are kept are taken. What is kept since
the reference is observed by event time; alarms of before the declaration are past. The rows that
come from then on are observed pane by pane, as the log's time passes, so the
same log gives the same alarms. Cases are read as the stream's counts count them, other rows
from `rows`; all that wait are added before anything is observed or saved. When they are added
changes no result.
"""

from __future__ import annotations

import json
import struct
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from streameval import CorruptStateError, InvalidInputError
from streameval.kernel import WEIGHT_UNITS, quantise
from streameval.statistics import CellCases, DriftEngine, decode_engine, encode_engine
from streameval_server._model.alarm_settings import REFERENCE_US
from streameval_server._state.alarms.alarm_reference import (
    AlarmReference,
    check_unchanged,
    freeze_reference,
    panes_since,
    proposed_reference,
)
from streameval_server._state.alarms.watched_rows import (
    ReadRows,
    WatchedRows,
    case_rows,
    cell_cases,
    concat,
)
from streameval_server._state.counting.collected_rows import TimedCases
from streameval_server._state.observer import CheckpointPart, MadePart, Merged, Misses, Observer
from streameval_server._state.segments import code_of, key_of
from streameval_server._state.views import AlarmsView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from streameval import Alarm
    from streameval.kernel import UnsortedCases
    from streameval.statistics import DriftRows
    from streameval_server._model.alarm_change import AlarmChange
    from streameval_server._model.arrays import CodeArray, IntArray
    from streameval_server._model.stream_settings import StreamSettings
    from streameval_server._state.memory import StreamUsage
    from streameval_server._state.observer import Restoring, Taken
    from streameval_server._state.views import FrozenStream

ALARMS_PART = "alarms"

_MAX_WAITING_ROWS = 4_096
_CACHED_ROWS = 8_192
"""Cases that are added at a time, so that their columns stay in the processor's cache."""

_HOUR_US = 3_600_000_000
"""How much later a declared reference is tried again that has too few cases."""
_DAY_US = 24 * _HOUR_US
"""By how much one that was not declared grows."""

_BYTES = 16_384
"""Memory of a detector without segments; measured."""
_SEGMENT_BYTES = 2_048

_OBSERVE_COST = 160
_FREEZE_COST = 10_000
"""Budget of `pass_time`, in ids that expire."""

_LENGTHS = struct.Struct("<II")


class StreamAlarms(Observer):
    """The detector of a stream whose settings have alarms.

    Parameters
    ----------
    settings : StreamSettings
    declared_us : int
        When the alarms were declared.
    usage : StreamUsage
        The stream's.
    num_alarms : int
        The number of the last alarm before.
    proposes : bool
        Whether the stream may have history in which a reference is found.

    Attributes
    ----------
    rows : WatchedRows
        Not added to the engine yet.
    revision : int
        Log revision of its last change.
    """

    KINDS = (ALARMS_PART,)

    def __init__(
        self,
        settings: StreamSettings,
        declared_us: int,
        usage: StreamUsage,
        num_alarms: int = 0,
        *,
        proposes: bool = False,
    ) -> None:
        alarms = settings.alarms
        assert alarms is not None
        self._settings = settings
        self._usage = usage
        self._alarms = alarms
        self._reference_us = alarms.reference_us or (declared_us, declared_us + REFERENCE_US)
        self._declared_us = declared_us
        self._proposes = proposes and alarms.reference_us is None
        self._num_alarms = num_alarms
        self._refusal = ""
        self._hours = 0
        self._resolution = settings.resolution
        self._since_us: int | None = None
        self._left_out = 0
        self._engine: DriftEngine | None = None
        self._delivered: set[int] = set()
        self._parts: list[IntArray] = []
        self._reads_cells = False
        # When the engine observes something next, without the rows that wait; these are in
        # panes from the first one on.
        self._next_us: int | None = None
        self._first_pane: int | None = None
        self.rows = WatchedRows()
        self.revision = usage.revision

    # -- changing

    def take(self, taken: Taken, received_us: int) -> None:
        """Collect rows, once it watches. O(1), O(n) with times or weights."""
        if self._engine is None or isinstance(taken, Misses):
            return
        self.revision = self._usage.revision
        if isinstance(taken, TimedCases):
            self.expect_cases(taken, received_us)
            return
        if isinstance(taken, Merged):
            if not taken.event_us or not len(taken.state.counts):
                return
            self.rows.add_merged(*taken, received_us)
        elif len(taken):
            self.rows.add_effects(taken, received_us)
        else:
            return
        self.collected(taken.event_us, received_us)

    def expect_cases(self, timed: TimedCases, received_us: int) -> None:
        """Learn of cases that the counts collect next. O(1), O(n) with times or weights."""
        engine, event_us, units = self._engine, timed.event_us, timed.cases.units
        assert engine is not None
        if units is not None:
            self._left_out += int((units != WEIGHT_UNITS).sum())
        panes: int | IntArray
        if isinstance(event_us, int):
            first = panes = engine.pane_of(event_us, received_us)
        else:
            panes = engine.panes_of(event_us, received_us)
            first = int(panes.min())
            if int(panes.max()) == first:
                panes = first
        self.rows.expect_cases(panes, timed.cases.labels.size)
        self._first_pane = first if self._first_pane is None else min(first, self._first_pane)

    def observe_cases(self, cases: UnsortedCases, codes: CodeArray | None) -> None:
        """Add the cases that were expected, now that they are counted. O(n)."""
        engine = self._engine
        assert engine is not None
        panes = self.rows.take_panes(len(cases))
        if not self.rows.size:
            self._first_pane = None
        if cases.units is not None:
            kept = np.flatnonzero(cases.units == WEIGHT_UNITS)
            cases = cases.take(kept)
            codes = None if codes is None else codes[:, kept]
            panes = panes if isinstance(panes, int) else panes[kept]
        if not len(cases):
            return
        parts = [] if codes is None else self._parts_of(codes)
        read = cell_cases(cases) if self._reads_cells else self._at_resolution(case_rows(cases))
        for first in range(0, len(cases), _CACHED_ROWS):
            some = slice(first, first + _CACHED_ROWS)
            own = panes if isinstance(panes, int) else panes[some]
            own_parts = [part[some] for part in parts]
            if isinstance(read, CellCases):
                engine.add_cells(read.take(some), own, own_parts)
            else:
                engine.add(read.take(some), own, own_parts)
        self._next_us = engine.due_us

    def collected(self, event_us: int | IntArray, received_us: int) -> None:
        """Learn of rows that were just added to `rows`. O(n) where each has its time."""
        engine = self._engine
        assert engine is not None
        first_us = event_us if isinstance(event_us, int) else int(event_us.min())
        pane = engine.pane_of(first_us, received_us)
        self._first_pane = pane if self._first_pane is None else min(pane, self._first_pane)
        if self.rows.size >= _MAX_WAITING_ROWS:
            self._add_rows()

    def settle(self) -> None:
        """Add the rows that wait to their panes, without a visible effect. O(rows).

        The stream must have counted the cases that it has collected.
        """
        assert not self.rows.has_cases, "the detector waits for cases that are not counted"
        self._add_rows()

    def _add_rows(self) -> None:
        """Add the collected `rows` to their panes. O(rows)."""
        engine = self._engine
        if engine is None or not self.rows.size:
            return
        parts = self.rows.drain()
        if not self.rows.has_cases:
            self._first_pane = None
        self._left_out += sum(part.left_out for part in parts)
        by_pane: dict[int, list[ReadRows]] = {}
        for part in parts:
            if isinstance(part.event_us, int):
                pane = engine.pane_of(part.event_us, part.received_us)
                if part.rows.scores.size:
                    by_pane.setdefault(pane, []).append(part)
            elif part.event_us.size:
                self._add(engine, [part], engine.panes_of(part.event_us, part.received_us))
        for pane, some in by_pane.items():
            self._add(engine, some, pane)
        self._next_us = engine.due_us

    def _add(self, engine: DriftEngine, parts: Sequence[ReadRows], panes: IntArray | int) -> None:
        rows, codes = concat(parts)
        engine.add(self._at_resolution(rows), panes, self._parts_of(codes))

    def _at_resolution(self, rows: DriftRows) -> DriftRows:
        """Return rows with scores as the reference keeps them, where more than bands is read."""
        assert self._engine is not None
        if not self._engine.reads_scores:
            return rows
        scores = quantise(rows.scores, self._resolution, self._settings.scale)
        return rows._replace(scores=scores)

    def _parts_of(self, codes: CodeArray) -> list[IntArray]:
        """Return for each key of segments the part of each row, -1 where it has none. O(n)."""
        return [
            part_of[np.minimum(own, part_of.size - 1)]
            for part_of, own in zip(self._parts, codes, strict=False)
        ]

    def change(self, change: AlarmChange, received_us: int) -> None:
        """Acknowledge an alarm, or take it as delivered; one that is not there changes nothing."""
        engine = self._engine
        self.revision = self._usage.revision
        if engine is None:
            return
        found = next((each for each in engine.alarms if each.number == change.number), None)
        if found is None:
            return
        if change.is_delivery:
            self._delivered.add(change.number)
        elif found.is_open:
            self.settle()
            engine.advance(received_us)
            engine.acknowledge(change.number, received_us)
            self._next_us = engine.due_us
        self._delivered &= {each.number for each in engine.alarms}

    def differs(self, settings: StreamSettings) -> bool:
        """Whether other settings need a detector of their own."""
        return settings.alarms != self._alarms or (
            self._alarms.needs_threshold and settings.threshold != self._settings.threshold
        )

    def reconfigure(self, settings: StreamSettings) -> None:
        """Take settings that do not differ for it."""
        self.settle()
        self._settings = settings

    @property
    def is_watching(self) -> bool:
        """Whether rows are observed."""
        return self._engine is not None

    @property
    def watched_us(self) -> tuple[int, int] | None:
        """The time of the reference, once it is frozen."""
        return None if self._engine is None else self._reference_us

    @property
    def num_alarms(self) -> int:
        """The number of the last alarm."""
        return self._num_alarms if self._engine is None else self._engine.num_alarms

    # -- time

    @property
    def due_us(self) -> int | None:
        """When `pass_time` is needed next; None while nothing waits. O(1)."""
        engine = self._engine
        if engine is None:
            if self._proposes:
                return self._declared_us
            end_us = self._reference_us[1] + self._label_wait_us
            return max(end_us, self._declared_us) + self._hours * _HOUR_US
        due_us = self._next_us
        if self._first_pane is None:
            return due_us
        settings = engine.settings
        own_us = (self._first_pane + 1) * settings.pane_us + settings.maturity_us
        return own_us if due_us is None else min(due_us, own_us)

    @property
    def _label_wait_us(self) -> int:
        """How long after its end the reference waits for labels."""
        wait_us = self._alarms.label_wait_us
        if wait_us is None:
            return self._settings.label_ttl_us if self._usage.has_ids else 0
        return wait_us

    def pass_time(self, now_us: int, frozen: Callable[[], FrozenStream]) -> int:
        """Freeze the reference, or observe what is due, once cases are counted."""
        engine, due_us = self._engine, self.due_us
        if engine is None:
            assert due_us is not None
            self._begin(frozen(), now_us, now_us - due_us)
            self.revision = self._usage.revision
            return _FREEZE_COST
        self.settle()
        found_us = engine.due_us
        if found_us is None or found_us > now_us:  # the rows were none that it watches
            return 0
        engine.advance(now_us)
        self._next_us = engine.due_us
        self.revision = self._usage.revision
        return _OBSERVE_COST

    def _begin(self, counts: FrozenStream, now_us: int, late_us: int) -> None:
        """Freeze the reference and begin to watch, or wait for more cases."""
        # Of the days since the declaration some may have a change in them, or too few cases.
        is_refused = self._alarms.reference_us is None and self._refusal
        if self._proposes or is_refused:
            proposed = proposed_reference(counts, now_us, self._label_wait_us)
            if proposed is None and self._proposes:
                self._proposes = False
                return
            self._proposes = False
            self._reference_us = proposed or self._reference_us
        try:
            made = freeze_reference(self._settings, counts, self._reference_us)
            check_unchanged(counts, self._reference_us, now_us, self._label_wait_us)
        except InvalidInputError as error:
            self._refusal = str(error)
            if self._alarms.reference_us is None:
                start_us, end_us = self._reference_us
                self._reference_us = start_us, end_us + (late_us // _DAY_US + 1) * _DAY_US
            else:
                self._hours += late_us // _HOUR_US + 1
            return
        self._watch(made, counts, now_us)

    def _watch(self, made: AlarmReference, counts: FrozenStream, now_us: int) -> None:
        """Replay what is kept since the reference, and begin to watch."""
        self._engine = DriftEngine(made.settings, made.frozen, num_alarms=self._num_alarms)
        past = panes_since(counts, made.frozen.segments, self._reference_us[1])
        self._left_out = self._engine.replay(past, now_us, self._declared_us, made.resolution)
        self._next_us = self._engine.due_us
        self._resolution = made.resolution
        self._index_cells()
        self._since_us = now_us
        self._refusal = ""
        self._read_parts(counts.names)

    def _index_cells(self) -> None:
        """Let cases be read by their cells, where scores are probabilities."""
        assert self._engine is not None
        if self._settings.scale == "probability":
            self._reads_cells = self._engine.table.index_cells(self._resolution)

    def _read_parts(self, names: Mapping[tuple[str, str], int]) -> None:
        """Set the part of each code of each key."""
        assert self._engine is not None
        numbers = {f"{key}={value}": number for (key, value), number in names.items()}
        keys = len(self._settings.segment_keys)
        codes: list[dict[int, int]] = [{} for _ in range(keys)]
        for part, name in enumerate(self._engine.frozen.segments, 1):
            number = numbers[name]
            codes[key_of(number)][code_of(number)] = part
        self._parts = []
        for known in codes:
            # One more than the highest: higher codes have no part.
            column = np.full(max(known, default=-1) + 2, -1, dtype=np.int64)
            for code, part in known.items():
                column[code] = part
            self._parts.append(column)

    # -- reading

    @property
    def memory_bytes(self) -> int:
        """Memory, an upper bound. O(1)."""
        engine = self._engine
        if engine is None:
            return _BYTES + self.rows.memory_bytes
        segments = _SEGMENT_BYTES * len(engine.frozen.segments)
        index = engine.table.memory_bytes
        return _BYTES + segments + index + engine.panes.memory_bytes + self.rows.memory_bytes

    def undelivered(self) -> list[Alarm]:
        """Return the open alarms that no webhook has taken. O(alarms)."""
        if self._engine is None:
            return []
        return [
            each
            for each in self._engine.alarms
            if each.is_open and each.number not in self._delivered
        ]

    def view(self) -> AlarmsView:
        """Return the detector as it is now; cases that wait would change nothing. O(watches)."""
        self._add_rows()
        engine = self._engine
        if engine is None:
            waits_for = self._refusal or "the end of its reference, and its labels"
            return AlarmsView(waits_for, self._reference_us, None, {}, (), frozenset(), 0)
        evidence = {
            watch.name: engine.evidence(index)
            for index, watch in enumerate(engine.settings.watches)
        }
        return AlarmsView(
            "",
            self._reference_us,
            self._since_us,
            evidence,
            tuple(engine.alarms),
            frozenset(self._delivered),
            self._left_out,
            engine.frozen.warnings,
        )

    def to_bytes(self) -> bytes:
        """Return everything as bytes, after the cases are counted. O(state)."""
        self.settle()
        fields = {
            "reference_us": self._reference_us,
            "declared_us": self._declared_us,
            "num_alarms": self._num_alarms,
            "refusal": self._refusal,
            "hours": self._hours,
            "resolution": self._resolution,
            "since_us": self._since_us,
            "left_out": self._left_out,
            "delivered": sorted(self._delivered),
        }
        if self._proposes:
            fields["proposes"] = True
        text = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
        engine = b"" if self._engine is None else encode_engine(self._engine)
        return _LENGTHS.pack(len(text), len(engine)) + text + engine

    def to_parts(self) -> Iterable[CheckpointPart]:
        """Yield the part of the detector. O(state) if it changed."""
        yield CheckpointPart(f"{ALARMS_PART}/0", self.revision, self._part)

    def _part(self) -> MadePart:
        return MadePart(partial(bytes, self.to_bytes()))

    def from_part(self, _kind: str, _number: int, data: bytes, origin: Restoring) -> None:
        """Take the state of a detector that was declared alike. O(state)."""
        self.revision = origin.revision
        lengths = _LENGTHS.unpack_from(data)
        if len(data) != _LENGTHS.size + sum(lengths):
            raise CorruptStateError("the detector ends too soon")
        at = _LENGTHS.size + lengths[0]
        fields: dict[str, Any] = json.loads(data[_LENGTHS.size : at])
        self._declared_us = int(fields["declared_us"])
        self._proposes = bool(fields.get("proposes", False))
        self._num_alarms = int(fields["num_alarms"])
        self._reference_us = int(fields["reference_us"][0]), int(fields["reference_us"][1])
        self._refusal = str(fields["refusal"])
        self._hours = int(fields["hours"])
        self._resolution = int(fields["resolution"])
        self._since_us = None if fields["since_us"] is None else int(fields["since_us"])
        self._left_out = int(fields["left_out"])
        self._delivered = {int(each) for each in fields["delivered"]}
        if lengths[1]:
            self._engine = decode_engine(data[at:])
            self._next_us = self._engine.due_us
            self._index_cells()
            self._read_parts(origin.names())
