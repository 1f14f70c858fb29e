"""Verdicts for Prometheus: the quality, since when, and by how much the headline differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client.core import GaugeMetricFamily

from streameval.v1 import verdict_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client.core import Metric

QUALITIES: Final = tuple(
    name.removeprefix("VERDICT_QUALITY_").lower()
    for name, number in verdict_pb2.VerdictQuality.items()
    if number
)
SERIES_A_VERDICT: Final = len(QUALITIES) + 4
"""One for each quality, since when, and the difference with its limits."""


def verdict_families(verdicts: Mapping[str, verdict_pb2.Verdict]) -> Iterator[Metric]:
    """Yield the metric families of the verdicts on streams, by name. O(streams)."""
    quality = GaugeMetricFamily(
        "streameval_verdict",
        "1 for the quality that the verdict on a stream says, 0 for the others.",
        labels=("stream", "quality"),
    )
    since = GaugeMetricFamily(
        "streameval_verdict_since_timestamp_seconds",
        "When the change of which the verdict is began, most likely; without one no series.",
        labels=("stream",),
    )
    names = ("", "_lower", "_upper")
    helps = (
        "The headline now minus the base.",
        "Lower limit of that, as the verdict gives it.",
        "Upper limit of the same.",
    )
    differences = [
        GaugeMetricFamily(f"streameval_verdict_difference{name}", text, labels=("stream",))
        for name, text in zip(names, helps, strict=True)
    ]
    for stream, verdict in verdicts.items():
        for number, name in enumerate(QUALITIES, 1):
            quality.add_metric((stream, name), verdict.quality == number)
        if verdict.HasField("since"):
            since.add_metric((stream,), verdict.since.likeliest.ToMicroseconds() / 1e6)
        for figure in verdict.figures[:1]:
            found = {each.name: value for each, value in figure.difference.ListFields()}
            for family, name in zip(differences, ("estimate", "lower", "upper"), strict=True):
                if name in found:
                    family.add_metric((stream,), found[name])
    yield from (quality, since, *differences)
