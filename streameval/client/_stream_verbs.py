"""The verbs of one stream: what is added to it, and what is asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval.client._buffer.case_verbs import CaseVerbs
from streameval.client._buffer.id_verbs import IdVerbs
from streameval.client._delivery.merge_upload import Upload
from streameval.client._wire import calls as _questions
from streameval.client._wire.selection import SelectionMixin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime, timedelta

    import numpy as np

    from streameval._evaluator import Evaluator
    from streameval._metrics.curves import RocHull
    from streameval._metrics.operating_points import OperatingPoints
    from streameval._snapshot import Snapshot
    from streameval._time.windowed import WindowedEvaluator
    from streameval.client._delivery.connection import Core
    from streameval.client._delivery.merge_upload import MergeState
    from streameval.client._wire.answers import SegmentRanking
    from streameval.client._wire.selection import Window


class Stream(CaseVerbs, IdVerbs, SelectionMixin):
    """One stream of a server: everything about one model version.

    `Client.stream` makes it; any number of them, in any threads, may stand for
    the same stream. The methods that add return at once; a thread sends what
    they added. Answers include everything that a `flush` has waited for.

    Wherever methods take ``window``, ``half_life``, ``segment`` and
    ``mature_after``, they choose which cases count, as in `Selection`: all of
    them by default.
    """

    def __init__(self, core: Core, name: str) -> None:
        super().__init__(core.buffer, name)
        self._core = core

    def __repr__(self) -> str:
        return f"<Stream {self.name!r} of {self._core.transport.address!r}>"

    def flush(self, timeout: float | None = 30.0) -> int:
        """Wait until everything added to the *client* so far is durable.

        The same as `Client.flush`: batches of all streams travel in one order.
        """
        return self._core.worker.flush(timeout)

    def merge(
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
        return self._core.merge(upload, timeout)

    # -- asking ------------------------------------------------------------------

    def snapshot(
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
        chosen = self.select(
            window=window, half_life=half_life, segment=segment, mature_after=mature_after
        )
        return self._core.ask(
            _questions.snapshot(chosen, self._core.revision, metrics, level=level, anytime=anytime)
        )

    def evaluator(
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
        chosen = self.select(
            window=window, half_life=half_life, segment=segment, mature_after=mature_after
        )
        return self._core.ask(_questions.evaluator(chosen, self._core.revision))

    def operating_points(
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
        chosen = self.select(
            window=window, half_life=half_life, segment=segment, mature_after=mature_after
        )
        if max_points is None:
            return self._core.ask(
                _questions.evaluator(chosen, self._core.revision)
            ).operating_points()
        return self._core.ask(_questions.operating_points(chosen, self._core.revision, max_points))

    def roc_hull(
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
        chosen = self.select(
            window=window, half_life=half_life, segment=segment, mature_after=mature_after
        )
        return self._core.ask(_questions.roc_hull(chosen, self._core.revision))

    def series(
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
        chosen = _questions.spanned(self.name, start, end, segment, mature_after)
        return self._core.run(
            _questions.series(chosen, self._core.revision, step, metrics, level=level)
        )

    def watch(
        self,
        *,
        window: Window = None,
        half_life: timedelta | None = None,
        segment: tuple[str, str] | None = None,
        mature_after: timedelta | None = None,
        metrics: Iterable[str] | None = None,
        min_interval: timedelta | None = None,
        level: float = 0.95,
        anytime: bool = False,
    ) -> Iterator[Snapshot]:
        """Yield a snapshot at once, and the newest whenever it is another.

        Nothing queues up: who reads slowly misses some, and gets the newest.
        Close the iterator, or drop it, to end it.

        Parameters
        ----------
        window, half_life, segment, mature_after
            Which cases: see `Selection`.
        metrics, level, anytime
            As in `snapshot`.
        min_interval : timedelta, optional
            No more often than this; 100 ms, which is also the least.

        Raises
        ------
        InvalidInputError, NotFoundError
            As `snapshot`; NotFoundError also when the stream is deleted.
        UnavailableError
            When the server stops, or there is none.
        """
        chosen = self.select(
            window=window, half_life=half_life, segment=segment, mature_after=mature_after
        )
        return self._core.watch(
            _questions.watch(
                chosen,
                self._core.revision,
                metrics,
                min_interval=min_interval,
                level=level,
                anytime=anytime,
            )
        )

    def rank_segments(
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
        chosen = self.select(window=window, half_life=half_life, mature_after=mature_after)
        return self._core.ask(
            _questions.rank_segments(chosen, self._core.revision, key, metric=metric, level=level)
        )
