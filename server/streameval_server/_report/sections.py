"""The sections of a report. Each cell of a figure has its value with all digits, `data-value`."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import zip_longest
from typing import TYPE_CHECKING

from streameval.statistics import BY_NAME, HEADLINE
from streameval_server._report import words
from streameval_server._report.charts import (
    UNIT,
    Plot,
    min_precision,
    number,
    pr_points,
    short_percent,
    ticks,
)
from streameval_server._report.markup import Markup, table, tag
from streameval_server._report.pieces import cell, figured, metric_cell, section

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from streameval.v1 import alarm_pb2, query_pb2, types_pb2
    from streameval_server._report.contents import Contents

MAX_SEGMENTS = 40
SQUARE, WIDE, LOW = (520, 400), (1_060, 260), (1_060, 260)
_DAY_S = 86_400


def figures(found: Contents) -> Markup:
    """Return the row of figures: metrics with their intervals, cases, labels."""
    snapshot = found.snapshot
    named = {each.name: each for each in snapshot.metrics}
    first = [named[HEADLINE], *(each for each in snapshot.metrics if each.name != HEADLINE)]
    cells = [
        metric_cell(each, is_lead=each.name == HEADLINE)
        for each in first
        if not BY_NAME[each.name].is_at_threshold
    ]
    positives, negatives = snapshot.num_positive_ref, snapshot.num_negative_ref
    cells.append(
        cell(
            "Labelled cases",
            words.count(positives + negatives),
            f"{words.count(positives)} positive, {words.count(negatives)} negative",
        )
    )
    if snapshot.HasField("coverage"):
        coverage = snapshot.coverage
        cells.append(
            cell(
                "Labels",
                words.percent(coverage.labelled_share),
                f"{words.count(coverage.labelled)} of {words.count(coverage.predictions)}",
            )
        )
    return tag("dl", *cells, class_="figures")


def alarms(found: Contents) -> Markup | None:
    """Return the open alarms and the newest acknowledged ones; None where none are declared."""
    status = found.alarms
    if status is None:
        return None
    is_open = [each for each in status.alarms if not each.HasField("acknowledged_at")]
    if status.waits_for:
        state = f"No alarm can be raised yet: {status.waits_for}."
    else:
        state = f"{len(is_open) or 'No'} open {'alarm' if len(is_open) == 1 else 'alarms'}."
    sentences = [tag("li", _alarm(each)) for each in reversed(status.alarms)]
    return section("Alarms", tag("p", state), tag("ul", *sentences) if sentences else None)


def _alarm(alarm: alarm_pb2.Alarm) -> str:
    value = alarm.value
    text = (
        f"{alarm.changed} {alarm.direction} from {words.figure(alarm.reference)} to "
        f"{words.figure(value.estimate)} ({words.figure(value.lower)} to "
        f"{words.figure(value.upper)}) "
        f"since about {words.moment(alarm.since)} UTC"
    )
    if alarm.segments:
        names = [f"{each.segment.key}={each.segment.value}" for each in alarm.segments]
        text += f"; {words.listed(names)} {'explains' if len(names) == 1 else 'explain'} it"
    if alarm.HasField("acknowledged_at"):
        text += f"; acknowledged {words.moment(alarm.acknowledged_at)} UTC"
    return f"{text[0].upper()}{text[1:]}."


def over_time(found: Contents) -> Markup | None:
    """Return AUC-PR in steps of time, with its intervals; None for fewer than two."""
    title = words.title_of(HEADLINE)
    rows = [row for row in found.rows if row.metrics[0].HasField("value")]
    if len(rows) < 2:
        return None
    middles = [_middle(row.window) for row in rows]
    bounds = [
        (middle, row.metrics[0].interval)
        for middle, row in zip(middles, rows, strict=True)
        if row.metrics[0].interval.HasField("lower")
    ]
    values = [row.metrics[0].value for row in rows]
    low = min([*values, *(each.lower for _, each in bounds)])
    high = max([*values, *(each.upper for _, each in bounds)])
    first, last = rows[0].window.start_time.seconds, rows[-1].window.end_time.seconds
    plot = Plot(*WIDE, x=(first, last), y=(low, high))
    hours = [first + (last - first) * part / 6 for part in range(7)]
    band = [(x, each.upper) for x, each in bounds]
    band += [(x, each.lower) for x, each in reversed(bounds)]
    points = list(zip(middles, values, strict=True))
    drawn = plot.drawn(
        f"{title} in {len(rows)} steps of time",
        plot.axes(("Time (UTC)", title), (hours, ticks(low, high)), (_clock(last - first), number)),
        plot.area(band, "band"),
        plot.line(points, "line a"),
        plot.dots(points),
    )
    return section(
        f"{title} over time",
        figured("The area is the interval of each step; the steps are listed at the end.", drawn),
    )


def steps(found: Contents) -> Markup | None:
    """Return the table behind `over_time`; None without steps."""
    if not found.rows:
        return None
    title = words.title_of(HEADLINE)
    rows: list[list[object]] = []
    for row in reversed(found.rows):
        (metric,) = row.metrics
        has_value = metric.HasField("value")
        rows.append(
            [
                tag("td", words.period(row.window).removesuffix(" UTC"), class_="step"),
                tag(
                    "td",
                    words.figure(metric.value)
                    if has_value
                    else words.reason(metric.undefined_reason),
                    class_="number",
                    data_step=row.window.start_time.ToJsonString(),
                    data_value=repr(metric.value) if has_value else None,
                ),
                words.limits(HEADLINE, metric.interval)
                if metric.interval.HasField("lower")
                else words.NOTHING,
                words.count(row.num_positive_ref),
                words.count(row.num_negative_ref),
                words.percent(row.coverage.labelled_share)
                if row.HasField("coverage")
                else words.NOTHING,
            ]
        )
    titles = (title, "Interval", "Positives", "Negatives", "Labelled")
    heads = [("Step (UTC)", False), *((each, True) for each in titles)]
    return section(
        f"The steps of {title}",
        tag(
            "div",
            table("The newest first", heads, rows),
            class_="scroll",
            tabindex=0,
            role="region",
            aria_label="Steps",
        ),
    )


def _middle(window: types_pb2.TimeRange) -> float:
    return (window.start_time.seconds + window.end_time.seconds) / 2


def _clock(length_s: float) -> Callable[[float], str]:
    """Return what writes a time on an axis of this length."""
    form = "%H:%M" if length_s <= _DAY_S else "%b %d, %H:%M" if length_s <= 10 * _DAY_S else "%b %d"
    return lambda seconds: f"{datetime.fromtimestamp(seconds, UTC):{form}}"


def curves(found: Contents) -> Markup | None:
    """Return the PR and the ROC curve; None without both classes."""
    if not found.has_both_classes:
        return None
    fp, tp = _counts(found.curve.curve)
    hull_fp, hull_tp = _counts(found.snapshot.hull)
    positives, negatives = tp[-1], fp[-1]
    chance = positives / (positives + negatives)
    plot = Plot(*SQUARE)
    region = [(0.0, 0.0), *min_precision(chance), (1.0, 0.0)]
    pr = plot.drawn(
        f"Precision against recall; prevalence {words.percent(chance)}",
        plot.axes(("Recall", "Precision"), (UNIT, UNIT), (number, number)),
        plot.area(region, "region"),
        plot.line([(0.0, chance), (1.0, chance)], "chance"),
        plot.line(pr_points(hull_fp, hull_tp, positives), "thin b"),
        plot.line(pr_points(fp, tp, positives), "line a"),
    )
    roc = plot.drawn(
        "True positive rate against false positive rate",
        plot.axes(("False positive rate", "True positive rate"), (UNIT, UNIT), (number, number)),
        plot.line([(0.0, 0.0), (1.0, 1.0)], "chance"),
        plot.line(_roc(hull_fp, hull_tp), "thin b"),
        plot.line(_roc(fp, tp), "line a"),
    )
    return section(
        "Curves",
        tag(
            "div",
            figured(
                "Precision and recall: measured (blue), achievable (orange), at random (dashed), "
                "and the region that no ranking reaches",
                pr,
            ),
            figured("ROC: measured (blue), its hull (orange), at random (dashed)", roc),
            class_="pair",
        ),
    )


def _counts(curve: types_pb2.Curve) -> tuple[Sequence[float], Sequence[float]]:
    """Return the false and true positives of a curve: what they weigh where cases have weights."""
    return (curve.weighted_fp, curve.weighted_tp) if curve.weighted_tp else (curve.fp, curve.tp)


def _roc(fp: Sequence[float], tp: Sequence[float]) -> list[tuple[float, float]]:
    return [(alarms / fp[-1], hits / tp[-1]) for alarms, hits in zip(fp, tp, strict=True)]


def threshold(found: Contents) -> Markup | None:
    """Return the rates, and the cost, at the declared threshold; None without one."""
    snapshot = found.snapshot
    if not snapshot.HasField("operating_point"):
        return None
    point = snapshot.operating_point
    shown = [each for each in snapshot.metrics if BY_NAME[each.name].is_at_threshold]
    counts = (
        f"{words.count(point.tp)} of {words.count(point.tp + point.fn)} positives are called "
        f"positive, "
        f"and {words.count(point.fp)} of {words.count(point.fp + point.tn)} negatives."
    )
    return section(
        f"At the declared threshold {words.score(point.threshold)}",
        tag("p", counts),
        tag("dl", *map(metric_cell, shown), class_="figures"),
    )


def calibration(found: Contents) -> Markup | None:
    """Return observed rates against mean scores; None off the probability scale."""
    answer = found.reliability
    if answer is None or not answer.bins:
        return None
    plot = Plot(*SQUARE)
    points = [(each.mean_score, each.observed_rate) for each in answer.bins]
    whiskers = [
        plot.line(
            [(each.mean_score, each.interval.lower), (each.mean_score, each.interval.upper)],
            "thin a",
        )
        for each in answer.bins
        if each.interval.HasField("lower")
    ]
    drawn = plot.drawn(
        "Observed rate against mean score",
        plot.axes(("Mean score", "Observed rate"), (UNIT, UNIT), (number, number)),
        plot.line([(0.0, 0.0), (1.0, 1.0)], "chance"),
        *whiskers,
        plot.line(points, "thin a"),
        plot.dots(points, 4),
    )
    cells = tag("dl", *(metric_cell(each) for each in answer.metrics), class_="figures")
    return section(
        "Calibration",
        tag(
            "div", cells, figured("Calibrated scores are on the dashed line", drawn), class_="pair"
        ),
    )


def scores(found: Contents) -> Markup | None:
    """Return the scores of each class, as shares of it; None without scored cases."""
    answer = found.histogram
    edges = list(answer.edges)
    if not edges:
        return None
    outlines = {
        kind: _outline(edges, list(counts))
        for kind, counts in (
            ("negative", answer.weighted_negatives or answer.negatives),
            ("positive", answer.weighted_positives or answer.positives),
        )
    }
    high = max(y for outline in outlines.values() for _, y in outline) or 1.0
    plot = Plot(*LOW, x=(edges[0], edges[-1]), y=(0.0, high))
    mark = found.snapshot.operating_point.threshold
    has_mark = found.snapshot.HasField("operating_point") and edges[0] <= mark <= edges[-1]
    drawn = plot.drawn(
        "Histogram of the scores of each class",
        plot.axes(
            ("Score", "Share of class"),
            (ticks(edges[0], edges[-1], 10), ticks(0.0, high, 5)),
            (number, short_percent),
        ),
        *(plot.area(outline, kind) for kind, outline in outlines.items()),
        plot.upright(mark) if has_mark else None,
    )
    caption = "Positives (orange) and negatives (grey); each class adds up to 100 %"
    if has_mark:
        caption += "; the line is the declared threshold"
    return section("Scores by class", figured(caption, drawn))


def _outline(edges: list[float], counts: list[float]) -> list[tuple[float, float]]:
    total = sum(counts) or 1
    points = [(edges[0], 0.0)]
    for left, right, each in zip(edges, edges[1:], counts, strict=False):
        points += [(left, each / total), (right, each / total)]
    return [*points, (edges[-1], 0.0)]


def segments(found: Contents) -> Markup | None:
    """Return the segments, the worst first; None without declared keys."""
    if found.ranking is None:
        return None
    ranked = found.ranking.segments
    title = "Segments, the worst first"
    if not ranked:
        return section(
            title, tag("p", "No segment has labelled cases in this window.", class_="note")
        )
    left_out = len(ranked) - MAX_SEGMENTS
    note = f"The first {MAX_SEGMENTS} of {len(ranked)}." if left_out > 0 else None
    heads = [("Segment", False)]
    heads += [
        (each, True)
        for each in (
            words.title_of(HEADLINE),
            "Difference from the rest",
            "Interval",
            "p",
            "Cases",
            "Labelled",
        )
    ]
    heads.append(("Lower since about", False))
    return section(
        title,
        tag("p", note, class_="note") if note else None,
        tag(
            "div",
            table(
                "At the window's prevalence",
                heads,
                _segment_rows(ranked[:MAX_SEGMENTS], found.falls),
            ),
            class_="scroll",
            tabindex=0,
            role="region",
            aria_label="Segments",
        ),
    )


def _segment_rows(
    ranked: Sequence[query_pb2.RankedSegment], falls: Sequence[query_pb2.Fall | None]
) -> Iterator[list[object]]:
    for each, fall in zip_longest(ranked, falls[: len(ranked)]):
        value = each.segment.value
        shown = "(no value)" if value == "" else "(other values)" if value == "__other__" else value
        limits = each.difference.interval
        yield [
            tag("th", f"{each.segment.key} = {shown}", scope="row"),
            tag(
                "td",
                words.figure(each.value.value)
                if each.value.HasField("value")
                else words.reason(each.value.undefined_reason),
                class_="number",
                data_segment=f"{each.segment.key}:{value}",
                data_value=repr(each.value.value) if each.value.HasField("value") else None,
            ),
            words.signed(each.difference.value)
            if each.difference.HasField("value")
            else words.NOTHING,
            f"{words.signed(limits.lower)} to {words.signed(limits.upper)}"
            if limits.HasField("lower")
            else words.NOTHING,
            words.p_value(each.p_value) if each.HasField("p_value") else words.NOTHING,
            words.count(each.num_positive_ref + each.num_negative_ref),
            words.percent(each.coverage.labelled_share)
            if each.HasField("coverage")
            else words.NOTHING,
            "" if fall is None else _fall_words(fall),
        ]


def _fall_words(fall: query_pb2.Fall) -> str:
    """Return when a segment fell, most likely, and the range in which it did."""
    first, last = fall.since.start_time, fall.since.end_time
    since = words.moment(fall.step.start_time)
    return since if first == last else f"{since} ({words.moment(first)} to {words.moment(last)})"
