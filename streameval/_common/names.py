"""Names of streams, producers and ids: what may be written in them.

A stream's name goes into paths, labels and logs, so it is plain ASCII. Ids
and producers are the users' own: any UTF-8 up to a length. The client and the
server check names here, so that one is refused with the same words in both.
"""

from __future__ import annotations

import re

from streameval._common.values import quoted

_STREAM = re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*\Z")

MAX_STREAM_NAME = 128
"""Characters that a stream's name may have."""

MAX_KEY_LENGTH = 64
"""Characters that a segment key may have."""

MAX_ID_BYTES = 128
"""Bytes of UTF-8 that an id, a producer or a segment value may have."""


def stream_name_problem(name: str, max_length: int) -> str | None:
    """Say why `name` cannot name a stream; None when it can.

    Examples
    --------
    >>> stream_name_problem("fraud/v3", 128)
    >>> stream_name_problem("fraud//v3", 128)
    "stream name must be [A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*, got 'fraud//v3'"
    >>> stream_name_problem("a" * 129, 128)
    'stream name must be at most 128 characters, got 129'
    >>> stream_name_problem("", 128)
    'stream name must not be empty'
    """
    if not name:
        return "stream name must not be empty"
    if len(name) > max_length:
        return f"stream name must be at most {max_length} characters, got {len(name)}"
    if _STREAM.match(name) is None:
        return f"stream name must be [A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*, got {quoted(name)}"
    return None


def id_problem(kind: str, value: str, max_bytes: int) -> str | None:
    """Say why `value` cannot be an id; None when it can. `kind` names it in the text.

    Examples
    --------
    >>> id_problem("producer", "web-1", 128)
    >>> id_problem("producer", "", 128)
    'producer must not be empty'
    >>> id_problem("producer", "é" * 65, 128)
    'producer must be at most 128 bytes of UTF-8, got 130'
    """
    if not value:
        return f"{kind} must not be empty"
    size = len(value.encode())
    if size > max_bytes:
        return f"{kind} must be at most {max_bytes} bytes of UTF-8, got {size}"
    return None
