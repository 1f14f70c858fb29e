"""Plots of an evaluator's curves, with the same interpolation as its metrics.

::

    display = ev.plot(name="model A")
    other.plot(name="model B", ax=display.ax_)
    ev.plot("roc", log=True)

:meth:`streameval.Evaluator.plot` creates a display, and so does `from_predictions` of columns;
one ``ax`` can show several. Axes are linear unless ``log=True`` is given. The matplotlib
artists are kept in attributes with a trailing underscore (``ax_``, ``figure_``, ``line_``, ...),
so that they can be restyled.

Needs matplotlib (``pip install 'streameval[plot]'``), which is imported at the first
plot.
"""

from streameval.display._precision_recall import PrecisionRecallDisplay
from streameval.display._reliability import ReliabilityDisplay
from streameval.display._roc import RocCurveDisplay
from streameval.display._threshold import ThresholdDisplay

DISPLAYS = {
    "pr": PrecisionRecallDisplay,
    "roc": RocCurveDisplay,
    "threshold": ThresholdDisplay,
    "reliability": ReliabilityDisplay,
}
"""What `Evaluator.plot` calls each."""

__all__ = [
    "PrecisionRecallDisplay",
    "ReliabilityDisplay",
    "RocCurveDisplay",
    "ThresholdDisplay",
]
