"""Ids and segments as callers give them, checked: the server's rules, in its words.

Cost: some 50 ns a row for columns of text; a Python loop only where something
is not plain ASCII.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.names import (
    MAX_ID_BYTES,
    MAX_KEY_LENGTH,
    MAX_STREAM_NAME,
    id_problem,
    stream_name_problem,
)
from streameval._counts.columns import check_length
from streameval.client._buffer.segments import SegmentCodes

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEY = re.compile(rf"[A-Za-z0-9._-]{{1,{MAX_KEY_LENGTH}}}\Z")
_RESERVED = "__other__"


def check_stream_name(name: str) -> str:
    """Return a stream's name, or refuse it."""
    if not isinstance(name, str):
        raise InvalidInputError(f"stream name must be a string, got {name!r:.60}", field="stream")
    problem = stream_name_problem(name, MAX_STREAM_NAME)
    if problem is not None:
        raise InvalidInputError(problem, field="stream")
    return name


def check_id(value: Any, *, kind: str = "id", field: str = "", index: int | None = None) -> str:
    """Return one id as text, or refuse it; `kind` names it in the text.

    Examples
    --------
    >>> check_id(b"order-17")
    'order-17'
    >>> check_id("")
    Traceback (most recent call last):
    streameval.InvalidInputError: id must not be empty
    """
    if isinstance(value, str):
        text = str(value)
        if text.isascii() and 0 < len(text) <= MAX_ID_BYTES:
            return text
        problem = None
        try:
            problem = id_problem(kind, text, MAX_ID_BYTES)
        except UnicodeEncodeError:
            problem = f"{kind} must be valid Unicode, got {text!r:.60}"
    elif isinstance(value, bytes):
        try:
            return check_id(value.decode(), kind=kind, field=field, index=index)
        except UnicodeDecodeError:
            problem = f"{kind} must be UTF-8, got {value!r:.60}"
    else:
        problem = f"{kind} must be a string, got {value!r:.60}"
    if problem is not None:
        where = "" if index is None else f" at index {index}"
        raise InvalidInputError(problem + where, field=field or kind, index=index)
    return text


def check_ids(ids: Any) -> list[str]:
    """Return a column of ids as text, or refuse it with the first row at fault. O(n).

    Examples
    --------
    >>> check_ids(["a", b"b"])
    ['a', 'b']
    >>> check_ids(["a", ""])
    Traceback (most recent call last):
    streameval.InvalidInputError: id must not be empty at index 1
    """
    column = _listed(ids, "ids")
    try:
        plain = "".join(column).isascii()
    except TypeError:
        plain = False
    if plain:
        lengths = list(map(len, column))
        if not lengths or (min(lengths) > 0 and max(lengths) <= MAX_ID_BYTES):
            return column
    return [check_id(value, field="ids", index=index) for index, value in enumerate(column)]


def check_segments(segments: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return one row's segments as pairs, or refuse them.

    Examples
    --------
    >>> check_segments({"country": "US", "plan": ""})
    (('country', 'US'),)
    """
    if not hasattr(segments, "items"):
        message = f"segments must be a mapping of keys to values, got {segments!r:.60}"
        raise InvalidInputError(message, field="segments")
    items = tuple(segments.items())
    try:
        return _pairs(items)
    except TypeError:  # what cannot be hashed is no text
        for key, value in items:
            _check_value(check_key(key), value, None)
        raise


@lru_cache(maxsize=4096)
def _pairs(items: tuple[tuple[Any, Any], ...]) -> tuple[tuple[str, str], ...]:
    """Return keys and values, checked; no value is the same as no key."""
    checked = [(check_key(key), _check_value(key, value, None)) for key, value in items]
    return tuple(pair for pair in checked if pair[1])


def check_segment_columns(
    segments: Mapping[str, Any], rows: int, *, like: str
) -> tuple[SegmentCodes, ...]:
    """Return segment columns, dictionary-encoded, or refuse them. O(rows) for each key.

    Parameters
    ----------
    segments
        For each key one value for all rows, or one for each.
    rows
        How many rows there are.
    like
        The column that says so.
    """
    if not hasattr(segments, "items"):
        message = f"segments must be a mapping of keys to columns, got {segments!r:.60}"
        raise InvalidInputError(message, field="segments")
    return tuple(
        _encoded(check_key(key), values, rows, like=like) for key, values in segments.items()
    )


def _encoded(key: str, values: Any, rows: int, *, like: str) -> SegmentCodes:
    if isinstance(values, str):
        value = _check_value(key, values, None)
        return SegmentCodes(key, (value,), np.zeros(rows, dtype=np.uint32))
    column = _listed(values, f"segments[{key!r}]")
    check_length(f"segments[{key!r}]", len(column), like=like, length=rows)
    try:
        places = dict.fromkeys(column)
        distinct = tuple(_check_value(key, value, None) for value in places)
    except (TypeError, InvalidInputError):
        for index, value in enumerate(column):
            _check_value(key, value, index)
        raise
    for place, value in enumerate(places):
        places[value] = place
    codes = np.fromiter(map(places.__getitem__, column), dtype=np.uint32, count=rows)
    return SegmentCodes(key, distinct, codes)


def check_key(key: Any) -> str:
    """Return a segment key, or refuse it."""
    if not isinstance(key, str) or _KEY.match(key) is None:
        raise InvalidInputError(
            f"a segment key must be [A-Za-z0-9._-]+ and at most {MAX_KEY_LENGTH} characters, "
            f"got {key!r:.80}",
            field="segments",
        )
    return str(key)


def _check_value(key: str, value: Any, index: int | None) -> str:
    """Return a segment value, or refuse it; None is no value."""
    if value is None:
        return ""
    problem = None
    if not isinstance(value, str):
        problem = f"segment value must be a string, got {value!r:.60}"
    elif value == _RESERVED:
        problem = (
            f"segment value {_RESERVED} is reserved for values beyond the most that a key may have"
        )
    elif value:
        try:
            problem = id_problem("segment value", value, MAX_ID_BYTES)
        except UnicodeEncodeError:
            problem = f"segment value must be valid Unicode, got {value!r:.60}"
    if problem is not None:
        where = "" if index is None else f" at index {index}"
        raise InvalidInputError(problem + where, field=f"segments[{key!r}]", index=index)
    return str(value)


def _listed(values: Any, field: str) -> list[Any]:
    """Return a column of text as a list of its own."""
    if isinstance(values, list | tuple):
        return list(values)
    # numpy, pandas; pyarrow; polars.
    for method in ("tolist", "to_pylist", "to_list"):
        read = getattr(values, method, None)
        if read is not None:
            listed = read()
            if isinstance(listed, list):
                return listed
    message = f"{field} must be a column (a list or an array), got {type(values).__name__}"
    raise InvalidInputError(message, field=field)
