"""The public answer: what fell, since when, by how much, and because of which segments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from streameval._common.errors import InvalidInputError
from streameval._common.result import Result

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from streameval._uncertainty.interval import Interval

FALSE_DISCOVERY_RATE: Final = 0.1
"""The expected share of the named segments that have not changed is at most this."""
CHANGED_AT: Final = 20.0
"""The e-value from which scores, or labels, are said to have changed."""

First = Literal["scores", "labels", "neither"]


@dataclass(frozen=True, slots=True, eq=False)
class DriftedSegment(Result):
    """A segment whose own evidence explains an alarm.

    Attributes
    ----------
    segment : str
        ``"key=value"``.
    e_value : float
        How many times the stake its bets have won: at most 1 on average for a segment that
        has not changed.
    """

    segment: str
    e_value: float


@dataclass(frozen=True, slots=True, eq=False)
class Alarm(Result):
    """One alarm of a `DriftDetector`.

    Attributes
    ----------
    number : int
        From 1, ascending; never used again.
    watch : str
        Which process: ``"ranking"``, ``"auc_roc"``, ``"precision"``, ``"recall"``,
        ``"flagged"`` or ``"calibration"``.
    changed : str
        What changed, in words.
    direction : {"fell", "rose"}
    raised_at : datetime
        The end of the pane that raised it, and of its maturity.
    since, earliest, latest : datetime
        When the change began: the best estimate and its limits, to the width of the
        blocks that are kept: an hour at first, wider with age.
    reference : float
        The mean in the reference.
    value : Interval
        The mean since `since`, with its interval.
    difference : Interval
        `value` minus `reference`; its limits allow for both errors.
    segments : tuple of DriftedSegment
        The segments that explain it, by e-Benjamini-Hochberg, the most evidence first; empty
        while no segment has enough evidence, or if none were declared. Each has changed
        against its own reference; one that is not named may have changed as well. While the
        alarm is open, later panes may add more.
    changed_first : {"scores", "labels", "neither"}
        Whether the distribution of scores or the share of positives changed first;
        "neither" if only how scores and labels go together has changed.
    scores_changed_at, labels_changed_at : datetime or None
        When each was known to have changed.
    look_at : str
        Which figures show it.
    repeats : int
        How often its process has gathered the same evidence again since.
    last_at : datetime
        When it did so last.
    acknowledged_at : datetime or None
    is_past : bool
        Whether it would have been raised, if labels had come in time, before the detector was
        declared: found by a replay. Nothing is open of it, and it is not sent.
    """

    number: int
    watch: str
    changed: str
    direction: Literal["fell", "rose"]
    raised_at: datetime
    since: datetime
    earliest: datetime
    latest: datetime
    reference: float
    value: Interval
    difference: Interval
    segments: tuple[DriftedSegment, ...]
    changed_first: First
    scores_changed_at: datetime | None
    labels_changed_at: datetime | None
    look_at: str
    repeats: int
    last_at: datetime
    acknowledged_at: datetime | None = None
    is_past: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it has not been acknowledged, and is not past."""
        return self.acknowledged_at is None and not self.is_past

    def to_dict(self) -> dict[str, Any]:
        """Return it as values that JSON has: times as ISO 8601, intervals as lists.

        Examples
        --------
        ``json.dumps(alarm.to_dict())`` is a line for a log or a message.
        """
        return {
            "number": self.number,
            "watch": self.watch,
            "changed": self.changed,
            "direction": self.direction,
            "raised_at": self.raised_at.isoformat(),
            "since": self.since.isoformat(),
            "since_limits": [self.earliest.isoformat(), self.latest.isoformat()],
            "reference": self.reference,
            "value": self.value.estimate,
            "value_limits": list(self.value),
            "difference": self.difference.estimate,
            "difference_limits": list(self.difference),
            "segments": [
                {"segment": each.segment, "e_value": each.e_value} for each in self.segments
            ],
            "changed_first": self.changed_first,
            "scores_changed_at": _iso(self.scores_changed_at),
            "labels_changed_at": _iso(self.labels_changed_at),
            "look_at": self.look_at,
            "repeats": self.repeats,
            "last_at": self.last_at.isoformat(),
            "acknowledged_at": _iso(self.acknowledged_at),
            "is_past": self.is_past,
        }

    def __str__(self) -> str:
        """Return the alarm in a few lines."""
        fall = f"{self.changed} {self.direction} from {self.reference:.4f} to {self.value}"
        limits = f"{_minute(self.earliest)} to {_minute(self.latest)}"
        raised = "would have rung " if self.is_past else ""
        lines = [
            f"alarm {self.number} ({self.watch}), {raised}{_minute(self.raised_at)}: {fall}",
            f"  since {_minute(self.since)} ({limits})",
        ]
        if self.segments:
            named = ", ".join(f"{each.segment} (e {each.e_value:.3g})" for each in self.segments)
            lines.append(f"  explained by {named}")
        if self.changed_first == "neither":
            lines.append("  neither scores nor the share of positives are known to have changed")
        else:
            lines.append(f"  {self.changed_first} changed first")
        lines.append(f"  look at {self.look_at}")
        return "\n".join(lines)


def named_segments(
    e_values: Mapping[str, float], rate: float = FALSE_DISCOVERY_RATE
) -> tuple[DriftedSegment, ...]:
    """Return the segments that e-Benjamini-Hochberg names (Wang and Ramdas 2022).

    With m segments, the k of greatest evidence, for the largest k whose k-th e-value is at
    least m/(rate k): at most a share `rate` of them, on average, is named wrongly, however
    segments depend on one another. O(m log m).

    >>> [each.segment for each in named_segments({"a": 25.0, "b": 16.0, "c": 3.0})]
    ['a', 'b']
    """
    ranked = sorted(e_values.items(), key=lambda item: (-item[1], item[0]))
    number = max(
        (k for k, (_, e) in enumerate(ranked, 1) if e * rate * k >= len(ranked)), default=0
    )
    return tuple(DriftedSegment(*item) for item in ranked[:number])


def acknowledged(alarm: Alarm, at: datetime) -> Alarm:
    """Return an alarm as acknowledged, or refuse it if it was before."""
    if alarm.is_past:
        message = (
            f"alarm {alarm.number} is past: it was found in the history when the detector was "
            "declared, and there is nothing to acknowledge"
        )
        raise InvalidInputError(message, field="number")
    if alarm.acknowledged_at is not None:
        message = (
            f"alarm {alarm.number} was acknowledged already, at {alarm.acknowledged_at.isoformat()}"
        )
        raise InvalidInputError(message, field="number")
    return replace(alarm, acknowledged_at=at)


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _minute(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"
