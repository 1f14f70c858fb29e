"""Bodies of payloads as JSON values: unpacked within a limit, in what their senders frame them."""

from __future__ import annotations

import json
import re
import zlib
from typing import TYPE_CHECKING, Any

from streameval._common.errors import InvalidInputError
from streameval._common.values import quoted
from streameval.payloads._tensors import (
    BINARY_SIZE,
    may_have_flat_tensors,
    nest_tensors,
    read_binary_body,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_UNPACKED_BYTES = 32 << 20
"""A body that unpacks to more is refused."""

MAX_JSON_PARTS = 2_000_000
"""Commas, colons and brackets of one text of JSON: each stands for 64 bytes of its value at most,
so a text is refused by its count before it takes that memory."""

_PARTS = (",", ":", "[", "{")
_PART_BYTES = tuple(each.encode() for each in _PARTS)

DECODER = json.JSONDecoder()
SCAN: Callable[[str, int], tuple[Any, int]] = DECODER.scan_once  # type: ignore[attr-defined]
"""`DECODER.raw_decode` without a Python call; raises StopIteration where no value begins."""

_WINDOWS = {
    "gzip": 16 + zlib.MAX_WBITS,
    "x-gzip": 16 + zlib.MAX_WBITS,
    "deflate": zlib.MAX_WBITS,
    "zlib": zlib.MAX_WBITS,
}
"""What zlib is told of each content encoding. ``deflate`` has zlib's header (RFC 9110);
OpenTelemetry's Collector calls it ``zlib`` too."""

_FIRST_STEP, _MAX_STEP = 256, 1 << 16
"""Packed bytes that are handed over at once. zlib copies what follows a member's end, so a body
of many short members is handed over in short steps: O(body)."""

_TOKENS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
"""A text or a bracket of JSON. A text need not end, so that none is looked at twice."""

_FRAMES = (
    (b"\0", 5, "a schema registry's frame"),
    (b"\0", 9, "Apicurio's frame"),
    (b"\3\0", 18, "the frame of AWS Glue's schema registry"),
)
"""What serializers of Kafka write before a value: a first byte, and the schema's number. Apicurio
may write a number of eight bytes, Glue a UUID."""

_PACKED = ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"\x04\x22\x4d\x18", "lz4"))
"""How packed bodies begin, of which their sender said nothing."""

_MAX_DEPTH = 200
_TOO_DEEP = '"nested too deeply"'


class TooLongError(InvalidInputError):
    """A body unpacks to more than its limit."""


class UnknownEncodingError(InvalidInputError):
    """A body has a content encoding that is not read here."""


def unpack(body: bytes, encoding: str, max_bytes: int = MAX_UNPACKED_BYTES) -> bytes:
    """Return a body without its content encoding, or refuse it. O(body + result).

    Parameters
    ----------
    body : bytes
    encoding : str
        The header ``content-encoding``: gzip, deflate or zlib; empty or ``identity`` for none.
    max_bytes : int
        The longest result. No more is unpacked, so a small body cannot take much memory.

    Raises
    ------
    UnknownEncodingError
        For another encoding.
    InvalidInputError
        For a damaged body.
    TooLongError
        For one that unpacks to more than `max_bytes`.

    Examples
    --------
    >>> import gzip
    >>> unpack(gzip.compress(b"[1]"), "gzip")
    b'[1]'
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return body
    if name not in _WINDOWS:
        message = f"content-encoding must be gzip, deflate, zlib or absent, got {quoted(encoding)}"
        raise UnknownEncodingError(message, field="content-encoding")
    try:
        return b"".join(_unpacked(memoryview(body), name, max_bytes))
    except zlib.error as error:
        raise InvalidInputError(f"the body is not {name}: {error}", field="body") from None


def _unpacked(body: memoryview, encoding: str, left: int) -> Iterator[bytes]:
    """Yield a body's content, of `left` bytes at most. It may have members, one after another."""
    at, max_bytes = 0, left
    while at < len(body):
        unpacker, step = zlib.decompressobj(_WINDOWS[encoding]), _FIRST_STEP
        while not unpacker.eof:
            if at >= len(body):
                message = f"the {encoding} body ends before its end"
                raise InvalidInputError(message, field="body")
            chunk = body[at : at + step]
            piece = unpacker.decompress(chunk, left + 1)
            left -= len(piece)
            if left < 0:
                message = f"the body unpacks to more than {max_bytes} bytes: send smaller ones"
                raise TooLongError(message, field="body")
            at += len(chunk) - len(unpacker.unused_data)
            step = min(2 * step, _MAX_STEP)
            yield piece


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


