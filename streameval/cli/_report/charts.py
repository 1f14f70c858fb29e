"""The charts of a report as pictures in its file: SVG by matplotlib."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from streameval._metric_registry import HEADLINE, title_of
from streameval.cli._report.markup import Markup, tag
from streameval.display import ReliabilityDisplay
from streameval.display._canvas import GUIDE, PALETTE, label_axes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

    from streameval._snapshot import Snapshot
    from streameval._verdict.verdict import Since
    from streameval.cli._report.answers import Answers
    from streameval.client import StreamReliability
    from streameval.display import PrecisionRecallDisplay, RocCurveDisplay

SQUARE, WIDE = (4.8, 5.4), (10.2, 2.7)
_BINS = 40
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def picture(alt: str, size: tuple[float, float], draw: Callable[[Axes], object]) -> Markup:
    """Return what a function draws, with what it shows for readers who do not see it."""
    written = io.BytesIO()
    figure = Figure(figsize=size, layout="constrained")
    draw(figure.subplots())
    figure.savefig(written, format="svg", metadata=_NO_METADATA)
    data = base64.b64encode(written.getvalue()).decode()
    return tag("img", alt=alt, src=f"data:image/svg+xml;base64,{data}")


def curve(
    display: type[PrecisionRecallDisplay | RocCurveDisplay], found: Answers
) -> Callable[[Axes], object]:
    """Return what draws a curve, with the declared threshold; bands would fill most of the file."""
    threshold = found.settings.threshold
    return lambda ax: display.from_evaluator(
        found.state, ax=ax, interval=False, threshold=threshold
    )


def reliability(found: StreamReliability) -> Callable[[Axes], object]:
    """Return what draws observed rates against mean scores."""
    return lambda ax: ReliabilityDisplay(found.table, limits=found.limits).plot(ax=ax)


def over_time(rows: Sequence[Snapshot], since: Since | None) -> Callable[[Axes], object]:
    """Return what draws the headline in steps of time, with its intervals, and a change."""

    def draw(ax: Axes) -> None:
        windows = [row.window for row in rows if row.window is not None]
        middles: list[Any] = [start + (end - start) / 2 for start, end in windows]
        limits = np.array([tuple(row.intervals[HEADLINE]) for row in rows])
        ax.fill_between(middles, limits[:, 0], limits[:, 1], color=PALETTE[0], alpha=0.2)
        values = [row.figures[HEADLINE] for row in rows]
        ax.plot(middles, values, color=PALETTE[0], marker="o", markersize=3.5)
        ax.xaxis_date("UTC")
        if since is not None and windows[0][0] <= since.latest <= windows[-1][1]:
            began: list[Any] = [since.earliest, since.likeliest, since.latest]
            ends: list[Any] = [windows[0][0], windows[-1][1]]
            ax.axvspan(began[0], began[2], color=PALETTE[1], alpha=0.25, linewidth=0)
            ax.axvline(began[1], color=PALETTE[1], linewidth=1.4, label="since")
            ax.legend(frameon=False, loc="lower left")
            ax.set_xlim(ends[0], ends[1])
        label_axes(ax, "Time (UTC)", title_of(HEADLINE))

    return draw


def scores(found: Answers) -> Callable[[Axes], object]:
    """Return what draws the scores of each class, as shares of it."""

    def draw(ax: Axes) -> None:
        points, threshold = found.state.operating_points(), found.settings.threshold
        is_score = np.isfinite(points.thresholds)
        edges = np.histogram_bin_edges(points.thresholds[is_score], _BINS)
        for title, counts, color in (
            ("negatives", points.fp, GUIDE),
            ("positives", points.tp, PALETTE[1]),
        ):
            each = np.diff(counts, prepend=0)[is_score]
            shares, _ = np.histogram(points.thresholds[is_score], edges, weights=each)
            style: dict[str, Any] = {"facecolor": (color, 0.3), "edgecolor": color, "fill": True}
            ax.stairs(shares / (shares.sum() or 1), edges, label=title, **style)
        if threshold is not None and edges[0] <= threshold <= edges[-1]:
            ax.axvline(threshold, color="black", linewidth=1.2, label="declared threshold")
        ax.yaxis.set_major_formatter(PercentFormatter(1.0))
        ax.legend(frameon=False)
        label_axes(ax, "Score", "Share of class")

    return draw
