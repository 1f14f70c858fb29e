"""WatchSnapshot and WatchSnapshots: the newest snapshot after each change, at the reader's pace.

Nothing is queued and nothing is computed ahead: a slow reader gets the newest snapshot next.
The version that was sent last is remembered by weak references, so a stalled reader keeps no
counts in memory.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from streameval.v1 import overview_pb2, query_pb2
from streameval_server._model.errors import invalid
from streameval_server._queries.alarms import status_message
from streameval_server._queries.overview import resolve_if_present, stream_snapshot
from streameval_server._queries.selection import AllTime, micros
from streameval_server._runtime.open_calls import stopping_error

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping

    from streameval_server._queries.overview import OverviewRequest
    from streameval_server._queries.query_engine import QueryEngine, SnapshotRequest
    from streameval_server._queries.resolved_selection import ResolvedSelection
    from streameval_server._runtime.runtime import Runtime

    WatchRequest = (
        query_pb2.WatchSnapshotRequest
        | query_pb2.WatchSnapshotsRequest
        | overview_pb2.WatchStreamSummariesRequest
    )

T = TypeVar("T")

MIN_INTERVAL_S = 0.1
"""Seconds between two snapshots, at least."""

MIN_HEARTBEAT_S = 1.0
"""Seconds of silence before an empty answer, at least."""

CLOCK_INTERVAL_S = 1.0
"""Seconds after which a window that ends at the clock is computed again without a change."""


_Version: TypeAlias = tuple[object, ...]
"""What differs where the next answer does."""


def _version(engine: QueryEngine, resolved: ResolvedSelection) -> _Version:
    view, settings = resolved.view, resolved.view.info.settings
    return (
        *(resolved.span_us, settings.threshold, settings.costs),
        bool(engine.server_warnings()),
        0 if view.alarms is None else view.alarms.num_open,
        # Every change of what is counted replaces the all-time counts or their coverage.
        *(weakref.ref(view.whole.counts), weakref.ref(view.whole.coverage)),
    )


class Heartbeat:
    """When a reader that nothing was sent to gets an empty answer, so that proxies wait for more.

    Parameters
    ----------
    request
        Says how long a call may be silent.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT when that is negative.
    """

    def __init__(self, request: WatchRequest) -> None:
        asked_s = micros(request.heartbeat, "heartbeat") / 1e6
        if asked_s < 0:
            raise invalid("heartbeat", f"heartbeat must not be negative, got {asked_s:g} s")
        self._interval_s = max(asked_s, MIN_HEARTBEAT_S) if asked_s else None
        self._sent_s = time.monotonic()

    def within(self, timeout_s: float | None) -> float | None:
        """Return how long to wait for a change: the time-out, or less for the heartbeat."""
        return min((each for each in (timeout_s, self._interval_s) if each), default=None)

    def sent(self) -> None:
        """Record that an answer is sent now."""
        self._sent_s = time.monotonic()

    def due(self) -> bool:
        """Return whether an empty answer is to be sent now."""
        now_s = time.monotonic()
        is_due = self._interval_s is not None and now_s - self._sent_s >= self._interval_s
        if is_due:
            self._sent_s = now_s
        return is_due


def interval_s(request: WatchRequest) -> float:
    """Return the minimum time between two answers.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT when it is negative.
    """
    asked = micros(request.min_interval, "min_interval") / 1e6
    if asked < 0:
        raise invalid("min_interval", f"min_interval must not be negative, got {asked:g} s")
    return max(asked, MIN_INTERVAL_S)


async def watch_snapshot(
    runtime: Runtime,
    request: SnapshotRequest,
    *,
    pause_s: float,
    heartbeat: Heartbeat,
    min_revision: int,
) -> AsyncIterator[query_pb2.WatchSnapshotResponse]:
    """Yield a snapshot at once, and then the newest after each change.

    Parameters
    ----------
    runtime
        The server's.
    request
        What is watched.
    pause_s
        The minimum time between two snapshots.
    heartbeat
        When an empty answer is sent.
    min_revision
        The first one includes it.

    Raises
    ------
    RequestError
        NOT_FOUND when the stream is deleted and not created again at once;
        UNAVAILABLE when the server stops.
    """
    timeout_s = None if isinstance(request.selection.span, AllTime) else CLOCK_INTERVAL_S
    timeout_s = heartbeat.within(timeout_s)

    async def compute() -> tuple[_Version, query_pb2.WatchSnapshotResponse]:
        return await runtime.answer(
            ("watch", request), partial(_response_with_version, runtime.engine, request)
        )

    results = compute_on_change(
        runtime, compute, pause_s=pause_s, timeout_s=timeout_s, min_revision=min_revision
    )
    async with aclosing(results):
        sent: _Version | None = None
        async for version, response in results:
            if version != sent:
                sent = version
                heartbeat.sent()
                yield response
            elif heartbeat.due():
                yield query_pb2.WatchSnapshotResponse()


def _response_with_version(
    engine: QueryEngine, request: SnapshotRequest
) -> tuple[_Version, query_pb2.WatchSnapshotResponse]:
    resolved = engine.resolve(request.selection)
    response = query_pb2.WatchSnapshotResponse(snapshot=engine.snapshot(resolved, request.metrics))
    view = resolved.view
    if view.alarms is not None:
        response.open_alarms.extend(status_message(view.info, view.alarms, open_only=True).alarms)
    return _version(engine, resolved), response


async def watch_snapshots(
    runtime: Runtime,
    request: OverviewRequest,
    *,
    pause_s: float,
    heartbeat: Heartbeat,
) -> AsyncIterator[query_pb2.WatchSnapshotsResponse]:
    """Yield the snapshots of all streams at once, and then each time of the changed streams.

    Only changed snapshots are computed. Works as `watch_snapshot`, except that a deleted
    stream is reported as missing and may be created again.

    Raises
    ------
    RequestError
        UNAVAILABLE when the server stops.
    """
    timeout_s = None if isinstance(request.span, AllTime) else CLOCK_INTERVAL_S
    timeout_s = heartbeat.within(timeout_s)
    # By stream; None for one that does not exist.
    sent: dict[str, _Version | None] = {}

    async def compute() -> _Changes:
        # Never shared: every reader has been sent other versions.
        work = partial(_changes_since, runtime.engine, request, sent, runtime.visible_revision())
        return await runtime.queries.run(object(), work, is_long=True)

    # Without this wait, a stream that is durable but not visible yet would be reported missing.
    durable = runtime.durable_revision()
    results = compute_on_change(
        runtime, compute, pause_s=pause_s, timeout_s=timeout_s, min_revision=durable
    )
    async with aclosing(results):
        async for moved in results:
            if not sent or moved.versions:
                sent.update(moved.versions)
                heartbeat.sent()
                yield moved.response
            elif heartbeat.due():
                yield query_pb2.WatchSnapshotsResponse()


@dataclass(frozen=True, slots=True)
class _Changes:
    """Streams whose version differs from the one sent last."""

    versions: dict[str, _Version | None]
    response: query_pb2.WatchSnapshotsResponse


def _changes_since(
    engine: QueryEngine,
    request: OverviewRequest,
    sent: Mapping[str, _Version | None],
    revision: int,
) -> _Changes:
    response = query_pb2.WatchSnapshotsResponse(
        revision=revision, server_warnings=engine.server_warnings()
    )
    found = _Changes({}, response)
    for name in request.streams:
        resolved = resolve_if_present(engine, name, request)
        if resolved is None:
            if sent.get(name) is not None or name not in sent:
                found.versions[name] = None
                found.response.missing.append(name)
            continue
        version = _version(engine, resolved)
        if version != sent.get(name):
            found.versions[name] = version
            found.response.snapshots.append(stream_snapshot(engine, resolved, request))
    return found


async def compute_on_change(
    runtime: Runtime,
    compute: Callable[[], Awaitable[T]],
    *,
    pause_s: float,
    timeout_s: float | None,
    min_revision: int = 0,
) -> AsyncGenerator[T, None]:
    """Yield results: one at once, then one after each applied revision or `timeout_s`."""
    stopping = asyncio.Event()
    with runtime.calls.call(stopping.set):
        await runtime.visible(min_revision)
        stopped = asyncio.ensure_future(stopping.wait())
        moved: asyncio.Future[None] | None = None
        try:
            while True:
                begun = time.monotonic()
                if moved is None or moved.done():
                    if moved is not None:
                        moved.result()
                    moved = asyncio.ensure_future(
                        runtime.visibility.wait(runtime.visible_revision() + 1)
                    )
                result = await compute()
                took = time.monotonic() - begun
                yield result
                # At most half of the time is spent on this reader, however long an answer takes.
                await _pause(stopped, begun + max(pause_s, 2 * took) - time.monotonic())
                await asyncio.wait(
                    (moved, stopped), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
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
