"""Makes the cases of the demo's streams, in the order of their time.

The cases of an hour depend on the seed and on the hour's number alone, however they are taken.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
from streams import COUNTRIES

if TYPE_CHECKING:
    from streams import Model, Traffic

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
SEED = 37
SHARED = 0.8
"""The correlation of two models' noise: what makes a case hard for one is hard for the other."""
DELAY_SPREAD = 0.5
"""The standard deviation of the logarithm of a label's delay."""


@dataclass(frozen=True)
class Cases:
    """Columns of cases, one row each; `scores` has one for each model."""

    numbers: np.ndarray
    at_us: np.ndarray
    labelled_us: np.ndarray
    labels: np.ndarray
    countries: np.ndarray
    scores: np.ndarray

    def take(self, rows: np.ndarray) -> Cases:
        """Return the selected rows. O(n)."""
        return Cases(*(getattr(self, each.name)[rows] for each in fields(self)))

    def __add__(self, other: Cases) -> Cases:
        pairs = ((getattr(self, each.name), getattr(other, each.name)) for each in fields(self))
        return Cases(*(np.concatenate(pair) for pair in pairs))


class Feed:
    """The cases of one traffic, in the order of their time.

    Parameters
    ----------
    traffic : Traffic
    now_us : int
        When the demo begins.
    seed : int
    """

    def __init__(self, traffic: Traffic, now_us: int, seed: int) -> None:
        self.traffic = traffic
        self.begin_us = now_us - round(traffic.begins * DAY_US)
        self._now_us = now_us
        self._end_us = now_us - round(traffic.ends * DAY_US) if traffic.ends else None
        self._seed = seed
        self._hours = 0
        self._numbers = 0
        self._unsent = self._unlabelled = self._hour(0).take(np.arange(0))

    def _hour(self, hour: int) -> Cases:
        """Return the cases of an hour. O(n log n)."""
        traffic = self.traffic
        random = np.random.default_rng([SEED, self._seed, hour])
        size = random.poisson(traffic.rows_per_hour)
        at_us = self.begin_us + hour * HOUR_US + np.sort(random.integers(HOUR_US, size=size))
        labels = random.random(size) < traffic.prevalence
        countries = random.choice(list(COUNTRIES), size, p=list(COUNTRIES.values()))
        delays = (traffic.label_hours or 0.0) * random.lognormal(0.0, DELAY_SPREAD, size)
        cases = Cases(
            self._numbers + np.arange(size),
            at_us,
            at_us + (delays * HOUR_US).astype(np.int64),
            labels,
            countries,
            np.empty((size, 0)),
        )
        noise = [random.normal(size=size) for _ in range(1 + len(traffic.models))]
        scores = [
            self._scores(model, cases, SHARED * noise[0] + np.sqrt(1 - SHARED**2) * own)
            for model, own in zip(traffic.models, noise[1:], strict=True)
        ]
        return replace(cases, scores=np.stack(scores, axis=1))

    def _scores(self, model: Model, cases: Cases, noise: np.ndarray) -> np.ndarray:
        """Return probabilities, which were right before the model's change. O(n)."""
        distance = np.full(noise.size, model.separation)
        change = model.change
        if change is not None:
            changed = cases.at_us >= self._now_us - round(change.days_ago * DAY_US)
            if change.country is not None:
                changed &= cases.countries == change.country
            distance[changed] = change.separation
        seen = distance * cases.labels + noise
        odds = self.traffic.prevalence / (1 - self.traffic.prevalence)
        logit = np.log(odds) + model.separation * (seen - model.separation / 2)
        return 1 / (1 + np.exp(-logit))

    def take(self, until_us: int) -> tuple[Cases, Cases]:
        """Return the cases up to a time that were not taken yet, and those with a new label."""
        while self.begin_us + self._hours * HOUR_US <= until_us:
            made = self._hour(self._hours)
            if self._end_us is not None:
                made = made.take(made.at_us < self._end_us)
            self._hours += 1
            self._numbers += made.labels.size
            self._unsent += made
        is_due = self._unsent.at_us <= until_us
        cases, self._unsent = self._unsent.take(is_due), self._unsent.take(~is_due)
        waiting = self._unlabelled + cases
        is_known = waiting.labelled_us <= until_us
        self._unlabelled = waiting.take(~is_known)
        return cases, waiting.take(is_known)
