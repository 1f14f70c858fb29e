"""The shared ascending integers: views of one table that only grows, within its bound."""

from __future__ import annotations

import numpy as np
import pytest

from streameval._counts import ascending as module
from streameval._counts.ascending import ascending


@pytest.fixture(autouse=True)
def shared(monkeypatch: pytest.MonkeyPatch) -> module._Shared:
    """Return an empty table of at most 100 integers."""
    table = module._Shared()
    monkeypatch.setattr(module, "_SHARED", table)
    monkeypatch.setattr(module, "MAX_SHARED", 100)
    return table


@pytest.mark.parametrize("sizes", [(0, 1, 7, 100), (100, 7), (101, 3), (60, 70)])
def test_any_number_of_integers_from_0_on(sizes: tuple[int, ...]) -> None:
    """Read-only, whichever sizes were asked for before."""
    for size in sizes:
        found = ascending(size)
        assert found.tolist() == list(range(size))
        assert found.dtype == np.int64
        assert size == 0 or not found.flags.writeable


def test_columns_share_a_table_up_to_its_bound(shared: module._Shared) -> None:
    """Columns of before keep theirs; larger ones are the caller's."""
    first, second = ascending(7), ascending(5)
    assert np.shares_memory(first, second)
    third = ascending(60)
    assert (first.tolist(), third.tolist()) == (list(range(7)), list(range(60)))
    assert shared.table.size == 100
    assert np.shares_memory(ascending(100), third)
    assert not np.shares_memory(ascending(101), third)
    assert shared.table.size == 100
