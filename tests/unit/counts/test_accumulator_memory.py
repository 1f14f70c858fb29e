"""An evaluator for whose changes there is no memory: a call that raises has changed nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streameval import Evaluator
from streameval._counts import accumulator
from streameval.kernel import State

ROWS = 70_000
"""Enough for a merge within the call that adds them."""


def fail_once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    """Make the next call of a function raise MemoryError."""
    real = getattr(owner, name)

    def raising(*_arguments: Any, **_options: Any) -> None:
        monkeypatch.setattr(owner, name, real)
        raise MemoryError

    monkeypatch.setattr(owner, name, raising)


def test_rows_that_were_added_stay_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """The merge that a call makes on the way is put off: the caller must not add again."""
    evaluator = Evaluator()
    fail_once(monkeypatch, State, "changed")
    evaluator.add_cases(labels=np.arange(ROWS) % 3 == 0, scores=np.arange(ROWS) / ROWS)
    assert State.changed.__name__ == "changed"  # it has failed
    assert evaluator.num_cases == ROWS
    assert evaluator.auc_roc() == pytest.approx(0.5, abs=0.01)


def test_a_query_that_fails_can_be_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Single rows that wait are neither lost nor counted twice."""
    evaluator = Evaluator()
    for row in range(10):
        evaluator.add_case(row % 2 == 0, row / 10)
    fail_once(monkeypatch, accumulator.np, "fromiter")
    with pytest.raises(MemoryError):
        evaluator.auc_roc()
    assert (evaluator.num_cases, evaluator.revision) == (10, 10)
    evaluator.add_case(True, 0.95)
    assert evaluator.operating_points().tp[-1] == 6
    assert (evaluator.num_cases, evaluator.revision) == (11, 11)
