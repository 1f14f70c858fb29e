"""How often `find_fall` says that a constant model has fallen, and how often it finds a fall.

    python bench/falls.py [--series 200] [--seed 301]

One line for each kind of traffic, noise and scores: the share of series that fell by average
precision, AUC-PR and AUC-ROC, and of true falls the share whose range holds the step of the drop.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from streameval import Window, WindowedEvaluator, find_fall

START = datetime(2026, 1, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)
METRICS = ("average_precision", "auc_pr", "auc_roc")


@dataclass(frozen=True)
class Scenario:
    """A kind of series of hourly steps; means of positives go from `low` to `high`."""

    name: str
    traffic: str = "grows"
    steps: int = 24
    low: float = 5.0
    high: float = 200.0
    prevalence: float = 0.1
    scores: str = "normal"
    correlation: float = 0.0  # of the separation, with a standard deviation of 0.2
    night: float = 0.0  # how much less separation there is in 8 hours of 24, the last ones
    drop: float = 0.0  # from six tenths of the steps on

    @property
    def place(self) -> int:
        """The first step of the drop."""
        return int(0.6 * self.steps)


SCENARIOS = (
    Scenario("grows"),
    Scenario("grows, heavy tails", steps=48, prevalence=0.2, scores="t3"),
    Scenario("grows, log-normal", steps=96, low=1, high=60, scores="lognormal"),
    Scenario("grows, 400 steps", steps=400, low=1, high=30, prevalence=0.2),
    Scenario("shrinks, ties", "shrinks", 48, 3, 150, scores="ties"),
    Scenario("bursts", "bursts", 96, 2, 150, 0.2),
    Scenario("few positives, a cycle of traffic", "cycle", 96, 1, 50),
    Scenario("steps depend, 0.5", "constant", 48, 60, 60, 0.2, correlation=0.5),
    Scenario("steps depend, 0.8", "constant", 96, 60, 60, 0.2, correlation=0.8),
    Scenario("worse at night, 1 day", "constant", 24, 60, 60, 0.2, night=0.4),
    Scenario("worse at night, 2 days", "constant", 48, 60, 60, 0.2, night=0.4),
    Scenario("worse at night, 5 days", "cycle", 120, 20, 120, 0.2, night=0.4),
    Scenario("worse at night, 16 days", "cycle", 384, 10, 40, 0.2, night=0.4),
    Scenario("falls by 0.45", "constant", 24, 60, 60, 0.2, drop=0.45),
    Scenario("falls by 0.45 and grows", "grows", 24, 10, 200, 0.2, drop=0.45),
    Scenario("falls by 0.4, bursts", "bursts", 48, 10, 150, 0.2, drop=0.4),
    Scenario("falls by 0.9, 5 positives a step", "constant", 24, 5, 5, 0.2, drop=0.9),
)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=200)
    parser.add_argument("--seed", type=int, default=301)
    given = parser.parse_args()
    print(f"seed {given.seed}, {given.series} series each")
    for index, scenario in enumerate(SCENARIOS):
        rng = np.random.default_rng([given.seed, index])
        found = [
            [find_fall(each, metric) for metric in METRICS]
            for each in (series(rng, scenario) for _ in range(given.series))
        ]
        fell = [sum(row[place] is not None for row in found) for place in range(len(METRICS))]
        line = " ".join(f"{number / given.series:.3f}" for number in fell)
        if scenario.drop:
            known = [each for row in found for each in row if each is not None]
            held = sum(each.first <= scenario.place <= each.last for each in known)
            line += f"   held {held / max(1, len(known)):.3f}"
        print(f"{scenario.name:36}{line}", flush=True)


def series(rng: np.random.Generator, scenario: Scenario) -> list[Window]:
    """Return the windows of one series."""
    mean, share = traffic(rng, scenario), scenario.prevalence
    positives, negatives = rng.poisson(mean), rng.poisson(mean * (1 - share) / share)
    apart = separation(rng, scenario)
    windows = []
    for step, (p, n) in enumerate(zip(positives, negatives, strict=True)):
        labels = np.arange(p + n) < p
        ev, at = WindowedEvaluator(pane=HOUR), START + step * HOUR
        ev.add_cases(labels=labels, scores=scores(rng, scenario.scores, apart[step], labels), at=at)
        windows.append(ev.between(at, at + HOUR))
    return windows


def traffic(rng: np.random.Generator, scenario: Scenario) -> np.ndarray:
    """Return the mean number of positives of each step."""
    low, ratio = scenario.low, scenario.high / scenario.low
    time = np.linspace(0, 1, scenario.steps)
    hours = np.arange(scenario.steps)
    kinds = {
        "grows": low * ratio**time,
        "shrinks": low * ratio ** (1 - time),
        "constant": np.full(scenario.steps, low),
        "bursts": np.where(rng.random(scenario.steps) < 0.15, scenario.high, low),
        "cycle": low * ratio ** (0.5 + 0.5 * np.sin(2 * np.pi * hours / 24)),
    }
    return kinds[scenario.traffic]


def separation(rng: np.random.Generator, scenario: Scenario) -> np.ndarray:
    """Return how far the classes' scores are apart in each step."""
    steps = np.arange(scenario.steps)
    apart = 2 - scenario.night * ((steps - scenario.steps) % 24 >= 16)
    apart = apart - scenario.drop * (steps >= scenario.place)
    if scenario.correlation:
        noise = rng.normal(size=scenario.steps)
        for step in range(1, scenario.steps):
            kept = scenario.correlation
            noise[step] = kept * noise[step - 1] + math.sqrt(1 - kept**2) * noise[step]
        apart = apart + 0.2 * noise
    return apart


def scores(rng: np.random.Generator, kind: str, apart: float, labels: np.ndarray) -> np.ndarray:
    """Return a score for each case."""
    if kind == "t3":
        return rng.standard_t(3, labels.size) + apart * labels
    normal = rng.normal(size=labels.size) + apart * labels
    if kind == "ties":
        return np.round(2 * normal) / 2
    return np.exp(normal) if kind == "lognormal" else normal


if __name__ == "__main__":
    main()
