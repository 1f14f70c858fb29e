"""Helpers that all displays share: axes, colours, guides, legends.

The colours are those of Okabe and Ito (2008), which people with any kind of colour
vision can distinguish. Everything that is not data is grey.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from streameval._evaluator import Evaluator

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

    from streameval._common.arrays import FloatArray

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
GUIDE = "#8C8C8C"
"""Colour of reference lines: chance, prevalence, equal F."""
GUIDE_TEXT = "#6E6E6E"
REGION = "#EDEDED"
"""Colour of the region that no curve can reach."""
GUIDE_TEXT_POINTS = 8.0
"""Points: the font size of guide text."""

Corner: TypeAlias = Literal["best", "lower left", "lower right", "upper left", "upper right"]

_CURVE = "streameval-curve"


def evaluator_of(labels: Any, scores: Any, counts: Any = None) -> Evaluator:
    """Return an evaluator of these columns."""
    evaluator = Evaluator()
    evaluator.add_cases(labels=labels, scores=scores, counts=counts)
    return evaluator


def axes_for(ax: Axes | None) -> Axes:
    """Return `ax`, or new square axes that fit the width of a text column."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot as plt  # noqa: PLC0415 - an extra, and slow to import
    except ModuleNotFoundError as error:
        message = f"displays need {error.name}: pip install 'streameval[plot]'"
        raise ModuleNotFoundError(message, name=error.name) from error
    return plt.subplots(figsize=(4.8, 4.8), layout="constrained")[1]


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
    """Mark the artist as a curve, for `next_color` and `free_corner`."""
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
    return metric if name is None else f"{name} ({metric})"


def free_corner(ax: Axes) -> Corner:
    """Return the corner, lower left or upper right, with fewer points of curves."""
    lower_left = upper_right = 0
    for line in ax.get_lines():
        if line.get_gid() == _CURVE:
            x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
            lower_left += int(np.count_nonzero((x < 0.6) & (y < 0.35)))
            upper_right += int(np.count_nonzero((x > 0.4) & (y > 0.65)))
    return "lower left" if lower_left < upper_right else "upper right"


def legend(ax: Axes, loc: Corner, *, above: float = 0.0) -> None:
    """Redraw the legend without a frame; in a lower corner, above the height `above` if low."""
    style = {"framealpha": 0.85, "edgecolor": "none", "fontsize": GUIDE_TEXT_POINTS + 1}
    if loc.startswith("lower") and 0 < above < 0.4:
        ax.legend(loc=loc, bbox_to_anchor=(0.0, above), bbox_transform=ax.transData, **style)
    else:
        ax.legend(loc=loc, **style)
