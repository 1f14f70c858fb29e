"""The coverage of a selection is the sum of its panes, whichever of them change."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval._time.coverage import CoverageCell
from streameval._time.parts_cache import PartsCache
from streameval_server._queries.coverage_answers import (
    CoverageAnswer,
    coverage_message,
    coverage_of,
)
from streameval_server._queries.query_engine import QueryEngine
from streameval_server._state.counting.coverage import PaneCoverage
from streameval_server._state.counting.delays import Delays

if TYPE_CHECKING:
    from collections.abc import Iterable


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


@pytest.mark.parametrize("seed", range(6))
def test_an_answer_may_have_a_part_twice(seed: int) -> None:
    """Whichever parts come, go and repeat, the message is that of their sum."""
    rng = np.random.default_rng(seed)
    pool = [coverage(rng) for _ in range(5)]
    answers: PartsCache[object, CoverageAnswer] = PartsCache(
        1 << 20, lambda each: each.memory_bytes
    )
    for _ in range(60):
        parts = [pool[index] for index in rng.integers(0, 5, rng.integers(1, 8))]
        assert coverage_of(answers, "key", parts) == coverage_message(parts)


def test_parts_that_stay_are_summed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 30 parts of which the newest changes, two are added to one another from then on."""
    rng = np.random.default_rng(3)
    parts = [coverage(rng) for _ in range(30)]
    added: list[int] = []
    merged = PaneCoverage.merged

    def noted(some: Iterable[PaneCoverage]) -> PaneCoverage:
        some = list(some)
        added.append(len(some))
        return merged(some)

    monkeypatch.setattr(PaneCoverage, "merged", noted)
    answers: PartsCache[object, CoverageAnswer] = PartsCache(
        1 << 20, lambda each: each.memory_bytes
    )
    for _ in range(4):
        coverage_of(answers, "key", parts)
        parts = [*parts[:-1], coverage(rng)]
    assert added == [30, 29, 2, 2, 2]
    coverage_of(answers, "key", [*parts[1:], coverage(rng)])  # the oldest left, and two are new
    assert added[-2:] == [28, 3]


def test_answers_keep_no_part_and_are_bounded() -> None:
    """A pane that changed is collected; the newest answers stay within the bound."""
    rng = np.random.default_rng(4)
    answers: PartsCache[object, CoverageAnswer] = PartsCache(40_000, lambda each: each.memory_bytes)
    parts = [coverage(rng) for _ in range(3)]
    changed = weakref.ref(parts[-1])
    coverage_of(answers, "key", parts)
    parts[-1] = coverage(rng)
    coverage_of(answers, "key", parts)
    gc.collect()
    assert changed() is None
    for number in range(100):
        coverage_of(answers, number, parts)
        assert answers.memory_bytes < 60_000
