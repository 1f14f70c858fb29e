"""Events beyond what may be in progress, and errors that pass."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("jmespath", reason="needs the extra payloads")
from streameval.payloads import Event, PayloadMapping
from streameval.v1 import ingest_pb2
from streameval_server import Limits
from streameval_server._model.errors import Code, RequestError
from streameval_server._payloads import intake as module
from streameval_server._payloads.intake import IntakeResult, PayloadIntake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LINES = PayloadMapping.of({"preset": "ndjson", "stream": "s"})


class Disk:
    """Stands for the runtime: each batch is durable when the test says so, or fails."""

    def __init__(self, error: RequestError | None = None) -> None:
        self.is_durable = asyncio.Event()
        self.core = SimpleNamespace(committer=SimpleNamespace(catalog={}, disputed_us=None))
        self.limits = Limits()
        self.batches = 0
        self.calls = SimpleNamespace(stopping=False)
        self._error = error

    def now_us(self) -> int:
        return 1

    async def settled(self, _submit: Callable[[Any], Any]) -> ingest_pb2.IngestBatchResponse:
        self.batches += 1
        await self.is_durable.wait()
        if self._error is not None:
            raise self._error
        return ingest_pb2.IngestBatchResponse(revision=9)


async def take(intake: PayloadIntake, *ids: str) -> IntakeResult:
    """Send predictions in one request."""
    events = [Event({"id": each, "score": 0.5}) for each in ids]
    return await intake.take(intake.read(events), lambda _stream: None)


def test_rows_that_wait_for_the_disk_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request above it should come again; one that is alone may be larger."""
    monkeypatch.setattr(module, "_MAX_ROWS_IN_PROGRESS", 5)

    async def run() -> None:
        disk = Disk()
        intake = PayloadIntake([LINES], disk, auto_create=True)
        first = asyncio.create_task(take(intake, *"abcd"))
        await asyncio.sleep(0)
        with pytest.raises(RequestError, match="4 rows of payloads wait for the disk") as caught:
            await take(intake, "e", "f")
        assert caught.value.retry_after_s is not None
        second = asyncio.create_task(take(intake, "e"))
        await asyncio.sleep(0)
        disk.is_durable.set()
        assert ((await first).rows, (await second).rows) == (4, 1)
        found = await take(intake, *"abcdefgh")
        assert (found.rows, found.revision) == (8, 9)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("error", "is_passing"),
    [
        (RequestError(Code.UNAVAILABLE, "m", reason="STORAGE_FAILED", retry_after_s=1), True),
        (RequestError(Code.RESOURCE_EXHAUSTED, "m", reason="QUEUE_FULL", retry_after_s=1), True),
        (RequestError(Code.RESOURCE_EXHAUSTED, "m", reason="TOO_MANY_STREAMS"), False),
        (RequestError(Code.NOT_FOUND, "m", reason="NO_STREAM"), False),
    ],
)
def test_what_passes_is_to_be_sent_again(error: RequestError, *, is_passing: bool) -> None:
    """What does not pass is a refusal of the row, which senders do not repeat."""

    async def run() -> None:
        disk = Disk(error)
        disk.is_durable.set()
        intake = PayloadIntake([LINES], disk, auto_create=True)
        if is_passing:
            with pytest.raises(RequestError, match="m"):
                await take(intake, "a")
            return
        found = await take(intake, "a")
        assert [(each.id, each.reason) for each in found.refused] == [("a", "store")]
        assert intake.counts == {("", "ignored"): 0, ("s", "store"): 1}

    asyncio.run(run())


def test_reading_ends_with_the_server_and_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two events; one that ends with the server is sent again, and read by the next."""
    disk = Disk()
    intake = PayloadIntake([LINES], disk, auto_create=True)
    read = []

    def coming(change: Callable[[], None]) -> Iterator[Event]:
        for place in range(1_000):
            read.append(place)
            yield Event({"id": str(place), "score": 0.5})
            if place == 3:
                change()

    def stop() -> None:
        disk.calls.stopping = True

    def spend() -> None:
        monkeypatch.setattr(module.time, "thread_time", lambda: 1e9)

    with pytest.raises(RequestError, match="takes more than 10 s to read") as caught:
        intake.read(coming(spend))
    assert (caught.value.code, caught.value.retry_after_s) == (Code.INVALID_ARGUMENT, None)
    assert read == [0, 1, 2, 3, 4]
    read.clear()
    with pytest.raises(RequestError, match="the server is stopping") as caught:
        intake.read(coming(stop))
    assert (caught.value.code, caught.value.retry_after_s) == (Code.UNAVAILABLE, 1.0)
    assert read == [0, 1, 2, 3, 4]


def test_rows_of_a_wrong_time_make_no_batches() -> None:
    """A batch with them would be halved until each stands alone: two batches for each."""

    async def run() -> None:
        disk = Disk()
        disk.is_durable.set()
        intake = PayloadIntake([LINES], disk, auto_create=True)
        body = {"score": 0.5, "time": "2100-01-01T00:00:00Z"}
        late = [Event({**body, "id": str(number)}) for number in range(100)]
        read = intake.read([*late, Event({"id": "good", "score": 0.5})])
        result = await intake.take(read, lambda _stream: None)
        assert (result.rows, len(result.refused), disk.batches) == (1, 100, 1)
        message = "event time must not lie in the future, got 2100-01-01T00:00:00+00:00"
        assert {(each.reason, each.message) for each in result.refused} == {("store", message)}

    asyncio.run(run())
