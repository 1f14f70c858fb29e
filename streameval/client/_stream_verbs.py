"""The verbs of one stream that `Stream` and `AsyncStream` share.

Each verb checks its arguments and builds a request; the stream's connection makes the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar, Unpack

from streameval._common.errors import InvalidInputError
from streameval._common.values import shown
from streameval._counts.columns import check_count
from streameval._time.times import to_us
from streameval.client._buffer.case_verbs import CaseVerbs
from streameval.client._buffer.id_verbs import IdVerbs
from streameval.client._delivery.connection import BaseConnection, verb
from streameval.client._delivery.merge_upload import Upload
from streameval.client._wire import calls, decode
from streameval.client._wire.answers import SegmentRanking
from streameval.client._wire.calls import Call, all_pages
from streameval.client._wire.reader import read
from streameval.client._wire.selection import Part, Selection, check_names, duration, time_range
from streameval.client._wire.stream_series import read_series
from streameval.client._wire.verdicts import read_verdict
from streameval.v1 import query_pb2, verdict_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from typing import Literal

    import numpy as np

    from streameval._common.spans import Segment, Span
    from streameval._evaluator import Evaluator
    from streameval._metrics.curves import RocHull
    from streameval._metrics.operating_points import OperatingPoints
    from streameval._snapshot import Snapshot
    from streameval._time.windowed import WindowedEvaluator
    from streameval._verdict.verdict import Verdict
    from streameval.client._delivery.merge_upload import MergeState
    from streameval.client._wire.answers import StreamLabelSample, StreamReliability
    from streameval.client._wire.selection import Window
    from streameval.client._wire.stream_series import StreamSeries
    from streameval.v1 import types_pb2

W = TypeVar("W")
"""What `watch` returns: an iterator of snapshots, or an asynchronous one."""

_HEARTBEAT_MS = 10_000
"""A watch is not silent for longer: proxies end calls that are, most of them after a minute."""
_MAX_BINS = 2**32 - 1
"""A larger number is no field of a message; the server refuses it as it is."""
_STRATEGIES = {
    "width": query_pb2.RELIABILITY_BINS_WIDTH,
    "mass": query_pb2.RELIABILITY_BINS_MASS,
}


class StreamVerbs(CaseVerbs, IdVerbs, Generic[W]):
    """The verbs of one stream of one server."""

    def __init__(self, connection: BaseConnection, name: str) -> None:
        super().__init__(connection.buffer, name)
        self._connection = connection

    def _selected(self, part: Part) -> types_pb2.Selection:
        """Return the selection of an answer that includes all rows a `flush` has waited for."""
        return self.select(**part).to_message(self._connection.revision)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of {self._connection.address!r}>"

    @verb
    async def flush(self, timeout_s: float | None = 30.0) -> int:
        """Wait until everything added to the *client* so far is durable.

        The same as `Client.flush`: the batches of all streams share one sequence.
        """
        return await self._connection.flush(timeout_s)

    @verb
    async def merge(
        self,
        states: Evaluator | WindowedEvaluator | Iterable[MergeState],
        *,
        source: str,
        epoch: int,
        at: datetime | np.datetime64 | None = None,
        segments: Mapping[str, str] | None = None,
        timeout_s: float | None = 30.0,
    ) -> int:
        """Add counts from elsewhere: from an edge process, a batch job, a cluster.

        When this returns, all of them count, durably. Repeating a merge with the
        same epoch does not count it again.

        Parameters
        ----------
        states : Evaluator, WindowedEvaluator or iterable of MergeState
            The counts. Each pane of a WindowedEvaluator counts in its own time.
        source : str
            Name of the process that counted; 1 to 128 bytes of UTF-8.
        epoch : int
            Number of this merge, rising for each source. An epoch that is not
            above the source's last one on the server is a repetition and changes
            nothing.
        at : datetime or datetime64, optional
            A time in the pane where an Evaluator counts; without it, the counts
            appear in all-time figures only.
        segments : mapping of str to str, optional
            The slices where it counts.
        timeout_s : float or None
            The longest wait, repetitions included, in seconds; None waits without
            limit.

        Returns
        -------
        int
            The log revision that includes it.

        Raises
        ------
        InvalidInputError, InvalidRequestError
            When an argument is invalid, or does not fit the stream.
        UnavailableError, DeadlineError
            When it is unknown whether the merge is durable; repeat it with the
            same epoch.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> from streameval.client import Client
        >>> stream = Client("localhost:50051").stream("fraud/v3")
        >>> stream.merge(Evaluator(), source="edge-7", epoch=0)
        Traceback (most recent call last):
        streameval.InvalidInputError: epoch must be an integer from 1 to 2^63 - 1, got 0
        """
        upload = Upload(self.name, states, source=source, epoch=epoch, at=at, segments=segments)
        return await self._connection.merge(upload, timeout_s)

    def select(self, **part: Unpack[Part]) -> Selection:
        """Return a selection of the stream's cases, for `Client.compare`.

        Parameters
        ----------
        window, half_life, segment, mature_after
            As of `Selection`.

        Raises
        ------
        InvalidInputError
            When one is invalid.
        """
        return Selection(stream=self.name, **part)

    @verb
    async def snapshot(
        self,
        *,
        metrics: Iterable[str] | None = None,
        level: float = 0.95,
        anytime: bool = False,
        projection: bool = False,
        **part: Unpack[Part],
    ) -> Snapshot:
        """Return figures with their intervals, and the coverage: how many cases are labelled.

        Parameters
        ----------
        window, half_life, segment, mature_after
            Which cases: see `Selection`.
        metrics : list of str, optional
            Which figures, by name; by default the six that are attributes of
            `Snapshot`. Others are in its ``figures``.
        level : float
            Nominal coverage of intervals.
        anytime : bool
            Intervals that stay valid at repeated looks. All time only.
        projection : bool
            Also ``projection``: what the window will read once its labels are in. For a
            window of the whole stream whose labels come by id; some tenths of a second.

        Raises
        ------
        InvalidInputError, InvalidRequestError
            When an argument is invalid, or does not fit the stream.
        NotFoundError
            When there is no such stream.
        UnavailableError
            When there is no server at the address.
        DeadlineError
            When the server does not answer in time.
        """
        call = calls.snapshot(
            self.select(**part),
            self._connection.revision,
            metrics,
            level=level,
            anytime=anytime,
            projection=projection,
        )
        return await self._connection.ask(call)

    def watch(
        self,
        *,
        metrics: Iterable[str] | None = None,
        min_interval: Span | None = None,
        level: float = 0.95,
        anytime: bool = False,
        **part: Unpack[Part],
    ) -> W:
        """Yield a snapshot at once, and the newest one after each change.

        Nothing queues up: a slow reader skips snapshots and gets the newest. To
        end the watch, close the iterator or drop its last reference.

        Parameters
        ----------
        window, half_life, segment, mature_after
            Which cases: see `Selection`.
        metrics, level, anytime
            As in `snapshot`.
        min_interval : timedelta or text, optional
            The shortest time between two snapshots; 100 ms by default, which is
            also the minimum.

        Raises
        ------
        InvalidInputError, NotFoundError
            As `snapshot`; NotFoundError also when the stream is deleted.
        UnavailableError
            When the server stops, or does not answer.
        """
        request = query_pb2.WatchSnapshotRequest(
            selection=self._selected(part),
            metrics=check_names(metrics),
            level=level,
            anytime=anytime,
        )
        if min_interval is not None:
            request.min_interval.CopyFrom(duration(min_interval, field="min_interval"))
        request.heartbeat.FromMilliseconds(_HEARTBEAT_MS)
        call = Call(request, lambda response: decode.read_snapshot(response.snapshot))
        found: W = self._connection.transport.watch(call)
        return found

    @verb
    async def evaluator(self, **part: Unpack[Part]) -> Evaluator:
        """Return the state as an `Evaluator`, which computes every metric locally.

        Parameters
        ----------
        window, half_life, segment, mature_after
            Which cases: see `Selection`. With a half-life they are weighted.

        Raises
        ------
        InvalidInputError, NotFoundError, UnavailableError, DeadlineError
            As `snapshot`.
        CorruptStateError
            When the state arrived incomplete or damaged.

        Notes
        -----
        Transfers the whole state: at most 4 MB with the server's default limits.
        """
        return await self._connection.ask(
            calls.evaluator(self.select(**part), self._connection.revision)
        )

    @verb
    async def operating_points(
        self,
        *,
        max_points: int | None = None,
        **part: Unpack[Part],
    ) -> OperatingPoints:
        """Return the operating points: all of them, or as many as a plot needs.

        Parameters
        ----------
        max_points : int, optional
            About how many points to return at most, 1 or more: the server thins
            them and always keeps the hull's vertices. Without it, all points, from
            the whole state.
        window, half_life, segment, mature_after
            Which cases: see `Selection`. With a half-life they are weighted.

        Raises
        ------
        InvalidInputError, NotFoundError, UnavailableError, DeadlineError
            As `snapshot`.
        """
        if max_points is None:
            state = await self._connection.ask(
                calls.evaluator(self.select(**part), self._connection.revision)
            )
            return state.operating_points()
        if max_points < 1:
            message = f"max_points must be 1 or more, got {max_points}"
            raise InvalidInputError(message, field="max_points")
        request = query_pb2.GetCurveRequest(
            selection=self._selected(part),
            kind=query_pb2.CURVE_KIND_OPERATING_POINTS,
            max_points=max_points,
        )
        return await self._connection.ask(Call(request, decode.read_points))

    @verb
    async def roc_hull(self, **part: Unpack[Part]) -> RocHull:
        """Return the vertices of the ROC hull, which also define the achievable PR curve.

        Parameters
        ----------
        window, half_life, segment, mature_after
            Which cases: see `Selection`. With a half-life they are weighted.

        Raises
        ------
        InvalidInputError, NotFoundError, UnavailableError, DeadlineError
            As `snapshot`.
        """
        request = query_pb2.GetCurveRequest(
            selection=self._selected(part), kind=query_pb2.CURVE_KIND_HULL
        )
        return await self._connection.ask(Call(request, decode.read_hull))

    @verb
    async def reliability(
        self,
        bins: int = 10,
        *,
        strategy: Literal["width", "mass"] = "width",
        level: float = 0.95,
        **part: Unpack[Part],
    ) -> StreamReliability:
        """Return whether scores are probabilities: the reliability table and its figures.

        Parameters
        ----------
        bins : int
            How many, from 1 to 100. Those without cases are left out.
        strategy : {"width", "mass"}
            Bins of equal width over [0, 1], or of about equal count.
        window, half_life, segment, mature_after
            Which cases: see `Selection`. With a half-life they are weighted.
        level : float
            Nominal coverage of intervals.

        Raises
        ------
        PreconditionError
            When a score is outside [0, 1].
        InvalidInputError, InvalidRequestError, NotFoundError, UnavailableError, DeadlineError
            As `snapshot`.
        """
        if strategy not in _STRATEGIES:
            message = f"strategy must be 'width' or 'mass', got {shown(strategy)}"
            raise InvalidInputError(message, field="strategy")
        if check_count(bins, field="bins") < 1:
            raise InvalidInputError("bins must be at least 1, got 0", field="bins")
        request = query_pb2.GetReliabilityRequest(
            selection=self._selected(part),
            bins=min(bins, _MAX_BINS),
            strategy=_STRATEGIES[strategy],
            level=level,
        )
        call = Call(request, lambda response: decode.read_reliability(response, level))
        return await self._connection.ask(call)

    @verb
    async def series(
        self,
        start: datetime,
        end: datetime,
        step: Span,
        *,
        segment: Segment | None = None,
        mature_after: Span | None = None,
        metrics: Iterable[str] | None = None,
        level: float = 0.95,
        projection: bool = False,
        min_positives: int = 0,
    ) -> StreamSeries:
        """Return a time series: one snapshot for each step, also for steps without cases.

        Since when a stream is lower is told by its `verdict`.

        Parameters
        ----------
        start, end : datetime
            The span [start, end), widened to whole panes.
        step : timedelta or text
            Width of one snapshot's window, widened to whole panes.
        segment, mature_after
            Which cases: see `Selection`.
        metrics : list of str, optional
            Which figures; auc_pr and auc_roc by default.
        level : float
            Nominal coverage of intervals.
        projection : bool
            Also what each row will read once its labels are in, of ``auc_roc`` and
            ``auc_pr`` as far as they are among `metrics`; some tenths of a second a row.
        min_positives : int
            Neighbouring steps are one snapshot until it has this many positives, so that
            all are about equally well known. The newest may have fewer, and steps without
            cases before such a snapshot are one of their own.

        Raises
        ------
        InvalidInputError, NotFoundError, UnavailableError, DeadlineError
            As `snapshot`.
        """
        time_range(start, end)
        selection = self.select(window=(start, end), segment=segment, mature_after=mature_after)
        request = query_pb2.ListWindowsRequest(
            selection=selection.to_message(self._connection.revision),
            step=duration(step, field="step"),
            metrics=check_names(metrics),
            level=level,
            projection=projection,
            min_positives=check_count(min_positives, field="min_positives"),
        )
        pages = await self._connection.ask_pages(all_pages(request))
        return read_series(pages)

    @verb
    async def rank_segments(
        self,
        key: str = "",
        *,
        metric: str = "auc_pr",
        window: Window = None,
        half_life: Span | None = None,
        mature_after: Span | None = None,
        level: float = 0.95,
        min_references: int = 0,
    ) -> SegmentRanking:
        """Return slices by how much worse each is than the rest, the worst first.

        Parameters
        ----------
        key : str
            A declared segment key; all of them by default.
        metric : str
            "auc_pr", "average_precision", "auc_roc"; of streams that declare a threshold
            also a metric at one, such as "recall", and where they declare costs what
            errors cost. Areas of precision and recall are all at one prevalence, the
            greatest that a slice has.
        window, half_life, mature_after
            Which cases: see `Selection`.
        level : float
            Nominal coverage of intervals.
        min_references : int
            Leaves out slices with fewer positives or fewer negatives; p-values are adjusted
            for the remaining slices.

        Raises
        ------
        InvalidInputError, InvalidRequestError, NotFoundError, UnavailableError, DeadlineError
            As `snapshot`.
        """
        part = Part(window=window, half_life=half_life, mature_after=mature_after)
        request = query_pb2.RankSegmentsRequest(
            selection=self._selected(part),
            key=key,
            metric=metric,
            level=level,
            min_references=check_count(min_references, field="min_references"),
        )
        call = Call(request, lambda response: read(response, SegmentRanking))
        return await self._connection.ask(call)

    @verb
    async def verdict(self, at: datetime | None = None) -> Verdict:
        """Return whether the stream became worse, since when and because of which segments.

        Parameters
        ----------
        at : datetime, optional
            For when to ask, with a zone; now by default. It moves what is said of the flow of
            rows and labels; the evidence is always the newest.

        Raises
        ------
        InvalidInputError, InvalidRequestError
            When the time is invalid.
        NotFoundError, UnavailableError, DeadlineError
            As `snapshot`.
        """
        request = verdict_pb2.GetVerdictRequest(
            stream=self.name, min_revision=self._connection.revision
        )
        if at is not None:
            request.at.FromMicroseconds(to_us(at, field="at"))
        call = Call(request, lambda response: read_verdict(response.verdict))
        return await self._connection.ask(call)

    @verb
    async def sample_for_labels(
        self,
        size: int,
        *,
        metric: str = "auc_pr",
        threshold: float | None = None,
        prevalence: float | None = None,
        seed: int | None = None,
        draw_ids: bool = True,
        window: Window = None,
        segment: Segment | None = None,
        mature_after: Span | None = None,
    ) -> StreamLabelSample:
        """Return which predictions to label next, so that a figure is known best.

        Send each drawn label with its probability, and no other label of a prediction that
        waited at the draw: then the window's figures estimate what all labels would give.

        Parameters
        ----------
        size : int
            How many to label, 1 or more and at most as many as wait; with ids at most 20,000.
        metric : str
            The figure that the labels are to narrow most; one with a gradient.
        threshold, prevalence : float, optional
            For figures that take them; the threshold is the stream's by default.
        seed : int, optional
            From 0 to 2^64 - 1; a random one by default, which the answer has. With the
            revision of the answer it repeats the draw: ``streameval admin sample``.
        draw_ids : bool
            Whether to draw ids, or only say how many of each band of score.
        window, segment, mature_after
            Which predictions, by event time: see `Selection`.

        Raises
        ------
        InvalidInputError, InvalidRequestError
            When an argument is invalid, or fewer than `size` wait.
        PreconditionError
            When no prediction waits, or where drawn labels cannot stand for the others.
        NotFoundError, UnavailableError, DeadlineError
            As `snapshot`.
        AccessError
            When the token lacks the scope ``sample``: ids may be personal data.
        """
        selection = self.select(window=window, segment=segment, mature_after=mature_after)
        call = calls.sample_for_labels(
            selection,
            self._connection.revision,
            size,
            metric=metric,
            threshold=threshold,
            prevalence=prevalence,
            seed=seed,
            draw_ids=draw_ids,
        )
        return await self._connection.ask(call)
