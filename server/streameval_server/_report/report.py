"""GetReport: one stream as an HTML file that opens without a server and prints.

It has no script and loads nothing; its own policy forbids both, so that a hostile name could not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval import __version__
from streameval.v1 import query_pb2
from streameval_server._queries.metrics import checked_level
from streameval_server._queries.selection import HalfLife, Selection, parse_selection
from streameval_server._report import sections, words
from streameval_server._report.assumptions import assumptions, settings_words
from streameval_server._report.contents import Contents, contents
from streameval_server._report.markup import Markup, table, tag
from streameval_server._report.projected import projected
from streameval_server._report.style import STYLE

if TYPE_CHECKING:
    from streameval_server._queries.query_engine import QueryEngine

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """A checked GetReportRequest. Equal requests have one answer."""

    selection: Selection
    level: float


def parse_report_request(request: query_pb2.GetReportRequest) -> ReportRequest:
    """Check a request.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT with the field at fault.
    """
    return ReportRequest(parse_selection(request.selection), checked_level(request.level))


def report(engine: QueryEngine, request: ReportRequest) -> query_pb2.GetReportResponse:
    """Return the report.

    Raises
    ------
    RequestError
        As GetSnapshot, GetCurve and RankSegments.
    """
    found = contents(engine, request.selection, request.level)
    return query_pb2.GetReportResponse(
        revision=found.snapshot.revision, html=document(found, request)
    )


def document(found: Contents, request: ReportRequest) -> str:
    """Return the whole file."""
    name = found.stream.name
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("title", f"{name}: report"),
        tag("style", Markup(STYLE)),
    )
    snapshot = found.snapshot
    warnings = [tag("li", each) for each in snapshot.warnings]
    body = tag(
        "body",
        tag("h1", name),
        tag("p", _about(found, request), class_="about"),
        sections.figures(found),
        tag("ul", *warnings, class_="warnings") if warnings else None,
        sections.alarms(found),
        projected(found),
        sections.over_time(found),
        sections.segments(found),
        sections.curves(found),
        sections.threshold(found),
        sections.calibration(found),
        sections.scores(found),
        _assumed(found, request.level),
        sections.steps(found),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _about(found: Contents, request: ReportRequest) -> str:
    """Return what is covered, and when and by what it was written."""
    snapshot = found.snapshot
    covered = words.period(snapshot.window) if snapshot.HasField("window") else "All time"
    if isinstance(request.selection.span, HalfLife):
        covered += (
            f", weighted by age with a half-life of "
            f"{request.selection.span.half_life_us / 3.6e9:g} h"
        )
    if snapshot.HasField("segment"):
        covered += f"; {snapshot.segment.key} = {snapshot.segment.value}"
    return (
        f"{covered}. Written {words.moment(found.now.end_time)} UTC at revision "
        f"{snapshot.revision} by streameval {__version__}."
    )


def _assumed(found: Contents, level: float) -> Markup:
    return tag(
        "section",
        tag("h2", "What these figures assume"),
        tag("ul", *(tag("li", each) for each in assumptions(found, level))),
        table(
            "The stream's settings", [("Setting", False), ("Value", False)], settings_words(found)
        ),
    )
