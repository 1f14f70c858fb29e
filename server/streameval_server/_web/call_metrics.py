"""Counts calls by status, over gRPC and HTTP, and measures those with a single answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Histogram

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_OPEN_ENDED = frozenset({"Ingest", "WatchSnapshot", "WatchSnapshots", "ServerReflectionInfo"})
"""Methods whose calls last as long as the client wants: their durations say nothing."""


class CallMetrics:
    """Counts calls by method and status; both have few values.

    Parameters
    ----------
    registry
        The registry of the metrics.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._calls = Counter(
            "streameval_calls",
            "Calls that ended, by method and status.",
            ("method", "code"),
            registry=registry,
        )
        self._durations = Histogram(
            "streameval_call_duration_seconds",
            "How long calls with one answer took.",
            ("method",),
            buckets=_BUCKETS_S,
            registry=registry,
        )

    def record(self, method: str, code: str, took_s: float) -> None:
        """Count a call."""
        name = method.rpartition("/")[2]
        self._calls.labels(name, code).inc()
        if name not in _OPEN_ENDED:
            self._durations.labels(name).observe(took_s)
