"""``streameval query --by``: segments as the page ranks them."""

from __future__ import annotations

import math
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
    from datetime import datetime

    from streameval.client import RankedSegment, SegmentRanking, Stream
    from streameval.client._wire.selection import Window

METRIC = "auc_pr"
MIN_REFERENCES = 10
"""Positives and negatives of a segment; smaller ones are left out, as on the page."""


class SegmentReport(NamedTuple):
    """What a server says of a stream's segments: the ranking, and all cases."""

    ranking: SegmentRanking
    cases: int


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
        found = read_segments(client.stream(stream), key, span)
    if as_json:
        print_json(_plain(stream, key, found))
        return
    covers = "" if window is None else f", the last {window}"
    ranking = found.ranking
    at = "" if ranking.prevalence is None else f" at prevalence {ranking.prevalence:.4g}"
    heading = f"{stream}{covers} at revision {ranking.revision}: {title_of(METRIC)} by {key}{at}"
    say(f"{heading}, worst first (95 % intervals)")
    header = [key, title_of(METRIC), "minus the rest's", "p", "cases", "share"]
    cells = [_cells(each, found.cases) for each in ranking.segments]
    say(Table("", header, cells).as_text())
    if ranking.num_left_out:
        out.print(
            f"{ranking.num_left_out:,} with fewer than {MIN_REFERENCES} positives or negatives "
            "are left out",
            soft_wrap=True,
        )
    for warning in ranking.warnings:
        say(f"note: {warning}")


def read_segments(
    target: Stream,
    key: str,
    window: Window,
    *,
    min_references: int = MIN_REFERENCES,
) -> SegmentReport:
    """Ask for the ranking, and for the cases of its window."""
    ranking = target.rank_segments(key, metric=METRIC, window=window, min_references=min_references)
    whole = target.snapshot(window=ranking.window, metrics=["prevalence"])
    return SegmentReport(ranking, whole.num_positive_ref + whole.num_negative_ref)


def _cells(each: RankedSegment, cases: int) -> list[str]:
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
    ]


def _share(each: RankedSegment, cases: int) -> float:
    """Return a segment's share of all cases, which it is counted among."""
    size = each.num_positive_ref + each.num_negative_ref
    return size / max(cases, size)  # cases may have left the window since the ranking


def _name(value: str) -> str:
    return SHOWN_VALUES.get(value) or one_line(value)


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
            }
            for each in ranking.segments
        ],
        "warnings": list(ranking.warnings),
    }


def _span(span: tuple[datetime, datetime]) -> list[str]:
    return [each.isoformat() for each in span]
