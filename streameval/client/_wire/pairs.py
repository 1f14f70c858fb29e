"""Decoding: answers about pairs become objects."""

from __future__ import annotations

import math

from streameval._uncertainty.interval import Interval
from streameval.client._wire.decode import read_interval, read_limits
from streameval.client._wire.pair_answers import (
    Disagreement,
    PairComparison,
    PairCounters,
    PairCoverage,
    PairSettings,
)
from streameval.client._wire.reader import becomes, label, read, reads
from streameval.v1 import pair_pb2


@reads(pair_pb2.PairSettings)
def _read_settings(message: pair_pb2.PairSettings) -> PairSettings:
    return read(message, PairSettings, expired="negative" if message.expired_negative else "drop")


becomes(pair_pb2.PairCounters, PairCounters)
becomes(pair_pb2.PairCoverage, PairCoverage)
becomes(pair_pb2.Disagreement, Disagreement)


def read_answer(
    response: pair_pb2.GetPairComparisonResponse, metric: str, level: float
) -> PairComparison:
    segments = tuple(read_comparison(each, metric, level) for each in response.segments)
    return read_comparison(response.comparison, metric, level, segments)


def read_comparison(
    message: pair_pb2.PairComparison,
    metric: str,
    level: float,
    segments: tuple[PairComparison, ...] = (),
) -> PairComparison:
    difference = read_interval(message.difference)
    verdict = label(pair_pb2.PairVerdict.DESCRIPTOR, message.verdict).lower()
    refusal = label(pair_pb2.PairRefusal.DESCRIPTOR, message.refusal)
    looks = Interval(
        *read_limits(message.anytime), level, "normal-mixture", difference.estimate, anytime=True
    )
    return read(
        message,
        PairComparison,
        metric=message.value_a.name or metric,
        difference=difference.estimate,
        lower=difference.lower,
        upper=difference.upper,
        level=difference.level or level,
        a=read_interval(message.value_a),
        b=read_interval(message.value_b),
        anytime=False,
        e_value=message.e_value if message.HasField("e_value") else math.nan,
        reason=refusal if message.refusal else None,
        design_effect=difference.design_effect,
        names=(message.a, message.b),
        verdict=verdict if message.verdict else "no_answer",
        looks=looks,
        segments=segments,
    )
