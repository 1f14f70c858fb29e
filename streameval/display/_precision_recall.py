"""A plot of the empirical and the achievable precision-recall curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from streameval._common.keywords import by_keyword
from streameval.display._bands import fill_band, pr_band
from streameval.display._canvas import (
    GUIDE,
    REGION,
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
    mark_curve,
    mark_threshold,
    next_color,
    unit_square,
    use_log_axis,
)
from streameval.display._paths import pr_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Polygon

    from streameval._evaluator import Evaluator
    from streameval._metrics.curves import PrHull
    from streameval._metrics.operating_points import OperatingPoints
    from streameval._uncertainty.interval import Interval

_DRAWN = "streameval-precision-recall"
_ISO_F = "streameval-iso-f"
_LEVELS = (0.2, 0.4, 0.6, 0.8)


class PrecisionRecallDisplay:
    """The precision-recall curve of a scorer, with its band and the achievable curve.

    Created by :meth:`from_evaluator` or :meth:`from_predictions`.

    Parameters
    ----------
    points : OperatingPoints
        The points to draw; between them the line is curved, as AUC-PR is computed.
    hull : PrHull or None
        The achievable curve, drawn dashed with its true curvature.
    interval : Interval or None
        That of AUC-PR, for the legend; with it the band is drawn.
    name : str or None
        The scorer's name, for the legend.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the plot.
    line_ : Line2D
        The curve.
    hull_ : Line2D or None
        The achievable curve.
    band_ : Polygon or None
        At each threshold the 95 % region of its point, assuming independent cases. None
        where cases have weights: a curve of their sums has no numbers of cases.
    prevalence_ : Line2D or None
        The precision of calling everything positive; None if another display of the
        same prevalence has drawn it.
    unachievable_ : PolyCollection or None
        The region below the worst scorer at this prevalence (Boyd 2012); None as above.
    iso_f_ : list of Line2D
        Lines of equal F; empty if another display has drawn them.
    threshold_ : Line2D or None
        The point of the chosen threshold.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from streameval import Evaluator
    >>> ev = Evaluator()
    >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
    >>> ax = Figure().subplots()
    >>> display = PrecisionRecallDisplay.from_evaluator(ev, name="model", ax=ax)
    >>> display.line_.get_label()
    'model: AUC-PR 0.797 (0.000 to 0.99992)'
    """

    ax_: Axes
    figure_: Figure | SubFigure
    line_: Line2D
    hull_: Line2D | None
    band_: Polygon | None
    prevalence_: Line2D | None
    unachievable_: PolyCollection | None
    iso_f_: list[Line2D]
    threshold_: Line2D | None

    def __init__(
        self,
        points: OperatingPoints,
        *,
        hull: PrHull | None = None,
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
        iso_f: bool = True,
        threshold: float | None = None,
        color: str | None = None,
    ) -> Self:
        """Draw the curve of an evaluator.

        Parameters
        ----------
        evaluator : Evaluator
            The evaluator to draw; without positives only the axes are drawn.
        name : str or None
            The scorer's name, for the legend.
        ax : matplotlib Axes or None
            The axes to draw on; None creates a new figure. A figure without a layout
            engine gets the constrained one, which makes room for the legend above the axes.
        log : bool
            Whether the axis of the precision is logarithmic, for rare positives.
        hull : bool
            Whether to draw the achievable curve too. It is chosen on the cases
            that it is drawn from, so it is optimistic.
        interval : bool
            Whether to show the 95 % interval of AUC-PR in the legend, and the band.
        iso_f : bool
            Whether to draw lines of equal F.
        threshold : float or None
            A threshold to mark on the curve.
        color : str or None
            None takes the next of a palette that is safe for all colour vision.

        Returns
        -------
        PrecisionRecallDisplay

        Notes
        -----
        O(n) for n distinct scores.
        """
        shown = evaluator.pr_hull() if hull else None
        limits = evaluator.interval("auc_pr") if interval else None
        points = evaluator.operating_points()
        display = cls(points, hull=shown, interval=limits, name=name)
        return display.plot(ax=ax, log=log, iso_f=iso_f, threshold=threshold, color=color)

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
        iso_f: bool = True,
        threshold: float | None = None,
        color: str | None = None,
    ) -> Self:
        """Draw the curve of columns, as :meth:`from_evaluator` does.

        Parameters
        ----------
        labels, scores, positive, negative
            As for :meth:`streameval.Evaluator.add_cases`.
        name, ax, log, hull, interval, iso_f, threshold, color
            As for :meth:`from_evaluator`.

        Returns
        -------
        PrecisionRecallDisplay

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
            iso_f=iso_f,
            threshold=threshold,
            color=color,
        )

    def plot(
        self,
        *,
        ax: Axes | None = None,
        log: bool = False,
        iso_f: bool = True,
        threshold: float | None = None,
        color: str | None = None,
    ) -> Self:
        """Draw on `ax`, or on a new figure. Parameters as for :meth:`from_evaluator`."""
        ax = axes_for(ax)
        color = color or next_color(ax)
        self.ax_, self.figure_ = ax, figure_of(ax)
        points = self.points
        if is_undrawn(ax, _DRAWN):
            unit_square(ax, "Recall", "Precision")
            if log and points.P:
                use_log_axis(ax, "y", points.P / (points.P + points.N) / 2)
            ax.xaxis.set_gid(_DRAWN)
        self.iso_f_ = _iso_f(ax) if iso_f and is_undrawn(ax, _ISO_F) else []
        self.unachievable_, self.prevalence_ = _prevalence(ax, points.P, points.N)
        area = format_interval(points.auc_pr(), self.interval)
        label = legend_label(self.name, f"AUC-PR {area}")
        (self.line_,) = ax.plot(*pr_path(points), color=color, linewidth=1.6, label=label, zorder=3)
        mark_curve(self.line_)
        self.hull_ = self.threshold_ = self.band_ = None
        has_band = self.interval is not None and not points.is_weighted
        if has_band and points.P > 0 and points.N > 0:
            self.band_ = fill_band(ax, pr_band(points), color)
        if self.hull is not None and points.P > 0:
            label = f"achievable ({format_metric(self.hull.auc_pr())})"
            self.hull_ = draw_hull(ax, *pr_path(self.hull), color, label)
        if threshold is not None and points.P > 0:
            at = points.at_thresholds([threshold])
            self.threshold_ = mark_threshold(
                ax, at.recall[1:2], at.precision[1:2], color, threshold
            )
        legend(ax)
        return self


