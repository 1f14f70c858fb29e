"""Server-sent events: the newest answer whenever it changes, as fast as the client reads.

The next answer is computed when the last one has been sent, so a slow client gets
fewer answers, not older ones; only the transport buffers. A comment every few seconds
keeps an idle connection distinguishable from a dead one. When the server stops or the
token is revoked, the last event says so; a client that reconnects gets the newest
answer first.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from sse_starlette import EventSourceResponse, ServerSentEvent

from streameval_server._web.error_responses import status_json
from streameval_server._web.transcoding import to_json

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from contextlib import AsyncExitStack

    from google.protobuf.message import Message
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    from streameval_server._security.access import CallCheck
    from streameval_server._web.call_runner import AuthorisedRequest, CallRunner

HEARTBEAT_S = 10
RETRY_MS = 1000
"""How long a client should wait before it reconnects."""


async def events(
    name: str,
    answers: AsyncGenerator[Message, None],
    *,
    check: CallCheck,
    authorised: AuthorisedRequest,
    runner: CallRunner,
) -> Response:
    """Return a response that sends an event for each answer.

    Parameters
    ----------
    name
        The name of the events.
    answers
        Closed at the end of the response.
    check
        Checks the token again for each event, and once a second while none comes.
    authorised, runner
        The request, and what runs it.

    Raises
    ------
    RequestError
        When there is no first answer.
    """
    answers = runner.streams.checked(answers, check.check_answer)
    authorised.stack.push_async_callback(answers.aclose)
    first = await anext(answers)

    async def produce() -> AsyncIterator[ServerSentEvent]:
        try:
            yield await _event(name, first, retry=RETRY_MS)
            async for answer in answers:
                yield await _event(name, answer)
        except Exception as error:  # noqa: BLE001 - the boundary, as in CallRunner
            text = status_json(runner.request_error(error, authorised.outcome))
            yield ServerSentEvent(text.decode(), event="error", sep="\n")

    # Only its client ends such a call, unless an error does and replaces this outcome.
    authorised.outcome.cancel()
    return _EventResponse(produce(), authorised.stack.pop_all())


async def _event(name: str, answer: Any, *, retry: int | None = None) -> ServerSentEvent:
    text = await asyncio.to_thread(to_json, answer)
    versioned = answer if "revision" in answer.DESCRIPTOR.fields_by_name else answer.snapshot
    return ServerSentEvent(
        text.decode(), event=name, id=str(versioned.revision), retry=retry, sep="\n"
    )


class _EventResponse(EventSourceResponse):
    """An event response that closes an exit stack when it ends, for any reason."""

    def __init__(self, content: AsyncIterator[ServerSentEvent], stack: AsyncExitStack) -> None:
        super().__init__(
            content,
            ping=HEARTBEAT_S,
            sep="\n",
            ping_message_factory=lambda: ServerSentEvent(comment="", sep="\n"),
        )
        self._stack = stack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        async with self._stack:
            await super().__call__(scope, receive, send)
