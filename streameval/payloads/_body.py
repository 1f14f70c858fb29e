"""Bodies of payloads as JSON values: unpacked within a limit, flat tensors nested by their shape.

The Open Inference Protocol (V2) and Seldon's tensors give numbers either nested or flat with
a `shape` beside them. They are nested here, so that a selector finds rows in both.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from typing import TYPE_CHECKING, Any

from streameval._common.errors import InvalidInputError
from streameval._common.values import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_UNPACKED_BYTES = 32 << 20
"""A body that unpacks to more is refused."""

DECODER = json.JSONDecoder()
SCAN: Callable[[str, int], tuple[Any, int]] = DECODER.scan_once  # type: ignore[attr-defined]
"""`DECODER.raw_decode` without a Python call; raises StopIteration where no value begins."""

_SHAPE = r'"shape"\s*:\s*\[[^\]]*,'
"""A shape of several dimensions. The pattern begins with a text, which is found fast."""

_SHAPE_TEXT, _SHAPE_BYTES = re.compile(_SHAPE), re.compile(_SHAPE.encode())

_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_CONTAINERS = frozenset({dict, list})
_NUMBERS = ("data", "values")
"""Where a tensor's numbers are: V2 outputs, and Seldon's `tensor`."""


class TooLongError(InvalidInputError):
    """A body unpacks to more than its limit."""


def unpack(body: bytes, encoding: str, max_bytes: int = MAX_UNPACKED_BYTES) -> bytes:
    """Return a body without its content encoding, or refuse it. O(result), at most `max_bytes`.

    Parameters
    ----------
    body : bytes
    encoding : str
        The header ``content-encoding``; empty or ``identity`` for none.
    max_bytes : int
        The longest result. No more is unpacked, so a small body cannot take much memory.

    Raises
    ------
    InvalidInputError
        For another encoding than gzip, and a damaged body.
    TooLongError
        For one that unpacks to more than `max_bytes`.

    Examples
    --------
    >>> import gzip
    >>> unpack(gzip.compress(b"[1]"), "gzip")
    b'[1]'
    """
    if encoding.strip().lower() in ("", "identity"):
        return body
    if encoding.strip().lower() != "gzip":
        message = f"content-encoding must be gzip or absent, got {quoted(encoding)}"
        raise InvalidInputError(message, field="content-encoding")
    pieces, rest, left = [], body, max_bytes
    while rest:
        # A gzip body may have several members, one behind the other.
        unpacker = zlib.decompressobj(_GZIP_WINDOW)
        try:
            piece = unpacker.decompress(rest, left + 1)
        except zlib.error as error:
            raise InvalidInputError(f"the body is not gzip: {error}", field="body") from None
        left -= len(piece)
        if left < 0:
            message = f"the body unpacks to more than {max_bytes} bytes: send smaller ones"
            raise TooLongError(message, field="body")
        if not unpacker.eof:
            raise InvalidInputError("the gzip body ends before its end", field="body")
        pieces.append(piece)
        rest = unpacker.unused_data
    return b"".join(pieces)


def parse_json(body: bytes | str) -> Any:
    """Return a body's JSON value; tensors nested. NaN and Infinity are read as numbers.

    They are no JSON, but Python and Go servers write them; the row that has one is refused,
    and not its neighbours.

    Raises
    ------
    InvalidInputError
        When the body is no JSON.

    Examples
    --------
    >>> parse_json(b'{"outputs": [{"shape": [2, 2], "data": [1, 2, 3, 4]}]}')["outputs"][0]["data"]
    [[1, 2], [3, 4]]
    """
    value = load_json(body)
    if may_have_flat_tensors(body):
        nest_tensors(value)
    return value


def may_have_flat_tensors(body: bytes | str) -> bool:
    """Whether a body of JSON may have a tensor of several dimensions; False is certain. O(body).

    Looking for one in its value takes longer than reading it. A key that is written with an
    escape is not found, so a body with any escape may have one; so may one with a zero, of
    which UTF-16 and UTF-32 have many.
    """
    if isinstance(body, str):
        return "\\u" in body or _SHAPE_TEXT.search(body) is not None
    return b"\\u" in body or b"\0" in body or _SHAPE_BYTES.search(body) is not None


def load_json(body: bytes | str) -> Any:
    """Return a body's JSON value as it is. Raises as `parse_json`.

    Of a small body `json.loads` takes most of its time to find the encoding and to skip white
    space. So a decoder that does neither tries first; where it does not take the whole body,
    `json.loads` decides.
    """
    try:
        text = body if type(body) is str else body.decode()  # type: ignore[union-attr]  # bytes
        value, end = DECODER.raw_decode(text)
        if end == len(text):
            return value
    except (ValueError, RecursionError):
        pass
    try:
        return json.loads(body)
    # ValueError: invalid JSON or UTF-8, and numbers of thousands of digits.
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"the body is not JSON: {error}", field="body") from None


def nest_tensors(value: Any) -> None:
    """Nest every flat tensor in a value, in place. O(value)."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            shape = each.get("shape")
            if isinstance(shape, list) and len(shape) > 1:
                for name in _NUMBERS:
                    if isinstance(each.get(name), list):
                        each[name] = _nested(each[name], shape)
            each = each.values()
        elif not isinstance(each, list):
            continue
        # Numbers and texts, of which there are the most, have no tensor in them.
        waiting += [part for part in each if type(part) in _CONTAINERS]


def _nested(numbers: list[Any], shape: list[Any]) -> list[Any]:
    """Return flat numbers nested by their shape; what is nested or does not fit as it is."""
    if any(isinstance(each, list) for each in numbers) or not all(
        type(size) is int and size > 0 for size in shape
    ):
        return numbers
    if math.prod(shape) != len(numbers):
        return numbers
    for size in reversed(shape[1:]):
        numbers = [numbers[at : at + size] for at in range(0, len(numbers), size)]
    return numbers
