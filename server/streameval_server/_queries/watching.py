"""Watch: the newest snapshot whenever its stream moved, as often as the reader keeps up.

Nothing is queued: while a reader takes its time, nothing is computed for it, and
what it gets next is the newest. What was sent is remembered by weak references
only, so a reader that stands still holds no counts in memory.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from streameval_server._grpc.open_calls import stopping_error
from streameval_server._queries.selection import AllTime, invalid, micros

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from streameval.v1 import query_pb2, types_pb2
    from streameval_server._process.runtime import Runtime
    from streameval_server._queries.answers import Answers
    from streameval_server._queries.applied import Applied
    from streameval_server._queries.snapshots import SnapshotAsked

LEAST_INTERVAL_S = 0.1
"""Nobody is told more often."""

CLOCK_S = 1.0
"""A window that ends at the clock is looked at so often, although nothing happens."""


@dataclass(frozen=True, slots=True)
class _Look:
    """A snapshot, and what to tell it by from the next."""

    span_us: tuple[int, int] | None
    stream: tuple[weakref.ref[object], ...]
    snapshot: types_pb2.Snapshot

    @classmethod
    def at(cls, of: Applied, snapshot: types_pb2.Snapshot) -> _Look:
        # Whatever changes a stream changes its all-time counts or their coverage.
        parts = (of.view.whole.counts, of.view.whole.coverage)
        return cls(of.span_us, tuple(map(weakref.ref, parts)), snapshot)

    def differs(self, before: _Look | None) -> bool:
        """Whether the stream or the covered time has moved."""
        if before is None or before.span_us != self.span_us:
            return True
        return any(mine is not its for mine, its in zip(self.stream, before.stream, strict=True))


def interval_s(request: query_pb2.WatchRequest) -> float:
    """Return the least time between two answers.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT when it is negative.
    """
    asked = micros(request.min_interval, "min_interval") / 1e6
    if asked < 0:
        raise invalid("min_interval", f"min_interval must not be negative, got {asked:g} s")
    return max(asked, LEAST_INTERVAL_S)


async def watched(
    runtime: Runtime, answers: Answers, asked: SnapshotAsked, *, pause_s: float, min_revision: int
) -> AsyncIterator[types_pb2.Snapshot]:
    """Yield a snapshot at once, and then the newest whenever it is another.

    Parameters
    ----------
    runtime, answers
        The server's.
    asked
        What is watched.
    pause_s
        The least time between two of them.
    min_revision
        The first one includes it.

    Raises
    ------
    RequestError
        NOT_FOUND when the stream is deleted, UNAVAILABLE when the server stops.
    """
    stopping = asyncio.Event()
    timeout = None if isinstance(asked.chosen.span, AllTime) else CLOCK_S
    with runtime.calls.call(stopping.set):
        await runtime.visible(min_revision)
        stopped = asyncio.ensure_future(stopping.wait())
        moved: asyncio.Future[None] | None = None
        sent: _Look | None = None
        try:
            while True:
                begun = time.monotonic()
                if moved is None or moved.done():
                    if moved is not None:
                        moved.result()
                    moved = asyncio.ensure_future(
                        runtime.visibility.wait(runtime.visible_revision() + 1)
                    )
                look = await runtime.queries.run(("watch", asked), partial(_look, answers, asked))
                if look.differs(sent):
                    sent = look
                    yield look.snapshot
                await _pause(stopped, begun + pause_s - time.monotonic())
                await asyncio.wait(
                    (moved, stopped), timeout=timeout, return_when=asyncio.FIRST_COMPLETED
                )
                if stopped.done():
                    raise stopping_error()
        finally:
            stopped.cancel()
            if moved is not None:
                moved.cancel()


async def _pause(stopped: asyncio.Future[Any], seconds: float) -> None:
    if seconds > 0:
        await asyncio.wait((stopped,), timeout=seconds)


def _look(answers: Answers, asked: SnapshotAsked) -> _Look:
    of = answers.applied(asked.chosen)
    return _Look.at(of, answers.snapshot(of, asked.figures))
