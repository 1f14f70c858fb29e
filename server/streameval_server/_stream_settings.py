"""How one stream counts: its settings, their defaults and the rules between them.

What panes hold cannot be cut anew, so what shapes them (`pane`, `resolution`,
`scale`) is fixed when the stream is made; everything else may change and
applies from then on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from streameval._resolution import Scale

_MINUTE = 60 * 1_000_000
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """How a stream counts.

    Attributes
    ----------
    pane_us : int
        Smallest time slice that is kept apart.
    retention_us : int
        How long panes are kept; all-time counts outlive them.
    resolution : int
        Significant bits of a score that a pane keeps.
    scale : {"plain", "probability"}
        What those bits are counted of.
    label_ttl_us : int
        How long after its event time a prediction waits for its label.
    relabel_ttl_us : int
        How long a labelled id can be relabelled or retracted.
    max_pending : int
        The most ids that are kept; above it what falls due first goes early.
    orphans : {"drop", "miss"}
        What a label without a prediction counts as.
    expired : {"drop", "negative"}
        What a prediction without a label counts as.
    segment_keys : tuple of str
        Declared keys, in the order in which they were declared.
    """

    pane_us: int = _MINUTE
    retention_us: int = 30 * _DAY
    resolution: int = 12
    scale: Scale = "plain"
    label_ttl_us: int = 14 * _DAY
    relabel_ttl_us: int = _HOUR
    max_pending: int = 2_000_000
    orphans: Literal["drop", "miss"] = "drop"
    expired: Literal["drop", "negative"] = "drop"
    segment_keys: tuple[str, ...] = ()


DEFAULTS = StreamSettings()
"""The settings of a stream that is made on first use."""
