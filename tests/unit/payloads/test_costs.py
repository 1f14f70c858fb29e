"""What a payload may cost: in proportion to its bytes, whatever it declares or repeats."""

from __future__ import annotations

import gzip
import json
import time
import zlib
from typing import Any

import pytest

pytest.importorskip("jmespath", reason="needs the extra payloads")
from streameval import InvalidInputError
from streameval.payloads import (
    Event,
    PayloadMapping,
    Reason,
    TooLongError,
    UnreadableEvent,
    read_events,
    read_rows,
    unpack,
)
from streameval.payloads._body import MAX_JSON_PARTS, load_json, parse_json
from streameval.payloads._tensors import may_have_flat_tensors

MAX_S = 2.0
"""Processor time of each attack below. All took more than ten seconds once; they take 0.2 now."""

BATCHED = {"content-type": "application/cloudevents-batch+json"}
HEAD = {"specversion": "1.0", "type": "scored", "source": "s"}
LONG = "é" * 2_000_000
ROWS = 20_000


def rows_of(event: Event, **keys: Any) -> list[str]:
    """Return the reasons for which the rows of an event are refused; each is."""
    table = {"stream": "s", "id": "headers.id", "score": "body.p", **keys}
    found = read_rows(PayloadMapping.of(table), event)
    assert not found.rows
    return [each.reason.value for each in found.refusals]


def shared(**body: Any) -> Event:
    """Return an event of many rows."""
    return Event({"p": [0.5] * ROWS, **body}, {"id": "7"})


DEEP = '{"shape": [' * 900 + json.dumps("x" * 8_000_000) + "]}" * 900

ATTACKS: dict[str, Any] = {
    "a shape of long numbers": lambda: parse_json(
        b'{"shape": [' + (b"9" * 4_000 + b",") * 1_000 + b'1], "data": [1]}'
    ),
    "a shape of many ones": lambda: parse_json(
        json.dumps({"shape": [20_000] + [1] * 20_000, "data": [1] * 20_000})
    ),
    "shapes within shapes": lambda: may_have_flat_tensors(DEEP),
    "an id of all rows": lambda: rows_of(Event({"p": [0.5] * ROWS}, {"id": LONG})),
    "an id of all rows that has labels": lambda: rows_of(
        Event({"p": [0.5] * ROWS, "y": True}, {"id": LONG}), label="body.y"
    ),
    "a segment of all rows": lambda: rows_of(shared(a=LONG), segments={"a": "body.a"}),
    "an object for a segment": lambda: rows_of(
        shared(a={str(n): n for n in range(100_000)}), segments={"a": "body.a"}
    ),
    "a cluster of all rows": lambda: rows_of(shared(a=LONG), cluster="body.a"),
    "a time of all rows": lambda: rows_of(shared(a=LONG), time="body.a"),
    "a label of all rows": lambda: rows_of(shared(a=LONG), label="body.a"),
    "a header in the stream's name": lambda: rows_of(
        Event({"p": [0.5] * ROWS}, {"id": "7", "m": LONG}), stream="s/{m}"
    ),
    "names of classes": lambda: rows_of(
        Event({"p": [[0.5]] * 50_000, "names": ["y"] * 50_000}, {"id": "7"}),
        class_names="body.names",
        **{"class": "z"},
    ),
    "gzip of many members": lambda: unpack(gzip.compress(b"") * 400_000, "gzip"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_the_square_of_nothing_is_paid(name: str) -> None:
    """Neither of a declared size, nor of what rows share."""
    began = time.thread_time()
    ATTACKS[name]()
    assert time.thread_time() - began < MAX_S


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zlib"])
def test_a_bomb_is_stopped_at_the_limit(encoding: str) -> None:
    """Of one member or many; what is below the limit comes whole."""
    pack = gzip.compress if encoding == "gzip" else zlib.compress
    for body in (pack(bytes(40 << 20)), pack(bytes(1 << 20)) * 40):
        with pytest.raises(TooLongError, match="unpacks to more than 1000000 bytes"):
            unpack(body, encoding, 1_000_000)
    text = json.dumps(list(range(100_000))).encode()
    assert unpack(pack(text[:777]) + pack(b"") + pack(text[777:]), encoding) == text
    with pytest.raises(InvalidInputError, match=f"the {encoding} body ends before its end"):
        unpack(pack(text)[:-1], encoding)
    with pytest.raises(InvalidInputError, match=f"the body is not {encoding}"):
        unpack(pack(text) + b"x" * 100, encoding)


@pytest.mark.parametrize("part", ["{},", "[],", '{"a":0},', "1,", "[" * 3_000_000])
@pytest.mark.parametrize("kind", [str, bytes])
def test_a_text_of_too_many_values_is_not_read(part: str, kind: type) -> None:
    """They are counted before they are made: an empty object has two bytes, and takes 64."""
    text = part * (MAX_JSON_PARTS + 1) if len(part) < 10 else part
    with pytest.raises(TooLongError, match="commas, colons and brackets"):
        load_json(text if kind is str else text.encode())


HUGE = "9" * 5_000


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (f'{{"id": "b", "p": {HUGE}}}', Reason.SCORE),
        (f'{{"id": "b", "p": -{HUGE}}}', Reason.SCORE),
        (f'{{"id": {HUGE}, "p": 0.5}}', Reason.ID),
        ('{"id": 1e999, "p": 0.5}', Reason.ID),
        (f'{{"id": "b", "p": 0.5, "t": {HUGE}}}', Reason.TIME),
        (f'{{"id": "b", "p": 0.5, "t": "{HUGE}"}}', Reason.TIME),
        ('{"id": "b", "p": 1e999}', Reason.SCORE),
        ('{"id": "b", "p": NaN}', Reason.SCORE),
        (f'{{"id": "b", "p": {"[" * 5_000 + "]" * 5_000}}}', Reason.SCORE),
        (f'{{"id": {"[" * 5_000 + "]" * 5_000}, "p": 0.5}}', Reason.ID),
        ('{"id": "\\ud800", "p": 0.5}', Reason.ID),
        (f'{{"id": "b", "p": 0.5, "when": {HUGE}, "p": "x"}}', Reason.SCORE),
    ],
)
def test_what_no_number_and_no_stack_holds_refuses_its_row_alone(bad: str, reason: Reason) -> None:
    """In a batch, its neighbours are read; the row says what is wrong, or is not counted."""
    good = '{"id": "g", "p": 0.5}'
    batch = ",".join(
        json.dumps({**HEAD, "id": str(place)})[:-1] + f', "data": {data}}}'
        for place, data in enumerate((good, bad, good))
    )
    events = read_events(BATCHED, f"[{batch}]".encode())
    table = {"stream": "s", "id": "body.id", "score": "body.p", "time": "body.t"}
    mapping = PayloadMapping.of(table)
    found = []
    for event in events:
        assert isinstance(event, Event)
        found.append(read_rows(mapping, event))
    assert [len(each.rows) for each in found] == [1, 0, 1]
    assert found[1].refusals[0].reason is reason
    assert len(found[1].refusals[0].message) < 300


