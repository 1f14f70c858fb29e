"""The plot of precision, recall and F against the threshold."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.keywords import by_keyword
from streameval._metrics.confusion import f_weights
from streameval.display._bands import LEVEL, wilson
from streameval.display._canvas import (
    BAND_ALPHA,
    GUIDE,
    PALETTE,
    axes_for,
    evaluator_of,
    figure_of,
    format_metric,
    label_axes,
    legend,
    use_log_axis,
)
from streameval.display._paths import thin

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import FillBetweenPolyCollection
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

    from streameval._common.arrays import FloatArray, IntArray
    from streameval._evaluator import Evaluator
    from streameval._metrics.operating_points import OperatingPoints


class ThresholdDisplay:
    """Precision, recall and F if every score >= threshold is called positive.

    Created by :meth:`from_evaluator` or :meth:`from_predictions`.

    Parameters
    ----------
    points : OperatingPoints
        The points to draw, as steps, because nothing changes between two scores.
    beta : float
        Weight of recall against precision in F.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the plot.
    precision_, recall_, f_ : Line2D
        The three lines, over ascending thresholds.
    bands_ : list of FillBetweenPolyCollection
        Wilson's 95 % intervals of precision and recall at each threshold, assuming
        independent cases. F has none. Empty where cases have weights: a curve of their
        sums has no numbers of cases.
    threshold_ : Line2D or None
        The vertical line at the chosen threshold.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from streameval import Evaluator
    >>> ev = Evaluator()
    >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
    >>> display = ThresholdDisplay.from_evaluator(ev, ax=Figure().subplots())
    >>> display.recall_.get_ydata().tolist()
    [1.0, 1.0, 0.5, 0.5]
    """

    ax_: Axes
    figure_: Figure | SubFigure
    precision_: Line2D
    recall_: Line2D
    f_: Line2D
    bands_: list[FillBetweenPolyCollection]
    threshold_: Line2D | None

    def __init__(self, points: OperatingPoints, *, beta: float = 1.0) -> None:
        if not (beta > 0 and math.isfinite(beta)):
            raise InvalidInputError(f"beta must be positive and finite, got {beta}", field="beta")
        self.points = points
        self.beta = beta

    @classmethod
    @by_keyword
    def from_evaluator(
        cls,
        evaluator: Evaluator,
        *,
        ax: Axes | None = None,
        log: bool = False,
        beta: float = 1.0,
        threshold: float | None = None,
    ) -> Self:
        """Draw the lines of an evaluator.

        Parameters
        ----------
        evaluator : Evaluator
            The evaluator to draw; without positives only the axes are drawn.
        ax : matplotlib Axes or None
            The axes to draw on; None creates a new figure. A figure without a layout
            engine gets the constrained one, which makes room for the legend above the axes.
        log : bool
            Whether the axes are logarithmic, for rare positives: of the values, and of the
            threshold if all scores are in (0, 1].
        beta : float
            Weight of recall against precision in F, positive and finite.
        threshold : float or None
            A threshold to mark; None marks the threshold of the highest F, which is
            optimistic: it is chosen on the same cases that are drawn.

        Returns
        -------
        ThresholdDisplay

        Raises
        ------
        InvalidInputError
            When `beta` is not positive and finite.

        Notes
        -----
        O(n) for n distinct scores.
        """
        display = cls(evaluator.operating_points(), beta=beta)
        return display.plot(ax=ax, log=log, threshold=threshold)

    @classmethod
    @by_keyword
    def from_predictions(
        cls,
        *,
        labels: Any,
        scores: Any,
        positive: Any = None,
        negative: Any = None,
        ax: Axes | None = None,
        log: bool = False,
        beta: float = 1.0,
        threshold: float | None = None,
    ) -> Self:
        """Draw the lines of columns, as :meth:`from_evaluator` does.

        Parameters
        ----------
        labels, scores, positive, negative
            As for :meth:`streameval.Evaluator.add_cases`.
        ax, log, beta, threshold
            As for :meth:`from_evaluator`.

        Returns
        -------
        ThresholdDisplay

        Raises
        ------
        InvalidInputError
            When a label, a score or `beta` is invalid.
        """
        evaluator = evaluator_of(labels, scores, positive, negative)
        return cls.from_evaluator(evaluator, ax=ax, log=log, beta=beta, threshold=threshold)

    def plot(
        self, *, ax: Axes | None = None, log: bool = False, threshold: float | None = None
    ) -> Self:
        """Draw on `ax`, or on a new figure. Parameters as for :meth:`from_evaluator`."""
        ax = axes_for(ax)
        self.ax_, self.figure_ = ax, figure_of(ax)
        points = self.points
        # Ascending and finite: (0, 0) and the misses have no score.
        shown = np.flatnonzero(np.isfinite(points.thresholds))[::-1]
        if points.P == 0:
            shown = shown[:0]
        thresholds = points.thresholds[shown]
        precision, recall = points.precision[shown], points.recall[shown]
        f = self._f(points, shown)
        name = f"F{'' if self.beta == 1 else f'{self.beta:g}'}"
        is_log_value = log and thresholds.size > 0
        is_log = bool(is_log_value and thresholds[0] > 0 and thresholds[-1] <= 1)
        lines = []
        styles = (("precision", precision, "-"), ("recall", recall, "--"), (name, f, "-."))
        for (label, values, style), color in zip(styles, PALETTE):
            (line,) = ax.plot(
                *thin(thresholds, values, log=is_log),
                color=color,
                linestyle=style,
                linewidth=1.6,
                drawstyle="steps-pre",
                label=label,
            )
            lines.append(line)
        self.precision_, self.recall_, self.f_ = lines
        has_bands = thresholds.size > 0 and not points.is_weighted
        self.bands_ = self._bands(points, shown, log=is_log) if has_bands else []
        self.threshold_ = None
        if thresholds.size and threshold is None:
            # Among equal F, take the last, highest threshold, which calls the fewest positive.
            threshold = float(thresholds[thresholds.size - 1 - int(np.argmax(f[::-1]))])
        if thresholds.size and threshold is not None:
            self.threshold_ = self._mark(threshold)
        if ax.get_yscale() != "log":
            ax.set(ylim=(-0.01, 1.01), yticks=[0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
        label_axes(ax, "Threshold", "Precision, recall, F")
        ax.margins(x=0.01)
        if is_log_value:
            use_log_axis(ax, "y", points.P / (points.P + points.N) / 2)
        if is_log:
            # Below the last positive's score recall is 1, and nothing else changes much.
            last = thresholds[np.flatnonzero(recall == recall[0])[-1]]
            use_log_axis(ax, "x", float(last) / 2)
            ax.set_xlim(right=1.05 * float(thresholds[-1]))
        legend(ax)
        return self

    def _bands(
        self, points: OperatingPoints, rows: IntArray, *, log: bool
    ) -> list[FillBetweenPolyCollection]:
        """Fill the intervals of precision, over what is called, and of recall, over P."""
        tp, fp = points.tp[rows], points.fp[rows]
        bands = []
        for line, whole in ((self.precision_, tp + fp), (self.recall_, points.P)):
            lower, upper = wilson(tp, whole, LEVEL)
            x, low = thin(points.thresholds[rows], lower, log=log)
            high = np.interp(x, points.thresholds[rows], upper)
            band = self.ax_.fill_between(
                x, low, high, step="pre", color=line.get_color(), alpha=BAND_ALPHA, linewidth=0
            )
            bands.append(band)
        bands[0].set_label("95 % interval at each threshold")
        return bands

    def _f(self, points: OperatingPoints, rows: Any) -> FloatArray:
        of_recall, of_precision = f_weights(self.beta)
        tp, fp = points.tp[rows], points.fp[rows]
        weighed = tp + of_recall * (points.P - tp) + of_precision * fp
        f: FloatArray = np.zeros(tp.shape)
        np.divide(tp, weighed, out=f, where=weighed > 0)
        return f

    def _mark(self, threshold: float) -> Line2D:
        """Draw the chosen threshold and the values of the three lines there."""
        ax = self.ax_
        line = ax.axvline(threshold, color=GUIDE, linewidth=0.8, linestyle=":", zorder=1)
        chosen = self.points.at_thresholds([threshold])
        row = slice(1, 2)
        marks = (
            (self.precision_, float(chosen.precision[row][0])),
            (self.recall_, float(chosen.recall[row][0])),
            (self.f_, float(self._f(chosen, row)[0])),
        )
        tp, fp = chosen.tp[row], chosen.fp[row]
        wholes = (None, None, None) if chosen.is_weighted else (tp + fp, self.points.P, None)
        for (curve, value), whole in zip(marks, wholes, strict=True):
            ax.plot(
                [threshold],
                [value],
                marker="o",
                markersize=5,
                markeredgecolor="white",
                color=curve.get_color(),
            )
            text = f"{curve.get_label()} {format_metric(value)}"
            if whole is not None:
                interval = wilson(tp, whole, LEVEL)
                low, high = (format_metric(float(each[0])) for each in interval)
                text = f"{text} ({low} to {high})"
            curve.set_label(text)
        line.set_label(f"at threshold {threshold:.3g}")
        return line
