"""A cached window equals the sum of its panes, whichever of them change."""

from __future__ import annotations

import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import Evaluator
from streameval._counts import merge as sums
from streameval._counts.stored_counts import pack
from streameval._time import window_cache
from streameval.kernel import State, WindowCache

SCORES = st.floats(-4, 4, width=16)
CASES = st.lists(st.tuples(st.booleans(), SCORES), max_size=12)
CHANGES = st.lists(st.tuples(st.integers(0, 4), CASES), max_size=12)
SETTINGS = st.sampled_from(
    [{}, {"resolution": 4}, {"resolution": 9, "max_cells": 6}, {"max_cells": 20}]
)


def added(state: State, cases: list[tuple[bool, float]]) -> State:
    """Return a new state with more cases."""
    evaluator = Evaluator._of(state)
    for positive, score in cases:
        evaluator.add_case(positive, score)
    evaluator.add_misses(1)
    return evaluator._view()


@given(settings=SETTINGS, first=st.lists(CASES, min_size=5, max_size=5), changes=CHANGES)
def test_every_window_is_the_sum_of_its_panes(
    settings: dict[str, int],
    first: list[list[tuple[bool, float]]],
    changes: list[tuple[int, list[tuple[bool, float]]]],
) -> None:
    """Equal to the bit and at the same resolution, whichever panes change and how often."""
    states = [added(Evaluator(**settings)._view(), cases) for cases in first]
    cache: WindowCache[str] = WindowCache(16_000)
    for pane, cases in [(0, []), *changes]:
        states[pane] = added(states[pane], cases)
        for state in states[:pane]:
            pack(state)
        window = cache.sum("w", states, 3, 7)
        window._view()._check()
        whole = sums.merge_states(states, revision=0)
        assert window.evaluator().to_bytes() == Evaluator._of(whole).to_bytes()
        assert cache.sum("w", states, 3, 7) is window


@pytest.fixture
def merges(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record how many states each merge has."""
    sizes: list[int] = []

    def counted(states: list[State], *, revision: int) -> State:
        sizes.append(len(states))
        return sums.merge_states(states, revision=revision)

    monkeypatch.setattr(window_cache, "merge_states", counted)
    return sizes


def test_unchanged_panes_are_merged_once(merges: list[int]) -> None:
    """From the second change on, a merge has the cached rest and the pane that changes."""
    states = [added(Evaluator()._view(), [(True, pane / 8)]) for pane in range(6)]
    cache: WindowCache[str] = WindowCache(16_000)
    for _ in range(5):
        states[4] = added(states[4], [(False, 0.5)])
        cache.sum("w", states, 0, 1)
    assert merges == [6, 5, 2, 2, 2, 2]


def test_a_cached_rest_keeps_no_pane() -> None:
    """A pane without other references is released."""
    states = [added(Evaluator()._view(), [(True, pane / 8)]) for pane in range(4)]
    cache: WindowCache[str] = WindowCache(16_000)
    for _ in range(4):
        states[3] = added(states[3], [(False, 0.5)])
        cache.sum("w", states, 0, 1)
    gone = weakref.ref(states.pop(0))
    gc.collect()
    assert gone() is None
