"""The sections of a report; each is None where there is nothing to say."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from streameval._common.spans import SHOWN_VALUES
from streameval._metric_registry import HEADLINE, reason_of, title_of
from streameval._uncertainty.compare import what_it_lacks
from streameval.cli._report import charts, figures, words
from streameval.cli._report.markup import Markup, joined, table, tag
from streameval.display import PrecisionRecallDisplay, RocCurveDisplay

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streameval._snapshot import Snapshot
    from streameval.cli._report.answers import Answers
    from streameval.client import RankedSegment, StreamAlarm

MAX_SEGMENTS = 40
MAX_WORST = 3
"""Segments on the first page."""
SURE_P = 0.05
"""P-values are adjusted for the number of segments."""
_TITLE = title_of(HEADLINE)


def open_alarms(found: Answers) -> Markup | None:
    """Return the open alarms, or that there are none; None for streams that declare none."""
    status = found.alarms
    if status is None:
        return None
    sentences = [tag("li", _alarm(each)) for each in reversed(status.alarms) if each.is_open]
    if status.waits_for:
        state = f"No alarm can be raised yet: {status.waits_for}."
    else:
        state = f"{len(sentences) or 'No'} open {'alarm' if len(sentences) == 1 else 'alarms'}."
    state = " ".join((state, *(f"{each[0].upper()}{each[1:]}." for each in status.warnings)))
    return _section("Alarms", tag("p", state), tag("ul", *sentences) if sentences else None)


def past_alarms(found: Answers) -> Markup | None:
    """Return the newest alarms that are acknowledged, or that history would have raised."""
    past = [each for each in found.alarms.alarms if not each.is_open] if found.alarms else []
    if not past:
        return None
    title = "Past alarms" if any(each.is_past for each in past) else "Acknowledged alarms"
    return _section(title, tag("ul", *(tag("li", _alarm(each)) for each in past[::-1])))


def _alarm(alarm: StreamAlarm) -> str:
    lower, upper = map(words.figure, alarm.value)
    text = (
        f"{alarm.changed} {alarm.direction} from {words.figure(alarm.reference)} to "
        f"{words.figure(alarm.value.estimate)} ({lower} to {upper}) "
        f"since about {words.moment(alarm.since)} UTC"
    )
    if alarm.segments:
        names = [each.segment for each in alarm.segments]
        text += f"; {words.listed(names)} {'explains' if len(names) == 1 else 'explain'} it"
    if alarm.is_past:
        at = words.moment(alarm.raised_at)
        text += f"; would have rung {at} UTC, if labels had come in time"
    if alarm.acknowledged_at is not None:
        text += f"; acknowledged {words.moment(alarm.acknowledged_at)} UTC"
    return f"{text[0].upper()}{text[1:]}."


def projection(found: Answers) -> Markup | None:
    """Return the projected figures and what they rest on."""
    projected = found.snapshot.projection
    if projected is None:
        return None
    assumed = f"Assumed: {projected.assumption}. Limits hold whatever the missing labels are."
    return _section("Once the labels are in", figures.projection(projected), tag("p", assumed))


def over_time(found: Answers) -> Markup | None:
    """Return the headline in steps of time, with its intervals."""
    rows = [row for row in found.rows if not math.isnan(row.figures[HEADLINE])]
    if len(rows) < 2:
        return None
    alt = f"{_TITLE} in {len(rows)} steps of time"
    caption = "The area is the interval of each step; the steps are listed at the end."
    drawn = charts.picture(alt, charts.WIDE, charts.over_time(rows, found.verdict.since))
    return _section(f"{_TITLE} over time", _figure(caption, drawn))


def steps(found: Answers) -> Markup | None:
    """Return the table behind `over_time`."""
    if not found.rows:
        return None
    titles = (_TITLE, "Interval", "Positives", "Negatives", "Labelled")
    rows = map(_step, reversed(found.rows))
    heads = [("Step (UTC)", False), *((each, True) for each in titles)]
    return _section(f"The steps of {_TITLE}", _scroll("Steps", "The newest first", heads, rows))


def _step(row: Snapshot) -> list[object]:
    assert row.window is not None
    value, interval = row.figures[HEADLINE], row.intervals.get(HEADLINE)
    return [
        tag("td", words.period(row.window).removesuffix(" UTC"), class_="step"),
        _value(value, row.reasons.get(HEADLINE, ""), data_step=row.window[0].isoformat()),
        words.limits(HEADLINE, interval)
        if interval is not None and interval.reason is None
        else words.NOTHING,
        words.count(row.num_positive_ref),
        words.count(row.num_negative_ref),
        words.percent(row.coverage.labelled_share) if row.coverage else words.NOTHING,
    ]


def curves(found: Answers) -> Markup | None:
    """Return the PR and the ROC curve."""
    if not found.has_both_classes:
        return None
    alt = f"Precision against recall; prevalence {words.percent(found.snapshot.prevalence)}"
    pr = charts.picture(alt, charts.SQUARE, charts.curve(PrecisionRecallDisplay, found))
    alt = "True positive rate against false positive rate"
    roc = charts.picture(alt, charts.SQUARE, charts.curve(RocCurveDisplay, found))
    captions = (
        "Precision and recall, and the region that no ranking reaches",
        "ROC and its hull",
    )
    return _section("Curves", tag("div", *map(_figure, captions, (pr, roc)), class_="pair"))


def threshold(found: Answers) -> Markup | None:
    """Return the rates, and the cost, at the declared threshold."""
    point = found.snapshot.operating_point
    if point is None:
        return None
    counts = (
        f"{words.count(point.tp)} of {words.count(point.tp + point.fn)} positives are "
        f"flagged, and {words.count(point.fp)} of {words.count(point.fp + point.tn)} negatives."
    )
    title = f"At the declared threshold {words.score(point.threshold)}"
    return _section(title, tag("p", counts), figures.at_threshold(found.snapshot))


def calibration(found: Answers) -> Markup | None:
    """Return observed rates against mean scores; None off the probability scale."""
    answer = found.reliability
    if answer is None or not len(answer.table.counts):
        return None
    alt = "Observed rate against mean score"
    drawn = charts.picture(alt, charts.SQUARE, charts.reliability(answer))
    caption = "Calibrated scores are on the dotted line"
    parts = figures.calibration(answer), _figure(caption, drawn)
    return _section("Calibration", tag("div", *parts, class_="pair"))


def scores(found: Answers) -> Markup | None:
    """Return the scores of each class, as shares of it."""
    if not found.snapshot.num_scored:
        return None
    alt = "Histogram of the scores of each class"
    drawn = charts.picture(alt, charts.WIDE, charts.scores(found))
    return _section("Scores by class", _figure("Each class adds up to 100 %", drawn))


def segments(found: Answers) -> Markup | None:
    """Return the segments, the worst first; None without declared keys."""
    if found.segments is None:
        return None
    ranking = found.segments.ranking
    ranked, prevalence = ranking.segments, ranking.prevalence
    title = "Segments, the worst first"
    if not ranked:
        nothing = "No segment has labelled cases in this window."
        return _section(title, tag("p", nothing, class_="note"))
    note = None
    if len(ranked) > MAX_SEGMENTS:
        note = tag("p", f"The first {MAX_SEGMENTS} of {len(ranked)}.", class_="note")
    titles = (_TITLE, "Difference from the rest", "Interval", "p", "Cases", "Labelled")
    heads = [("Segment", False), *((each, True) for each in titles)]
    rows = map(_segment, ranked[:MAX_SEGMENTS])
    at = "" if prevalence is None else f"All at a prevalence of {words.percent(prevalence)}"
    return _section(title, note, _scroll("Segments", at, heads, rows))


def worst_segments(found: Answers) -> Markup | None:
    """Return the segments that are worse than the rest, the worst first; None without any."""
    ranked = found.segments.ranking.segments if found.segments is not None else []
    worse = [each for each in ranked if each.upper < 0 and each.p_value < SURE_P][:MAX_WORST]
    if not worse:
        return None
    return _section("Worse than the rest", tag("ul", *(tag("li", _worse(e)) for e in worse)))


def _worse(each: RankedSegment) -> str:
    key, value = each.segment
    limits = f"{words.signed(each.lower)} to {words.signed(each.upper)}"
    return (
        f"{key} = {SHOWN_VALUES.get(value, value)}: {_TITLE} {words.figure(each.value.estimate)}, "
        f"{words.signed(each.difference)} ({limits})"
    )


def _segment(each: RankedSegment) -> list[object]:
    key, value = each.segment
    shown = SHOWN_VALUES.get(value, value)
    has_limits = not math.isnan(each.lower)
    reason = reason_of(each.num_positive_ref, each.num_negative_ref)
    return [
        tag("th", f"{key} = {shown}", scope="row"),
        _value(each.value.estimate, reason, data_segment=f"{key}:{value}"),
        what_it_lacks(each.value, each.reason) or words.signed(each.difference),
        f"{words.signed(each.lower)} to {words.signed(each.upper)}"
        if has_limits
        else words.NOTHING,
        words.NOTHING if math.isnan(each.p_value) else words.p_value(each.p_value),
        words.count(each.num_positive_ref + each.num_negative_ref),
        words.percent(each.coverage.labelled_share) if each.coverage else words.NOTHING,
    ]


def _value(value: float, reason: str, **attributes: str) -> Markup:
    """Return the cell of a value of the headline, or why it has none."""
    if math.isnan(value):
        return tag("td", words.reason(reason), class_="number", **attributes)
    return tag("td", words.figure(value), class_="number", data_value=repr(value), **attributes)


def _scroll(
    name: str, caption: str, heads: list[tuple[str, bool]], rows: Iterable[Iterable[object]]
) -> Markup:
    """Return a table that scrolls where it is wider than the screen."""
    style = {"class_": "scroll", "tabindex": "0", "role": "region", "aria_label": name}
    return tag("div", table(caption, heads, rows), **style)


def _figure(caption: str, drawn: Markup) -> Markup:
    """Return a picture with its caption."""
    return tag("figure", tag("figcaption", caption), drawn)


def _section(title: str, *parts: Markup | None) -> Markup:
    """Return a section with its heading."""
    return tag("section", tag("h2", title), joined(parts))
