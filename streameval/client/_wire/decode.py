"""Decoding: responses of the server become objects of the library."""

from __future__ import annotations

import math
from dataclasses import fields
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any, Literal

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
from streameval.client._wire.alarm_settings import read_settings
from streameval.client._wire.answers import (
    RankedSegment,
    SegmentRanking,
    StreamComparison,
    StreamCounters,
    StreamCoverage,
    StreamInfo,
    StreamLabelSample,
    StreamProjection,
    StreamReliability,
    StreamSettings,
)
from streameval.v1 import query_pb2, stream_pb2, types_pb2

if TYPE_CHECKING:
    from google.protobuf.duration_pb2 import Duration
    from google.protobuf.message import Message

    from streameval._common.arrays import FloatArray
    from streameval.client._wire.answers import Span

_REASON_PREFIX = "UNDEFINED_REASON_"
_REFUSALS = {"TOO_COARSE", "TOO_FEW_EFFECTIVE"}
_MICROSECOND = timedelta(microseconds=1)


def read_snapshot(message: types_pb2.Snapshot) -> Snapshot:
    """Return a snapshot; figures that are absent from the message are nan. O(vertices)."""
    P, N = message.num_positive_ref, message.num_negative_ref
    hull = _hull(message.hull, P, N) if message.hull.thresholds else None
    figures = {metric.name: _value(metric) for metric in message.metrics}
    six = {name: figures.get(name, math.nan) for name in Place.SNAPSHOT.names()}
    return Snapshot(
        revision=message.revision,
        num_positive_ref=P,
        num_negative_ref=N,
        num_misses=message.num_misses,
        num_negative_misses=message.num_negative_misses,
        **six,
        hull=hull,
        resolution=message.resolution if message.HasField("resolution") else None,
        reasons={
            metric.name: _reason(metric.undefined_reason)
            for metric in message.metrics
            if not metric.HasField("value")
        },
        intervals={
            metric.name: read_interval(metric)
            for metric in message.metrics
            if metric.HasField("interval")
        },
        bounds={
            metric.name: (metric.bounds.lower, metric.bounds.upper)
            for metric in message.metrics
            if metric.HasField("bounds")
        },
        figures=figures,
        window=read_span(message, "window"),
        segment=(message.segment.key, message.segment.value)
        if message.HasField("segment")
        else None,
        coverage=read_coverage(message, "coverage"),
        warnings=tuple(message.warnings),
        weights=_weights(message),
        operating_point=_operating_point(message),
        projection=_projection(message),
    )


def read_label_sample(message: query_pb2.SampleForLabelsResponse) -> StreamLabelSample:
    """Return which predictions to label. O(ids)."""
    return StreamLabelSample(
        metric=message.metric,
        bands=tuple(
            SampledBand(band.lower, band.upper, band.waiting, band.to_label)
            for band in message.bands
        ),
        ids=tuple(each.id for each in message.ids),
        label_probabilities=tuple(each.label_probability for each in message.ids),
        is_proportional=message.is_proportional,
        revision=message.revision,
        window=read_span(message, "window"),
        seed=message.seed,
        warnings=tuple(message.warnings),
    )


def _projection(message: types_pb2.Snapshot) -> StreamProjection | None:
    """Return what the window will read once its labels are in; None if it was not asked for."""
    if not message.HasField("projection"):
        return None
    projection = message.projection
    return StreamProjection(
        figures=tuple(map(_projected_figure, projection.metrics)),
        assumption=projection.assumption,
        labelled_share=_real(projection, "labelled_share"),
        prevalence=_real(projection, "prevalence"),
        fit=_real(projection, "fit"),
    )


def _projected_figure(message: types_pb2.ProjectedMetric) -> ProjectedFigure:
    interval = reason = None
    if message.refusal:
        reason = _refusal(message.refusal)
    else:
        given = message.interval
        interval = Interval(
            _real(given, "lower"),
            _real(given, "upper"),
            given.level,
            "projected",
            _real(message, "projected"),
        )
    return ProjectedFigure(
        metric=message.name,
        prevalence=message.prevalence if message.HasField("prevalence") else None,
        now=_real(message, "value"),
        interval=interval,
        limits=(message.limits.lower, message.limits.upper) if message.HasField("limits") else None,
        reason=reason,
        backtest=tuple(map(_backtested, message.backtest)),
        widening=message.widening or 1.0,
    )


