"""The section of a report that says what the window will read once its labels are in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval_server._report import words
from streameval_server._report.markup import Markup, tag
from streameval_server._report.pieces import cell, section

if TYPE_CHECKING:
    from streameval.v1 import types_pb2
    from streameval_server._report.contents import Contents


def projected(found: Contents) -> Markup | None:
    """Return the projected figures and what they rest on; None where no label is to come."""
    if found.projection is None:
        return None
    figures = tag("dl", *(_figure(each) for each in found.projection.metrics), class_="figures")
    assumed = (
        f"Assumed: {found.projection.assumption}. Limits hold whatever the missing labels are."
    )
    return section("Once the labels are in", figures, tag("p", assumed))


def _figure(metric: types_pb2.ProjectedMetric) -> Markup:
    title, name = words.title_of(metric.name), f"projected {metric.name}"
    if metric.HasField("prevalence"):
        title += f" at a prevalence of {words.percent(metric.prevalence)}"
        name += " at the reference prevalence"
    is_known = metric.HasField("projected")
    parts = [
        words.limits(metric.name, metric.interval)
        if is_known
        else f"not projected: {metric.reason}"
    ]
    if metric.HasField("value"):
        parts.append(f"now {words.figure(metric.value)}")
    if metric.HasField("limits"):
        lower, upper = words.figure(metric.limits.lower), words.figure(metric.limits.upper)
        parts.append(f"within {lower} to {upper} whatever the labels")
    return cell(
        title,
        words.figure(metric.projected) if is_known else words.NOTHING,
        "; ".join(parts),
        name=name if is_known else None,
        value=metric.projected if is_known else None,
    )
