"""The short way of simple messages gives what the long way gives."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.kafka import _piece
from streameval.kafka._piece import read_piece
from streameval.kafka._plain_rows import PlainRows
from streameval.payloads import PayloadMapping

NDJSON = {"preset": "ndjson", "stream": "s"}


class StubMessage:
    """A message without a broker."""

    def __init__(self, value: bytes | None, time_ms: int = 1_700_000_000_000) -> None:
        self._value = value
        self._time_ms = time_ms

    def value(self) -> bytes | None:
        return self._value

    def timestamp(self) -> tuple[int, int]:
        return (1, self._time_ms) if self._time_ms else (0, -1)

    def headers(self) -> None: ...

    def key(self) -> None: ...

    def topic(self) -> str:
        return "t"


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.floats(), st.text(max_size=40), st.just([1])
)
bodies = st.one_of(
    st.fixed_dictionaries(
        {},
        optional={
            "id": st.one_of(scalars, st.text(min_size=1, max_size=3)),
            "score": st.one_of(scalars, st.floats(0, 1)),
            "label": scalars,
            "time": st.one_of(st.none(), scalars),
        },
    ),
    scalars,
).map(lambda body: json.dumps(body).encode())
messages = st.lists(
    st.builds(
        StubMessage, st.one_of(st.none(), st.binary(max_size=8), bodies), st.sampled_from([0, 5])
    ),
    max_size=8,
)


@given(messages=messages)
def test_both_ways_agree(messages: list[Any]) -> None:
    mappings = [PayloadMapping.of(NDJSON)]
    assert PlainRows.of(mappings) is not None
    short = read_piece(messages, mappings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_piece.PlainRows, "of", lambda _: None)
        long = read_piece(messages, mappings)
    assert short.rows == long.rows
    assert short.refused == long.refused
    assert [each.message(1) for each in short.batches] == [each.message(1) for each in long.batches]
    assert [each.places for each in short.batches] == [each.places for each in long.batches]


@pytest.mark.parametrize(
    "more",
    [
        {"types": ["t"]},
        {"stream": "{topic}"},
        {"segments": {"k": "body.k"}},
        {"positive": "yes"},
        {"class": 1},
        {"score": "body.a.b"},
        {"id": "headers.key"},
        {"id": "body.id || body.key"},
        {"when": "body.ok"},
        {"cluster": "body.user"},
        {"weight": "body.weight"},
    ],
)
def test_other_mappings_go_the_long_way(more: dict[str, object]) -> None:
    assert PlainRows.of([PayloadMapping.of({**NDJSON, **more})]) is None


def test_a_structured_event_whose_stream_is_no_name() -> None:
    """Whatever a message holds is a refusal."""
    event = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "model": "\ud800"}
    event["data"] = {"id": "a", "score": 0.5}

    class Structured(StubMessage):
        def headers(self) -> list[tuple[str, bytes]]:
            return [("content-type", b"application/cloudevents+json")]

    mappings = [PayloadMapping.of({**NDJSON, "stream": "{model}"})]
    piece = read_piece([Structured(json.dumps(event).encode())], mappings)
    assert [each.reason for each in piece.refused[0]] == ["stream"]


@pytest.mark.parametrize("key", [None, "body.known"])
def test_labels_have_times(key: str | None) -> None:
    """Those of their messages, or their own; the source's time is the earliest message's."""
    keys = NDJSON if key is None else {**NDJSON, "label_time": key, "time_unit": "ms"}
    bodies = [{"id": "a", "score": 0.5, "label": 1}, {"id": "b", "label": 0, "known": 3}, {"id": 7}]
    texts = [json.dumps(each).encode() for each in bodies]
    messages: Any = [StubMessage(text, 9 - place) for place, text in enumerate(texts)]
    piece = read_piece(messages, [PayloadMapping.of(keys)], max_skew_us=2_000)
    predictions, labels = piece.batches
    assert labels.message(1).labels.label_times_us == [9_000, 8_000 if key is None else 3_000]
    assert predictions.message(1).predictions.event_times_us == [9_000]
    assert {each.message(1).source_time_us for each in piece.batches} == {5_000}


def test_without_times_the_server_has_the_time() -> None:
    text = json.dumps({"id": "a", "score": 0.5, "label": 1}).encode()
    messages: Any = [StubMessage(text, 0)]
    predictions, labels = read_piece(messages, [PayloadMapping.of(NDJSON)]).batches
    assert not labels.message(1).labels.label_times_us
    assert predictions.message(1).source_time_us == labels.message(1).source_time_us == 0
