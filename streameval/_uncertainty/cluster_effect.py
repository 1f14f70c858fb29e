"""The design effect of an evaluator's clusters.

It is computed from the groups' coarse counts, whose sum has the same ratio of variances as
the whole. It is trusted where the variance of independent cases in the coarse cells is within
a factor of 2 of the exact one. Where nothing varies, as where no case was ranked wrongly, the
gradient is 0, and is taken with one case of each class added to each cell.

Of fewer than 20 effective clusters a variance between them is mostly chance, so there are no
limits. All cases count here: a limit to the clusters of the positives would let pass the samples
that have by chance no large cluster of them (docs/clusters.md).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.groups import Groups
from streameval._metrics.gradients import cells_of
from streameval._uncertainty.design_effect import BlockTable, DesignEffect

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval._common.arrays import BoolArray
    from streameval._counts.view import View
    from streameval._metrics.gradients import Gradient

    GradientOf = Callable[[Groups], Gradient]

TOO_FEW_CLUSTERS = "TOO_FEW_CLUSTERS"
"""Why a figure of fewer than `MIN_CLUSTERS` is refused."""
TOO_COARSE = "TOO_COARSE"
"""Why a figure is refused whose scores differ in bits that groups do not keep."""
MIN_CLUSTERS = 20

_MAX_BLUR = 2.0
"""By this factor the variance over coarse cells may differ from the exact one."""


def cluster_effect(
    view: View,
    gradient_of: GradientOf,
    *,
    squares: View | None = None,
    square_unit: int = 1,
) -> DesignEffect:
    """Return the design effect of clusters on a metric. O(n + K), O(G K) of few clusters.

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
    table = BlockTable(
        cells,
        cell,
        is_positive=clusters.is_positive,
        counts=clusters.counts,
        squares=(squares or view).clusters.counts.astype(np.float64) * square_unit,
        block=clusters.groups,
        num_blocks=clusters.num_groups,
    )
    exact = cells_of(view)
    expected = gradient_of(exact).variance(exact if squares is None else cells_of(squares))
    if not expected > 0:
        more = Groups.of_cells(cells.scores, cells.p + 1, cells.n + 1)
        table = replace(table, cells=more)
    blocks = table.sums(gradient_of)
    coarse = blocks.independent_variance / square_unit
    if expected > 0 and not expected / _MAX_BLUR <= coarse <= expected * _MAX_BLUR:
        return DesignEffect(math.nan, refused=TOO_COARSE)
    effect = (
        DesignEffect.of(blocks) if coarse > 0 else DesignEffect(table.cluster_size(_all(table)))
    )
    return with_clusters(replace(effect, blocks=blocks if expected > 0 else None), table)


def with_clusters(effect: DesignEffect, table: BlockTable) -> DesignEffect:
    """Return an effect with the sizes of clusters; refused where these are few. O(n)."""
    is_positive = table.is_positive
    is_few = table.effective_clusters(_all(table)) < MIN_CLUSTERS
    return replace(
        effect,
        sizes=(table.cluster_size(is_positive), table.cluster_size(~is_positive)),
        refused=TOO_FEW_CLUSTERS if is_few else None,
    )


def _all(table: BlockTable) -> BoolArray:
    return np.ones(table.is_positive.size, dtype=np.bool_)
