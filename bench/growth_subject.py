"""Cases of any number, and works on them whose cost is measured. A part of bench/growth.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

import numpy as np

from streameval import Evaluator, LabelJoiner, PairedEvaluator, WindowedEvaluator

START = datetime(2026, 1, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)

CHANGED_CASES = 1_000
"""Cases that are added to, or removed from, many."""

MAX_PYTHON_CASES = 1_000_000
"""Of rows that pass one by one through Python, that have an id or a time each."""


@dataclass(frozen=True)
class Work:
    """Something whose cost is measured by size.

    Attributes
    ----------
    name, expected : str
    prepare : callable
        A `Subject` to what is measured.
    greatest : int
        The most cases for which it is measured.
    cells : callable or None
        A `Subject` to the cells that are read, of what is O(cells).
    """

    name: str
    expected: str
    prepare: Callable[[Subject], Callable[[], object]]
    greatest: int = 10**9
    cells: Callable[[Subject], int] | None = None


class Subject:
    """Cases of one number, 5 % positive, probabilities that are all distinct, and what holds them.

    Everything is made when it is first asked for, and stays.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        rng = np.random.default_rng(size)
        self.labels = rng.random(size) < 0.05
        self.scores = 1 / (1 + np.exp(2.0 - rng.normal(size=size) - 2.0 * self.labels))
        self.others = np.clip(self.scores + 0.05 * rng.normal(size=size), 0.0, 1.0)

    @cached_property
    def at(self) -> np.ndarray:
        """Times of an hour, ascending."""
        start = np.datetime64(START.replace(tzinfo=None), "us")
        return start + np.linspace(0, 3.59e9, self.size).astype("timedelta64[us]")

    @cached_property
    def ids(self) -> list[str]:
        """One of each case."""
        return [f"case-{number}" for number in range(self.size)]

    def filled(self, **settings: object) -> Evaluator:
        """Return an evaluator of all cases, merged."""
        evaluator = Evaluator(**settings)
        evaluator.add_cases(labels=self.labels, scores=self.scores)
        _ = evaluator.num_cells
        return evaluator

    @cached_property
    def exact(self) -> Evaluator:
        """Holds every score."""
        return self.filled()

    @cached_property
    def second(self) -> Evaluator:
        """Holds the scores of another model."""
        evaluator = Evaluator()
        evaluator.add_cases(labels=self.labels, scores=self.others)
        _ = evaluator.num_cells
        return evaluator

    @cached_property
    def bounded(self) -> Evaluator:
        """Holds at most 16,384 cells."""
        return self.filled(resolution=12, max_cells=16_384)

    @property
    def positive_cells(self) -> int:
        """Cells of the bounded evaluator that hold positives, which figures read."""
        return len(self.bounded._view().run(True))

    @property
    def pane_cells(self) -> int:
        """Cells of all 60 panes."""
        return sum(len(pane._view().counts) for pane in self.windowed.panes())

    @property
    def pair_cells(self) -> int:
        """Pairs of scores, at most as many as `PairedEvaluator` keeps."""
        return min(self.size, 65_536)

    @cached_property
    def windowed(self) -> WindowedEvaluator:
        """Holds 60 panes."""
        windowed = WindowedEvaluator(resolution=12)
        windowed.add_cases(labels=self.labels, scores=self.scores, at=self.at)
        return windowed

    @cached_property
    def logged(self) -> LabelJoiner:
        """Waits for the labels."""
        joiner = LabelJoiner(Evaluator(resolution=12), ttl=timedelta(days=7))
        joiner.log_cases(ids=self.ids, scores=self.scores, at=START)
        return joiner

    @cached_property
    def paired(self) -> PairedEvaluator:
        """Holds the scores of both models."""
        paired = PairedEvaluator(scale="probability")
        paired.add_cases(labels=self.labels, scores_a=self.scores, scores_b=self.others)
        return paired
