"""Simulated streams for bench/alarms.py, and detectors of many streams in arrays.

Negatives score N(0, 1), positives N(d, 1), and the score is the probability of being
positive at a prevalence of 0.2: calibrated, with an AUC-ROC that d gives.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np
from scipy import stats

from streameval import WindowedEvaluator
from streameval._drift.evidence import FRACTIONS, advanced, bet_of
from streameval._drift.frozen import FrozenReference
from streameval._drift.reference import ReferenceCases
from streameval._drift.settings import DriftSettings
from streameval._drift.watches import UNITS, WatchRows, side_values

Rng = np.random.Generator

START = datetime(2026, 1, 1, tzinfo=UTC)
PREVALENCE = 0.2
AUC = 0.92
THRESHOLD = 0.5
TOLERANCE = 0.01
WATCHES = ("ranking", "auc_roc", "precision", "flagged", "calibration")
DAY_MINUTES = 1440
HOUR = 60
REFERENCE_DAYS = 7
RETRY_MINUTES = 10


def distance_of(auc: float) -> float:
    """Return the distance of the classes' means at an AUC-ROC."""
    return math.sqrt(2) * float(stats.norm.ppf(auc))


@dataclass(frozen=True)
class Traffic:
    """How cases of a stream come, and what has become of the model.

    Attributes
    ----------
    positives : float
        An hour.
    burst : int
        Rows that come in one minute, share half of their scores' variance and have labels
        that are alike.
    retries : int
        How often each row is sent again, within ten minutes.
    is_late : bool
        Whether labels come after an exponential delay: of 6 hours for a flagged negative,
        up to 4 days for a positive that is not flagged.
    daily : float
        By how much the distance of the classes goes up and down within a day; the volume
        does by 30 %, six hours before.
    auc : float
    prevalence : float
        Of which the model knows nothing.
    shift : float
        Of the logit of every score: calibration alone.
    share : float
        Of the rows whose classes have the distance that `auc` gives; others are as before.
    """

    positives: float
    burst: int = 1
    retries: int = 0
    is_late: bool = False
    daily: float = 0.0
    auc: float = AUC
    prevalence: float = PREVALENCE
    shift: float = 0.0
    share: float = 1.0

    def day(self, rng: Rng) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return labels, scores and minutes of the rows of one day, in no order."""
        rows = self.positives / PREVALENCE * 24 / (1 + self.retries)
        most = 1.3 if self.daily else 1.0
        minute = rng.integers(DAY_MINUTES, size=rng.poisson(most * rows / self.burst))
        if self.daily:
            volume = 1 + 0.3 * np.sin(2 * np.pi * minute / DAY_MINUTES)
            minute = minute[rng.random(minute.size) * most < volume]
        bursts = minute.size
        chance = np.full(bursts, self.prevalence)
        if self.burst > 1:
            chance = rng.beta(4 * self.prevalence, 4 * (1 - self.prevalence), bursts)
        minutes = np.repeat(minute, self.burst)
        labels = rng.random(minutes.size) < np.repeat(chance, self.burst)
        noise = rng.normal(size=minutes.size)
        if self.burst > 1:
            shared = np.repeat(rng.normal(size=bursts), self.burst)
            noise = (noise + shared) / math.sqrt(2)
        distance = distance_of(self.auc)
        if self.share < 1:
            is_changed = rng.random(minutes.size) < self.share
            distance = np.where(is_changed, distance, distance_of(AUC))
        if self.daily:
            distance = distance + self.daily * np.cos(2 * np.pi * minutes / DAY_MINUTES)
        values = noise + distance * labels
        if self.retries:
            labels, values, minutes = (
                np.tile(each, 1 + self.retries) for each in (labels, values, minutes)
            )
            later = rng.integers(RETRY_MINUTES + 1, size=minutes.size)
            minutes = np.minimum(minutes + later, DAY_MINUTES - 1)
        return labels, self.scores(values), minutes

    def scores(self, values: np.ndarray) -> np.ndarray:
        """Return the model's probabilities."""
        d = distance_of(AUC)
        logit = d * values - d * d / 2 + math.log(PREVALENCE / (1 - PREVALENCE)) + self.shift
        return 1 / (1 + np.exp(-logit))


