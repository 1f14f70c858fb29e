"""Small charts: all charts of one list have one scale, and a gap is bridged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from .conftest import Served

DRAW = """async ([series, options]) => {
  const { scaleOf, sparkline } = await import(new URL("static/sparkline.js", location.origin));
  const all = series.map((values) => values.map((value) => value ?? undefined));
  const scale = scaleOf(all, [options.band]);
  const shape = (each) => [each.getAttribute("class") ?? each.localName,
    each.getAttribute("points") ?? each.getAttribute("y")];
  return all.map((values) => {
    const drawn = sparkline(values, { ...options, scale });
    return drawn && [...drawn.children].map(shape);
  });
}"""


def drawn(page: Page, served: Served, series: list[list[float | None]], **options: object) -> list:
    """Return what is drawn of each series: [class or tag, points or y]."""
    page.goto(served.url())
    return page.evaluate(DRAW, [series, options])


def heights(points: str) -> list[float]:
    return [float(each.split(",")[1]) for each in points.split()]


def test_small_charts_have_one_scale(page: Page, served: Served) -> None:
    """The same value is at the same height, and a smaller change is a smaller one."""
    (_, fell), (_, wavered) = (
        next(each for each in one if each[0] == "polyline")
        for one in drawn(page, served, [[0.9, 0.9, 0.5], [0.6, 0.58, 0.6]])
    )
    assert heights(fell)[0] == 3  # the greatest of all values
    assert heights(fell)[2] == 21  # the least one
    small, large = (max(heights(each)) - min(heights(each)) for each in (wavered, fell))
    assert small / large == pytest.approx(0.05, abs=0.01)


def test_values_that_hardly_differ_are_not_stretched(page: Page, served: Served) -> None:
    """The scale spans at least 0.1."""
    ((_, points), _) = drawn(page, served, [[0.50, 0.51]])[0]
    assert heights(points)[0] - heights(points)[1] == pytest.approx(1.8, abs=0.1)


def test_a_gap_is_bridged(page: Page, served: Served) -> None:
    """By a line that can be told from a measured one; a value between two gaps is a point."""
    kinds = [kind for kind, _ in drawn(page, served, [[0.5, 0.6, None, 0.7, None, 0.6, 0.5]])[0]]
    assert kinds == ["polyline", "gap", "lone", "gap", "polyline", "circle"]
    assert drawn(page, served, [[None, 0.5]]) == [None]


def test_the_band_of_the_base_is_behind(page: Page, served: Served) -> None:
    """It is on the scale, which includes it."""
    band = {"lower": 0.7, "upper": 0.8}
    ((kind, top), line, _) = drawn(page, served, [[0.5, 0.6]], band=band)[0]
    assert (kind, float(top)) == ("base", 3)
    assert heights(line[1])[0] == 21
    ((_, points), _) = drawn(page, served, [[0.5, 0.6]], places=[0.5, 1])[0]
    assert points.startswith("50.0,")
