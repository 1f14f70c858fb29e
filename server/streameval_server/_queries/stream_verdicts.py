"""The verdicts on streams, each computed once while the evidence of its stream stays the same.

All places show this message: the answer of the method, lists, metrics, webhooks. A label that comes
after its step was mature moves the figures with the next step, so that an unchanged verdict costs
nothing.

Cost: a search of some hundred rows, and a merge of the mature panes on each side: 10 to 20 ms.
Where it is too early, a projection in addition, once an hour: 20 to 200 ms. Only who asks for it
waits for it; lists, metrics and webhooks have it once it is made.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from streameval.statistics import Pane, Question, decide, decode_evidence
from streameval.v1 import verdict_pb2
from streameval_server._model.verdict_change import called_of
from streameval_server._queries.projections import projected_since
from streameval_server._queries.verdict_message import verdict_message
from streameval_server._state.verdict.evidence_panes import evidence_panes

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from streameval import Interval
    from streameval.statistics import Evidence
    from streameval_server._state.views import StreamView

V = TypeVar("V")

_HOUR_US: Final = 3_600_000_000
_MAX_STREAMS: Final = 20_000
_VERDICT_BYTES: Final = 3_000
"""Memory of a verdict that is kept, about."""
_PROJECTED_BYTES: Final = 600
_WORSE: Final = ("ranking_worse", "auc_roc_worse")


class _Projected(NamedTuple):
    """The headline since a time as it was projected at another one; None where it is not."""

    of: Hashable
    at_us: int
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class KnownVerdict:
    """A verdict, encoded.

    Attributes
    ----------
    of : hashable
        What it was computed from.
    encoded : bytes
    at_us, valid_until_us : int
    holds_until_us : int
        Until when nothing but `at` and `valid_until` would be other ones.
    may_project : bool
        Whether it is too early, and a projection was neither asked for nor made before.
    """

    of: Hashable
    encoded: bytes
    at_us: int
    valid_until_us: int
    holds_until_us: int
    may_project: bool = False

    def holds(self, of: Hashable, at_us: int) -> bool:
        """Return whether it is the verdict at a time, on what it would be computed from."""
        return self.of == of and self.at_us <= at_us < self.valid_until_us

    def message(self) -> verdict_pb2.Verdict:
        """Return it in a message that the caller may change. O(bytes)."""
        return verdict_pb2.Verdict.FromString(self.encoded)


class Verdicts:
    """The newest verdicts. Any thread may call.

    Parameters
    ----------
    clock_us : callable
        Returns the server's clock.
    """

    def __init__(self, clock_us: Callable[[], int]) -> None:
        self._clock_us = clock_us
        self._known: OrderedDict[str, KnownVerdict] = OrderedDict()
        self._lock = threading.Lock()
        self._projected: OrderedDict[str, _Projected] = OrderedDict()
        self._projecting = threading.Lock()

    @property
    def memory_bytes(self) -> int:
        """Memory, about. O(1)."""
        return _VERDICT_BYTES * len(self._known) + _PROJECTED_BYTES * len(self._projected)

    def of(
        self, view: StreamView, at_us: int | None = None, *, projects: bool = True
    ) -> KnownVerdict:
        """Return the verdict on a stream, now by default. O(1) while it stays the same.

        Without `projects` it has a projection only if one was made within the hour.
        """
        name, of = view.info.name, _sources(view)
        now_us = self._clock_us() if at_us is None else at_us
        with self._lock:
            known = self._known.get(name)
        if known is not None and known.holds(of, now_us) and not (projects and known.may_project):
            return known
        project = self._project if projects else self._projection
        found = _computed(view, of, now_us, partial(project, view))
        if at_us is None:
            with self._lock:
                _keep(self._known, name, found)
        return found

    def _project(self, view: StreamView, start_us: int) -> _Projected:
        """Return the projection since a time, of this hour: the first one, for all threads."""
        with self._projecting:
            known = self._projection(view, start_us)
            if known is None:
                now_us = self._clock_us()
                interval = projected_since(view, start_us, now_us)
                known = _Projected((view.info.create_revision, start_us), now_us, interval)
                with self._lock:
                    _keep(self._projected, view.info.name, known)
        return known

    def _projection(self, view: StreamView, start_us: int) -> _Projected | None:
        """Return the projection since a time, of this hour; None if none was made. O(1)."""
        of, now_us = (view.info.create_revision, start_us), self._clock_us()
        with self._lock:
            known = self._projected.get(view.info.name)
        is_new = known is not None and known.of == of and now_us - known.at_us < _HOUR_US
        return known if is_new else None


def _keep(values: OrderedDict[str, V], name: str, value: V) -> None:
    """Keep a stream's value as the newest; the oldest make room."""
    values[name] = value
    values.move_to_end(name)
    while len(values) > _MAX_STREAMS:
        values.popitem(last=False)


