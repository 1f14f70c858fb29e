"""The short way of events with one row gives what the long way gives, refusals included."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("jmespath", reason="needs the extra payloads")
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.payloads import Event, PayloadMapping, read_rows
from streameval.payloads._single_row import read_single_row

TABLES: list[dict[str, Any]] = [
    {"preset": "ndjson", "stream": "s"},
    {"preset": "ndjson", "stream": "s", "time_unit": "ms", "positive": "x"},
    {"preset": "kserve-v2", "stream": "s", "types": [], "when": "body.ok != `false`"},
    {"stream": "s", "id": "headers.id", "label": "body.label"},
]
OTHER_TABLES: list[dict[str, Any]] = [
    {"preset": "ndjson", "stream": "s/{id}"},
    {"preset": "ndjson", "stream": "s", "class": 0},
    {"preset": "ndjson", "stream": "s/{class}", "classes": ["a", "b"]},
    {"preset": "ndjson", "stream": "s", "segments": {"k": "body.k"}},
    {"preset": "ndjson", "stream": "s", "cluster": "body.k"},
    {"preset": "ndjson", "stream": "s", "weight": "body.k"},
]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 2),
    st.sampled_from([10**400, 1.0, 0.0, -0.0, 1e308, float("nan"), float("inf")]),
    st.floats(0, 1),
    st.sampled_from(["", "1", "true", "x", "é" * 65, "i" * 128, "i" * 129, "\ud800", "\x00"]),
)
VALUES = st.one_of(
    SCALARS, st.lists(SCALARS, max_size=2), st.lists(st.lists(SCALARS, max_size=2), max_size=1)
)
TIMES = st.one_of(VALUES, st.sampled_from(["2026-01-02T03:04:05Z", "yesterday", 1.7e9, 1e300]))
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "id": st.one_of(VALUES, st.just("a")),
        "score": st.one_of(VALUES, st.floats(0, 1)),
        "label": VALUES,
        "time": TIMES,
        "ok": st.booleans(),
        "outputs": st.lists(st.fixed_dictionaries({"data": VALUES}), max_size=2),
    },
)
HEADERS = st.fixed_dictionaries(
    {}, optional={"id": st.sampled_from(["e", "", "é"]), "time": st.sampled_from(["", "x"])}
)


def long_way(mapping: PayloadMapping, event: Event) -> Any:
    """Return what the rows of an event are without the short way."""
    object.__setattr__(mapping, "has_plain_rows", False)
    try:
        return read_rows(mapping, event)
    finally:
        object.__setattr__(mapping, "has_plain_rows", True)


@settings(max_examples=500)
@given(
    body=BODIES,
    headers=HEADERS,
    mapping=st.sampled_from([PayloadMapping.of(table) for table in TABLES]),
)
@pytest.mark.slow
def test_both_ways_give_the_same(
    body: Any, headers: dict[str, str], mapping: PayloadMapping
) -> None:
    """Rows, their types, and refusals; NaN is not equal to itself, so texts are compared."""
    event = Event(body, headers)
    assert repr(read_rows(mapping, event)) == repr(long_way(mapping, event))


def test_the_short_way_is_taken() -> None:
    """By predictions, labels and rows with both; a score in a list of one too."""
    mapping = PayloadMapping.of(TABLES[0])
    for values in (
        {"score": 0.5},
        {"score": [0.5], "time": "2026-01-02T03:04:05Z"},
        {"score": None, "label": 1},
        {"score": 0.5, "label": False},
    ):
        row = read_single_row(mapping, {"id": "a", **values})
        assert row is not None
        (wanted,) = long_way(mapping, Event({"id": "a", **values})).rows
        assert row == wanted


@pytest.mark.parametrize("table", OTHER_TABLES)
def test_mappings_of_more_take_the_long_way(table: dict[str, Any]) -> None:
    """Names of streams, classes, segments, clusters and weights are not read by the short one."""
    assert not PayloadMapping.of(table).has_plain_rows