def settings_of(
    watches: tuple[str, ...], mean_days: int, *, pane_seconds: int = 60
) -> DriftSettings:
    """Return the settings of every simulated detector."""
    needing = {"precision", "recall", "flagged"} & set(watches)
    return DriftSettings.of(
        watch=watches,
        tolerance=TOLERANCE,
        mean_time_to_false_alarm=timedelta(days=mean_days),
        threshold=THRESHOLD if needing else None,
        pane=timedelta(seconds=pane_seconds),
        maturity=timedelta(0),
        clusters=False,
        scale="probability",
    )


def panes_a_day(settings: DriftSettings) -> int:
    """Return the panes of a day, of a minute or of a whole part of one."""
    return DAY_MINUTES * 60_000_000 // settings.pane_us


def reference_window(traffic: Traffic, rng: Rng) -> WindowedEvaluator:
    """Return a week of a stream without a change, in panes of an hour."""
    windowed = WindowedEvaluator(
        pane=timedelta(hours=1), retention=timedelta(days=30), scale="probability"
    )
    for day in range(REFERENCE_DAYS):
        labels, scores, minutes = traffic.day(rng)
        start = np.datetime64(START.replace(tzinfo=None), "us") + np.timedelta64(day, "D")
        at = start + minutes.astype("timedelta64[m]")
        windowed.add_cases(labels=labels, scores=scores, at=at)
    return windowed


def frozen_of(traffic: Traffic, rng: Rng, settings: DriftSettings) -> FrozenReference:
    """Return the reference that a detector of the stream keeps."""
    before = replace(traffic, auc=AUC, prevalence=PREVALENCE, shift=0.0)
    window = reference_window(before, rng).last(timedelta(days=REFERENCE_DAYS))
    cases = ReferenceCases(window._view(), window._panes_as_blocks())
    return FrozenReference.of(cases, {}, settings)


