"""Label delays of one pane: counts by brute force, sums in any order, bytes."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from streameval import CorruptStateError
from streameval._projection.delay_counts import BUCKET_EDGES_US, CELL_BITS, NUM_BUCKETS
from streameval.kernel import Effect, quantise
from streameval.statistics import DelayCounts, DelayRows


def lives(seed: int, number: int = 60) -> list[tuple[int, float, int]]:
    """Return the effects of predictions, each with a possible life."""
    rng = random.Random(seed)
    rows = []
    for _ in range(number):
        score, delay = rng.choice([0.1, 0.5, 0.503, 0.9, 0.99]), rng.randrange(10**13)
        rows.append((Effect.PREDICTED, score, 0))
        end = rng.randrange(6)
        if end in (1, 3, 4):
            rows.append((Effect.LABELLED_POSITIVE, score, delay))
        if end in (3, 4):
            rows.append((Effect.UNLABELLED_POSITIVE, score, delay + rng.randrange(10**12)))
        if end == 4:
            rows.append((Effect.RETRACTED, score, delay + 10**12))
        if end == 2:
            rows.append((Effect.EXPIRED_NEGATIVE, score, 10**12))
        if end == 5:
            rows.append((Effect.LABELLED_NEGATIVE, score, delay))
    return rows


def counted(rows: list[tuple[int, float, int]]) -> DelayCounts:
    """Return the counts of effects."""
    counts = DelayCounts("probability")
    kinds, scores, delays = zip(*rows, strict=True)
    counts.add(np.array(kinds, dtype=np.uint8), np.array(scores), np.array(delays))
    return counts


def bucket_of(delay_us: int) -> int:
    """Return the quarter octave of a delay, in exact integers: (delay/1 s)^4 against 2^b."""
    if delay_us < 10**6:
        return 0
    power = Fraction(delay_us, 10**6) ** 4
    return max(b for b in range(NUM_BUCKETS - 1) if 2**b <= power) + 1


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_those_of_brute_force(seed: int) -> None:
    """Each cell, class and bucket counts its effects, with their signs."""
    rows = lives(seed)
    expected: Counter[tuple[float, int]] = Counter()
    for kind, score, delay in rows:
        cell = float(quantise(np.array([score]), CELL_BITS, "probability")[0])
        if kind in (Effect.PREDICTED, Effect.RETRACTED):
            expected[cell, 0] += 1 if kind == Effect.PREDICTED else -1
        else:
            positive = kind in (Effect.LABELLED_POSITIVE, Effect.UNLABELLED_POSITIVE)
            slot = 1 + 2 * bucket_of(delay) + positive
            expected[cell, slot] += -1 if kind == Effect.UNLABELLED_POSITIVE else 1
    found = counted(rows).rows()
    keys = zip(found.cells.tolist(), found.slots.tolist(), strict=True)
    assert dict(zip(keys, found.counts.tolist(), strict=True)) == {
        key: count for key, count in sorted(expected.items()) if count
    }
    assert counted(rows).is_consistent()


def test_edges_of_buckets_are_quarters_of_an_octave() -> None:
    """Edges are the integer parts of 1 s times 2^(b/4)."""
    for bucket, edge in enumerate(BUCKET_EDGES_US[1:].tolist()):
        assert edge**4 <= 10**24 << bucket < (edge + 1) ** 4


@pytest.mark.parametrize("seed", range(5))
def test_merging_is_adding_in_any_order(seed: int) -> None:
    """The sum of parts, in any order and grouping, has the bytes of the whole."""
    rng = random.Random(seed)
    rows = lives(seed, 40)
    whole = counted(rows)
    rng.shuffle(rows)
    cuts = sorted(rng.sample(range(1, len(rows)), 2))
    parts = [counted(rows[a:b]) for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    left, right = DelayCounts("probability"), DelayCounts("probability")
    left.merge(*parts)
    for part in reversed(parts):
        right.merge(part)
    assert left == right == whole
    before = parts[0].to_bytes()
    assert parts[0].copy() == parts[0]
    assert parts[0].to_bytes() == before


def test_bytes_round_trip_and_refuse_alterations() -> None:
    """Bytes give the same counts; bytes that no counts have are refused."""
    counts = counted(lives(9))
    data = counts.to_bytes()
    assert DelayCounts.from_bytes(data, "probability") == counts
    assert DelayCounts.from_bytes(DelayCounts().to_bytes()).rows().counts.size == 0
    for at in range(0, len(data), 97):
        altered = bytearray(data)
        altered[at] ^= 1
        with pytest.raises(CorruptStateError):
            DelayCounts.from_bytes(altered, "probability")
    with pytest.raises(CorruptStateError):
        DelayCounts.from_bytes(data[:-1], "probability")


def test_more_labels_than_predictions_are_refused() -> None:
    """Bytes with a sound frame whose counts contradict one another are refused."""
    counts = counted([(Effect.LABELLED_POSITIVE, 0.5, 5)])
    with pytest.raises(CorruptStateError, match="contradict"):
        DelayCounts.from_bytes(counts.to_bytes(), "probability")


def test_sums_are_in_order_of_cells_of_any_size() -> None:
    """Rows of negative, tiny, large and equal cells come in the order of cells, then slots."""
    rng = np.random.default_rng(11)
    scores = rng.normal(size=400) * 10.0 ** rng.integers(-300, 300, 400)
    cells = quantise(np.concatenate((scores, scores[:50], [0.0, -0.0, 5e-324])), CELL_BITS, "plain")
    slots = rng.integers(0, 2 * NUM_BUCKETS + 1, cells.size).astype(np.uint16)
    summed = DelayRows.sum_of([DelayRows(cells, slots, np.ones(cells.size, dtype=np.int64))])
    expected = Counter(zip(cells.tolist(), slots.tolist(), strict=True))
    rows = zip(summed.cells.tolist(), summed.slots.tolist(), summed.counts.tolist(), strict=True)
    assert list(rows) == [(*row, count) for row, count in sorted(expected.items())]


def test_the_wait_is_of_the_later_class_though_young_panes_lack_labels() -> None:
    """Of each hour of ten days, what has come by now is known: long delays of old hours alone."""
    rng = np.random.default_rng(8)
    hour_us, means_us = 3_600_000_000, (2 * 3_600_000_000, 16 * 3_600_000_000)
    panes = []
    for age in range(240):
        counts = DelayCounts("probability")
        for label, size in ((False, 40), (True, 10)):
            delays = rng.exponential(means_us[label], size).astype(np.int64)
            came = delays[delays < (age + rng.random(size)) * hour_us]
            kinds = np.full(came.size, Effect.LABELLED_NEGATIVE + label, dtype=np.uint8)
            counts.add(kinds, rng.random(came.size), came)
        panes.append((age * hour_us, counts.parts))
    true_us = -np.log(0.1) * means_us[True]
    assert 0.9 * true_us < DelayRows.wait_us(panes, 0.9) < 1.2 * true_us
    assert DelayRows.wait_us(panes[:9], 0.9) < true_us  # nothing older is known yet
    assert DelayRows.wait_us(panes[:0], 0.9) == 0
    assert DelayRows.wait_us([(hour_us, ())], 0.9) == 0