def load_json(body: bytes | str) -> Any:
    """Return a body's JSON value as it is. Raises as `parse_json`.

    Of a small body `json.loads` takes most of its time to find the encoding and to skip white
    space. So a decoder that does neither tries first; where it does not take the whole body,
    `json.loads` decides.

    Two things that Python's reader refuses are a value here, so that the row that has one is
    refused, and not its neighbours: an integer of thousands of digits is infinite, and what is
    nested more deeply than the stack allows is a text that says so.
    """
    check_parts(body)
    try:
        text = body if type(body) is str else body.decode()  # type: ignore[union-attr]  # bytes
        value, end = DECODER.raw_decode(text)
        if end == len(text):
            return value
    except (ValueError, RecursionError):
        pass
    try:
        return json.loads(body, parse_int=_integer)
    except RecursionError:
        return _load_shallow(body)
    except ValueError as error:  # invalid JSON or UTF-8
        if isinstance(body, bytes):
            found = _load_framed(body)
            if found is not None:
                return found
        message = f"the body is not JSON: {_other_content(body, error)}"
        raise InvalidInputError(message, field="body") from None


def _other_content(body: bytes | str, error: ValueError) -> str:
    """Return what a body is that is not JSON; in a sender's words, where they are known."""
    if isinstance(body, str):
        return str(error)
    if not body.strip():
        return "it is empty"
    for magic, name in _PACKED:
        if body.startswith(magic):
            return f"it is packed by {name}: pack with gzip, and send content-encoding: gzip"
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 (byte 0x{body[error.start]:02x} at {error.start})"
    return str(error)


def _load_framed(body: bytes) -> Any:
    """Return the JSON of a body in which more than JSON is documented; None where it is not.

    Raises InvalidInputError for a frame with something else than JSON in it.
    """
    for magic, size, _ in _FRAMES:
        if body.startswith(magic) and body[size : size + 1] in (b"{", b"["):
            try:
                return json.loads(body[size:], parse_int=_integer)
            except (ValueError, RecursionError):
                continue
    for magic, size, name in _FRAMES:
        if body.startswith(magic) and len(body) > size:
            message = (
                f"the body begins with the {size} bytes of {name}, and no JSON follows: Avro and "
                "Protobuf are not read, so let the producer write JSON (JSON Schema)"
            )
            raise InvalidInputError(message, field="body")
    if BINARY_SIZE in body:
        try:
            return read_binary_body(body)
        except InvalidInputError:
            raise
        except (ValueError, RecursionError):
            pass
    return None


def _load_shallow(body: bytes | str) -> Any:
    """Return a value without what is nested more deeply than `_MAX_DEPTH`. O(body)."""
    try:
        text = body if isinstance(body, str) else body.decode(json.detect_encoding(body))
        depth, start, pieces = 0, 0, []
        for token in _TOKENS.finditer(text):
            if token[0] in ("[", "{"):
                depth += 1
                if depth == _MAX_DEPTH + 1:
                    pieces.append(text[start : token.start()])
            elif token[0] in ("]", "}"):
                depth -= 1
                if depth == _MAX_DEPTH:
                    pieces.append(_TOO_DEEP)
                    start = token.end()
        return json.loads("".join([*pieces, text[start:]]), parse_int=_integer)
    except (ValueError, RecursionError) as error:
        message = f"the body is not JSON, or nested too deeply: {error}"
        raise InvalidInputError(message, field="body") from None


def check_parts(body: bytes | str) -> None:
    """Refuse a text of JSON whose value may take too much memory, before it is read. O(body)."""
    if len(body) <= MAX_JSON_PARTS:
        return
    if isinstance(body, str):
        parts = sum(map(body.count, _PARTS))
    else:
        parts = sum(map(body.count, _PART_BYTES))
    if parts > MAX_JSON_PARTS:
        message = f"the body has {parts} commas, colons and brackets, and the most is "
        raise TooLongError(f"{message}{MAX_JSON_PARTS}: send fewer events", field="body")


def _integer(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        return float(digits)  # infinite
