"""Decoding: responses of the server become objects of the library."""

from __future__ import annotations

import math
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from streameval._metric_registry import Place
from streameval._metrics.confusion import Confusion
from streameval._metrics.curves import RocHull
from streameval._metrics.operating_points import OperatingPoints
from streameval._metrics.reliability import ReliabilityTable
from streameval._metrics.weighting import WeightTotals
from streameval._projection.projection import BacktestedWindow, ProjectedFigure, RefusalReason
from streameval._sampling.allocation import SampledBand
from streameval._snapshot import Snapshot
from streameval._time.coverage import ScoreBand
from streameval._uncertainty.interval import Interval
from streameval._uncertainty.intervals import analytic_method
from streameval.client._wire.answers import (
    RankedSegment,
    StreamComparison,
    StreamCounters,
    StreamCoverage,
    StreamLabelSample,
    StreamProjection,
    StreamReliability,
    StreamSettings,
)
from streameval.client._wire.reader import becomes, label, read, reads
from streameval.v1 import query_pb2, stream_pb2, types_pb2

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray
    from streameval.client._wire.answers import Span

_REFUSALS = {"TOO_COARSE", "TOO_FEW_CLUSTERS", "TOO_FEW_EFFECTIVE"}


@reads(types_pb2.Snapshot)
def read_snapshot(message: types_pb2.Snapshot) -> Snapshot:
    """Return a snapshot; figures that are absent from the message are nan. O(vertices)."""
    P, N = message.num_positive_ref, message.num_negative_ref
    figures, reasons, intervals, bounds = {}, {}, {}, {}
    for metric in message.metrics:
        name = metric.name
        figures[name] = _value(metric)
        if not metric.HasField("value"):
            reasons[name] = _reason(metric.undefined_reason)
        if metric.HasField("interval"):
            intervals[name] = read_interval(metric)
        if metric.HasField("bounds"):
            bounds[name] = _bounds(metric.bounds)
    return read(
        message,
        Snapshot,
        **{name: figures.get(name, math.nan) for name in Place.SNAPSHOT.names()},
        hull=_hull(message.hull, P, N) if message.hull.thresholds else None,
        reasons=reasons,
        intervals=intervals,
        bounds=bounds,
        figures=figures,
    )


def read_label_sample(message: query_pb2.SampleForLabelsResponse) -> StreamLabelSample:
    """Return which predictions to label. O(ids)."""
    return read(
        message,
        StreamLabelSample,
        ids=tuple(each.id for each in message.ids),
        label_probabilities=tuple(each.label_probability for each in message.ids),
    )


@reads(types_pb2.TimeRange)
def read_span(message: types_pb2.TimeRange) -> Span:
    """Return a span [start, end)."""
    return message.start_time.ToDatetime(UTC), message.end_time.ToDatetime(UTC)


@reads(types_pb2.Segment)
def _segment(message: types_pb2.Segment) -> tuple[str, str]:
    return message.key, message.value


@reads(types_pb2.Bounds)
def _bounds(message: types_pb2.Bounds) -> tuple[float, float]:
    return message.lower, message.upper


@reads(types_pb2.Weights)
def _weights(message: types_pb2.Weights) -> WeightTotals:
    return WeightTotals(*(getattr(message, name) for name in WeightTotals._fields))


@reads(types_pb2.OperatingPoint)
def _operating_point(message: types_pb2.OperatingPoint) -> Confusion:
    names = ("tp", "fp", "fn", "tn")
    return read(message, Confusion, **{name: _whole(getattr(message, name)) for name in names})


def _whole(count: float) -> float:
    """Return a number of cases as an int, a sum of weights as it is."""
    return int(count) if count.is_integer() else count


@reads(types_pb2.Coverage)
def _coverage(message: types_pb2.Coverage) -> StreamCoverage:
    delays = {each.quantile: each.delay.ToMicroseconds() for each in message.delays}
    return read(
        message,
        StreamCoverage,
        delays={quantile: timedelta(microseconds=us) for quantile, us in delays.items()},
    )


@reads(types_pb2.Projection)
def _projection(message: types_pb2.Projection) -> StreamProjection:
    figures = tuple(_projected_figure(each, message.assumption) for each in message.metrics)
    return read(message, StreamProjection, figures=figures)


def _projected_figure(message: types_pb2.ProjectedMetric, assumption: str) -> ProjectedFigure:
    interval = reason = None
    if message.refusal:
        name = label(types_pb2.ProjectionRefusal.DESCRIPTOR, message.refusal)
        reason = RefusalReason[name]
    else:
        limits = read_limits(message.interval)
        projected = message.projected if message.HasField("projected") else math.nan
        interval = Interval(*limits, message.interval.level, "projected", projected)
    return read(
        message,
        ProjectedFigure,
        metric=message.name,
        now=message.value if message.HasField("value") else math.nan,
        interval=interval,
        reason=reason,
        widening=message.widening or 1.0,
        assumption=assumption,
    )


@reads(types_pb2.BacktestedWindow)
def _backtested(message: types_pb2.BacktestedWindow) -> BacktestedWindow:
    start, end = read_span(message.window)
    made_at = message.made_time.ToDatetime(UTC)
    return read(
        message,
        BacktestedWindow,
        start=start,
        end=end,
        made_at=made_at,
        final=message.final_value,
    )


