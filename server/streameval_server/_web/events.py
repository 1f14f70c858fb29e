"""Server-sent events: the newest answer whenever there is another, as quick as it is read.

The next answer is asked for when the last one has gone out, so a slow reader gets
fewer, not older ones: nothing queues here but what the transport holds. A comment
every few seconds tells a silent server from one that is gone. When the server
stops, or the token is taken away, the last event says so; whoever connects again
is sent the newest answer first.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from sse_starlette import EventSourceResponse, ServerSentEvent

from streameval_server._security.access import check_request
from streameval_server._web.error_responses import status_json
from streameval_server._web.transcoding import to_json

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from contextlib import AsyncExitStack

    from google.protobuf.message import Message
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    from streameval_server._web.call_runner import AuthorisedRequest, CallRunner

HEARTBEAT_S = 10
RETRY_MS = 1000
"""What a reader should wait before it connects again."""


async def events(
    name: str,
    request: Message,
    answers: AsyncGenerator[Message, None],
    *,
    authorised: AuthorisedRequest,
    runner: CallRunner,
) -> Response:
    """Return a response that goes on for as long as there are answers.

    Parameters
    ----------
    name
        What each event is called.
    request
        What was asked.
    answers
        A generator; closed at the end.
    authorised, runner
        The request, and what runs it.

    Raises
    ------
    RequestError
        When there is not even a first answer.
    """
    authorised.stack.push_async_callback(answers.aclose)
    first = await anext(answers)

    async def produce() -> AsyncIterator[ServerSentEvent]:
        try:
            yield await _event(name, first, retry=RETRY_MS)
            async for answer in answers:
                check_request(authorised.rule, request)  # the token may have been revoked
                yield await _event(name, answer)
        except Exception as error:  # noqa: BLE001 - the boundary, as in the gate
            text = status_json(runner.request_error(error, authorised.outcome))
            yield ServerSentEvent(text.decode(), event="error", sep="\n")

    authorised.outcome.cancel()  # unless it ends otherwise
    return _EventResponse(produce(), authorised.stack.pop_all())


async def _event(name: str, answer: Any, *, retry: int | None = None) -> ServerSentEvent:
    text = await asyncio.to_thread(to_json, answer)
    versioned = answer if "revision" in answer.DESCRIPTOR.fields_by_name else answer.snapshot
    return ServerSentEvent(
        text.decode(), event=name, id=str(versioned.revision), retry=retry, sep="\n"
    )


class _EventResponse(EventSourceResponse):
    """Leaves a stack when it ends, however it does."""

    def __init__(self, content: AsyncIterator[ServerSentEvent], stack: AsyncExitStack) -> None:
        super().__init__(
            content,
            ping=HEARTBEAT_S,
            sep="\n",
            ping_message_factory=lambda: ServerSentEvent(comment="", sep="\n"),
        )
        self._stack = stack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events."""
        async with self._stack:
            await super().__call__(scope, receive, send)
