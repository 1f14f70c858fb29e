"""The design effect of an evaluator's clusters.

It is computed from the groups' coarse counts, whose sum has the same ratio of variances as
the whole. It is trusted where the variance of independent cases in the coarse cells is within
a factor of 2 of the exact one. Elsewhere, as where no case was ranked wrongly and so nothing
varies, the effect on the mean rank of each class is taken instead: it tells whether cases of
a cluster are alike.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from streameval._metrics.gradients import Gradient, cells_of
from streameval._metrics.rate_gradients import prevalence_gradient
from streameval._uncertainty.design_effect import DesignEffect, block_sums

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval._counts.groups import Groups
    from streameval._counts.view import View

    GradientOf = Callable[[Groups], Gradient]

_MAX_BLUR = 2.0
"""By this factor the variance over coarse cells may differ from the exact one."""


def cluster_effect(
    view: View,
    gradient_of: GradientOf,
    *,
    squares: View | None = None,
    square_unit: int = 1,
) -> DesignEffect:
    """Return the design effect of clusters on a metric. O(n + K).

    Parameters
    ----------
    view : View
        With clusters, and with the cases that the metric needs.
    gradient_of : callable
        All cells to the metric's gradient.
    squares : View, optional
        Of weighted counts: counts times squared weights over `square_unit`, with the same
        scores and clusters.
    square_unit : int
    """
    clusters = view.clusters
    cells, cell = view.cached("cells of clusters", clusters.cells)
    exact = cells_of(view)
    exact_squares = exact if squares is None else cells_of(squares)
    squared = (squares or view).clusters.counts
    for gradient in (gradient_of, rank_gradient, prevalence_gradient):
        expected = gradient(exact).variance(exact_squares)
        if not expected > 0:
            continue  # nothing varies: no case is ranked wrongly, or all scores are tied
        blocks = block_sums(
            gradient(cells),
            cell,
            is_positive=clusters.is_positive,
            counts=clusters.counts,
            squares=squared.astype(np.float64) * square_unit,
            block=clusters.groups,
            num_blocks=clusters.num_groups,
        )
        coarse = blocks.independent_variance / square_unit
        if expected / _MAX_BLUR <= coarse <= expected * _MAX_BLUR:
            effect = DesignEffect.of(blocks)
            return effect if gradient is gradient_of else replace(effect, blocks=None)
        if gradient is rank_gradient:
            return DesignEffect(math.nan)
    return DesignEffect(1.0)


def rank_gradient(cells: Groups) -> Gradient:
    """Return the gradient of each class's mean share of cases ranked above a case. O(K).

    The shares are held: only the means over the classes move.
    """
    own = cells.p + cells.n
    share = (cells.tp + cells.fp + own / 2) / max(cells.P + cells.N, 1)
    parts = []
    for counts, total in ((cells.p, cells.P), (cells.n, cells.N)):
        mean = float(counts @ share) / total if total else 0.0
        parts.append((share - mean) / max(total, 1))
    return Gradient(*parts)
