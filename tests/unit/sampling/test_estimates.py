"""What drawn labels estimate: simulated windows against the population's known figures.

The constants of the draw were chosen on other populations and seeds (`bench/sampling.py`).
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from scipy.stats import norm

from streameval import Evaluator, LabelJoiner

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WINDOWS, PREDICTIONS, REVIEWED, DRAWN = 60, 4_000, 300, 700
SHIFT, PREVALENCE = 1.3, 0.2


def truth(metric: str) -> float:
    """Return the figure of two normal populations, by integration over the recall."""
    if metric == "auc_roc":
        return float(norm.cdf(SHIFT / math.sqrt(2)))
    recall = (np.arange(200_000) + 0.5) / 200_000
    false_rate = norm.sf(norm.isf(recall) + SHIFT)
    odds = (1 - PREVALENCE) / PREVALENCE
    return float(np.mean(recall / (recall + odds * false_rate)))


@pytest.mark.parametrize("metric", ["auc_roc", "average_precision"])
@pytest.mark.slow
def test_drawn_labels_are_unbiased_and_covered(metric: str) -> None:
    """The highest scores were reviewed, some of the rest are drawn: 60 windows.

    Figures of the reviewed cases are far off. With the drawn ones the mean error of the
    windows, from those of all labels, is within three standard errors, and the nominal 95 %
    interval holds the population's figure in at least 54 of 60 (its probability: 0.99).
    """
    known = truth(metric)
    errors, naive, held = [], [], 0
    for window in range(WINDOWS):
        rng = np.random.default_rng([88_001, window])
        labels = rng.random(PREDICTIONS) < PREVALENCE
        scores = rng.normal(SHIFT * labels)
        ids = np.array([f"w{window}-{row}" for row in range(PREDICTIONS)])
        ev = Evaluator()
        joiner = LabelJoiner(ev, ttl=timedelta(days=7))
        joiner.log_cases(ids=ids, scores=scores, at=NOON)
        reviewed = np.argsort(-scores)[:REVIEWED]
        joiner.label_cases(ids=ids[reviewed], labels=labels[reviewed], at=NOON)
        naive.append(ev.interval(metric).estimate - known)
        sample = joiner.sample_for_labels(size=DRAWN, metric=metric, seed=window)
        rows = np.array([int(id_.split("-")[1]) for id_ in sample.ids])
        joiner.label_cases(
            ids=sample.ids,
            labels=labels[rows],
            at=NOON + timedelta(days=1),
            label_probability=sample.label_probabilities,
        )
        every = Evaluator()
        every.add_cases(labels=labels, scores=scores)
        found = ev.interval(metric)
        errors.append(found.estimate - every.interval(metric).estimate)
        held += found.lower <= known <= found.upper
    assert abs(np.mean(errors)) < 3 * np.std(errors, ddof=1) / math.sqrt(WINDOWS)
    assert held >= 54
    assert abs(np.mean(naive)) > 5 * abs(np.mean(errors))
