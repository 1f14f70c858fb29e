"""Pages of streams, detectors and pairs in order of their names, as far as a token covers them.

A page token is the last name of its page, encoded so that clients treat it as opaque.
"""

from __future__ import annotations

import base64
import binascii
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from streameval.checks import quoted
from streameval_server._model.errors import invalid
from streameval_server._security.access import current_access
from streameval_server._security.tokens import covers

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval_server._runtime.runtime import Runtime

T = TypeVar("T")

_DEFAULT_PAGE_SIZE = 100
_MAX_PAGE_SIZE = 1000


async def read_page(
    runtime: Runtime,
    request: Any,
    read: Callable[..., tuple[list[T], int]],
    names_of: Callable[[T], tuple[str, ...]],
) -> tuple[list[T], str, int]:
    """Return the page that a List request asks for, the next one's token, and the revision.

    Parameters
    ----------
    request
        Its other fields say what is listed; `page_size` and `page_token`, which part of it.
    read
        For query threads: returns at most `limit` whose names sort after `after`, and the revision.
    names_of
        Returns its own name and then the names of its streams, which a token must cover.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT for a size or token that is none.
    """
    size, after = _page_size(request.page_size), _name_of_token(request.page_token)
    with runtime.calls.call():
        await runtime.visible(runtime.durable_revision())
        while True:
            streams = current_access().streams
            found, revision = await runtime.queries.run(
                (request.SerializeToString(deterministic=True), type(request), streams),
                partial(_covered, read, after, size + 1, names_of, streams),
            )
            # The token may have been narrowed meanwhile: list what it covers now.
            if current_access().streams == streams:
                break
    token = ""
    if len(found) > size:
        token = base64.urlsafe_b64encode(names_of(found[size - 1])[0].encode()).decode()
    return found[:size], token, revision


def _covered(
    read: Callable[..., tuple[list[T], int]],
    after: str,
    limit: int,
    names_of: Callable[[T], tuple[str, ...]],
    streams: tuple[str, ...] | None,
) -> tuple[list[T], int]:
    """Return at most `limit` that a token covers. O(what is read, also in between)."""
    step = limit if streams is None else _MAX_PAGE_SIZE
    found: list[T] = []
    while True:
        page, revision = read(after=after, limit=step)
        found += [
            each for each in page if all(covers(streams, name) for name in names_of(each)[1:])
        ]
        if len(found) >= limit or len(page) < step:
            return found[:limit], revision
        after = names_of(page[-1])[0]


def _page_size(asked: int) -> int:
    """Return how many a page has. Raises RequestError for a negative number."""
    if asked < 0:
        raise invalid("page_size", f"page_size must not be negative, got {asked}")
    return min(asked or _DEFAULT_PAGE_SIZE, _MAX_PAGE_SIZE)


def _name_of_token(token: str) -> str:
    """Return the last name of the page before. Raises RequestError for what is no token."""
    try:
        return base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        message = f"page_token must be the next_page_token of a page before, got {quoted(token)}"
        raise invalid("page_token", message) from None
