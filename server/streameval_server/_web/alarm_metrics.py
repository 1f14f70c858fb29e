"""Alarms for Prometheus: how near each watch is to an alarm, and whether one is open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prometheus_client.core import GaugeMetricFamily

from streameval.v1 import alarm_pb2

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from prometheus_client.core import Metric

    from streameval_server._grpc.methods import Method

SERIES_A_WATCH: Final = 2

_PAGE_SIZE = 1_000


async def read_alarms(method: Method, exported: Container[str]) -> list[alarm_pb2.AlarmStatus]:
    """Return the detectors of the exported streams. O(streams)."""
    request = alarm_pb2.ListAlarmsRequest(page_size=_PAGE_SIZE)
    found: list[alarm_pb2.AlarmStatus] = []
    while True:
        page: Any = await method.answer(request)
        found += [each for each in page.statuses if each.stream in exported]
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token


def alarm_families(statuses: Sequence[alarm_pb2.AlarmStatus]) -> Iterator[Metric]:
    """Return the metric families of detectors; none where no stream declares alarms."""
    labels = ("stream", "watch")
    evidence = GaugeMetricFamily(
        "streameval_alarm_evidence",
        "The evidence that a stream is worse than its reference, as a share of what raises an "
        "alarm, 0 to 1.",
        labels=labels,
    )
    firing = GaugeMetricFamily(
        "streameval_alarm_firing", "Whether an alarm is open.", labels=labels
    )
    waiting = GaugeMetricFamily(
        "streameval_alarm_waiting",
        "Whether the detector still waits for its reference.",
        labels=("stream",),
    )
    for status in statuses:
        waiting.add_metric((status.stream,), status.state == alarm_pb2.ALARM_STATE_WAITING)
        for each in status.evidence:
            evidence.add_metric((status.stream, each.watch), each.share)
            firing.add_metric((status.stream, each.watch), each.firing)
    if statuses:
        yield from (evidence, firing, waiting)
