"""Messages of CloudEvents in each mode, by another implementation; packed and damaged bodies."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("jmespath", reason="needs the extra payloads")
from streameval import InvalidInputError
from streameval.payloads import (
    MAX_UNPACKED_BYTES,
    Event,
    TooLongError,
    UnreadableEvent,
    read_event,
    read_events,
    unpack,
)
from streameval.payloads._body import load_json, parse_json
from streameval.payloads._tensors import nest_tensors

ATTRIBUTES = {
    "id": "7",
    "type": "io.seldon.serving.feedback",
    "source": "über/alles %41",
    "specversion": "1.0",
    "requestid": "r-1",
}
BODY = {"truth": {"data": {"ndarray": [1]}}}


def test_both_modes_of_the_sdk() -> None:
    """What the CloudEvents SDK writes is read with all attributes."""
    pytest.importorskip("cloudevents", reason="cloudevents is not installed")
    from cloudevents.core.bindings import http
    from cloudevents.core.v1.event import CloudEvent

    sent = CloudEvent(attributes={**ATTRIBUTES, "datacontenttype": "application/json"}, data=BODY)
    for write in (http.to_binary_event, http.to_structured_event):
        message = write(sent)
        event = read_event({k.lower(): v for k, v in message.headers.items()}, message.body)
        assert event.body == BODY
        assert ATTRIBUTES.items() <= event.headers.items()


def test_a_batch_and_base64() -> None:
    """Every event of a batch; data as base64 and as text; booleans and numbers as text."""
    packed = base64.b64encode(json.dumps(BODY).encode()).decode()
    batch = [
        {**ATTRIBUTES, "data": BODY},
        {**ATTRIBUTES, "id": "8", "data_base64": packed, "canary": True, "attempt": 2},
        {**ATTRIBUTES, "id": "9", "data": json.dumps(BODY)},
    ]
    headers = {"content-type": "application/cloudevents-batch+json; charset=UTF-8"}
    events = read_events(headers, json.dumps(batch).encode())
    assert [event.headers["id"] for event in events] == ["7", "8", "9"]
    assert all(event.body == BODY for event in events)
    assert events[1].headers["canary"] == "true"
    assert events[1].headers["attempt"] == "2"
    with pytest.raises(InvalidInputError, match="a batch of events, where one is expected"):
        read_event(headers, json.dumps(batch).encode())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": ""}, "the event has no id"),
        ({"type": None}, "the event has no type"),
        ({"specversion": "0.3"}, "specversion must be 1.x, got '0.3'"),
        ({"data_base64": "%"}, "data_base64 is not base64"),
        ({"data": "{"}, "the body is not JSON"),
    ],
)
def test_a_bad_event_of_a_batch_is_named(change: dict[str, object], message: str) -> None:
    """It is yielded in its place; the others are read. Alone it is refused."""
    bad = {name: each for name, each in {**ATTRIBUTES, **change}.items() if each is not None}
    good = {**ATTRIBUTES, "data": 1}
    headers = {"content-type": "application/cloudevents-batch+json"}
    first, second, third, last = read_events(headers, json.dumps([good, bad, 7, good]).encode())
    assert first == last == Event(1, ATTRIBUTES)
    assert isinstance(second, UnreadableEvent)
    assert message in second.message
    assert third == UnreadableEvent("an event must be a JSON object")
    with pytest.raises(InvalidInputError, match=message):
        read_event(headers, json.dumps([bad]).encode())
    with pytest.raises(InvalidInputError, match=message):
        read_event({"content-type": "application/cloudevents+json"}, json.dumps(bad).encode())


@pytest.mark.parametrize("types", [None, {"wanted"}, {"other"}, set()])
def test_payloads_of_other_types_are_not_read(types: set[str] | None) -> None:
    """In each mode: they need not be JSON, and the attributes are there."""
    head = {**ATTRIBUTES, "type": "wanted"}
    is_read = types is None or "wanted" in types
    batch = [{**head, "data": "{"}, {**head, "data_base64": "%"}, {**head, "data": BODY}]
    headers = {"content-type": "application/cloudevents-batch+json"}
    bad, worse, good = read_events(headers, json.dumps(batch).encode(), types)
    assert good == Event(BODY if is_read else None, head)
    assert isinstance(bad, UnreadableEvent) == isinstance(worse, UnreadableEvent) == is_read
    binary = {f"ce-{name}": quote(each) for name, each in head.items()}
    structured = {"content-type": "application/cloudevents+json"}
    for names, body in ((binary, b"{"), (structured, json.dumps(batch[0]).encode())):
        if is_read:
            with pytest.raises(InvalidInputError, match="the body is not JSON"):
                read_events(names, body, types)
        else:
            assert read_events(names, body, types) == [Event(None, head)]


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_refused(body: bytes) -> None:
    """Nesting that does not end too."""
    with pytest.raises(InvalidInputError, match="the body is not JSON"):
        read_event({"ce-id": "1", "ce-type": "t", "ce-source": "s", "ce-specversion": "1.0"}, body)


def test_packed_bodies() -> None:
    """Members one behind the other; damage, another encoding and a bomb are refused."""
    assert unpack(gzip.compress(b"[1,") + gzip.compress(b"2]"), "gzip") == b"[1,2]"
    assert unpack(b"[1]", "identity") == b"[1]"
    for body, encoding, message in (
        (b"[1]", "br", "content-encoding must be gzip, deflate, zlib or absent, got 'br'"),
        (b"[1]", "gzip", "the body is not gzip"),
        (gzip.compress(b"[1]")[:-3], "gzip", "the gzip body ends before its end"),
        (gzip.compress(bytes(MAX_UNPACKED_BYTES + 1)), "gzip", "unpacks to more than"),
    ):
        with pytest.raises(InvalidInputError, match=message) as caught:
            unpack(body, encoding)
        assert isinstance(caught.value, TooLongError) == ("more than" in message)


TENSORS = st.recursive(
    st.sampled_from([1, 0.5, "]", "shape", None, [], [2], [2, 1], [1, 2, 1], [[1], [2]], ["]", 2]]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["shape", "data", "values", "k", "é"]), inner, max_size=3),
        st.fixed_dictionaries({"shape": st.just([2, 2]), "data": st.just([1, 2, 3, 4])}),
    ),
    max_leaves=8,
)


@given(
    value=TENSORS,
    separators=st.sampled_from([(",", ":"), (", ", " : "), (" ,\n", ":\n ")]),
    encoding=st.sampled_from(["utf-8", "utf-16", "utf-32-be"]),
    is_escaped=st.booleans(),
)
def test_no_tensor_stays_flat(
    value: Any, separators: tuple[str, str], encoding: str, is_escaped: bool
) -> None:
    """Bodies that cannot have one are not searched; the result is that of a search of all."""
    text = json.dumps(value, separators=separators, ensure_ascii=False)
    if is_escaped:
        text = text.replace('"shape"', '"sh\\u0061pe"')
    wanted = json.loads(text)
    nest_tensors(wanted)
    assert parse_json(text.encode(encoding)) == parse_json(text) == wanted


TEXTS = st.one_of(
    st.recursive(st.none() | st.floats() | st.text(), st.lists).map(json.dumps),
    st.text('[]{}",:\\ \n\ufeff\ud800tn0-e.', max_size=12),
)


@given(text=TEXTS, encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32-le", ""]))
def test_json_is_what_the_standard_library_reads(text: str, encoding: str) -> None:
    """Also with white space, in other encodings, and what is none at all."""
    body = text.encode(encoding, "surrogatepass") if encoding else text
    try:
        wanted = json.loads(body)
    except ValueError:
        with pytest.raises(InvalidInputError, match=r"the body is not JSON|no JSON follows"):
            load_json(body)
    else:
        assert repr(load_json(body)) == repr(wanted)  # NaN differs from itself


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (
            gzip.compress(b"{}", mtime=0),
            "it is packed by gzip: pack with gzip, and send content-encoding: ",
        ),
        (b"\x28\xb5\x2f\xfd\x04", "it is packed by zstd: pack with gzip, and send content-enc"),
        (b"\x04\x22\x4d\x18\x64", "it is packed by lz4: pack with gzip, and send content-enco"),
        (b'{"id": "\xfc"}', "it is not UTF-8 (byte 0xfc at 8)"),
        (b"\x82\xa2id\xa1a", "it is not UTF-8 (byte 0x82 at 0)"),  # MessagePack
    ],
)
def test_what_is_not_json_is_named(body: bytes, told: str) -> None:
    """In a sender's words, not in a codec's."""
    with pytest.raises(InvalidInputError) as caught:
        load_json(body)
    assert str(caught.value).startswith(f"the body is not JSON: {told}")
