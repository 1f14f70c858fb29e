"""How a cost grows: the exponent fitted on log-log axes, and the class that it may have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

GREATEST_EXPONENTS = {"O(1)": 0.25, "O(n)": 1.25, "O(n log n)": 1.35, "O(cells)": 1.25}
"""The greatest exponent that a class may have; of O(cells), for each that the cells have.

From 10^3 to 10^7 rows a logarithm adds 0.1. What is read once leaves the processor's caches on
the way, and fresh arrays are pages that the kernel clears: 0.1 to 0.2 more. The next class that
a program could have, n^1.5, is far above.
"""

_FLOOR_RATIO = 4.0
"""Costs below this multiple of the least are mostly what a call costs whatever its size."""

_MIN_POINTS = 3


@dataclass(frozen=True)
class Curve:
    """One cost by size.

    Attributes
    ----------
    name, unit : str
        What was measured, in seconds or bytes.
    expected : str
        The class that it may have, of `GREATEST_EXPONENTS`.
    costs : mapping of int to float
        By size.
    cells : mapping of int to int
        The cells that are held at each size, where that is its class.
    """

    name: str
    unit: str
    expected: str
    costs: Mapping[int, float] = field(default_factory=dict)
    cells: Mapping[int, int] = field(default_factory=dict)

    @property
    def exponent(self) -> float:
        """The exponent of the largest sizes; 0 of what costs nothing."""
        return fitted_exponent(list(self.costs), list(self.costs.values()))

    @property
    def is_above(self) -> bool:
        """Whether it grows faster than it may."""
        greatest = GREATEST_EXPONENTS[self.expected]
        if self.cells:
            cells = [float(each) for each in self.cells.values()]
            greatest *= fitted_exponent(list(self.cells), cells)
            greatest += GREATEST_EXPONENTS["O(1)"]
        return self.exponent > greatest


def fitted_exponent(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """Return the slope of log cost over log size, by least squares.

    Of the largest sizes whose cost is well above the least one, and at least three.
    """
    order = np.argsort(sizes)
    n, cost = np.array(sizes, dtype=float)[order], np.array(costs, dtype=float)[order]
    if cost.size < 2 or not (cost > 0).all():
        return 0.0
    beyond = cost >= _FLOOR_RATIO * cost.min()
    first = int(cost.size if not beyond[-1] else np.flatnonzero(~beyond)[-1] + 1)
    first = max(0, min(first, cost.size - _MIN_POINTS))
    return float(np.polyfit(np.log(n[first:]), np.log(cost[first:]), 1)[0])


def shown(cost: float, unit: str) -> str:
    """Return a cost with three digits, in ms or KB."""
    return f"{cost * 1e3:.3g}" if unit == "s" else f"{cost / 1024:.3g}"


def table(title: str, curves: Sequence[Curve], *, is_markdown: bool = False) -> str:
    """Return rows of costs, exponents and classes."""
    sizes = sorted({size for curve in curves for size in curve.costs})
    rows = [[title, *(f"{size:,}" for size in sizes), "exponent", "may be", ""]]
    for curve in curves:
        cells = [shown(curve.costs[n], curve.unit) if n in curve.costs else "" for n in sizes]
        verdict = "ABOVE" if curve.is_above else ""
        rows.append([curve.name, *cells, f"{curve.exponent:.2f}", curve.expected, verdict])
    if is_markdown:
        rows.insert(1, ["---"] * len(rows[0]))
        return "\n".join("| " + " | ".join(row) + " |" for row in rows)
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells]).rstrip())
    lines.insert(1, "-" * (sum(widths) + 2 * len(widths)))
    return "\n".join(lines)


def plot(title: str, curves: Sequence[Curve], path: Path) -> None:
    """Write a log-log picture of some curves, with a line of slope 1."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - only with --plots

    figure = Figure(figsize=(9, 6), layout="constrained")
    axes = figure.subplots()
    for curve in curves:
        sizes = sorted(curve.costs)
        costs = [curve.costs[size] * (1e3 if curve.unit == "s" else 1 / 1024) for size in sizes]
        axes.loglog(sizes, costs, marker=".", label=f"{curve.name} ({curve.exponent:.2f})")
    low, high = axes.get_xlim()
    bottom = axes.get_ylim()[0]
    axes.loglog([low, high], [bottom, bottom * high / low], "k:", linewidth=0.8, label="slope 1")
    axes.set_ylim(bottom=bottom)
    axes.set_xlabel("cases" if "streams" not in title else "streams")
    axes.set_ylabel("ms" if curves[0].unit == "s" else "KB")
    axes.set_title(title)
    axes.legend(fontsize=6, ncols=2)
    figure.savefig(path)
