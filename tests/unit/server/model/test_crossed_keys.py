"""Two segment keys crossed: values, columns, and what a stream may declare."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.wire import SegmentCodes
from streameval_server import Limits
from streameval_server._model.crossed_keys import (
    MAX_PAIRS,
    crossed_column,
    crossed_value,
    with_crossed,
)
from streameval_server._model.errors import RequestError
from streameval_server._model.stream_settings import StreamSettings, check

VALUES = st.lists(st.sampled_from(("", "a", "a*", "*b", "\\", "b")), min_size=1, max_size=5)
KEY = "country*channel"


@settings(max_examples=150)
@given(VALUES, VALUES, st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=30))
def test_a_crossed_column_is_that_of_its_rows(one: list, other: list, rows: list) -> None:
    """Row by row the crossed value of its two; a value that no row has is not listed."""
    sides = [
        SegmentCodes(name, tuple(values), np.array(codes, dtype=np.uint16))
        for name, values, codes in (
            ("country", one, [a % len(one) for a, _ in rows]),
            ("channel", other, [b % len(other) for _, b in rows]),
        )
    ]
    found = crossed_column(KEY, sides)
    assert found is not None
    assert found.key == KEY
    wanted = [crossed_value(one[a % len(one)], other[b % len(other)]) for a, b in rows]
    assert [found.values[code] for code in found.codes.tolist()] == wanted
    assert sorted(set(found.codes.tolist())) == list(range(len(found.values)))


def test_a_column_of_more_pairs_than_a_table_has() -> None:
    """They are sorted, with the same result."""
    size = 1_000
    assert size * size > MAX_PAIRS
    names = tuple(f"v{number}" for number in range(size))
    rng = np.random.default_rng(3)
    sides = [
        SegmentCodes(key, names, rng.integers(0, size, 500).astype(np.uint16))
        for key in ("country", "channel")
    ]
    found = crossed_column(KEY, sides)
    assert found is not None
    wanted = [f"v{a}*v{b}" for a, b in zip(*(side.codes.tolist() for side in sides), strict=True)]
    assert [found.values[code] for code in found.codes.tolist()] == wanted


def test_a_batch_without_one_of_the_keys_has_no_crossed_column() -> None:
    """Its rows have no crossed value."""
    side = SegmentCodes("country", ("a",), np.zeros(3, dtype=np.uint16))
    assert crossed_column(KEY, [side]) is None
    assert with_crossed({"country": "a"}, ["country", "channel", KEY])[KEY] == ""


@given(st.text(max_size=4), st.text(max_size=4), st.text(max_size=4), st.text(max_size=4))
def test_other_values_have_another_crossed_one(a: str, b: str, c: str, d: str) -> None:
    """Also where they contain stars and backslashes."""
    if all((a, b, c, d)) and (a, b) != (c, d):
        assert crossed_value(a, b) != crossed_value(c, d)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        (("country", "channel", "country*channel"), None),
        (("country", "country*channel"), "crosses channel, which is not declared"),
        (("country", "country*country"), "crosses two different keys"),
        (("a", "b", "c", "a*b*c"), "crosses two keys at most"),
        (("a", "a*"), "must be"),
    ],
)
def test_what_can_be_crossed(keys: tuple[str, ...], problem: str | None) -> None:
    """Two different keys that are declared."""
    declared = StreamSettings(segment_keys=keys)
    if problem is None:
        check(declared, Limits())
        assert StreamSettings.of_fields(declared.to_fields()) == declared
        return
    with pytest.raises(RequestError, match=problem):
        check(declared, Limits())
