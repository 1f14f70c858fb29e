"""Metrics of streams for Prometheus, from the same methods that answer clients.

A stream has at most `SERIES_A_STREAM` series, `SERIES_A_METRIC` more for each metric at its
declared threshold and costs, and on the probability scale for each of calibration, one for the
threshold, and where it declares alarms `SERIES_A_WATCH` for each watch and one for all. So the
limit on series limits streams: streams that declare alarms come first, then streams
that had series before, then the others by name; a gauge counts the streams that do not fit. Pairs
get the series that streams leave, and projections the rest. An unchanged snapshot costs a copy,
because the query engine caches it by the parts that it was made of; a comparison is reused while
both snapshots of its stream stay the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)

from streameval.statistics import HEADLINE, Place
from streameval.v1 import alarm_pb2, query_pb2, stream_pb2, types_pb2, verdict_pb2
from streameval_server._model.errors import Code, RequestError
from streameval_server._queries.coverage_answers import DELAY_BOUNDS_S
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
    from collections.abc import AsyncIterator, Iterator

    from prometheus_client.core import Metric

    from streameval_server._grpc.methods import Methods

REFERENCE_WINDOWS = 24
"""The recent window is compared with the rest of a window this many times as long."""

DIFFERENCE_LEVEL = 0.99
"""Nominal coverage of the difference's interval: high, because alerts evaluate it repeatedly."""

_WINDOWS = ("recent", "all")
_COUNT_SERIES = 10 + len(DELAY_BOUNDS_S) + 3
"""References by window and class 4, coverage by window 2, predictions and states 4; of the
delays a bucket for each bound and one for all, count and sum."""

SERIES_A_METRIC = 3 * len(_WINDOWS)
"""Value and limits of each window."""

SERIES_A_STREAM = (
    SERIES_A_METRIC * len(Place.MONITOR.names()) + 3 + _COUNT_SERIES + SERIES_A_VERDICT
)
"""The metrics of every stream, the difference with its limits, the counts, and the verdict."""

_NAMES_A_PAGE = 1000

_QUERY = "streameval.v1.QueryService"
_STREAMS = "streameval.v1.StreamService"


@dataclass(slots=True)
class _StreamReading:
    """The answers about one stream; `state` tells whether the difference is still valid."""

    recent: types_pb2.Snapshot
    whole: types_pb2.Snapshot
    state: bytes
    difference: types_pb2.Metric | None
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
    methods
        The server's.
    window_s
        Length of the recent window.
    max_series
        Limit on the series of all streams together.
    """

    def __init__(self, methods: Methods, *, window_s: float, max_series: int) -> None:
        self._list = methods.find(f"{_STREAMS}/ListStreams")
        self._snapshot = methods.find(f"{_QUERY}/GetSnapshot")
        self._alarms = methods.find(f"{_STREAMS}/ListAlarms")
        self._verdict = methods.find(f"{_QUERY}/GetVerdict")
        self._compare = methods.find(f"{_QUERY}/CompareStreams")
        self._pairs = PairMetrics(methods)
        self._window_us = round(window_s * 1e6)
        self._max_series = max_series

    async def read(self, readings: StreamReadings, chosen: tuple[str, ...] | None = None) -> None:
        """Read the streams again, unread streams first.

        Parameters
        ----------
        readings : StreamReadings
            Renewed in place; comparisons that are still valid stay.
        chosen : tuple of str, optional
            Only these streams and those below them.
        """
        known = readings.by_name
        wanted, room = await self._wanted(readings, chosen)
        for name in known.keys() - wanted.keys():
            del known[name]
        readings.missing = len(wanted) - len(known)
        readings.alarms = await read_alarms(self._alarms, wanted)
        for name in sorted(wanted, key=lambda each: each in known):
            try:
                known[name] = await self._stream(name, wanted[name], known.get(name))
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
            lambda name: self._selection(name, 1),
        )

    async def _wanted(
        self, readings: StreamReadings, chosen: tuple[str, ...] | None
    ) -> tuple[dict[str, tuple[str, ...]], int]:
        """Return the streams that have series, each with its figures, and how many more may be.

        `readings.left_out` is set to the number of streams that do not fit.
        """
        listed = [each async for each in self._streams() if covers(chosen, each[0])]
        # Streams with alarms, then streams that have series already, so that none loses them.
        listed.sort(
            key=lambda each: (not each[1].HasField("alarms"), each[0] not in readings.by_name)
        )
        wanted: dict[str, tuple[str, ...]] = {}
        room = self._max_series
        for number, (name, settings) in enumerate(listed):
            figures, series = _figures_of(settings)
            if series > room:
                readings.left_out = len(listed) - number
                return wanted, 0
            room -= series
            wanted[name] = figures
        readings.left_out = 0
        return wanted, room

    async def _streams(self) -> AsyncIterator[tuple[str, stream_pb2.StreamSettings]]:
        """Yield the streams and their settings."""
        token = ""
        while True:
            request = stream_pb2.ListStreamsRequest(page_size=_NAMES_A_PAGE, page_token=token)
            page: Any = await self._list.answer(request)
            for stream in page.streams:
                yield stream.name, stream.settings
            token = page.next_page_token
            if not token:
                return

    async def _stream(
        self, name: str, figures: tuple[str, ...], before: _StreamReading | None
    ) -> _StreamReading:
        recent, reference = self._selection(name, 1), self._selection(name, REFERENCE_WINDOWS)
        now = await self._read_snapshot(recent, figures)
        whole = await self._read_snapshot(types_pb2.Selection(stream=name), figures, anytime=True)
        # Both windows end with the pane of the server's clock, so they move together.
        state = _without_revisions(now, whole)
        if before is not None and before.state == state:
            difference = before.difference
        else:
            difference = await self._difference(recent, reference)
        answer: Any = await self._verdict.answer(verdict_pb2.GetVerdictRequest(stream=name))
        return _StreamReading(now, whole, state, difference, answer.verdict)

    def _selection(self, name: str, windows: int) -> types_pb2.Selection:
        selection = types_pb2.Selection(stream=name)
        selection.last.FromMicroseconds(windows * self._window_us)
        return selection

    async def _read_snapshot(
        self,
        selection: types_pb2.Selection,
        figures: tuple[str, ...],
        *,
        anytime: bool = False,
    ) -> types_pb2.Snapshot:
        answer: Any = await self._snapshot.answer(
            query_pb2.GetSnapshotRequest(selection=selection, metrics=figures, anytime=anytime)
        )
        snapshot: types_pb2.Snapshot = answer.snapshot
        snapshot.ClearField("hull")
        return snapshot

    async def _difference(
        self, recent: types_pb2.Selection, reference: types_pb2.Selection
    ) -> types_pb2.Metric | None:
        request = query_pb2.CompareStreamsRequest(
            a=recent, b=reference, metric=HEADLINE, level=DIFFERENCE_LEVEL
        )
        try:
            answer: Any = await self._compare.answer(request)
        except RequestError as error:
            # Where one pane is wider than both windows, both hold the same cases.
            if error.code is not Code.FAILED_PRECONDITION:
                raise
            return None
        difference: types_pb2.Metric = answer.comparison.difference
        return difference


def _figures_of(settings: stream_pb2.StreamSettings) -> tuple[tuple[str, ...], int]:
    """Return a stream's figures, and how many series it has at most."""
    series = SERIES_A_STREAM + settings.HasField("threshold")
    if settings.HasField("alarms"):
        series += len(settings.alarms.watches) * SERIES_A_WATCH + 1
    more = Place.POINT.names([field.name for field, _ in settings.ListFields()])
    if settings.scale == stream_pb2.SCALE_PROBABILITY:
        more += Place.CALIBRATION.names()
    return Place.MONITOR.names() + more, series + SERIES_A_METRIC * len(more)


