"""The calls for pairs of streams, and their answers as objects."""

from __future__ import annotations

import math
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final, Literal

from streameval._uncertainty.interval import Interval
from streameval.client._wire.calls import (
    Call,
    PagedCall,
    all_pages,
    new_request_id,
    set_prevalence,
)
from streameval.client._wire.decode import read_interval, read_limits
from streameval.client._wire.pair_answers import (
    Disagreement,
    PairComparison,
    PairCounters,
    PairCoverage,
    PairInfo,
    PairSettings,
    PairVerdict,
)
from streameval.client._wire.reader import becomes, label, read, reads
from streameval.client._wire.selection import Selection, duration
from streameval.client._wire.settings import NewPairSettings, set_settings
from streameval.v1 import pair_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

_PAGE_SIZE: Final = 1_000
_VERDICTS: dict[int, PairVerdict] = {
    pair_pb2.PAIR_VERDICT_A_BETTER: "a_better",
    pair_pb2.PAIR_VERDICT_B_BETTER: "b_better",
    pair_pb2.PAIR_VERDICT_NOT_DECIDED: "not_decided",
    pair_pb2.PAIR_VERDICT_TOO_EARLY: "too_early",
}


# --- calls ------------------------------------------------------------------------------------


def create_pair(a: str, b: str, settings: Mapping[str, Any]) -> Call[pair_pb2.CreatePairResponse]:
    """Return the call that makes a pair."""
    request = pair_pb2.CreatePairRequest(request_id=new_request_id())
    request.pair.a, request.pair.b = a, b
    set_settings(request.pair.settings, NewPairSettings.__annotations__, settings)
    return Call(request)


def get_pair(a: str, b: str) -> Call[PairInfo]:
    """Return the call for a pair's description."""
    request = pair_pb2.GetPairRequest(a=a, b=b)
    return Call(request, lambda response: read_pair(response.pair))


def list_pairs(stream: str) -> PagedCall[list[PairInfo]]:
    """Return the calls for the list of pairs, page by page."""
    request = pair_pb2.ListPairsRequest(stream=stream, page_size=_PAGE_SIZE)
    pages = yield from all_pages(request)
    return [read_pair(each) for page in pages for each in page.pairs]


def delete_pair(a: str, b: str) -> Call[pair_pb2.DeletePairResponse]:
    """Return the call that deletes a pair."""
    return Call(pair_pb2.DeletePairRequest(a=a, b=b, request_id=new_request_id()))


def compare_pair(
    selection: Selection,
    b: str,
    revision: int,
    *,
    metric: str,
    prevalence: float | Literal["pair", "own"],
    level: float,
    by_segment: str,
) -> Call[PairComparison]:
    """Return the call that compares the selection's stream (a) with the pair's other, b."""
    request = pair_pb2.GetPairComparisonRequest(
        a=selection.stream,
        b=b,
        selection=_without_stream(selection, revision),
        metric=metric,
        level=level,
        by_segment=by_segment,
    )
    set_prevalence(request, prevalence, default="pair")
    return Call(request, lambda response: _read_answer(response, metric, level))


def pair_series(
    selection: Selection,
    b: str,
    revision: int,
    step: timedelta,
    *,
    metric: str,
    prevalence: float | Literal["pair", "own"],
    level: float,
    cumulative: bool,
) -> Call[list[PairComparison]]:
    """Return the call that compares them for each step of a span."""
    request = pair_pb2.ListPairComparisonsRequest(
        a=selection.stream,
        b=b,
        selection=_without_stream(selection, revision),
        step=duration(step, field="step"),
        metric=metric,
        level=level,
        cumulative=cumulative,
    )
    set_prevalence(request, prevalence, default="pair")
    return Call(
        request,
        lambda response: [_read_comparison(each, metric, level) for each in response.comparisons],
    )


def _without_stream(selection: Selection, revision: int) -> Any:
    message = selection.to_message(revision)
    message.ClearField("stream")
    return message


# --- answers ----------------------------------------------------------------------------------


def read_pair(message: pair_pb2.Pair) -> PairInfo:
    """Return a pair's description."""
    return read(
        message,
        PairInfo,
        created_at=message.create_time.ToDatetime(UTC),
        created_revision=message.create_revision,
    )


@reads(pair_pb2.PairSettings)
def _read_settings(message: pair_pb2.PairSettings) -> PairSettings:
    return read(message, PairSettings, expired="negative" if message.expired_negative else "drop")


becomes(pair_pb2.PairCounters, PairCounters)
becomes(pair_pb2.PairCoverage, PairCoverage)
becomes(pair_pb2.Disagreement, Disagreement)


def _read_answer(
    response: pair_pb2.GetPairComparisonResponse, metric: str, level: float
) -> PairComparison:
    segments = tuple(_read_comparison(each, metric, level) for each in response.segments)
    return _read_comparison(response.comparison, metric, level, segments)


def _read_comparison(
    message: pair_pb2.PairComparison,
    metric: str,
    level: float,
    segments: tuple[PairComparison, ...] = (),
) -> PairComparison:
    difference = read_interval(message.difference)
    refusal = label(pair_pb2.PairRefusal.DESCRIPTOR, message.refusal)
    looks = Interval(
        *read_limits(message.anytime), level, "normal-mixture", difference.estimate, anytime=True
    )
    return read(
        message,
        PairComparison,
        metric=message.value_a.name or metric,
        difference=difference.estimate,
        lower=difference.lower,
        upper=difference.upper,
        level=difference.level or level,
        a=read_interval(message.value_a),
        b=read_interval(message.value_b),
        anytime=False,
        e_value=message.e_value if message.HasField("e_value") else math.nan,
        reason=refusal if message.refusal else None,
        design_effect=difference.design_effect,
        names=(message.a, message.b),
        verdict=_VERDICTS.get(message.verdict, "no_answer"),
        looks=looks,
        segments=segments,
    )
