"""The reliability diagram: observed rate against mean score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self, SupportsIndex

import numpy as np

from streameval._common.keywords import by_keyword
from streameval._uncertainty.calibration import bin_limits
from streameval.display._canvas import (
    GUIDE,
    axes_for,
    evaluator_of,
    figure_of,
    format_metric,
    guide_text,
    is_rare,
    is_undrawn,
    legend,
    legend_label,
    mark_curve,
    next_color,
    unit_square,
    use_log_axis,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

    from streameval._evaluator import Evaluator
    from streameval._metrics.reliability import ReliabilityTable

_LEVEL = 0.95
_DIAGONAL = "streameval-diagonal"
_MAX_BAR_HEIGHT = 0.16
"""Share of the axes: the height of the largest bin's bar."""
_MIN_BAR_WIDTH = 0.003
"""Score: the width of the bar of a bin with one score."""


class ReliabilityDisplay:
    """Observed rate against mean score, bin by bin, with 95 % intervals.

    Created by :meth:`from_evaluator` or :meth:`from_predictions`. Bars at the bottom
    show the number of cases of each bin. Both axes are from 0 to 1, or to the greatest score
    and rate where these are below a half. On logarithmic axes a bin without positives is an
    open mark at the bottom.

    Parameters
    ----------
    table : ReliabilityTable
        The bins to draw.
    name : str or None
        The scorer's name, for the legend.
    limits : sequence of (float, float) or None
        95 % limits of each observed rate. By default they are computed from the table's
        counts as numbers of cases; where the counts are sums of weights, none are drawn.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the plot.
    line_ : Line2D
        A point for each bin that has cases.
    intervals_ : LineCollection
        Wilson's 95 % interval of each observed rate, assuming independent cases.
    shares_ : BarContainer
        Cases in each bin, relative to the largest bin.
    diagonal_ : Line2D or None
        The line of calibrated scores; None if another display has drawn it.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from streameval import Evaluator
    >>> ev = Evaluator()
    >>> ev.add_cases(labels=[0, 1, 1, 1], scores=[0.1, 0.15, 0.85, 0.95])
    >>> display = ReliabilityDisplay.from_evaluator(ev, bins=2, ax=Figure().subplots())
    >>> display.line_.get_ydata().tolist()
    [0.5, 1.0]
    """

    ax_: Axes
    figure_: Figure | SubFigure
    line_: Line2D
    intervals_: LineCollection
    shares_: BarContainer
    diagonal_: Line2D | None

    def __init__(
        self,
        table: ReliabilityTable,
        *,
        name: str | None = None,
        limits: Sequence[tuple[float, float]] | None = None,
    ) -> None:
        self.table = table
        self.name = name
        self.limits = limits

    @classmethod
    @by_keyword
    def from_evaluator(
        cls,
        evaluator: Evaluator,
        *,
        name: str | None = None,
        ax: Axes | None = None,
        log: bool = False,
        bins: SupportsIndex = 10,
        strategy: Literal["width", "mass"] | None = None,
        color: str | None = None,
    ) -> Self:
        """Draw the reliability of an evaluator's scores.

        Parameters
        ----------
        evaluator : Evaluator
            The evaluator to draw; its scores must be probabilities.
        name : str or None
            The scorer's name, for the legend.
        ax : matplotlib Axes or None
            The axes to draw on; None creates a new figure. A figure without a layout
            engine gets the constrained one, which makes room for the legend above the axes.
        log : bool
            Whether both axes are logarithmic, for rare positives.
        bins, strategy
            As for :meth:`streameval.Evaluator.reliability`; by default bins of equal
            mass where less than 5 % of the scored cases are positive, because nearly all
            cases would be in one bin of equal width.
        color : str or None
            None takes the next of a palette that is safe for all colour vision.

        Returns
        -------
        ReliabilityDisplay

        Raises
        ------
        InvalidInputError
            When a score is outside [0, 1], or an argument is refused.

        Notes
        -----
        O(n) for n distinct scores.
        """
        if strategy is None:
            rare = is_rare(
                evaluator.num_positive_ref - evaluator.num_misses,
                evaluator.num_negative_ref - evaluator.num_negative_misses,
            )
            strategy = "mass" if rare else "width"
        table = evaluator.reliability(bins, strategy=strategy)
        display = cls(table, name=name, limits=evaluator._bin_limits(table, _LEVEL))
        return display.plot(ax=ax, log=log, color=color)

    @classmethod
    @by_keyword
    def from_predictions(
        cls,
        *,
        labels: Any,
        scores: Any,
        positive: Any = None,
        negative: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        log: bool = False,
        bins: SupportsIndex = 10,
        strategy: Literal["width", "mass"] | None = None,
        color: str | None = None,
    ) -> Self:
        """Draw the reliability of columns, as :meth:`from_evaluator` does.

        Parameters
        ----------
        labels, scores, positive, negative
            As for :meth:`streameval.Evaluator.add_cases`.
        name, ax, log, bins, strategy, color
            As for :meth:`from_evaluator`.

        Returns
        -------
        ReliabilityDisplay

        Raises
        ------
        InvalidInputError
            When a label or a score cannot be counted, or a score is no probability.
        """
        evaluator = evaluator_of(labels, scores, positive, negative)
        return cls.from_evaluator(
            evaluator, name=name, ax=ax, log=log, bins=bins, strategy=strategy, color=color
        )

    def plot(self, *, ax: Axes | None = None, log: bool = False, color: str | None = None) -> Self:
        """Draw on `ax`, or on a new figure. Parameters as for :meth:`from_evaluator`."""
        ax = axes_for(ax)
        color = color or next_color(ax)
        self.ax_, self.figure_ = ax, figure_of(ax)
        table, limits = self.table, self.limits
        if limits is None and not table.is_weighted:
            limits = bin_limits(table, float(table.counts.sum()), _LEVEL)
        is_first = is_undrawn(ax, _DIAGONAL)
        if is_first:
            unit_square(ax, "Mean score", "Observed rate of positives")
        if is_first and log and table.positives.any():
            for side in ("x", "y"):
                use_log_axis(ax, side, _least_rate(table))
        elif ax.get_xscale() == "log":
            ax.set_xlim(left=min(ax.get_xlim()[0], _least_rate(table)))
        elif len(table):
            _show_up_to(ax, _greatest_rate(table, limits), is_first=is_first)
        self.diagonal_ = _diagonal(ax) if is_first else None
        label = legend_label(
            self.name, f"calibration error {format_metric(table.calibration_error)}"
        )
        is_log = ax.get_yscale() == "log"
        (self.line_,) = ax.plot(
            table.mean_score,
            np.where(table.positives > 0, table.observed_rate, np.nan)
            if is_log
            else table.observed_rate,
            color=color,
            linewidth=1.4,
            marker="o",
            markersize=4.5,
            markeredgecolor="white",
            markeredgewidth=0.6,
            label=label,
            zorder=3,
        )
        bottom = ax.get_ylim()[0]  # a limit of 0 has no place on a logarithmic axis
        self.intervals_ = ax.vlines(
            [] if limits is None else table.mean_score,
            [max(low, bottom) for low, _ in limits or ()],
            [high for _, high in limits or ()],
            color=color,
            linewidth=1.0,
            alpha=0.6,
            zorder=2.5,
            label="95 % interval of the rate" if is_first and limits else "_nolegend_",
        )
        mark_curve(self.line_)
        if is_log:
            empty = table.mean_score[table.positives == 0]
            style: dict[str, Any] = {"marker": "v", "markerfacecolor": "white", "linestyle": "none"}
            height = np.full(empty.size, 0.02)
            ax.plot(
                empty, height, color=color, zorder=3, transform=ax.get_xaxis_transform(), **style
            )
        self.shares_ = self._shares(color)
        legend(ax)
        return self

    def _shares(self, color: str) -> BarContainer:
        """Draw bars at the bottom with the number of cases of each bin."""
        table = self.table
        largest = float(table.counts.max(initial=0)) or 1.0
        height = _MAX_BAR_HEIGHT * table.counts / largest
        is_log = self.ax_.get_xscale() == "log"
        least = 0.01 * table.upper if is_log else _MIN_BAR_WIDTH
        left = np.maximum(table.lower, self.ax_.get_xlim()[0]) if is_log else table.lower
        width = np.maximum(table.upper - left, least)
        return self.ax_.bar(
            left,
            height,
            width,
            align="edge",
            color=(color, 0.18),
            # Bins of equal mass have bars of one height: their edges are what they say.
            edgecolor="white",
            linewidth=1.2,
            zorder=1,
            transform=self.ax_.get_xaxis_transform(),
        )


