"""Plots of an evaluator's curves, with the same interpolation as its metrics.

::

    from streameval.display import PrecisionRecallDisplay
    display = PrecisionRecallDisplay.from_evaluator(ev, name="model A")
    PrecisionRecallDisplay.from_evaluator(other, name="model B", ax=display.ax_)

A display is created by `from_evaluator`, or by `from_predictions` from columns; one
``ax`` can show several. The matplotlib artists are kept in attributes with a trailing
underscore (``ax_``, ``figure_``, ``line_``, ...), so that they can be restyled.

Needs matplotlib (``pip install 'streameval[plot]'``), which is imported at the first
plot.
"""

from streameval.display._precision_recall import PrecisionRecallDisplay
from streameval.display._reliability import ReliabilityDisplay
from streameval.display._roc import RocCurveDisplay
from streameval.display._threshold import ThresholdDisplay

__all__ = [
    "PrecisionRecallDisplay",
    "ReliabilityDisplay",
    "RocCurveDisplay",
    "ThresholdDisplay",
]
