"""The bytes of every version stay readable, and are still what is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streameval import Evaluator

DATA = Path(__file__).parent / "data"


def exact() -> Evaluator:
    """Scores of both widths, repeated, of both classes, and misses."""
    ev = Evaluator()
    scores = np.arange(-12, 28) / 8
    ev.add_cases(labels=scores > 1, scores=scores)
    ev.add_cases(labels=[1, 0, 0], scores=[0.1, 0.1, 0.3], counts=[7, 70_000, 1])
    ev.add_misses(3)
    ev.add_negative_misses(4)
    return ev


def bounded() -> Evaluator:
    """Cells of the plain scale, with a cap that drops bits."""
    ev = Evaluator(resolution=12, max_cells=20)
    scores = np.sin(np.arange(400))
    ev.add_cases(labels=np.arange(400) % 7 == 0, scores=scores)
    return ev


def probability() -> Evaluator:
    """Cells of the probability scale."""
    ev = Evaluator(resolution=3, scale="probability")
    ev.add_cases(labels=np.arange(100) > 60, scores=np.arange(100) / 99)
    return ev


@pytest.mark.parametrize("make", [exact, bounded, probability])
def test_golden_states(make):
    """The bytes of version 0.1 are readable, equal to today's, and written again."""
    data = (DATA / f"state-1-{make.__name__}.bin").read_bytes()
    ev = make()
    assert Evaluator.from_bytes(data) == ev
    assert ev.to_bytes() == data
