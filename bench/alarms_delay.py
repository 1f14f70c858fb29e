"""How soon a change is found, beside a CUSUM. A part of bench/alarms.py."""

from __future__ import annotations

import argparse
import math
from typing import NamedTuple

import numpy as np
from alarms_streams import (
    TOLERANCE,
    WATCHES,
    Arrivals,
    Lanes,
    Mixture,
    Rng,
    Traffic,
    frozen_of,
    panes_a_day,
    settings_of,
)
from scipy.optimize import brentq

from streameval._drift.frozen import FrozenReference
from streameval._drift.settings import DriftSettings
from streameval._drift.watches import UNITS

FALLING = ("auc_roc", "precision", "calibration")
CHANGES = {
    "AUC-ROC -0.02": ("auc_roc", {"auc": 0.90}),
    "AUC-ROC -0.05": ("auc_roc", {"auc": 0.87}),
    "AUC-ROC -0.1": ("auc_roc", {"auc": 0.82}),
    "AUC-ROC -0.1 in 20 %": ("auc_roc", {"auc": 0.82, "share": 0.2}),
    "prevalence 0.2 to 0.14": ("precision", {"prevalence": 0.14}),
    "logit +0.3": ("calibration", {"shift": 0.3}),
}
"""The watch, whose first side falls, and what becomes of the stream."""
MIXTURES = {
    "as it is": Mixture(),
    "no hourly copy": Mixture(hourly=0.0),
    "and five bets": Mixture((1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2), hourly=0.0),
    "the small ones first": Mixture(
        (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2), (0.35, 0.25, 0.2, 0.12, 0.08), hourly=0.0
    ),
}
PLACES = [settings_of(WATCHES, 1).sides_of(WATCHES.index(each)).start for each in FALLING]

MAX_DAYS = 30
RESAMPLED_PANES = 1_000_000
TOPS = 50
"""Of the highest excursions of a CUSUM without a change, from which its limit is extrapolated."""

_SMALLEST, _LARGEST = 1e-9, 200.0
"""Between which a limit times its exponent is looked for."""


class QuietDays(NamedTuple):
    """Days before the change: of all what CUSUMs read, and the last whole."""

    sums: list[np.ndarray]
    last: tuple[np.ndarray, np.ndarray]


Streams = list[tuple[FrozenReference, Arrivals, Rng]]


