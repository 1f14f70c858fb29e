"""Coverage and width of differences in 30 settings. A part of bench/pairs.py.

Five kinds of scores, 50, 200 and 1,000 positives at prevalence 0.1, models that are equal
and models of which b is better. `held` is the share of 95 % intervals that hold the true
difference; of equal models the rest are false positives. `width` says how many times as wide
as the interval of `compare` the interval of a pair is, by the median: `compare` takes the
models as independent. `refused` is the share of pairs without an interval.

Clusters are bursts of 10 rows, whose errors have half of their variance in common in each
model. The true difference is computed from 2 million rows.
"""

from __future__ import annotations

import argparse
import functools
import math

import numpy as np

from streameval import Evaluator, PairedEvaluator, compare
from streameval._metric_registry import Place

KINDS = ("normal", "heavy tails", "ties", "1000 + x", "clusters")
POSITIVES = (50, 200, 1_000)
GAPS = (0.0, 0.3)
PREVALENCE = 0.1
CORRELATION = 0.8
BURST = 10
MAX_CELLS = {"1000 + x": 256}
"""Of each kind: of the others as many as a pane of a server keeps."""

PANE_CELLS = 4_096
TRUTH_ROWS = 2_000_000


def cases(kind: str, gap: float, rng: np.random.Generator, size: int) -> dict[str, np.ndarray]:
    """Return columns of both models; b's positives are further up by the gap."""
    columns = {"labels": rng.random(size) < PREVALENCE}
    if kind == "heavy tails":
        common, own = rng.standard_t(3, size=(2, size))
    else:
        common, own = rng.normal(size=(2, size))
    if kind == "clusters":
        bursts = np.arange(size) // BURST
        of_bursts = rng.normal(size=(2, bursts[-1] + 1))
        common, own = (
            math.sqrt(0.5) * (each + shared[bursts])
            for each, shared in zip((common, own), of_bursts)
        )
        columns["clusters"] = bursts
    # By symmetry both models' errors have one distribution.
    common, own = common * math.sqrt((1 + CORRELATION) / 2), own * math.sqrt((1 - CORRELATION) / 2)
    a = common - own + 1.5 * columns["labels"]
    b = common + own + (1.5 + gap) * columns["labels"]
    if kind == "ties":
        a, b = np.round(2 * a) / 2, np.round(2 * b) / 2
    if kind == "1000 + x":
        a, b = 1000 + a, 1000 + b
    return columns | {"scores_a": a, "scores_b": b}


@functools.cache
def truths(kind: str, gap: float) -> dict[str, float]:
    """Return the true difference of each metric."""
    if gap == 0:
        return dict.fromkeys(Place.COMPARISON.names(), 0.0)
    columns = cases(kind, gap, np.random.default_rng(1), TRUTH_ROWS)
    a, b = (_evaluator(columns, side) for side in "ab")
    return {name: getattr(a, name)() - getattr(b, name)() for name in Place.COMPARISON.names()}


def _evaluator(columns: dict[str, np.ndarray], side: str) -> Evaluator:
    clusters = columns.get("clusters")
    found = Evaluator(cluster_groups=None if clusters is None else 32)
    found.add_cases(labels=columns["labels"], scores=columns[f"scores_{side}"], clusters=clusters)
    return found


def setting(kind: str, gap: float, positives: int, *, streams: int, seed: int) -> list[list[float]]:
    """Return of each metric: coverage, share of the wrong side, width, refusals."""
    rng = np.random.default_rng([seed, KINDS.index(kind), positives, round(10 * gap)])
    true = truths(kind, gap)
    found: dict[str, list[tuple[float, float, float]]] = {
        name: [] for name in Place.COMPARISON.names()
    }
    for _ in range(streams):
        columns = cases(kind, gap, rng, round(positives / PREVALENCE))
        pair = PairedEvaluator(
            max_cells=MAX_CELLS.get(kind, PANE_CELLS),
            cluster_groups=32 if kind == "clusters" else None,
        )
        pair.add_cases(**columns)
        sides = [_evaluator(columns, side) for side in "ab"]
        for name in Place.COMPARISON.names():
            change = pair.compare(metric=name)
            apart = compare(*sides, metric=name)
            width = (change.upper - change.lower) / (apart.upper - apart.lower)
            is_held = change.lower <= true[name] <= change.upper
            found[name].append((is_held, width, math.isnan(change.lower)))
    rows = []
    for name in Place.COMPARISON.names():
        held, width, refused = np.array(found[name], dtype=np.float64).T
        answered = refused == 0
        rows.append([held[answered].mean(), np.median(width[answered]), refused.mean()])
    return rows


def print_coverage(given: argparse.Namespace) -> None:
    """Print a row for each setting."""
    streams = given.streams or 400
    error = math.sqrt(0.95 * 0.05 / streams)
    print(f"seed {given.seed}, {streams} pairs each, standard error {error:.3f}\n")
    heading = [f"{name}: held | width" for name in Place.COMPARISON.names()]
    print("| scores | b better by | positives | " + " | ".join([*heading, "refused"]) + " |")
    print("|" + "---|" * (4 + 2 * len(Place.COMPARISON.names())))
    every: list[float] = []
    for kind in given.kinds:
        for gap in GAPS:
            for positives in POSITIVES:
                rows = setting(kind, gap, positives, streams=streams, seed=given.seed)
                every += [held for held, _, _ in rows]
                figures = [f"{held:.3f} | {width:.2f}" for held, width, _ in rows]
                cells = [kind, f"{gap}", f"{positives:,}", *figures, f"{rows[0][2]:.3f}"]
                print("| " + " | ".join(cells) + " |", flush=True)
    print(f"\nleast {min(every):.3f}, greatest {max(every):.3f}, mean {np.mean(every):.3f}")
