"""Values inserted into columns whose rows move by steps, against a loop over the rows."""

from __future__ import annotations

import numpy as np
import pytest

from streameval._counts import insertion
from streameval._counts.exact import constant_of, dot, exact_dot, repeated
from streameval._counts.insertion import inserted, stepped


@pytest.fixture(autouse=True, params=[0, 1 << 40], ids=["pieces", "whole"])
def _ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy a column piece by piece, and at once."""
    monkeypatch.setattr(insertion, "_MIN_PIECE_ROWS", request.param)


def row_by_row(
    column: list[int], starts: list[int], steps: list[int], at: list[int], values: list[int]
) -> list[int]:
    """Return what `stepped` must return."""
    after = []
    for row in range(len(column) + 1):
        after += [value for place, value in zip(at, values) if place == row]
        if row < len(column):
            after.append(column[row] + sum(s for each, s in zip(starts, steps) if each <= row))
    return after


@pytest.mark.parametrize("seed", range(60))
def test_steps_and_values_are_those_of_a_loop_over_the_rows(seed: int) -> None:
    """Of short columns, with several steps and values at one row, at both ends, and with none."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(0, 12))
    column = rng.integers(0, 1_000, size)
    starts = np.sort(rng.integers(0, size + 1, int(rng.integers(0, 6))))
    steps = rng.integers(-5, 6, starts.size)
    at = np.sort(rng.integers(0, size + 1, int(rng.integers(0, 6))))
    values = rng.integers(2_000, 3_000, at.size)
    before = column.copy()
    after = stepped(column, starts, steps, at, values)
    rows = [each.tolist() for each in (column, starts, steps, at, values)]
    assert after.tolist() == row_by_row(*rows)
    assert inserted(column, at, values).tolist() == row_by_row(rows[0], [], [], *rows[3:])
    assert np.array_equal(column, before)


def test_scores_are_inserted_as_they_are() -> None:
    """Floats stay floats, whichever values are beside them."""
    after = inserted(np.array([0.25, 0.5]), np.array([1, 2]), np.array([0.3, 0.75]))
    assert (after.dtype, after.tolist()) == (np.float64, [0.25, 0.3, 0.5, 0.75])


@pytest.mark.parametrize("value", [0, 1, 7])
def test_sums_of_constant_columns_are_those_of_columns_of_their_own(value: int) -> None:
    """To the last bit, and exactly beyond int64."""
    rng = np.random.default_rng(value)
    for counts in (rng.integers(0, 1_000, 999), rng.integers(2**60, 2**61, 999)):
        constant, written = repeated(np.int64(value), 999), np.full(999, value)
        bound = 1 << 62 if counts.max() < 1_000 else 1 << 90
        assert exact_dot(constant, counts, bound) == exact_dot(written, counts, bound)
    shares = rng.random(999)
    assert dot(shares, repeated(np.float64(value), 999)) == dot(shares, np.full(999, float(value)))
    assert dot(shares, constant) == dot(shares, written)
    assert (constant_of(constant), constant_of(written)) == (value, None)
    assert constant_of(constant[:0]) is None
    assert not constant.flags.writeable
