"""Counts calls and their durations: of gRPC by the names of grpc-ecosystem's interceptors.

https://github.com/grpc-ecosystem/go-grpc-middleware/tree/main/providers/prometheus has the names,
labels and codes, which dashboards and rules of other servers use too.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from google.protobuf import descriptor_pool
from prometheus_client import Counter, Histogram

if TYPE_CHECKING:
    from google.protobuf.descriptor import MethodDescriptor
    from prometheus_client import CollectorRegistry

    from streameval_server._grpc.call_log import Transport

_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_OPEN_ENDED = frozenset({"WatchSnapshot", "WatchSnapshots", "WatchStreamSummaries"})
"""Requests that last as long as the client wants: their durations say nothing."""

_TYPES = {
    (False, False): "unary",
    (False, True): "server_stream",
    (True, False): "client_stream",
    (True, True): "bidi_stream",
}


class CallMetrics:
    """Counts calls by method and status; both have few values.

    Parameters
    ----------
    registry
        The registry of the metrics.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("grpc_type", "grpc_service", "grpc_method")
        self._started = Counter(
            "grpc_server_started",
            "RPCs that started on the server.",
            labels,
            registry=registry,
        )
        self._handled = Counter(
            "grpc_server_handled",
            "RPCs that completed on the server, whether they succeeded or failed.",
            (*labels, "grpc_code"),
            registry=registry,
        )
        self._handling = Histogram(
            "grpc_server_handling_seconds",
            "How long RPCs took on the server until they completed.",
            labels,
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self._requests = Counter(
            "streameval_http_requests",
            "HTTP requests that ended, by method and status, both named as over gRPC.",
            ("method", "code"),
            registry=registry,
        )
        self._durations = Histogram(
            "streameval_http_request_duration_seconds",
            "How long HTTP requests with one answer took.",
            ("method",),
            buckets=_BUCKETS_S,
            registry=registry,
        )

    def began(self, method: str, transport: Transport) -> None:
        """Count a call that starts."""
        if transport == "grpc":
            self._started.labels(*_labels(method)).inc()

    def ended(self, method: str, transport: Transport, code: str, took_s: float) -> None:
        """Count a call that has ended."""
        code = _code(code)
        if transport == "grpc":
            labels = _labels(method)
            self._handled.labels(*labels, code).inc()
            self._handling.labels(*labels).observe(took_s)
            return
        name = method.rpartition("/")[2]
        self._requests.labels(name, code).inc()
        if name not in _OPEN_ENDED:
            self._durations.labels(name).observe(took_s)


@cache
def _labels(method: str) -> tuple[str, str, str]:
    """Return the type, service and method of one that the server has.

    >>> _labels("streameval.v1.IngestService/Ingest")
    ('bidi_stream', 'streameval.v1.IngestService', 'Ingest')
    """
    found: MethodDescriptor = descriptor_pool.Default().FindMethodByName(method.replace("/", "."))
    service, _, name = method.rpartition("/")
    return _TYPES[found.client_streaming, found.server_streaming], service, name


def _code(status: str) -> str:
    """Return the name of a status in Go's spelling, which the convention has.

    >>> _code("OK"), _code("INVALID_ARGUMENT"), _code("CANCELLED")
    ('OK', 'InvalidArgument', 'Canceled')
    """
    irregular = {"OK": "OK", "CANCELLED": "Canceled"}
    return irregular.get(status) or "".join(word.title() for word in status.split("_"))
