"""How often the rule of a fixed interval rings without a change. A part of bench/alarms.py.

The rule is one that monitoring often has: the 99 % interval of the recent hour's AUC-PR minus
that of the 23 hours before is below 0. It is read every 5
minutes here, and rings where that has held for a quarter of an hour.
"""

from __future__ import annotations

import argparse
from datetime import datetime, timedelta

import numpy as np
from alarms_streams import START, Rng, Traffic

from streameval import WindowedEvaluator, compare

CONDITIONS = {"independent": {}, "bursts of 10": {"burst": 10}}
STEP = timedelta(minutes=5)
HOUR = timedelta(hours=1)
READINGS_TO_RING = 4
"""That the condition has held for 15 minutes: readings at 0, 5, 10 and 15."""


def rings(traffic: Traffic, days: int, rng: Rng) -> int:
    """Return how often the rule begins to ring in some days after the first."""
    windowed = WindowedEvaluator(
        pane=STEP, retention=timedelta(days=3), resolution=12, scale="probability"
    )
    found, held = 0, 0
    for day in range(days + 1):
        labels, scores, minutes = traffic.day(rng)
        start = np.datetime64(START.replace(tzinfo=None), "us") + np.timedelta64(day, "D")
        for step in range(24 * 12):
            now = START + timedelta(days=day) + (step + 1) * STEP
            chosen = minutes // 5 == step
            if chosen.any():
                at = start + minutes[chosen].astype("timedelta64[m]")
                windowed.add_cases(labels=labels[chosen], scores=scores[chosen], at=at)
            windowed.advance(now)
            if day:
                held = held + 1 if is_worse(windowed, now) else 0
                found += held == READINGS_TO_RING
    return found


def is_worse(windowed: WindowedEvaluator, now: datetime) -> bool:
    """Return whether the last hour is surely worse than the 23 before; not without an interval."""
    recent = windowed.between(now - HOUR, now)
    before = windowed.between(now - 24 * HOUR, now - HOUR)
    return compare(recent, before, level=0.99).upper < 0


def print_rule(chosen: argparse.Namespace) -> None:
    """Print a row for each condition and rate."""
    print(
        f"{chosen.streams} streams x {chosen.days} days without a change: how often the 99 % "
        "interval of the last hour\nagainst the 23 hours before rings, in a stream and 30 days\n"
    )
    print(f"{'condition':<14}{'positives/h':>12}{'rings':>8}{'a month':>10}")
    for place, (name, options) in enumerate(CONDITIONS.items()):
        for rate in chosen.rates:
            total = sum(
                rings(
                    Traffic(rate, **options),
                    chosen.days,
                    np.random.default_rng([chosen.seed, 7, place, rate, stream]),
                )
                for stream in range(chosen.streams)
            )
            month = 30 * total / (chosen.streams * chosen.days)
            print(f"{name:<14}{rate:>12}{total:>8}{month:>10.1f}", flush=True)
