"""What a report concludes: the verdict's sentence, the change in figures, and who explains it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from streameval._metric_registry import title_of
from streameval.cli._report import words
from streameval.cli._report.markup import Markup, table, tag

if TYPE_CHECKING:
    from streameval._uncertainty.interval import Interval
    from streameval._verdict.verdict import Because, Verdict, VerdictFigure

_BAD = frozenset({"worse", "recovered"})


def conclusion(found: Verdict, segment: tuple[str, str] | None) -> Markup:
    """Return the first section of a report: of the whole stream, whatever segment it is of."""
    kind = "conclusion bad" if found.quality in _BAD else "conclusion"
    whole = "Of the whole stream, and of all time that it keeps." if segment is not None else None
    return tag(
        "section",
        tag("p", found.sentence, class_=kind, data_quality=found.quality),
        tag("p", whole, class_="note") if whole is not None else None,
        _change(found.figures) if found.figures else None,
        tag("ul", *notes, class_="notes") if (notes := _notes(found)) else None,
    )


def _change(figures: tuple[VerdictFigure, ...]) -> Markup:
    heads = [("", False), *((each, True) for each in ("In the base", "Now", "Difference"))]
    return tag("div", table("", heads, map(_row, figures)), class_="change")


def _row(found: VerdictFigure) -> list[object]:
    name = found.metric
    at = (
        "" if found.prevalence is None else f" at a prevalence of {words.percent(found.prevalence)}"
    )
    return [
        tag("th", f"{title_of(name)}{at}", scope="row"),
        _value(name, "before", found.before, words.measured(name, found.before.estimate)),
        _value(name, "now", found.now, words.measured(name, found.now.estimate)),
        _difference(name, found.difference),
    ]


def _value(name: str, side: str, found: Interval, text: str) -> Markup:
    if math.isnan(found.estimate):
        return tag("td", words.NOTHING, class_="number")
    limits = tag("span", words.limits(name, found), class_="more")
    known = {"data_verdict": f"{name} {side}", "data_value": repr(found.estimate)}
    return tag("td", text, " ", limits, class_="number", **known)


def _difference(name: str, found: Interval) -> Markup:
    """Return the cell of a difference; of a share and a cost also as a plain number."""
    if math.isnan(found.estimate):
        return tag("td", words.NOTHING, class_="number")
    limits = f"{words.signed(found.lower)} to {words.signed(found.upper)}"
    known = {"data_verdict": f"{name} difference", "data_value": repr(found.estimate)}
    shown = words.signed(found.estimate), " ", tag("span", limits, class_="more")
    return tag("td", *shown, class_="number", **known)


def _notes(found: Verdict) -> list[Markup]:
    """Return what the conclusion rests on, and why it could be wrong."""
    said = []
    if found.base is not None:
        base = found.base
        chosen = "declared" if base.is_declared else "the earliest whole weeks without a change"
        said.append(f"Base: {words.period((base.start, base.end))}, {chosen}.")
    for name, since in (("Began", found.since), ("Back", found.returned)):
        if since is not None:
            range_ = f"{words.moment(since.earliest)} and {words.moment(since.latest)}"
            said.append(f"{name}: {words.moment(since.likeliest)} UTC, between {range_}.")
    if found.because:
        said.append(f"Explained by {words.listed([_explained(each) for each in found.because])}.")
    said += [f"Could be wrong: {text}" for text in found.could_be_wrong]
    if found.base is not None:
        said.append(f"How sure: {found.sure}.")
    return [tag("li", each) for each in said]


def _explained(found: Because) -> str:
    share = "" if found.share is None else f" ({round(100 * found.share)} % of it)"
    return f"{found.segment}{share}"