class Arrivals:
    """The sums of one stream by side and pane, a day at a time; labels may come later.

    Where panes are shorter than a minute, each row lies anywhere in its minute.
    """

    def __init__(self, traffic: Traffic, frozen: FrozenReference, settings: DriftSettings) -> None:
        self._traffic = traffic
        self._frozen = frozen
        self._settings = settings
        self._panes = panes_a_day(settings)
        sides = len(settings.sides) - 4
        self._sides = settings.sides[:sides]
        self._later: dict[int, np.ndarray] = {}
        self._day = -20 if traffic.is_late else 0

    def next_day(self, rng: Rng, traffic: Traffic | None = None) -> np.ndarray:
        """Return sums and counts, [2, sides, panes], of the next day from day 0 on."""
        while True:
            day, self._day = self._day, self._day + 1
            self._add(rng, day, traffic or self._traffic)
            found = self._later.pop(day, None)
            if day >= 0:
                empty = np.zeros((2, len(self._sides), self._panes))
                return empty if found is None else found

    def _add(self, rng: Rng, day: int, traffic: Traffic) -> None:
        labels, scores, minutes = traffic.day(rng)
        bands = self._frozen.bands.of(scores)
        rows = WatchRows(labels, scores, bands, is_prediction=True)
        width = self._panes // DAY_MINUTES
        made = minutes if width == 1 else minutes * width + rng.integers(width, size=minutes.size)
        arrival = made
        if traffic.is_late:
            hours = 6 * (1 + 7 * labels) * (1 + (scores < THRESHOLD))
            arrival = made + (rng.exponential(hours) * HOUR * width).astype(np.int64)
        for side, definition in enumerate(self._sides):
            counted, values = side_values(
                definition, rows, self._settings.flagged_from, self._frozen.bands.tables
            )
            at = made if definition.population == "predictions" else arrival
            at, values = at[counted], values[counted]
            for later in np.unique(at // self._panes) if traffic.is_late else (0,):
                chosen = at // self._panes == later if traffic.is_late else slice(None)
                place = at[chosen] - later * self._panes
                sums = self._later.setdefault(
                    day + int(later), np.zeros((2, len(self._sides), self._panes))
                )
                sums[0, side] += np.bincount(place, values[chosen], minlength=self._panes)
                sums[1, side] += np.bincount(place, minlength=self._panes)


@dataclass(frozen=True)
class Mixture:
    """Which bets evidence is the mean of.

    Attributes
    ----------
    fractions : tuple of float
        Shares of the greatest bet on one case.
    weights : tuple of float or None
        Of each; None where they are equal.
    hourly : float
        The weight of the hourly copy.
    """

    fractions: tuple[float, ...] = FRACTIONS
    weights: tuple[float, ...] | None = None
    hourly: float = 0.5


class Lanes:
    """The evidence of many streams side by side, by the library's bets and rules, day by day.

    Parameters
    ----------
    thetas : float64[sides, streams]
    slices : list of slice
        The sides of each watch.
    mean_panes : int
    mixture : Mixture
    """

    def __init__(
        self,
        thetas: np.ndarray,
        slices: list[slice],
        mean_panes: int,
        mixture: Mixture = Mixture(),
    ) -> None:
        self.thetas = thetas
        bets = len(mixture.fractions)
        self._mixture = mixture
        weights = np.array(mixture.weights or (1 / bets,) * bets)[:, None, None]
        self._weights = weights * (1 - mixture.hourly), weights * mixture.hourly
        shape = (bets, *thetas.shape)
        self.fine, self.coarse = np.zeros(shape), np.zeros(shape)
        self.last = np.full(shape[1:], -1)
        self.slices = slices
        self._firsts = [each.start for each in self.slices]
        active = np.add.reduceat(self.thetas > 0, self._firsts, axis=0)
        self._scale = 1 / (np.maximum(active, 1) * mean_panes)

    @classmethod
    def of(
        cls,
        frozen: list[FrozenReference],
        settings: DriftSettings,
        mixture: Mixture = Mixture(),
    ) -> Lanes:
        """Return the evidence of detectors with these settings."""
        sides = len(settings.sides) - 4
        thetas = np.array([each.thetas[0, :sides] for each in frozen]).T
        slices = [settings.sides_of(index) for index in range(len(settings.watches))]
        return cls(thetas, slices, settings.mean_panes, mixture)

    def day(self, day: int, sums: np.ndarray, counts: np.ndarray) -> Iterator[np.ndarray]:
        """Count a day, [sides, panes, streams] each; yield each pane's evidence by watch.

        Yields
        ------
        float64[watches, streams]
            As a share of the mean time in panes. `restart` may be called in between.
        """
        panes = sums.shape[1]
        width = panes // 24
        seen = (counts > 0) & (self.thetas[:, None] > 0)
        counts = np.where(seen, counts, 0)
        factors, z = self._factors(sums, counts)
        coarse, _ = self._factors(*(_by_hour(each) for each in (z * counts * UNITS, counts)))
        has_hour = _by_hour(counts) > 0
        numbers = day * panes + np.arange(panes)
        newest = np.where(seen, numbers[:, None], -1)
        newest = np.maximum.accumulate(np.concatenate((self.last[:, None], newest), axis=1), axis=1)
        before, self.last = newest[:, :-1], newest[:, -1].copy()
        elapsed = np.where(before < 0, 1, np.minimum(numbers[:, None] - before, width))
        elapsed = np.where(seen, elapsed, 0)
        for pane in range(panes):
            self.fine += elapsed[:, pane]
            self.fine *= factors[pane]
            if pane % width == width - 1:
                hour = pane // width
                self.coarse += width * has_hour[:, hour]
                self.coarse *= coarse[hour]
            own, hourly = self._weights
            total = (own * self.fine + hourly * self.coarse).sum(axis=0)
            yield np.add.reduceat(total, self._firsts, axis=0) * self._scale

    def restart(self, watch: int, stream: int) -> None:
        """Drop the evidence of a watch; its hour goes on, which the library drops too."""
        sides = self.slices[watch]
        self.fine[:, sides, stream] = 0
        self.coarse[:, sides, stream] = 0

    def _factors(self, sums: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what evidence is multiplied by, [times, bets, sides, streams], and the means."""
        z = sums / (np.maximum(counts, 1) * UNITS)
        theta = self.thetas[:, None]
        fractions = self._mixture.fractions
        factors = np.empty((sums.shape[1], len(fractions), *self.thetas.shape))
        for place, fraction in enumerate(fractions):
            bets = bet_of(fraction, np.maximum(counts, 1), theta)
            found = np.where(counts > 0, advanced(1.0, 0, bets, theta, z), 1.0)
            factors[:, place] = found.transpose(1, 0, 2)
        return factors, z


def _by_hour(columns: np.ndarray) -> np.ndarray:
    sides, panes, streams = columns.shape
    return columns.reshape(sides, 24, panes // 24, streams).sum(axis=2)