@pytest.mark.parametrize(
    "expression",
    [
        "ceil(body.p)",
        "to_number(body.text)",
        "sum([body.p, body.p])",
        "max_by(body.list, &x)",
        "sort(body.list)",
        "to_string(body)",
        "join('', body.list)",
        "parse_json(body.text)",
        "of_role(body, 'prediction')",
    ],
)
def test_a_function_that_raises_refuses_its_event(expression: str) -> None:
    """Whatever it raises: the library's functions raise Python's errors for odd values."""
    deep: Any = []
    for _ in range(3_000):
        deep = [deep]
    mapping = PayloadMapping.of({"stream": "s", "id": "headers.id", "score": expression})
    for value in (float("inf"), float("nan"), int("9" * 4_300), "\ud800", deep):
        body = {"p": value, "list": [value, {}, 1], "text": HUGE, "bento_meta": {"schema": deep}}
        found = read_rows(mapping, Event(body, {"id": "7"}))
        for each in found.refusals:
            each.message.encode()
            assert len(each.message) < 400
        assert all(abs(row.score or 0) < float("inf") for row in found.rows)


def test_a_place_of_thousands_of_digits_is_no_class() -> None:
    """It is read as a number only if it is as short as one."""
    table = {"stream": "s/{class}", "id": "headers.id", "label": "body.y", "classes": ["a", "b"]}
    mapping = PayloadMapping.of(table)
    for label, found in (("1", [False, True]), (HUGE, []), (int("9" * 4_300), [])):
        rows = read_rows(mapping, Event({"y": label}, {"id": "7"})).rows
        assert [row.label for row in rows] == found


def test_an_event_that_raises_leaves_its_batch() -> None:
    """Attributes are text: one that is nested too deeply for it is that event's refusal."""
    deep = "[" * 600 + "]" * 600
    batch = f'[{json.dumps({**HEAD, "id": "1"})}, {{"id": "2", "x": {deep}, "data": {deep}}}]'
    good, bad = read_events(BATCHED, batch.encode())
    assert isinstance(good, Event)
    assert isinstance(bad, UnreadableEvent)
