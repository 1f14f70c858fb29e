"""The plot of the ROC curve with its hull and a chosen threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from streameval._common.keywords import by_keyword
from streameval.display._canvas import (
    GUIDE,
    axes_for,
    draw_hull,
    evaluator_of,
    figure_of,
    format_metric,
    guide_text,
    is_undrawn,
    legend,
    legend_label,
    mark_curve,
    mark_threshold,
    next_color,
    unit_square,
)
from streameval.display._paths import thin

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

    from streameval._evaluator import Evaluator
    from streameval._metrics.curves import RocHull
    from streameval._metrics.operating_points import OperatingPoints

_CHANCE = "streameval-chance"


class RocCurveDisplay:
    """The ROC curve of a scorer, with its convex hull.

    Created by :meth:`from_evaluator` or :meth:`from_predictions`.

    Parameters
    ----------
    points : OperatingPoints
        The points to draw, joined by straight lines, as AUC-ROC is computed.
    hull : RocHull or None
        The hull, drawn dashed.
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
    'model (AUC-ROC 0.750)'
    """

    ax_: Axes
    figure_: Figure | SubFigure
    line_: Line2D
    hull_: Line2D | None
    chance_: Line2D | None
    threshold_: Line2D | None

    def __init__(
        self, points: OperatingPoints, *, hull: RocHull | None = None, name: str | None = None
    ) -> None:
        self.points = points
        self.hull = hull
        self.name = name

    @classmethod
    @by_keyword
    def from_evaluator(
        cls,
        evaluator: Evaluator,
        *,
        name: str | None = None,
        ax: Axes | None = None,
        hull: bool = True,
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
            The axes to draw on; None creates a new figure.
        hull : bool
            Whether to draw the convex hull too. It is chosen on the cases that it
            is drawn from, so it is optimistic.
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
        display = cls(evaluator.operating_points(), hull=shown, name=name)
        return display.plot(ax=ax, threshold=threshold, color=color)

    @classmethod
    @by_keyword
    def from_predictions(
        cls,
        *,
        labels: Any,
        scores: Any,
        name: str | None = None,
        ax: Axes | None = None,
        hull: bool = True,
        threshold: float | None = None,
        color: str | None = None,
    ) -> Self:
        """Draw the curve of columns, as :meth:`from_evaluator` does.

        Parameters
        ----------
        labels, scores : columns
            As for :meth:`streameval.Evaluator.add_cases`.
        name, ax, hull, threshold, color
            As for :meth:`from_evaluator`.

        Returns
        -------
        RocCurveDisplay

        Raises
        ------
        InvalidInputError
            When a label or a score cannot be counted.
        """
        evaluator = evaluator_of(labels, scores)
        return cls.from_evaluator(
            evaluator, name=name, ax=ax, hull=hull, threshold=threshold, color=color
        )

    def plot(
        self,
        *,
        ax: Axes | None = None,
        threshold: float | None = None,
        color: str | None = None,
    ) -> Self:
        """Draw on `ax`, or on a new figure. Parameters as for :meth:`from_evaluator`."""
        ax = axes_for(ax)
        color = color or next_color(ax)
        self.ax_, self.figure_ = ax, figure_of(ax)
        unit_square(ax, "False positive rate", "True positive rate (recall)")
        self.chance_ = _chance(ax) if is_undrawn(ax, _CHANCE) else None
        points = self.points
        is_defined = points.P > 0 and points.N > 0
        fpr, tpr = thin(points.fpr, points.tpr) if is_defined else (np.empty(0), np.empty(0))
        label = legend_label(self.name, f"AUC-ROC {format_metric(points.auc_roc())}")
        (self.line_,) = ax.plot(fpr, tpr, color=color, linewidth=1.6, label=label, zorder=3)
        mark_curve(self.line_)
        self.hull_ = self.threshold_ = None
        if self.hull is not None and is_defined:
            label = f"convex hull ({format_metric(self.hull.auc_roc())})"
            self.hull_ = draw_hull(ax, self.hull.fpr, self.hull.tpr, color, label)
        if threshold is not None and is_defined:
            at = points.at_thresholds([threshold])
            self.threshold_ = mark_threshold(ax, at.fpr[1:2], at.tpr[1:2], color, threshold)
        legend(ax, "lower right")
        return self


def _chance(ax: Axes) -> Line2D:
    """Draw the diagonal, the ROC curve of random scores."""
    (line,) = ax.plot([0, 1], [0, 1], color=GUIDE, linewidth=0.8, linestyle=":", zorder=1)
    line.set_gid(_CHANCE)
    style = {"rotation": 45, "rotation_mode": "anchor", "va": "top"}
    guide_text(ax, "chance", (0.3, 0.3), (0, -3), **style)
    return line