def _sources(view: StreamView) -> Hashable:
    """Return what the verdict on a stream depends on, besides the time. O(marks)."""
    settings, alarms = view.info.settings, view.alarms
    return (
        view.info.create_revision,
        view.evidence,  # equal where it is the same
        None if alarms is None else alarms.num_open,
        view.marks,
        (settings.threshold, settings.costs),
        _last_row_us(view),
    )


def _last_row_us(view: StreamView) -> int:
    """Return the end of the newest pane with rows; -1 without any. O(1)."""
    panes = view.whole.panes
    return panes[-1].end_us if panes else -1


def _computed(
    view: StreamView, of: Hashable, at_us: int, project: Callable[[int], _Projected | None]
) -> KnownVerdict:
    state, settings, costs = view.evidence, view.info.settings, view.info.settings.costs
    evidence = decode_evidence(state.data) if state is not None and state.data else None
    last_row_us = min(_last_row_us(view), at_us)
    base_end_us = 0 if evidence is None else evidence.base.end_us

    opened = [each.number for each in (view.alarms.alarms if view.alarms else ()) if each.is_open]
    is_early = not opened and (evidence is None or evidence.is_early)
    projected = project(base_end_us) if is_early else None
    asked = Question(
        at_us,
        last_row_us=last_row_us,
        alarm=min(opened, default=None),
        annotations=[(each.time_us, each.text) for each in view.marks],
        threshold=settings.threshold,
        cost_fp=None if costs is None else costs.cost_fp,
        cost_fn=None if costs is None else costs.cost_fn,
        no_base="" if state is None else state.reason,
        again_us=None if state is None else state.again_us,
        labelled=_labelled(view, base_end_us),
        projected=None if projected is None else projected.interval,
    )
    found = decide(evidence, _panes(view, evidence, is_open=bool(opened)), asked)
    called = called_of(b"" if state is None else state.called)
    message = verdict_message(view.info.name, found, called)
    until_us = message.valid_until.ToMicroseconds()
    holds_until_us = until_us
    if evidence is not None and found.flow != "silent" and found.projected is None:
        holds_until_us = last_row_us + max(2 * evidence.longest_gap_us, _HOUR_US)
    encoded, may_project = message.SerializeToString(), is_early and projected is None
    return KnownVerdict(of, encoded, at_us, until_us, holds_until_us, may_project)


def _panes(view: StreamView, evidence: Evidence | None, *, is_open: bool) -> list[Pane]:
    """Return the panes that a verdict reads; without evidence as few as tell the flow."""
    if evidence is None:
        panes = view.whole.panes
        if any(each.coverage.counts.labelled for each in panes):
            return []
        waiting = [each for each in panes if each.coverage.counts.predictions]
        return [Pane(each.start_us, each.end_us, each.state, 1) for each in waiting]
    # Segments are read where they may explain something.
    is_worse = is_open or evidence.last_called_us(*_WORSE) >= 0
    named = evidence.named_segments() if is_worse else ()
    return evidence_panes(view.counts, [each.segment for each in named])


def _labelled(view: StreamView, start_us: int) -> float:
    """Return the share of the predictions since a time that have a label; nan without any."""
    since = [each.coverage.counts for each in view.whole.panes if each.start_us >= start_us]
    predictions = sum(each.predictions for each in since)
    return sum(each.labelled for each in since) / predictions if predictions else math.nan
