"""The reference of a stream's detector, frozen from its panes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from streameval import InvalidInputError
from streameval.kernel import merge_states
from streameval.statistics import DriftSettings, FrozenReference, ReferenceCases

if TYPE_CHECKING:
    from streameval_server._model.stream_settings import StreamSettings
    from streameval_server._state.views import FrozenStream, SliceView

MAX_SEGMENTS: Final = 32
"""The most segments that may explain an alarm: those with the most cases when it is frozen."""


class AlarmReference(NamedTuple):
    """A frozen reference, and the significant bits of a score that its panes keep."""

    settings: DriftSettings
    frozen: FrozenReference
    resolution: int


def freeze_reference(
    settings: StreamSettings, counts: FrozenStream, span_us: tuple[int, int]
) -> AlarmReference:
    """Freeze the cases of the panes that lie within [start, end). O(cells) of the panes.

    Raises
    ------
    InvalidInputError
        When they have too few cases of a class, or weights, or no change could be seen.
    """
    assert settings.alarms is not None
    whole = _cases(counts.slice(0), span_us)
    # Panes with very many distinct scores keep fewer bits than the stream declares.
    resolution = whole.state.resolution or settings.resolution
    drift = settings.alarms.drift_settings(
        scale=settings.scale,
        threshold=settings.threshold,
        resolution=resolution,
        has_clusters=settings.cluster_groups > 0,
    )
    frozen = FrozenReference.of(whole, _segments(counts, span_us), drift)
    return AlarmReference(drift, frozen, resolution)


def _segments(counts: FrozenStream, span_us: tuple[int, int]) -> dict[str, ReferenceCases]:
    """Return the references of the segments that may explain an alarm, by "key=value"."""
    sizes = sorted(
        (-counts.slice(number).all_time.num_cases, name, number)
        for name, number in counts.names.items()
        if number in counts.all_time
    )
    found = {}
    for _, (key, value), number in sizes[:MAX_SEGMENTS]:
        try:
            found[f"{key}={value}"] = _cases(counts.slice(number), span_us)
        except InvalidInputError:  # no rows in the reference
            continue
    return dict(sorted(found.items()))


def _cases(part: SliceView, span_us: tuple[int, int]) -> ReferenceCases:
    panes = [
        pane for pane in part.panes if span_us[0] <= pane.start_us and pane.end_us <= span_us[1]
    ]
    states = [pane.state for pane in panes]
    if not states:
        message = "the reference has no rows: take a time with predictions and their labels"
        raise InvalidInputError(message, field="reference")
    starts_us = [pane.start_us for pane in panes]
    return ReferenceCases(merge_states(states, revision=0), states, starts_us)