def _iso_f(ax: Axes) -> list[Line2D]:
    """Draw F = 2 P R/(P + R) at a few levels, labelled at the right border."""
    lines = []
    for level in _LEVELS:
        recall = np.linspace(level / (2 - level), 1.0, 200)
        precision = level * recall / (2 * recall - level)
        (line,) = ax.plot(recall, precision, color=GUIDE, linewidth=0.5, alpha=0.6, zorder=1)
        line.set_gid(_ISO_F)
        lines.append(line)
        guide_text(ax, f"F = {level:.1f}", (1.0, level / (2 - level)), (4, 0), va="center")
    return lines


def _prevalence(ax: Axes, P: float, N: float) -> tuple[PolyCollection | None, Line2D | None]:
    """Draw the prevalence line and the unachievable region, once for each prevalence."""
    total = P + N
    gid = f"streameval-prevalence-{P / total if total else None}"
    if P == 0 or N == 0 or not is_undrawn(ax, gid):
        return None, None
    prevalence = P / total
    recall = np.linspace(0.0, 1.0, 200)
    # The worst ranking has all negatives first: FP = N at every recall.
    region = ax.fill_between(
        recall, recall * P / (recall * P + N), color=REGION, linewidth=0, zorder=0.5
    )
    (line,) = ax.plot(
        [0, 1], [prevalence, prevalence], color=GUIDE, linewidth=0.8, linestyle=":", zorder=1
    )
    line.set_gid(gid)
    # The label is to the right of the axes. If that is too near to the label of an F
    # line, it is under the right end of the line, in the region that no curve enters.
    if min(abs(prevalence - level / (2 - level)) for level in _LEVELS) > 0.07:
        guide_text(ax, f"prevalence\n{prevalence:.3g}", (1.0, prevalence), (4, 0), va="center")
    else:
        style = {"ha": "right", "va": "top"}
        guide_text(ax, f"prevalence {prevalence:.3g}", (1.0, prevalence), (-3, -3), **style)
    if prevalence > 0.08:
        guide_text(ax, "unachievable", (1.0, 0.0), (-3, 3), ha="right")
    return region, line
