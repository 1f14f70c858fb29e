"""What the user declares of a detector, checked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from streameval._common.errors import InvalidInputError
from streameval._common.values import real, shown
from streameval._drift.watches import COMPANIONS, WATCHES, Side
from streameval._time.times import span_us

if TYPE_CHECKING:
    from streameval._common.spans import Span
    from streameval._counts.resolution import Scale
    from streameval._drift.watches import Watch

MAX_OPEN_PANES: Final = 48
"""The most panes that may be open at a time, so that a detector's state stays small."""


@dataclass(frozen=True, slots=True)
class DriftSettings:
    """The declared settings of a detector.

    Attributes
    ----------
    watches : tuple of Watch
    tolerances : tuple of float
        Of each watch, in the unit that people read.
    mean_us, pane_us, maturity_us : int
    threshold : float or None
    has_clusters, is_probability : bool
    """

    WATCHES: ClassVar = WATCHES
    """What can be watched, by name."""

    watches: tuple[Watch, ...]
    tolerances: tuple[float, ...]
    mean_us: int
    pane_us: int
    maturity_us: int
    threshold: float | None
    has_clusters: bool
    is_probability: bool

    @property
    def mean_panes(self) -> int:
        """The mean time to a false alarm in whole panes."""
        return self.mean_us // self.pane_us

    @property
    def flagged_from(self) -> float:
        """The threshold, infinite without one."""
        return math.inf if self.threshold is None else self.threshold

    @property
    def sides(self) -> tuple[Side, ...]:
        """All sides: the sides of each watch, then the companions."""
        return (*(side for watch in self.watches for side in watch.sides), *COMPANIONS)

    def sides_of(self, index: int) -> slice:
        """Return the places of a watch's sides."""
        start = sum(len(watch.sides) for watch in self.watches[:index])
        return slice(start, start + len(self.watches[index].sides))

    @classmethod
    def of(
        cls,
        *,
        watch: Any,
        tolerance: Any,
        mean_time_to_false_alarm: Span,
        threshold: Any,
        pane: Span,
        maturity: Span,
        clusters: bool,
        scale: Scale,
    ) -> DriftSettings:
        """Return the settings, or refuse the first that is wrong."""
        watches = _watches(watch)
        pane_us = span_us(pane, field="pane")
        mean_us = span_us(mean_time_to_false_alarm, field="mean_time_to_false_alarm")
        if mean_us < pane_us:
            message = (
                f"mean_time_to_false_alarm must be at least one pane of {pane}, "
                f"got {mean_time_to_false_alarm}"
            )
            raise InvalidInputError(message, field="mean_time_to_false_alarm")
        maturity_us = span_us(maturity, field="maturity") if maturity else 0
        if maturity_us > MAX_OPEN_PANES * pane_us:
            message = (
                f"maturity must be at most {MAX_OPEN_PANES} panes of {pane}, got {maturity}: take "
                "longer panes, or 0, so that labels count when they come"
            )
            raise InvalidInputError(message, field="maturity")
        is_probability = scale == "probability" or any(
            each.name == "calibration" for each in watches
        )
        return cls(
            watches,
            _tolerances(tolerance, watches),
            mean_us,
            pane_us,
            maturity_us,
            _threshold(threshold, watches, is_probability),
            bool(clusters),
            is_probability,
        )


def _watches(watch: Any) -> tuple[Watch, ...]:
    if not isinstance(watch, Iterable):
        message = f"watch must be a name or several of them, got {shown(watch)}"
        raise InvalidInputError(message, field="watch")
    names: Iterable[Any] = (watch,) if isinstance(watch, str) else watch
    found = []
    for name in names:
        if not isinstance(name, str) or name not in WATCHES:
            message = f"watch must be of {', '.join(WATCHES)}, got {shown(name)}"
            raise InvalidInputError(message, field="watch")
        if WATCHES[name] in found:
            raise InvalidInputError(f"watch names {shown(name)} twice", field="watch")
        found.append(WATCHES[name])
    if not found:
        message = f"watch names nothing: give some of {', '.join(WATCHES)}"
        raise InvalidInputError(message, field="watch")
    # Sorted, because the bytes keep the order, and the caller's order must not change them.
    return tuple(sorted(found, key=lambda each: each.code))


def _tolerances(tolerance: Any, watches: tuple[Watch, ...]) -> tuple[float, ...]:
    if isinstance(tolerance, Mapping):
        names = [each.name for each in watches]
        if set(tolerance) != set(names):
            given = ", ".join(map(shown, tolerance)) or "none"
            message = f"tolerance must have one value for each of {', '.join(names)}, got {given}"
            raise InvalidInputError(message, field="tolerance")
        return tuple(_tolerance(tolerance[name]) for name in names)
    return (_tolerance(tolerance),) * len(watches)


def _tolerance(tolerance: Any) -> float:
    number = real(tolerance, "tolerance")
    if not 0 <= number < 1:
        message = f"tolerance must be at least 0 and below 1, got {shown(tolerance)}"
        raise InvalidInputError(message, field="tolerance")
    return number


def _threshold(threshold: Any, watches: tuple[Watch, ...], is_probability: bool) -> float | None:
    needing = [each.name for each in watches if each.needs_threshold]
    if threshold is None:
        if needing:
            message = f"threshold is needed to watch {', '.join(needing)}"
            raise InvalidInputError(message, field="threshold")
        return None
    number = real(threshold, "threshold")
    if not needing:
        names = ", ".join(each.name for each in WATCHES.values() if each.needs_threshold)
        message = f"threshold is used to watch {names}: name one of them, or leave it out"
        raise InvalidInputError(message, field="threshold")
    if not math.isfinite(number):
        message = f"threshold must be finite, got {shown(threshold)}"
        raise InvalidInputError(message, field="threshold")
    if is_probability and not 0 <= number <= 1:
        message = f"threshold must be a probability, from 0 to 1, got {shown(threshold)}"
        raise InvalidInputError(message, field="threshold")
    return number + 0.0
