"""All facets of queries put together, for an evaluator and for one revision of it."""

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
    """Every query, over whatever view `view` gives."""


class RevisionQueries(EvaluatorQueries):
    """Every query of one revision, whatever its evaluator does meanwhile.

    Parameters
    ----------
    view : View
        The counts to read.
    """

    def __init__(self, view: View) -> None:
        self._seen = view

    def _view(self) -> View:
        return self._seen
