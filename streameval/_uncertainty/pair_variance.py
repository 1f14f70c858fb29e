"""The variance of the difference of two figures of the same cases, from their grid.

A case moves the difference by its influence on a's figure less its influence on b's. If all
cases weigh 1, the variance is computed from these differences over each class (DeLong's for
AUC-ROC); with weights it is the sum of squared weights times squared differences of the
gradients. Clusters: see `pair_clusters`.

One model alone may rank rare cases wrongly, and they may decide the difference. Where the
sample has none of them, its variance does not show them. `unseen_cases` returns what one such
case of each class adds for a model.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streameval._counts.exact import dot
from streameval._counts.multiset import ScoreCounts
from streameval._counts.run import Run
from streameval._counts.state import State
from streameval._metrics.gradients import cells_of
from streameval._metrics.weighting import effective_cases
from streameval._uncertainty.cluster_effect import with_clusters
from streameval._uncertainty.design_effect import INDEPENDENT
from streameval._uncertainty.pair_clusters import effect_of_groups, effect_on_difference
from streameval._uncertainty.sampling_variance import sampling_variance, scatter
from streameval._uncertainty.unseen_cases import negative_step, positive_step

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray
    from streameval._counts.groups import Groups
    from streameval._metrics.gradients import Estimator, Gradient
    from streameval._metrics.influence import Influence
    from streameval._uncertainty.design_effect import DesignEffect
    from streameval._uncertainty.pair_cells import PairCells
    from streameval._uncertainty.pair_grid import PairGrid
    from streameval._uncertainty.rules import UncertainMetric

_ONE_STANDARD_ERROR = 2 * 0.15865525393145707
"""The probability outside one standard error of a normal distribution."""

_UNSEEN_SHARE = 0.5
"""Of the variance of the unseen case, where a second such case moves the figure less."""


class GridTooCoarseError(Exception):
    """The cells of a grid hide too much of a model's order for a variance."""


class PairVariance(NamedTuple):
    """The variance of a's figure minus b's, and what clusters do to it and to each figure.

    Attributes
    ----------
    value : float
        Of independent cases; nan without two of each class.
    freedom : float
        Its degrees of freedom, by Satterthwaite (1946) from the two classes' parts.
    difference, a, b : DesignEffect
        Of clusters, on the difference and on each figure.
    """

    value: float
    freedom: float = math.inf
    difference: DesignEffect = INDEPENDENT
    a: DesignEffect = INDEPENDENT
    b: DesignEffect = INDEPENDENT


class UnseenCases(NamedTuple):
    """What cases that a sample may not have do to a difference.

    Attributes
    ----------
    variance : float
        What they add to its variance, above 0.
    step : float
        The most that one of them moves a figure.
    """

    variance: float
    step: float


class _Side(NamedTuple):
    """One model's figure in the grid.

    `positives` and `negatives` are the influences of the grid's entries on it.
    `prevalence_slope` is its derivative by the prevalence, 0 where the entries' influences
    include it.
    """

    estimate: float
    variance: float
    positives: FloatArray
    negatives: FloatArray
    prevalence_slope: float


def variance_of_difference(
    grid: PairGrid,
    models: tuple[UncertainMetric, UncertainMetric],
    prevalence: float | None,
) -> PairVariance:
    """Return the variance of a's figure minus b's. O(n log n).

    Cells make a variance smaller. So each model's exact variance is divided by its variance
    in the cells, and the difference's variance is multiplied by the larger ratio, if above 1.

    Parameters
    ----------
    grid : PairGrid
        All cases of the models.
    models : UncertainMetric
        The metric of a and of b, of their own scores, without clusters.
    prevalence : float or None
        As in the figures.

    Raises
    ------
    GridTooCoarseError
        Where a figure in the cells is further from the exact one than a standard error,
        or its variance is 0 and the exact one is not.
    """
    if min(grid.positives.total, grid.negatives.total) < 2:
        return PairVariance(math.nan)
    grid = grid.in_common_units()
    is_weighted = grid.has_weights
    estimator = models[0].rule.estimator
    assert estimator is not None
    if grid.cuts is not None and estimator.in_cells is not None:
        estimator = estimator.in_cells
    scores = _scores_of(grid, "a"), _scores_of(grid, "b")
    side_of = _weighted_side if is_weighted else _side
    a, b = (side_of(grid, name, each, estimator, prevalence) for name, each in zip("ab", scores))
    ratio = max(1.0, _hidden_ratio(models[0], a), _hidden_ratio(models[1], b))
    of_positives, of_negatives = a.positives - b.positives, a.negatives - b.negatives
    P, N = grid.positives.total, grid.negatives.total
    slope = 0.0
    if is_weighted:
        parts = (
            _weighted_sum(grid.positives, of_positives),
            _weighted_sum(grid.negatives, of_negatives),
        )
    else:
        parts = (
            scatter(of_positives, grid.positives.counts, P) / P,
            scatter(of_negatives, grid.negatives.counts, N) / N,
        )
        if prevalence is None:
            slope = (1 / P + 1 / N) * (a.prevalence_slope - b.prevalence_slope) ** 2
    value = sum(parts) + slope
    freedom = _freedom(value, parts, (P - 1, _moving(grid.negatives, of_negatives) - 1))
    if grid.groups is None:
        return PairVariance(ratio * value, freedom)

    def gradient_of(cells: Groups) -> Gradient:
        return estimator.gradient(cells, prevalence)

    tables = grid.groups.tables(scores)
    of_a, of_b = (table.sums(gradient_of) for table in tables)
    effects = (
        effect_on_difference(of_a, of_b, value),
        effect_of_groups(of_a),
        effect_of_groups(of_b),
    )
    # Both models have the same cases, in the same clusters.
    return PairVariance(ratio * value, freedom, *(with_clusters(e, tables[0]) for e in effects))


