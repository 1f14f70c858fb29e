"""Payloads that are made to cost far more than their bytes, for each way in.

`bench/payload_costs.py` measures them, `bench/fuzz.py` starts from them, and tests send them.
Each grows with a size in bytes, lines to 1 MiB; a packed body has it once it is unpacked.
"""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

BATCHED = "application/cloudevents-batch+json"
STRUCTURED = "application/cloudevents+json"
JSON, PROTOBUF = "application/json", "application/x-protobuf"
HEAD = {"specversion": "1.0", "id": "1", "source": "s", "type": "scored"}
BINARY = {f"ce-{name}": value for name, value in HEAD.items()}
EVENT, LOGS, LINES, MESSAGE = "event", "logs", "lines", "message"
"""The ways in, as in `payload_ways`."""


class Attack(NamedTuple):
    """A body and how it is sent.

    Attributes
    ----------
    way : str
        `EVENT`, `LOGS`, `LINES` or `MESSAGE`.
    name : str
    headers : dict of str to str
    body : bytes
    """

    way: str
    name: str
    headers: Mapping[str, str]
    body: bytes


def field(number: int, content: bytes) -> bytes:
    """Return a field of a message in protobuf."""
    size, rest = [], len(content)
    while rest > 127:
        size.append(rest & 127 | 128)
        rest >>= 7
    return bytes([number << 3 | 2, *size, rest]) + content