def _value(metric: types_pb2.Metric) -> float:
    return metric.value if metric.HasField("value") else math.nan


def _reason(reason: int) -> str:
    return label(types_pb2.UndefinedReason.DESCRIPTOR, reason)


@reads(types_pb2.Metric)
def read_interval(metric: types_pb2.Metric) -> Interval:
    """Return a figure with its interval; nan where there is none."""
    given = metric.interval
    return Interval(
        *read_limits(given),
        given.level,
        analytic_method(metric.name),
        _value(metric),
        given.anytime,
        _design_effect(given),
        _refused(given),
        given.min_design_effect if given.HasField("min_design_effect") else math.nan,
    )


def read_limits(interval: types_pb2.Interval) -> tuple[float, float]:
    """Return the limits; nan where there are none."""
    return (
        interval.lower if interval.HasField("lower") else math.nan,
        interval.upper if interval.HasField("upper") else math.nan,
    )


def _design_effect(interval: types_pb2.Interval) -> float:
    if interval.undefined_reason == types_pb2.UNDEFINED_REASON_TOO_COARSE:
        return math.nan
    return interval.design_effect if interval.HasField("design_effect") else 1.0


def _refused(interval: types_pb2.Interval) -> str | None:
    """Return why there are no limits although there are cases enough."""
    if not interval.undefined_reason:
        return None
    reason = _reason(interval.undefined_reason)
    return reason if reason in _REFUSALS else None


def read_points(response: query_pb2.GetCurveResponse) -> OperatingPoints:
    """Return a curve as operating points. O(points)."""
    totals = response.num_positive_ref, response.num_negative_ref
    return OperatingPoints(**_columns(response.curve, *totals))


def read_hull(response: query_pb2.GetCurveResponse) -> RocHull:
    """Return a curve as a hull. O(vertices)."""
    return _hull(response.curve, response.num_positive_ref, response.num_negative_ref)


def _hull(curve: types_pb2.Curve, P: int, N: int) -> RocHull:
    return RocHull(**_columns(curve, P, N))


def _columns(curve: types_pb2.Curve, P: int, N: int) -> dict[str, Any]:
    """Return the columns of a curve, and its totals; sums of weights where cases have some."""
    columns: dict[str, Any] = {"thresholds": np.array(curve.thresholds, dtype=np.float64)}
    if curve.weighted_fp:
        fp, tp = np.array(curve.weighted_fp), np.array(curve.weighted_tp)
        return columns | {"fp": fp, "tp": tp, "P": float(tp[-1]), "N": float(fp[-1])}
    fp, tp = np.array(curve.fp, dtype=np.int64), np.array(curve.tp, dtype=np.int64)
    return columns | {"fp": fp, "tp": tp, "P": P, "N": N}


@reads(types_pb2.Comparison)
def read_comparison(message: types_pb2.Comparison) -> StreamComparison:
    """Return a comparison."""
    difference = read_interval(message.difference)
    return read(
        message,
        StreamComparison,
        metric=message.a.name,
        difference=difference.estimate,
        lower=difference.lower,
        upper=difference.upper,
        level=difference.level,
        reason=_no_limits(message.difference),
        design_effect=difference.design_effect,
    )


@reads(query_pb2.RankedSegment)
def _ranked_segment(message: query_pb2.RankedSegment) -> RankedSegment:
    difference = read_interval(message.difference)
    return read(
        message,
        RankedSegment,
        difference=difference.estimate,
        lower=difference.lower,
        upper=difference.upper,
        reason=_no_limits(message.difference),
    )


def _no_limits(difference: types_pb2.Metric) -> str | None:
    """Return why a difference has no limits; None where it has."""
    given = difference.interval
    return None if given.HasField("lower") else _reason(given.undefined_reason)


def read_reliability(response: query_pb2.GetReliabilityResponse, level: float) -> StreamReliability:
    """Return a reliability table with its figures. O(B)."""
    metrics = {metric.name: metric for metric in response.metrics}
    bins = response.bins

    def column(name: str) -> FloatArray:
        return np.array([getattr(each, name) for each in bins], dtype=np.float64)

    columns: dict[str, Any] = {
        "counts": column("cases"),
        "positives": column("positives"),
    }
    if not any(np.modf(each)[0].any() for each in columns.values()):
        columns = {name: each.astype(np.int64) for name, each in columns.items()}
    table = ReliabilityTable(
        lower=column("lower"),
        upper=column("upper"),
        **columns,
        mean_score=column("mean_score"),
        observed_rate=column("observed_rate"),
    )
    return read(
        response,
        StreamReliability,
        table=table,
        limits=tuple(read_limits(each.interval) for each in bins),
        level=level,
        expected_positives=_whole(response.expected_positives),
        observed_positives=_whole(response.observed_positives),
        **{name: read_interval(metrics[name]) for name in Place.CALIBRATION.names()},
        brier_score=_value(metrics["brier_score"]),
    )


becomes(types_pb2.ScoreBand, ScoreBand)
becomes(query_pb2.SampledBand, SampledBand)
becomes(stream_pb2.StreamCounters, StreamCounters)
becomes(stream_pb2.StreamSettings, StreamSettings)
