"""The pieces that sections of a report are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval_server._report import words
from streameval_server._report.markup import Markup, joined, tag

if TYPE_CHECKING:
    from streameval.v1 import types_pb2


def metric_cell(metric: types_pb2.Metric, *, is_lead: bool = False) -> Markup:
    """Return a figure with its interval, or why it has no value."""
    title = words.title_of(metric.name)
    if not metric.HasField("value"):
        return cell(title, words.NOTHING, words.reason(metric.undefined_reason), is_lead=is_lead)
    more = words.limits(metric.name, metric.interval) if metric.HasField("interval") else ""
    return cell(
        title,
        words.measured(metric.name, metric.value),
        more,
        is_lead=is_lead,
        name=metric.name,
        value=metric.value,
    )


def cell(
    title: str,
    text: str,
    more: str,
    *,
    is_lead: bool = False,
    name: str | None = None,
    value: float | None = None,
) -> Markup:
    """Return a figure of a row: its title, its text, and what is said below it.

    Parameters
    ----------
    title, text, more : str
    is_lead : bool
        Whether it is the first and the largest.
    name, value
        For programs that read the report: what it is of, and the value with all digits.
    """
    return tag(
        "div",
        tag("dt", title),
        tag(
            "dd",
            text,
            class_="value",
            data_name=name,
            data_value=None if value is None else repr(value),
        ),
        tag("dd", more, class_="more"),
        class_="lead" if is_lead else None,
    )


def figured(caption: str, drawn: Markup) -> Markup:
    """Return a picture with its caption."""
    return tag("figure", tag("figcaption", caption), drawn)


def section(title: str, *parts: Markup | None) -> Markup:
    """Return a section with its heading."""
    return tag("section", tag("h2", title), joined(parts))
