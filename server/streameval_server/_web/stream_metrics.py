"""Metrics of streams for Prometheus: the snapshots and verdicts that clients get.

A stream has at most `SERIES_A_STREAM` series, `SERIES_A_METRIC` more for each metric at its
declared threshold and costs, and on the probability scale for each of calibration, one for the
threshold, and where it declares alarms `SERIES_A_WATCH` for each watch and one for all. So the
limit on series limits streams: first come the ones that the scrape names first, then streams that
declare alarms, then streams that had series before, then the newest; a gauge counts the streams
that do not fit. Pairs get the series that streams leave, and projections the rest.

One stream is one short computation in a query thread: 3 to 5 ms for some 4,000 cases, and 10 ms
more for a verdict that the list does not have. An unchanged answer costs a copy, because the query
engine keeps it by the parts that it was made of.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)

from streameval.statistics import BY_NAME, Place
from streameval.v1 import alarm_pb2, stream_pb2, types_pb2, verdict_pb2
from streameval_server._model.errors import Code, RequestError
from streameval_server._queries.coverage_answers import DELAY_BOUNDS_S
from streameval_server._queries.metrics import MetricSelection
from streameval_server._queries.selection import AllTime, Last, Selection
from streameval_server._security.access import current_access
from streameval_server._security.tokens import covers
from streameval_server._web.alarm_metrics import SERIES_A_WATCH, alarm_families, read_alarms
from streameval_server._web.histogram_metrics import add_histogram
from streameval_server._web.pair_metrics import (
    SERIES_A_PAIR,
    PairMetrics,
    PairReadings,
    pair_families,
)
from streameval_server._web.projection_metrics import (
    SERIES_A_PROJECTION,
    ProjectionReadings,
    projection_families,
    read_projections,
)
from streameval_server._web.verdict_metrics import SERIES_A_VERDICT, verdict_families

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from prometheus_client.core import Metric

    from streameval_server._grpc.server import Server
    from streameval_server._queries.query_engine import QueryEngine
    from streameval_server._queries.summary_entry import SummaryEntry

_WINDOWS = ("recent", "all")
_COUNT_SERIES = 10 + len(DELAY_BOUNDS_S) + 3
"""References by window and class 4, coverage by window 2, predictions and states 4; of the
delays a bucket for each bound and one for all, count and sum."""

SERIES_A_METRIC = 3 * len(_WINDOWS)
"""Value and limits of each window."""

SERIES_A_STREAM = SERIES_A_METRIC * len(Place.MONITOR.names()) + _COUNT_SERIES + SERIES_A_VERDICT
"""The metrics of every stream, the counts, and the verdict."""

_NAMES_A_PAGE = 1000

_STREAMS = "streameval.v1.StreamService"


@dataclass(frozen=True, slots=True)
class _StreamReading:
    """The answers about one stream, at one revision."""

    recent: types_pb2.Snapshot
    whole: types_pb2.Snapshot
    verdict: verdict_pb2.Verdict


@dataclass(slots=True)
class StreamReadings:
    """What is known of the streams; a collection renews one stream after the other.

    Attributes
    ----------
    by_name : dict of str to _StreamReading
        The exported streams that were read.
    missing : int
        How many of the exported streams were not read yet.
    left_out : int
        How many streams are not exported.
    alarms : list of AlarmStatus
        The detectors of the exported streams.
    pairs : PairReadings
        As far as the limit on series allows.
    projections : ProjectionReadings
        For streams whose labels come by id, as far as the limit on series allows.
    """

    by_name: dict[str, _StreamReading] = field(default_factory=dict)
    missing: int = 0
    left_out: int = 0
    alarms: list[alarm_pb2.AlarmStatus] = field(default_factory=list)
    pairs: PairReadings = field(default_factory=PairReadings)
    projections: ProjectionReadings = field(default_factory=ProjectionReadings)

    def copy(self) -> StreamReadings:
        """Return readings that no collection changes. O(streams)."""
        return replace(self, by_name=dict(sorted(self.by_name.items())))


class StreamMetrics:
    """Reads streams with the rights of the current call.

    Parameters
    ----------
    server
        Its methods list what the call's token covers; its query threads compute.
    window_s
        Length of the recent window.
    max_series
        Limit on the series of all streams together.
    """

    def __init__(self, server: Server, *, window_s: float, max_series: int) -> None:
        methods = server.methods
        self._runtime = server.runtime
        self._list = methods.find(f"{_STREAMS}/ListStreams")
        self._snapshot = methods.find("streameval.v1.QueryService/GetSnapshot")
        self._alarms = methods.find(f"{_STREAMS}/ListAlarms")
        self._pairs = PairMetrics(methods)
        self._window = Last(round(window_s * 1e6))
        self._max_series = max_series

    async def read(self, readings: StreamReadings, chosen: tuple[str, ...] | None = None) -> None:
        """Read the streams again, unread streams first.

        Parameters
        ----------
        readings : StreamReadings
            Renewed in place.
        chosen : tuple of str, optional
            Only these streams and those below them, the first ones first.
        """
        known = readings.by_name
        wanted, room = await self._wanted(readings, chosen)
        for name in known.keys() - wanted.keys():
            del known[name]
        readings.missing = len(wanted) - len(known)
        readings.alarms = await read_alarms(self._alarms, wanted)
        summaries = self._runtime.summaries
        current = await asyncio.to_thread(summaries.verdicts, is_current=True)
        kept = {each.name: each for each in current}
        for name in sorted(wanted, key=lambda each: each in known):
            try:
                known[name] = await self._stream(name, wanted[name], kept.get(name))
            except RequestError as error:
                if error.code is not Code.NOT_FOUND:  # deleted since it was listed
                    raise
                known.pop(name, None)
            readings.missing = len(wanted.keys() - known.keys())
        readings.missing = 0
        readings.pairs = await self._pairs.read(readings.pairs, room)
        room -= SERIES_A_PAIR * len(readings.pairs.by_names)
        joined = [name for name, each in sorted(known.items()) if each.whole.HasField("coverage")]
        readings.projections = await read_projections(
            self._snapshot,
            joined[: max(room, 0) // SERIES_A_PROJECTION],
            readings.projections,
            self._window.span_us,
        )

    async def _wanted(
        self, readings: StreamReadings, chosen: tuple[str, ...] | None
    ) -> tuple[dict[str, tuple[str, ...]], int]:
        """Return the streams that have series, each with its metrics, and how many more may be.

        `readings.left_out` is set to the number of streams that do not fit.
        """
        listed = [each async for each in self._streams() if covers(chosen, each.name)]

        def turn(stream: stream_pb2.Stream) -> tuple[int, bool, bool, int]:
            place = 0 if chosen is None else _place(chosen, stream.name)
            has_alarms = stream.settings.HasField("alarms")
            had_series = stream.name in readings.by_name
            return place, not has_alarms, not had_series, -stream.create_revision

        listed.sort(key=turn)
        wanted: dict[str, tuple[str, ...]] = {}
        room = self._max_series
        for number, stream in enumerate(listed):
            names, series = _metrics_of(stream.settings)
            if series > room:
                readings.left_out = len(listed) - number
                return wanted, 0
            room -= series
            wanted[stream.name] = names
        readings.left_out = 0
        return wanted, room

    async def _streams(self) -> AsyncIterator[stream_pb2.Stream]:
        """Yield the streams that the call's token covers."""
        token = ""
        while True:
            request = stream_pb2.ListStreamsRequest(page_size=_NAMES_A_PAGE, page_token=token)
            page: Any = await self._list.answer(request)
            for stream in page.streams:
                yield stream
            token = page.next_page_token
            if not token:
                return

    async def _stream(
        self, name: str, names: tuple[str, ...], kept: SummaryEntry | None
    ) -> _StreamReading:
        runtime = self._runtime
        with runtime.calls.call(), runtime.quota.query(current_access().token_id):
            return await runtime.answer(
                ("metrics", name, names, self._window),
                partial(_read, runtime.engine, name, names, self._window, kept),
            )


