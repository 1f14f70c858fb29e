"""The measurement of growth: its fit, and that no metric and no way to ask is left out."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from streameval.statistics import BY_NAME, Place

BENCH = Path(__file__).parents[2] / "bench"
SIZES = [10**power for power in range(3, 8)]


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Benchmarks import one another from their folder."""
    monkeypatch.syspath_prepend(str(BENCH))


@pytest.mark.parametrize(
    ("cost", "exponent"),
    [
        (lambda n: 3e-6 * n**0, 0.0),
        (lambda n: 2e-5 + 1e-9 * n, 1.0),
        (lambda n: 1e-4 + 1e-9 * n * math.log(n), 1.07),
        (lambda n: 1e-3 + 1e-12 * n**2, 2.0),
        (lambda n: 1e-5 * n**0.5, 0.5),
    ],
)
def test_the_exponent_is_that_of_the_largest_sizes(cost, exponent):
    """What a call costs whatever its size does not hide how it grows."""
    from growth_fit import Curve, fitted_exponent

    found = fitted_exponent(SIZES, [cost(size) for size in SIZES])
    assert found == pytest.approx(exponent, abs=0.1)
    verdicts = {
        expected: Curve("x", "s", expected, {size: cost(size) for size in SIZES}).is_above
        for expected in ("O(1)", "O(n)", "O(n log n)")
    }
    assert verdicts == {
        "O(1)": exponent > 0.25,
        "O(n)": exponent > 1.25,
        "O(n log n)": exponent > 1.35,
    }


def test_what_is_of_cells_may_grow_as_they_do():
    """Up to the cap on cells in proportion, and then not at all."""
    from growth_fit import Curve

    full = dict.fromkeys(SIZES, 16_384)
    growing = {size: size // 10 for size in SIZES}
    in_proportion = {size: 1e-8 * size for size in SIZES}
    assert not Curve("x", "s", "O(cells)", in_proportion, growing).is_above
    assert Curve("x", "s", "O(cells)", in_proportion, full).is_above
    assert not Curve("x", "s", "O(cells)", dict.fromkeys(SIZES, 0.01), full).is_above


def test_tables_and_pictures_show_what_is_above(tmp_path):
    """Costs in milliseconds and kilobytes, the exponent, the class, and the word ABOVE."""
    from growth_fit import Curve, plot, table

    curves = [
        Curve("line", "s", "O(n)", {size: 1e-6 * size for size in SIZES[:3]}),
        Curve("square", "s", "O(n)", {size: 1e-9 * size**2 for size in SIZES}),
    ]
    lines = table("ms", curves).splitlines()
    assert lines[0].split() == [
        *("ms", "1,000", "10,000", "100,000", "1,000,000", "10,000,000"),
        *("exponent", "may", "be"),
    ]
    assert lines[2].split() == ["line", "1", "10", "100", "1.00", "O(n)"]
    assert lines[3].split()[-3:] == ["2.00", "O(n)", "ABOVE"]
    assert table("ms", curves, is_markdown=True).splitlines()[1].startswith("| --- | ---")
    plot("ms", curves, tmp_path / "growth.svg")
    assert "square" in (tmp_path / "growth.svg").read_text()


def test_every_row_and_query_is_measured():
    """All of the registry's metrics, intervals, bounds and comparisons, and every kind of row."""
    from growth import measure
    from growth_queries import queries
    from growth_rows import ROWS
    from growth_subject import Subject

    groups = {"rows": ROWS, **dict(queries())}
    names = {group: [work.name for work in works] for group, works in groups.items()}
    assert names["metrics"] == list(BY_NAME)
    assert names["intervals"] == list(Place.INTERVAL.names())
    assert names["bounds"] == list(Place.BOUNDS.names())
    assert set(Place.COMPARISON.names()) <= set(names["comparisons"])
    subjects = [Subject(2_000), Subject(8_000)]
    for works in groups.values():
        curves = list(measure(works, subjects))
        assert len(curves) == 2 * len(works)
        for curve in curves:
            assert list(curve.costs) == [2_000, 8_000], curve
            assert curve.unit == "s" or min(curve.costs.values()) >= 0, curve


def test_the_core_of_a_server_is_measured(tmp_path, monkeypatch):
    """Each work has a cost with any number of streams, of which no process is left."""
    from growth_streams import EXPECTED, measured

    monkeypatch.chdir(tmp_path)
    costs = measured(12)
    assert set(costs) == set(EXPECTED)
    assert all(math.isfinite(each) for each in costs.values())
    assert list(tmp_path.iterdir()) == []
