"""What a detector costs: time a row and a pane, bytes. A part of bench/alarms.py."""

from __future__ import annotations

import argparse
import time
from datetime import timedelta

import numpy as np
from alarms_streams import START, THRESHOLD, TOLERANCE, WATCHES, Traffic, reference_window

from streameval import DriftDetector


def print_costs(chosen: argparse.Namespace) -> None:
    """Print a row for each rate and number of watches: processor time and size after some days."""
    print(f"{chosen.days} days in batches of a day, panes of a minute\n")
    print(
        f"{'positives/h':<12}{'watches':>8}{'rows':>12}{'us a row':>10}{'ms a pane':>11}"
        f"{'bytes':>8}"
    )
    for rate in chosen.rates:
        traffic = Traffic(rate)
        rng = np.random.default_rng([chosen.seed, rate])
        window = reference_window(traffic, rng).last(timedelta(days=7))
        batches = []
        for day in range(chosen.days):
            labels, scores, minutes = traffic.day(rng)
            order = np.argsort(minutes, kind="stable")
            start = np.datetime64(START.replace(tzinfo=None), "us") + np.timedelta64(day, "D")
            at = start + minutes[order].astype("timedelta64[m]")
            batches.append({"labels": labels[order], "scores": scores[order], "at": at})
        rows = sum(batch["labels"].size for batch in batches)
        panes = sum(np.unique(batch["at"]).size for batch in batches)
        for watches in (("auc_roc",), WATCHES):
            detector = DriftDetector(
                window,
                watch=watches,
                tolerance=TOLERANCE,
                mean_time_to_false_alarm=timedelta(days=chosen.mean_days),
                threshold=THRESHOLD if "precision" in watches else None,
            )
            began = time.process_time()
            for batch in batches:
                detector.add_cases(**batch)
            taken = time.process_time() - began
            size = len(detector.to_bytes())
            print(
                f"{rate:<12}{len(watches):>8}{rows:>12}{1e6 * taken / rows:>10.2f}"
                f"{1e3 * taken / panes:>11.3f}{size:>8}"
            )
