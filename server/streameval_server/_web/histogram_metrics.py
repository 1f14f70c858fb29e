"""Histograms of durations for Prometheus, from the messages that answer clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prometheus_client.core import HistogramMetricFamily

    from streameval.v1 import types_pb2


def add_histogram(
    family: HistogramMetricFamily, labels: Sequence[str], durations: types_pb2.DurationHistogram
) -> None:
    """Add one histogram's series to a family: a bucket for each bound, `+Inf`, count and sum.

    Parameters
    ----------
    family : HistogramMetricFamily
    labels : sequence of str
        Values of the family's labels.
    durations : DurationHistogram
    """
    buckets = [
        (str(bound_s), float(count))
        for bound_s, count in zip(durations.upper_bounds_s, durations.counts, strict=True)
    ]
    family.add_metric(labels, [*buckets, ("+Inf", float(durations.total))], durations.sum_s)
