"""Warnings in an answer: what to know before trusting its metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from streameval.checks import OTHER_VALUE
from streameval.v1 import types_pb2
from streameval_server._queries.selection import iso

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval_server._queries.resolved_selection import ResolvedSelection

Warned: TypeAlias = "tuple[types_pb2.WarningKind.ValueType, str]"
"""What a warning is about, for programs, and its words."""

_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))


def warnings_of(
    resolved: ResolvedSelection, resolution: int | None, typical_delay_us: float | None
) -> list[Warned]:
    """Return the warnings of an answer. O(1).

    Parameters
    ----------
    resolved
        The selection that the answer covers.
    resolution
        Significant bits of a score that the counts keep; None means all.
    typical_delay_us
        The time within which nine labels of ten arrive; None without predictions by id.
    """
    return [
        *_about_slice(resolved),
        *_about_span(resolved, typical_delay_us),
        *_about_resolution(resolved, resolution),
    ]


def _about_slice(resolved: ResolvedSelection) -> Iterator[Warned]:
    if resolved.view.info.settings.expired == "negative":
        text = (
            "predictions whose label did not come in time count as negatives: labels are not "
            "missing at random, so figures may be off by more than their intervals say"
        )
        yield types_pb2.WARNING_KIND_EXPIRED_AS_NEGATIVES, text
    early = resolved.view.counters.expired_early
    if early:
        text = (
            f"{early:,} predictions of the stream expired before their label_ttl, because more "
            f"ids waited than max_pending, {resolved.view.info.settings.max_pending:,}: their "
            "labels do not count. 'streameval streams update --max-pending' raises it"
        )
        yield types_pb2.WARNING_KIND_EXPIRED_EARLY, text
    segment = resolved.selection.segment
    if segment is not None and resolved.view.slice(segment) is None:
        key, value = segment
        text = f"no case of {key}={value} has been seen"
        if resolved.view.slice((key, OTHER_VALUE)) is not None:
            text += f"; values beyond the maximum number for {key} are counted in {OTHER_VALUE}"
        yield types_pb2.WARNING_KIND_SEGMENT_UNSEEN, text
    if segment is not None and resolved.view.info.settings.cluster_groups:
        if resolved.whole is None:
            text = (
                "slices are not counted by groups of clusters: limits of a decayed one take its "
                "cases as independent"
            )
            yield types_pb2.WARNING_KIND_CLUSTERS_OF_WHOLE, text
        else:
            text = (
                "slices are not counted by groups of clusters: limits allow for clusters with "
                "the design effect of the whole"
            )
            yield types_pb2.WARNING_KIND_CLUSTERS_OF_WHOLE, text


def _about_span(resolved: ResolvedSelection, typical_delay_us: float | None) -> Iterator[Warned]:
    if resolved.span_us is None:
        return
    start_us, end_us = resolved.span_us
    if resolved.is_clipped:
        kept = in_words(resolved.view.info.settings.retention_us)
        oldest = iso(resolved.oldest_us)
        text = f"cases are kept for {kept}: what was asked for begins before {oldest}"
        yield types_pb2.WARNING_KIND_BEYOND_RETENTION, text
    if end_us <= start_us:
        text = "mature_after leaves no pane of this window"
        yield types_pb2.WARNING_KIND_NOTHING_MATURE, text
    # The age of the window's middle.
    age_us = resolved.now_us - (start_us + end_us) / 2
    if typical_delay_us and age_us < typical_delay_us:
        text = (
            f"most of this window is younger than {in_words(typical_delay_us)}, the time in which "
            "nine labels of ten arrive: its figures will change; mature_after leaves young "
            "panes out"
        )
        yield types_pb2.WARNING_KIND_LABELS_TO_COME, text


def _about_resolution(resolved: ResolvedSelection, resolution: int | None) -> Iterator[Warned]:
    if resolution is None:
        return
    settings = resolved.view.info.settings
    if resolved.span_us is None and resolved.selection.segment is None:
        text = (
            f"scores are kept to {resolution} significant bits, because there were too many "
            "distinct ones to keep all: bounds say how much that hides"
        )
        yield types_pb2.WARNING_KIND_COARSE_SCORES, text
    elif resolution < settings.resolution:
        text = (
            f"scores are kept to {resolution} significant bits instead of {settings.resolution}, "
            "because they fell into too many cells: bounds say how much that hides"
        )
        yield types_pb2.WARNING_KIND_COARSE_SCORES, text


def in_words(span_us: float) -> str:
    """Return a span of time as a number with a unit.

    Examples
    --------
    >>> in_words(5_400e6), in_words(86_400e6), in_words(0.25e6)
    ('1.5 h', '1 d', '0.25 s')
    """
    seconds = span_us / 1e6
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), _UNITS[-1])
    return f"{seconds / size:.3g} {unit}"
