"""The corners of a curve, read some at a time, and its hull by blocks."""

from __future__ import annotations

import numpy as np
import pytest

from streameval import Evaluator
from streameval._counts.groups import Groups
from streameval._metrics import hull
from streameval._metrics.chains import Corners
from streameval._metrics.hull import hull_vertices, upper_hull


def groups_of(seed: int, size: int, *, decimals: int | None, missed: int = 0) -> Groups:
    """Return the groups of drawn scores, with ties if they have few decimals."""
    rng = np.random.default_rng(seed)
    labels = rng.random(size) < 0.4
    scores = rng.normal(size=size) + labels
    evaluator = Evaluator()
    evaluator.add_cases(
        labels=labels, scores=scores if decimals is None else scores.round(decimals)
    )
    if missed:
        evaluator.add_misses(missed)
    groups: Groups = evaluator._view().groups.with_misses()
    return groups


def corners_of(groups: Groups) -> tuple[list[int], list[int]]:
    """Return the corners by a loop."""
    x, y = [0], [0]
    for fp, n, tp, p in zip(groups.fp, groups.n, groups.tp, groups.p):
        x.append(int(fp + n))
        y.append(int(tp + p))
    if (x[-1], y[-1]) != (groups.N, groups.P):
        x.append(groups.N)
        y.append(groups.P)
    return x, y


CURVES = [
    groups_of(1, 400, decimals=None),
    groups_of(2, 400, decimals=1),
    groups_of(3, 400, decimals=2, missed=3),
    groups_of(4, 1, decimals=None),
    Evaluator()._view().groups,
]


@pytest.mark.parametrize("groups", CURVES, ids=["distinct", "tied", "missed", "one", "none"])
def test_corners_are_those_of_a_loop_over_the_groups(groups: Groups) -> None:
    """All of them, some of them, the ends alone, and none."""
    x, y = corners_of(groups)
    corners = Corners(groups)
    assert corners.size == len(x)
    assert [column.tolist() for column in corners.columns()] == [x, y]
    rng = np.random.default_rng(0)
    some = np.flatnonzero(rng.random(len(x)) < 0.2)
    for rows in (np.arange(len(x)), some, np.array([0]), np.array([len(x) - 1]), some[:0]):
        found = [column.tolist() for column in corners.at(rows)]
        assert found == [[x[row] for row in rows], [y[row] for row in rows]]


@pytest.mark.parametrize("groups", CURVES, ids=["distinct", "tied", "missed", "one", "none"])
@pytest.mark.parametrize("stride", [2, 5, 32])
def test_the_hull_by_blocks_is_that_of_all_corners(
    groups: Groups, stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever corners are read."""
    x, y = (np.array(column) for column in corners_of(groups))
    rows = upper_hull(x, y)
    monkeypatch.setattr(hull, "_MIN_FILTERED_POINTS", 0)
    monkeypatch.setattr(hull, "_MAX_SCAN_POINTS", stride)
    monkeypatch.setattr(hull, "_SAMPLE_STRIDE", stride)
    found = hull_vertices(groups)
    assert found.fp.tolist() == x[rows].tolist()
    assert found.tp.tolist() == y[rows].tolist()
