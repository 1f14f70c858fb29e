"""The arithmetic of evidence against "the mean is at least theta", by betting.

A process bets on each observation z in [0, 1] that it lies below theta. With a bet from 0
to 1/(1 - theta) its evidence

    M <- (M + panes)(1 + bet (theta - z))

is never negative, and while the mean of z given the past is at least theta, M minus the
panes that have passed is a supermartingale. So the mean time until M reaches A is at least
A panes, whatever the distribution and however often M is read (e-detectors: Shin, Ramdas
and Rinaldo 2024). Means of such processes have the property as well, which is how four
bets, both classes and the hourly copy become one.

Only additions, multiplications and divisions are used, which IEEE 754 rounds in one way on
every machine, and no logarithm. Evidence cannot underflow, because at least 1 is added
before each factor of at least 1/16; it cannot overflow, because the process restarts at
its alarm. Each observation adds a relative error of at most 2^-47, so after a million
observations the evidence has a relative error of at most 1e-8.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

FRACTIONS: Final = (1 / 32, 1 / 10, 1 / 4, 1 / 2)
"""The bets on one case, as shares of the greatest. Chosen by simulation: bench/alarms.py."""
MAX_FRACTION: Final = 15 / 16
"""The greatest share, so that one observation never takes more than 15/16 of the evidence."""


def bet_of(fraction: Any, cases: Any, theta: Any) -> Any:
    """Return the bet on a mean of independent cases, by the share of the greatest on one.

    The odds of the share grow with the number of cases, as the odds of the best bet do.

    >>> float(bet_of(0.5, 1, 0.75)), float(bet_of(0.5, 4, 0.75))
    (2.0, 3.2)
    """
    odds = fraction * cases
    share = np.minimum(odds / (1 - fraction + odds), MAX_FRACTION)
    return share / (1 - theta)


def advanced(evidence: Any, panes: Any, bet: Any, theta: Any, z: Any) -> Any:
    """Return the evidence after an observation, `panes` after the last one.

    >>> advanced(3.0, 1, 2.0, 0.75, 0.5)
    6.0
    """
    return (evidence + panes) * (1 + bet * (theta - z))
