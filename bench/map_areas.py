"""Areas, rates and calibration of independent cases. A part of `truth_map.py`."""

from __future__ import annotations

import itertools
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
import textbook
from map_cells import NEARLY_PERFECT, Cell, Found, Rng, at_of
from populations import POPULATIONS, Population, counted, draw, evaluator_with
from scipy import stats

from streameval import Evaluator

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

AREAS = ("auc_roc", "average_precision", "auc_pr")
AREA_POPULATIONS = (
    "equal, d=1",
    "equal, d=2",
    "equal, d=3.3",
    "Student 3 df, d=3",
    "beta 0.5,0.5 / 0.5,5",
    "log-normal 1,1 / 0,0.5",
    "5 tied scores",
    "1 % mislabelled",
)
POSITIVES = (50, 200, 1_000)
PREVALENCES = (0.5, 0.05, 0.002)

truth = cache(Population.truth)


def area_cells() -> Iterator[Cell]:
    """Yield populations by positives and prevalence; areas also at every other prevalence."""
    named = {each.name: each for each in POPULATIONS}
    for name, prevalence, positives in itertools.product(AREA_POPULATIONS, PREVALENCES, POSITIVES):
        negatives = positives * (1 - prevalence) / prevalence
        effective = dict.fromkeys(AREAS, min(positives, negatives))
        for at in {*PREVALENCES} - {prevalence}:
            effective[f"auc_pr @ {at}"] = min(positives, negatives, negatives * at / (1 - at))
        yield Cell(
            part="areas",
            name=f"{name}, {positives} at {prevalence}",
            figures=tuple(effective),
            draw=partial(draw_areas, named[name], positives, prevalence),
            positives=positives,
            prevalence=prevalence,
            effective=effective,
            is_apart=truth(named[name], "auc_roc", 0.5) > NEARLY_PERFECT,
        )


def draw_areas(
    population: Population, positives: int, prevalence: float, rng: Rng, figures: Collection[str]
) -> dict[str, Found]:
    """Return the areas of one stream."""
    groups = draw(population, rng, positives, prevalence)
    evaluator, found = counted(groups), {}
    for figure in figures:
        name, at = at_of(figure)
        interval = evaluator.interval(name, **at)
        true = truth(population, name, at.get("prevalence", prevalence))
        if name == "auc_roc":
            limits = textbook.delong(groups)
        else:
            limits = textbook.logit(interval.estimate, groups.P)
        found[figure] = Found.of(true, interval, limits)
    return found


LOOKS, LOOK_POSITIVES = 20, 50


def look_cells() -> Iterator[Cell]:
    """Yield streams that are looked at again and again, at limits for all looks."""
    named = {each.name: each for each in POPULATIONS}
    for name, prevalence in itertools.product(AREA_POPULATIONS, PREVALENCES[:2]):
        yield Cell(
            part="areas at twenty looks",
            name=f"{name}, {LOOK_POSITIVES} at {prevalence} each",
            figures=AREAS,
            draw=partial(draw_looks, named[name], prevalence),
            positives=LOOK_POSITIVES,
            prevalence=prevalence,
            is_apart=True,
            slow=8,
        )


def draw_looks(
    population: Population, prevalence: float, rng: Rng, figures: Collection[str]
) -> dict[str, Found]:
    """Return the last limits of a stream, or the first that do not hold the truth."""
    total, found = round(LOOK_POSITIVES / prevalence), {}
    arrived = rng.binomial(total, prevalence, size=LOOKS)
    for groups in population.looks(rng, np.stack((arrived, total - arrived), axis=1)):
        evaluator = counted(groups)
        for name in figures:
            if name not in found or not found[name].is_missed:
                interval = evaluator.interval(name, anytime=True)
                found[name] = Found.of(truth(population, name, prevalence), interval)
    return found


RATES = ("prevalence", "recall", "fpr", "precision", "f_measure", "expected_cost")
COSTS = {"cost_fp": 1.0, "cost_fn": 20.0}
RATE_POINTS = ((0.6, 0.1), (0.9, 0.01), (0.98, 0.002), (0.3, 0.3))
"""Recall and false positive rate."""


def rate_cells() -> Iterator[Cell]:
    """Yield points on a ROC curve by positives and prevalence."""
    for point, prevalence, positives in itertools.product(RATE_POINTS, PREVALENCES, POSITIVES):
        yield Cell(
            part="rates",
            name=f"recall {point[0]}, fpr {point[1]}, {positives} at {prevalence}",
            figures=RATES,
            draw=partial(draw_rates, point, positives, prevalence),
            positives=positives,
            prevalence=prevalence,
            effective=rate_sizes(point, positives, prevalence),
        )


def rate_sizes(point: tuple[float, float], positives: int, prevalence: float) -> dict[str, float]:
    """Return how many cases of the scarcer kind each figure is expected to have."""
    negatives = positives * (1 - prevalence) / prevalence
    (hits, misses), (false, right) = (
        (size * share, size * (1 - share))
        for size, share in ((positives, point[0]), (negatives, point[1]))
    )
    return {
        "prevalence": min(positives, negatives),
        "recall": min(hits, misses),
        "fpr": min(false, right),
        "precision": min(hits, false),
        "f_measure": min(hits, misses + false),
        "expected_cost": misses,
    }


