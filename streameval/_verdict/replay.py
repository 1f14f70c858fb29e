"""The verdict on panes that are kept: the evidence is replayed in order of event time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from streameval._common.errors import InvalidInputError
from streameval._common.values import shown
from streameval._counts.merge import merge_states
from streameval._time.times import to_us
from streameval._verdict.base import BaseSpan, NoBase, choose_base
from streameval._verdict.base_changes import changes_in, minute_words, within
from streameval._verdict.decide import Question, decide
from streameval._verdict.evidence import Evidence
from streameval._verdict.evidence_base import Pane

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streameval._counts.state import State
    from streameval._projection.projection import Projection
    from streameval._time.evaluator_panes import EvaluatorPanes
    from streameval._verdict.verdict import Verdict

    Segments = Mapping[str, EvaluatorPanes]


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
    *,
    project: Callable[[int], Projection] | None = None,
) -> Verdict:
    """Return the verdict on panes at a time. O(panes x cells), and as `decide`.

    Parameters
    ----------
    kept : EvaluatorPanes
    segments : mapping of "key=value" to EvaluatorPanes
        From `checked_segments`.
    base : (datetime, datetime) or None
    asked : Question
        Its row, base and time to look again are filled in.
    label_wait_us : int
    project : callable, optional
        Returns the projection of all since a time, in microseconds.
    """
    panes = joined_panes(kept, segments, asked.at_us)
    replayed = replay(panes, kept.pane_us, base, asked.at_us, label_wait_us)
    if replayed.no_base is not None:
        reason, again_us = replayed.no_base
        asked = asked._replace(no_base=reason, again_us=again_us)
    evidence = replayed.evidence
    if project is not None and (evidence is None or evidence.is_early):
        found = project(0 if evidence is None else evidence.base.end_us)
        asked = asked._replace(labelled=found.labelled_share, projected=found.interval())
    rows = [each.end_us for each in panes if each.state.total]
    last_us = max(rows, default=-1)
    return decide(evidence, panes, asked._replace(last_row_us=min(last_us, asked.at_us)))


def checked_segments(kept: EvaluatorPanes, segments: Any) -> dict[str, EvaluatorPanes]:
    """Return the panes of each segment by "key=value", or refuse what is not segments."""
    found = {}
    for key, values in _items(segments, "country", "IT").items():
        for value, each in _items(values, *str(key).partition("=")[::2]).items():
            panes = each._view() if hasattr(each, "_view") else None
            if not isinstance(panes, type(kept)):
                _refuse(f"an evaluator by value, got {shown(each)} at {value!r}", key, value)
            if panes.tiers != kept.tiers:
                message = (
                    f"segments must have this evaluator's pane and retention, {key}={value} has "
                    f"{_span(panes)} instead of {_span(kept)}; make it with the same ones"
                )
                raise InvalidInputError(message, field="segments")
            found[f"{key}={value}"] = panes
    return found


def _items(value: Any, key: str, name: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        _refuse(f"evaluators by key, then by value, got {shown(value)}", key, name or "IT")
    return value


def _refuse(what: str, key: Any, value: Any) -> NoReturn:
    message = f'segments must hold {what}; write segments={{"{key}": {{"{value}": evaluator}}}}'
    raise InvalidInputError(message, field="segments")


def _span(panes: EvaluatorPanes) -> str:
    return (
        f"{timedelta(microseconds=panes.pane_us)} and {timedelta(microseconds=panes.retention_us)}"
    )


def replay(
    panes: Sequence[Pane],
    pane_us: int,
    base: tuple[Any, Any] | None,
    at_us: int,
    label_wait_us: int,
) -> Replayed:
    """Return the evidence of panes up to a time, as if they had been observed live."""
    mature_us = at_us - label_wait_us
    counted = [(each.start_us, each.end_us, each.state) for each in panes]
    span: BaseSpan | NoBase
    if base is None:
        span = choose_base(counted, at_us, label_wait_us)
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
    parts: dict[int, dict[str, list[State]]] = {}
    for name, of_value in segments.items():
        for pane in of_value:
            # A segment without newer rows still has finer panes than the whole.
            here = parts.setdefault(kept.grid.start_of(pane.start_us), {})
            here.setdefault(name, []).append(pane.content._view())
    return [
        Pane(
            pane.start_us,
            pane.end_us,
            pane.content._view(),
            segments={
                name: merge_states(states, revision=0)
                for name, states in parts.get(pane.start_us, {}).items()
            },
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
        message = (
            f"base must hold whole panes with labelled cases, there are none from {start} to "
            f"{end}; panes are of an hour after 3 hours and of a day after a week"
        )
        raise InvalidInputError(message, field="base")
    return BaseSpan.of((start_us, end_us), [state for *_, state in inside])


def _pair(base: Any) -> tuple[Any, Any]:
    if isinstance(base, tuple) and len(base) == 2:
        return base
    message = f"base must be the start and the end of a time, got {base!r}"
    raise InvalidInputError(message, field="base")
