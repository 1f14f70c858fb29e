"""All facets of queries combined, for an evaluator and for one revision of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval._metrics.areas import AreaQueries
from streameval._metrics.curves import CurveQueries
from streameval._metrics.decisions import DecisionQueries
from streameval._metrics.probabilities import ProbabilityQueries
from streameval._metrics.ranked_retrieval import RankedQueries
from streameval._metrics.scorecards import ScorecardQueries
from streameval._metrics.skew import SkewQueries
from streameval._uncertainty.bounds import BoundsQueries
from streameval._uncertainty.intervals import UncertaintyQueries

if TYPE_CHECKING:
    from streameval._counts.view import View


class EvaluatorQueries(
    CurveQueries,
    AreaQueries,
    SkewQueries,
    RankedQueries,
    DecisionQueries,
    ScorecardQueries,
    ProbabilityQueries,
    UncertaintyQueries,
    BoundsQueries,
):
    """Every query, computed from the view that `_view` returns."""


class RevisionQueries(EvaluatorQueries):
    """Every query of one fixed revision; later mutations of its evaluator have no effect.

    Parameters
    ----------
    view : View
        The counts of the revision.
    """

    def __init__(self, view: View) -> None:
        self._revision_view = view

    def _view(self) -> View:
        return self._revision_view
