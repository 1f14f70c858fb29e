"""``streameval query --by``: segments as the page ranks them, and since when they are lower."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from streameval._common.plain_values import plain
from streameval._common.spans import SHOWN_VALUES, parse_span
from streameval._common.tables import Table
from streameval._metric_registry import title_of
from streameval._uncertainty.compare import what_it_lacks
from streameval.cli._connection import connect
from streameval.cli._errors import one_line
from streameval.cli._output import out, print_json, say

if TYPE_CHECKING:
    from streameval.client import Client, RankedSegment, SegmentRanking, Stream, StreamFall
    from streameval.client._wire.selection import Window

METRIC = "auc_pr"
MIN_REFERENCES = 10
"""Positives and negatives of a segment; smaller ones are left out, as on the page."""

MAX_FALL_SEGMENTS = 6
"""Segments of which it is found since when they are lower: the worst, as on the page."""

_TARGET_STEPS = 24
_MIN_STEP = timedelta(minutes=1)
_STEP_POSITIVES = 20
_SPARSE_STEPS = 6
_MAX_ROUNDS = 4


class SegmentReport(NamedTuple):
    """What a server says of a stream's segments: the ranking, all cases, and a fall of each."""

    ranking: SegmentRanking
    cases: int
    falls: list[StreamFall | None]


def query_by(
    stream: str,
    key: str,
    *,
    window: str | None,
    as_json: bool,
) -> None:
    """Print the segments of a key, the worst first."""
    span = None if window is None else parse_span(window)
    with connect() as client:
        found = read_segments(client, client.stream(stream), key, span)
    if as_json:
        print_json(_plain(stream, key, found))
        return
    covers = "" if window is None else f", the last {window}"
    ranking = found.ranking
    at = "" if ranking.prevalence is None else f" at prevalence {ranking.prevalence:.4g}"
    heading = f"{stream}{covers} at revision {ranking.revision}: {title_of(METRIC)} by {key}{at}"
    say(f"{heading}, worst first (95 % intervals)")
    header = [key, title_of(METRIC), "minus the rest's", "p", "cases", "share", "lower since"]
    cells = [
        _cells(each, fall, found.cases)
        for each, fall in zip(ranking.segments, found.falls, strict=True)
    ]
    say(Table("", header, cells).as_text())
    if ranking.num_left_out:
        out.print(
            f"{ranking.num_left_out:,} with fewer than {MIN_REFERENCES} positives or negatives "
            "are left out",
            soft_wrap=True,
        )
    if len(ranking) > MAX_FALL_SEGMENTS:
        out.print(f"lower since: only for the first {MAX_FALL_SEGMENTS}", soft_wrap=True)
    found_falls = [each for each in found.falls if each is not None]
    cautions = dict.fromkeys(text for each in found_falls for text in each.warnings)
    for warning in (*ranking.warnings, *(f"lower since: {each}" for each in cautions)):
        say(f"note: {warning}")


def read_segments(
    client: Client,
    target: Stream,
    key: str,
    window: Window,
    *,
    min_references: int = MIN_REFERENCES,
) -> SegmentReport:
    """Ask for the ranking, and for steps of its first segments."""
    ranking = target.rank_segments(key, metric=METRIC, window=window, min_references=min_references)
    whole = target.snapshot(window=ranking.window, metrics=["prevalence"])
    falls: list[StreamFall | None] = [None] * len(ranking)
    found = steps(client, target, ranking.window) if ranking.segments else None
    for place, each in enumerate(ranking.segments[:MAX_FALL_SEGMENTS]):
        if found is not None:
            enough = min(_STEP_POSITIVES, each.num_positive_ref // _SPARSE_STEPS)
            falls[place] = target.series(
                *found, segment=each.segment, metrics=[METRIC], min_positives=max(1, enough)
            ).fall
    return SegmentReport(ranking, whole.num_positive_ref + whole.num_negative_ref, falls)


def steps(
    client: Client,
    target: Stream,
    window: tuple[datetime, datetime] | None,
    *,
    segment: tuple[str, str] | None = None,
) -> tuple[datetime, datetime, timedelta] | None:
    """Return a span from the first step with cases on, and its step; None without cases.

    Of all time it is the time that panes are kept.
    """
    if window is None:
        end = datetime.now(UTC)
        window = end - client.get_stream(target.name).settings.retention, end
    start, end = window
    for _ in range(_MAX_ROUNDS):
        step = max((end - start) / _TARGET_STEPS, _MIN_STEP)
        rows = target.series(start, end, step, segment=segment, metrics=["prevalence"])
        first = next((each.window for each in rows if each.num_cases), None)
        if first is None:
            return None
        if first[0] <= start:
            break
        start = first[0]
    return start, end, max((end - start) / _TARGET_STEPS, _MIN_STEP)


def _cells(each: RankedSegment, fall: StreamFall | None, cases: int) -> list[str]:
    size = each.num_positive_ref + each.num_negative_ref
    difference = what_it_lacks(each.value, each.reason)
    if not math.isnan(each.difference):
        limits = "" if math.isnan(each.lower) else f" ({each.lower:+.3f} to {each.upper:+.3f})"
        difference = f"{each.difference:+.3f}{limits}"
    return [
        _name(each.segment[1]),
        each.value.brief(),
        difference,
        "" if math.isnan(each.p_value) else f"{each.p_value:.2g}",
        f"{size:,}",
        f"{100 * _share(each, cases):.1f} %",
        "" if fall is None else _since(fall),
    ]


def _share(each: RankedSegment, cases: int) -> float:
    """Return a segment's share of all cases, which it is counted among."""
    size = each.num_positive_ref + each.num_negative_ref
    return size / max(cases, size)  # cases may have left the window since the ranking


def _name(value: str) -> str:
    return SHOWN_VALUES.get(value) or one_line(value)


def _since(fall: StreamFall) -> str:
    first, last = (f"{each:%Y-%m-%d %H:%M}" for each in fall.since)
    step = f"{fall.step[0]:%Y-%m-%d %H:%M}"
    return f"{step} UTC" if first == last else f"{step} UTC ({first} to {last})"


def _plain(stream: str, key: str, found: SegmentReport) -> dict[str, Any]:
    """Return everything as plain values that JSON can hold; times in ISO 8601."""
    ranking = found.ranking
    return {
        "stream": stream,
        "key": key,
        "metric": METRIC,
        "revision": ranking.revision,
        "window": None if ranking.window is None else _span(ranking.window),
        "prevalence": ranking.prevalence,
        "num_left_out": ranking.num_left_out,
        "segments": [
            {
                "value": each.segment[1],
                METRIC: plain(each.value.estimate),
                "lower": plain(each.value.lower),
                "upper": plain(each.value.upper),
                "difference": plain(each.difference),
                "difference_lower": plain(each.lower),
                "difference_upper": plain(each.upper),
                "p_value": plain(each.p_value),
                "reason": each.reason,
                "num_positive_ref": each.num_positive_ref,
                "num_negative_ref": each.num_negative_ref,
                "share": _share(each, found.cases),
                "fall": fall
                and {
                    "step": _span(fall.step),
                    "since": _span(fall.since),
                    "difference": fall.difference,
                    "p_value": fall.p_value,
                    "warnings": list(fall.warnings),
                },
            }
            for each, fall in zip(ranking.segments, found.falls, strict=True)
        ],
        "warnings": list(ranking.warnings),
    }


def _span(span: tuple[datetime, datetime]) -> list[str]:
    return [each.isoformat() for each in span]
