"""Figures of streams for Prometheus: asked of the same methods as everybody asks.

Each stream has so many series at most, so a limit on series is one on streams: the
first by name are shown, and a gauge says how many are not. What did not change since
it was asked for costs its copying: answers are kept by the parts that they were made
of, and a comparison for as long as the stream and the recent window stay the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from streameval.v1 import query_pb2, stream_pb2, types_pb2
from streameval_server._model.errors import Code, RequestError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from prometheus_client.core import Metric

    from streameval_server._grpc.methods import Methods

FIGURES = ("auc_pr", "auc_roc")
COMPARED = "auc_pr"
SERIES_A_STREAM = 28
"""Three for each figure and window, three of the difference, and the counts."""

REFERENCE_WINDOWS = 24
"""The recent window is compared with the rest of so many of its length."""

DIFFERENCE_LEVEL = 0.99
"""Of the interval of the difference: alerts look at it again and again."""

_WINDOWS = ("recent", "all")
_PAGE = 1000

_QUERY = "streameval.v1.QueryService"
_STREAMS = "streameval.v1.StreamService"


@dataclass(slots=True)
class _Known:
    """One stream, and its comparison for as long as it stays the same."""

    recent: types_pb2.Snapshot
    whole: types_pb2.Snapshot
    state: bytes
    difference: types_pb2.Metric | None


@dataclass(slots=True)
class StreamsSeen:
    """The streams at one time.

    Attributes
    ----------
    known : dict of str to _Known
        Those that are shown, by name.
    left_out : int
        How many are not.
    """

    known: dict[str, _Known] = field(default_factory=dict)
    left_out: int = 0


class StreamMetrics:
    """Asks about streams, on behalf of whoever's call this is.

    Parameters
    ----------
    methods
        The server's.
    window_s
        The recent window.
    max_series
        How many series all streams together may have.
    """

    def __init__(self, methods: Methods, *, window_s: float, max_series: int) -> None:
        self._list = methods.find(f"{_STREAMS}/ListStreams")
        self._snapshot = methods.find(f"{_QUERY}/GetSnapshot")
        self._compare = methods.find(f"{_QUERY}/CompareStreams")
        self._window_us = round(window_s * 1e6)
        self._most = max_series // SERIES_A_STREAM

    async def seen(self, before: StreamsSeen) -> StreamsSeen:
        """Return the streams now, given what was seen before."""
        seen = StreamsSeen()
        async for name in self._names():
            if len(seen.known) == self._most:
                seen.left_out += 1
                continue
            try:
                seen.known[name] = await self._stream(name, before.known.get(name))
            except RequestError as error:
                if error.code is not Code.NOT_FOUND:  # it was deleted meanwhile
                    raise
        return seen

    async def _names(self) -> AsyncIterator[str]:
        token = ""
        while True:
            request = stream_pb2.ListStreamsRequest(page_size=_PAGE, page_token=token)
            page: Any = await self._list.answer(request)
            for stream in page.streams:
                yield stream.name
            token = page.next_page_token
            if not token:
                return

    async def _stream(self, name: str, before: _Known | None) -> _Known:
        recent, reference = self._selection(name, 1), self._selection(name, REFERENCE_WINDOWS)
        now = await self._asked(recent)
        whole = await self._asked(types_pb2.Selection(stream=name), anytime=True)
        # Both windows end at the clock's pane and move together.
        state = _without_revisions(now, whole)
        if before is not None and before.state == state:
            difference = before.difference
        else:
            difference = await self._difference(recent, reference)
        return _Known(now, whole, state, difference)

    def _selection(self, name: str, windows: int) -> types_pb2.Selection:
        selection = types_pb2.Selection(stream=name)
        selection.last.FromMicroseconds(windows * self._window_us)
        return selection

    async def _asked(
        self, selection: types_pb2.Selection, *, anytime: bool = False
    ) -> types_pb2.Snapshot:
        answer: Any = await self._snapshot.answer(
            query_pb2.GetSnapshotRequest(selection=selection, metrics=FIGURES, anytime=anytime)
        )
        snapshot: types_pb2.Snapshot = answer.snapshot
        snapshot.ClearField("hull")
        return snapshot

    async def _difference(
        self, recent: types_pb2.Selection, reference: types_pb2.Selection
    ) -> types_pb2.Metric | None:
        request = query_pb2.CompareStreamsRequest(
            a=recent, b=reference, metric=COMPARED, level=DIFFERENCE_LEVEL
        )
        try:
            answer: Any = await self._compare.answer(request)
        except RequestError as error:
            # Where panes are wider than both they are the same cases.
            if error.code is not Code.FAILED_PRECONDITION:
                raise
            return None
        difference: types_pb2.Metric = answer.difference
        return difference


def _without_revisions(*snapshots: types_pb2.Snapshot) -> bytes:
    """Return what differs once the answers do; other streams' entries count for nothing."""
    parts = []
    for snapshot in snapshots:
        copy = types_pb2.Snapshot()
        copy.CopyFrom(snapshot)
        copy.revision = 0
        parts.append(copy.SerializeToString(deterministic=True))
    return b"".join(parts)


def stream_families(seen: StreamsSeen) -> Iterator[Metric]:
    """Yield the metrics of streams. An undefined figure has no series."""
    yield GaugeMetricFamily(
        "streameval_streams_left_out",
        "Streams without series, because there would be too many.",
        value=seen.left_out,
    )
    yield from _figures(seen)
    yield from _counts(seen)


def _figures(seen: StreamsSeen) -> Iterator[Metric]:
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
    changed = [
        GaugeMetricFamily(f"streameval_figure_difference{suffix}", help_, labels=labels[:2])
        for suffix, help_ in (
            ("", "The recent window's figure minus that of the windows before."),
            ("_lower", "Lower limit of its 99 % interval."),
            ("_upper", "Upper limit of the same."),
        )
    ]
    for name, known in seen.known.items():
        for window, snapshot in zip(_WINDOWS, (known.recent, known.whole), strict=True):
            for metric in snapshot.metrics:
                _add((value, lower, upper), (name, metric.name, window), metric)
        if known.difference is not None:
            _add(changed, (name, COMPARED), known.difference)
    yield from (value, lower, upper, *changed)


def _add(families: Any, labels: tuple[str, ...], metric: types_pb2.Metric) -> None:
    value, lower, upper = families
    if metric.HasField("value"):
        value.add_metric(labels, metric.value)
    if metric.interval.HasField("lower"):
        lower.add_metric(labels, metric.interval.lower)
        upper.add_metric(labels, metric.interval.upper)


def _counts(seen: StreamsSeen) -> Iterator[Metric]:
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
    delay = GaugeMetricFamily(
        "streameval_label_delay_seconds",
        "Percentiles of the time labels took, of all time.",
        labels=("stream", "percentile"),
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
    for name, known in seen.known.items():
        for window, snapshot in zip(_WINDOWS, (known.recent, known.whole), strict=True):
            references.add_metric((name, window, "positive"), snapshot.num_positive_ref)
            references.add_metric((name, window, "negative"), snapshot.num_negative_ref)
            if snapshot.coverage.HasField("labelled_share"):
                coverage.add_metric((name, window), snapshot.coverage.labelled_share)
        if known.whole.HasField("coverage"):
            counts = known.whole.coverage
            predictions.add_metric((name,), counts.predictions)
            for state, family in states.items():
                family.add_metric((name,), getattr(counts, state))
            for each in counts.delays:
                delay.add_metric(
                    (name, f"{100 * each.quantile:g}"), each.delay.ToMicroseconds() / 1e6
                )
    yield from (references, coverage, delay, predictions, *states.values())
