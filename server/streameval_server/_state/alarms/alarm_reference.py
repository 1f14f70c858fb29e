"""The reference of a stream's detector, and the cases since then, from its panes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from streameval import InvalidInputError
from streameval.kernel import merge_states
from streameval.statistics import (
    BaseSpan,
    DriftSettings,
    FrozenReference,
    ReferenceCases,
    changes_in,
    choose_base,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval.kernel import State
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


def proposed_reference(
    counts: FrozenStream, now_us: int, label_wait_us: int
) -> tuple[int, int] | None:
    """Return the earliest whole weeks with their labels and no change; None without any."""
    found = choose_base(_panes(counts.slice(0)), now_us, label_wait_us)
    return (found.start_us, found.end_us) if isinstance(found, BaseSpan) else None


def check_unchanged(
    counts: FrozenStream, span_us: tuple[int, int], now_us: int, label_wait_us: int
) -> None:
    """Refuse a reference in which ranking changed. O(cells) of its panes.

    Raises
    ------
    InvalidInputError
        With the dates, and which time would be taken.
    """
    changes = changes_in(_panes(counts.slice(0)), span_us)
    if not changes:
        return
    listed = "; ".join(map(str, changes[:2])) + ("; ..." if len(changes) > 2 else "")
    proposed = proposed_reference(counts, now_us, label_wait_us)
    advice = "name a time without a change"
    if proposed is not None:
        times = (datetime.fromtimestamp(each / 1e6, UTC) for each in proposed)
        taken = " to ".join(f"{each:%Y-%m-%d %H:%M}" for each in times)
        advice = f"declare the alarms without a reference, and {taken} is taken, or {advice}"
    message = f"the reference has a change in it ({listed}): {advice}"
    raise InvalidInputError(message, field="reference")


def panes_since(
    counts: FrozenStream, segments: Sequence[str], since_us: int
) -> list[list[tuple[int, int, State]]]:
    """Return the panes that are kept since a time, of the whole and of each segment."""
    numbers = {f"{key}={value}": number for (key, value), number in counts.names.items()}
    slices = [counts.slice(number) for number in (0, *(numbers[each] for each in segments))]
    return [[each for each in _panes(part) if each[0] >= since_us] for part in slices]


def _panes(part: SliceView) -> list[tuple[int, int, State]]:
    return [(each.start_us, each.end_us, each.state) for each in part.panes]


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
