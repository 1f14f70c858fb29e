"""After every prefix of a stream the live metrics equal the batch answers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from streameval import Evaluator


def brute_auc_roc(rows: list[tuple[bool, float]]) -> Fraction | None:
    """Compare all pairs; a tie is half a pair."""
    positives = [score for label, score in rows if label]
    negatives = [score for label, score in rows if not label]
    if not positives or not negatives:
        return None
    won = sum(2 * (a > b) + (a == b) for a in positives for b in negatives)
    return Fraction(won, 2 * len(positives) * len(negatives))


def brute_average_precision(rows: list[tuple[bool, float]]) -> Fraction | None:
    """Sum precision over the positives, each at the end of its tie."""
    positives = [score for label, score in rows if label]
    if not positives:
        return None
    total = Fraction(0)
    for score in positives:
        called = [label for label, other in rows if other >= score]
        total += Fraction(sum(called), len(called))
    return total / len(positives)


def stream(seed: int, size: int, digits: int) -> list[tuple[bool, float]]:
    """Return labelled scores; fewer digits make more ties."""
    rng = np.random.default_rng(seed)
    labels = rng.random(size) < 0.3
    scores = np.round(rng.normal(size=size) + labels, digits)
    return list(zip(labels.tolist(), scores.tolist()))


@pytest.mark.parametrize(("seed", "digits"), [(0, 0), (1, 1), (2, 9)])
def test_every_prefix_equals_brute_force(seed, digits):
    """AUC-ROC and AP after each case equal exact fractions to the last bits."""
    rows = stream(seed, 90, digits)
    ev = Evaluator()
    for length, (label, score) in enumerate(rows, start=1):
        ev.add_case(label, score)
        for got, want in (
            (ev.auc_roc(), brute_auc_roc(rows[:length])),
            (ev.average_precision(), brute_average_precision(rows[:length])),
        ):
            if want is None:
                assert np.isnan(got)
            else:
                assert got == pytest.approx(float(want), rel=1e-14, abs=1e-15)


@pytest.mark.parametrize(("seed", "digits"), [(3, 1), (4, 9)])
def test_a_sliding_window_equals_brute_force(seed, digits):
    """Adding at one end and removing at the other accumulates no error."""
    rows = stream(seed, 150, digits)
    ev = Evaluator()
    for end, row in enumerate(rows, start=1):
        ev.add_case(*row)
        if end > 40:
            ev.remove_case(*rows[end - 41])
        if end % 3:
            continue
        window = rows[max(0, end - 40) : end]
        for got, want in (
            (ev.auc_roc(), brute_auc_roc(window)),
            (ev.average_precision(), brute_average_precision(window)),
        ):
            assert np.isnan(got) if want is None else got == pytest.approx(float(want), rel=1e-14)


@pytest.mark.parametrize("distribution", ["smooth", "tied", "skewed", "float32", "constant"])
@pytest.mark.parametrize("prevalence", [0.5, 0.02])
def test_growing_streams_equal_scikit_learn(distribution, prevalence):
    """Batch after batch, small merged into large, the metrics are scikit-learn's."""
    rng = np.random.default_rng(len(distribution))
    ev = Evaluator()
    labels, scores = np.zeros(0, dtype=bool), np.zeros(0)
    for size in (3, 2000, 1, 50, 7, 5000, 20):
        some = rng.random(size) < prevalence
        drawn = rng.normal(size=size) + some
        drawn = {
            "smooth": drawn,
            "tied": np.round(drawn, 1),
            "skewed": np.exp(8 * drawn),
            "float32": drawn.astype(np.float32).astype(float),
            "constant": np.ones(size),
        }[distribution]
        ev.add_cases(labels=some, scores=drawn)
        labels, scores = np.append(labels, some), np.append(scores, drawn)
        ev._check()
        if labels.any() and not labels.all():
            assert ev.auc_roc() == pytest.approx(roc_auc_score(labels, scores), rel=1e-12)
            want = average_precision_score(labels, scores)
            assert ev.average_precision() == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("total", [2**20, 2**31 - 1, 2**31 + 11, 2**45])
def test_counts_near_and_above_32_bits_are_exact(total):
    """The pair count of huge counts equals that of Python integers."""
    counts = [total, total - 3, 7, total // 3]
    scores, labels = [0.1, 0.2, 0.2, 0.3], [1, 0, 1, 0]
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=scores, counts=counts)
    positives = [(s, c) for label, s, c in zip(labels, scores, counts) if label]
    negatives = [(s, c) for label, s, c in zip(labels, scores, counts) if not label]
    won = sum(c * d * (2 * (s > t) + (s == t)) for s, c in positives for t, d in negatives)
    pairs = sum(c for _, c in positives) * sum(d for _, d in negatives)
    assert ev.auc_roc() == float(Fraction(won, 2 * pairs))
    assert ev.roc_hull().tp[-1] == sum(c for _, c in positives)
