"""Requests for comparisons of pairs: parsed and checked by the message alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval import InvalidInputError
from streameval.statistics import BY_NAME, ComparedPair
from streameval.v1 import types_pb2
from streameval_server._model.crossed_keys import declared_key_problem
from streameval_server._model.errors import invalid
from streameval_server._model.pair_settings import check_pair_name
from streameval_server._queries.metrics import checked_level
from streameval_server._queries.selection import (
    Between,
    HalfLife,
    Selection,
    micros,
    parse_selection,
)

if TYPE_CHECKING:
    from streameval.v1 import pair_pb2
    from streameval_server._model.pair_settings import PairSettings

    Message = pair_pb2.GetPairComparisonRequest | pair_pb2.ListPairComparisonsRequest

_DEFAULT_METRIC = "auc_pr"


@dataclass(frozen=True, slots=True)
class PairQuestion:
    """A checked request for a comparison. Equal questions have equal answers.

    Attributes
    ----------
    name : str
        The pair's.
    selection : Selection
    metric : str
    prevalence : float or None
        That was asked for; None for the pair's.
    own_prevalence : bool
    level : float
    by_segment : str
        The key whose values are compared too; "" for none.
    step_us : int
        Width of a step of a series; 0 for one comparison.
    cumulative : bool
        Whether each step of a series begins with the span.
    """

    name: str
    selection: Selection
    metric: str
    prevalence: float | None
    own_prevalence: bool
    level: float
    by_segment: str = ""
    step_us: int = 0
    cumulative: bool = False

    def usual_prevalence(self, settings: PairSettings) -> float | None:
        """Return the pair's prevalence, None for metrics that are not rescaled."""
        return settings.prevalence if BY_NAME[self.metric].is_rescaled else None

    def prevalence_in(self, settings: PairSettings) -> float | None:
        """Return the prevalence that areas are rescaled to; None keeps the ids' own."""
        if self.own_prevalence:
            return None
        return self.usual_prevalence(settings) if self.prevalence is None else self.prevalence


def parse_comparison(request: pair_pb2.GetPairComparisonRequest) -> PairQuestion:
    """Check a request for one comparison.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT with the field at fault.
    """
    problem = declared_key_problem(request.by_segment, "by_segment") if request.by_segment else None
    if problem is not None:
        raise invalid("by_segment", problem)
    if request.by_segment and request.selection.HasField("segment"):
        raise invalid("by_segment", "by_segment compares all values: leave selection.segment out")
    return _parsed(request, by_segment=request.by_segment)


def parse_series(request: pair_pb2.ListPairComparisonsRequest) -> PairQuestion:
    """Check a request for a series.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT with the field at fault.
    """
    step_us = micros(request.step, "step")
    if step_us <= 0:
        raise invalid("step", f"step must be positive, got {step_us / 1e6:g} s")
    question = _parsed(request, step_us=step_us, cumulative=request.cumulative)
    if not isinstance(question.selection.span, Between):
        raise invalid("selection.between", "a time series needs its span: set selection.between")
    return question


def _parsed(
    request: Message, *, by_segment: str = "", step_us: int = 0, cumulative: bool = False
) -> PairQuestion:
    check_pair_name(request.name)
    chosen = types_pb2.Selection()
    chosen.CopyFrom(request.selection)
    if chosen.stream:
        raise invalid("selection.stream", "the pair has its streams: leave it empty")
    chosen.stream = request.name
    selection = parse_selection(chosen)
    if isinstance(selection.span, HalfLife):
        raise invalid(
            "selection.half_life",
            "a pair compares rows of equal weight: choose last, between or last_cases",
        )
    metric = request.metric or _DEFAULT_METRIC
    level = checked_level(request.level)
    prevalence = request.prevalence or None
    if prevalence is not None and request.own_prevalence:
        raise invalid("prevalence", "prevalence and own_prevalence exclude each other")
    try:
        ComparedPair.check(metric, level, prevalence)
    except InvalidInputError as error:
        raise invalid(error.field or "metric", str(error)) from None
    return PairQuestion(
        request.name,
        selection,
        metric,
        prevalence,
        request.own_prevalence,
        level,
        by_segment,
        step_us,
        cumulative,
    )
