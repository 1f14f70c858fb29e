"""All facets of queries put together, for an evaluator and for one revision of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval._certainty.bounds import BoundsQueries
from streameval._certainty.intervals import UncertaintyQueries
from streameval._figures.areas import AreaQueries
from streameval._figures.curves import CurveQueries
from streameval._figures.decisions import DecisionQueries
from streameval._figures.probabilities import ProbabilityQueries
from streameval._figures.ranked import RankedQueries
from streameval._figures.scorecards import ScorecardQueries
from streameval._figures.skew import SkewQueries

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


class At(EvaluatorQueries):
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
