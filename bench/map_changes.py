"""Differences of streams and models, falls of a series, projections. A part of `truth_map.py`."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import falls
import numpy as np
import textbook
import truth_labels
from map_areas import AREAS
from map_cells import Cell, Found, Rng, at_of
from populations import POPULATIONS, Population, counted, draw

from streameval import PairedEvaluator, compare, find_fall
from streameval._uncertainty.compare import square_and_add

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from streameval import Comparison

NAMED = {each.name: each for each in POPULATIONS}
SIDES = (
    (100, 0.1, 100, 0.1),
    (1_000, 0.1, 100, 0.1),
    (200, 0.005, 200, 0.5),
    (400, 0.02, 400, 0.25),
    (50, 0.5, 1_000, 0.005),
)
"""Positives and prevalence of a, and of b."""

ALIKE = ("equal, d=1", "equal, d=2", "Student 3 df, d=3", "log-normal 1,1 / 0,0.5", "5 tied scores")


def difference_cells() -> Iterator[Cell]:
    """Yield two streams with one ROC curve, by their positives and prevalences."""
    for name, side in itertools.product(ALIKE, SIDES):
        yield Cell(
            part="differences",
            name=f"{name}, {side[0]} at {side[1]} less {side[2]} at {side[3]}",
            figures=AREAS,
            draw=partial(draw_difference, NAMED[name], side),
            positives=min(side[0], side[2]),
            prevalence=min(side[1], side[3]),
        )


def draw_difference(
    population: Population,
    side: tuple[int, float, int, float],
    rng: Rng,
    figures: Collection[str],
) -> dict[str, Found]:
    """Return the differences of two streams that are 0 at a common prevalence."""
    groups = [draw(population, rng, *each) for each in (side[:2], side[2:])]
    sides, found = [counted(each) for each in groups], {}
    for name in figures:
        change = compare(*sides, metric=name)
        if name == "auc_roc":
            limits = [textbook.delong(each) for each in groups]
        else:
            limits = [
                textbook.logit(value.estimate, each.P)
                for value, each in zip((change.a, change.b), groups)
            ]
        a, b = change.a.estimate, change.b.estimate
        found[name] = found_of(change, square_and_add(a, limits[0], b, limits[1]))
    return found


def found_of(change: Comparison, limits: textbook.Limits = textbook.UNDEFINED) -> Found:
    """Return what a comparison of equals says."""
    return Found(0.0, change.difference, change.lower, change.upper, limits)


PAIRS = {
    "normal": 0.0,
    "heavy tails": 0.0,
    "ties": 0.0,
    "half a percent of positives sink": 0.005,
    "two percent of positives sink": 0.02,
    "identical": 0.0,
}
"""Equal models, and the share of positives that each ranks last by chance."""

PAIR_FIGURES = ("auc_roc", "average_precision", "auc_pr @ 0.01", "auc_pr @ 0.001")
LOOKS = 10
CORRELATION = 0.8


def pair_cells() -> Iterator[Cell]:
    """Yield two equal models of the same cases, by positives and prevalence; seen ten times."""
    for kind, prevalence, positives in itertools.product(PAIRS, (0.5, 0.1), (50, 200, 1_000)):
        negatives = positives * (1 - prevalence) / prevalence
        effective = {
            figure: min(positives, negatives * at / (1 - at))
            for figure, at in zip(PAIR_FIGURES, (0.5, 0.5, 0.01, 0.001))
        }
        cell = Cell(
            part="pairs",
            name=f"{kind}, {positives} at {prevalence}",
            figures=PAIR_FIGURES,
            draw=partial(draw_pair, kind, positives, prevalence),
            positives=positives,
            prevalence=prevalence,
            effective=effective,
            is_apart=kind == "identical" or "sink" in kind,
            slow=1 + positives // 200,
        )
        yield cell
        if positives < 1_000 and prevalence == 0.5 and kind != "identical":
            yield replace(
                cell,
                part="pairs at ten looks",
                name=f"{cell.name} each",
                draw=partial(draw_looks, kind, positives, prevalence),
                effective={},
                is_apart=True,
                slow=8,
            )


def models(kind: str, rng: Rng, positives: int, prevalence: float) -> dict[str, np.ndarray]:
    """Return the cases of two models whose errors have one distribution."""
    size = round(positives / prevalence)
    labels = rng.random(size) < prevalence
    common, own = rng.normal(size=(2, size))
    if kind == "heavy tails":
        common, own = rng.standard_t(3, size=(2, size))
    if "sink" in kind or kind == "identical":
        own *= 0
    common, own = common * math.sqrt((1 + CORRELATION) / 2), own * math.sqrt((1 - CORRELATION) / 2)
    scores = [common + each + 1.5 * labels for each in (-own, own)]
    if kind == "ties":
        scores = [np.round(2 * each) / 2 for each in scores]
    sunk = [labels & (rng.random(size) < PAIRS[kind]) for _ in scores]
    a, b = (np.where(low, each - 20, each) for each, low in zip(scores, sunk))
    return {"labels": labels, "scores_a": a, "scores_b": b}


def draw_pair(
    kind: str, positives: int, prevalence: float, rng: Rng, figures: Collection[str]
) -> dict[str, Found]:
    """Return the differences of two equal models of the same cases."""
    columns = models(kind, rng, positives, prevalence)
    pair, found = PairedEvaluator(), {}
    pair.add_cases(**columns)
    ones = np.ones(columns["labels"].size)
    for figure in figures:
        name, at = at_of(figure)
        change, limits = pair.compare(metric=name, **at), textbook.UNDEFINED
        if not at and kind != "ties":
            a, b = (
                textbook.influences(name, textbook.Sample(columns["labels"], columns[side], ones))
                for side in ("scores_a", "scores_b")
            )
            limits = textbook.of_totals(change.difference, a - b)
        found[figure] = found_of(change, limits)
    return found


def draw_looks(
    kind: str, positives: int, prevalence: float, rng: Rng, figures: Collection[str]
) -> dict[str, Found]:
    """Return the last limits valid at all looks, or the first that exclude no difference."""
    pair, found = PairedEvaluator(), {}
    for _ in range(LOOKS):
        pair.add_cases(**models(kind, rng, positives, prevalence))
        for figure in figures:
            if figure not in found or not found[figure].is_missed:
                name, at = at_of(figure)
                found[figure] = found_of(pair.compare(metric=name, **at, anytime=True))
    return found


TRAFFIC = {
    "constant": ("constant", 1),
    "eight times as much at the end": ("grows", 8),
    "an eighth at the end": ("shrinks", 8),
    "by day and night": ("cycle", 7),
}
"""Its name in falls.py, and the greatest step over the least."""


def fall_cells() -> Iterator[Cell]:
    """Yield a model that stays as it is, in a day of steps of traffic."""
    for (name, (traffic, times)), positives, prevalence in itertools.product(
        TRAFFIC.items(), (5, 30), (0.1, 0.02)
    ):
        scenario = falls.Scenario(
            name, traffic, low=positives, high=times * positives, prevalence=prevalence
        )
        yield Cell(
            part="falls",
            name=f"{name}, {positives} positives at {prevalence} in the least step",
            figures=AREAS,
            draw=partial(draw_fall, scenario),
            positives=positives,
            prevalence=prevalence,
            is_apart=True,
            slow=3,
        )


def draw_fall(scenario: falls.Scenario, rng: Rng, figures: Collection[str]) -> dict[str, Found]:
    """Return whether a constant model is said to have fallen."""
    windows, found = falls.series(rng, scenario), {}
    for name in figures:
        fall = find_fall(windows, name)
        difference = 0.0 if fall is None else fall.difference
        found[name] = Found(0.0, difference, difference, difference)
    return found


MIN_LABELS = 100
"""Labels of positives that most windows of a projection have."""


def projection_cells() -> Iterator[Cell]:
    """Yield streams whose labels come late or are chosen (truth_labels.py)."""
    figures = tuple(name + (" @ 0.05" if at else "") for name, at in truth_labels.METRICS)
    for scenario in truth_labels.SCENARIOS:
        yield Cell(
            part="projections",
            name=scenario.name,
            figures=figures,
            draw=partial(draw_projection, scenario),
            positives=350,
            prevalence=truth_labels.PREVALENCE,
            effective=dict.fromkeys(figures, MIN_LABELS),
            slow=8,
        )


def draw_projection(
    scenario: truth_labels.Scenario, rng: Rng, figures: Collection[str]
) -> dict[str, Found]:
    """Return the projected figures of a window, and what its labels give in the end."""
    plain, projection, whole = truth_labels.project(truth_labels.draw(scenario, rng))
    found = {}
    for figure in figures:
        name, at = at_of(figure)
        projected, true = plain.figure(name, **at), getattr(whole, name)(**at)
        if projected.interval is None:
            found[figure] = Found(true, *(math.nan,) * 3)
            continue
        if true not in projected.interval:  # the backtest can only widen it
            projected = projection.figure(name, **at)
        found[figure] = Found(true, projected.projected, *projected.interval)
    return found
