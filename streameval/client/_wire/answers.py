"""Answers of a server that extend or add to the objects of the library."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from streameval._common.coverage import Coverage
from streameval._common.plain_values import plain, plain_value, plain_values
from streameval._common.result import Result
from streameval._metric_registry import Place
from streameval._uncertainty.compare import Comparison

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime, timedelta

    from streameval._metrics.reliability import ReliabilityTable
    from streameval._projection.projection import ProjectedFigure
    from streameval._sampling.allocation import SampledBand
    from streameval._time.coverage import ScoreBand
    from streameval._uncertainty.interval import Interval
    from streameval.client._wire.alarm_settings import AlarmSettings

    Span = tuple[datetime, datetime]
    """[start, end) in whole panes, in UTC."""


def _plain_band(band: ScoreBand | SampledBand) -> dict[str, Any]:
    """Return a band of score; no limit is None."""
    limits = {"lower": band.lower, "upper": band.upper}
    no_limit = {name: None for name, value in limits.items() if math.isinf(value)}
    return plain_values(band) | no_limit


_TABLE_COLUMNS = ("lower", "upper", "counts", "positives", "mean_score", "observed_rate")


@dataclass(frozen=True, slots=True, eq=False)
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
            "delays": plain_value(self.delays),
            "bands": [_plain_band(band) for band in self.bands],
        }


@dataclass(frozen=True, slots=True, eq=False)
class StreamProjection(Result):
    """What a window will read once its labels are in.

    Attributes
    ----------
    figures : tuple of ProjectedFigure
        AUC-ROC, AUC-PR at the reference prevalence, and at the window's own.
    assumption : str
        What projected values rest on; their `limits` rest on nothing.
    labelled_share : float
        Share of the window's predictions that have a label; nan without predictions.
    prevalence : float
        The reference prevalence; nan without panes whose labels are in.
    fit : float
        The p-value of the delays of the window's labels against those before; nan where
        nothing is projected.
    """

    figures: tuple[ProjectedFigure, ...]
    assumption: str
    labelled_share: float = math.nan
    prevalence: float = math.nan
    fit: float = math.nan

    def __str__(self) -> str:
        """Return the figures, one after the other."""
        return "\n".join(map(str, self.figures))


@dataclass(frozen=True, slots=True, eq=False)
class StreamComparison(Comparison):
    """How much two sides differ, with the interval of the difference.

    Attributes
    ----------
    metric, difference, lower, upper, level, p_value, prevalence, a, b, auc_roc, reason
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
    window_a: Span | None
    window_b: Span | None
    coverage_a: StreamCoverage | None
    coverage_b: StreamCoverage | None
    warnings: tuple[str, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class RankedSegment(Result):
    """One slice against the rest of its window.

    Attributes
    ----------
    segment : (str, str)
        Key and value.
    value : Interval
        Its figure, as ``value.estimate``, at the prevalence of the ranking.
    difference : float
        The slice's figure minus the figure of the rest; nan when undefined.
    lower, upper : float
        Its confidence limits; nan with too few cases.
    p_value : float
        Two-sided, adjusted for the number of slices (Holm 1979); nan when
        undefined.
    num_positive_ref, num_negative_ref : int
    coverage : StreamCoverage or None
    reason : str or None
        Why the difference has no limits, as of `Comparison`; None where it has.
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
    reason: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SegmentRanking(Result):
    """Slices by how much worse each is than the rest; iterating yields them, the worst first.

    Attributes
    ----------
    segments : tuple of RankedSegment
    revision : int
        Log revision that the answer includes.
    window : (datetime, datetime) or None
    coverage : StreamCoverage or None
        The coverage of the whole window.
    warnings : tuple of str
        Reasons to doubt the result.
    prevalence : float or None
        The greatest of the slices that have both classes, to which metrics of precision and
        recall are rescaled; None for others.
    num_left_out : int
        Slices that `min_references` left out.
    """

    segments: tuple[RankedSegment, ...]
    revision: int
    window: Span | None = None
    coverage: StreamCoverage | None = None
    warnings: tuple[str, ...] = ()
    prevalence: float | None = None
    num_left_out: int = 0

    def __iter__(self) -> Iterator[RankedSegment]:
        return iter(self.segments)

    def __len__(self) -> int:
        return len(self.segments)


@dataclass(frozen=True, slots=True, eq=False)
class StreamLabelSample(Result):
    """Which predictions to label next.

    Attributes
    ----------
    metric : str
    bands : tuple of SampledBand
        How many of each band of score; lowest scores first.
    ids : tuple of str
        Drawn ids, in random order; empty unless asked for.
    label_probabilities : tuple of float
        Each id's probability, to be sent back with its label.
    is_proportional : bool
        Whether bands get labels in proportion to their predictions, because too little is
        known: a class has no label yet, or the metric is infinite.
    revision : int
        Log revision that the answer includes.
    window : (datetime, datetime) or None
    seed : int
        With the revision, the window and the request it repeats the draw.
    warnings : tuple of str
        Reasons to doubt the result.
    """

    metric: str
    bands: tuple[SampledBand, ...]
    ids: tuple[str, ...] = field(repr=False)
    label_probabilities: tuple[float, ...] = field(repr=False)
    is_proportional: bool
    revision: int
    window: Span | None
    seed: int
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def size(self) -> int:
        """How many predictions to label."""
        return sum(band.to_label for band in self.bands)

    @property
    def waiting(self) -> int:
        """How many predictions wait for their label."""
        return sum(band.waiting for band in self.bands)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each id: the id and its label probability. O(size)."""
        rows: list[dict[str, Any]] = self.to_dict()["ids"]
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values that JSON can hold; infinite limits are None."""
        values = plain_values(self)
        probabilities = values.pop("label_probabilities")
        return values | {
            "size": self.size,
            "bands": [
                {**_plain_band(band), "label_probability": band.label_probability}
                for band in self.bands
            ],
            "ids": [
                {"id": id_, "label_probability": probability}
                for id_, probability in zip(self.ids, probabilities, strict=True)
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamReliability(Result):
    """Whether the scores of a part of a stream are probabilities.

    Attributes
    ----------
    table : ReliabilityTable
        Mean score and observed rate of each bin that has cases.
    limits : tuple of (float, float)
        The confidence limits of each bin's observed rate, if cases are independent;
        nan where too few effective cases have weights.
    level : float
        Their nominal coverage.
    expected_positives, observed_positives : float
        The sum of the scores, and the positives among the scored cases; of a half-life
        sums of weights.
    calibration_error : Interval
        In ten bins of equal width, as ``calibration_error.estimate``, with its interval.
    observed_expected_ratio : Interval
        Observed over expected positives.
    brier_score : float
    revision : int
        Log revision that the answer includes.
    window : (datetime, datetime) or None
    coverage : StreamCoverage or None
    resolution : int or None
        Significant bits of a score that are kept; None is all.
    warnings : tuple of str
        Reasons to doubt the figures.
    """

    table: ReliabilityTable
    limits: tuple[tuple[float, float], ...]
    level: float
    expected_positives: float
    observed_positives: float
    calibration_error: Interval
    observed_expected_ratio: Interval
    brier_score: float
    revision: int
    window: Span | None = None
    coverage: StreamCoverage | None = None
    resolution: int | None = None
    warnings: tuple[str, ...] = ()

    def to_rows(self) -> list[dict[str, float]]:
        """Return the bins as rows of a table: ``pd.DataFrame(found.to_rows())``."""
        table = self.table
        columns = {name: getattr(table, name).tolist() for name in _TABLE_COLUMNS}
        return [
            {**dict(zip(columns, row, strict=True)), "rate_lower": lower, "rate_upper": upper}
            for row, (lower, upper) in zip(
                zip(*columns.values(), strict=True), self.limits, strict=True
            )
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values that JSON can hold; no limits are None."""
        values = plain_values(self)
        del values["table"], values["limits"]
        intervals = {name: values.pop(name) for name in Place.CALIBRATION.names()}
        return values | {
            "bins": [{name: plain(value) for name, value in row.items()} for row in self.to_rows()],
            **{name: each["estimate"] for name, each in intervals.items()},
            "intervals": {
                name: {limit: each[limit] for limit in ("lower", "upper")}
                for name, each in intervals.items()
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamSettings(Result):
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
    cost_fp, cost_fn : float or None
        What a false positive and a false negative cost, in one unit, positive and finite;
        answers have the expected cost at the threshold. Both or none; they need a threshold.
    min_label_probability : float or None
        The least probability with which a case is chosen to be labelled, 2**-31 to 1:
        intervals allow for unseen cases that weigh 1 over it. None declares none.
    alarms : AlarmSettings or None
        Which changes raise an alarm; None watches nothing.
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
    cost_fp: float | None = None
    cost_fn: float | None = None
    min_label_probability: float | None = None
    alarms: AlarmSettings | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamCounters(Result):
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


@dataclass(frozen=True, slots=True, eq=False)
class StreamInfo(Result):
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
