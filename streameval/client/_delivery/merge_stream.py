"""`merge_many`: merges sent without waiting, by one call after the other until all are settled."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterable, Iterable
from typing import TYPE_CHECKING, Any

from streameval._common.errors import InvalidInputError
from streameval.client._delivery.merge_upload import Merge, Upload, may_pass, retry_pause_s
from streameval.client._delivery.merge_window import MergeWindow
from streameval.client._errors import ClientError, MergesRefusedError, UnavailableError

if TYPE_CHECKING:
    from streameval.client._delivery.connection import BaseConnection
    from streameval.client._wire.merge_calls import MergeCall


async def send_merges(
    connection: BaseConnection,
    name: str,
    merges: Iterable[Merge] | AsyncIterable[Merge],
    timeout_s: float | None,
) -> int:
    """Merge all of them into a stream; return the log revision that includes them.

    Raises
    ------
    InvalidInputError
        When one is invalid; those before it are settled.
    MergesRefusedError
        When the server has refused some; all others count.
    ClientError
        When it is unknown which count.
    """
    source, stream = _Source(name, merges), _MergeStream(connection, timeout_s)
    try:
        while True:
            try:
                upload = await source.take()
            except Exception:
                await stream.settle()
                raise
            if upload is None:
                break
            await stream.put(upload)
        await stream.settle()
        await stream.end()
    finally:
        await stream.close()
    return stream.result()


class _Source:
    """Takes merges from an iterable, one after the other, and encodes them."""

    def __init__(self, name: str, merges: Iterable[Merge] | AsyncIterable[Merge]) -> None:
        if not isinstance(merges, AsyncIterable | Iterable):
            raise InvalidInputError(
                f"merge_many takes an iterable of Merge, got {type(merges).__name__}",
                field="merges",
            )
        self._name = name
        self._index = 0
        self._is_async = isinstance(merges, AsyncIterable)
        self._iterator: Any = aiter(merges) if isinstance(merges, AsyncIterable) else iter(merges)

    async def take(self) -> Upload | None:
        """Return the next one; None at the end. Raises InvalidInputError with its index."""
        try:
            merge = await anext(self._iterator) if self._is_async else next(self._iterator)
        except (StopIteration, StopAsyncIteration):
            return None
        index, self._index = self._index, self._index + 1
        if not isinstance(merge, Merge):
            raise InvalidInputError(
                f"merges must be Merges, got {type(merge).__name__} at index {index}",
                field="merges",
                index=index,
            )
        try:
            return Upload(
                self._name,
                merge.states,
                source=merge.source,
                epoch=merge.epoch,
                at=merge.at,
                segments=merge.segments,
            )
        except InvalidInputError as error:
            message = f"merges[{index}]: {error}"
            raise InvalidInputError(message, field="merges", index=index) from None


class _MergeStream:
    """Sends merges by one call after the other.

    Parameters
    ----------
    connection : BaseConnection
    timeout_s : float or None
        The longest wait without an answer, in seconds.
    """

    def __init__(self, connection: BaseConnection, timeout_s: float | None) -> None:
        self._connection = connection
        self._timeout_s = timeout_s
        self._window = MergeWindow()
        self._call: MergeCall | None = None
        # Since the last answer.
        self._waited_s = 0.0
        self._attempts = 0

    async def put(self, upload: Upload) -> None:
        """Send a merge; wait while too many are not settled, or the call has failed."""
        self._window.add(upload)
        await self._send()
        while self._window.must_wait or (self._call is not None and self._call.has_ended):
            await self._step()

    async def settle(self) -> None:
        """Wait until everything is settled."""
        while not self._window.is_empty:
            await self._step()

    async def end(self) -> None:
        """Have the server end the call, once everything is settled: it then counts as a success."""
        if self._call is not None:
            await self._call.finish()
            with contextlib.suppress(ClientError):
                await self._call.read()

    def result(self) -> int:
        """Return the log revision; raise MergesRefusedError when merges were refused."""
        window = self._window
        if not window.num_refused:
            return window.revision
        first = window.refused[0]
        merges = "merge was" if window.num_refused == 1 else "merges were"
        raise MergesRefusedError(
            f"{window.num_refused:,} {merges} refused, all others count; the first is merge "
            f"{first.index}, epoch {first.epoch} of source {first.source}: {first.message}",
            refused=tuple(window.refused),
            num_refused=window.num_refused,
            revision=window.revision,
        )

    async def close(self) -> None:
        """End the call, if there is one."""
        call, self._call = self._call, None
        if call is not None:
            await call.close()

    async def _send(self) -> None:
        """Send what the window allows, by a new call if there is none."""
        while (upload := self._window.take()) is not None:
            if self._call is None:
                left = None if self._timeout_s is None else self._timeout_s - self._waited_s
                self._call = self._connection.open_merges(left)
            for request in upload.stream_requests():
                await self._call.send(request)

    async def _step(self) -> None:
        """Read an answer, and send what it allows; after a failure, wait and begin a new call."""
        try:
            await self._read()
            self._waited_s, self._attempts = 0.0, 0
        except ClientError as error:
            await self._pause(error)
        await self._send()

    async def _read(self) -> None:
        """Read an answer of the present call. Raises ClientError."""
        assert self._call is not None
        began_s = time.monotonic()
        try:
            answer = await self._call.read()
        finally:
            self._waited_s += time.monotonic() - began_s
        if answer is None:
            raise UnavailableError("the server ended the stream of merges")
        self._window.receive(answer)
        self._connection.record_revision(self._window.revision)

    async def _pause(self, error: ClientError) -> None:
        """Wait before the next call; raise the error when that would be useless or too long."""
        await self.close()
        if not may_pass(error):
            raise error
        self._attempts += 1
        pause_s = retry_pause_s(self._attempts, error)
        self._waited_s += pause_s
        if self._timeout_s is not None and self._waited_s >= self._timeout_s:
            raise error
        await self._connection.pause(pause_s)
        self._window.restart()
