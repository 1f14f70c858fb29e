"""The frozen reference: values of cases, means and errors, against counts in fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from streameval import Evaluator
from streameval._drift.reference import (
    MAX_BANDS,
    Bands,
    Blocks,
    Cells,
    bands_of,
    cells_of_state,
    side_mean,
    theta_of,
)
from streameval._drift.watches import UNITS, WATCHES, Side, WatchRows, side_values

HALF_UNIT = Fraction(1, 2 * UNITS) + Fraction(1, 10**12)


def sample(seed: int, size: int = 400, levels: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Return labels and scores of few levels, each of which is a band of its own."""
    rng = np.random.default_rng(seed)
    labels = rng.random(size) < 0.3
    rises = np.sqrt(rng.random(size))
    scores = np.floor(levels * np.where(labels, rises, 1 - rises)) / levels
    return labels, scores


def cells(labels: np.ndarray, scores: np.ndarray) -> Cells:
    made = Evaluator()
    made.add_cases(labels=labels, scores=scores)
    return cells_of_state(made._view())


def exact_bands(labels: np.ndarray, scores: np.ndarray) -> Bands:
    """Return bands of which each holds one score."""
    found = bands_of(cells(labels, scores), 0.5)
    distinct = np.unique(scores)
    assert np.isin(distinct[1:], found.edges).all()
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_values_of_bands_are_counts_of_pairs(seed: int) -> None:
    """Ranks and precision of every case, one by one, in fractions."""
    labels, scores = sample(seed)
    bands = exact_bands(labels, scores)
    positives, negatives = scores[labels], scores[~labels]
    for score in np.unique(scores):
        band = bands.of(np.array([score]))[0]
        found = {key: Fraction(int(table[band]), UNITS) for key, table in bands.tables.items()}
        below, ties = int((negatives < score).sum()), int((negatives == score).sum())
        want = Fraction(2 * below + ties, 2 * negatives.size)
        assert abs(found["positives", "rank"] - want) <= HALF_UNIT
        above, ties = int((positives > score).sum()), int((positives == score).sum())
        want = Fraction(2 * above + ties, 2 * positives.size)
        assert abs(found["negatives", "rank"] - want) <= HALF_UNIT
        below, ties = int((scores < score).sum()), int((scores == score).sum())
        want = Fraction(2 * below + ties, 2 * scores.size)
        assert abs(found["predictions", "rank"] - want) <= HALF_UNIT
        called = scores >= score
        want = Fraction(int((called & labels).sum()), int(called.sum()))
        assert abs(found["positives", "precision"] - want) <= HALF_UNIT


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_loss_is_what_one_more_negative_takes_from_average_precision(seed: int) -> None:
    """Against a step of scikit-learn's weighted average precision in each score."""
    labels, scores = sample(seed)
    bands = exact_bands(labels, scores)
    distinct = np.unique(scores)
    step = 1e-4
    before = average_precision_score(labels, scores)
    losses = []
    for score in distinct:
        after = average_precision_score(
            np.append(labels, False),
            np.append(scores, score),
            sample_weight=np.append(np.ones(labels.size), step),
        )
        losses.append(before - after)
    want = 1 - np.array(losses) / max(losses)
    found = bands.tables["negatives", "loss"][bands.of(distinct)] / UNITS
    np.testing.assert_allclose(found, want, atol=2e-3)
    assert want.argmin() == want.size - 1


@pytest.mark.parametrize("seed", [4, 5])
def test_means_of_the_reference_are_its_metrics(seed: int) -> None:
    """AUC-ROC, average precision and the rates at the threshold, by scikit-learn and by count."""
    labels, scores = sample(seed, levels=16)
    bands = exact_bands(labels, scores)
    called = scores >= 0.5
    want = {
        "ranking": average_precision_score(labels, scores),
        "auc_roc": roc_auc_score(labels, scores),
        "precision": labels[called].mean(),
        "recall": called[labels].mean(),
        "flagged": called.mean(),
        "calibration": (labels - scores).mean(),
    }
    for name, watch in WATCHES.items():
        for place, side in enumerate(watch.sides):
            found = side_mean(side, cells(labels, scores), [], bands, 0.5)
            shown = side.shown(found.value)
            if name == "ranking" and place == 1:
                continue  # what negatives cost has no metric of its own: the test above
            assert shown == pytest.approx(want[name], abs=2 / UNITS), (name, place)


def test_the_error_is_that_of_independent_cases_or_of_blocks() -> None:
    """The variance of a mean, and of a ratio of sums over blocks, computed plainly."""
    labels, scores = sample(6, size=600)
    whole = cells(labels, scores)
    bands = bands_of(whole, 0.5)
    side = Side("positives", "rank")
    rows = WatchRows(labels, scores, bands.of(scores), is_prediction=True)
    counted, values = side_values(side, rows, 0.5, bands.tables)
    z = values[counted] / UNITS
    found = side_mean(side, whole, [], bands, 0.5)
    assert found.cases == z.size
    assert found.value == pytest.approx(z.mean(), abs=1e-12)
    unseen = z.mean() / (z.size + 1)
    assert found.error == pytest.approx(math.hypot(z.std() / math.sqrt(z.size), unseen))
    block_of = np.arange(600) // 20
    blocks = Blocks(Cells(labels, scores, np.ones(600, dtype=np.int64)), block_of)
    shift = np.where(block_of % 2, 0.0, 0.3)  # cases of a block are alike
    moved = Cells(labels, scores + shift, np.ones(600, dtype=np.int64))
    alike = side_mean(side, moved, [Blocks(moved, block_of)], bands, 0.5)
    alone = side_mean(side, moved, [], bands, 0.5)
    assert side_mean(side, whole, [blocks], bands, 0.5).error >= found.error
    rows = WatchRows(labels, moved.scores, bands.of(moved.scores), is_prediction=True)
    _, values = side_values(side, rows, 0.5, bands.tables)
    residuals = [
        (values[chosen] / UNITS - alike.value).sum()
        for chosen in (labels & (block_of == block) for block in range(30))
    ]
    plain = math.sqrt(30 / 29 * np.square(residuals).sum()) / labels.sum()
    assert alike.error > 1.2 * alone.error
    assert alike.error == pytest.approx(math.hypot(plain, alike.value / (alike.cases + 1)))


def test_bands_are_few_and_one_ends_at_the_threshold() -> None:
    """Of any scores; a case at the threshold is flagged."""
    rng = np.random.default_rng(8)
    labels, scores = rng.random(5_000) < 0.3, rng.normal(size=5_000)
    for threshold in (0.123, math.inf):
        bands = bands_of(cells(labels, scores), threshold)
        assert bands.edges.size < MAX_BANDS
        assert (threshold in bands.edges) == math.isfinite(threshold)
    constant = bands_of(cells(labels, np.zeros(5_000)), math.inf)
    assert set(constant.tables["positives", "rank"].tolist()) <= {0, 32768, UNITS}


def test_theta_is_below_the_mean_by_two_errors_and_the_tolerance() -> None:
    """And 0, so that nothing is watched, of few cases or where none could be lower."""
    labels, scores = sample(9)
    whole = cells(labels, scores)
    mean = side_mean(Side("positives", "rank"), whole, [], bands_of(whole, 0.5), 0.5)
    assert theta_of(mean, 0.03) == pytest.approx(mean.value - 2 * mean.error - 0.03)
    assert theta_of(mean._replace(cases=29), 0.03) == 0
    assert theta_of(mean, 0.99) == 0
