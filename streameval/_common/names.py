"""The rules for names of streams, producers, segment keys and ids.

A stream's name goes into paths, labels and logs, so it is plain ASCII. Ids and
producers belong to the user: any UTF-8 of 1 to 128 bytes. An id may also be
given as bytes: ``"order-17"`` and ``b"order-17"`` are the same id, and the 16
bytes of a UUID are one too.

The client and the server check names with these functions, so both refuse a name
with the same message.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.values import quoted

_STREAM = re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*\Z")

MAX_STREAM_NAME = 128
"""Characters that a stream's name may have."""

MAX_KEY_LENGTH = 64
"""Characters that a segment key may have."""

MAX_ID_BYTES = 128
"""Bytes of UTF-8 that an id, a producer or a segment value may have."""


def stream_name_problem(name: str, max_length: int) -> str | None:
    """Return why `name` is no valid stream name; None if it is valid.

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
    """Return why `value` is no valid id; None if it is valid. `kind` names it in the text.

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


def check_id(value: Any, *, field: str = "id", index: int | None = None) -> bytes:
    """Return one id as bytes, or refuse it. O(1)."""
    where = "" if index is None else f" at index {index}"
    if isinstance(value, str):
        try:
            data = value.encode()
        except UnicodeEncodeError:
            message = f"{field} must be valid Unicode, got {value!r}{where}"
            raise InvalidInputError(message, field=field, index=index) from None
    elif isinstance(value, bytes):
        data = bytes(value)
    else:
        message = f"{field} must be str or bytes, got {value!r:.60}{where}"
        raise InvalidInputError(message, field=field, index=index)
    if not 1 <= len(data) <= MAX_ID_BYTES:
        message = f"{field} must have 1 to {MAX_ID_BYTES} bytes, got {len(data)}{where}"
        raise InvalidInputError(message, field=field, index=index)
    return data


def check_ids(ids: Any, *, field: str = "ids") -> list[bytes]:
    """Return a column of ids as bytes, or refuse it with the first row at fault. O(n).

    Parameters
    ----------
    ids : sequence of str or bytes
        A list, or a column of numpy, pandas, polars or pyarrow.
    """
    return [
        # Fast path: valid bytes need no call for each row.
        value
        if type(value) is bytes and 0 < len(value) <= MAX_ID_BYTES
        else check_id(value, field=field, index=index)
        for index, value in enumerate(_listed(ids, field))
    ]


def _listed(ids: Any, field: str) -> list[Any] | tuple[Any, ...]:
    if isinstance(ids, list | tuple):
        return ids
    for method in ("to_pylist", "tolist", "to_list"):
        if hasattr(ids, method) and not isinstance(ids, np.generic):
            listed = getattr(ids, method)()
            if isinstance(listed, list):
                return listed
    message = f"{field} must be a column of ids, got {type(ids).__name__}"
    raise InvalidInputError(message, field=field)
