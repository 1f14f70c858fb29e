"""Sums of products beyond int64."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streameval._counts import exact
from streameval._counts.exact import exact_dot


@given(st.lists(st.tuples(*(st.integers(0, 2**62),) * 2), max_size=20))
def test_against_python_integers(pairs):
    """Every size, from below int64 to 124 bits and more."""
    a = np.array([x for x, _ in pairs], dtype=np.int64)
    b = np.array([y for _, y in pairs], dtype=np.int64)
    expected = sum(x * y for x, y in pairs)
    assert exact_dot(a, b, expected) == expected
    assert exact_dot(a, b, 2**200) == expected


def test_chunks(monkeypatch):
    """More items than one chunk's sums can hold."""
    monkeypatch.setattr(exact, "_CHUNK", 7)
    a = np.arange(2**40, 2**40 + 100)
    assert exact_dot(a, a, 2**200) == sum(x * x for x in a.tolist())
