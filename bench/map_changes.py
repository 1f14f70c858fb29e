"""Differences of streams and models, falls of a series, projections. A part of `truth_map.py`."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import textbook
import truth_labels
from map_areas import AREAS
from map_cells import Cell, Found, Rng
from populations import POPULATIONS, Population, counted, draw

from streameval import Evaluator, PairedEvaluator, Window, compare, find_fall

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
            axes={"positives": min(side[0], side[2]), "prevalence": min(side[1], side[3])},
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
        estimates = change.a.estimate, change.b.estimate
        found[name] = found_of(change, 0.0, square_and_add(estimates, limits))
    return found


def found_of(change: Comparison, true: float, limits: textbook.Limits) -> Found:
    """Return what a comparison says."""
    return Found(true, change.difference, change.lower, change.upper, limits)


def square_and_add(
    estimates: tuple[float, float], limits: list[textbook.Limits]
) -> textbook.Limits:
    """Return the limits of a difference (Zou and Donner 2008)."""
    (a, b), ((low_a, high_a), (low_b, high_b)) = estimates, limits
    return (
        a - b - math.hypot(a - low_a, high_b - b),
        a - b + math.hypot(high_a - a, b - low_b),
    )


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
        axes = {"positives": positives, "prevalence": prevalence}
        effective = {
            figure: min(positives, negatives * at / (1 - at))
            for figure, at in zip(PAIR_FIGURES, (0.5, 0.5, 0.01, 0.001))
        }
        yield Cell(
            part="pairs",
            name=f"{kind}, {positives} at {prevalence}",
            figures=PAIR_FIGURES,
            draw=partial(draw_pair, kind, positives, prevalence),
            axes=axes,
            effective=effective,
            is_apart=kind == "identical" or "sink" in kind,
            slow=1 + positives // 200,
        )
        if positives < 1_000 and prevalence == 0.5 and kind != "identical":
            yield Cell(
                part="pairs at ten looks",
                name=f"{kind}, {positives} at {prevalence} each",
                figures=PAIR_FIGURES,
                draw=partial(draw_looks, kind, positives, prevalence),
                axes=axes,
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


def at_of(figure: str) -> tuple[str, dict[str, float]]:
    """Return a figure's metric and its prevalence."""
    name, _, at = figure.partition(" @ ")
    return name, {"prevalence": float(at)} if at else {}


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
        found[figure] = found_of(change, 0.0, limits)
    return found


def draw_looks(
    kind: str, positives: int, prevalence: float, rng: Rng, figures: Collection[str]
) -> dict[str, Found]:
    """Return the last limits valid at all looks, or the first that exclude no difference."""
    pair, found = PairedEvaluator(), {}
    for _ in range(LOOKS):
        pair.add_cases(**models(kind, rng, positives, prevalence))
        for figure in figures:
            name, at = at_of(figure)
            change = found_of(
                pair.compare(metric=name, **at, anytime=True), 0.0, textbook.UNDEFINED
            )
            before = found.get(figure)
            if before is None or not (before.lower > 0 or before.upper < 0):
                found[figure] = change
    return found


STEPS = 24
TRAFFIC = {
    "constant": np.ones(STEPS),
    "eight times as much at the end": np.geomspace(1, 8, STEPS),
    "an eighth at the end": np.geomspace(8, 1, STEPS),
    "by day and night": 4 + 3 * np.sin(np.arange(STEPS) * math.tau / 12),
}


def fall_cells() -> Iterator[Cell]:
    """Yield a model that stays as it is, in steps of traffic."""
    for (traffic, sizes), positives, prevalence in itertools.product(
        TRAFFIC.items(), (5, 30), (0.1, 0.02)
    ):
        yield Cell(
            part="falls",
            name=f"{traffic}, {positives} positives at {prevalence} in the least step",
            figures=AREAS,
            draw=partial(draw_fall, sizes * positives, prevalence),
            axes={"positives": positives, "prevalence": prevalence},
            is_apart=True,
            slow=3,
        )


def draw_fall(
    positives: np.ndarray, prevalence: float, rng: Rng, figures: Collection[str]
) -> dict[str, Found]:
    """Return whether a constant model is said to have fallen."""
    hour_us, windows, found = 3_600_000_000, [], {}
    for place, mean in enumerate(positives):
        labels = np.arange(rng.poisson(mean / prevalence)) < rng.poisson(mean)
        step = Evaluator()
        step.add_cases(labels=labels, scores=rng.normal(size=labels.size) + 1.5 * labels)
        windows.append(Window(step._view(), place * hour_us, (place + 1) * hour_us))
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
            axes={"positives": 350, "prevalence": truth_labels.PREVALENCE},
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