def draw_rates(
    point: tuple[float, float],
    positives: int,
    prevalence: float,
    rng: Rng,
    figures: Collection[str],
) -> dict[str, Found]:
    """Return the rates of one stream: two scores, on either side of the threshold."""
    total = round(positives / prevalence)
    P = int(np.clip(rng.binomial(total, prevalence), 2, total - 2))
    tp, fp = (int(rng.binomial(size, share)) for size, share in zip((P, total - P), point))
    fn, tn = P - tp, total - P - fp
    evaluator = evaluator_with(np.array([1.0, 0.0]), np.array([tp, fn]), np.array([fp, tn]))
    limits = {
        "prevalence": textbook.wilson(P, total),
        "recall": textbook.wilson(tp, P),
        "fpr": textbook.wilson(fp, total - P),
        "precision": textbook.wilson(tp, tp + fp),
        "f_measure": f_limits(tp, fp, fn),
        "expected_cost": cost_limits(fp, fn, total),
    }
    true, found = true_rates(point, prevalence), {}
    for name in figures:
        at = {} if name == "prevalence" else {"threshold": 0.5}
        costs = COSTS if name == "expected_cost" else {}
        found[name] = Found.of(true[name], evaluator.interval(name, **at, **costs), limits[name])
    return found


def true_rates(point: tuple[float, float], prevalence: float) -> dict[str, float]:
    """Return the population's rates."""
    hits, false = prevalence * point[0], (1 - prevalence) * point[1]
    return {
        "prevalence": prevalence,
        "recall": point[0],
        "fpr": point[1],
        "precision": hits / (hits + false),
        "f_measure": 2 * hits / (prevalence + hits + false),
        "expected_cost": COSTS["cost_fp"] * false + COSTS["cost_fn"] * (prevalence - hits),
    }


def f_limits(tp: int, fp: int, fn: int) -> textbook.Limits:
    """Return the limits of F by the delta method, of a share of the cases that count."""
    share = tp / (tp + fp + fn)
    variance = share * (1 - share) / (tp + fp + fn) * (2 / (1 + share) ** 2) ** 2
    return textbook.wald(2 * share / (1 + share), variance)


def cost_limits(fp: int, fn: int, total: int) -> textbook.Limits:
    """Return the limits of a mean of independent costs."""
    cost, other = COSTS["cost_fp"], COSTS["cost_fn"]
    mean = (cost * fp + other * fn) / total
    return textbook.wald(mean, ((cost**2 * fp + other**2 * fn) / total - mean**2) / total)


CALIBRATION = ("calibration_error", "observed_expected_ratio")
SCORES = {"beta 2,6": (2.0, 6.0), "beta 0.5,4.5": (0.5, 4.5), "beta 5,5": (5.0, 5.0)}
TILTS = (1.0, 1.3, 0.6)
"""The odds of a label over the odds that the score says."""


def calibration_cells() -> Iterator[Cell]:
    """Yield distributions of probabilities by how wrong they are and by cases."""
    for (name, shape), tilt, cases in itertools.product(SCORES.items(), TILTS, (300, 3_000)):
        prevalence = shape[0] / sum(shape)
        yield Cell(
            part="calibration",
            name=f"{name}, odds times {tilt}, {cases} cases",
            figures=CALIBRATION,
            draw=partial(draw_calibration, shape, tilt, cases),
            positives=round(cases * prevalence),
            prevalence=prevalence,
            effective=dict.fromkeys(CALIBRATION, cases * prevalence),
        )


def tilted(scores: np.ndarray, tilt: float) -> np.ndarray:
    """Return the probability of a label by its score."""
    return tilt * scores / (tilt * scores + 1 - scores)


@cache
def true_calibration(shape: tuple[float, float], tilt: float) -> dict[str, float]:
    """Return the population's figures, of a fine grid of its quantiles."""
    scores = stats.beta(*shape).ppf((np.arange(400_000) + 0.5) / 400_000)
    rate = tilted(scores, tilt)
    gaps = np.bincount((scores * 10).astype(int), scores - rate, minlength=10)
    return {
        "calibration_error": float(np.abs(gaps).sum()) / scores.size,
        "observed_expected_ratio": float(rate.mean() / scores.mean()),
    }


def draw_calibration(
    shape: tuple[float, float], tilt: float, cases: int, rng: Rng, figures: Collection[str]
) -> dict[str, Found]:
    """Return the calibration of one sample."""
    scores = rng.beta(*shape, cases)
    labels = rng.random(cases) < tilted(scores, tilt)
    evaluator = Evaluator()
    evaluator.add_cases(labels=labels, scores=scores)
    expected = float(scores.sum())
    limits = [cases * each / expected for each in textbook.wilson(int(labels.sum()), cases)]
    of_textbook = {"observed_expected_ratio": tuple(limits)}
    true = true_calibration(shape, tilt)
    return {
        name: Found.of(true[name], evaluator.interval(name), *filter(None, [of_textbook.get(name)]))
        for name in figures
    }
