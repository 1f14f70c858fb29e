"""Draws of ids: fixed sizes, equal chances, order and seeds; unbiasedness in exact fractions."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from streameval import (
    Evaluator,
    InvalidInputError,
    LabelJoiner,
    LabelSample,
    WindowedEvaluator,
    allocate_labels,
)
from streameval._sampling.draw import draw_rows

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def pilot() -> Evaluator:
    ev = Evaluator()
    ev.add_cases(labels=[1, 1, 0, 0, 1, 0], scores=[0.9, 0.7, 0.6, 0.2, 0.4, 0.1])
    return ev


@pytest.mark.parametrize("metric", ["auc_roc", "auc_pr", "average_precision", "brier_score"])
def test_weighted_counts_are_unbiased_in_exact_fractions(metric: str) -> None:
    """Over all samples that can be drawn, the mean weighted count of each case is 1.

    So the sums that every metric reads, of each class at each score, are those of all labels.
    All subsets of the drawn size of a band are equally likely: the next test.
    """
    scores = np.array([0.05, 0.1, 0.3, 0.35, 0.5, 0.5, 0.65, 0.7, 0.8, 0.95] * 2)
    found = allocate_labels(pilot(), scores=scores, size=16, metric=metric)
    assert len(found.bands) == 2
    mean = [Fraction(0)] * scores.size
    for band in found.bands:
        rows = np.flatnonzero((scores >= band.lower) & (scores < band.upper)).tolist()
        samples = list(itertools.combinations(rows, band.to_label))
        weight = Fraction(band.waiting, band.to_label)
        for sample in samples:
            for row in sample:
                mean[row] += weight / len(samples)
        assert math.isclose(1 / weight, band.label_probability, rel_tol=1e-15)
    assert mean == [1] * scores.size


def test_each_subset_of_a_band_is_equally_likely() -> None:
    """Chi-square of 6,000 seeds over the 10 pairs of 5 ids, and over the pairs of two bands."""
    ids = np.array([b"a", b"b", b"c", b"d", b"e", b"x", b"y", b"z"])
    bands = np.array([0, 0, 0, 0, 0, 1, 1, 1], dtype=np.int8)
    seen = Counter(
        tuple(sorted(draw_rows(ids.__getitem__, bands, np.array([2, 1]), seed).tolist()))
        for seed in range(6_000)
    )
    assert len(seen) == 30
    # 29 degrees of freedom: 52.3 has the probability 0.005.
    assert sum((count - 200) ** 2 / 200 for count in seen.values()) < 52.3


def test_the_order_of_a_sample_tells_nothing_of_the_band() -> None:
    """The ids of a rare band are spread over the whole sample."""
    rng = np.random.default_rng(3)
    scores = rng.normal(size=20_000)
    bands = (scores > 2.0).astype(np.int8)
    ids = np.array([str(row).encode() for row in range(scores.size)])
    rows = draw_rows(ids.__getitem__, bands, np.array([300, 300]), 1)
    ranks = np.flatnonzero(bands[rows] == 1)
    # The mean rank of 300 of 600 at random: 299.5, with a standard error of 7.1.
    assert abs(ranks.mean() - 299.5) < 3 * 7.1


def test_a_draw_depends_on_ids_and_seed_alone() -> None:
    """Not on the order of the ids; another seed draws others; a drawn id has its probability."""
    rng = np.random.default_rng(2)
    scores = rng.random(500)
    ids = np.array([f"order-{row}" for row in range(500)])
    found = allocate_labels(pilot(), scores=scores, size=60)
    first = found.draw(ids=ids, scores=scores, seed=11)
    order = rng.permutation(500)
    again = found.draw(ids=ids[order], scores=scores[order], seed=11)
    assert first.ids == again.ids
    assert (first.label_probabilities == again.label_probabilities).all()
    assert len(first) == len(set(first.ids)) == 60
    other = found.draw(ids=ids, scores=scores, seed=12)
    assert set(other.ids) != set(first.ids)
    place = dict(zip(ids, scores, strict=True))
    for id_, probability in zip(first.ids, first.label_probabilities, strict=True):
        band = next(each for each in found.bands if each.lower <= place[id_] < each.upper)
        assert probability == band.label_probability


def test_ids_may_be_asked_for_in_parts() -> None:
    """A callable gives a part of the ids at a time; the draw is the same, and checks them too."""
    scores = np.random.default_rng(2).random(150_000)
    ids = np.array([f"order-{row}" for row in range(scores.size)])
    found = allocate_labels(pilot(), scores=scores, size=60)
    sizes = []

    def ids_of(rows: np.ndarray) -> list[str]:
        sizes.append(rows.size)
        return ids[rows].tolist()

    assert found.draw(ids=ids_of, scores=scores, seed=11).ids == (
        found.draw(ids=ids, scores=scores, seed=11).ids
    )
    assert max(sizes) <= 65_536
    with pytest.raises(InvalidInputError, match="an id comes twice"):
        found.draw(ids=lambda rows: ids[rows % 149_999].tolist(), scores=scores)
    with pytest.raises(InvalidInputError, match="ids must have 1 to 128 bytes"):
        found.draw(ids=lambda rows: [""] * rows.size, scores=scores)


def test_ids_do_not_show_in_a_representation() -> None:
    """A log line of a sample has no ids."""
    sample = allocate_labels(Evaluator(), scores=[0.5], size=1).draw(ids=["secret"], scores=[0.5])
    assert isinstance(sample, LabelSample)
    assert "secret" not in repr(sample)
    assert "secret" not in str(sample)
    sample = allocate_labels(Evaluator(), scores=[0.5], size=1).draw(ids=[b"\xff"], scores=[0.5])
    assert sample.ids == (b"\xff",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ids": ["a", "a", "c"]}, "an id comes twice: each waits once"),
        ({"ids": ["a", "b"]}, "scores must have one row for each of ids, got 3 rows and 2"),
        ({"scores": [0.1, 0.2, 0.3]}, ""),
        (
            {"ids": ["a", "b"], "scores": [0.1, 0.2]},
            "the labels were allocated to 3 predictions, and these 2 scores are of others",
        ),
        ({"seed": -1}, "seed must be an integer from 0 to 2^64 - 1, got -1"),
        ({"seed": 2**64}, "seed must be an integer from 0 to 2^64 - 1, got 1844674407"),
        ({"seed": 0.5}, "seed must be an integer from 0 to 2^64 - 1, got 0.5"),
        ({"seed": True}, "seed must be an integer from 0 to 2^64 - 1, got True"),
    ],
)
def test_wrong_draws(arguments: dict[str, Any], message: str) -> None:
    found = allocate_labels(Evaluator(), scores=[0.1, 0.5, 0.9], size=1)
    given = {"ids": ["a", "b", "c"], "scores": [0.1, 0.5, 0.9], **arguments}
    if not message:  # other scores of the same bands are taken
        assert len(found.draw(**given)) == 1
        return
    with pytest.raises(InvalidInputError) as error:
        found.draw(**given)
    assert str(error.value).startswith(message)


def joined(order: np.random.Generator | None = None) -> tuple[LabelJoiner, np.ndarray, np.ndarray]:
    """Return a joiner of 900 predictions of three hours, 200 labelled; with all labels."""
    rng = np.random.default_rng(4)
    labels = rng.random(900) < 0.3
    scores = rng.normal(1.5 * labels)
    rows = np.arange(900) if order is None else order.permutation(900)
    joiner = LabelJoiner(WindowedEvaluator(pane=timedelta(minutes=30)), ttl=timedelta(days=7))
    ids = np.array([f"p{row}" for row in range(900)])
    times = [NOON + timedelta(hours=row // 300) for row in rows.tolist()]
    joiner.log_cases(ids=ids[rows], scores=scores[rows], at=times)
    known = rows[rows % 9 < 2]
    joiner.label_cases(ids=ids[known], labels=labels[known], at=NOON + timedelta(hours=4))
    return joiner, labels, scores


def test_a_joiner_draws_what_waits_in_its_window() -> None:
    """Only ids of the window that have no label; in any order of arrival the same."""
    joiner, labels, scores = joined()
    hour = joiner.evaluator.between(NOON + timedelta(hours=1), NOON + timedelta(hours=2))
    sample = joiner.sample_for_labels(hour, size=50, seed=3)
    rows = [int(id_[1:]) for id_ in sample.ids]
    assert all(300 <= row < 600 and row % 9 >= 2 for row in rows)
    assert sample.allocation.waiting == sum(row % 9 >= 2 for row in range(300, 600))
    shuffled = joined(np.random.default_rng(1))[0]
    again = shuffled.evaluator.between(NOON + timedelta(hours=1), NOON + timedelta(hours=2))
    assert shuffled.sample_for_labels(again, size=50, seed=3).ids == sample.ids
    whole = joiner.sample_for_labels(size=700, seed=3)
    assert {int(id_[1:]) for id_ in whole.ids} == {row for row in range(900) if row % 9 >= 2}
    assert (whole.label_probabilities == 1).all()
    assert labels.size == scores.size


def test_the_labels_come_back_with_their_probabilities() -> None:
    """The round trip: draw, label with the probabilities, read the window."""
    joiner, labels, scores = joined()
    sample = joiner.sample_for_labels(size=200, seed=5, metric="auc_roc")
    rows = np.array([int(id_[1:]) for id_ in sample.ids])
    joiner.label_cases(
        ids=sample.ids,
        labels=labels[rows],
        at=NOON + timedelta(hours=5),
        label_probability=sample.label_probabilities,
    )
    window = joiner.evaluator.between(NOON, NOON + timedelta(hours=3))
    weights = window.weights
    assert weights is not None
    # The known ones, and each band's drawn ones standing for all of it.
    assert math.isclose(weights.positives + weights.negatives, 900, rel_tol=1e-4)
    whole = Evaluator()
    whole.add_cases(labels=labels, scores=scores)
    interval = window.interval("auc_roc")
    assert interval.lower < whole.auc_roc() < interval.upper
    assert joiner.coverage().labelled == 200 + 200


def test_a_plain_evaluator_and_wrong_windows() -> None:
    plain = LabelJoiner(Evaluator(), ttl=timedelta(days=1))
    plain.log_cases(ids=["a", "b"], scores=[0.3, 0.6], at=NOON)
    assert set(plain.sample_for_labels(size=2).ids) == {"a", "b"}
    joiner, *_ = joined()
    ev = joiner.evaluator
    decayed = ev.decayed(timedelta(hours=1))
    for each, window in ((plain, ev.last(timedelta(hours=1))), (joiner, decayed)):
        with pytest.raises(InvalidInputError, match="labels are drawn for an undecayed window"):
            each.sample_for_labels(window, size=1)
    with pytest.raises(InvalidInputError, match="no prediction waits"):
        LabelJoiner(Evaluator(), ttl=timedelta(days=1)).sample_for_labels(size=1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"expired": "negative"}, "predictions that expire count as negatives, although"),
        (
            {"orphans": "miss"},
            "with orphans='miss' there are no weights and no label probabilities",
        ),
        ({"keep_delays": True}, "a joiner that keeps delays takes no weights and no label prob"),
    ],
)
def test_no_draw_whose_labels_could_not_stand_for_the_others(
    settings: dict[str, Any], message: str
) -> None:
    """Where probabilities are refused, or where those that are not drawn would count too."""
    joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=7), **settings)
    joiner.log_cases(ids=["a", "b"], scores=[0.3, 0.6], at=NOON)
    with pytest.raises(InvalidInputError, match=message):
        joiner.sample_for_labels(size=1)