class Cusum:
    """A CUSUM of one side's sums a minute, for many streams.

    It adds ``rows x middle - sum`` and never falls below 0. The middle lies halfway between
    the mean that must not ring and the true mean after the change, which a user would not
    know: the best that such a rule can do.
    """

    def __init__(self, middles: np.ndarray, limits: np.ndarray) -> None:
        self.middles = middles
        self.limits = limits
        self.level = np.zeros(middles.size)

    def day(self, sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Count a day, [panes, streams] each; return where the limit is passed."""
        steps = counts * self.middles - sums
        found = np.empty(steps.shape, dtype=np.bool_)
        for pane, step in enumerate(steps):
            self.level = np.maximum(0.0, self.level + step)
            found[pane] = self.level >= self.limits
        return found


def _streams(traffic: Traffic, number: int, seed: list[int], settings: DriftSettings) -> Streams:
    found = []
    for stream in range(number):
        rng = np.random.default_rng([*seed, stream])
        frozen = frozen_of(traffic, rng, settings)
        found.append((frozen, Arrivals(traffic, frozen, settings), rng))
    return found


def _day(streams: Streams, traffic: Traffic | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums and counts of the next day, [sides, minutes, streams] each."""
    found = np.stack([each.next_day(rng, traffic) for _, each, rng in streams], axis=-1)
    return found[0], found[1]


def _limit(steps: np.ndarray, mean_panes: int, rng: Rng) -> float:
    """Return the level that a CUSUM of these steps passes once in the mean time on average.

    Steps of panes without a change are drawn again and again. The time between excursions
    above the limit grows as that of a Brownian motion, (e^wh - wh - 1), where E e^(w step) = 1;
    its constant is that of the `TOPS` highest excursions. Infinite where the steps do not fall,
    because the change is none beyond what is tolerated.
    """
    if steps.mean() >= 0:
        return math.inf
    sums = np.cumsum(steps[rng.integers(steps.size, size=RESAMPLED_PANES)])
    levels = sums - np.minimum(np.minimum.accumulate(sums), 0.0)
    tops = np.sort(np.maximum.reduceat(levels, np.flatnonzero(levels == 0)))
    high = 1e-3
    while _log_moment(high, steps) < 0:
        high *= 1.5
    low = high / 1.5
    while _log_moment(low, steps) >= 0:
        low /= 2
    exponent = brentq(_log_moment, low, high, (steps,))
    known, times = float(tops[-TOPS]), mean_panes * TOPS / RESAMPLED_PANES
    goal = _growth(exponent * known) * times
    if not _growth(_SMALLEST) < goal < _growth(_LARGEST):
        return math.inf  # the change is too small to tell, or none
    return float(brentq(lambda x: _growth(x) - goal, _SMALLEST, _LARGEST)) / exponent


def _log_moment(exponent: float, steps: np.ndarray) -> float:
    return math.log(np.exp(exponent * steps).mean())


def _growth(x: float) -> float:
    return math.expm1(x) - x if x > 1e-4 else x * x / 2


def print_delays(chosen: argparse.Namespace) -> None:
    """Print a row for each change and rate."""
    settings = settings_of(WATCHES, chosen.mean_days, pane_seconds=chosen.pane_seconds)
    print(
        f"{chosen.streams} streams, a change after a quiet day, tolerance {TOLERANCE}, panes of "
        f"{chosen.pane_seconds} s. Median hours until\nthe alarm of its watch alone, until the "
        f"first of {len(WATCHES)} watches together, and until CUSUMs ring that know\nthe size of "
        f"the change and ring once in {chosen.mean_days} days: where nothing changes at all, and "
        "where the\nmean is at what the detector tolerates. Then the first as a share of the "
        f"last. Each CUSUM's limit is of\nits stream, from {chosen.days} quiet days.\n"
    )
    print(
        f"{'change':<24}{'positives/h':>12}{'alone':>8}{'together':>10}{'CUSUM':>8}"
        f"{'at tolerance':>14}{'share':>7}"
    )
    for rate in chosen.rates:
        before = Traffic(rate)
        made = _streams(before, chosen.streams, [chosen.seed, rate], settings)
        sums = [np.stack(_day(made))[:, PLACES].astype(np.float32) for _ in range(chosen.days)]
        quiet = QuietDays(sums, _day(made))
        for name, (watch, options) in CHANGES.items():
            index = WATCHES.index(watch)
            panes = _delays(made, quiet, Traffic(rate, **options), index, settings)
            found = [24 * each / panes_a_day(settings) for each in panes]
            hours = [f"{each:.1f}" if np.isfinite(each) else "-" for each in found]
            share = f"{found[0] / found[3]:.2f}" if np.isfinite(found[3]) else "-"
            print(
                f"{name:<24}{rate:>12}{hours[0]:>8}{hours[1]:>10}{hours[2]:>8}{hours[3]:>14}"
                f"{share:>7}",
                flush=True,
            )


def _cusums(
    frozen: list[FrozenReference], quiet: QuietDays, place: int, fallen: float, mean_panes: int
) -> list[Cusum]:
    """Return a CUSUM for each stream that knows its mean, and one at what is tolerated."""
    sums, counts = np.concatenate([each[:, PLACES.index(place)] for each in quiet.sums], axis=1)
    sums = sums / UNITS
    means = sums.sum(axis=0) / counts.sum(axis=0)
    thetas = np.array([each.thetas[0, place] for each in frozen])
    found = []
    for null in (means, thetas):
        middles = (null + fallen) / 2
        # As if the mean of the quiet days were the one that must not ring.
        steps = counts * (middles + means - null) - sums
        rng = np.random.default_rng(place)
        limits = [_limit(each, mean_panes, rng) for each in steps.T]
        found.append(Cusum(middles, np.array(limits)))
    return found


def _delays(
    made: Streams,
    quiet: QuietDays,
    changed: Traffic,
    index: int,
    settings: DriftSettings,
) -> list[float]:
    """Return the median panes from a change to four alarms, in the order of the table."""
    place = settings.sides_of(index).start
    frozen = [each for each, _, _ in made]
    after = [_day(made, changed)]
    fallen = float(after[0][0][place].sum() / after[0][1][place].sum()) / UNITS
    cusums = _cusums(frozen, quiet, place, fallen, settings.mean_panes)
    lanes = Lanes.of(frozen, settings)
    first = np.full((4, len(made)), np.inf)
    for day in range(-1, MAX_DAYS):
        if day == len(after):
            after.append(_day(made, changed))
        sums, counts = quiet.last if day < 0 else after[day]
        for which, cusum in enumerate(cusums, 2):
            _note(first[which], cusum.day(sums[place] / UNITS, counts[place]), day)
        evidence = np.stack(list(lanes.day(day + 1, sums, counts)))
        _note(first[0], evidence[:, index] >= 1, day)
        _note(first[1], evidence.max(axis=1) >= len(WATCHES), day)
        if np.isfinite(first).all():
            break
    return [float(np.median(each)) for each in first]


def _note(first: np.ndarray, has_rung: np.ndarray, day: int) -> None:
    """Write when each stream rang first, in panes after the change; what rang before is kept."""
    panes = day * len(has_rung) + has_rung.argmax(axis=0) + 1
    is_new = has_rung.any(axis=0) & np.isinf(first)
    first[is_new] = panes[is_new]


def print_mixtures(chosen: argparse.Namespace) -> None:
    """Print how long other mixtures of bets take, as a share of the CUSUM at what is tolerated."""
    settings = settings_of(WATCHES, chosen.mean_days, pane_seconds=chosen.pane_seconds)
    print(
        f"{chosen.streams} streams, as for 'delay': median time until the alarm of its watch "
        "alone as a share of\nthat of the CUSUM at what is tolerated\n"
    )
    print(f"{'change':<24}{'positives/h':>12}" + "".join(f"{each:>22}" for each in MIXTURES))
    for rate in chosen.rates:
        made = _streams(Traffic(rate), chosen.streams, [chosen.seed, rate], settings)
        sums = [np.stack(_day(made))[:, PLACES].astype(np.float32) for _ in range(chosen.days)]
        quiet = QuietDays(sums, _day(made))
        frozen = [each for each, _, _ in made]
        for name, (watch, options) in CHANGES.items():
            index = WATCHES.index(watch)
            place = settings.sides_of(index).start
            after = [_day(made, Traffic(rate, **options))]
            fallen = float(after[0][0][place].sum() / after[0][1][place].sum()) / UNITS
            cusum = _cusums(frozen, quiet, place, fallen, settings.mean_panes)[1]
            lanes = [Lanes.of(frozen, settings, each) for each in MIXTURES.values()]
            first = np.full((1 + len(lanes), len(made)), np.inf)
            for day in range(-1, MAX_DAYS):
                if day == len(after):
                    after.append(_day(made, Traffic(rate, **options)))
                sums, counts = quiet.last if day < 0 else after[day]
                _note(first[0], cusum.day(sums[place] / UNITS, counts[place]), day)
                for which, each in enumerate(lanes, 1):
                    evidence = np.stack(list(each.day(day + 1, sums, counts)))
                    _note(first[which], evidence[:, index] >= 1, day)
                if (np.isfinite(first).mean(axis=1) > 0.5).all():
                    break
            panes = np.median(first, axis=1)
            shares = "".join(f"{each / panes[0]:>22.2f}" for each in panes[1:])
            print(f"{name:<24}{rate:>12}{shares}", flush=True)
