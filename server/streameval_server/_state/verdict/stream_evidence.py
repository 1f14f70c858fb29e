"""The evidence of one stream: it chooses its base, freezes it, then observes step by step.

A step is read from the stream's panes once it is mature, so that rows cost nothing when they
come. All follows from the log's time, so the same log gives the same evidence.

Rows that are dated before what is mature are history that is being loaded, or late. What is due
then waits until none has come for `_SETTLE_US`, though not longer than `_MAX_SETTLE_US`.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from streameval import CorruptStateError, InvalidInputError
from streameval.kernel import MAX_TIME_US, Effect, Effects
from streameval.statistics import NoBase, decode_evidence, encode_evidence
from streameval_server._model.verdict_change import (
    QUALITIES,
    CalledRow,
    called_of,
    quality_in,
    with_called,
)
from streameval_server._state.file_values import read_integer
from streameval_server._state.observer import CheckpointPart, MadePart, Observer
from streameval_server._state.verdict.evidence_panes import (
    begin,
    chosen_base,
    declared_base,
    maturity_us,
    observe_some,
)
from streameval_server._state.views import EvidenceView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from streameval.statistics import BaseSpan, Evidence
    from streameval_server._model.stream_settings import StreamSettings
    from streameval_server._model.verdict_change import VerdictChange
    from streameval_server._state.alarms.stream_alarms import StreamAlarms
    from streameval_server._state.memory import StreamUsage
    from streameval_server._state.observer import Restoring, Taken
    from streameval_server._state.views import FrozenStream

VERDICT_PART: Final = "verdict"

_EXPIRED: Final = frozenset({Effect.EXPIRED, Effect.EXPIRED_NEGATIVE})
"""Effects of time alone: no rows come with them."""

_SECOND_US: Final = 1_000_000
_SETTLE_US: Final = 10 * _SECOND_US
_MAX_SETTLE_US: Final = 600 * _SECOND_US
_HOUR_US: Final = 3_600 * _SECOND_US
_DAY_US: Final = 24 * _HOUR_US
_WEEK_US: Final = 7 * _DAY_US

_EARLY: Final = "its first week is not over yet"
_LOADING: Final = (
    "rows dated earlier are still coming; it looks again when none has come for ten seconds, "
    "or after ten minutes"
)

_BYTES: Final = 1_024
"""Memory besides the bytes of the evidence, which is at rest between its steps."""

_PANE_COST: Final = 500
_BASE_COST: Final = 10_000
"""Budget of `pass_time`, in ids that expire."""

_HEAD: Final = struct.Struct("<II")
"""The lengths of what is kept and of what it was called, which the evidence follows."""


@dataclass(slots=True)
class _Kept:
    """What is kept besides the evidence, in microseconds of the log's or of event time.

    Attributes
    ----------
    first_us, newest_us : int
        The day of the oldest event time, and the newest one; 0 before any.
    again_us : int
        When a base is looked for again; 0 for not before the next row, and with one.
    tried_us : int
        When one was looked for last; 0 if it was not, and with one.
    reason : str
        Why there is none.
    begun_us, quiet_us : int
        When late rows began to come, and until when what is due waits for more; 0 afterwards.
    maturity_us, measured_us : int
        How long after its end a step has the labels that count, and when that was measured last:
        once an hour, because it reads all delays.
    next_us, over_us : int
        When the next step begins and ends; `next_us` is 0 without a base.
    from_us : int
        From when on what was accepted as normal has been so; 0 if nothing was accepted.
    declared_us : (int, int) or None
        The newest reference of alarms that was taken over, or that an acceptance overrules.
    told, told_us
        The quality that a webhook took last, and when.
    """

    first_us: int = 0
    newest_us: int = 0
    again_us: int = 0
    tried_us: int = 0
    reason: str = "it has no rows yet"
    begun_us: int = 0
    quiet_us: int = 0
    maturity_us: int = 0
    measured_us: int = 0
    next_us: int = 0
    over_us: int = 0
    from_us: int = 0
    declared_us: tuple[int, int] | None = None
    told: str = "immature"
    told_us: int = 0


_NUMBERS: Final = tuple(
    each.name for each in fields(_Kept) if each.name not in {"reason", "told", "declared_us"}
)


class StreamEvidence(Observer):
    """The evidence of a stream.

    Parameters
    ----------
    settings : StreamSettings
    usage : StreamUsage
        The stream's.

    Attributes
    ----------
    alarms : StreamAlarms or None
        The stream's detector: its reference is the base, once it watches.
    revision, decided_revision : int
        Log revisions of its last change, and of the last one that may change the quality.
    """

    __slots__ = (
        "_called",
        "_data",
        "_kept",
        "_settings",
        "_usage",
        "_view",
        "alarms",
        "decided_revision",
        "revision",
    )
    KINDS = (VERDICT_PART,)

    def __init__(self, settings: StreamSettings, usage: StreamUsage) -> None:
        self.alarms: StreamAlarms | None = None
        self.revision = self.decided_revision = usage.revision
        self._settings = settings
        self._usage = usage
        self._kept = _Kept()
        # The evidence; empty without a base.
        self._data = b""
        # What the stream was called, as `with_called` has it.
        self._called = b""
        self._view: EvidenceView | None = None

    # -- changing

    def take(self, taken: Taken, received_us: int) -> None:
        """Learn of rows that come: of their times alone. O(1), O(n) with times."""
        if isinstance(taken, Effects) and (not len(taken) or int(taken.kinds[0]) in _EXPIRED):
            return
        event_us, kept = taken.event_us, self._kept
        if isinstance(event_us, int):
            first_us = last_us = event_us
        else:
            first_us, last_us = int(event_us.min()), int(event_us.max())
        if last_us <= 0:  # merged without a time
            return
        newest_us = max(min(last_us, received_us), kept.newest_us)
        is_late = first_us < received_us - kept.maturity_us - _HOUR_US
        if newest_us == kept.newest_us and not is_late:
            return
        self.revision = self._usage.revision
        kept.newest_us = newest_us
        if is_late:
            if received_us >= kept.quiet_us:
                kept.begun_us = received_us
            kept.quiet_us = min(received_us + _SETTLE_US, kept.begun_us + _MAX_SETTLE_US)
        if not self._data:
            self._expect_base(first_us // _DAY_US * _DAY_US, received_us, is_late=is_late)

    def _expect_base(self, day_us: int, now_us: int, *, is_late: bool) -> None:
        """Learn of a day with rows, before there is a base."""
        kept, self._view = self._kept, None
        if not kept.first_us or day_us < kept.first_us:
            kept.first_us = max(day_us, 1)
            kept.again_us = day_us + _WEEK_US
            kept.reason = _EARLY if now_us < kept.again_us else _LOADING
        elif not kept.again_us or (is_late and kept.tried_us):
            soon_us = kept.tried_us + _HOUR_US
            kept.again_us = min(kept.again_us or soon_us, soon_us)

    def look_back(self, first_us: int, last_us: int) -> None:
        """Learn of the panes of a state that was saved without evidence; else change nothing."""
        if not self._kept.first_us:
            self._kept.newest_us = last_us
            self._expect_base(first_us // _DAY_US * _DAY_US, first_us, is_late=True)

    def change(self, change: VerdictChange, received_us: int) -> None:
        """Take what it is called, what was told, or what is accepted as normal."""
        kept = self._kept
        self.revision = self._usage.revision
        if change.told:
            kept.told, kept.told_us = change.told, received_us
            return
        self._view, self.decided_revision = None, self.revision
        self._called = with_called(
            self._called, CalledRow(change.called, received_us, change.from_us)
        )
        if change.called:
            return
        kept.next_us, kept.from_us, kept.again_us = 0, change.from_us, received_us
        kept.reason, kept.declared_us = "what is now was just accepted as normal", self._watched_us
        self._data = b""

    def reconfigure(self, settings: StreamSettings) -> None:
        """Take other settings."""
        self._settings = settings
        self._kept.measured_us = 0

    # -- time

    @property
    def _watched_us(self) -> tuple[int, int] | None:
        return None if self.alarms is None else self.alarms.watched_us

    @property
    def due_us(self) -> int | None:
        """When `pass_time` is needed next; None while nothing is due. O(1)."""
        kept = self._kept
        if self._watched_us not in (None, kept.declared_us):
            return kept.quiet_us
        if not self._data:
            return max(kept.again_us, kept.quiet_us) if kept.again_us else None
        if kept.next_us > kept.newest_us:
            return None
        return max(kept.over_us + kept.maturity_us, kept.quiet_us)

    def pass_time(self, now_us: int, frozen: Callable[[], FrozenStream]) -> int:
        """Choose the base, or observe what is mature."""
        counts, kept, watched_us = frozen(), self._kept, self._watched_us
        if now_us >= kept.measured_us + _HOUR_US:
            kept.maturity_us = maturity_us(counts, self._settings, now_us)
            kept.measured_us = now_us
        self.revision = self.decided_revision = self._usage.revision
        self._view = None
        kept.begun_us = kept.quiet_us = 0  # what is due has waited for them
        if watched_us not in (None, kept.declared_us):
            kept.declared_us, kept.from_us = watched_us, 0
            assert watched_us is not None
            self._begin(counts, declared_base(counts, watched_us), now_us, is_declared=True)
        elif not self._data:
            found = chosen_base(counts, now_us, kept.maturity_us, kept.from_us)
            if isinstance(found, NoBase):
                self._miss_base(found, now_us)
            else:
                self._begin(counts, found, now_us, is_declared=kept.from_us > 0)
        else:
            evidence = decode_evidence(self._data)
            over_us, panes = observe_some(evidence, counts, now_us - kept.maturity_us)
            self._rest(evidence, over_us)
            return _PANE_COST * (1 + panes)
        return _BASE_COST

    def _begin(
        self, counts: FrozenStream, base: BaseSpan, now_us: int, *, is_declared: bool
    ) -> None:
        """Freeze a base; one that is none leaves the evidence as it is."""
        kept = self._kept
        try:
            made = begin(counts, base, self._settings, is_declared=is_declared)
        except InvalidInputError as error:
            if not self._data:
                self._miss_base(NoBase(str(error), None), now_us)
            return
        kept.reason, kept.again_us, kept.tried_us = "", 0, 0
        self._rest(made, made.next_us + made.step_us)

    def _rest(self, evidence: Evidence, over_us: int) -> None:
        """Keep the evidence as bytes until the next step is over."""
        self._data = encode_evidence(evidence)
        self._kept.next_us, self._kept.over_us = evidence.next_us, over_us

    def _miss_base(self, found: NoBase, now_us: int) -> None:
        kept = self._kept
        kept.reason, kept.again_us, kept.tried_us = found.reason, 0, now_us
        # Once all rows are mature, only further ones can make a difference.
        if found.again_us is not None and now_us < kept.newest_us + kept.maturity_us + _WEEK_US:
            kept.again_us = max(found.again_us, now_us + _HOUR_US)

    # -- reading

    @property
    def memory_bytes(self) -> int:
        """Memory, an upper bound. O(1)."""
        return _BYTES + len(self._data) + len(self._called)

    @property
    def noted(self) -> tuple[str, str, int]:
        """What it is called, the quality that a webhook took last, and when."""
        return quality_in(called_of(self._called)), self._kept.told, self._kept.told_us

    def view(self) -> EvidenceView:
        """Return the evidence as it is now; the same object until it changes. O(1)."""
        if self._view is None:
            kept = self._kept
            self._view = EvidenceView(self._data, kept.reason, kept.again_us, self._called)
        return self._view

    def to_parts(self) -> Iterable[CheckpointPart]:
        """Yield the part of the evidence; none before the first row. O(state) if it changed."""
        if self._called or self._kept != _Kept():
            yield CheckpointPart(f"{VERDICT_PART}/0", self.revision, self._part)

    def _part(self) -> MadePart:
        text = json.dumps(asdict(self._kept), sort_keys=True, separators=(",", ":")).encode()
        head = _HEAD.pack(len(text), len(self._called))
        return MadePart(partial(bytes, head + text + self._called + self._data))

    def from_part(self, _kind: str, _number: int, data: bytes, origin: Restoring) -> None:
        """Take the state of the part. O(state)."""
        self.revision = self.decided_revision = origin.revision
        self._view = None
        length, called = _HEAD.unpack_from(data)
        end = _HEAD.size + length
        if len(data) < end + called:
            raise CorruptStateError("the evidence of the verdict ends too soon")
        self._kept = _restored(json.loads(data[_HEAD.size : end]))
        self._called, self._data = data[end : end + called], data[end + called :]
        called_of(self._called)
        if self._data and decode_evidence(self._data).next_us != self._kept.next_us:
            raise CorruptStateError("the evidence of the verdict contradicts itself")


def _restored(values: Any) -> _Kept:
    """Return what a part keeps, checked."""
    reason, told, declared = values["reason"], values["told"], values["declared_us"]
    if not isinstance(reason, str) or told not in QUALITIES:
        raise CorruptStateError("the evidence of the verdict contradicts itself")
    kept = _Kept(reason=reason, told=told)
    for name in _NUMBERS:
        setattr(kept, name, read_integer(values[name], MAX_TIME_US))
    if declared is not None:
        start_us, end_us = (read_integer(each, MAX_TIME_US) for each in declared)
        kept.declared_us = start_us, end_us
    return kept
