"""The metrics that Prometheus scrapes: calls, the server, and each stream's metrics.

Collecting is expensive, so it goes on in the background: a scrape waits for it for `_MAX_WAIT_S` at
most, and then answers what is known, with the number of streams that are still missing. The result
is kept for some seconds and shared by all scrapers who may see, and ask for, the same
streams; a token limited to some streams
gets the metrics of those, and of the server only what does not depend on other streams.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from starlette.responses import Response

from streameval.checks import stream_name_problem
from streameval.v1 import admin_pb2
from streameval_server._model.errors import invalid
from streameval_server._security.access import CallCheck, current_access
from streameval_server._security.rules import Rule
from streameval_server._security.tokens import Scope, covers
from streameval_server._web.call_metrics import CallMetrics
from streameval_server._web.histogram_metrics import add_histogram
from streameval_server._web.stream_metrics import StreamMetrics, StreamReadings, stream_families

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric
    from starlette.requests import Request

    from streameval_server._grpc.server import Server
    from streameval_server._payloads.intake import PayloadIntake
    from streameval_server._web.call_runner import AuthorisedRequest, CallRunner

_log = logging.getLogger(__name__)

_MAX_AGE_S = 9.0
"""Age up to which a result is served again: below a scrape interval of 10 s, because a scrape
may come a little early and must still get new metrics."""

_MAX_CACHED_SCRAPES = 8
"""Cached results: one for each set of streams that scrapers' tokens cover and that they ask for."""

_MAX_WAIT_S = 0.5
"""How long a scrape waits for new figures: with all else it takes less than a second."""

_RULE = Rule(Scope.QUERY)
_STATUS = "streameval.v1.AdminService/GetServerStatus"


@dataclass(slots=True)
class _Scrape:
    """The cached result for one set of streams; `collecting` is the task that renews it."""

    collecting: asyncio.Task[None] | None = None
    started_s: float = float("-inf")
    streams: StreamReadings = field(default_factory=StreamReadings)
    took_s: float = 0.0