def _place(chosen: Sequence[str], name: str) -> int:
    """Return the place of the first of `chosen` that covers a stream."""
    return next(place for place, each in enumerate(chosen) if covers((each,), name))


def _read(
    engine: QueryEngine,
    name: str,
    names: tuple[str, ...],
    window: Last,
    kept: SummaryEntry | None = None,
) -> _StreamReading:
    """Return the answers about a stream, in a query thread; `kept` has its verdict if it is known.

    The list has it from before the start, if nothing came since: a verdict takes the most time.
    """
    try:
        view = engine.view(name)
        recent, whole = (
            engine.snapshot(
                engine.resolve(Selection(name, span), view=view),
                MetricSelection(names, anytime=isinstance(span, AllTime)),
                hull=False,
            )
            for span in (window, AllTime())
        )
        verdict = verdict_pb2.Verdict()
        if kept is not None and kept.create_revision == view.info.create_revision:
            verdict.CopyFrom(kept.message().verdict)  # not the whole summary
        else:
            verdict.ParseFromString(engine.verdicts.of(view, projects=False).encoded)
        return _StreamReading(recent, whole, verdict)
    finally:
        engine.end()


def _metrics_of(settings: stream_pb2.StreamSettings) -> tuple[tuple[str, ...], int]:
    """Return a stream's metrics, and how many series it has at most."""
    series = SERIES_A_STREAM + settings.HasField("threshold")
    if settings.HasField("alarms"):
        series += len(settings.alarms.watches) * SERIES_A_WATCH + 1
    more = Place.POINT.names([field.name for field, _ in settings.ListFields()])
    if settings.scale == stream_pb2.SCALE_PROBABILITY:
        more += Place.CALIBRATION.names()
    return Place.MONITOR.names() + more, series + SERIES_A_METRIC * len(more)


