"""Pages of streams in order of their names: sizes and tokens.

A page token is the last name of its page, encoded so that clients treat it as opaque.
"""

from __future__ import annotations

import base64
import binascii

from streameval.checks import quoted
from streameval_server._model.errors import invalid

_DEFAULT_PAGE_STREAMS = 100
MAX_PAGE_STREAMS = 1000


def page_size(asked: int) -> int:
    """Return how many streams a page has. Raises RequestError for a negative number."""
    if asked < 0:
        raise invalid("page_size", f"page_size must not be negative, got {asked}")
    return min(asked or _DEFAULT_PAGE_STREAMS, MAX_PAGE_STREAMS)


def page_token(name: str) -> str:
    """Return the token of the page after one that ends with a name."""
    return base64.urlsafe_b64encode(name.encode()).decode()


def name_of_token(token: str) -> str:
    """Return the last name of the page before. Raises RequestError for what is no token."""
    try:
        return base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        message = f"page_token must be the next_page_token of a page before, got {quoted(token)}"
        raise invalid("page_token", message) from None
