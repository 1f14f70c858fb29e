"""A stream's description and counters, without its counts of cases."""

from __future__ import annotations

from dataclasses import dataclass

from streameval_server._model.stream_settings import DEFAULTS, StreamSettings


@dataclass(frozen=True, slots=True, weakref_slot=True)
class StreamInfo:
    """A stream's description.

    Attributes
    ----------
    name : str
    create_us : int
        When it was created, in microseconds since 1970.
    create_revision : int
        Log revision at which it was created.
    settings : StreamSettings
        How it counts.
    """

    name: str
    create_us: int
    create_revision: int
    settings: StreamSettings = DEFAULTS


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCounters:
    """How much a stream keeps, and how many rows had no effect; as the message of that name.

    Attributes
    ----------
    duplicate_predictions, duplicate_labels, relabelled, unknown_retractions : int
    retracted_early_labels, expired_early, forgotten_early : int
        As in the library's `JoinCounts`.
    other_values : int
        Rows whose segment value has no slice of its own and shares the one for others.
    beyond_retention : int
        Rows that were added to no pane because theirs was past the retention.
    kept_ids : int
    panes : int
        Panes of the whole stream and of its slices.
    state_bytes : int
    """

    duplicate_predictions: int = 0
    duplicate_labels: int = 0
    relabelled: int = 0
    unknown_retractions: int = 0
    retracted_early_labels: int = 0
    expired_early: int = 0
    forgotten_early: int = 0
    other_values: int = 0
    beyond_retention: int = 0
    kept_ids: int = 0
    panes: int = 0
    state_bytes: int = 0
