"""The sentence with which a rollout ends: who is better, and how sure that is.

It stands on evidence that may be looked at after each case, so it may be asked for at any time,
and the first decision may be acted upon.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from streameval._metric_registry import title_of
from streameval._uncertainty.compare import advice_on
from streameval._uncertainty.student import E_VALUE_ALPHA

if TYPE_CHECKING:
    from streameval._uncertainty.compare import Comparison

_MAX_GROWTH = 100.0
"""From this many times as many cases on, the difference says nothing of how many it takes."""


def verdict_of(
    change: Comparison,
    growth: float,
    cases: int,
    names: tuple[str, str],
    *,
    noun: str = "cases",
) -> str:
    """Return a comparison at all looks as one sentence.

    Parameters
    ----------
    change : Comparison
        With ``anytime=True``.
    growth : float
        How many times as many cases a decision takes at this difference.
    cases : int
        So far.
    names : (str, str)
        Of a and of b.
    noun : str
        What the cases are called.
    """
    if change.reason is not None:
        return f"no answer: {change.reason}, {advice_on(change.reason)}"
    assert change.e_value is not None
    title = title_of(change.metric)
    if change.e_value >= 1 / E_VALUE_ALPHA:
        better, worse = names if change.difference > 0 else names[::-1]
        limits = sorted((abs(change.lower), abs(change.upper)))
        return (
            f"{better} is better than {worse} by {abs(change.difference):.4f} in {title} "
            f"({limits[0]:.4f} to {limits[1]:.4f} at all looks), on {cases:,} {noun}"
        )
    found = (
        f"not decided: {names[0]} minus {names[1]} is {change.difference:+.4f} in {title} "
        f"({change.lower:.4f} to {change.upper:.4f} at all looks), on {cases:,} {noun}; "
    )
    if growth > _MAX_GROWTH:
        return f"{found}a decision takes over {_MAX_GROWTH:.0f} times as many at this difference"
    more = math.ceil((growth - 1) * cases)
    return f"{found}about {float(f'{more:.2g}'):,.0f} more labels decide at this difference"
