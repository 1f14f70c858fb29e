"""The verbs of one stream that the blocking and the asyncio client share.

Each builds a call and has the stream's connection make it. `flush` and `watch` are
in `_stream`: the one waits on a thread's lock or on an event loop, the other returns
an iterator of one kind or the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval.client._buffer.case_verbs import CaseVerbs
from streameval.client._buffer.id_verbs import IdVerbs
from streameval.client._delivery.connection import BaseConnection, verb
from streameval.client._delivery.merge_upload import Upload
from streameval.client._wire import calls
from streameval.client._wire.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime, timedelta

    import numpy as np

    from streameval._evaluator import Evaluator
    from streameval._metrics.curves import RocHull
    from streameval._metrics.operating_points import OperatingPoints
    from streameval._snapshot import Snapshot
    from streameval._time.windowed import WindowedEvaluator
    from streameval.client._delivery.merge_upload import MergeState
    from streameval.client._wire.answers import SegmentRanking
    from streameval.client._wire.selection import Window


class StreamVerbs(CaseVerbs, IdVerbs):
    """The verbs of one stream of one server."""

    def __init__(self, connection: BaseConnection, name: str) -> None:
        super().__init__(connection.buffer, name)
        self._connection = connection

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of {self._connection.address!r}>"

    @verb
    async def merge(
        self,
        states: Evaluator | WindowedEvaluator | Iterable[MergeState],
        *,
        source: str,
        epoch: int,
        at: datetime | np.datetime64 | None = None,
        segments: Mapping[str, str] | None = None,
        timeout: float | None = 30.0,
    ) -> int:
        """Add what was counted elsewhere: by an edge process, a batch job, a cluster.

        All of it counts, durably, when this returns; and once, however often it
        is repeated.

        Parameters
        ----------
        states : Evaluator, WindowedEvaluator or iterable of MergeState
            The counts. Each pane of a WindowedEvaluator counts in its own time.
        source : str
            Who counted them; 1 to 128 bytes of UTF-8.
        epoch : int
            Counts up with each merge of this source. One that is not above the
            last that the server has is a repetition, and changes nothing.
        at : datetime or datetime64, optional
            A time in the pane where an Evaluator counts; without it, it counts
            in all time only.
        segments : mapping of str to str, optional
            The slices where it counts.
        timeout : float or None
            At most so many seconds, repetitions included; None is for ever.

        Returns
        -------
        int
            The log revision that includes it.

        Raises
        ------
        InvalidInputError, InvalidRequestError
            When an argument is something else, or does not go with the stream.
        UnavailableError, DeadlineError
            When it is not known whether it is durable; repeat it with the same
            epoch.

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
        return await self._connection.merge(upload, timeout)

    def select(
        self,
        *,
        window: Window = None,
        half_life: timedelta | None = None,
        segment: tuple[str, str] | None = None,
        mature_after: timedelta | None = None,
    ) -> Selection:
        """Return some of the stream's cases by name, to compare them with others.

        Parameters
        ----------
        window, half_life, segment, mature_after
            As of `Selection`.

        Raises
        ------
        InvalidInputError
            When one is something else.
        """
        return Selection(
            stream=self.name,
            window=window,
            half_life=half_life,
            segment=segment,
            mature_after=mature_after,
        )

    @verb
    async def snapshot(
        self,
        *,
        window: Window = None,
        half_life: timedelta | None = None,
        segment: tuple[str, str] | None = None,
        mature_after: timedelta | None = None,
        metrics: Iterable[str] | None = None,
        level: float = 0.95,
        anytime: bool = False,
    ) -> Snapshot:
        """Return figures, with their intervals and with how much of the truth was seen.

        Parameters
        ----------
        window, half_life, segment, mature_after
            Which cases: see `Selection`.
        metrics : list of str, optional
            Which figures, by name; the six of a `Snapshot` by default. Others
            are in its ``figures``.
        level : float
            Nominal coverage of intervals.
        anytime : bool
            Intervals that hold however often one looks. All time only.

        Raises
        ------
        InvalidInputError, InvalidRequestError
            When an argument is something else, or does not go with the stream.
        NotFoundError
            When there is no such stream.
        UnavailableError
            When there is no server at the address.
        DeadlineError
            When it does not answer in time.
        """
        selection = self.select(
            window=window, half_life=half_life, segment=segment, mature_after=mature_after
        )
        return await self._connection.ask(
            calls.snapshot(
                selection, self._connection.revision, metrics, level=level, anytime=anytime
            )
        )

    @verb
    async def evaluator(
        self,
        *,
        window: Window = None,
        half_life: timedelta | None = None,
        segment: tuple[str, str] | None = None,
        mature_after: timedelta | None = None,
    ) -> Evaluator:
        """Return the state as an evaluator of its own: every metric, locally.

        Parameters
        ----------
        window, half_life, segment, mature_after
            Which cases: see `Selection`. With a half-life they are weighted.

        Raises
        ------
        InvalidInputError, NotFoundError, UnavailableError, DeadlineError
            As `snapshot`.
        CorruptStateError
            When the state did not arrive whole.

        Notes
        -----
        Transfers the whole state: at most 4 MB with the server's default limits.
        """
        selection = self.select(
            window=window, half_life=half_life, segment=segment, mature_after=mature_after
        )
        return await self._connection.ask(calls.evaluator(selection, self._connection.revision))

    @verb
    async def operating_points(
        self,
        *,
        max_points: int | None = None,
        window: Window = None,
        half_life: timedelta | None = None,
        segment: tuple[str, str] | None = None,
        mature_after: timedelta | None = None,
    ) -> OperatingPoints:
        """Return the operating points: all of them, or as many as a plot needs.

        Parameters
        ----------
        max_points : int, optional
            At most about so many, 1 or more: the server thins them, and always
            keeps the hull's vertices. Without it, all, from the whole state.
        window, half_life, segment, mature_after
            Which cases: see `Selection`. With a half-life they are weighted.

        Raises
        ------
        InvalidInputError, NotFoundError, UnavailableError, DeadlineError
            As `snapshot`.
        """
        selection = self.select(
            window=window, half_life=half_life, segment=segment, mature_after=mature_after
        )
        if max_points is None:
            state = await self._connection.ask(
                calls.evaluator(selection, self._connection.revision)
            )
            return state.operating_points()
        return await self._connection.ask(
            calls.operating_points(selection, self._connection.revision, max_points)
        )

    @verb
    async def roc_hull(
        self,
        *,
        window: Window = None,
        half_life: timedelta | None = None,
        segment: tuple[str, str] | None = None,
        mature_after: timedelta | None = None,
    ) -> RocHull:
        """Return the vertices of the ROC hull, which are those of the achievable PR curve.

        Parameters
        ----------
        window, half_life, segment, mature_after
            Which cases: see `Selection`. With a half-life they are weighted.

        Raises
        ------
        InvalidInputError, NotFoundError, UnavailableError, DeadlineError
            As `snapshot`.
        """
        selection = self.select(
            window=window, half_life=half_life, segment=segment, mature_after=mature_after
        )
        return await self._connection.ask(calls.roc_hull(selection, self._connection.revision))

    @verb
    async def series(
        self,
        start: datetime,
        end: datetime,
        step: timedelta,
        *,
        segment: tuple[str, str] | None = None,
        mature_after: timedelta | None = None,
        metrics: Iterable[str] | None = None,
        level: float = 0.95,
    ) -> list[Snapshot]:
        """Return a time series: one snapshot for each step, also where there are no cases.

        Parameters
        ----------
        start, end : datetime
            The span [start, end), widened to whole panes.
        step : timedelta
            Width of one, widened to whole panes.
        segment, mature_after
            Which cases: see `Selection`.
        metrics : list of str, optional
            Which figures; auc_pr and auc_roc by default.
        level : float
            Nominal coverage of intervals.

        Raises
        ------
        InvalidInputError, NotFoundError, UnavailableError, DeadlineError
            As `snapshot`.
        """
        selection = calls.series_selection(self.name, start, end, segment, mature_after)
        return await self._connection.ask_pages(
            calls.series(selection, self._connection.revision, step, metrics, level=level)
        )

    @verb
    async def rank_segments(
        self,
        key: str = "",
        *,
        metric: str = "auc_pr",
        window: Window = None,
        half_life: timedelta | None = None,
        mature_after: timedelta | None = None,
        level: float = 0.95,
    ) -> SegmentRanking:
        """Return slices by how much worse each is than the rest, the worst first.

        Parameters
        ----------
        key : str
            A declared segment key; all of them by default.
        metric : {"auc_pr", "average_precision", "auc_roc"}
            The figure; those of precision and recall at one common prevalence.
        window, half_life, mature_after
            Which cases: see `Selection`.
        level : float
            Nominal coverage of intervals.

        Raises
        ------
        InvalidInputError, InvalidRequestError, NotFoundError, UnavailableError, DeadlineError
            As `snapshot`.
        """
        selection = self.select(window=window, half_life=half_life, mature_after=mature_after)
        return await self._connection.ask(
            calls.rank_segments(
                selection, self._connection.revision, key, metric=metric, level=level
            )
        )
