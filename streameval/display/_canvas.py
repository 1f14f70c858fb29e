"""Helpers that all displays share: axes, colours, guides, legends.

The colours are from Okabe and Ito (2008): people with any kind of colour vision can
distinguish them. Everything that is not data is grey.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from streameval._common.extras import needs_extra
from streameval._evaluator import Evaluator

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

    from streameval._common.arrays import FloatArray
    from streameval._uncertainty.interval import Interval

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
GUIDE = "#8C8C8C"
"""Colour of reference lines: chance, prevalence, equal F."""
GUIDE_TEXT = "#6E6E6E"
REGION = "#EDEDED"
"""Colour of the region that no curve can reach."""
GUIDE_TEXT_POINTS = 8.0
"""Points: the font size of guide text."""

BAND_ALPHA = 0.13
"""Opacity of a confidence band."""
RARE = 0.05
"""Prevalence: below it, bins of equal width would have nearly all cases in the first."""

_CURVE = "streameval-curve"


def evaluator_of(labels: Any, scores: Any, positive: Any, negative: Any) -> Evaluator:
    """Return an evaluator of these columns."""
    evaluator = Evaluator()
    evaluator.add_cases(labels=labels, scores=scores, positive=positive, negative=negative)
    return evaluator


def axes_for(ax: Axes | None) -> Axes:
    """Return `ax`, or new square axes that fit the width of a text column."""
    if ax is not None:
        return ax
    with needs_extra("plot"):
        from matplotlib import pyplot as plt  # noqa: PLC0415 - slow to import
    return plt.subplots(figsize=(4.8, 5.4), layout="constrained")[1]


def figure_of(ax: Axes) -> Figure | SubFigure:
    """Return the figure or subfigure of the axes."""
    figure = ax.get_figure()
    assert figure is not None
    return figure


def unit_square(ax: Axes, xlabel: str, ylabel: str) -> None:
    """Set both axes to 0 to 1 at equal scale, with a margin for lines on the border."""
    ticks = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), xticks=ticks, yticks=ticks, aspect="equal")
    label_axes(ax, xlabel, ylabel)


def is_rare(P: float, N: float) -> bool:
    """Return whether positives are rare, and there are both classes."""
    return P > 0 and P < RARE * (P + N)


def use_log_axis(ax: Axes, side: str, least: float) -> None:
    """Make one axis logarithmic, from `least` to 1, of a square box."""
    ax.set_aspect("auto")
    ax.set_box_aspect(1)
    ax.set(**{f"{side}scale": "log", f"{side}lim": (least, 1.05)})
    axis = ax.xaxis if side == "x" else ax.yaxis
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(lambda _, __: "")


def log_path(x: FloatArray, y: FloatArray, least: float) -> tuple[FloatArray, FloatArray]:
    """Return a rising line for a logarithmic axis of x: straight pieces are curved there.

    What is left of `least` is drawn at `least`.
    """
    nodes = np.geomspace(least, 1.0, 400)
    nodes = nodes[(nodes > x.min()) & (nodes < x.max())]
    xs, ys = np.concatenate((x, nodes)), np.concatenate((y, np.interp(nodes, x, y)))
    order = np.lexsort((ys, xs))
    return np.maximum(xs[order], least), ys[order]


def label_axes(ax: Axes, xlabel: str, ylabel: str) -> None:
    """Label the axes and hide the top and right borders."""
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.spines[["top", "right"]].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(GUIDE)
    ax.tick_params(color=GUIDE)


def next_color(ax: Axes) -> str:
    """Return the next colour of the palette for a curve on these axes."""
    curves = sum(artist.get_gid() == _CURVE for artist in ax.get_children())
    return PALETTE[curves % len(PALETTE)]


def mark_curve(artist: Artist) -> None:
    """Mark the artist as a curve, for `next_color`."""
    artist.set_gid(_CURVE)


def draw_hull(ax: Axes, x: FloatArray, y: FloatArray, color: str, label: str) -> Line2D:
    """Draw a hull as a dashed line."""
    style: dict[str, Any] = {"linewidth": 1.0, "linestyle": (0, (4, 2)), "zorder": 2.5}
    (line,) = ax.plot(x, y, color=color, label=label, **style)
    return line


def mark_threshold(ax: Axes, x: FloatArray, y: FloatArray, color: str, threshold: float) -> Line2D:
    """Mark the point of the curve at the chosen threshold."""
    style: dict[str, Any] = {"marker": "o", "markersize": 7, "markeredgecolor": "white"}
    label = f"threshold {threshold:.3g}"
    (line,) = ax.plot(x, y, color=color, linestyle="none", label=label, zorder=4, **style)
    return line


def is_undrawn(ax: Axes, gid: str) -> bool:
    """Return whether no artist of these axes has this gid yet."""
    return all(artist.get_gid() != gid for artist in ax.get_children())


def guide_text(
    ax: Axes, text: str, at: tuple[float, float], offset: tuple[float, float], **style: Any
) -> None:
    """Write a guide's name `offset` points from `at`, with an outline to read it across lines."""
    from matplotlib.patheffects import withStroke  # noqa: PLC0415 - an extra, and slow to import

    written = ax.annotate(
        text,
        at,
        xytext=offset,
        textcoords="offset points",
        color=GUIDE_TEXT,
        fontsize=GUIDE_TEXT_POINTS,
        annotation_clip=False,
        **style,
    )
    written.set_path_effects([withStroke(linewidth=2.0, foreground="white")])


def format_metric(value: float) -> str:
    """Return a metric with three decimals, or with five if it is near 1 but below it.

    >>> format_metric(0.84321), format_metric(0.99996), format_metric(1.0)
    ('0.843', '0.99996', '1.000')
    """
    return f"{value:.5f}" if 0.9995 <= value < 1 else f"{value:.3f}"


def legend_label(name: str | None, metric: str) -> str:
    """Return the legend's text: the name, if any, with the metric."""
    return metric if name is None else f"{name}: {metric}"


def format_interval(value: float, interval: Interval | None) -> str:
    """Return a metric with its limits, if any.

    >>> format_interval(0.84321, None)
    '0.843'
    """
    if interval is None or interval.reason is not None or math.isnan(value):
        return format_metric(value)
    lower, upper = map(format_metric, interval)
    return f"{format_metric(value)} ({lower} to {upper})"


def legend(ax: Axes) -> None:
    """Redraw the legend above the axes, where no curve is, and let the layout make room for it.

    Without a layout engine the figure's margins would cut the legend off.
    """
    whole = figure_of(ax).figure  # a subfigure's is the figure that contains it
    if whole.get_layout_engine() is None:
        whole.set_layout_engine("constrained")
    handles, labels = ax.get_legend_handles_labels()
    # Intervals and bands last: they belong to all curves.
    order = sorted(range(len(labels)), key=lambda row: labels[row].startswith("95 %"))
    ax.legend(
        [handles[row] for row in order],
        [labels[row] for row in order],
        loc="lower left",
        bbox_to_anchor=(0.0, 1.01),
        borderaxespad=0.0,
        frameon=False,
        fontsize=GUIDE_TEXT_POINTS + 1,
    )
