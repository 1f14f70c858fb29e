"""The plot of the ROC curve with its hull and a chosen threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from streameval._common.keywords import by_keyword
from streameval.display._bands import Band, fill_band, roc_band
from streameval.display._canvas import (
    GUIDE,
    axes_for,
    draw_hull,
    evaluator_of,
    figure_of,
    format_interval,
    format_metric,
    guide_text,
    is_undrawn,
    legend,
    legend_label,
    log_path,
    mark_curve,
    mark_threshold,
    next_color,
    unit_square,
    use_log_axis,
)
from streameval.display._paths import thin

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Polygon

    from streameval._common.arrays import FloatArray
    from streameval._evaluator import Evaluator
    from streameval._metrics.curves import RocHull
    from streameval._metrics.operating_points import OperatingPoints
    from streameval._uncertainty.interval import Interval

_CHANCE = "streameval-chance"


class RocCurveDisplay:
    """The ROC curve of a scorer, with its confidence band and its convex hull.

    Created by :meth:`from_evaluator` or :meth:`from_predictions`.

    Parameters
    ----------
    points : OperatingPoints
        The points to draw, joined by straight lines, as AUC-ROC is computed.
    hull : RocHull or None
        The hull, drawn dashed.
    interval : Interval or None
        That of AUC-ROC, for the legend; with it the band is drawn.
    name : str or None
        The scorer's name, for the legend.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the plot.
    line_ : Line2D
        The curve.
    hull_ : Line2D or None
        The hull.
    band_ : Polygon or None
        At each threshold the 95 % region of its point, assuming independent cases. None
        where cases have weights: a curve of their sums has no numbers of cases.
    chance_ : Line2D or None
        The diagonal; None if another display has drawn it.
    threshold_ : Line2D or None
        The point of the chosen threshold.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from streameval import Evaluator
    >>> ev = Evaluator()
    >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
    >>> ax = Figure().subplots()
    >>> display = RocCurveDisplay.from_evaluator(ev, name="model", ax=ax)
    >>> display.line_.get_label()
    'model: AUC-ROC 0.750 (0.000 to 1.000)'
    """

    ax_: Axes
    figure_: Figure | SubFigure
    line_: Line2D
    hull_: Line2D | None
    band_: Polygon | None
    chance_: Line2D | None
    threshold_: Line2D | None

    def __init__(
        self,
        points: OperatingPoints,
        *,
        hull: RocHull | None = None,
        interval: Interval | None = None,
        name: str | None = None,
    ) -> None:
        self.points = points
        self.hull = hull
        self.interval = interval
        self.name = name

    @classmethod
    @by_keyword
    def from_evaluator(
        cls,
        evaluator: Evaluator,
        *,
        name: str | None = None,
        ax: Axes | None = None,
        log: bool = False,
        hull: bool = True,
        interval: bool = True,
        threshold: float | None = None,
        color: str | None = None,
    ) -> Self:
        """Draw the curve of an evaluator.

        Parameters
        ----------
        evaluator : Evaluator
            The evaluator to draw; unless both classes have references, only the
            axes are drawn.
        name : str or None
            The scorer's name, for the legend.
        ax : matplotlib Axes or None
            The axes to draw on; None creates a new figure. A figure without a layout
            engine gets the constrained one, which makes room for the legend above the axes.
        log : bool
            Whether the axis of the false positive rate is logarithmic, for rare positives.
        hull : bool
            Whether to draw the convex hull too. It is chosen on the cases that it
            is drawn from, so it is optimistic.
        interval : bool
            Whether to show the 95 % interval of AUC-ROC in the legend, and the band.
        threshold : float or None
            A threshold to mark on the curve.
        color : str or None
            None takes the next of a palette that is safe for all colour vision.

        Returns
        -------
        RocCurveDisplay

        Notes
        -----
        O(n) for n distinct scores.
        """
        shown = evaluator.roc_hull() if hull else None
        limits = evaluator.interval("auc_roc") if interval else None
        display = cls(evaluator.operating_points(), hull=shown, interval=limits, name=name)
        return display.plot(ax=ax, log=log, threshold=threshold, color=color)

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
        hull: bool = True,
        interval: bool = True,
        threshold: float | None = None,
        color: str | None = None,
    ) -> Self:
        """Draw the curve of columns, as :meth:`from_evaluator` does.

        Parameters
        ----------
        labels, scores, positive, negative
            As for :meth:`streameval.Evaluator.add_cases`.
        name, ax, log, hull, interval, threshold, color
            As for :meth:`from_evaluator`.

        Returns
        -------
        RocCurveDisplay

        Raises
        ------
        InvalidInputError
            When a label or a score cannot be counted.
        """
        evaluator = evaluator_of(labels, scores, positive, negative)
        return cls.from_evaluator(
            evaluator,
            name=name,
            ax=ax,
            log=log,
            hull=hull,
            interval=interval,
            threshold=threshold,
            color=color,
        )

    def plot(
        self,
        *,
        ax: Axes | None = None,
        log: bool = False,
        threshold: float | None = None,
        color: str | None = None,
    ) -> Self:
        """Draw on `ax`, or on a new figure. Parameters as for :meth:`from_evaluator`."""
        ax = axes_for(ax)
        color = color or next_color(ax)
        self.ax_, self.figure_ = ax, figure_of(ax)
        points = self.points
        is_first = is_undrawn(ax, _CHANCE)
        if is_first:
            unit_square(ax, "False positive rate", "True positive rate (recall)")
            if log and points.P and points.N:
                # A hundredth of the prevalence: where 99 of 100 that are called are positive.
                smallest = points.P / points.N / 100
                use_log_axis(
                    ax, "x", smallest if points.is_weighted else max(1 / points.N, smallest)
                )
        self.chance_ = _chance(ax) if is_first else None
        is_defined = points.P > 0 and points.N > 0
        fpr, tpr = (points.fpr, points.tpr) if is_defined else (np.empty(0), np.empty(0))
        area = format_interval(points.auc_roc(), self.interval)
        label = legend_label(self.name, f"AUC-ROC {area}")
        (self.line_,) = ax.plot(
            *self._along(fpr, tpr), color=color, linewidth=1.6, label=label, zorder=3
        )
        mark_curve(self.line_)
        self.hull_ = self.threshold_ = self.band_ = None
        if self.interval is not None and is_defined and not points.is_weighted:
            band = roc_band(points)
            upper, lower = self._along(*band[:2]), self._along(*band[2:])
            self.band_ = fill_band(ax, Band(*upper, *lower), color)
        if self.hull is not None and is_defined:
            label = f"convex hull ({format_metric(self.hull.auc_roc())})"
            self.hull_ = draw_hull(ax, *self._along(self.hull.fpr, self.hull.tpr), color, label)
        if threshold is not None and is_defined:
            at = points.at_thresholds([threshold])
            least = ax.get_xlim()[0]
            self.threshold_ = mark_threshold(
                ax, np.maximum(at.fpr[1:2], least), at.tpr[1:2], color, threshold
            )
        legend(ax)
        return self

    def _along(self, fpr: FloatArray, tpr: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a line as these axes need it."""
        if self.ax_.get_xscale() != "log" or not fpr.size:
            return thin(fpr, tpr)
        x, y = log_path(fpr, tpr, self.ax_.get_xlim()[0])
        return thin(x, y, log=True)


def _chance(ax: Axes) -> Line2D:
    """Draw the diagonal, the ROC curve of random scores."""
    is_log = ax.get_xscale() == "log"
    rates = np.geomspace(ax.get_xlim()[0], 1.0, 200) if is_log else np.array([0.0, 1.0])
    (line,) = ax.plot(rates, rates, color=GUIDE, linewidth=0.8, linestyle=":", zorder=1)
    line.set_gid(_CHANCE)
    if is_log:
        guide_text(ax, "chance", (0.3, 0.3), (4, -2), va="top")
    else:
        style = {"rotation": 45, "rotation_mode": "anchor", "va": "top"}
        guide_text(ax, "chance", (0.3, 0.3), (0, -3), **style)
    return line
