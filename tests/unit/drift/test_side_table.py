"""Bands by look-up are those of a search; sums of all sides are those of each row's values."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from streameval import Evaluator
from streameval._drift import (
    DriftEngine,
    DriftRows,
    ReferenceCases,
    RowKind,
    check_settings,
    freeze,
)
from streameval._drift.band_index import BandIndex
from streameval._drift.watches import Rows, side_values

ALL = ("ranking", "placement", "precision", "recall", "flagged", "calibration")


def edges_of(rng: np.random.Generator, case: int) -> np.ndarray:
    """Return edges of every kind: probabilities, signs, whole numbers, one exponent, none."""
    number = int(rng.integers(1, 64))
    made = [
        rng.random(number),
        rng.random(number) ** 40,
        rng.normal(size=number),
        rng.integers(-5, 5, number).astype(float),
        1 - rng.random(number) ** 20,
        np.ldexp(rng.normal(size=number), rng.integers(-1060, 1020, number)),
        np.empty(0),
        np.array([0.0]),
        np.array([-0.0, 5e-324, 1e308]),
        np.nextafter(0.5, 1) + np.arange(number) * 2.0**-53,
    ]
    return np.unique(made[case] + 0.0)


@pytest.mark.parametrize("case", range(10))
@pytest.mark.parametrize("seed", range(4))
def test_bands_are_those_of_a_search(case: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    edges = edges_of(rng, case)
    near = np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)])
    far = np.ldexp(rng.normal(size=200), rng.integers(-1070, 1020, 200))
    plain = np.array([0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, 1.7e308, -1.7e308])
    scores = np.concatenate([near, far, plain, rng.random(200)])
    found = BandIndex(edges).of(scores)
    assert found.tolist() == np.searchsorted(edges, scores, side="right").tolist()


@pytest.mark.parametrize("seed", range(3))
def test_sums_are_those_of_each_row(seed: int) -> None:
    """Of rows of every kind, some counted several times and some taken back, by pane and part."""
    rng = np.random.default_rng(seed)
    labels = rng.random(400) < 0.4
    scores = np.round(1 / (1 + np.exp(-2 * labels - rng.normal(size=400))), 2)
    reference = Evaluator(scale="probability", resolution=12)
    reference.add_cases(labels=labels, scores=scores)
    settings = check_settings(
        watch=ALL,
        tolerance=0.01,
        mean_time_to_false_alarm=timedelta(days=365),
        threshold=0.5,
        pane=timedelta(minutes=1),
        maturity=timedelta(0),
        clusters=True,
        scale="probability",
    )
    part = Evaluator(scale="probability", resolution=12)
    part.add_cases(labels=labels[:200], scores=scores[:200])
    segments = {f"k={name}": ReferenceCases(part._view()) for name in "ab"}
    engine = DriftEngine(settings, freeze(ReferenceCases(reference._view()), segments, settings))
    rows = DriftRows(
        rng.integers(0, len(RowKind), 300).astype(np.uint8),
        rng.choice(scores, 300),
        rng.choice([1, 1, 3, -1], 300),
        rng.integers(0, 64, 300),
    )
    panes, parts = rng.integers(5, 9, 300), rng.integers(-1, 3, 300)
    engine.add(rows, panes, [np.where(parts == 0, -1, parts)])
    found = dict(engine.panes.items())
    assert sorted(found) == [5, 6, 7, 8]
    bands, tables = engine.frozen.bands.of(rows.scores), engine.frozen.bands.tables
    for pane, sums in found.items():
        for which in range(3):
            chosen = (panes == pane) & ((parts == which) if which else True)
            for place, side in enumerate(settings.sides):
                total = count = 0
                groups: dict[int, int] = {}
                for row in np.flatnonzero(chosen):
                    kind = rows.kinds[row]
                    is_labelled = kind != RowKind.PREDICTION
                    label = np.array([kind in {RowKind.POSITIVE, RowKind.POSITIVE_CASE}])
                    one = Rows(
                        label if is_labelled else None,
                        rows.scores[[row]],
                        bands[[row]],
                        kind not in {RowKind.POSITIVE, RowKind.NEGATIVE},
                    )
                    counted, values = side_values(side, one, 0.5, tables)
                    times = int(rows.counts[row]) * int(counted[0])
                    total, count = total + times * int(values[0]), count + times
                    group = int(rows.groups[row])
                    groups[group] = groups.get(group, 0) + times
                assert sums.sums[which, place] == total, (side, which)
                assert sums.counts[which, place] == count, (side, which)
                bits = sum(1 << group for group, times in groups.items() if times > 0)
                assert int(sums.groups[which, place]) == bits, (side, which)
