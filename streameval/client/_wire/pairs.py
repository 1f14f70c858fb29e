"""The calls for pairs of streams, and their answers as objects."""

from __future__ import annotations

import math
import uuid
from dataclasses import fields
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from streameval._common.errors import InvalidInputError
from streameval._common.values import real, shown
from streameval._uncertainty.interval import Interval
from streameval.client._wire.calls import Call, PagedCall
from streameval.client._wire.decode import read_interval, read_limits, read_span
from streameval.client._wire.pair_answers import (
    Disagreement,
    PairComparison,
    PairCounters,
    PairCoverage,
    PairInfo,
    PairSettings,
    PairVerdict,
)
from streameval.client._wire.selection import Selection, duration
from streameval.v1 import pair_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from google.protobuf.message import Message

_PAGE_SIZE: Final = 1_000
_SPANS = ("pane", "retention", "label_ttl", "relabel_ttl")
_MAX_CELLS, _MAX_IDS = 2**32 - 1, 2**64 - 1
"""The largest numbers that the fields hold; the server's limits are smaller."""

_VERDICTS: dict[int, PairVerdict] = {
    pair_pb2.PAIR_VERDICT_A_BETTER: "a_better",
    pair_pb2.PAIR_VERDICT_B_BETTER: "b_better",
    pair_pb2.PAIR_VERDICT_NOT_DECIDED: "not_decided",
    pair_pb2.PAIR_VERDICT_TOO_EARLY: "too_early",
}
_REFUSAL_PREFIX = "PAIR_REFUSAL_"


class NewPairSettings(TypedDict, total=False):
    """Settings that `Client.create_pair` takes; see `PairSettings`."""

    max_cells: int
    max_pending: int
    prevalence: float
    pane: timedelta
    retention: timedelta
    label_ttl: timedelta
    relabel_ttl: timedelta


# --- calls ------------------------------------------------------------------------------------


def create_pair(a: str, b: str, settings: Mapping[str, Any]) -> Call[pair_pb2.CreatePairResponse]:
    """Return the call that makes a pair."""
    pair = pair_pb2.Pair(a=a, b=b, settings=_settings_message(settings))
    request = pair_pb2.CreatePairRequest(pair=pair, request_id=str(uuid.uuid4()))
    return Call("PairService", "CreatePair", request, lambda response: response)


def get_pair(a: str, b: str) -> Call[PairInfo]:
    """Return the call for a pair's description."""
    request = pair_pb2.GetPairRequest(a=a, b=b)
    return Call("PairService", "GetPair", request, lambda response: read_pair(response.pair))


def list_pairs(stream: str) -> PagedCall[list[PairInfo]]:
    """Return the calls for the list of pairs, page by page."""
    request = pair_pb2.ListPairsRequest(stream=stream, page_size=_PAGE_SIZE)
    found: list[PairInfo] = []
    while True:
        response: pair_pb2.ListPairsResponse = yield Call(
            "PairService", "ListPairs", request, lambda response: response
        )
        found += map(read_pair, response.pairs)
        if not response.next_page_token:
            return found
        request.page_token = response.next_page_token


def delete_pair(a: str, b: str) -> Call[pair_pb2.DeletePairResponse]:
    """Return the call that deletes a pair."""
    request = pair_pb2.DeletePairRequest(a=a, b=b, request_id=str(uuid.uuid4()))
    return Call("PairService", "DeletePair", request, lambda response: response)


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
    _set_prevalence(request, prevalence)
    return Call(
        "PairService",
        "GetPairComparison",
        request,
        lambda response: _read_answer(response, metric, level),
    )


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
    _set_prevalence(request, prevalence)
    return Call(
        "PairService",
        "ListPairComparisons",
        request,
        lambda response: [_read_comparison(each, metric, level) for each in response.comparisons],
    )


def _without_stream(selection: Selection, revision: int) -> Any:
    message = selection.to_message(revision)
    message.ClearField("stream")
    return message


