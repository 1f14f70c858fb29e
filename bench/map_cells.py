"""Cells of the map: what is simulated, and one replicate's answers. A part of `truth_map.py`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

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
    axes : dict
        Where it is: `positives`, `prevalence`, and what else the part varies.
    effective : dict
        Of each figure: the effective cases of the scarcer class.
    is_apart : bool
        Whether no width is asked of it: a nearly perfect ranking, or a figure of few values.
    slow : int
        By how much fewer replicates are drawn.
    """

    part: str
    name: str
    figures: tuple[str, ...]
    draw: Callable[[Rng, Collection[str]], dict[str, Found]]
    axes: dict[str, float]
    effective: dict[str, float] = field(default_factory=dict)
    is_apart: bool = False
    slow: int = 1


NEARLY_PERFECT = 0.97
"""AUC-ROC from which on a ranking is nearly perfect."""
