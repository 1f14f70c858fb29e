"""Pictures of an evaluator, drawn as its numbers are computed.

::

    from streameval.display import PrecisionRecallDisplay
    display = PrecisionRecallDisplay.from_evaluator(ev, name="model A")
    PrecisionRecallDisplay.from_evaluator(other, name="model B", ax=display.ax_)

Each display is made by `from_evaluator`, or by `from_predictions` from columns;
several go on one ``ax``. What was drawn is kept in attributes with a trailing
underscore (``ax_``, ``figure_``, ``line_``, ...), so that it can be restyled.

Needs matplotlib (``pip install 'streameval[plot]'``), which is imported when
something is first drawn.
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
