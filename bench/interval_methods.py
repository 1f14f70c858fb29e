"""Published intervals that we compared with ours, each as a function of an estimate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special, stats

from streameval._uncertainty.limits import (
    auc_roc_limits,
    newcombe_variance,
    precision_limits,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval._uncertainty.limits import Figure

Z = stats.norm.isf(0.025)
Limits = tuple[float, float]


def wald(figure: Figure, variance: float) -> Limits:
    """Return estimate -+ z standard errors."""
    half = Z * math.sqrt(variance)
    return figure.estimate - half, figure.estimate + half


def logit(figure: Figure, variance: float) -> Limits:
    """Return the limits that are symmetric on the logit scale; [0, 1] for an estimate of 0 or 1."""
    t = figure.estimate
    if not 0 < t < 1:
        return (0.0, 1.0)
    half = Z * math.sqrt(variance) / (t * (1 - t))
    return tuple(special.expit(math.log(t / (1 - t)) + np.array([-half, half])))


def inverted(figure: Figure, variance: Callable[[float], float]) -> Limits:
    """Return the values t whose distance from the estimate is z standard errors at t."""
    t = figure.estimate
    grid = np.linspace(0, 1, 20_001)
    inside = grid[np.abs(grid - t) <= Z * np.sqrt(variance(grid))]
    return (min(inside[0], t), max(inside[-1], t)) if len(inside) else (t, t)


def hanley_mcneil(figure: Figure) -> Callable[[float], float]:
    """Return the variance by t, for exponential score distributions."""
    P, N = figure.positives, figure.negatives

    def variance(t: float) -> float:
        spread = 1 + (P - 1) * (1 - t) / (2 - t) + (N - 1) * t / (1 + t)
        return t * (1 - t) * spread / (P * N)

    return variance


def binomial(figure: Figure) -> float:
    """Return Boyd's variance, which treats the area as a binomial share of the positives."""
    return figure.estimate * (1 - figure.estimate) / figure.positives


AUC_METHODS = {
    "DeLong": lambda f: wald(f, f.variance),
    "DeLong, logit": lambda f: logit(f, f.variance),
    "Hanley-McNeil 1982": lambda f: wald(f, hanley_mcneil(f)(f.estimate)),
    "Hanley-McNeil, inverted": lambda f: inverted(f, hanley_mcneil(f)),
    "Newcombe 2006, method 5": lambda f: inverted(
        f, lambda t: newcombe_variance(t, f.positives, f.negatives)
    ),
    "without unseen cases": lambda f: auc_roc_limits(f, 0.05),
}
PR_METHODS = {
    "influence": lambda f: wald(f, f.variance),
    "influence, logit": lambda f: logit(f, f.variance),
    "Boyd 2013, binomial": lambda f: wald(f, binomial(f)),
    "Boyd 2013, logit": lambda f: logit(f, binomial(f)),
    "without unseen cases": lambda f: precision_limits(f, 0.05),
}
