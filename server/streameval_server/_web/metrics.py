"""What Prometheus scrapes: calls, the server, and each stream's figures.

Asking costs the server something, so what was found is told again for about as
long as scrapes are apart, whoever scrapes; a token that is for some streams sees
those.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.exposition import choose_encoder
from starlette.responses import Response

from streameval.v1 import admin_pb2
from streameval_server._security.call_context import current_access
from streameval_server._security.rules import Rule
from streameval_server._security.tokens import Scope
from streameval_server._web.call_metrics import CallMetrics
from streameval_server._web.stream_metrics import StreamMetrics, StreamReadings, stream_families

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric
    from starlette.requests import Request

    from streameval_server._grpc.methods import Methods
    from streameval_server._web.gate import Gate, Passing

_FRESH = 0.9
"""Of the interval: what was asked for so short a time ago is told again. Not of all of
it: scrapes come a little early or late, and one that comes early is to be told new
figures, not those of the scrape before."""

_MOST_VIEWS = 8
"""Tokens for different streams that scrape at the same time."""

_RULE = Rule(Scope.QUERY)
_STATUS = "streameval.v1.AdminService/GetServerStatus"


@dataclass(slots=True)
class _View:
    """What is told to whoever may see these streams."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    asked_s: float = float("-inf")
    streams: StreamReadings = field(default_factory=StreamReadings)
    status: Any = None
    took_s: float = 0.0


class Metrics:
    """The metrics of one server.

    Parameters
    ----------
    methods
        The server's.
    gate
        Every scrape passes it.
    registry
        Where metrics of calls are registered; a registry of its own.
    interval_s
        How far scrapes are apart; 0 asks anew at each.
    window_s, max_series
        As in StreamMetrics.
    """

    def __init__(
        self,
        methods: Methods,
        gate: Gate,
        registry: CollectorRegistry,
        *,
        interval_s: float,
        window_s: float,
        max_series: int,
    ) -> None:
        self.calls = CallMetrics(registry)
        self._registry = registry
        self._gate = gate
        self._fresh_s = _FRESH * interval_s
        self._window_s = window_s
        self._status = methods.find(_STATUS)
        self._streams = StreamMetrics(methods, window_s=window_s, max_series=max_series)
        self._views: dict[tuple[str, ...] | None, _View] = {}

    async def respond(self, request: Request) -> Response:
        """Answer a scrape."""
        return await self._gate.serve(request, "metrics", _RULE, self._answer)

    async def _answer(self, passing: Passing) -> Response:
        view = await self._fresh(current_access().streams)
        encode, kind = choose_encoder(passing.request.headers.get("accept", ""))
        # Beside the event loop: there may be thousands of lines.
        text = await asyncio.to_thread(lambda: encode(_Told(self._registry, self._families(view))))
        return Response(text, headers={"cache-control": "no-store", "content-type": kind})

    async def _fresh(self, streams: tuple[str, ...] | None) -> _View:
        """Return what may be seen of these streams, found anew if it is old."""
        view = self._views.get(streams)
        if view is None:
            if len(self._views) >= _MOST_VIEWS:
                del self._views[min(self._views, key=lambda key: self._views[key].asked_s)]
            view = self._views[streams] = _View()
        came = time.monotonic()
        async with view.turn:
            # From asking to coming: else an answer that took long would be told twice, and
            # those who came while it was found would each ask again.
            if came - view.asked_s >= self._fresh_s:
                asked = time.monotonic()
                view.status = await self._status.answer(admin_pb2.GetServerStatusRequest())
                view.streams = await self._streams.read(view.streams)
                view.took_s = time.monotonic() - asked
                view.asked_s = asked
        return view

    def _families(self, view: _View) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "streameval_metrics_seconds",
            "How long it took to find what is told here.",
            value=view.took_s,
        )
        yield GaugeMetricFamily(
            "streameval_window_seconds", "The recent window.", value=self._window_s
        )
        yield from _server_families(view.status)
        yield from stream_families(view.streams)


class _Told:
    """A registry and what was found besides, as the exposition wants it."""

    def __init__(self, registry: CollectorRegistry, families: Iterator[Metric]) -> None:
        self._registry = registry
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """Yield all of it."""
        yield from self._registry.collect()
        yield from self._families


def _server_families(status: admin_pb2.GetServerStatusResponse) -> Iterator[Metric]:
    yield InfoMetricFamily(
        "streameval", "The version that runs.", value={"version": status.version}
    )
    yield CounterMetricFamily(
        "streameval_log_entries", "Durable log entries.", value=status.durable_revision
    )
    rows = CounterMetricFamily(
        "streameval_rows", "Rows of batches that became durable.", labels=("kind",)
    )
    for kind in status.batch_rows.DESCRIPTOR.fields_by_name:
        rows.add_metric((kind,), getattr(status.batch_rows, kind))
    yield rows
    yield CounterMetricFamily(
        "streameval_refused_batches",
        "Batches of producers that were refused.",
        value=status.refused_batches,
    )
    for name, help_, value in (
        ("serving", "Whether it commits.", int(status.serving)),
        ("applied_revision", "The last entry that answers include.", status.applied_revision),
        ("checkpoint_revision", "The entry of the checkpoint.", status.checkpoint_revision),
        ("lag_rows", "Durable rows that are not applied yet.", status.lag_rows),
        ("queue_bytes", "Bytes that wait to be committed.", status.queued_bytes),
        ("open_calls", "Calls in progress.", status.open_calls),
        ("streams", "Streams.", status.streams),
        ("kept_ids", "Ids that are kept, in all streams.", status.pending),
        ("state_bytes", "Memory of all streams, about.", status.state_bytes),
        ("state_limit_bytes", "Above it ingest is refused; 0: never.", status.max_state_bytes),
        ("start_time_seconds", "When it started.", status.start_time.ToMicroseconds() / 1e6),
    ):
        yield GaugeMetricFamily(f"streameval_{name}", help_, value=value)
    if status.HasField("disk"):
        for name, help_, value in (
            ("log_bytes", "The log on disk, checkpoints included.", status.disk.used_bytes),
            ("disk_free_bytes", "Free on its file system.", status.disk.free_bytes),
        ):
            yield GaugeMetricFamily(f"streameval_{name}", help_, value=value)
    if status.HasField("commits"):
        commits = GaugeMetricFamily(
            "streameval_commit_seconds",
            "Percentiles of how long the last 1,024 commits took.",
            labels=("percentile",),
        )
        times = status.commits
        for percentile, seconds in (("50", times.p50_s), ("99", times.p99_s), ("100", times.max_s)):
            commits.add_metric((percentile,), seconds)
        yield commits
