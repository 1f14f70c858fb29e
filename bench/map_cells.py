"""Cells of the map, their answers, and what is asked of them. A part of `truth_map.py`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from textbook import Limits

    from streameval import Interval

Rng = np.random.Generator


class Found(NamedTuple):
    """One figure of one replicate; limits are nan where the answer was refused."""

    truth: float
    estimate: float
    lower: float
    upper: float
    textbook: Limits = (math.nan, math.nan)

    @classmethod
    def of(cls, truth: float, interval: Interval, textbook: Limits = (math.nan, math.nan)) -> Found:
        """Return what an interval says."""
        return cls(truth, interval.estimate, interval.lower, interval.upper, textbook)

    @property
    def is_missed(self) -> bool:
        """Whether the limits exclude the true value."""
        return self.lower > self.truth or self.upper < self.truth


def at_of(figure: str) -> tuple[str, dict[str, float]]:
    """Return the metric and the given prevalence of a figure like ``auc_pr @ 0.01``."""
    name, _, at = figure.partition(" @ ")
    return name, {"prevalence": float(at)} if at else {}


@dataclass(frozen=True)
class Cell:
    """What is simulated.

    Attributes
    ----------
    part : str
        The part of the map.
    name : str
        Of the cell, with which its random numbers begin.
    figures : tuple of str
    draw : callable
        One replicate: a generator and the figures that are wanted, to their answers.
    positives, prevalence : float
        The expected ones.
    effective : dict
        Of each figure: the effective cases of the scarcer class, if not the positives.
    is_apart : bool
        Whether no width is asked of it: a nearly perfect ranking, or a figure of few values.
    slow : int
        By how much fewer replicates are drawn.
    """

    part: str
    name: str
    figures: tuple[str, ...]
    draw: Callable[[Rng, Collection[str]], dict[str, Found]]
    positives: float
    prevalence: float
    effective: dict[str, float] = field(default_factory=dict)
    is_apart: bool = False
    slow: int = 1


NEARLY_PERFECT = 0.97
"""AUC-ROC from which on a ranking is nearly perfect."""

MIN_COVERAGE = 0.93
CERTAINTY = 0.999
MAX_WIDTH, MIN_EFFECTIVE = 1.5, 100
"""Times the needed width, where the scarcer class has as many effective cases."""
MAX_REFUSED = 0.1
"""The share of samples that may be refused where a textbook's method works."""
TEXTBOOK = (0.93, 0.97)
"""The coverage at which a textbook's method is said to work."""
MIN_ANSWERED = 1 / 20
"""Of the samples of a cell: fewer answers say nothing about coverage."""


@dataclass(frozen=True)
class Row:
    """One figure of one cell.

    Attributes
    ----------
    part, figure, cell : str
    positives, prevalence, effective : float
        The expected ones; `effective` cases of the scarcer class.
    is_apart : bool
        Whether no width is asked of it.
    replicates : int
    refused : float
        The share of replicates without an interval.
    coverage, error : float
        Of the others, with its standard error.
    width : float
        The median width over the needed one, 2 x 1.96 standard deviations of the estimate.
    textbook, textbook_width : float
        The same of the textbook's method.
    """

    part: str
    figure: str
    cell: str
    positives: float
    prevalence: float
    effective: float
    is_apart: bool
    replicates: int
    refused: float
    coverage: float
    error: float
    width: float
    textbook: float
    textbook_width: float

    @property
    def is_answered(self) -> bool:
        """Whether enough samples have an interval to tell its coverage."""
        return 1 - self.refused >= MIN_ANSWERED

    @property
    def upper_limit(self) -> float:
        """The limit that the true coverage exceeds with 1 - `CERTAINTY` (Clopper and Pearson)."""
        answers = round(self.replicates * (1 - self.refused))
        held = round(self.coverage * answers) if self.is_answered else answers
        return (
            1.0 if held == answers else float(stats.beta.ppf(CERTAINTY, held + 1, answers - held))
        )

    @property
    def is_low(self) -> bool:
        """Whether the coverage is below the target beyond doubt."""
        return self.upper_limit < MIN_COVERAGE

    @property
    def is_asked(self) -> bool:
        """Whether its intervals are asked to be narrow."""
        return self.is_answered and self.effective >= MIN_EFFECTIVE and not self.is_apart

    @property
    def is_wide(self) -> bool:
        """Whether the intervals are too wide to be of use."""
        return self.is_asked and self.width > MAX_WIDTH

    @property
    def textbook_works(self) -> bool:
        """Whether the textbook's method covers what it says."""
        return TEXTBOOK[0] <= self.textbook <= TEXTBOOK[1]
