"""The figures of a report with their intervals. Each has all its digits in `data-value`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from streameval._metric_registry import HEADLINE, Place, title_of
from streameval.cli._report import words
from streameval.cli._report.markup import Markup, tag

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streameval._projection.projection import ProjectedFigure
    from streameval._snapshot import Snapshot, WindowProjection
    from streameval._uncertainty.interval import Interval
    from streameval.client import StreamReliability

_AT_THRESHOLD = Place.DECISION.names()


def headline(snapshot: Snapshot) -> Markup:
    """Return the first row of figures: metrics with their intervals, cases, labels."""
    names = [HEADLINE, *(each for each in snapshot.figures if each != HEADLINE)]
    cells = [_of_snapshot(snapshot, each) for each in names if each not in _AT_THRESHOLD]
    positives, negatives = snapshot.num_positive_ref, snapshot.num_negative_ref
    classes = f"{words.count(positives)} positive, {words.count(negatives)} negative"
    cells.append(_cell("Labelled cases", words.count(snapshot.num_cases), classes))
    coverage = snapshot.coverage
    if coverage is not None:
        counts = f"{words.count(coverage.labelled)} of {words.count(coverage.predictions)}"
        cells.append(_cell("Labels", words.percent(coverage.labelled_share), counts))
    return _row(cells)


def at_threshold(snapshot: Snapshot) -> Markup:
    """Return the rates, and the cost, at the declared threshold."""
    return _row(_of_snapshot(snapshot, each) for each in snapshot.figures if each in _AT_THRESHOLD)


def calibration(found: StreamReliability) -> Markup:
    """Return the figures that say whether scores are probabilities."""
    intervals: dict[str, Interval] = {
        name: getattr(found, name) for name in Place.CALIBRATION.names()
    }
    cells = [_metric(name, each.estimate, each, "EMPTY") for name, each in intervals.items()]
    return _row([*cells, _metric("brier_score", found.brier_score, None, "EMPTY")])


def projection(found: WindowProjection) -> Markup:
    """Return what the window will read once its labels are in."""
    return _row(map(_projected, found.figures))


def _of_snapshot(snapshot: Snapshot, name: str) -> Markup:
    reason = snapshot.reasons.get(name, "")
    return _metric(name, snapshot.figures[name], snapshot.intervals.get(name), reason)


def _metric(name: str, value: float, interval: Interval | None, reason: str) -> Markup:
    """Return a figure with its interval, or why it has no value."""
    if math.isnan(value):
        return _cell(title_of(name), words.NOTHING, words.reason(reason), name=name)
    more = "" if interval is None else words.limits(name, interval)
    return _cell(title_of(name), words.measured(name, value), more, name=name, value=value)


def _projected(found: ProjectedFigure) -> Markup:
    title, name = title_of(found.metric), f"projected {found.metric}"
    if found.prevalence is not None:
        title += f" at a prevalence of {words.percent(found.prevalence)}"
        name += " at the reference prevalence"
    if found.interval is None:
        text, reason = words.NOTHING, found.reason.value if found.reason else ""
        parts = [f"not projected: {reason}"]
    else:
        text, parts = words.figure(found.projected), [words.limits(found.metric, found.interval)]
    if not math.isnan(found.now):
        parts.append(f"now {words.figure(found.now)}")
    if found.limits is not None:
        lower, upper = map(words.figure, found.limits)
        parts.append(f"within {lower} to {upper} whatever the labels")
    return _cell(title, text, "; ".join(parts), name=name, value=found.projected)


def _cell(title: str, text: str, more: str, *, name: str = "", value: float = math.nan) -> Markup:
    """Return a figure of a row: its title, its text, and what is said below it.

    Parameters
    ----------
    title, text, more : str
    name, value
        For programs that read the report: what it is of, and the value with all digits.
    """
    known = {} if math.isnan(value) else {"data_name": name, "data_value": repr(value)}
    return tag(
        "div",
        tag("dt", title),
        tag("dd", text, class_="value", **known),
        tag("dd", more, class_="more"),
        class_="lead" if name == HEADLINE else None,
    )


def _row(cells: Iterable[Markup]) -> Markup:
    return tag("dl", *cells, class_="figures")
