"""How soon a change is found, beside a CUSUM. A part of bench/alarms.py."""

from __future__ import annotations

import argparse
import math
from typing import NamedTuple

import numpy as np
from alarms_streams import (
    DAY_MINUTES,
    TOLERANCE,
    WATCHES,
    Arrivals,
    Lanes,
    Rng,
    Traffic,
    frozen_of,
    settings_of,
)

from streameval._drift.frozen import FrozenReference
from streameval._drift.settings import DriftSettings
from streameval._drift.watches import UNITS

FALLING = ("placement", "precision", "calibration")
CHANGES = {
    "AUC-ROC -0.02": ("placement", {"auc": 0.90}),
    "AUC-ROC -0.05": ("placement", {"auc": 0.87}),
    "AUC-ROC -0.1": ("placement", {"auc": 0.82}),
    "AUC-ROC -0.1 in 20 %": ("placement", {"auc": 0.82, "share": 0.2}),
    "prevalence 0.2 to 0.14": ("precision", {"prevalence": 0.14}),
    "logit +0.3": ("calibration", {"shift": 0.3}),
}
"""The watch, whose first side falls, and what becomes of the stream."""
PLACES = [settings_of(WATCHES, 1).sides_of(WATCHES.index(each)).start for each in FALLING]

MAX_DAYS = 30
TAIL = 0.2


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

    def __init__(self, middles: np.ndarray) -> None:
        self.middles = middles
        self.level = np.zeros(middles.size)

    def day(self, sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Count a day, [minutes, streams] each; return the levels after each minute."""
        steps = counts * self.middles - sums
        found = np.empty_like(steps)
        for minute, step in enumerate(steps):
            self.level = np.maximum(0.0, self.level + step)
            found[minute] = self.level
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


def _limit(
    quiet: list[np.ndarray], side: int, middles: np.ndarray, shift: np.ndarray, mean_days: int
) -> float:
    """Return the level that a CUSUM passes once in the mean time on average in quiet days.

    `shift` is by how much the means of quiet days are lowered first. The tail of the days'
    greatest levels is taken as exponential above their 80 % quantile.
    """
    cusum = Cusum(middles)
    most = []
    for sums, counts in (each[:, side] for each in quiet):
        lowered = sums / UNITS - counts * shift
        most.append(cusum.day(lowered, counts).max(axis=0))
    levels = np.concatenate(most)
    start = float(np.quantile(levels, 1 - TAIL))
    excess = float((levels[levels > start] - start).mean())
    return start + excess * math.log(TAIL * mean_days)


def print_delays(chosen: argparse.Namespace) -> None:
    """Print a row for each change and rate."""
    settings = settings_of(WATCHES, chosen.mean_days)
    print(
        f"{chosen.streams} streams, a change after a quiet day, tolerance {TOLERANCE}. Median "
        f"hours until the\nalarm of its watch alone, until the first of {len(WATCHES)} watches "
        f"together, and until CUSUMs ring that know\nthe size of the change and ring once in "
        f"{chosen.mean_days} days: where nothing changes at all, and where the\nmean is at what "
        f"the detector tolerates. Limits of CUSUMs from {chosen.days} quiet days of the streams.\n"
    )
    print(
        f"{'change':<24}{'positives/h':>12}{'alone':>8}{'together':>10}{'CUSUM':>8}"
        f"{'at tolerance':>14}"
    )
    for rate in chosen.rates:
        before = Traffic(rate)
        made = _streams(before, chosen.streams, [chosen.seed, rate], settings)
        sums = [np.stack(_day(made))[:, PLACES].astype(np.float32) for _ in range(chosen.days)]
        quiet = QuietDays(sums, _day(made))
        for name, (watch, options) in CHANGES.items():
            index = WATCHES.index(watch)
            found = _delays(made, quiet, Traffic(rate, **options), index, settings)
            hours = [f"{each / 60:.1f}" if np.isfinite(each) else "-" for each in found]
            print(
                f"{name:<24}{rate:>12}{hours[0]:>8}{hours[1]:>10}{hours[2]:>8}{hours[3]:>14}",
                flush=True,
            )


def _delays(
    made: Streams,
    quiet: QuietDays,
    changed: Traffic,
    index: int,
    settings: DriftSettings,
) -> list[float]:
    """Return the median minutes from a change to four alarms, in the order of the table."""
    place, mean_days = settings.sides_of(index).start, settings.mean_panes // DAY_MINUTES
    frozen = [each for each, _, _ in made]
    means = np.array([each.means[place] for each in frozen])
    thetas = np.array([each.thetas[0, place] for each in frozen])
    after = [_day(made, changed)]
    fallen = float(after[0][0][place].sum() / after[0][1][place].sum()) / UNITS
    kinds = [(0 * means, (means + fallen) / 2), (means - thetas, (thetas + fallen) / 2)]
    limits = [
        _limit(quiet.sums, PLACES.index(place), middles, shift, mean_days)
        for shift, middles in kinds
    ]
    cusums = [Cusum(middles) for _, middles in kinds]
    lanes = Lanes(frozen, settings)
    first = np.full((4, len(made)), np.inf)
    for day in range(-1, MAX_DAYS):
        if day == len(after):
            after.append(_day(made, changed))
        sums, counts = quiet.last if day < 0 else after[day]
        for which, (cusum, limit) in enumerate(zip(cusums, limits, strict=True), 2):
            has_rung = cusum.day(sums[place] / UNITS, counts[place]) >= limit
            _note(first[which], has_rung, day)
        evidence = np.stack(list(lanes.day(day + 1, sums, counts)))
        _note(first[0], evidence[:, index] >= 1, day)
        _note(first[1], evidence.max(axis=1) >= len(WATCHES), day)
        if np.isfinite(first).all():
            break
    return [float(np.median(each)) for each in first]


def _note(first: np.ndarray, has_rung: np.ndarray, day: int) -> None:
    """Write when each stream rang first, in minutes after the change; what rang before is kept."""
    minutes = day * DAY_MINUTES + has_rung.argmax(axis=0) + 1
    is_new = has_rung.any(axis=0) & np.isinf(first)
    first[is_new] = minutes[is_new]
