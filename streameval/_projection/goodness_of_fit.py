"""Whether the labelled positives of a window come, pane by pane, as the delay model says.

The expected number of a pane is the sum over bands of its predictions, the share of
positives that the whole window is estimated to have there, and F_1 of the pane. Pearson's
chi-square of the panes, joined until `MIN_EXPECTED` are expected of each, has one degree
of freedom fewer than there are.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from streameval._projection.delay_model import NUM_BANDS, in_bands
from streameval._projection.label_table import sums_of

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray, IntArray
    from streameval._projection.delay_model import DelayModel
    from streameval._projection.label_table import LabelTable

MIN_EXPECTED = 5.0
"""Positives expected of each term of the chi-square."""


def fit_p_value(table: LabelTable, model: DelayModel, panes: IntArray, at_us: int) -> float:
    """Return the probability of labels that differ as far from the model. O(panes K).

    Returns
    -------
    float
        1 where there are too few positives, or panes, for a difference.
    """
    bands = model.band_of
    shares = np.nan_to_num(model.arrived(table.arrived_shares(panes, at_us))[1])
    by_pane = table.predictions[panes]
    in_band = in_bands(bands, by_pane)
    positives = table.labels_at(panes, at_us)[1]
    observed = positives.sum(axis=1)
    found = sums_of(bands, positives.sum(axis=0), NUM_BANDS)
    reached = in_band * shares
    share = np.divide(
        found, reached.sum(axis=1), out=np.zeros(NUM_BANDS), where=reached.sum(axis=1) > 0
    )
    terms = _joined(observed, share @ reached)
    if len(terms) < 2:
        return 1.0
    chi_square = sum((seen - expected) ** 2 / expected for seen, expected in terms)
    return chi_square_tail(chi_square, len(terms) - 1)


def chi_square_tail(value: float, freedom: int) -> float:
    """Return the probability that chi-square exceeds a value. O(freedom).

    The closed forms for whole degrees of freedom (Abramowitz and Stegun, 26.4.4 and 26.4.5).

    >>> round(chi_square_tail(11.0705, 5), 5), round(chi_square_tail(18.307, 10), 5)
    (0.05, 0.05)
    """
    if value <= 0:
        return 1.0
    half = value / 2
    odd = freedom % 2
    # Terms of exp(-half) half^k / Gamma(k + 1), k whole or a half.
    total = math.erfc(math.sqrt(half)) if odd else 0.0
    k = 0.5 if odd else 0.0
    while k < freedom / 2:
        total += math.exp(k * math.log(half) - half - math.lgamma(k + 1))
        k += 1
    return min(total, 1.0)


def _joined(observed: FloatArray, expected: FloatArray) -> list[tuple[float, float]]:
    """Return neighbouring panes joined until enough is expected of each."""
    terms: list[tuple[float, float]] = []
    seen = due = 0.0
    for here, of_pane in zip(observed.tolist(), expected.tolist(), strict=True):
        seen, due = seen + here, due + of_pane
        if due >= MIN_EXPECTED:
            terms.append((seen, due))
            seen = due = 0.0
    if terms:
        terms[-1] = (terms[-1][0] + seen, terms[-1][1] + due)
    return terms