def attacks(size: int) -> Iterator[Attack]:
    """Yield every attack, of about `size` bytes each."""
    for name, body in _values(size).items():
        yield Attack(EVENT, f"binary: {name}", {**BINARY, "content-type": JSON}, body)
        yield Attack(MESSAGE, name, {}, body)
        text = json.dumps({**HEAD, "data": 0}).encode()
        event = text.replace(b'"data": 0', b'"data": ' + body)
        yield Attack(EVENT, f"structured: {name}", {"content-type": STRUCTURED}, event)
    for name, body in _batches(size).items():
        yield Attack(EVENT, f"batch: {name}", {"content-type": BATCHED}, body)
    for name, body in _logs_in_json(size).items():
        yield Attack(LOGS, f"JSON: {name}", {"content-type": JSON}, body)
    for name, body in _logs_in_protobuf(size).items():
        yield Attack(LOGS, f"protobuf: {name}", {"content-type": PROTOBUF}, body)
        packed = {"content-type": PROTOBUF, "content-encoding": "gzip"}
        yield Attack(LOGS, f"gzip of protobuf: {name}", packed, gzip.compress(body))
    for name, body in _lines(min(size, 1 << 20)).items():
        yield Attack(LINES, name, {}, body)
    for name, body in _v2_in_protobuf(size).items():
        yield Attack(MESSAGE, f"V2: {name}", {"content-type": PROTOBUF}, body)
    members = {"content-encoding": "gzip", "content-type": JSON}
    body = gzip.compress(b"") * (size // 20)
    yield Attack(EVENT, "gzip of members", {**BINARY, **members}, body)
    yield Attack(MESSAGE, "gzip of members", members, body)
    bomb = gzip.compress(bytes(1 << 20)) * (size // 1_054)
    yield Attack(LOGS, "a bomb", {"content-type": PROTOBUF, "content-encoding": "gzip"}, bomb)


def _repeated(part: bytes, size: int, before: bytes = b"[", after: bytes = b"]") -> bytes:
    return before + b",".join([part] * max(1, size // (len(part) + 1))) + after


def _values(size: int) -> dict[str, bytes]:
    """Return values in JSON that the mappings of `MAPPINGS` read."""
    half = size // 2
    scores = _repeated(b"0.5", half)
    long = b'"' + "é".encode() * (half // 2) + b'"'
    return {
        "empty objects": _repeated(b"{}", size),
        "objects": _repeated(b'{"a":0}', size),
        "empty lists": _repeated(b"[]", size),
        "integers": _repeated(b"0", size),
        "distinct texts": b"[" + b",".join(b'"%x"' % n for n in range(size // 9)) + b"]",
        "distinct keys": b"{" + b",".join(b'"%x":0' % n for n in range(size // 11)) + b"}",
        "digits": b"9" * size,
        "digits of a score": b'{"id":"a","p":' + b"9" * size + b"}",
        "digits of a fraction": b'{"id":"a","p":0.' + b"9" * size + b"}",
        "nesting": b"[" * half + b"]" * half,
        "nesting that does not end": b"[" * size,
        "quotes": b'{"a":"' + b'\\"' * half + b'"}',
        "quotes below nesting": b"[" * 5_000 + b'"' + b'\\"' * half,
        "rows": b'{"id":"a","p":' + _repeated(b"0.5", size) + b"}",
        "rows that are wrong": b'{"id":"a","p":' + _repeated(b'""', size) + b"}",
        "a long id of rows": b'{"id":' + long + b',"p":' + scores + b"}",
        "a long segment of rows": b'{"id":"a","s":' + long + b',"p":' + scores + b"}",
        "a long label of rows": b'{"id":"a","y":' + long + b',"p":' + scores + b"}",
        "a long time of rows": b'{"id":"a","t":' + long + b',"p":' + scores + b"}",
        "a long cluster of rows": b'{"id":"a","c":' + long + b',"p":' + scores + b"}",
        "names of classes": b'{"id":"a","q":'
        + _repeated(b"[0]", half)
        + b',"names":'
        + _repeated(b'"x"', half)
        + b"}",
        "a shape of ones": b'{"id":"a","outputs":[{"shape":[%d,' % (half // 4)
        + _repeated(b"1", half // 2, b"")
        + b',"data":'
        + _repeated(b"0.5", half // 4 * 4)
        + b"}]}",
        "a shape of digits": b'{"outputs":[{"shape":'
        + _repeated(b"9" * 4_000, size)
        + b',"data":[1]}]}',
        "shapes in shapes": b'{"shape":[' * 400 + b'"' + b"x" * size + b'"' + b"]}" * 400,
        "JSON in texts": b'{"id":"a","text":' + json.dumps("[{}," * (size // 5)).encode() + b"}",
        "escapes": b'{"id":"a","p":"' + b"\\u0041" * (size // 6) + b'"}',
        "halves of surrogates": b'{"id":"' + b"\\ud800" * (size // 6) + b'","p":0.5}',
        "UTF-16": ("[" + "{}," * (size // 6) + "0]").encode("utf-16"),
    }


def _batches(size: int) -> dict[str, bytes]:
    """Return batches of CloudEvents."""
    event = json.dumps({**HEAD, "data": {"id": "a", "p": 0.5}}).encode()
    ignored = json.dumps({**HEAD, "type": "x"}).encode()
    return {
        "empty objects": _repeated(b"{}", size),
        "numbers": _repeated(b"1", size),
        "events": _repeated(event, size),
        "events of other types": _repeated(ignored, size),
        "an attribute that is an object": _repeated(
            event[:-1] + b',"x":' + _repeated(b"{}", size // 2) + b"}", size // 2
        ),
        "data in base64": _repeated(
            json.dumps({**HEAD, "data_base64": "WzFd" * 100}).encode(), size
        ),
    }


def _logs_in_json(size: int) -> dict[str, bytes]:
    """Return requests of logs."""

    def of_record(record: bytes) -> bytes:
        return b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[' + record + b"]}]}]}"

    list_of = b'{"body":{"arrayValue":{"values":%s}}}'
    return {
        "empty resources": b'{"resourceLogs":' + _repeated(b"{}", size) + b"}",
        "empty scopes": b'{"resourceLogs":[{"scopeLogs":' + _repeated(b"{}", size) + b"}]}",
        "empty records": of_record(_repeated(b"{}", size, b"", b"")),
        "empty attributes": of_record(b'{"attributes":' + _repeated(b"{}", size) + b"}"),
        "empty values": of_record(list_of % _repeated(b"{}", size)),
        "digits": of_record(b'{"body":{"intValue":"' + b"9" * size + b'"}}'),
        "nesting": of_record(
            b'{"body":' + b'{"arrayValue":{"values":[' * (size // 28) + b"]}}" * (size // 28) + b"}"
        ),
        "wrong records": of_record(_repeated(b"0", size, b"", b"")),
    }


def _logs_in_protobuf(size: int) -> dict[str, bytes]:
    """Return the same in the other encoding."""
    half = size // 2

    def of_record(record: bytes) -> bytes:
        return field(1, field(2, field(2, record)))

    deep = b""
    while len(deep) < size // 100:
        deep = field(5, field(1, deep))
    return {
        "empty resources": b"\x0a\x00" * half,
        "empty scopes": field(1, b"\x12\x00" * half),
        "empty records": field(1, field(2, b"\x12\x00" * half)),
        "unknown fields": b"\x7a\x00" * half,
        "numbers": b"\x78\x00" * half,
        "empty attributes": of_record(b"\x32\x00" * half),
        "attributes of lists": of_record(b"\x32\x04\x12\x02\x2a\x00" * (size // 6)),
        "empty values": of_record(field(5, field(5, b"\x0a\x00" * half))),
        "attributes of a resource": field(1, field(1, b"\x0a\x00" * half)),
        "entities of a resource": field(1, field(1, b"\x1a\x00" * half)),
        "attributes of a scope": field(1, field(2, field(1, b"\x1a\x00" * half))),
        "resources in pieces": field(
            1, field(1, b"\x22" * half) + b"\x0a\x02\x10\x00" * (half // 4)
        ),
        "records of a long resource": field(
            1, field(1, b"\x0a\x00" * half) + field(2, b"\x12\x00" * min(half, 50_000))
        ),
        "nesting": of_record(b"".join([field(5, deep)] * 100)),
        "truncated records": field(1, field(2, b"\x12\x01\xff" * (size // 3))),
    }


def _lines(size: int) -> dict[str, bytes]:
    """Return files of lines."""
    return {
        "empty lines": b"\n" * size,
        "numbers": b"1\n" * (size // 2),
        "empty objects": b"{}\n" * (size // 3),
        "one line": b'{"id":"a","p":' + _repeated(b"{}", size) + b"}",
    }


def _v2_in_protobuf(size: int) -> dict[str, bytes]:
    """Return responses of the Open Inference Protocol."""
    half = size // 2
    texts = field(2, b"BYTES")
    return {
        "empty outputs": b"\x2a\x00" * half,
        "empty raw contents": b"\x32\x00" * half,
        "empty texts": field(5, texts + field(5, b"\x42\x00" * half)),
        "raw texts": field(5, texts) + field(6, b"\x00\x00\x00\x00" * (size // 4)),
        "booleans": field(5, field(2, b"BOOL")) + field(6, b"\x00" * size),
        "a shape": field(5, field(3, b"\x01" * size)),
    }
