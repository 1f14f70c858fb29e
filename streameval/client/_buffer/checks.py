"""Checks callers' stream names, ids and segments by the server's rules, with its messages.

`streameval._common.names` defines the rules. Cost: some 50 ns a row for columns of
text; a Python loop runs only if a column has text that is not plain ASCII, or is invalid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.names import (
    MAX_ID_BYTES,
    column_to_list,
    id_of,
    id_problem,
    segment_key_problem,
    segment_value_problem,
    stream_name_problem,
)
from streameval._common.values import at_row
from streameval._counts.columns import check_length
from streameval._row_codec.segments import SegmentCodes
from streameval.client._buffer.segments import SegmentSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streameval._row_codec.segments import SegmentPairs

    SegmentItems = tuple[tuple[Any, Any], ...]

_MAX_SEGMENT_SETS = 4096


def check_stream_name(name: str, *, field: str = "stream") -> str:
    """Return the name of a stream, or of what `field` says, or refuse it."""
    if not isinstance(name, str):
        raise InvalidInputError(f"{field} name must be a string, got {name!r:.60}", field=field)
    problem = stream_name_problem(name, noun=f"{field} name")
    if problem is not None:
        raise InvalidInputError(problem, field=field)
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
    given = id_of(value, field=field or kind, index=index)
    if isinstance(given, bytes):
        try:
            text = given.decode()
        except UnicodeDecodeError:
            message = f"{kind} must be UTF-8, got {value!r:.60}{at_row(index)}"
            raise InvalidInputError(message, field=field or kind, index=index) from None
    else:
        text = str(given)
    if text.isascii() and 0 < len(text) <= MAX_ID_BYTES:
        return text
    try:
        problem = id_problem(kind, text, MAX_ID_BYTES)
    except UnicodeEncodeError:
        problem = f"{kind} must be valid Unicode, got {text!r:.60}"
    if problem is not None:
        raise InvalidInputError(problem + at_row(index), field=field or kind, index=index)
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
    column = _text_column(ids, "ids")
    try:
        plain = "".join(column).isascii()
    except TypeError:
        plain = False
    if plain:
        lengths = list(map(len, column))
        if not lengths or (min(lengths) > 0 and max(lengths) <= MAX_ID_BYTES):
            return column
    return [check_id(value, field="ids", index=index) for index, value in enumerate(column)]


def check_segments(segments: Mapping[str, str]) -> SegmentPairs:
    """Return one row's segments as pairs, or refuse them.

    Examples
    --------
    >>> check_segments({"country": "US", "plan": ""})
    (('country', 'US'),)
    """
    return check_segment_set(segments).pairs


def check_segment_set(segments: Mapping[str, str]) -> SegmentSet:
    """Return one row's segments as a set, or refuse them. O(1) if they were checked before."""
    try:
        return _SEGMENT_SETS[tuple(segments.items())]
    except AttributeError:
        message = f"segments must be a mapping of keys to values, got {segments!r:.60}"
        raise InvalidInputError(message, field="segments") from None
    except TypeError:  # an unhashable value is not text
        _check_items(tuple(segments.items()))
        raise


def _check_items(items: SegmentItems) -> SegmentSet:
    """Return the segments of a mapping's items, or refuse them; a key without a value is left out.

    O(items).
    """
    checked = [(check_key(key), _check_value(key, value, None)) for key, value in items]
    return SegmentSet(tuple(pair for pair in checked if pair[1]))


class _SegmentSets(dict["SegmentItems", SegmentSet]):
    """Sets by the items of mappings; items that were not seen lately are checked, or refused."""

    def __missing__(self, items: SegmentItems) -> SegmentSet:
        checked = _check_items(items)
        if len(self) >= _MAX_SEGMENT_SETS:
            self.clear()
        self[items] = checked
        return checked


_SEGMENT_SETS = _SegmentSets()
"""Text equals text only, so items that equal valid ones are valid. Shared by all streams."""


def check_segment_columns(
    segments: Mapping[str, Any], rows: int, *, like: str
) -> tuple[SegmentCodes, ...]:
    """Return segment columns, dictionary-encoded, or refuse them. O(rows) for each key.

    Parameters
    ----------
    segments
        For each key one value for all rows, or one for each.
    rows
        The number of rows.
    like
        The column that has this number of rows.
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
    column = _text_column(values, f"segments[{key!r}]")
    check_length(f"segments[{key!r}]", len(column), like=like, length=rows)
    try:
        codes = dict.fromkeys(column)
        distinct = tuple(_check_value(key, value, None) for value in codes)
    except (TypeError, InvalidInputError):
        for index, value in enumerate(column):
            _check_value(key, value, index)
        raise
    for code, value in enumerate(codes):
        codes[value] = code
    row_codes = np.fromiter(map(codes.__getitem__, column), dtype=np.uint32, count=rows)
    return SegmentCodes(key, distinct, row_codes)


def check_key(key: Any) -> str:
    """Return a segment key, or refuse it."""
    if isinstance(key, str):
        problem = segment_key_problem(key)
    else:
        problem = f"a segment key must be a string, got {key!r:.60}"
    if problem is not None:
        raise InvalidInputError(problem, field="segments")
    return str(key)


def _check_value(key: str, value: Any, index: int | None) -> str:
    """Return a segment value, or refuse it; None is no value."""
    if value is None:
        return ""
    if isinstance(value, str):
        try:
            problem = segment_value_problem(value, MAX_ID_BYTES)
        except UnicodeEncodeError:
            problem = f"segment value must be valid Unicode, got {value!r:.60}"
    else:
        problem = f"segment value must be a string, got {value!r:.60}"
    if problem is not None:
        raise InvalidInputError(problem + at_row(index), field=f"segments[{key!r}]", index=index)
    return str(value)


def _text_column(values: Any, field: str) -> list[Any]:
    """Return a column of text as a new list, or refuse what is not a column."""
    listed = column_to_list(values)
    if listed is None:
        message = f"{field} must be a column (a list or an array), got {type(values).__name__}"
        raise InvalidInputError(message, field=field)
    # A list of the caller's must be copied; `tolist` and the like have made a new one.
    return list(listed) if listed is values or isinstance(listed, tuple) else listed