def _least_rate(table: ReliabilityTable) -> float:
    """Return half of the least mean score or rate above 0, for the start of both axes."""
    rates = np.concatenate((table.mean_score, table.observed_rate))
    return float(rates[rates > 0].min()) / 2


def _greatest_rate(table: ReliabilityTable, limits: Sequence[tuple[float, float]] | None) -> float:
    highs = (high for _, high in limits or ())
    return max(float(table.mean_score.max()), float(table.observed_rate.max()), *highs)


def _show_up_to(ax: Axes, rate: float, *, is_first: bool) -> None:
    """End both linear axes a little above a rate below a half, but below no curve before."""
    end = 1.01 if rate >= 0.5 else 1.1 * rate
    end = end if is_first else max(end, ax.get_xlim()[1])
    if end > 1:
        unit_square(ax, ax.get_xlabel(), ax.get_ylabel())
        return
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - an extra, and slow to import

    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(6))
    ax.set(xlim=(-0.01 * end, end), ylim=(-0.01 * end, end))


def _diagonal(ax: Axes) -> Line2D:
    """Draw the line on which the observed rate equals the score."""
    ends = [max(ax.get_xlim()[0], 0.0), 1.0]
    (line,) = ax.plot(ends, ends, color=GUIDE, linewidth=0.8, linestyle=":", zorder=1)
    line.set_gid(_DIAGONAL)
    style = {"xycoords": "axes fraction"}
    guide_text(ax, "cases", (0.0, _MAX_BAR_HEIGHT), (3, 2), **style)
    return line
