"""What counts as an id: 1 to 128 bytes; text is its UTF-8.

So ``"order-17"`` and ``b"order-17"`` are the same id, and the 16 bytes of a UUID
are one too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streameval._common.errors import InvalidInputError

LONGEST = 128
"""Bytes that an id may have."""


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
    if not 1 <= len(data) <= LONGEST:
        message = f"{field} must have 1 to {LONGEST} bytes, got {len(data)}{where}"
        raise InvalidInputError(message, field=field, index=index)
    return data


def check_ids(ids: Any, *, field: str = "ids") -> list[bytes]:
    """Return a column of ids as bytes, or refuse it with the first row at fault. O(n).

    Parameters
    ----------
    ids : sequence of str or bytes
        A list, or what numpy, pandas, polars or pyarrow call a column.
    """
    return [
        # The common case, without a call for each row.
        value
        if type(value) is bytes and 0 < len(value) <= LONGEST
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
