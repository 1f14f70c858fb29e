"""Answers of a server that extend or add to the objects of the library."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from streameval._common.coverage import Coverage
from streameval._uncertainty.compare import Comparison

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime, timedelta

    from streameval._time.coverage import ScoreBand
    from streameval._uncertainty.interval import Interval

    Span = tuple[datetime, datetime] | None
    """[start, end) in whole panes, in UTC; None is all time."""


@dataclass(frozen=True, slots=True)
class StreamCoverage(Coverage):
    """How many of a window's predictions have their label.

    Attributes
    ----------
    predictions, labelled, expired, retracted, orphans, pending, labelled_share
        As in `Coverage`.
    delays : mapping of float to timedelta
        How long labels took to arrive: quantiles, for instance 0.5, each within
        1 % of the exact one.
    bands : tuple of ScoreBand
        The labelled share by score: labels are rarely missing at random.
    """

    delays: Mapping[float, timedelta] = field(default_factory=dict)
    bands: tuple[ScoreBand, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values that JSON can hold; delays in seconds."""
        return {
            **Coverage.to_dict(self),
            "delays": {str(q): delay.total_seconds() for q, delay in self.delays.items()},
            "bands": [
                {
                    "lower": band.lower if math.isfinite(band.lower) else None,
                    "upper": band.upper if math.isfinite(band.upper) else None,
                    "predictions": band.predictions,
                    "labelled": band.labelled,
                }
                for band in self.bands
            ],
        }


@dataclass(frozen=True, slots=True)
class StreamComparison(Comparison):
    """How much two sides differ, with the interval of the difference.

    Attributes
    ----------
    metric, difference, lower, upper, level, p_value, prevalence, a, b
        As in `Comparison`: the difference is a's figure minus b's.
    revision : int
        Log revision that the answer includes.
    complement : bool
        Whether b contained a, so that a was compared with the rest of b.
    window_a, window_b : (datetime, datetime) or None
        The time spans of the sides.
    coverage_a, coverage_b : StreamCoverage or None
        None for a side without predictions by id.
    warnings : tuple of str
        Reasons to doubt the result.
    """

    revision: int
    complement: bool
    window_a: Span
    window_b: Span
    coverage_a: StreamCoverage | None
    coverage_b: StreamCoverage | None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RankedSegment:
    """One slice against the rest of its window.

    Attributes
    ----------
    segment : (str, str)
        Key and value.
    value : Interval
        Its figure, as ``value.estimate``, at the prevalence of the window.
    difference : float
        The slice's figure minus that of the rest; nan when undefined.
    lower, upper : float
        Its confidence limits; nan with too few cases.
    p_value : float
        Two-sided, adjusted for the number of slices (Holm 1979); nan when
        undefined.
    num_positive_ref, num_negative_ref : int
    coverage : StreamCoverage or None
    """

    segment: tuple[str, str]
    value: Interval
    difference: float
    lower: float
    upper: float
    p_value: float
    num_positive_ref: int
    num_negative_ref: int
    coverage: StreamCoverage | None = None


@dataclass(frozen=True, slots=True)
class SegmentRanking:
    """Slices by how much worse each is than the rest; iterating yields them, the worst first.

    Attributes
    ----------
    segments : tuple of RankedSegment
    revision : int
        Log revision that the answer includes.
    window : (datetime, datetime) or None
    coverage : StreamCoverage or None
        Of the whole window.
    warnings : tuple of str
        Reasons to doubt the result.
    """

    segments: tuple[RankedSegment, ...]
    revision: int
    window: Span = None
    coverage: StreamCoverage | None = None
    warnings: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[RankedSegment]:
        return iter(self.segments)

    def __len__(self) -> int:
        return len(self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """The settings of a stream.

    Attributes
    ----------
    pane : timedelta
        Shortest time slice with counts of its own. Cannot change.
    retention : timedelta
        How long panes are kept; all-time figures are kept for ever.
    resolution : int
        Significant bits of a score that a pane keeps. Cannot change.
    scale : {"plain", "probability"}
        The number whose bits they are. Cannot change.
    label_ttl : timedelta
        How long after its event time a prediction waits for its label.
    relabel_ttl : timedelta
        How long a labelled id can be relabelled or retracted.
    max_pending : int
        The most ids that are kept; above it the oldest expire early.
    orphans : {"drop", "miss"}
        How a label without a prediction counts.
    expired : {"drop", "negative"}
        How a prediction without a label counts.
    segment_keys : tuple of str
        Declared keys. Keys can be added, not removed.
    cluster_key : str
        What rows share a cluster by, for instance ``user_id``; "" where it has no name.
        Cannot change.
    cluster_groups : int
        How many groups clusters are hashed into, 8 to 1024, by default 32 where
        `cluster_key` is given; 0 declares no clusters. With clusters every case and
        prediction needs one, and weights are refused. Cannot change.
    threshold : float or None
        The score at which the model runs, finite, and in [0, 1] on the probability scale;
        answers have the rates at it. None declares none.
    """

    pane: timedelta
    retention: timedelta
    resolution: int
    scale: Literal["plain", "probability"]
    label_ttl: timedelta
    relabel_ttl: timedelta
    max_pending: int
    orphans: Literal["drop", "miss"]
    expired: Literal["drop", "negative"]
    segment_keys: tuple[str, ...]
    cluster_key: str = ""
    cluster_groups: int = 0
    threshold: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCounters:
    """What a stream keeps, and counts of rows without effect since it was created.

    Attributes
    ----------
    duplicate_predictions : int
        Predictions of a known id; the first one counts.
    duplicate_labels : int
        Labels equal to the known one, or replacing one that waits for its prediction.
    relabelled : int
        Labels that changed the label of a prediction.
    unknown_retractions : int
        Retractions of unknown ids.
    retracted_early_labels : int
        Retractions of labels that were waiting for their prediction.
    expired_early, forgotten_early : int
        Predictions, and other ids, that were removed to keep at most `max_pending`.
    other_values : int
        Segment values beyond the limit of values per key.
    beyond_retention : int
        Rows older than all panes; they count in all-time figures only.
    kept_ids, panes, state_bytes : int
        Ids and panes that are kept, and the approximate memory of the state.
    """

    duplicate_predictions: int
    duplicate_labels: int
    relabelled: int
    unknown_retractions: int
    retracted_early_labels: int
    expired_early: int
    forgotten_early: int
    other_values: int
    beyond_retention: int
    kept_ids: int
    panes: int
    state_bytes: int


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """A stream's description.

    Attributes
    ----------
    name : str
    create_time : datetime
        Creation time by the server's clock, in UTC.
    create_revision : int
        Log revision of its creation.
    settings : StreamSettings
    counters : StreamCounters or None
        Only from `Client.get_stream`.
    """

    name: str
    create_time: datetime
    create_revision: int
    settings: StreamSettings
    counters: StreamCounters | None = None
