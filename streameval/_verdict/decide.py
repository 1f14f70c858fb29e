"""The verdict as a pure function: evidence decides, a search locates, counts say how much.

Nothing is called that evidence does not call, however the search or the figures look.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from streameval._common.errors import InvalidInputError
from streameval._common.values import real, shown
from streameval._drift.reference import MIN_CASES, STANDARD_ERRORS
from streameval._time.times import to_datetime
from streameval._verdict.doubts import doubts
from streameval._verdict.evidence_base import TOLERANCE
from streameval._verdict.level_sums import DAY_US, HOUR_US
from streameval._verdict.moves import base_steps, first_of, moved_of, since_of
from streameval._verdict.now import (
    because_of,
    cases_of_now,
    excluded_fall,
    figures_of,
    is_order_changed,
)
from streameval._verdict.search import find_change
from streameval._verdict.verdict import MARGIN, Base, Verdict
from streameval._verdict.words import happened_of, sentence_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._uncertainty.interval import Interval
    from streameval._verdict.evidence import Evidence
    from streameval._verdict.evidence_base import Pane
    from streameval._verdict.now import Now
    from streameval._verdict.search import Beginning, Change
    from streameval._verdict.verdict import Because, Flow, Moved, Quality, Since, VerdictFigure

RECOVERED_FOR_US: Final = 7 * DAY_US
MAX_DOUBTS: Final = 2
_WORSE: Final = ("ranking_worse", "auc_roc_worse")
_BETTER: Final = ("ranking_better", "auc_roc_better")


class Question(NamedTuple):
    """When is asked, and what is known besides the evidence.

    Attributes
    ----------
    at_us : int
    last_row_us : int
        The event time of the newest row, to the end of its pane; -1 if it is not known.
    alarm : int or None
        Number of the declared alarm that is open.
    annotations : sequence of (int, str)
        Their times in microseconds, and texts.
    threshold, cost_fp, cost_fn : float or None
        Declared ones.
    margin : float
    no_base : str
        Why there is no base, where there is no evidence.
    again_us : int or None
        When to look for a base again.
    labelled : float
        The share of labels that are in, since the base.
    projected : Interval or None
        Where it is too early: what the headline is projected to be since the base.
    """

    at_us: int
    last_row_us: int = -1
    alarm: int | None = None
    annotations: Sequence[tuple[int, str]] = ()
    threshold: float | None = None
    cost_fp: float | None = None
    cost_fn: float | None = None
    margin: float = MARGIN
    no_base: str = ""
    again_us: int | None = None
    labelled: float = math.nan
    projected: Interval | None = None


class _Call(NamedTuple):
    """What evidence says, and where the search finds it; no quality if nothing is called."""

    quality: Quality | None
    change: Change | None
    is_called: bool

    @property
    def now(self) -> Beginning | None:
        """The beginning of what lasts until now."""
        if self.change is None:
            return None
        return self.change.returned or self.change.since


def decide(evidence: Evidence | None, panes: Sequence[Pane], asked: Question) -> Verdict:
    """Return the verdict on a stream.

    Parameters
    ----------
    evidence : Evidence or None
        None without a base.
    panes : sequence of Pane
        All that are kept, oldest first.
    asked : Question

    Notes
    -----
    O(rows of the search), and a merge of each side: O(S log S) for S distinct scores.
    """
    if evidence is None:
        return _without_base(panes, asked)
    call = _call(evidence, asked)
    moved = moved_of(evidence)
    now = cases_of_now(evidence, panes, call.now)
    agreed = _agreed(evidence, now, call, asked)
    if agreed.change is not call.change:
        now = cases_of_now(evidence, panes, agreed.now)
    has_moved = call.quality in {"worse", "better"} and agreed.quality is None
    call = agreed
    figures = figures_of(evidence, now.states, asked.threshold, (asked.cost_fp, asked.cost_fn))
    excluded = math.nan if call.quality else excluded_fall(evidence, now, figures)
    quality = call.quality or _unchanged(evidence, excluded, asked.margin)
    projected, until_us = None, _valid_until_us(evidence, asked)
    if quality == "immature":
        projected = _projected(asked)
        until_us = min(until_us, asked.at_us + HOUR_US)
    verdict = Verdict(
        quality=quality,
        at=to_datetime(asked.at_us),
        valid_until=to_datetime(until_us),
        sentence="",
        flow=_flow(evidence, moved, asked),
        figures=figures,
        since=None if call.change is None else since_of(call.change.since, asked.annotations),
        returned=_returned(call, asked),
        because=_because(evidence, panes, now, call, figures),
        first=first_of(moved),
        moved=moved,
        alarm=asked.alarm,
        base=_base(evidence),
        excluded=excluded,
        projected=projected,
        margin=asked.margin,
        could_be_wrong=_doubts(
            evidence, call, moved, has_moved=has_moved, has_weights=now.has_weights
        ),
    )
    return _told(verdict, asked, is_called=call.is_called)


def _told(verdict: Verdict, asked: Question, *, is_called: bool) -> Verdict:
    """Return a verdict with its words."""
    sentence, line = (
        words_of(
            verdict,
            is_called=is_called,
            labelled=asked.labelled,
            reason=asked.no_base,
            last_row=to_datetime(asked.last_row_us),
        )
        for words_of in (sentence_of, happened_of)
    )
    return replace(verdict, sentence=sentence, happened=line)


def _because(
    evidence: Evidence,
    panes: Sequence[Pane],
    now: Now,
    call: _Call,
    figures: Sequence[VerdictFigure],
) -> tuple[Because, ...]:
    if call.quality != "worse":
        return ()
    # A share is one of the headline's fall: there is none where that has not fallen.
    fell = bool(figures) and figures[0].difference.estimate < 0
    return because_of(evidence, panes, now, figures[0].prevalence if fell else None)


def _without_base(panes: Sequence[Pane], asked: Question) -> Verdict:
    predictions = sum(each.predictions for each in panes)
    has_labels = any(each.state.total for each in panes)
    projected = _projected(asked) if asked.alarm is None else None
    again_us = asked.at_us + HOUR_US
    if projected is None:
        again_us = max(asked.again_us or 0, again_us)
    verdict = Verdict(
        quality="immature" if asked.alarm is None else "worse",
        at=to_datetime(asked.at_us),
        valid_until=to_datetime(again_us),
        sentence="",
        flow="no_labels" if predictions and not has_labels else "ok",
        alarm=asked.alarm,
        projected=projected,
        margin=asked.margin,
    )
    return _told(verdict, asked, is_called=False)


def _projected(asked: Question) -> Interval | None:
    """Return the projected headline; None without limits."""
    found = asked.projected
    return None if found is None or found.reason is not None else found


def _call(evidence: Evidence, asked: Question) -> _Call:
    """Return what is called now."""
    worse_us, better_us = (evidence.last_called_us(*names) for names in (_WORSE, _BETTER))
    has_alarm = asked.alarm is not None
    if max(worse_us, better_us) < 0:
        return _Call("worse" if has_alarm else None, None, is_called=False)
    change = _change(evidence, max(worse_us, better_us))
    is_worse = worse_us >= better_us
    quality: Quality = "worse" if is_worse or has_alarm else "better"
    if change is None or change.returned is None:
        return _Call(quality, change, is_called=True)
    if not _is_back(evidence, change.returned):
        return _Call(quality, change._replace(returned=None), is_called=True)
    if has_alarm:
        return _Call("worse", change, is_called=True)
    is_recent = asked.at_us - change.returned.latest_us <= RECOVERED_FOR_US
    if is_worse and is_recent:
        return _Call("recovered", change, is_called=True)
    return _Call(None, None, is_called=False)


def _agreed(evidence: Evidence, now: Now, call: _Call, asked: Question) -> _Call:
    """Return the call with which figures agree: it, or the other way if that was called too."""
    if call.quality not in {"worse", "better"} or asked.alarm is not None:
        return call
    ways: dict[Quality, tuple[str, ...]] = {"worse": _WORSE, "better": _BETTER}
    for quality in sorted(ways, key=lambda each: each != call.quality):
        called = evidence.last_called_us(*ways[quality]) >= 0
        if called and is_order_changed(evidence, now, quality):
            return call._replace(quality=quality)
    return _Call(None, None, is_called=False)


def _change(evidence: Evidence, called_us: int) -> Change | None:
    """Return the change that was called: it began before the call, whatever else is found."""
    base, steps = base_steps(evidence, "order"), evidence.levels.sums("order")
    while True:
        change = find_change(base, steps)
        if change is None or change.returned is None or change.since.likeliest_us < called_us:
            return change
        steps = steps.part(steps.ends_us <= change.since.likeliest_us)


def _is_back(evidence: Evidence, returned: Beginning) -> bool:
    """Return whether the placements of both classes are back within the tolerance."""
    steps = evidence.levels.sums("order")
    since = steps.part(steps.starts_us >= returned.latest_us)
    counts, totals, squares = (each.sum(axis=1) for each in since.sums)
    if not (counts >= MIN_CASES).all():
        return False
    means = totals / counts
    errors = ((squares / counts - means**2).clip(0) / counts) ** 0.5
    before, known = evidence.frozen.means[2:4], evidence.frozen.errors[2:4]
    reach = STANDARD_ERRORS * (errors**2 + known**2) ** 0.5 + TOLERANCE
    return bool((means >= before - reach).all())


def _unchanged(evidence: Evidence, excluded: float, margin: float) -> Quality:
    if evidence.is_early:
        return "immature"
    return "steady" if excluded < margin else "unsure"


def _flow(evidence: Evidence, moved: Sequence[Moved], asked: Question) -> Flow:
    share = next((each for each in moved if each.name == "labelled_share"), None)
    if asked.last_row_us >= 0 and asked.at_us >= _silent_from_us(evidence, asked):
        return "silent"
    if share is None or share.now >= share.before:
        return "ok"
    return "no_labels" if share.now < share.before / 10 else "late"


def _silent_from_us(evidence: Evidence, asked: Question) -> int:
    return asked.last_row_us + max(2 * evidence.longest_gap_us, HOUR_US)


def _valid_until_us(evidence: Evidence, asked: Question) -> int:
    """Return when the next step closes, or the stream is silent, whichever is first."""
    step_us = evidence.step_us
    found = (asked.at_us // step_us + 1) * step_us
    silent_us = _silent_from_us(evidence, asked)
    return min(found, silent_us) if asked.at_us < silent_us else found


def _returned(call: _Call, asked: Question) -> Since | None:
    if call.change is None or call.change.returned is None:
        return None
    return since_of(call.change.returned, asked.annotations)


def _base(evidence: Evidence) -> Base:
    counts = evidence.base.counts
    return Base(
        to_datetime(evidence.base.start_us),
        to_datetime(evidence.base.end_us),
        counts.P,
        counts.N,
        evidence.is_declared,
    )


def _doubts(
    evidence: Evidence,
    call: _Call,
    moved: Sequence[Moved],
    *,
    has_moved: bool,
    has_weights: bool,
) -> tuple[str, ...]:
    """Return at most two reasons why it could be wrong, the gravest first."""
    found = []
    if has_moved:
        found.append(
            "scores are no longer comparable with the base's, as after a calibration: accept what "
            "is now as the new base, so that a later change is seen"
        )
    if has_weights:
        found.append(
            "panes with weights are left out of the evidence, which counts cases; log the cases "
            "of a random sample without weights in a stream of their own"
        )
    if any(each.name == "labelled_share" for each in moved):
        found.append(
            "the share of predictions with a label changed, so the labelled cases may be others; "
            "compare the coverage by score, and where labels come from"
        )
    found += doubts(
        evidence.levels.sums("order"), call.change, base_start_us=evidence.base.start_us
    )
    return tuple(found[:MAX_DOUBTS])


def check_costs_known(threshold: float | None, cost_fp: Any, cost_fn: Any) -> None:
    """Refuse costs of which the expected cost cannot be computed."""
    given = {"threshold": threshold, "cost_fp": cost_fp, "cost_fn": cost_fn}
    missing = [name for name, value in given.items() if value is None]
    if missing and missing != ["cost_fp", "cost_fn"] and len(missing) < len(given):
        field = next(name for name in ("cost_fp", "cost_fn") if name not in missing)
        message = f"{field} needs {' and '.join(missing)} for the expected cost: pass all three"
        raise InvalidInputError(message, field=field)


def checked_margin(margin: float) -> float:
    """Return the margin of steady, or refuse it."""
    number = real(margin, "margin")
    if not 0 < number < 1:
        raise InvalidInputError(
            f"margin must be between 0 and 1, got {shown(margin)}", field="margin"
        )
    return number
