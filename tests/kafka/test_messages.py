"""The forms of messages: CloudEvents, Seldon's headers, protobuf, JSON."""

from __future__ import annotations

import gzip
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import InvalidInputError
from streameval.kafka._messages import read_message
from streameval.kafka._v2_response import read_v2_response
from streameval.payloads import Event, PayloadMapping, UnreadableEvent, read_rows

RESPONSE = "org.kubeflow.serving.inference.response"
V2 = {"id": "q", "outputs": [{"name": "p", "shape": [2], "datatype": "FP64", "data": [0.25, 0.75]}]}
CE = {"id": "7", "source": "s", "specversion": "1.0", "type": RESPONSE, "region": "eu"}


def varint(number: int) -> bytes:
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number: int, value: bytes | int) -> bytes:
    """Return a protobuf field: written by hand, so that no generated code is trusted."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def v2(
    contents: bytes | None = None,
    raw: bytes | None = None,
    *,
    name: bytes = b"fraud",
    datatype: bytes = b"FP64",
    shape: tuple[int, ...] = (2,),
) -> bytes:
    """Return a ModelInferResponse with one output."""
    tensor = field(1, b"p") + field(2, datatype)
    tensor += field(3, b"".join(map(varint, shape)))
    if contents is not None:
        tensor += field(5, contents)
    body = field(1, name) + field(2, b"1") + field(3, b"inner") + field(5, tensor)
    return body if raw is None else body + field(6, raw)


def rows(mapping: dict[str, object], headers: list[tuple[str, bytes]], value: bytes) -> list:
    (event,) = read_message("topic", None, headers, value)
    found = read_rows(PayloadMapping.of(mapping), event)
    assert not found.refusals
    return [(row.stream, row.id, row.score) for row in found.rows]


EXPECTED = [("fraud/eu", "q/0", 0.25), ("fraud/eu", "q/1", 0.75)]
KSERVE = {"preset": "kserve-v2", "stream": "fraud/{region}"}


def test_binary_cloud_events() -> None:
    headers = [(f"ce_{name}", value.encode()) for name, value in CE.items()]
    headers.append(("content-type", b"application/json"))
    assert rows(KSERVE, headers, json.dumps(V2).encode()) == EXPECTED


def test_structured_cloud_events() -> None:
    headers = [("content-type", b"application/cloudevents+json; charset=UTF-8")]
    assert rows(KSERVE, headers, json.dumps({**CE, "data": V2}).encode()) == EXPECTED


@pytest.mark.parametrize("headers", [[], [("traceparent", b"00-1")], None])
def test_structured_cloud_events_without_a_content_type(headers: list | None) -> None:
    """They are known by the attributes that an event has; the payload alone is a payload.

    Met in cloudevents/spec#812, sdk-go#1113, sdk-java#370 and #422 (Knative's sink).
    """
    event = {**CE, "data": V2}
    assert rows(KSERVE, headers, json.dumps(event).encode()) == EXPECTED
    (read,) = read_message("t", b"k", headers, json.dumps(event).encode(), {"another type"})
    assert (read.body, read.headers["type"], read.headers["topic"]) == (None, RESPONSE, "t")
    for body in ({**V2, "specversion": "1.0"}, {"note": '"specversion"'}, ["specversion"]):
        (read,) = read_message("t", None, headers, json.dumps(body).encode())
        assert "type" not in read.headers


FRAMED = json.dumps({"id": "sr1", "score": 0.9}).encode()
PLAIN = {"preset": "ndjson", "stream": "s"}


@pytest.mark.parametrize(
    "frame",
    [
        b"\0\0\0\0\1",  # Confluent, JSON Schema: provectus/kafka-ui#643
        b"\0\0\0\1\x86",  # pact-jvm#1503
        b"\0\xff\xff\xff\xff",
        b"\0\0\0\0{",  # a schema's number may look like JSON
        b"\0\0\0\0\0\0\0\0\1",  # Apicurio, a number of eight bytes
        b"\3\0" + b"u" * 16,  # AWS Glue, not packed
    ],
)
def test_json_in_the_frame_of_a_schema_registry(frame: bytes) -> None:
    assert rows(PLAIN, [], frame + FRAMED) == [("s", "sr1", 0.9)]
    (event,) = read_message("t", None, [("content-type", b"application/json")], frame + FRAMED)
    assert event.body == json.loads(FRAMED)
    tensor = json.dumps({"id": "a", "outputs": [{"shape": [1, 2], "data": [0.1, 0.9]}]}).encode()
    nested = {"preset": "kserve-v2", "stream": "s", "types": [], "class": 1}
    assert rows(nested, [], frame + tensor) == [("s", "a", 0.9)]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        # Avro: stream-reactor#844, kafkajs/confluent-schema-registry#146
        (b"\0\0\0\0\1\x06sr1\xcd\xcc\xec?", "5 bytes of a schema registry's frame"),
        (
            b"\0\2\xb8\xb0\x8b\x80\xe0\xb7",
            "5 bytes of a schema registry's frame",
        ),  # Apicurio/apicurio-registry#4199
        (b"\0\0\0\0\1\0\n\x03sr1", "5 bytes of a schema registry's frame"),  # Protobuf
        (b"\0\0\0\0\1{", "5 bytes of a schema registry's frame"),
        (b"\3\5" + b"u" * 16 + b"\x78\x9c", "is not JSON"),  # Glue, packed
        (b"\3\0" + b"u" * 16 + b"\x06sr1", "18 bytes of the frame of AWS Glue's"),
        (b"Obj\1\4", "is not JSON"),
    ],
)
def test_other_formats_in_a_frame_are_named(value: bytes, message: str) -> None:
    """With what the producer has to write."""
    with pytest.raises(InvalidInputError, match=message) as caught:
        read_message("t", None, [], value)
    assert ("JSON Schema" in str(caught.value)) == ("frame" in message)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16-be", "utf-16", "utf-32-be", "utf-32-le"])
def test_other_encodings_are_no_frames(encoding: str) -> None:
    """JSON in UTF-16 and UTF-32 begins with zeros, too."""
    text = json.dumps([[{"id": "a", "score": 0.9}]])
    (event,) = read_message("t", None, [], text.encode(encoding))
    assert event.body == json.loads(text)


def test_plain_headers_of_seldon_core_1() -> None:
    headers = [
        ("type", b"io.seldon.serving.inference.response"),
        ("content-type", b"application/json"),
        ("requestid", b"abc"),
        ("inferenceservicename", b"fraud"),
    ]
    body = {"data": {"names": ["no", "yes"], "ndarray": [[0.9, 0.1]]}}
    mapping = {"preset": "seldon", "stream": "{inferenceservicename}", "class": "yes"}
    assert rows(mapping, headers, json.dumps(body).encode()) == [("fraud", "abc", 0.1)]


@pytest.mark.parametrize("name", [b"fraud", b"m" * 91, b"m" * 123, b"m" * 300])
def test_protobuf_of_seldon_core_2(name: bytes) -> None:
    """Its content type is missing; a length of 91 or 123 looks like JSON."""
    value = v2(field(7, struct.pack("<2d", 0.25, 0.75)), name=name)
    found = rows({"preset": "seldon-v2", "stream": "{topic}"}, [("x-request-id", b"r")], value)
    assert found == [("topic", "r/0", 0.25), ("topic", "r/1", 0.75)]


def test_json_with_a_request_id() -> None:
    value = b"\n" + json.dumps(V2).encode()
    found = rows({"preset": "seldon-v2", "stream": "{topic}"}, [("X-Request-Id", b"r")], value)
    assert found == [("topic", "r/0", 0.25), ("topic", "r/1", 0.75)]


@pytest.mark.parametrize(
    ("datatype", "raw", "expected"),
    [
        (b"FP32", struct.pack("<2f", 0.5, 2.0), [0.5, 2.0]),
        (b"FP16", struct.pack("<2e", 0.5, 2.0), [0.5, 2.0]),
        (b"INT64", struct.pack("<2q", -1, 2), [-1, 2]),
        (b"UINT8", b"\x01\xff", [1, 255]),
        (b"BOOL", b"\x01\x00", [True, False]),
        (b"BYTES", struct.pack("<I2sI0s", 2, b"ab", 0, b""), ["ab", ""]),
    ],
)
def test_raw_contents(datatype: bytes, raw: bytes, expected: list[object]) -> None:
    assert read_v2_response(v2(raw=raw, datatype=datatype))["outputs"][0]["data"] == expected


def test_a_matrix_is_nested() -> None:
    raw = struct.pack("<4d", 0.9, 0.1, 0.3, 0.7)
    mapping = {"preset": "seldon-v2", "stream": "s", "class": 1}
    found = rows(mapping, [("x-request-id", b"r")], v2(raw=raw, shape=(2, 2)))
    assert found == [("s", "r/0", 0.1), ("s", "r/1", 0.7)]


@pytest.mark.parametrize(
    "value",
    [
        v2(raw=b"\0" * 9),
        v2(raw=b"", datatype=b"BF17"),
        v2(raw=struct.pack("<I", 9), datatype=b"BYTES"),
        v2(raw=b"\0\0\0\0\1", datatype=b"BYTES"),
        field(1, b"fraud") + field(6, b"raw without outputs"),
        v2()[:-3],
    ],
)
def test_damaged_protobuf(value: bytes) -> None:
    with pytest.raises(InvalidInputError):
        read_message("t", None, [("content-type", b"application/x-protobuf")], value)


@given(
    value=st.binary(max_size=60), name=st.sampled_from(["x-request-id", "ce_id", "content-type"])
)
def test_any_bytes(value: bytes, name: str) -> None:
    """A message raises InvalidInputError or gives events."""
    for headers in (None, [(name, value)], [(name, b"application/x-protobuf")]):
        try:
            read_message("t", value, headers, value)
        except InvalidInputError as error:
            assert str(error)  # noqa: PT017


def test_packed_messages() -> None:
    """Unpacked within a limit: 64 MiB of zeros in 64 kB are refused, as is damage."""
    headers = [("Content-Encoding", b"gzip")]
    (event,) = read_message("t", None, headers, gzip.compress(b'{"score": 0.5}'))
    assert event.body == {"score": 0.5}
    for body, message in (
        (gzip.compress(bytes(64 << 20)), "unpacks to more than 33554432 bytes"),
        (b'{"score": 0.5}', "the body is not gzip"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            read_message("t", None, headers, body)


def test_a_bad_event_of_a_batch() -> None:
    """Its neighbours are read, with the topic and the key."""
    headers = [("content-type", b"application/cloudevents-batch+json")]
    batch = [{**CE, "data": V2}, {**CE, "data": "{"}, {**CE, "type": "other", "data": "text"}]
    value = json.dumps(batch).encode()
    good, bad, other = read_message("t", b"k", headers, value, {RESPONSE})
    assert isinstance(good, Event)
    assert (good.headers["topic"], good.headers["key"]) == ("t", "k")
    assert isinstance(bad, UnreadableEvent)
    assert "the body is not JSON" in bad.message
    assert isinstance(other, Event)
    assert other.body is None
    assert isinstance(read_message("t", None, headers, value)[2], UnreadableEvent)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"\x2a\x00" * 1_001, "more than 1000 outputs"),
        (b"\x2a\x00" * 1_000_001, "more than 1000000 fields"),
        (field(5, field(5, field(1, b"\x01" * 1_000_001))), "more than 1000000 values"),
    ],
)
def test_a_response_is_bounded_before_it_is_read(value: bytes, problem: str) -> None:
    """Two bytes of an empty output take some 400: a packed message took gigabytes."""
    headers = [("content-type", b"application/protobuf"), ("content-encoding", b"gzip")]
    with pytest.raises(InvalidInputError, match=problem):
        read_message("t", None, headers, gzip.compress(value))
