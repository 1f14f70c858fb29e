"""Sums of panes whose cases have weights, each multiplied by the weight of its pane.

A case's weight, in units of 2**-16, is multiplied by its pane's share of 2**16 and rounded to
a unit, at least as many units as there are cases of a score; the square, which only intervals
read, to an integer. Numbers of cases stay as they are, so that a part can be subtracted. A
miss of age counts as a part of one miss.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._counts.multiset import ScoreCounts
from streameval._counts.run import Run, merge_runs
from streameval._counts.state import LABELS, State, fit_to_cap
from streameval._counts.weights import WEIGHT_BITS, WEIGHT_UNITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import BoolArray, FloatArray, IntArray

_HALF = WEIGHT_UNITS // 2
_SQUARE_PART = 2.0**48
"""A sum of squares is kept as multiples of this and a rest."""


def decayed_weights(panes: Sequence[tuple[State, int]], empty: State) -> State:
    """Return the sum of panes with the weights of their ages, as a state of weighted cases.

    It is not in normal form: it has weights also where each is 1. O(S log S).

    Parameters
    ----------
    panes : sequence of (State, int)
        Counts, and the pane's weight in units of 2**-16, from 1 to 2**16.
    empty : State
        The sum of no panes.

    Raises
    ------
    InvalidInputError
        When the cases or their weights together are too many.
    """
    states = [state for state, _ in panes] or [empty]
    bits = min((each.resolution for each in states if each.resolution is not None), default=None)
    missed = [sum(_missed(state, label) * weight for state, weight in panes) for label in LABELS]
    settings = replace(empty, resolution=bits)
    runs = [
        merge_runs([settings.quantised(_times(pane.run(label), weight)) for pane, weight in panes])
        for label in LABELS
    ]
    return fit_to_cap(_of_sums(settings, ScoreCounts(*runs), missed))


def without_decayed(whole: State, part: State) -> State:
    """Return a sum of `decayed_weights` less the sum of some of its cases. O(n).

    What is left are the weights of the other cases, to within a unit for each score and pane.

    Raises
    ------
    InvalidInputError
        When the part has cases or misses that the whole lacks.
    """
    missed = [_missed_units(whole, label) - _missed_units(part, label) for label in LABELS]
    if min(missed) < 0:
        raise InvalidInputError("the part has misses that the whole lacks", field="part")
    bits = min(
        (each.resolution for each in (whole, part) if each.resolution is not None), default=None
    )
    settings = replace(whole, resolution=bits)
    runs = []
    for label in LABELS:
        mine, its = (settings.quantised(each.run(label)).weighed() for each in (whole, part))
        runs.append(_possible(mine.merged(its.negated())))
    return _of_sums(settings, ScoreCounts(*runs), missed)


def _of_sums(settings: State, counts: ScoreCounts, missed: Sequence[int]) -> State:
    state = replace(
        settings, counts=counts.weighed(), missed_positives=missed[0], missed_negatives=missed[1]
    )
    state.check_weights()
    return state


def _times(run: Run, weight: int) -> Run:
    """Return a class with each weight times `weight` over 2**16. O(n)."""
    run = run.weighed()
    if weight == WEIGHT_UNITS:
        return run
    units = run.multiplicities()
    # The product may exceed an integer: its two parts do not.
    whole, part = units >> WEIGHT_BITS, units & (WEIGHT_UNITS - 1)
    units = whole * weight + ((part * weight + _HALF) >> WEIGHT_BITS)
    share = weight / WEIGHT_UNITS
    return _consistent(run.scores, run.cases, units, run.squares() * share * share)


def _consistent(scores: FloatArray, cases: IntArray, units: IntArray, squares: FloatArray) -> Run:
    """Return sums that some cases have: each weighs a unit at least. O(n)."""
    units = np.maximum(units, cases)
    least = units.astype(np.float64) ** 2 / cases
    parts = _parts(np.ceil(np.maximum(squares, least)))
    return Run.of_distinct(scores, np.stack((units, cases, *parts)))


def _parts(squares: FloatArray) -> tuple[IntArray, IntArray]:
    high = np.floor(squares / _SQUARE_PART)
    return high.astype(np.int64), (squares - high * _SQUARE_PART).astype(np.int64)


def _possible(run: Run) -> Run:
    """Return a difference without scores that have no case, and without negative sums."""
    if run.cases.size and run.cases.min() < 0:
        score = float(run.scores[int(np.argmin(run.cases))])
        message = f"the part has cases that the whole lacks, the first at score {score}"
        raise InvalidInputError(message, field="part")
    kept: BoolArray = run.cases > 0
    return _consistent(
        run.scores[kept], run.cases[kept], run.multiplicities()[kept], run.squares()[kept]
    )


def _missed(state: State, label: bool) -> int:
    return (state.missed_positives if label else state.missed_negatives) // state.unit


def _missed_units(state: State, label: bool) -> int:
    return state.missed_positives if label else state.missed_negatives
