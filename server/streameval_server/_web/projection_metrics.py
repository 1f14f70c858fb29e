"""Projections of streams for Prometheus: what the recent window will read once its labels are in.

A projection takes up to seconds, so a scrape makes at most `MAX_NEW_PROJECTIONS`: of the
streams that wait the longest. The others are as at their last turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prometheus_client.core import GaugeMetricFamily

from streameval.statistics import BY_NAME, HEADLINE
from streameval.v1 import query_pb2, types_pb2
from streameval_server._model.errors import Code, RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client.core import Metric

    from streameval_server._grpc.methods import Method

MAX_NEW_PROJECTIONS = 1
"""Projections that one scrape makes."""

SERIES_A_PROJECTION = 3 * 6
"""Value, limits of the interval, limits of any labels, and refusal of three metrics."""

_SUFFIXES = {
    "": "as projected",
    "_lower": "lower limit of its 95 % interval",
    "_upper": "upper limit of the same",
    "_least": "not below, whatever the missing labels are",
    "_greatest": "not above, whatever the missing labels are",
}

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
    window_us: int,
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
    window_us : int
        Length of the recent window.
    """
    wanted = dict.fromkeys(names)
    kept = {name: found for name, found in before.by_name.items() if name in wanted}
    turns = [*(name for name in wanted if name not in kept), *kept]
    for name in turns[:MAX_NEW_PROJECTIONS]:
        selection = types_pb2.Selection(stream=name)
        selection.last.FromMicroseconds(window_us)
        request = query_pb2.GetSnapshotRequest(
            selection=selection, metrics=[HEADLINE], projection=True
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
    """Yield the metric families of projections. A refused metric has a reason and no value."""
    labels = ("stream", "prevalence")
    families: dict[str, dict[str, GaugeMetricFamily]] = {}
    refused = GaugeMetricFamily(
        "streameval_projection_refused",
        "Why a metric is not projected.",
        labels=("stream", "metric", "prevalence", "reason"),
    )
    for name, projection in sorted(readings.by_name.items()):
        for metric in () if projection is None else projection.metrics:
            if metric.name not in families:
                families[metric.name] = {
                    suffix: GaugeMetricFamily(
                        f"streameval_{metric.name}_projected{suffix}",
                        f"{BY_NAME[metric.name].title} of the recent window once its labels are "
                        f"in: {text}.",
                        labels=labels,
                    )
                    for suffix, text in _SUFFIXES.items()
                }
            own = "reference" if metric.HasField("prevalence") else "own"
            _add(families[metric.name], (name, own), metric)
            if metric.refusal:
                reason = types_pb2.ProjectionRefusal.Name(metric.refusal)
                reason = reason.removeprefix("PROJECTION_REFUSAL_").lower()
                refused.add_metric((name, metric.name, own, reason), 1)
    for each in families.values():
        yield from each.values()
    yield refused


def _add(
    families: Mapping[str, GaugeMetricFamily],
    labels: tuple[str, ...],
    metric: types_pb2.ProjectedMetric,
) -> None:
    if metric.HasField("limits"):
        families["_least"].add_metric(labels, metric.limits.lower)
        families["_greatest"].add_metric(labels, metric.limits.upper)
    if not metric.refusal and metric.HasField("projected"):
        families[""].add_metric(labels, metric.projected)
        families["_lower"].add_metric(labels, metric.interval.lower)
        families["_upper"].add_metric(labels, metric.interval.upper)
