"""The panes of a stream as its evidence reads them: of a base, and mature ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streameval.kernel import MAX_TIME_US
from streameval.statistics import BaseSpan, DelayRows, Evidence, NoBase, Pane, choose_base
from streameval_server._state.ids.join_table import join_settings
from streameval_server._state.segments import WHOLE
from streameval_server._state.views import slice_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streameval_server._model.stream_settings import StreamSettings
    from streameval_server._state.views import FrozenStream, PaneSlices, PaneView

MATURE_SHARE: Final = 0.9
"""The share of each class's labels after which what is missing is not waited for."""
MAX_SEGMENTS: Final = 32
"""The most segments that are watched: those with the most cases when the base is frozen."""
_STEPS_AT_A_TIME: Final = 4
MIN_ACCEPTED: Final = 100
"""Positives, and negatives, of a base that was accepted."""


def maturity_us(counts: FrozenStream, settings: StreamSettings, now_us: int) -> int:
    """Return how long after its end a time has the labels that count. O(rows of delays).

    The later class decides: a step with all of one class and half of the other has another
    prevalence than the base. Panes of twice the time that labels may take tell of it.
    """
    joins = join_settings(settings)
    most_us = joins.ttl_us + joins.bucket_us
    held = () if counts.delays is None else counts.delays.panes
    ages = ((now_us - each.end_us, each.parts) for each in held)
    recent = [each for each in ages if each[0] <= 2 * most_us]
    return min(DelayRows.wait_us(recent, MATURE_SHARE), most_us)


def begin(
    counts: FrozenStream, base: BaseSpan, settings: StreamSettings, *, is_declared: bool
) -> Evidence:
    """Return the evidence that begins at the end of a base. O(cells) of its panes and segments.

    Raises
    ------
    InvalidInputError
        With weights, or too few cases.
    """
    sizes = sorted(
        (-counts.slice(number).all_time.num_cases, f"{key}={value}")
        for (key, value), number in counts.names.items()
        if number in counts.all_time
    )
    segments = [name for _, name in sizes[:MAX_SEGMENTS]]
    found = evidence_panes(counts, segments, (base.start_us, base.end_us))
    return Evidence.begin(base, found, settings.pane_us, is_declared=is_declared)


def declared_base(counts: FrozenStream, span_us: tuple[int, int]) -> BaseSpan:
    """Return the cases of the reference of alarms, or since a normal was accepted. O(cells)."""
    states = [
        each.state
        for each in counts.slice(0).panes
        if span_us[0] <= each.start_us and each.end_us <= span_us[1]
    ]
    return BaseSpan.of(span_us, states)


def chosen_base(
    counts: FrozenStream, at_us: int, mature_us: int, from_us: int
) -> BaseSpan | NoBase:
    """Return the base at a time, or why there is none.

    Parameters
    ----------
    counts : FrozenStream
    at_us, mature_us : int
        The time, and how long labels are waited for.
    from_us : int
        When what was accepted as normal began; 0 if nothing was.
    """
    panes = counts.slice(0).panes
    if not from_us:
        rows = [(each.start_us, each.end_us, each.state) for each in panes]
        return choose_base(rows, at_us, mature_us)
    inside = [each for each in panes if each.start_us >= from_us]
    inside = [each for each in inside if each.end_us <= at_us - mature_us]
    numbers = [(each.state.P, each.state.N) for each in inside]
    if not numbers or min(map(sum, zip(*numbers, strict=True))) < MIN_ACCEPTED:
        reason = f"what was accepted as normal has fewer than {MIN_ACCEPTED} cases of a class yet"
        return NoBase(reason, None)
    return declared_base(counts, (inside[0].start_us, inside[-1].end_us))


def observe_some(evidence: Evidence, counts: FrozenStream, mature_us: int) -> tuple[int, int]:
    """Observe what is mature, the oldest first, at most `_STEPS_AT_A_TIME`. O(cells) a pane.

    Returns when the next step is over, in event time, and how many panes were observed.
    """
    step_us = evidence.step_us
    panes = [whole for whole, _ in _panes_since(counts, evidence.next_us)]
    due = [each for each in panes if each.end_us <= mature_us]
    next_pane = next(iter(panes[len(due) :]), None)
    # A pane is observed as a whole, so time does not pass beyond the start of one.
    until_us = mature_us if next_pane is None else min(mature_us, next_pane.start_us)
    if due:
        limit_us = (due[0].start_us // step_us + _STEPS_AT_A_TIME) * step_us
        some = [each for each in due if each.start_us < limit_us]
        if len(some) < len(due):
            next_pane = None  # what is left of them is due at once
        due = some
        until_us = min(until_us, max(limit_us, -(-due[-1].end_us // step_us) * step_us))
    span_us = evidence.next_us, due[-1].end_us if due else evidence.next_us
    evidence.observe(evidence_panes(counts, evidence.frozen.segments, span_us), until_us)
    over_us = evidence.next_us + step_us
    return over_us if next_pane is None else max(over_us, next_pane.end_us), len(due)


def evidence_panes(
    counts: FrozenStream, segments: Iterable[str], span_us: tuple[int, int] = (0, MAX_TIME_US)
) -> list[Pane]:
    """Return the panes within a time, each with its segments. O(panes x segments)."""
    numbers = {}
    for name in segments:
        key, _, value = name.partition("=")
        numbers[name] = counts.names[key, value]
    found = []
    for whole, slices in _panes_since(counts, span_us[0]):
        if whole.end_us > span_us[1]:
            break
        parts = ((name, slice_of(slices, number)) for name, number in numbers.items())
        states = {name: part.state for name, part in parts if part is not None}
        predictions = whole.coverage.counts.predictions
        found.append(Pane(whole.start_us, whole.end_us, whole.state, predictions, states))
    return found


def _panes_since(counts: FrozenStream, start_us: int) -> list[tuple[PaneView, PaneSlices]]:
    """Return the panes of the whole from a time on, oldest first, each with its slices."""
    found = []
    for slices in reversed(counts.panes):
        whole = slice_of(slices, WHOLE)
        if whole is not None and whole.start_us < start_us:
            break
        if whole is not None:
            found.append((whole, slices))
    return found[::-1]