def unseen_cases(
    groups: Groups,
    model: UncertainMetric,
    prevalence: float | None,
    units: tuple[float, float] = (1.0, 1.0),
) -> UnseenCases:
    """Return what unseen cases of one model add to the variance of a difference. O(G).

    One positive below all scores, and one negative above all; or one positive above all
    scores in place of below, which moves a small area in precision-recall space by more. A
    second negative lowers such an area by less than the first, so a share of it is enough.

    Parameters
    ----------
    groups : Groups
        The model's, without the misses, and with a case of each class.
    model : UncertainMetric
        The metric of the model.
    prevalence : float or None
        As in the figures.
    units : (float, float)
        How much an unseen positive and an unseen negative weigh.
    """
    estimator = model.rule.estimator
    assert estimator is not None
    positive, negative = (max(1, round(each)) for each in units)
    lost = positive_step(groups, estimator, prevalence, units=positive)
    gained = -positive_step(groups, estimator, prevalence, units=positive, is_best=True)
    fallen = negative_step(groups, estimator, prevalence, units=negative)
    share = _UNSEEN_SHARE if estimator.derivatives is not None else 1.0
    variance = max(lost**2 + share * fallen**2, _UNSEEN_SHARE * (lost + gained) ** 2)
    return UnseenCases(variance, max(lost, gained, fallen))


def _freedom(value: float, parts: tuple[float, float], freedoms: tuple[float, float]) -> float:
    """Return the degrees of freedom of a variance, of two estimated parts of it."""
    spread = sum(part**2 / max(each, 1.0) for part, each in zip(parts, freedoms))
    return value**2 / spread if spread > 0 else math.inf


def _moving(cells: PairCells, derivatives: FloatArray) -> float:
    """Return the effective number of a class's cases, by how far each moves the difference."""
    centred = derivatives - dot(cells.units, derivatives) / float(cells.units.sum())
    squares = dot(cells.squares, centred**2)
    return dot(cells.units, np.abs(centred)) ** 2 / squares if squares > 0 else cells.total


def _hidden_ratio(model: UncertainMetric, side: _Side) -> float:
    """Return the exact variance of a model's figure over that in the cells."""
    lower, upper = model.limits(_ONE_STANDARD_ERROR)
    is_far = not lower <= side.estimate <= upper and not math.isnan(lower)
    if is_far or (side.variance == 0 and model.figure.variance > 0):
        raise GridTooCoarseError
    return model.figure.variance / side.variance if side.variance else 1.0


def _scores_of(grid: PairGrid, name: str) -> State:
    """Return the scores of one model in the grid; weighted ones count their units."""
    positives, negatives = (
        Run.of(getattr(cells, name), cells.units) for cells in (grid.positives, grid.negatives)
    )
    return State(counts=ScoreCounts(positives, negatives))


def _side(
    grid: PairGrid, name: str, scores: State, estimator: Estimator, prevalence: float | None
) -> _Side:
    groups = scores.groups
    influence = estimator.influence(groups, prevalence)
    entries = getattr(grid.positives, name), getattr(grid.negatives, name)
    return _Side(
        influence.estimate,
        sampling_variance(influence, groups, fixed_prevalence=prevalence is not None),
        *influences_of_cases(influence, groups, *entries),
        float(influence.prevalence_slope),
    )


def _weighted_side(
    grid: PairGrid, name: str, scores: State, estimator: Estimator, prevalence: float | None
) -> _Side:
    cells = cells_of(scores)
    gradient = estimator.gradient(cells, prevalence)
    ascending = cells.scores[::-1]

    rows = [
        ascending.size - 1 - np.searchsorted(ascending, getattr(each, name))
        for each in (grid.positives, grid.negatives)
    ]
    positives, negatives = gradient.positive[rows[0]], gradient.negative[rows[1]]
    return _Side(
        estimator.influence(cells, prevalence).estimate,
        _weighted_sum(grid.positives, positives) + _weighted_sum(grid.negatives, negatives),
        positives,
        negatives,
        0.0,
    )


def _weighted_sum(cells: PairCells, derivatives: FloatArray) -> float:
    """Return the variance that a class's weighted cases add, given the derivative of each."""
    squares = cells.squares
    effective = effective_cases(float(cells.units.sum()), float(squares.sum()))
    unbiased = effective / (effective - 1) if effective > 1 else 1.0
    return dot(squares, derivatives**2) * unbiased


def influences_of_cases(
    influence: Influence, groups: Groups, positives: FloatArray, negatives: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Look up the influence of positives and of negatives by their scores. O(n log G)."""
    ascending = groups.scores[::-1]
    size = len(ascending)
    of_positives = influence.positive[size - 1 - np.searchsorted(ascending, positives)]
    below = np.searchsorted(ascending, negatives)
    above = size - np.searchsorted(ascending, negatives, side="right")
    is_tied = below + above < size
    of_negatives = influence.between[above]
    of_negatives[is_tied] = influence.tied[above[is_tied]]
    return of_positives, of_negatives