def stream_families(readings: StreamReadings) -> Iterator[Metric]:
    """Yield the metric families of streams. An undefined metric has no series."""
    yield GaugeMetricFamily(
        "streameval_streams_left_out",
        "Streams without series, because there would be too many.",
        value=readings.left_out,
    )
    yield GaugeMetricFamily(
        "streameval_streams_missing",
        "Streams whose series are not computed yet, as after a start.",
        value=readings.missing,
    )
    yield from _metric_families(readings)
    yield from verdict_families({name: each.verdict for name, each in readings.by_name.items()})
    yield from alarm_families(readings.alarms)
    yield from pair_families(readings.pairs)
    yield from projection_families(readings.projections)
    yield from _counts(readings)


def _metric_families(readings: StreamReadings) -> Iterator[Metric]:
    """Yield the families of each metric that a stream has, and of the declared thresholds."""
    families: dict[str, list[GaugeMetricFamily]] = {}
    threshold = GaugeMetricFamily(
        "streameval_threshold",
        "The declared threshold, at which precision and the other rates are.",
        labels=("stream",),
    )
    for name, reading in readings.by_name.items():
        for window, snapshot in zip(_WINDOWS, (reading.recent, reading.whole), strict=True):
            for metric in snapshot.metrics:
                if metric.name not in families:
                    families[metric.name] = _families_of(metric.name)
                _add(families[metric.name], (name, window), metric)
        if reading.whole.HasField("operating_point"):
            threshold.add_metric((name,), reading.whole.operating_point.threshold)
    for each in families.values():
        yield from each
    yield threshold


def _families_of(name: str) -> list[GaugeMetricFamily]:
    """Return the families of a metric: its value, and the limits of its interval."""
    title, unit = BY_NAME[name].title, ""
    if BY_NAME[name].unit == "cost":
        unit = ", in the unit of the costs that the stream declares"
    return [
        GaugeMetricFamily(f"streameval_{name}{suffix}", help_, labels=("stream", "window"))
        for suffix, help_ in (
            ("", f"{title} of the recent window, or of all time{unit}."),
            (
                "_lower",
                f"{title}: lower limit of its 95 % interval; of all time: however often one looks.",
            ),
            ("_upper", f"{title}: upper limit of the same."),
        )
    ]


def _add(
    families: Sequence[GaugeMetricFamily], labels: tuple[str, ...], metric: types_pb2.Metric
) -> None:
    value, lower, upper = families
    if metric.HasField("value"):
        value.add_metric(labels, metric.value)
    if metric.interval.HasField("lower"):
        lower.add_metric(labels, metric.interval.lower)
        upper.add_metric(labels, metric.interval.upper)


def _counts(readings: StreamReadings) -> Iterator[Metric]:
    references = GaugeMetricFamily(
        "streameval_references",
        "References that count, misses included.",
        labels=("stream", "window", "class"),
    )
    coverage = GaugeMetricFamily(
        "streameval_coverage",
        "Share of the predictions whose label counts.",
        labels=("stream", "window"),
    )
    delay = HistogramMetricFamily(
        "streameval_label_delay_seconds",
        "The time from a prediction to its label, of all time.",
        labels=("stream",),
    )
    predictions = CounterMetricFamily(
        "streameval_predictions", "Predictions by id that arrived.", labels=("stream",)
    )
    states = {
        state: GaugeMetricFamily(f"streameval_{state}", help_, labels=("stream",))
        for state, help_ in (
            ("labelled", "Predictions whose label counts."),
            ("pending", "Predictions that wait for their label."),
            ("expired", "Predictions whose label did not come in time."),
        )
    }
    for name, reading in readings.by_name.items():
        for window, snapshot in zip(_WINDOWS, (reading.recent, reading.whole), strict=True):
            references.add_metric((name, window, "positive"), snapshot.num_positive_ref)
            references.add_metric((name, window, "negative"), snapshot.num_negative_ref)
            if snapshot.coverage.HasField("labelled_share"):
                coverage.add_metric((name, window), snapshot.coverage.labelled_share)
        if reading.whole.HasField("coverage"):
            counts = reading.whole.coverage
            predictions.add_metric((name,), counts.predictions)
            for state, family in states.items():
                family.add_metric((name,), getattr(counts, state))
            if counts.HasField("delay_histogram"):
                add_histogram(delay, (name,), counts.delay_histogram)
    yield from (references, coverage, delay, predictions, *states.values())
