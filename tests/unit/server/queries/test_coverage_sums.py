"""The coverage of a selection is the sum of its panes, whichever of them change."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from streameval._time import CoverageCell
from streameval_server._queries.query_engine import QueryEngine
from streameval_server._state.coverage import PaneCoverage
from streameval_server._state.delays import Delays


def coverage(rng: np.random.Generator) -> PaneCoverage:
    """Return the coverage of a pane with predictions and label delays."""
    cell = CoverageCell()
    cell.add(np.zeros(30, dtype=np.uint8), rng.normal(size=30))
    return PaneCoverage(cell, Delays.of(rng.integers(0, 10**9, 20)))


def selection(panes: list[PaneCoverage]) -> SimpleNamespace:
    """Stand in for a window over these panes."""
    return SimpleNamespace(
        key="window",
        span_us=(0, 1),
        slice=SimpleNamespace(coverage=panes[0]),
        panes=[SimpleNamespace(coverage=pane) for pane in panes],
        view=SimpleNamespace(info=SimpleNamespace(settings=SimpleNamespace(scale="plain"))),
    )


@pytest.mark.parametrize("seed", range(4))
def test_a_coverage_is_the_sum_of_its_panes(seed: int) -> None:
    """Computed from what stayed the same and what changed, as by an engine that knows nothing."""
    rng = np.random.default_rng(seed)
    panes = [coverage(rng) for _ in range(6)]
    engine = QueryEngine(lambda _name: None, lambda: 0)
    for step in range(12):
        for pane in rng.choice(6, int(rng.integers(1, 4)), replace=False).tolist():
            panes[pane] = coverage(rng)
        if step % 4 == 3:
            panes = [*panes[1:], coverage(rng)]
        fresh = QueryEngine(lambda _name: None, lambda: 0)
        assert engine.coverage(selection(panes)) == fresh.coverage(selection(panes))
    assert engine.memory_bytes > fresh.memory_bytes > 0
