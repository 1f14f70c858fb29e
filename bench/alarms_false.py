"""How often alarms are raised where nothing has changed. A part of bench/alarms.py."""

from __future__ import annotations

import argparse
from datetime import timedelta

import numpy as np
from alarms_streams import (
    DAY_MINUTES,
    START,
    THRESHOLD,
    TOLERANCE,
    WATCHES,
    Arrivals,
    Lanes,
    Traffic,
    frozen_of,
    reference_window,
    settings_of,
)

from streameval import DriftDetector

CONDITIONS = {
    "independent": {},
    "bursts of 10": {"burst": 10},
    "late labels": {"is_late": True},
    "daily cycle": {"daily": 0.05},
    "nine retries": {"retries": 9},
}


def false_alarms(
    traffic: Traffic, streams: int, days: int, mean_days: int, seed: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return alarms [watches, streams] of all watches together, and the most evidence of each."""
    rngs = [np.random.default_rng([*seed, stream]) for stream in range(streams)]
    settings = settings_of(WATCHES, mean_days)
    frozen = [frozen_of(traffic, rng, settings) for rng in rngs]
    arrivals = [Arrivals(traffic, each, settings) for each in frozen]
    lanes = Lanes.of(frozen, settings)
    alarms = np.zeros((len(WATCHES), streams), dtype=int)
    most = np.zeros((len(WATCHES), streams))
    for day in range(days):
        sums = np.stack(
            [each.next_day(rng) for each, rng in zip(arrivals, rngs, strict=True)], axis=-1
        )
        for found in lanes.day(day, sums[0], sums[1]):
            np.maximum(most, found, out=most)
            if found.max() >= len(WATCHES):
                for watch, stream in np.argwhere(found >= len(WATCHES)):
                    alarms[watch, stream] += 1
                    lanes.restart(watch, stream)
    return alarms, most


def print_false_alarms(chosen: argparse.Namespace) -> None:
    """Print a row for each condition and rate."""
    streams, days, mean_days = chosen.streams, chosen.days, chosen.mean_days
    allowed = streams * days / mean_days
    print(
        f"{streams} streams x {days} days without a change, {', '.join(WATCHES)} together, "
        f"tolerance {TOLERANCE},\none false alarm in {mean_days} days allowed: "
        f"{allowed:.1f} in all. Alarms, by watch, and streams in which\none watch alone would "
        "have raised one\n"
    )
    print(f"{'condition':<14}{'positives/h':>12}{'alarms':>8}{'of rate':>9}  by watch; alone")
    for place, (name, options) in enumerate(CONDITIONS.items()):
        for rate in chosen.rates:
            traffic = Traffic(rate, **options)
            alarms, most = false_alarms(
                traffic, streams, days, mean_days, [chosen.seed, place, rate]
            )
            total = int(alarms.sum())
            by_watch = " ".join(str(each) for each in alarms.sum(axis=1))
            alone = " ".join(str(each) for each in (most >= 1).sum(axis=1))
            print(
                f"{name:<14}{rate:>12}{total:>8}{total / allowed:>9.2f}  {by_watch}; {alone}",
                flush=True,
            )


def check_lanes(chosen: argparse.Namespace) -> None:
    """Compare streams in arrays with the detector of the library, row by row."""
    days, seed = min(chosen.days, 3), chosen.seed
    for rate in chosen.rates[:2]:
        traffic, changed = Traffic(rate), Traffic(rate, auc=0.75)
        settings = settings_of(WATCHES, chosen.mean_days)
        frozen = frozen_of(traffic, np.random.default_rng([seed, rate]), settings)
        rng = np.random.default_rng([seed, rate])
        window = reference_window(traffic, rng).last(timedelta(days=7))
        detector = DriftDetector(
            window,
            watch=WATCHES,
            tolerance=TOLERANCE,
            mean_time_to_false_alarm=timedelta(days=chosen.mean_days),
            threshold=THRESHOLD,
        )
        twin_rng = np.random.default_rng([seed, rate, 1])
        rng = np.random.default_rng([seed, rate, 1])
        lanes = Lanes.of([frozen], settings)
        arrivals = Arrivals(changed, frozen, settings)
        first = -1
        for day in range(days):
            sums = arrivals.next_day(rng)
            labels, scores, minutes = changed.day(twin_rng)
            order = np.argsort(minutes, kind="stable")
            start = np.datetime64(START.replace(tzinfo=None), "us") + np.timedelta64(day, "D")
            at = start + minutes[order].astype("timedelta64[m]")
            detector.add_cases(labels=labels[order], scores=scores[order], at=at)
            for minute, found in enumerate(lanes.day(day, *sums[..., None])):
                if first < 0 and found.max() >= len(WATCHES):
                    first = day * DAY_MINUTES + minute
        raised = detector.alarms[0].raised_at - START
        print(f"{rate} positives an hour: first alarm after {raised}, in arrays {first + 1} min")
        if raised != timedelta(minutes=first + 1):
            raise SystemExit("the arrays do not do what the detector does")