def _set_prevalence(request: Any, prevalence: float | str) -> None:
    if prevalence == "own":
        request.own_prevalence = True
    elif prevalence != "pair":
        if isinstance(prevalence, str) or not 0 < prevalence < 1:
            message = (
                f"prevalence must be 'pair', 'own' or between 0 and 1, got {shown(prevalence)}"
            )
            raise InvalidInputError(message, field="prevalence")
        request.prevalence = prevalence


def _settings_message(settings: Mapping[str, Any]) -> pair_pb2.PairSettings:
    message = pair_pb2.PairSettings()
    for name, value in settings.items():
        if name in _SPANS:
            getattr(message, name).CopyFrom(duration(value, field=name))
        elif name == "prevalence":
            message.prevalence = real(value, name)
        elif name in {"max_cells", "max_pending"}:
            greatest = _MAX_CELLS if name == "max_cells" else _MAX_IDS
            is_integer = isinstance(value, int) and not isinstance(value, bool)
            if not is_integer or not 1 <= value <= greatest:
                text = f"{name} must be a positive integer, got {shown(value)}"
                raise InvalidInputError(text, field=name)
            setattr(message, name, value)
        else:
            raise TypeError(f"there is no setting {name!r}")
    return message


# --- answers ----------------------------------------------------------------------------------


def read_pair(message: pair_pb2.Pair) -> PairInfo:
    """Return a pair's description."""
    given = message.settings
    counters = None
    if message.HasField("counters"):
        counters = PairCounters(**_columns(message.counters, PairCounters))
    return PairInfo(
        a=message.a,
        b=message.b,
        created_at=message.create_time.ToDatetime(UTC),
        created_revision=message.create_revision,
        settings=PairSettings(
            max_cells=given.max_cells,
            max_pending=given.max_pending,
            prevalence=given.prevalence if given.HasField("prevalence") else None,
            **{name: getattr(given, name).ToTimedelta() for name in _SPANS},
            segment_keys=tuple(given.segment_keys),
            cluster_groups=given.cluster_groups,
            expired="negative" if given.expired_negative else "drop",
        ),
        counters=counters,
    )


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
    refusal = pair_pb2.PairRefusal.Name(message.refusal).removeprefix(_REFUSAL_PREFIX)
    since = message.decided_since.ToDatetime(UTC) if message.HasField("decided_since") else None
    segment = (message.segment.key, message.segment.value) if message.HasField("segment") else None
    has_thresholds = message.HasField("disagreement")
    return PairComparison(
        metric=message.value_a.name or metric,
        difference=difference.estimate,
        lower=difference.lower,
        upper=difference.upper,
        level=difference.level or level,
        p_value=message.p_value if message.HasField("p_value") else math.nan,
        prevalence=message.prevalence if message.HasField("prevalence") else None,
        a=read_interval(message.value_a),
        b=read_interval(message.value_b),
        reason=refusal if message.refusal else None,
        e_value=message.e_value if message.HasField("e_value") else math.nan,
        design_effect=difference.design_effect,
        warnings=tuple(message.warnings),
        names=(message.a, message.b),
        revision=message.revision,
        verdict=_VERDICTS.get(message.verdict, "no_answer"),
        sentence=message.sentence,
        looks=_looks(message, difference.estimate, level),
        decided_since=since,
        labels_needed=message.labels_needed if message.HasField("labels_needed") else None,
        coverage=PairCoverage(**_columns(message.coverage, PairCoverage)),
        disagreement=Disagreement(**_columns(message.disagreement, Disagreement))
        if has_thresholds
        else None,
        window=read_span(message, "window"),
        segment=segment,
        in_cells=message.in_cells,
        segments=segments,
    )


def _looks(message: pair_pb2.PairComparison, estimate: float, level: float) -> Interval:
    """Return the limits of all looks together; nan where there are none."""
    lower, upper = read_limits(message.anytime)
    return Interval(lower, upper, level, "normal-mixture", estimate, anytime=True)


def _columns(message: Message, answer: type) -> dict[str, Any]:
    """Return the fields of a message by name; an absent field is None."""
    found = {}
    for each in fields(answer):
        field = message.DESCRIPTOR.fields_by_name[each.name]
        is_absent = field.has_presence and not message.HasField(each.name)
        found[each.name] = None if is_absent else getattr(message, each.name)
    return found
