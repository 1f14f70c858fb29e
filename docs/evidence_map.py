"""Draw the picture of docs/evidence-map.md, and print its table.

``python docs/evidence_map.py truth-map.csv`` reads what ``python bench/truth.py map`` wrote.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from pictures import BLUE, GREY, IMAGES, ORANGE, RED, STYLE

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
from map_cells import MAX_WIDTH, MIN_COVERAGE, MIN_EFFECTIVE
from truth_map import findings, read_rows, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from map_cells import Row
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS: dict[str, Callable[[Row], bool]] = {
    "AUC-ROC": lambda row: row.part == "areas" and row.figure == "auc_roc",
    "AP, AUC-PR": lambda row: row.part == "areas" and row.figure in {"average_precision", "auc_pr"},
    "AUC-PR, rescaled": lambda row: row.part == "areas" and "@" in row.figure,
    "rates, costs, calibration": lambda row: row.part in {"rates", "calibration"},
    "clusters": lambda row: row.part == "clusters",
    "weights": lambda row: row.part in {"weights", "samples"},
    "differences of streams": lambda row: row.part == "differences",
    "pairs, falls": lambda row: row.part.startswith("pairs") or row.part == "falls",
    "projections": lambda row: row.part == "projections",
}
LOWEST, WIDEST = 0.85, 3.0


def draw(rows: list[Row]) -> Figure:
    """Draw coverage and width of every cell, by the effective cases of the scarcer class."""
    figure, axes = plt.subplots(6, 3, figsize=(11, 15), layout="constrained")
    for place, (title, is_shown) in enumerate(PANELS.items()):
        top, column = 2 * (place // 3), place % 3
        shown = [row for row in rows if is_shown(row)]
        draw_coverage(axes[top, column], title, shown)
        draw_width(axes[top + 1, column], shown)
    axes[0, 0].set_ylabel("coverage of 95 %")
    axes[1, 0].set_ylabel("width / needed")
    return figure


def draw_coverage(axes: Axes, title: str, rows: list[Row]) -> None:
    """Draw coverage with two standard errors; a cross where most samples are refused."""
    for row in rows:
        colour = RED if row.is_low else BLUE
        if row.refused > 1 / 2:
            axes.plot(row.effective, LOWEST, "x", color=GREY, ms=4, mew=0.8)
        if not row.is_answered:
            continue
        y = max(row.coverage, LOWEST + 0.005)
        if not np.isnan(row.textbook):
            at = max(row.textbook, LOWEST + 0.005)
            axes.plot(row.effective, at, "o", ms=2, color=ORANGE, alpha=0.5)
        axes.errorbar(row.effective, y, 2 * row.error, fmt="o", ms=2.5, lw=0.5, color=colour)
    refused = sum(row.refused > 1 / 2 for row in rows)
    axes.axhline(MIN_COVERAGE, color=GREY, lw=1, ls=":")
    axes.set(title=f"{title}: {len(rows)} cells, {refused} refused", xscale="log")
    axes.set(ylim=(LOWEST - 0.005, 1.005))


def draw_width(axes: Axes, rows: list[Row]) -> None:
    """Draw the median width over the needed one; what is apart in grey."""
    for row in rows:
        if row.is_answered:
            colour = GREY if row.is_apart else RED if row.is_wide else BLUE
            axes.plot(row.effective, min(row.width, WIDEST), "o", ms=2.5, color=colour)
    axes.axhline(MAX_WIDTH, color=GREY, lw=1, ls=":")
    axes.axvline(MIN_EFFECTIVE, color=GREY, lw=1, ls=":")
    axes.set(xscale="log", ylim=(0, WIDEST + 0.1), xlabel="effective cases")


def main() -> None:
    """Write the picture, and print the table and the cells that miss a target."""
    rows = [row for path in sys.argv[1:] for row in read_rows(Path(path))]
    mpl.use("agg")
    with mpl.rc_context(STYLE):
        draw(rows).savefig(IMAGES / "evidence-map.png", dpi=80, metadata={"Software": None})
    print("\n".join([*table(rows), "", *findings(rows)]))


if __name__ == "__main__":
    main()
