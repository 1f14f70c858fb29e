"""The share that a segment explains, against populations whose parts are known.

A part of bench/verdict.py. Three countries with a third of the cases each, 200 cells of scores.
The truth is the same replacement with the expected numbers of the populations, to many digits.
"""

from __future__ import annotations

import argparse

import numpy as np
from verdict_streams import APART, PREVALENCE, cell_shares, evaluator_of, mixture_auc_pr

from streameval._counts.merge import merge_states
from streameval._verdict.share import explained_share

COUNTRIES = ("IT", "DE", "US")
CHANGES: dict[str, dict[str, tuple[float, float]]] = {
    "IT falls": {"IT": (0.5, 0.0)},
    "IT and DE fall alike": {"IT": (1.0, 0.0), "DE": (1.0, 0.0)},
    "IT falls, DE by half of it": {"IT": (0.5, 0.0), "DE": (1.25, 0.0)},
    "IT falls, DE rises": {"IT": (0.5, 0.0), "DE": (2.5, 0.0)},
    "IT's negatives above all": {"IT": (-3.0, 5.0)},
}
"""Of each country that changes: positives less negatives, and where the negatives are."""


def print_shares(chosen: argparse.Namespace) -> None:
    """Print the share of each country: of the population, and how often it is found."""
    print(f"{chosen.streams} times 20,000 cases before and after; within: found within 0.1\n")
    print(f"{'change':<28}{'country':<9}{'truth':>7}{'mean':>7}{'within':>8}")
    for place, (name, changed) in enumerate(CHANGES.items()):
        before = {each: _shares(APART, 0.0) for each in COUNTRIES}
        after = {each: _shares(*changed.get(each, (APART, 0.0))) for each in COUNTRIES}
        found: dict[str, list[float]] = {each: [] for each in COUNTRIES}
        for number in range(chosen.streams):
            rng = np.random.default_rng([chosen.seed, 400 + place, number])
            drawn = [
                {
                    each: rng.multinomial(6667, whole.ravel()).reshape(2, -1)
                    for each, whole in side.items()
                }
                for side in (before, after)
            ]
            for each, share in _found(*drawn).items():
                found[each].append(share)
        for each in COUNTRIES:
            truth = _truth(before, after, each)
            values = np.array(found[each])
            within = np.mean(np.abs(values - truth) <= 0.1001)
            print(
                f"{name:<28}{each:<9}{truth:>7.2f}{values.mean():>7.2f}{within:>8.2f}", flush=True
            )


def _shares(apart: float, lift: float) -> np.ndarray:
    """Return the share of cases by class and cell, float64[2, cells]."""
    negative, positive = cell_shares(lift), cell_shares(apart + lift)
    return np.stack(((1 - PREVALENCE) * negative, PREVALENCE * positive))


def _found(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> dict[str, float]:
    states = [{each: evaluator_of(counts)._view() for each, counts in side.items()}
              for side in (before, after)]  # fmt: skip
    whole = [merge_states(list(side.values()), revision=0) for side in states]
    shares = {
        each: explained_share(*whole, states[0][each], states[1][each], prevalence=PREVALENCE)
        for each in COUNTRIES
    }
    return {each: share for each, share in shares.items() if share is not None}


def _truth(before: dict[str, np.ndarray], after: dict[str, np.ndarray], name: str) -> float:
    first, last = (mixture_auc_pr(sum(side.values()), PREVALENCE) for side in (before, after))
    replaced = {**after, name: before[name]}
    without = mixture_auc_pr(sum(replaced.values()), PREVALENCE)
    return min(max((without - last) / (first - last), 0.0), 1.0)
