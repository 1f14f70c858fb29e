"""Figures of cases in clusters, and of cases with weights. A part of `truth_map.py`."""

from __future__ import annotations

import itertools
import math
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
import textbook
from map_areas import COSTS
from map_cells import Cell, Found, Rng
from populations import Population
from scipy import stats

from streameval import Evaluator, allocate_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

TRUTH_CASES = 1_000_000
THRESHOLD = 1.0
FIGURES = ("auc_roc", "average_precision", "recall", "precision", "expected_cost", "prevalence")
AREAS = FIGURES[:2]

CLUSTERS = (8, 20, 50, 200)
MEAN_SIZE, PREVALENCE, DISTANCE = 20, 0.2, 1.5
SIZES: dict[str, Callable[[Rng, int], np.ndarray]] = {
    "equal": lambda _, count: np.full(count, MEAN_SIZE),
    "log-normal": lambda rng, count: 1 + rng.lognormal(2.5, 1.0, count).astype(int),
    "Pareto 1.3": lambda rng, count: (5 * (1 + rng.pareto(1.3, count))).clip(max=5_000).astype(int),
}
RELATED = {"log-normal": (0.0, 0.5), "equal": (0.0,), "Pareto 1.3": (0.0, 0.5)}
"""By how much a cluster's scores rise with the logarithm of its size."""


def cluster_cells() -> Iterator[Cell]:
    """Yield sizes of clusters, with and without a relation to scores, by their number."""
    for (name, sizes), count in itertools.product(SIZES.items(), CLUSTERS):
        drawn = [sizes(np.random.default_rng(each), count) for each in range(99)]
        effective = float(np.median([each.sum() ** 2 / (each**2).sum() for each in drawn]))
        for related in RELATED[name]:
            yield Cell(
                part="clusters",
                name=f"{count} clusters, {name}" + (", larger score higher" if related else ""),
                figures=FIGURES,
                draw=partial(draw_clusters, name, count, related),
                positives=count * MEAN_SIZE * PREVALENCE,
                prevalence=PREVALENCE,
                effective=dict.fromkeys(FIGURES, effective),
            )


def shifts(rng: Rng, sizes: np.ndarray, related: float) -> np.ndarray:
    """Return what the scores of a cluster have in common."""
    return math.sqrt(0.5) * rng.normal(size=sizes.size) + related * (np.log(sizes) - 2.5)


