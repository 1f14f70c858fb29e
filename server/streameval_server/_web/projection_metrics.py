"""Projections of streams for Prometheus: what the recent window will read once its labels are in.

A projection takes up to seconds, so a scrape makes at most `MAX_NEW_PROJECTIONS`: of the
streams that wait the longest. The others are as at their last turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prometheus_client.core import GaugeMetricFamily

from streameval.statistics import HEADLINE
from streameval.v1 import query_pb2, types_pb2
from streameval_server._model.errors import Code, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client.core import Metric

    from streameval_server._grpc.methods import Method

MAX_NEW_PROJECTIONS = 1
"""Projections that one scrape makes."""

SERIES_A_PROJECTION = 3 * 6
"""Value, limits of the interval, limits of any labels, and refusal of three figures."""

_TOLERATED = {Code.NOT_FOUND, Code.FAILED_PRECONDITION, Code.RESOURCE_EXHAUSTED}
"""Errors of one stream, deleted or too large: they leave it without a projection."""


@dataclass(slots=True)
class ProjectionReadings:
    """The projections at the time of one scrape.

    Attributes
    ----------
    by_name : dict of str to Projection or None
        Those of streams that had their turn, the longest ago first; None for one that
        cannot be projected.
    """

    by_name: dict[str, types_pb2.Projection | None] = field(default_factory=dict)


async def read_projections(
    snapshot: Method,
    names: Iterable[str],
    before: ProjectionReadings,
    selection: Callable[[str], types_pb2.Selection],
) -> ProjectionReadings:
    """Project the streams whose turn it is; the others are as `before`.

    Parameters
    ----------
    snapshot : Method
        GetSnapshot, called with the rights of the current call.
    names : iterable of str
        The streams that have projections.
    before : ProjectionReadings
        The previous scrape's.
    selection : callable
        Returns a stream's window.
    """
    wanted = dict.fromkeys(names)
    kept = {name: found for name, found in before.by_name.items() if name in wanted}
    turns = [*(name for name in wanted if name not in kept), *kept]
    for name in turns[:MAX_NEW_PROJECTIONS]:
        request = query_pb2.GetSnapshotRequest(
            selection=selection(name), metrics=[HEADLINE], projection=True
        )
        kept.pop(name, None)
        try:
            answer: Any = await snapshot.answer(request)
            kept[name] = answer.snapshot.projection
        except RequestError as error:
            if error.code not in _TOLERATED:
                raise
            kept[name] = None
    return ProjectionReadings(kept)


def projection_families(readings: ProjectionReadings) -> Iterator[Metric]:
    """Yield the metric families of projections. A refused figure has a reason and no value."""
    labels = ("stream", "figure", "prevalence")
    families = {
        name: GaugeMetricFamily(f"streameval_{name}", help_, labels=labels)
        for name, help_ in (
            ("projected", "A figure of the recent window once its labels are in, as projected."),
            ("projected_lower", "Lower limit of its 95 % interval."),
            ("projected_upper", "Upper limit of the same."),
            ("projected_least", "The figure is not below, whatever the missing labels are."),
            ("projected_greatest", "The figure is not above, whatever the missing labels are."),
        )
    }
    refused = GaugeMetricFamily(
        "streameval_projection_refused",
        "Why a figure is not projected.",
        labels=(*labels, "reason"),
    )
    for name, projection in sorted(readings.by_name.items()):
        for metric in () if projection is None else projection.metrics:
            own = "reference" if metric.HasField("prevalence") else "own"
            of = (name, metric.name, own)
            if metric.HasField("limits"):
                families["projected_least"].add_metric(of, metric.limits.lower)
                families["projected_greatest"].add_metric(of, metric.limits.upper)
            if metric.refusal:
                reason = types_pb2.ProjectionRefusal.Name(metric.refusal)
                refused.add_metric((*of, reason.removeprefix("PROJECTION_REFUSAL_").lower()), 1)
            elif metric.HasField("projected"):
                families["projected"].add_metric(of, metric.projected)
                families["projected_lower"].add_metric(of, metric.interval.lower)
                families["projected_upper"].add_metric(of, metric.interval.upper)
    yield from (*families.values(), refused)
