"""The verdict on panes that are kept: the evidence is replayed in order of event time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from streameval._common.errors import InvalidInputError
from streameval._time.times import to_us
from streameval._verdict.base import BaseSpan, NoBase, choose_base
from streameval._verdict.base_changes import changes_in, minute_words, within
from streameval._verdict.decide import Question, decide
from streameval._verdict.evidence import Evidence
from streameval._verdict.evidence_base import Pane

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streameval._counts.state import State
    from streameval._time.evaluator_panes import EvaluatorPanes
    from streameval._verdict.verdict import Verdict

    Segments = Mapping[str, Mapping[str, EvaluatorPanes]]


class Replayed(NamedTuple):
    """What a replay of panes comes to: evidence, or why there is none."""

    evidence: Evidence | None
    no_base: NoBase | None


def verdict_of(
    kept: EvaluatorPanes,
    segments: Segments,
    base: tuple[Any, Any] | None,
    asked: Question,
    label_wait_us: int,
) -> Verdict:
    """Return the verdict on panes at a time. O(panes x cells), and as `decide`.

    Parameters
    ----------
    kept : EvaluatorPanes
    segments : mapping of key to value to EvaluatorPanes
        With the same panes.
    base : (datetime, datetime) or None
    asked : Question
        Its row, base and time to look again are filled in.
    label_wait_us : int
    """
    panes = joined_panes(kept, segments, asked.at_us)
    replayed = replay(panes, kept.pane_us, base, asked.at_us - label_wait_us)
    if replayed.no_base is not None:
        again_us = replayed.no_base.again_us
        asked = asked._replace(
            no_base=replayed.no_base.reason,
            again_us=None if again_us is None else again_us + label_wait_us,
        )
    rows = [each.end_us for each in panes if each.state.total]
    last_us = max(rows, default=-1)
    return decide(replayed.evidence, panes, asked._replace(last_row_us=min(last_us, asked.at_us)))


def replay(
    panes: Sequence[Pane], pane_us: int, base: tuple[Any, Any] | None, mature_us: int
) -> Replayed:
    """Return the evidence of panes up to a time, as if they had been observed live."""
    counted = [(each.start_us, each.end_us, each.state) for each in panes]
    span: BaseSpan | NoBase
    if base is None:
        span = choose_base(counted, mature_us, 0)
    else:
        span = _declared(counted, base, mature_us)
    if isinstance(span, NoBase):
        return Replayed(None, span)
    inside = [
        each for each in panes if each.start_us >= span.start_us and each.end_us <= span.end_us
    ]
    evidence = Evidence.begin(span, inside, pane_us, is_declared=base is not None)
    evidence.observe(panes, mature_us)
    return Replayed(evidence, None)


def joined_panes(kept: EvaluatorPanes, segments: Segments, at_us: int) -> list[Pane]:
    """Return the panes that are over at a time, each with its segments. O(panes x segments)."""
    parts: dict[int, dict[str, State]] = {}
    for key, values in segments.items():
        for value, of_value in values.items():
            for pane in of_value:
                parts.setdefault(pane.start_us, {})[f"{key}={value}"] = pane.content._view()
    return [
        Pane(
            pane.start_us,
            pane.end_us,
            pane.content._view(),
            segments=parts.get(pane.start_us, {}),
        )
        for pane in kept
        if pane.end_us <= at_us
    ]


def _declared(
    panes: Sequence[tuple[int, int, State]], base: tuple[Any, Any], mature_us: int
) -> BaseSpan:
    """Return a declared base, or refuse it."""
    start, end = _pair(base)
    start_us, end_us = to_us(start, field="base"), to_us(end, field="base")
    if not start_us < end_us <= mature_us:
        message = (
            f"base must begin before it ends, and end by {minute_words(mature_us)}, "
            f"got {start} to {end}"
        )
        raise InvalidInputError(message, field="base")
    inside = within(panes, (start_us, end_us))
    changes = changes_in(inside, (start_us, end_us))
    if changes:
        message = f"base has a change in it: {changes[0]}; take a time before or after it"
        raise InvalidInputError(message, field="base")
    if not inside:
        message = f"base must have labelled cases, there are none from {start} to {end}"
        raise InvalidInputError(message, field="base")
    return BaseSpan.of((start_us, end_us), [state for *_, state in inside])


def _pair(base: Any) -> tuple[Any, Any]:
    if isinstance(base, tuple) and len(base) == 2:
        return base
    message = f"base must be the start and the end of a time, got {base!r}"
    raise InvalidInputError(message, field="base")
