"""The design effect of an evaluator's clusters, and of the panes of a window.

Clusters: from the groups' coarse counts, whose sum has the same ratio of variances as the
whole. It is trusted where the coarse cells' variance of independent cases is within a
factor of 2 of the exact one. Else, as where no case was ranked wrongly and so nothing
varies, the effect is that of the mean rank of each class, which tells whether cases of a
cluster are alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streameval._counts.cluster_cells import coarse_cells
from streameval._counts.groups import Groups
from streameval._metrics.gradients import Gradient, cells_of
from streameval._metrics.rate_gradients import prevalence_gradient
from streameval._uncertainty.design_effect import (
    BlockSums,
    DesignEffect,
    block_sums,
    least_effect,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streameval._common.arrays import FloatArray
    from streameval._counts.cluster_counts import ClusterCounts
    from streameval._counts.state import State
    from streameval._counts.view import View

    GradientOf = Callable[[Groups], Gradient]

_MAX_BLUR = 2.0
"""By this factor the variance over coarse cells may differ from the exact one."""

_PANE_BITS = 5
"""Significant bits of a score by which panes are compared: some 150 cells."""


def cluster_effect(
    view: View,
    clusters: ClusterCounts,
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
    clusters : ClusterCounts
        Those of `view`.
    gradient_of : callable
        All cells to the metric's gradient.
    squares : View, optional
        Of weighted counts: counts times squared weights over `square_unit`, with the same
        scores and clusters.
    square_unit : int
    """
    cells, cell = view.cached("cells of clusters", clusters.cells)
    exact = cells_of(view)
    exact_squares = exact if squares is None else cells_of(squares)
    squared = clusters.counts
    if squares is not None and squares.clusters is not None:
        squared = squares.clusters.counts
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


def pane_effect(view: View, panes: Sequence[State], gradient_of: GradientOf) -> float:
    """Return the design effect that dependence inside panes has at least, nan if unknown.

    That of the metric of scores with 5 bits. O(B K) for B panes and K such cells, which the
    view keeps; O(S) more for each pane that is new, with S distinct scores.

    Parameters
    ----------
    view : View
        The sum of the panes.
    panes : sequence of State
    gradient_of : callable
        All cells to the metric's gradient.
    """
    if len(panes) < 2:
        return math.nan
    blocks = view.cached("panes as blocks", lambda: PaneBlocks.of(view, panes))
    return least_effect(blocks.sums(gradient_of(blocks.cells)))


@dataclass(frozen=True, slots=True, eq=False)
class PaneBlocks:
    """The counts of panes as blocks of cases: of negatives, then of positives, by pane and cell.

    Attributes
    ----------
    cells : Groups
        Of all panes, best first.
    counts : float64[2, B, K]
        In the view's unit.
    squares : float64[2, B, K]
        Sums of squared weights, in the square of that unit; the counts if no case has one.
    """

    cells: Groups
    counts: FloatArray
    squares: FloatArray

    @classmethod
    def of(cls, view: View, panes: Sequence[State]) -> PaneBlocks:
        """Return the blocks, from the cells that each pane keeps. O(B K), O(S) a new pane."""
        unit = view.unit
        coarse = [
            pane.cached(("coarse cells", unit), partial(_coarse, pane, unit)) for pane in panes
        ]
        edges = np.unique(np.concatenate([each.edges for each in coarse]))
        counts = np.zeros((2, len(panes), edges.size))
        squares = counts if unit == 1 else np.zeros_like(counts)
        for pane, each in enumerate(coarse):
            cell = edges.size - 1 - np.searchsorted(edges, each.edges)
            counts[:, pane, cell] = each.counts
            if squares is not counts:
                squares[:, pane, cell] = each.squares
        n, p = counts.sum(axis=1).astype(np.int64)
        cells = Groups(
            scores=edges[::-1],
            p=p,
            n=n,
            tp=np.cumsum(p) - p,
            fp=np.cumsum(n) - n,
            missed_positives=0,
            missed_negatives=0,
            P=int(p.sum()),
            N=int(n.sum()),
        )
        return cls(cells, counts, squares)

    def sums(self, gradient: Gradient) -> BlockSums:
        """Return what each pane adds to a metric. O(B K)."""
        each = (gradient.negative, gradient.positive)
        return BlockSums(
            sums=np.add(*(self.counts[label] @ g for label, g in enumerate(each))),
            squares=np.add(*(self.squares[label] @ (g * g) for label, g in enumerate(each))),
            is_filled=self.counts.sum(axis=(0, 2)) > 0,
        )


class _CoarseCells(NamedTuple):
    """The cells of a pane, ascending, with the counts of each class in them."""

    edges: FloatArray
    counts: FloatArray
    squares: FloatArray


def _coarse(pane: State, unit: int) -> _CoarseCells:
    """Return the cells of a pane, where a case of weight 1 counts `unit`. O(S)."""
    columns = [_columns(pane, label, unit) for label in (False, True)]
    edges, ranks = coarse_cells(np.concatenate([each[0] for each in columns]), _PANE_BITS)
    sums = np.zeros((2, 2, edges.size))
    start = 0
    for label, (scores, counts, squares) in enumerate(columns):
        cells = ranks[start : start + scores.size]
        for row, column in enumerate((counts, squares)):
            sums[row, label] = np.bincount(cells, column, minlength=edges.size)
        start += scores.size
    return _CoarseCells(edges, *sums)


def _columns(pane: State, label: bool, unit: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return a class's scores in a pane, -inf of misses, with their counts and squares."""
    if unit == 1:
        run = pane.run(label)
        scores, counts = run.scores, run.multiplicities().astype(np.float64)
        squares = counts
    else:
        weighted = pane.weighted_counts().run(label)
        scores, counts = weighted.scores, weighted.units.astype(np.float64)
        squares = weighted.squares()
    missed = (pane.missed_positives if label else pane.missed_negatives) // pane.unit
    if missed:
        scores = np.append(scores, -np.inf)
        counts = np.append(counts, missed * unit)
        squares = np.append(squares, float(missed) * unit**2)
    return scores, counts, squares


def rank_gradient(cells: Groups) -> Gradient:
    """Return that of the mean share of cases ranked above a case, of each class. O(K).

    The shares are held: only the means over the classes move.
    """
    own = cells.p + cells.n
    share = (cells.tp + cells.fp + own / 2) / max(cells.P + cells.N, 1)
    parts = []
    for counts, total in ((cells.p, cells.P), (cells.n, cells.N)):
        mean = float(counts @ share) / total if total else 0.0
        parts.append((share - mean) / max(total, 1))
    return Gradient(*parts)
