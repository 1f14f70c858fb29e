"""What a stream name, an id, a segment key and a segment value may be.

A stream's name goes into paths, labels and logs, so it is plain ASCII. Ids,
producers and segment values belong to the users: any text up to a length. The
client's checks and the server's refusals both use these rules, so that a name is
refused with the same words by both.

A `..._problem` function returns the text of the error, or None for a valid name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.values import at_row, is_number, quoted, scalar, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_STREAM_NAME = 128
"""Longest stream name, in characters."""

MAX_KEY_LENGTH = 64
"""Longest segment key, in characters."""

MAX_ID_BYTES = 128
"""Longest id, producer or segment value, in bytes of UTF-8."""

OTHER_VALUE = "__other__"
"""The segment value that stands for all values beyond a key's maximum; it is reserved."""

_STREAM = re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*\Z")
_DOT_SEGMENT = re.compile(r"(?:\A|/)\.\.?(?:/|\Z)")
_KEY = re.compile(rf"[A-Za-z0-9._-]{{1,{MAX_KEY_LENGTH}}}\Z")


def stream_name_problem(
    name: str, max_length: int = MAX_STREAM_NAME, noun: str = "stream name"
) -> str | None:
    """Return why `name` is not a stream name; None when it is one. Messages call it `noun`.

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
        return f"{noun} must not be empty"
    if len(name) > max_length:
        return f"{noun} must be at most {max_length} characters, got {len(name)}"
    if _STREAM.match(name) is None:
        return f"{noun} must be [A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*, got {quoted(name)}"
    return None


def is_at_or_below(names: Iterable[str], stream: str) -> bool:
    """Whether a stream has one of some names, or lies below one. O(names).

    Examples
    --------
    >>> [is_at_or_below(["fraud"], name) for name in ("fraud", "fraud/v3", "fraudulent")]
    [True, True, False]
    """
    return any(stream == name or stream.startswith(name + "/") for name in names)


def dot_segment_problem(name: str, noun: str = "stream name") -> str | None:
    """Return why `name` is not safe in a URL's path; None when it is. Messages call it `noun`.

    Browsers, HTTP clients and proxies resolve the segments ``.`` and ``..``, so the
    request would reach another stream.

    Examples
    --------
    >>> dot_segment_problem("fraud/v1.2...")
    >>> dot_segment_problem("fraud/../payments/v1")
    "stream name must have no segment '.' or '..', got 'fraud/../payments/v1'"
    """
    if _DOT_SEGMENT.search(name) is None:
        return None
    return f"{noun} must have no segment '.' or '..', got {quoted(name)}"


def new_stream_name_problem(name: str, max_length: int) -> str | None:
    """Return why no stream can be created with `name`; None when one can.

    Streams that exist, created before segments of dots were refused, are only checked by
    `stream_name_problem`, so that they can be read, exported and deleted.
    """
    return stream_name_problem(name, max_length) or dot_segment_problem(name)


def id_problem(kind: str, value: str, max_bytes: int = MAX_ID_BYTES) -> str | None:
    """Return why `value` is not an id; None when it is one. `kind` names it in the text.

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


def segment_key_problem(key: str, noun: str = "a segment key") -> str | None:
    """Return why `key` is not a segment key; None when it is one. Messages call it `noun`.

    Examples
    --------
    >>> segment_key_problem("country")
    >>> segment_key_problem("a key")
    "a segment key must be [A-Za-z0-9._-]+ and at most 64 characters, got 'a key'"
    """
    if _KEY.match(key) is None:
        return (
            f"{noun} must be [A-Za-z0-9._-]+ and at most {MAX_KEY_LENGTH} characters, "
            f"got {quoted(key)}"
        )
    return None


def segment_value_problem(value: str, max_bytes: int) -> str | None:
    """Return why `value` is not a segment value; None when it is one. "" means no value.

    Examples
    --------
    >>> segment_value_problem("US", 128)
    >>> segment_value_problem("", 128)
    >>> segment_value_problem("__other__", 128)
    'segment value __other__ is reserved for values beyond the maximum of a key'
    """
    if value == OTHER_VALUE:
        return f"segment value {OTHER_VALUE} is reserved for values beyond the maximum of a key"
    return id_problem("segment value", value, max_bytes) if value else None