def _refusal(number: types_pb2.ProjectionRefusal.ValueType) -> RefusalReason:
    if number not in types_pb2.ProjectionRefusal.values():
        return RefusalReason.UNKNOWN  # from a newer server
    name = types_pb2.ProjectionRefusal.Name(number)
    return RefusalReason[name.removeprefix("PROJECTION_REFUSAL_")]


def _backtested(message: types_pb2.BacktestedWindow) -> BacktestedWindow:
    return BacktestedWindow(
        start=message.window.start_time.ToDatetime(UTC),
        end=message.window.end_time.ToDatetime(UTC),
        made_at=message.made_time.ToDatetime(UTC),
        projected=message.projected,
        final=message.final_value,
        z=message.z,
    )


def _real(message: Message, field: str) -> float:
    """Return an optional field; nan where it is absent."""
    value: float = getattr(message, field) if message.HasField(field) else math.nan
    return value


def _operating_point(message: types_pb2.Snapshot) -> Confusion | None:
    """Return the counts at the declared threshold; None where the stream declares none."""
    if not message.HasField("operating_point"):
        return None
    at = message.operating_point
    counts: list[Any] = [_whole(each) for each in (at.tp, at.fp, at.fn, at.tn)]
    return Confusion(at.threshold, *counts)


def _whole(count: float) -> float:
    """Return a number of cases as an int, a sum of weights as it is."""
    return int(count) if count.is_integer() else count


def _weights(message: types_pb2.Snapshot) -> WeightTotals | None:
    """Return what the references weigh; None where each weighs 1."""
    if not message.HasField("weights"):
        return None
    weights = message.weights
    return WeightTotals(
        weights.positives,
        weights.negatives,
        weights.effective_positives,
        weights.effective_negatives,
    )


def _value(metric: types_pb2.Metric) -> float:
    return metric.value if metric.HasField("value") else math.nan


def _reason(reason: types_pb2.UndefinedReason.ValueType) -> str:
    if reason not in types_pb2.UndefinedReason.values():
        return "UNKNOWN"  # from a newer server
    return types_pb2.UndefinedReason.Name(reason).removeprefix(_REASON_PREFIX)


