"""The greatest variance that an order inside the cells can give, against orders."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from streameval import Evaluator
from streameval._metrics.pr_areas import negatives_factor
from streameval._uncertainty.cell_limits import CellLimits
from streameval._uncertainty.cell_orders import hides_order
from streameval._uncertainty.cell_variance import greatest_error
from streameval._uncertainty.estimates import estimator_of, figure_of

AREAS = pytest.mark.parametrize("name", ["auc_pr", "average_precision"])
PREVALENCES = pytest.mark.parametrize("prevalence", [None, 0.02, 0.7])


def greatest(ev, name, prevalence):
    """Return the greatest variance of a bounded evaluator."""
    view = ev._view()
    estimator = estimator_of(name)
    groups = estimator.counted(view.groups)
    hidden = hides_order(view.groups, view.resolution, view.scale)
    misses = np.zeros(groups.p.size - hidden.size, dtype=np.bool_)
    hidden = np.append(hidden, misses)
    limits = CellLimits.of(groups, hidden, negatives_factor(groups, prevalence), 1.0)
    return greatest_error(groups, limits, estimator, prevalence).variance


def tied_and_strict_orders(cells):
    """Yield ranks of the cases of each cell: every order, ties included."""
    per_cell = [
        {tuple(ranks) for ranks in itertools.product(range(len(cell)), repeat=len(cell))}
        for cell in cells
    ]
    yield from itertools.product(*per_cell)


@AREAS
@PREVALENCES
@pytest.mark.parametrize(
    "cells",
    [
        ([1, 0], [1, 0], [0, 1]),
        ([0, 1, 1], [1, 0]),
        ([1, 1, 0, 0],),
        ([1], [0, 1, 0], [1]),
        ([0, 0], [1, 1, 0]),
    ],
    ids=str,
)
@pytest.mark.parametrize("misses", [0, 2])
@pytest.mark.slow
def test_no_order_of_a_small_example_exceeds_it(name, prevalence, cells, misses):
    """Every order of the cases of each cell, ties included, by enumeration."""
    coarse = Evaluator(resolution=1)
    # Cells from 2^-k on, as wide as that.
    for k, labels in enumerate(cells):
        coarse.add_cases(labels=labels, scores=[2.0**-k] * len(labels))
    coarse.add_misses(misses)
    limit = greatest(coarse, name, prevalence)
    assert len(coarse._view().groups.p) == sum(any(labels) for labels in cells)
    seen = set()
    for orders in tied_and_strict_orders(cells):
        ev = Evaluator()
        for k, (labels, ranks) in enumerate(zip(cells, orders, strict=True)):
            ev.add_cases(labels=labels, scores=[2.0**-k * (1 + rank / 16) for rank in ranks])
        ev.add_misses(misses)
        seen.add(figure_of(ev._view().groups, name, prevalence).variance)
    assert max(seen) <= limit
    assert len(seen) > 1


@AREAS
@PREVALENCES
@pytest.mark.slow
def test_no_sample_exceeds_it(name, prevalence):
    """Random cases of all sizes, resolutions and prevalences."""
    rng = np.random.default_rng(23)
    for _ in range(150):
        size = int(rng.choice([10, 60, 300]))
        labels = rng.random(size) < rng.choice([0.1, 0.5, 0.9])
        labels[:4] = [0, 1, 0, 1]
        scores = np.round(rng.normal(labels * 1.5), int(rng.choice([1, 3, 9])))
        exact, coarse = Evaluator(), Evaluator(resolution=int(rng.choice([1, 3, 5, 9])))
        for ev in (exact, coarse):
            ev.add_cases(labels=labels, scores=scores)
            ev.add_misses(3)
        variance = figure_of(exact._view().groups, name, prevalence).variance
        assert variance <= greatest(coarse, name, prevalence) * (1 + 1e-12)


@AREAS
@PREVALENCES
def test_it_is_the_variance_where_nothing_is_hidden(name, prevalence):
    """Nearly, in cells that hold one case each; exactly, in cells of one double."""
    rng = np.random.default_rng(29)
    labels = rng.random(20_000) < 0.3
    scores = rng.normal(labels * 1.5)
    exact, fine = Evaluator(), Evaluator(resolution=30)
    for ev in (exact, fine):
        ev.add_cases(labels=labels, scores=scores)
    variance = figure_of(exact._view().groups, name, prevalence).variance
    assert variance <= greatest(fine, name, prevalence) <= 1.01 * variance
    groups = estimator_of(name).counted(exact._view().groups)
    ties = np.zeros(groups.p.size, dtype=np.bool_)
    limits = CellLimits.of(groups, ties, negatives_factor(groups, prevalence), 1.0)
    assert greatest_error(groups, limits, estimator_of(name), prevalence).variance == pytest.approx(
        variance, rel=1e-12
    )
