"""A stream's description, without its counts of cases."""

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