def read_interval(metric: types_pb2.Metric) -> Interval:
    """Return a figure with its interval; nan where there is none."""
    interval = metric.interval
    lower, upper = read_limits(interval)
    return Interval(
        lower=lower,
        upper=upper,
        level=interval.level,
        method=analytic_method(metric.name),
        estimate=_value(metric),
        anytime=interval.anytime,
        design_effect=_design_effect(interval),
        refused=_refused(interval),
        least_effect=interval.min_design_effect
        if interval.HasField("min_design_effect")
        else math.nan,
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
    reason = _reason(interval.undefined_reason)
    return reason if reason in _REFUSALS else None


def read_span(message: Message, field: str) -> Span:
    """Return a TimeRange as a pair of datetimes; None where it is absent."""
    if not message.HasField(field):
        return None
    span: types_pb2.TimeRange = getattr(message, field)
    return span.start_time.ToDatetime(UTC), span.end_time.ToDatetime(UTC)


def read_coverage(message: Message, field: str) -> StreamCoverage | None:
    """Return a Coverage; None where it is absent."""
    if not message.HasField(field):
        return None
    coverage: types_pb2.Coverage = getattr(message, field)
    return StreamCoverage(
        predictions=coverage.predictions,
        labelled=coverage.labelled,
        expired=coverage.expired,
        retracted=coverage.retracted,
        orphans=coverage.orphans,
        delays={each.quantile: _timedelta(each.delay) for each in coverage.delays},
        bands=tuple(
            ScoreBand(band.lower, band.upper, band.predictions, band.labelled)
            for band in coverage.bands
        ),
    )


def _timedelta(duration: Duration) -> timedelta:
    return duration.ToMicroseconds() * _MICROSECOND


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


def read_comparison(response: query_pb2.CompareStreamsResponse) -> StreamComparison:
    """Return a comparison."""
    difference = read_interval(response.difference)
    return StreamComparison(
        metric=response.a.name,
        difference=difference.estimate,
        lower=difference.lower,
        upper=difference.upper,
        level=difference.level,
        p_value=response.p_value if response.HasField("p_value") else math.nan,
        prevalence=response.prevalence if response.HasField("prevalence") else None,
        a=read_interval(response.a),
        b=read_interval(response.b),
        revision=response.revision,
        complement=response.complement,
        window_a=read_span(response, "window_a"),
        window_b=read_span(response, "window_b"),
        coverage_a=read_coverage(response, "coverage_a"),
        coverage_b=read_coverage(response, "coverage_b"),
        warnings=tuple(response.warnings),
        reason=difference.reason,
    )


def read_ranking(response: query_pb2.RankSegmentsResponse) -> SegmentRanking:
    """Return a ranking of slices."""
    return SegmentRanking(
        segments=tuple(map(_ranked_segment, response.segments)),
        revision=response.revision,
        window=read_span(response, "window"),
        coverage=read_coverage(response, "coverage"),
        warnings=tuple(response.warnings),
        prevalence=response.prevalence if response.HasField("prevalence") else None,
        num_left_out=response.num_left_out,
    )


def _ranked_segment(message: query_pb2.RankedSegment) -> RankedSegment:
    difference = read_interval(message.difference)
    return RankedSegment(
        segment=(message.segment.key, message.segment.value),
        value=read_interval(message.value),
        difference=difference.estimate,
        lower=difference.lower,
        upper=difference.upper,
        p_value=message.p_value if message.HasField("p_value") else math.nan,
        num_positive_ref=message.num_positive_ref,
        num_negative_ref=message.num_negative_ref,
        coverage=read_coverage(message, "coverage"),
    )


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
    return StreamReliability(
        table=table,
        limits=tuple(read_limits(each.interval) for each in bins),
        level=level,
        expected_positives=_whole(response.expected_positives),
        observed_positives=_whole(response.observed_positives),
        **{name: read_interval(metrics[name]) for name in Place.CALIBRATION.names()},
        brier_score=_value(metrics["brier_score"]),
        revision=response.revision,
        window=read_span(response, "window"),
        coverage=read_coverage(response, "coverage"),
        resolution=response.resolution if response.HasField("resolution") else None,
        warnings=tuple(response.warnings),
    )


def read_info(stream: stream_pb2.Stream) -> StreamInfo:
    """Return a stream's description."""
    counters = None
    if stream.HasField("counters"):
        counters = StreamCounters(
            **{field.name: getattr(stream.counters, field.name) for field in fields(StreamCounters)}
        )
    return StreamInfo(
        name=stream.name,
        create_time=stream.create_time.ToDatetime(UTC),
        create_revision=stream.create_revision,
        settings=_settings(stream.settings),
        counters=counters,
    )


def _settings(message: stream_pb2.StreamSettings) -> StreamSettings:
    scale: Literal["plain", "probability"] = "plain"
    if message.scale == stream_pb2.SCALE_PROBABILITY:
        scale = "probability"
    return StreamSettings(
        pane=_timedelta(message.pane),
        retention=_timedelta(message.retention),
        resolution=message.resolution,
        scale=scale,
        label_ttl=_timedelta(message.label_ttl),
        relabel_ttl=_timedelta(message.relabel_ttl),
        max_pending=message.max_pending,
        orphans="miss" if message.orphans == stream_pb2.ORPHAN_POLICY_MISS else "drop",
        expired="negative" if message.expired == stream_pb2.EXPIRY_POLICY_NEGATIVE else "drop",
        segment_keys=tuple(message.segment_keys),
        cluster_key=message.cluster_key,
        cluster_groups=message.cluster_groups,
        threshold=message.threshold if message.HasField("threshold") else None,
        cost_fp=message.cost_fp if message.HasField("cost_fp") else None,
        cost_fn=message.cost_fn if message.HasField("cost_fn") else None,
        alarms=read_settings(message),
    )
