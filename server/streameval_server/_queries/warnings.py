"""What to know before trusting an answer's figures, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval._common import OTHER_VALUE
from streameval_server._queries.selection import iso

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval_server._queries.resolved_selection import ResolvedSelection

_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))


def warnings_of(
    of: ResolvedSelection, resolution: int | None, typical_delay_us: float | None
) -> list[str]:
    """Return the warnings of an answer. O(1).

    Parameters
    ----------
    of
        What the answer covers.
    resolution
        Significant bits of a score that its counts have kept; None is all.
    typical_delay_us
        How long most labels take; None where there are no predictions by id.
    """
    return [
        *_of_slice(of),
        *_of_span(of, typical_delay_us),
        *_of_resolution(of, resolution),
    ]


def _of_slice(of: ResolvedSelection) -> Iterator[str]:
    if of.view.info.settings.expired == "negative":
        yield (
            "predictions whose label did not come in time count as negatives: labels are not "
            "missing at random, so figures may be off by more than their intervals say"
        )
    segment = of.selected.segment
    if segment is not None and of.view.slice(segment) is None:
        key, value = segment
        text = f"no case of {key}={value} has been seen"
        if of.view.slice((key, OTHER_VALUE)) is not None:
            text += f"; values that came after {key} had its most are counted in {OTHER_VALUE}"
        yield text


def _of_span(of: ResolvedSelection, typical_delay_us: float | None) -> Iterator[str]:
    if of.span_us is None:
        return
    start_us, end_us = of.span_us
    if of.is_clipped:
        kept = in_words(of.view.info.settings.retention_us)
        yield f"cases are kept for {kept}: what was asked for begins before {iso(of.oldest_us)}"
    if end_us <= start_us:
        yield "mature_after leaves nothing of this window"
    # Half of the window is younger than this.
    age_us = of.now_us - (start_us + end_us) / 2
    if typical_delay_us and age_us < typical_delay_us:
        yield (
            f"most of this window is younger than {in_words(typical_delay_us)}, the time in which "
            "nine labels of ten arrive: its figures will change; mature_after leaves young "
            "panes out"
        )


def _of_resolution(of: ResolvedSelection, resolution: int | None) -> Iterator[str]:
    if resolution is None:
        return
    settings = of.view.info.settings
    if of.span_us is None and of.selected.segment is None:
        yield (
            f"scores are kept to {resolution} significant bits, because there were too many "
            "distinct ones to keep all: bounds say how much that hides"
        )
    elif resolution < settings.resolution:
        yield (
            f"scores are kept to {resolution} significant bits instead of {settings.resolution}, "
            "because they fell into too many cells: bounds say how much that hides"
        )


def in_words(span_us: float) -> str:
    """Return a span of time as people say it.

    Examples
    --------
    >>> in_words(5_400e6), in_words(86_400e6), in_words(0.25e6)
    ('1.5 h', '1 d', '0.25 s')
    """
    seconds = span_us / 1e6
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), _UNITS[-1])
    return f"{seconds / size:.3g} {unit}"
