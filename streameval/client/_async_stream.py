"""The verbs of one stream on an event loop: what is added to it, and what is asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval.client._buffer.case_verbs import CaseVerbs
from streameval.client._buffer.id_verbs import IdVerbs
from streameval.client._delivery.merge_upload import Upload
from streameval.client._wire import calls as _questions
from streameval.client._wire.selection import SelectionMixin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping
    from datetime import datetime, timedelta

    import numpy as np

    from streameval._evaluator import Evaluator
    from streameval._metrics.curves import RocHull
    from streameval._metrics.operating_points import OperatingPoints
    from streameval._snapshot import Snapshot
    from streameval._time.windowed import WindowedEvaluator
    from streameval.client._delivery.async_connection import AsyncCore
    from streameval.client._delivery.merge_upload import MergeState
    from streameval.client._wire.answers import SegmentRanking
    from streameval.client._wire.selection import Window


class AsyncStream(CaseVerbs, IdVerbs, SelectionMixin):
    """One stream of a server, for asyncio: the verbs of `Stream`.

    `AsyncClient.stream` makes it. The methods that add return at once, without
    ``await``; a task sends what they added. All others are awaited, with the
    parameters, results and errors of their twins.
    """

    def __init__(self, core: AsyncCore, name: str) -> None:
        super().__init__(core.buffer, name)
        self._core = core

    def __repr__(self) -> str:
        return f"<AsyncStream {self.name!r} of {self._core.transport.address!r}>"

    async def flush(self, timeout: float | None = 30.0) -> int:
        """Wait until everything added to the *client* so far is durable; as `Stream.flush`."""
        return await self._core.worker.flush(timeout)

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
        """Add what was counted elsewhere, once; as `Stream.merge`."""
        upload = Upload(self.name, states, source=source, epoch=epoch, at=at, segments=segments)
        return await self._core.merge(upload, timeout)

    # -- asking ------------------------------------------------------------------

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
        """Return figures, with intervals and coverage; as `Stream.snapshot`."""
        chosen = self.select(
            window=window, half_life=half_life, segment=segment, mature_after=mature_after
        )
        return await self._core.ask(
            _questions.snapshot(chosen, self._core.revision, metrics, level=level, anytime=anytime)
        )

    async def evaluator(
        self,
        *,
        window: Window = None,
        half_life: timedelta | None = None,
        segment: tuple[str, str] | None = None,
        mature_after: timedelta | None = None,
    ) -> Evaluator:
        """Return the state as an evaluator of its own; as `Stream.evaluator`."""
        chosen = self.select(
            window=window, half_life=half_life, segment=segment, mature_after=mature_after
        )
        return await self._core.ask(_questions.evaluator(chosen, self._core.revision))

    async def operating_points(
        self,
        *,
        max_points: int | None = None,
        window: Window = None,
        half_life: timedelta | None = None,
        segment: tuple[str, str] | None = None,
        mature_after: timedelta | None = None,
    ) -> OperatingPoints:
        """Return all operating points, or thinned; as `Stream.operating_points`."""
        chosen = self.select(
            window=window, half_life=half_life, segment=segment, mature_after=mature_after
        )
        if max_points is None:
            state = await self._core.ask(_questions.evaluator(chosen, self._core.revision))
            return state.operating_points()
        return await self._core.ask(
            _questions.operating_points(chosen, self._core.revision, max_points)
        )

    async def roc_hull(
        self,
        *,
        window: Window = None,
        half_life: timedelta | None = None,
        segment: tuple[str, str] | None = None,
        mature_after: timedelta | None = None,
    ) -> RocHull:
        """Return the vertices of the ROC hull; as `Stream.roc_hull`."""
        chosen = self.select(
            window=window, half_life=half_life, segment=segment, mature_after=mature_after
        )
        return await self._core.ask(_questions.roc_hull(chosen, self._core.revision))

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
        """Return a time series; as `Stream.series`."""
        chosen = _questions.spanned(self.name, start, end, segment, mature_after)
        return await self._core.run(
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
    ) -> AsyncIterator[Snapshot]:
        """Yield a snapshot at once, and the newest whenever it is another; as `Stream.watch`."""
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
        """Return slices by how much worse each is than the rest; as `Stream.rank_segments`."""
        chosen = self.select(window=window, half_life=half_life, mature_after=mature_after)
        return await self._core.ask(
            _questions.rank_segments(chosen, self._core.revision, key, metric=metric, level=level)
        )
