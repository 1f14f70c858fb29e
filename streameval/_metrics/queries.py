"""All facets of metric queries put together, for an evaluator and for any view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval._metrics.areas import AreaQueries
from streameval._metrics.class_separation import ScorecardQueries
from streameval._metrics.curves import CurveQueries
from streameval._metrics.decisions import DecisionQueries
from streameval._metrics.probabilities import ProbabilityQueries
from streameval._metrics.ranked_retrieval import RankedQueries
from streameval._metrics.skew import SkewQueries
from streameval._metrics.weighting import WeightQueries

if TYPE_CHECKING:
    from streameval._counts.view import View


class MetricQueries(
    CurveQueries,
    AreaQueries,
    SkewQueries,
    RankedQueries,
    DecisionQueries,
    ScorecardQueries,
    ProbabilityQueries,
    WeightQueries,
):
    """Every metric and curve, without intervals and bounds."""


class ViewQueries(MetricQueries):
    """The metrics of one view, whose cache keeps the answers.

    Parameters
    ----------
    view : View
        The counts to read.
    """

    def __init__(self, view: View) -> None:
        self._fixed_view = view

    def _view(self) -> View:
        return self._fixed_view
