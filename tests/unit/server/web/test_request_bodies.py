"""Request bodies: limits on those held and parsed at once."""

from __future__ import annotations

import asyncio
import threading

import pytest
from starlette.requests import Request

from streameval.v1 import ingest_pb2
from streameval_server import Limits
from streameval_server._model.errors import RequestError
from streameval_server._web import request_bodies as module
from streameval_server._web.request_bodies import BodyReader

BODY = b'{"producer": "p"}'
SHORT = b"{}"
KIND = ingest_pb2.IngestBatchRequest


def request(body: bytes, *headers: tuple[str, str]) -> Request:
    """Return a request with a complete body."""

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    head = [(b"content-type", b"application/json")]
    head += [(name.encode(), value.encode()) for name, value in headers]
    return Request({"type": "http", "method": "POST", "headers": head}, receive)


async def until(holds) -> None:
    """Run other tasks until a condition holds."""
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0)


@pytest.mark.parametrize("few", [1, 9])
def test_bodies_are_parsed_a_few_at_once_and_held_until_they_are(monkeypatch, few):
    """However many bodies queue, threads stay free for others; queued bodies count as held."""
    parsing: list[bytes] = []
    go_on = threading.Event()

    def slowly(kind, body):
        if body == BODY:
            parsing.append(body)
            assert go_on.wait(20)
        return kind(producer="p")

    monkeypatch.setattr(module, "from_json", slowly)
    monkeypatch.setattr(module, "_MAX_INLINE_BYTES", 0)
    monkeypatch.setattr(module, "_MAX_UNQUEUED_BYTES", len(SHORT))
    reader = BodyReader(Limits(max_queue_bytes=few * len(BODY) + len(SHORT)))

    async def run() -> None:
        tasks = [asyncio.create_task(reader.message(KIND, request(BODY))) for _ in range(few)]
        await until(lambda: len(parsing) == min(few, 2))
        # Other work runs while all parsers are blocked.
        assert await asyncio.to_thread(lambda: "a thread") == "a thread"
        assert (await reader.message(KIND, request(SHORT))).producer == "p"
        assert len(parsing) == min(few, 2)
        with pytest.raises(RequestError, match="too many request bodies are in progress"):
            await reader.message(KIND, request(BODY))
        go_on.set()
        answers = await asyncio.gather(*tasks)
        assert [answer.producer for answer in answers] == ["p"] * few
        assert (await reader.message(KIND, request(BODY))).producer == "p"

    asyncio.run(run())


def test_a_short_body_is_parsed_in_the_event_loop(monkeypatch):
    """A longer one is not, nor is a short one that may unpack to more."""
    monkeypatch.setattr(module, "_MAX_INLINE_BYTES", len(SHORT))
    reader = BodyReader(Limits())

    async def run() -> None:
        here = threading.get_ident()
        packed = request(SHORT, ("content-encoding", "gzip"))
        for each, is_here in ((request(SHORT), True), (request(BODY), False), (packed, False)):
            found = await reader.parsed(each, lambda _body: threading.get_ident())
            assert (found == here) == is_here

    asyncio.run(run())


def test_a_body_that_is_no_message_is_not_held():
    """A refused body releases its bytes."""
    reader = BodyReader(Limits(max_queue_bytes=len(BODY)))

    async def run() -> None:
        for _ in range(3):
            with pytest.raises(RequestError, match="body"):
                await reader.message(KIND, request(b"{"))
        assert (await reader.message(KIND, request(BODY))).producer == "p"

    asyncio.run(run())