class Metrics:
    """The metrics of one server.

    Parameters
    ----------
    server
        Its methods and query threads answer.
    runner
        Authorises and logs each scrape.
    registry
        The registry for metrics of calls; not shared.
    window_s, max_series
        As in StreamMetrics.
    intake
        Takes payloads; None if the server takes none.
    """

    def __init__(
        self,
        server: Server,
        runner: CallRunner,
        registry: CollectorRegistry,
        *,
        window_s: float,
        max_series: int,
        intake: PayloadIntake | None,
    ) -> None:
        self._intake = intake
        self.calls = CallMetrics(registry)
        self._registry = registry
        self._runner = runner
        self._window_s = window_s
        self._status = server.methods.find(_STATUS)
        self._streams = StreamMetrics(server, window_s=window_s, max_series=max_series)
        self._scrapes: dict[tuple[tuple[str, ...] | None, ...], _Scrape] = {}

    async def respond(self, request: Request) -> Response:
        """Answer a scrape."""
        return await self._runner.run(request, "metrics", _RULE, self._answer)

    async def _answer(self, authorised: AuthorisedRequest) -> Response:
        check = CallCheck(_RULE)
        encode, kind = choose_encoder(authorised.request.headers.get("accept", ""))
        chosen = _chosen(authorised.request)
        while True:
            streams = current_access().streams
            status: Any = await self._status.answer(admin_pb2.GetServerStatusRequest())
            scrape = await self._scraped(streams, chosen)
            readings = scrape.streams.copy()  # which a collection may change meanwhile
            # Off the event loop: there may be thousands of lines.
            exposition = _Exposition(self._families(status, readings, scrape.took_s, streams))
            text = await asyncio.to_thread(encode, exposition)
            # The token may have been revoked or narrowed meanwhile.
            check.check_answer()
            if current_access().streams == streams:
                break
        return Response(text, headers={"cache-control": "no-store", "content-type": kind})

    async def _scraped(
        self, streams: tuple[str, ...] | None, chosen: tuple[str, ...] | None
    ) -> _Scrape:
        """Return the result for these streams, as new as it is after a short wait."""
        key = streams, chosen
        scrape = self._scrapes.get(key)
        if scrape is None:
            if len(self._scrapes) >= _MAX_CACHED_SCRAPES:
                self._drop_oldest()
            scrape = self._scrapes[key] = _Scrape()
        arrived_s = time.monotonic()
        loop = asyncio.get_running_loop()
        until_s = loop.time() + _MAX_WAIT_S
        # The age runs from the start of the collection to the arrival of the scrape. Scrapes
        # that arrive while one collects then share its result, and a slow collection does not
        # look fresh.
        while arrived_s - scrape.started_s >= _MAX_AGE_S:
            own = None
            if scrape.collecting is None:
                own = asyncio.create_task(self._collect(scrape, streams, chosen))
                own.add_done_callback(_report)
                scrape.collecting = own
            left_s = max(until_s - loop.time(), 0.0)
            done, _ = await asyncio.wait({scrape.collecting}, timeout=left_s)
            if not done:
                break
            # A collection of another scrape may have failed, because its rights had ended: then
            # this scrape collects itself. Only its own failure is raised.
            if own is not None:
                own.result()
                break
        return scrape

    def _drop_oldest(self) -> None:
        """Forget the result that is the oldest, and end its collection: there are few at a time."""
        key = min(self._scrapes, key=lambda each: self._scrapes[each].started_s)
        dropped = self._scrapes.pop(key)
        if dropped.collecting is not None:
            dropped.collecting.cancel()

    async def _collect(
        self, scrape: _Scrape, streams: tuple[str, ...] | None, chosen: tuple[str, ...] | None
    ) -> None:
        """Read all streams again, with the rights of the scrape that has begun it."""
        started_s = time.monotonic()
        try:
            await self._streams.read(scrape.streams, chosen)
            scrape.took_s = time.monotonic() - started_s
            if current_access().streams == streams:  # else it covers other streams
                scrape.started_s = started_s
        finally:
            scrape.collecting = None

    def _families(
        self,
        status: admin_pb2.GetServerStatusResponse,
        readings: StreamReadings,
        took_s: float,
        streams: tuple[str, ...] | None,
    ) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "streameval_metrics_seconds",
            "How long the last collection of all streams took.",
            value=took_s,
        )
        yield GaugeMetricFamily(
            "streameval_window_seconds", "The recent window.", value=self._window_s
        )
        yield from _shared_families(status)
        if streams is None:
            yield from self._registry.collect()
            yield from _server_families(status)
        yield from stream_families(readings)
        if self._intake is not None:
            yield _payload_family(self._intake, streams)


def _chosen(request: Request) -> tuple[str, ...] | None:
    """Return the streams that a scrape chooses; None for all.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT for another parameter, which would choose nothing, and for a name that no
        stream has: the scrape would be empty without a word.
    """
    for parameter in request.query_params:
        if parameter != "stream":
            raise invalid(
                parameter,
                f"a scrape has no parameter {parameter!r:.80}: choose streams by ?stream=NAME",
            )
    chosen = tuple(dict.fromkeys(request.query_params.getlist("stream")))
    for name in chosen:
        problem = stream_name_problem(name)
        if problem is not None:
            raise invalid("stream", problem)
    return chosen or None


def _report(collected: asyncio.Task[None]) -> None:
    """Log why a collection has failed: the scrape that began it may not wait for it any more."""
    if not collected.cancelled() and collected.exception() is not None:
        _log.warning("the metrics of streams were not collected: %s", collected.exception())


