"""Distinct values and their places, against numpy's own sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.kernel import distinct_values

NEAR = st.integers(-20, 20)
FAR = st.sampled_from([-(1 << 62), -7, 0, 3, 60_000_000, 1 << 62])


@given(values=st.lists(st.one_of(NEAR, FAR), max_size=60))
@pytest.mark.slow
def test_equals_numpys_unique(values: list[int]) -> None:
    """Values and places are those of np.unique, whether the values lie close together or not."""
    column = np.array(values, dtype=np.int64)
    distinct, index = distinct_values(column)
    expected, places = np.unique(column, return_inverse=True)
    assert distinct.dtype == expected.dtype
    assert index.dtype == np.intp
    assert distinct.tolist() == expected.tolist()
    assert index.tolist() == places.tolist()


@pytest.mark.parametrize("width", [1, 2, 400, 401, 402, 5_000])
def test_widths_beside_the_limit(width: int) -> None:
    """Tables up to the widest, and a sort beyond it, agree; the column is not changed."""
    column = np.linspace(0, width - 1, 100).astype(np.int64) - 3
    before = column.copy()
    distinct, index = distinct_values(column)
    assert distinct[index].tolist() == column.tolist()
    assert distinct.tolist() == sorted(set(before.tolist()))
    assert column.tolist() == before.tolist()
