"""Bands and residuals by look-up are those of each score; sums are those of each row's values."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from streameval import Evaluator
from streameval._counts.cell_layout import cell_keys
from streameval._drift.band_index import BandIndex
from streameval._drift.cell_residuals import MAX_TABLE_BITS, CellResiduals
from streameval._drift.watches import WatchRows, residual_units, side_values
from streameval.kernel import quantise
from streameval.statistics import (
    CellCases,
    DriftEngine,
    DriftRows,
    DriftSettings,
    FrozenReference,
    ReferenceCases,
    RowKind,
)

ALL = ("ranking", "auc_roc", "precision", "recall", "flagged", "calibration")


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
    settings = DriftSettings.of(
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
    engine = DriftEngine(
        settings, FrozenReference.of(ReferenceCases(reference._view()), segments, settings)
    )
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
                    one = WatchRows(
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


def probabilities(rng: np.random.Generator) -> np.ndarray:
    """Return scores of every kind: both ends to the last double, cells' edges and beside them."""
    plain = np.array([0.0, 5e-324, 2.0**-56, 2.0**-55, 0.5, 1 - 2.0**-53, 1 - 2.0**-52, 1.0])
    tiny = np.ldexp(rng.random(300), rng.integers(-80, 1, 300))
    edges = quantise(rng.random(300), 6, "probability")
    near = [np.nextafter(edges, 0), edges, np.nextafter(edges, 1)]
    return np.concatenate(
        [plain, np.nextafter(plain[1:], 0), tiny, 1 - tiny, rng.random(300), *near]
    )


@pytest.mark.parametrize("resolution", [1, 2, 7, 12, MAX_TABLE_BITS])
def test_residuals_of_cells_are_those_of_their_edges(resolution: int) -> None:
    rng = np.random.default_rng(resolution)
    scores = probabilities(rng)
    labels = rng.random(scores.size) < 0.5
    found = CellResiduals(resolution).of(cell_keys(scores, "probability"), labels)
    edges = quantise(scores, resolution, "probability")
    assert found.tolist() == residual_units(labels.astype(float), edges).tolist()


def engine_of(resolution: int, threshold: float) -> DriftEngine:
    """Return an engine with every watch and a reference at a resolution."""
    rng = np.random.default_rng(3)
    labels = rng.random(600) < 0.4
    reference = Evaluator(scale="probability", resolution=resolution)
    scores = 1 / (1 + np.exp(-4 * labels - 3 * rng.normal(size=600)))
    reference.add_cases(labels=labels, scores=scores)
    settings = DriftSettings.of(
        watch=ALL,
        tolerance=0.0,
        mean_time_to_false_alarm=timedelta(days=365),
        threshold=threshold,
        pane=timedelta(minutes=1),
        maturity=timedelta(0),
        clusters=True,
        scale="probability",
    )
    return DriftEngine(
        settings, FrozenReference.of(ReferenceCases(reference._view()), {}, settings)
    )


@pytest.mark.parametrize("resolution", [4, 12])
@pytest.mark.parametrize("counted", [False, True])
def test_cases_as_cells_have_the_sums_of_their_edges(resolution: int, counted: bool) -> None:
    """Of one pane or several, whether or not rows stand for several cases."""
    rng = np.random.default_rng(resolution)
    one, other = engine_of(resolution, 0.5), engine_of(resolution, 0.5)
    assert one.table.index_cells(resolution)
    scores = probabilities(rng)
    size = scores.size
    labels, groups = rng.random(size) < 0.5, rng.integers(0, 64, size)
    counts = rng.choice([1, 2, 1 << 16], size) if counted else None
    kinds = labels.astype(np.uint8) + np.uint8(RowKind.NEGATIVE_CASE)
    for panes in (7, rng.integers(5, 9, size)):
        cells = CellCases(labels, cell_keys(scores, "probability"), counts, groups)
        one.add_cells(cells, panes, [])
        edges = quantise(scores, resolution, "probability")
        other.add(DriftRows(kinds, edges, counts, groups), panes, [])
    for (pane, found), (same, wanted) in zip(one.panes.items(), other.panes.items(), strict=True):
        assert pane == same
        for column, like in zip(found, wanted, strict=True):
            assert column.tolist() == like.tolist()


def test_cells_are_not_read_where_edges_are_none_of_theirs() -> None:
    """Of a finer reference, of a threshold within a cell, of resolutions without a table."""
    engine = engine_of(12, 0.5)
    found = [engine.table.index_cells(bits) for bits in (12, 14, 11, 53, 0, -3)]
    assert found == [True, True, False, False, False, False]
    assert not engine_of(12, 0.3).table.index_cells(12)
    assert engine_of(12, float(quantise(np.array([0.3]), 12)[0])).table.index_cells(12)