def scored(rng: Rng, labels: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Return scores of cases, of which half of the variance is their clusters'."""
    return DISTANCE * labels + shift + math.sqrt(0.5) * rng.normal(size=labels.size)


@cache
def true_of_clusters(sizes: str, related: float) -> dict[str, float]:
    """Return the figures of one case each of a million clusters, drawn by their size."""
    rng = np.random.default_rng(1)
    drawn = SIZES[sizes](rng, TRUTH_CASES)
    drawn = rng.choice(drawn, TRUTH_CASES, p=drawn / drawn.sum())
    labels = rng.random(TRUTH_CASES) < PREVALENCE
    scores = scored(rng, labels, shifts(rng, drawn, related))
    return values(Evaluator(), labels, scores)


def values(evaluator: Evaluator, labels: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    """Return every figure of many cases."""
    evaluator.add_cases(labels=labels, scores=scores)
    return {name: evaluator.interval(name, **given(name)).estimate for name in FIGURES}


def given(name: str) -> dict[str, float]:
    """Return the arguments of a figure."""
    if name in {*AREAS, "prevalence"}:
        return {}
    return {"threshold": THRESHOLD} | (COSTS if name == "expected_cost" else {})


def draw_clusters(
    name: str, count: int, related: float, rng: Rng, figures: Collection[str]
) -> dict[str, Found]:
    """Return the figures of one sample of clusters."""
    sizes = SIZES[name](rng, count)
    of_case = np.repeat(np.arange(count), sizes)
    share = rng.beta(4 * PREVALENCE, 4 * (1 - PREVALENCE), count)
    labels = rng.random(of_case.size) < share[of_case]
    scores = scored(rng, labels, shifts(rng, sizes, related)[of_case])
    evaluator = Evaluator(cluster_groups=32)
    keys = of_case + int(rng.integers(1 << 40))
    evaluator.add_cases(labels=labels, scores=scores, clusters=keys)
    sample = sample_of(labels, scores, np.ones(labels.size))
    true, found = true_of_clusters(name, related), {}
    for figure in figures:
        interval = evaluator.interval(figure, **given(figure))
        totals = np.bincount(of_case, influences(figure, sample))
        limits = textbook.of_totals(interval.estimate, totals)
        found[figure] = Found.of(true[figure], interval, limits)
    return found


def sample_of(labels: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> textbook.Sample:
    """Return cases as the textbook takes them."""
    costs = COSTS["cost_fp"], COSTS["cost_fn"]
    return textbook.Sample(labels, scores, weights, THRESHOLD, costs)


def influences(figure: str, sample: textbook.Sample) -> np.ndarray:
    """Return each case's share of a figure's error; nan without two of each class."""
    labels = sample.labels
    if min(np.count_nonzero(labels), np.count_nonzero(~labels)) < 2:
        return np.full(labels.size, math.nan)
    return textbook.influences(figure, sample)


DESIGNS: dict[str, Callable[[Rng, np.ndarray, np.ndarray], np.ndarray]] = {
    "one in four": lambda _, labels, __: np.full(labels.size, 0.25),
    "negatives one in ten": lambda _, labels, __: np.where(labels, 1.0, 0.1),
    "below a score one in eight": lambda _, __, scores: np.where(scores < THRESHOLD, 1 / 8, 1.0),
    "below a score one in fifty": lambda _, __, scores: np.where(scores < THRESHOLD, 1 / 50, 1.0),
    "rising with the score from 0.03": lambda _, __, scores: np.clip(
        1 / (1 + np.exp(1.5 * (1.5 - scores))), 0.03, 1
    ),
    "by chance from 0.1": lambda rng, labels, _: np.exp(
        rng.uniform(math.log(0.1), 0, size=labels.size)
    ),
}
MIN_PROBABILITIES = dict(zip(DESIGNS, (0.25, 0.1, 1 / 8, 1 / 50, 0.03, 0.1), strict=True))
"""The least probability of each design."""
SIGMAS = (0.5, 1.0, 1.5)
"""Of the logarithms of weights that have nothing to do with the cases."""


def weight_cells() -> Iterator[Cell]:
    """Yield probabilities of labels and log-normal weights, by positives and prevalence."""
    drawn: dict[str, Callable[..., dict[str, Found]]] = {
        **{name: partial(draw_labelled, name) for name in DESIGNS},
        **{f"log-normal, sigma {each}": partial(draw_weighted, each) for each in SIGMAS},
    }
    for (name, draw), prevalence, positives in itertools.product(
        drawn.items(), (0.05, 0.3), (100, 400)
    ):
        yield Cell(
            part="weights",
            name=f"{name}, {positives} at {prevalence}",
            figures=FIGURES,
            draw=partial(draw, positives, prevalence),
            positives=positives,
            prevalence=prevalence,
            effective=dict.fromkeys(FIGURES, effective_of(name, positives, prevalence)),
        )


def weighted_cases(name: str, rng: Rng, positives: int, prevalence: float) -> list[np.ndarray]:
    """Return labels, scores and weights of the labelled cases of one sample."""
    size = round(positives / prevalence)
    labels = rng.random(size) < prevalence
    scores = rng.normal(size=size) + DISTANCE * labels
    if name not in DESIGNS:
        return [labels, scores, rng.lognormal(0, float(name.rpartition(" ")[2]), size)]
    chances = DESIGNS[name](rng, labels, scores)
    drawn = rng.random(size) < chances
    return [labels[drawn], scores[drawn], 1 / chances[drawn]]


@cache
def effective_of(name: str, positives: int, prevalence: float) -> float:
    """Return Kish's effective cases of the scarcer class, the median of some samples."""
    found = []
    for seed in range(29):
        labels, _, weights = weighted_cases(
            name, np.random.default_rng(seed), positives, prevalence
        )
        found.append(min(w.sum() ** 2 / (w @ w) for w in (weights[labels], weights[~labels])))
    return float(np.median(found))


@cache
def true_of_weights(prevalence: float) -> dict[str, float]:
    """Return the population's figures."""
    population = Population("", stats.norm(DISTANCE, 1), stats.norm())
    tpr, fpr = (float(stats.norm.sf(THRESHOLD - each)) for each in (DISTANCE, 0))
    hits, false = prevalence * tpr, (1 - prevalence) * fpr
    return {name: population.truth(name, prevalence) for name in AREAS} | {
        "recall": tpr,
        "precision": hits / (hits + false),
        "expected_cost": COSTS["cost_fp"] * false + COSTS["cost_fn"] * (prevalence - hits),
        "prevalence": prevalence,
    }


def draw_labelled(
    design: str, positives: int, prevalence: float, rng: Rng, figures: Collection[str]
) -> dict[str, Found]:
    """Return the figures of cases that were labelled with known probabilities."""
    labels, scores, weights = weighted_cases(design, rng, positives, prevalence)
    evaluator = Evaluator(min_label_probability=MIN_PROBABILITIES[design])
    evaluator.add_cases(labels=labels, scores=scores, label_probability=1 / weights)
    return weighed(evaluator, sample_of(labels, scores, weights), prevalence, figures)


def draw_weighted(
    sigma: float, positives: int, prevalence: float, rng: Rng, figures: Collection[str]
) -> dict[str, Found]:
    """Return the figures of cases with weights by chance."""
    labels, scores, weights = weighted_cases(f"sigma {sigma}", rng, positives, prevalence)
    evaluator = Evaluator()
    evaluator.add_cases(labels=labels, scores=scores, weights=weights * 256)
    return weighed(evaluator, sample_of(labels, scores, weights), prevalence, figures)


def weighed(
    evaluator: Evaluator, sample: textbook.Sample, prevalence: float, figures: Collection[str]
) -> dict[str, Found]:
    """Return the figures of weighted cases, and the limits of Horvitz and Thompson."""
    true, found = true_of_weights(prevalence), {}
    for name in figures:
        interval = evaluator.interval(name, **given(name))
        totals = influences(name, sample)
        found[name] = Found.of(true[name], interval, textbook.of_totals(interval.estimate, totals))
    return found


PREDICTIONS, PILOT = 20_000, 1_000


def sample_cells() -> Iterator[Cell]:
    """Yield what was drawn to be labelled, beside a pilot, by size and prevalence."""
    for prevalence, size in itertools.product((0.005, 0.05, 0.3), (500, 1_500)):
        yield Cell(
            part="samples",
            name=f"{size} of {PREDICTIONS} at {prevalence}",
            figures=AREAS,
            draw=partial(draw_sample, prevalence, size),
            positives=PREDICTIONS * prevalence,
            prevalence=prevalence,
            effective=dict.fromkeys(AREAS, 0.0),
            slow=10,
        )


def draw_sample(
    prevalence: float, size: int, rng: Rng, figures: Collection[str]
) -> dict[str, Found]:
    """Return the areas of a window of which a pilot and a sample are labelled."""
    labels = rng.random(PREDICTIONS) < prevalence
    scores = rng.normal(size=PREDICTIONS) + DISTANCE * labels
    waiting, true, found = np.arange(PILOT, PREDICTIONS), true_of_weights(prevalence), {}
    for name in figures:
        evaluator = Evaluator()
        evaluator.add_cases(labels=labels[:PILOT], scores=scores[:PILOT])
        allocation = allocate_labels(evaluator, scores=scores[waiting], size=size, metric=name)
        seed = int(rng.integers(1 << 30))
        drawn = allocation.draw(ids=waiting.astype(str), scores=scores[waiting], seed=seed)
        rows, chances = np.array(drawn.ids).astype(int), drawn.label_probabilities
        evaluator = Evaluator(min_label_probability=allocation.min_label_probability)
        evaluator.add_cases(labels=labels[:PILOT], scores=scores[:PILOT])
        evaluator.add_cases(labels=labels[rows], scores=scores[rows], label_probability=chances)
        every = np.append(np.arange(PILOT), rows)
        weights = np.append(np.ones(PILOT), 1 / chances)
        interval = evaluator.interval(name)
        totals = influences(name, sample_of(labels[every], scores[every], weights))
        found[name] = Found.of(true[name], interval, textbook.of_totals(interval.estimate, totals))
    return found