def _without_revisions(*snapshots: types_pb2.Snapshot) -> bytes:
    """Return bytes that differ where the answers do; the log's revision is left out."""
    parts = []
    for snapshot in snapshots:
        copy = types_pb2.Snapshot()
        copy.CopyFrom(snapshot)
        copy.revision = 0
        parts.append(copy.SerializeToString(deterministic=True))
    return b"".join(parts)


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
    yield from _figures(readings)
    yield from verdict_families({name: each.verdict for name, each in readings.by_name.items()})
    yield from alarm_families(readings.alarms)
    yield from pair_families(readings.pairs)
    yield from projection_families(readings.projections)
    yield from _counts(readings)


def _figures(readings: StreamReadings) -> Iterator[Metric]:
    labels = ("stream", "figure", "window")
    value = GaugeMetricFamily(
        "streameval_figure", "A figure of a recent window, or of all time.", labels=labels
    )
    lower = GaugeMetricFamily(
        "streameval_figure_lower",
        "Lower limit of its 95 % interval; of all time: however often one looks.",
        labels=labels,
    )
    upper = GaugeMetricFamily("streameval_figure_upper", "Upper limit of the same.", labels=labels)
    threshold = GaugeMetricFamily(
        "streameval_threshold",
        "The declared threshold, at which precision and the other rates are.",
        labels=labels[:1],
    )
    changed = [
        GaugeMetricFamily(f"streameval_figure_difference{suffix}", help_, labels=labels[:2])
        for suffix, help_ in (
            ("", "The recent window's figure minus the figure of the windows before."),
            ("_lower", "Lower limit of its 99 % interval."),
            ("_upper", "Upper limit of the same."),
        )
    ]
    for name, reading in readings.by_name.items():
        for window, snapshot in zip(_WINDOWS, (reading.recent, reading.whole), strict=True):
            for metric in snapshot.metrics:
                _add((value, lower, upper), (name, metric.name, window), metric)
        if reading.whole.HasField("operating_point"):
            threshold.add_metric((name,), reading.whole.operating_point.threshold)
        if reading.difference is not None:
            _add(changed, (name, HEADLINE), reading.difference)
    yield from (value, lower, upper, *changed, threshold)


def _add(families: Any, labels: tuple[str, ...], metric: types_pb2.Metric) -> None:
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