def id_of(value: Any, *, field: str = "id", index: int | None = None) -> str | bytes:
    """Return an id as text or bytes, or refuse it: every way in reads ids by this rule. O(1).

    An integer is its decimal digits, and so is a whole float that is exact: 17, 17.0 and "17"
    are one id. A float that may stand for several integers, one with a fraction, a boolean and
    a missing value are refused.

    Raises
    ------
    InvalidInputError
        With the value, and what to do.

    Examples
    --------
    >>> id_of("order-17"), id_of(17), id_of(17.0)
    ('order-17', '17', '17')
    >>> id_of(1e16)
    Traceback (most recent call last):
    streameval.InvalidInputError: id must be a text or an integer, got 1e+16: a float keeps whole \
numbers below 2**53 only, so write ids as text
    """
    if isinstance(value, str | bytes):
        return value
    number = scalar(value, field, field, index)
    if isinstance(number, str | bytes):
        return number
    whole = _whole(number) if is_number(number) else None
    if whole is not None:
        return str(whole)
    message = f"{field} must be a text or an integer, got {shown(value)}{at_row(index)}"
    if isinstance(number, float | np.floating) and np.isfinite(number):
        message += f": a float keeps whole numbers below 2**{_digits(number)} only, so write ids "
        message += "as text"
    raise InvalidInputError(message, field=field, index=index)


def _whole(number: Any) -> int | None:
    """Return a number that is whole and exact; None for others."""
    try:
        whole = int(number)
    except (ValueError, ArithmeticError):  # NaN and the infinities
        return None
    if isinstance(number, float | np.floating):
        return whole if whole == number and abs(whole) < 1 << _digits(number) else None
    return whole if whole == number else None


def _digits(number: Any) -> int:
    """Return how many binary digits a float of its width keeps."""
    return int(np.finfo(number).nmant) + 1 if isinstance(number, np.floating) else 53


def check_id(value: Any, *, field: str = "id", index: int | None = None) -> bytes:
    """Return one id as its bytes, text as UTF-8, or refuse it as `id_of` does. O(1).

    So ``"order-17"`` and ``b"order-17"`` are the same id, and the 16 bytes of a UUID
    are an id too.
    """
    data = id_of(value, field=field, index=index)
    if isinstance(data, str):
        try:
            data = data.encode()
        except UnicodeEncodeError:
            message = f"{field} must be valid Unicode, got {value!r}{at_row(index)}"
            raise InvalidInputError(message, field=field, index=index) from None
    if not 1 <= len(data) <= MAX_ID_BYTES:
        message = f"{field} must have 1 to {MAX_ID_BYTES} bytes, got {len(data)}{at_row(index)}"
        raise InvalidInputError(message, field=field, index=index)
    return bytes(data)


def check_ids(ids: Any, *, field: str = "ids") -> list[bytes]:
    """Return a column of ids as bytes, or refuse it with the first row at fault. O(n).

    Parameters
    ----------
    ids : sequence of str, bytes or int
        A list, or a column of numpy, pandas, polars or pyarrow.
    """
    column = column_to_list(ids)
    if column is None:
        message = f"{field} must be a column of ids, got {type(ids).__name__}"
        raise InvalidInputError(message, field=field)
    return [
        # The common case, without a call for each row.
        value
        if type(value) is bytes and 0 < len(value) <= MAX_ID_BYTES
        else check_id(value, field=field, index=index)
        for index, value in enumerate(column)
    ]


def column_to_list(values: Any) -> list[Any] | tuple[Any, ...] | None:
    """Return a column of texts as a list; a list or tuple as it is; None for anything else.

    Floats keep their width, by which `id_of` knows what they may stand for.
    """
    if isinstance(values, list | tuple):
        return values
    if getattr(getattr(values, "dtype", None), "kind", "") == "f":
        return list(np.asarray(values))
    # numpy, pandas; pyarrow; polars.
    for method in ("tolist", "to_pylist", "to_list"):
        read = getattr(values, method, None)
        if read is not None:
            listed = read()
            if isinstance(listed, list):
                return listed
    return None
