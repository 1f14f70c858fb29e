"""SampleForLabels: which predictions to label next, and a draw of their ids.

The answer is a function of the log up to its revision, of its window and of the request:
`maintenance.sample_at_revision` repeats it. Cost: O(ids of the stream) to copy them, and some
2 us for each one that waits.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval import InvalidInputError, allocate_labels
from streameval.statistics import BY_NAME, HEADLINE
from streameval.v1 import query_pb2
from streameval_server._model.errors import Code, RequestError, invalid
from streameval_server._queries.query_engine import range_message
from streameval_server._queries.selection import HalfLife, Selection, parse_selection

if TYPE_CHECKING:
    from streameval_server._model.stream_settings import StreamSettings
    from streameval_server._queries.query_engine import QueryEngine

MAX_DRAWN_IDS = 20_000
"""Ids of one draw: with 128 bytes each, an answer is smaller than clients take."""

_SEED_BITS = 64


@dataclass(frozen=True, slots=True)
class LabelSampleRequest:
    """A checked SampleForLabelsRequest. Equal requests have one answer.

    Attributes
    ----------
    selection : Selection
    size : int
    metric : str
    arguments : tuple of (str, float)
        Those of the metric.
    seed : int
    draw_ids : bool
    """

    selection: Selection
    size: int
    metric: str
    arguments: tuple[tuple[str, float], ...]
    seed: int
    draw_ids: bool


def parse_label_sample_request(request: query_pb2.SampleForLabelsRequest) -> LabelSampleRequest:
    """Check a request.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT with the field at fault.
    """
    selection = parse_selection(request.selection)
    if isinstance(selection.span, HalfLife):
        raise invalid(
            "selection.half_life", "labels are drawn for cases of equal weight: leave out half_life"
        )
    if not request.size:
        raise invalid("size", "size must be positive, got 0")
    if request.draw_ids and request.size > MAX_DRAWN_IDS:
        raise invalid(
            "size",
            f"size must be at most {MAX_DRAWN_IDS:,} where ids are drawn, got {request.size:,}",
        )
    name = request.metric or HEADLINE
    metric = BY_NAME.get(name)
    arguments = []
    if request.HasField("threshold"):
        if metric is not None and not metric.is_at_threshold:
            raise invalid("threshold", f"{name} takes no threshold")
        arguments.append(("threshold", request.threshold))
    if request.HasField("prevalence"):
        arguments.append(("prevalence", request.prevalence))
    seed = request.seed if request.HasField("seed") else secrets.randbits(_SEED_BITS)
    return LabelSampleRequest(
        selection, request.size, name, tuple(arguments), seed, request.draw_ids
    )


def label_sample(
    engine: QueryEngine, request: LabelSampleRequest
) -> query_pb2.SampleForLabelsResponse:
    """Return how many of each band of score to label, and the ids if they were asked for.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT for an invalid size, metric or argument of it, FAILED_PRECONDITION when
        no prediction waits, or where drawn labels cannot stand for the others.
    """
    resolved, ids_of, scores = engine.waiting(request.selection)
    _check_settings(resolved.view.info.settings, request.selection.stream)
    if not scores.size:
        raise RequestError(
            Code.FAILED_PRECONDITION,
            f"no prediction of stream {request.selection.stream} waits for its label",
            reason="NOTHING_WAITS",
        )
    window = engine.window(resolved)
    arguments = dict(request.arguments)
    metric = BY_NAME.get(request.metric)
    for name in () if metric is None else metric.needs:
        declared = getattr(resolved.view.info.settings, name, None)
        if declared is not None:
            arguments.setdefault(name, declared)
    try:
        allocation = allocate_labels(
            window,
            scores=scores,
            size=request.size,
            metric=request.metric,
            **arguments,
        )
    except InvalidInputError as error:
        raise invalid(error.field or "metric", str(error)) from error
    response = query_pb2.SampleForLabelsResponse(
        revision=resolved.view.revision,
        window=range_message(resolved),
        metric=allocation.metric,
        seed=request.seed,
        is_proportional=allocation.is_proportional,
        warnings=engine.warnings(resolved, window.resolution, engine.coverage(resolved)),
    )
    for band in allocation.bands:
        response.bands.add(
            lower=band.lower,
            upper=band.upper,
            waiting=band.waiting,
            to_label=band.to_label,
            label_probability=band.label_probability,
        )
    if request.draw_ids:
        sample = allocation.draw(ids=ids_of, scores=scores, seed=request.seed)
        for id_, probability in zip(sample.ids, sample.label_probabilities.tolist(), strict=True):
            response.ids.add(id=id_, label_probability=probability)
    return response


def _check_settings(settings: StreamSettings, stream: str) -> None:
    """Refuse a stream whose labels take no probability, or that also counts undrawn cases."""
    if settings.cluster_groups:
        fault = "declares clusters: its labels take no label probabilities"
    elif settings.orphans == "miss":
        fault = "counts orphans as misses: its labels take no label probabilities"
    elif settings.expired == "negative":
        fault = (
            "counts predictions that expire as negatives, although the drawn ones stand for "
            "them: labels are drawn where expired is DROP"
        )
    else:
        return
    raise RequestError(
        Code.FAILED_PRECONDITION, f"stream {stream} {fault}", reason="LABELS_STAND_FOR_NONE"
    )
