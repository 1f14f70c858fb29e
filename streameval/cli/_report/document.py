"""The document: one stream as an HTML file that opens without a server and prints.

It has no script and loads nothing; its own policy forbids both, so that a hostile name could not.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from streameval import __version__
from streameval.cli._report import figures, sections, words
from streameval.cli._report.assumptions import assumptions, settings_words
from streameval.cli._report.conclusion import conclusion
from streameval.cli._report.markup import Markup, table, tag
from streameval.cli._report.style import STYLE

if TYPE_CHECKING:
    from streameval.cli._report.answers import Answers

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def document(found: Answers) -> str:
    """Return the whole file."""
    name = found.name
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("title", f"{name}: report"),
        tag("style", Markup(STYLE)),
    )
    body = tag("body", _first_page(found), _annex(found))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _first_page(found: Answers) -> Markup:
    """Return what a reader needs who reads one page: the conclusion, the figures, their course."""
    return tag(
        "div",
        tag("h1", found.name),
        tag("p", _about(found), class_="about"),
        conclusion(found.verdict, found.snapshot.segment),
        sections.open_alarms(found),
        figures.headline(found.snapshot),
        sections.over_time(found),
        sections.worst_segments(found),
        class_="first",
    )


def _annex(found: Answers) -> Markup:
    warnings = [tag("li", each) for each in found.snapshot.warnings]
    return tag(
        "div",
        tag("h2", "Annex", class_="title"),
        tag("ul", *warnings, class_="warnings") if warnings else None,
        sections.projection(found),
        sections.segments(found),
        sections.curves(found),
        sections.threshold(found),
        sections.calibration(found),
        sections.scores(found),
        sections.past_alarms(found),
        _assumed(found),
        sections.steps(found),
        class_="annex",
    )


def _about(found: Answers) -> str:
    """Return what is covered, and when and by what it was written."""
    snapshot = found.snapshot
    covered = words.period(snapshot.window) if snapshot.window else "All time"
    if snapshot.segment is not None:
        covered += "; {} = {}".format(*snapshot.segment)
    first, last = found.revisions
    revisions = f"revision {first}"
    if first < last:
        revisions = f"revisions {first} to {last}, as rows arrived meanwhile,"
    return (
        f"{covered}. Written {words.moment(datetime.now(UTC))} UTC at {revisions} "
        f"by streameval {__version__}."
    )


def _assumed(found: Answers) -> Markup:
    return tag(
        "section",
        tag("h2", "What these figures assume"),
        tag("ul", *(tag("li", each) for each in assumptions(found))),
        table(
            "The stream's settings", [("Setting", False), ("Value", False)], settings_words(found)
        ),
    )