class _Exposition:
    """Metric families, as prometheus_client's encoders take them."""

    def __init__(self, families: Iterator[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """Yield all metric families."""
        yield from self._families


def _payload_family(intake: PayloadIntake, streams: tuple[str, ...] | None) -> Metric:
    """Return what became of payloads, by the mappings that a token covers."""
    family = CounterMetricFamily(
        "streameval_payload_rows",
        "Rows of payloads by mapping: counted, or why they were refused; others are ignored.",
        labels=("mapping", "outcome"),
    )
    for (mapping, outcome), count in sorted(intake.counts.items()):
        if covers(streams, mapping):
            family.add_metric((mapping, outcome), count)
    return family


def _shared_families(status: admin_pb2.GetServerStatusResponse) -> Iterator[Metric]:
    """Yield what any token with `query` may know of the server: nothing of other streams."""
    yield InfoMetricFamily(
        "streameval", "The version that runs.", value={"version": status.version}
    )
    for name, help_, value in (
        ("serving", "Whether the server commits.", int(status.serving)),
        ("clock_in_doubt", "Whether the clock is in doubt.", int(status.clock_in_doubt)),
        ("start_time_seconds", "When it started.", status.start_time.ToMicroseconds() / 1e6),
    ):
        yield GaugeMetricFamily(f"streameval_{name}", help_, value=value)


def _server_families(status: admin_pb2.GetServerStatusResponse) -> Iterator[Metric]:
    """Yield the numbers of all streams together, for tokens that cover all."""
    yield CounterMetricFamily(
        "streameval_log_entries", "Durable log entries.", value=status.durable_revision
    )
    rows = CounterMetricFamily(
        "streameval_rows", "Rows of batches that became durable.", labels=("kind",)
    )
    for kind in status.batch_rows.DESCRIPTOR.fields_by_name:
        rows.add_metric((kind,), getattr(status.batch_rows, kind))
    yield rows
    yield GaugeMetricFamily(
        "streameval_lost_revisions",
        "Acknowledged log entries that the log has lost, with the operator's consent.",
        value=sum(loss.acked_revision - loss.kept_revision for loss in status.losses),
    )
    yield CounterMetricFamily(
        "streameval_state_checks",
        "Checks of a stream that its state in memory is what the log gives.",
        value=status.state_checks,
    )
    yield GaugeMetricFamily(
        "streameval_state_problems",
        "Streams whose state in memory is not what the log gives.",
        value=status.state_problems,
    )
    yield CounterMetricFamily(
        "streameval_expired_early",
        "Predictions that expired before label_ttl, because more ids waited than max_pending.",
        value=status.expired_early,
    )
    yield CounterMetricFamily(
        "streameval_refused_batches",
        "Batches of producers that were refused.",
        value=status.refused_batches,
    )
    waits = GaugeMetricFamily(
        "streameval_ack_wait_seconds",
        "How long the oldest batch has waited for its acknowledgement, by what it waits for.",
        labels=("reason",),
    )
    for reason in ("disk", "lag", "memory", "queue"):
        is_it = reason == status.ack_wait.reason
        waits.add_metric((reason,), status.ack_wait.age.ToNanoseconds() / 1e9 if is_it else 0.0)
    yield waits
    for name, help_, value in (
        (
            "clock_ahead_seconds",
            "The wall clock, minus the server's time.",
            (status.time.ToMicroseconds() - status.engine_time.ToMicroseconds()) / 1e6,
        ),
        ("applied_revision", "The last log entry that answers include.", status.applied_revision),
        ("checkpoint_revision", "The log entry of the checkpoint.", status.checkpoint_revision),
        ("lag_rows", "Durable rows not yet applied.", status.lag_rows),
        ("queue_bytes", "Bytes queued to be committed.", status.queued_bytes),
        ("open_calls", "Calls in progress.", status.open_calls),
        ("streams", "Streams.", status.streams),
        ("kept_ids", "Ids kept, in all streams.", status.pending),
        ("state_bytes", "Approximate memory of all streams.", status.state_bytes),
        ("state_limit_bytes", "Above it ingest is refused; 0: no limit.", status.max_state_bytes),
    ):
        yield GaugeMetricFamily(f"streameval_{name}", help_, value=value)
    if status.HasField("disk"):
        for name, help_, value in (
            ("log_bytes", "The log on disk, checkpoints included.", status.disk.used_bytes),
            ("disk_free_bytes", "Free on its file system.", status.disk.free_bytes),
        ):
            yield GaugeMetricFamily(f"streameval_{name}", help_, value=value)
    if status.HasField("commits"):
        commits = HistogramMetricFamily(
            "streameval_commit_seconds", "How long commits took since the server started."
        )
        add_histogram(commits, (), status.commits.histogram)
        yield commits
