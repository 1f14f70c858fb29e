"""Decoding: answers about pairs become objects."""

from __future__ import annotations

import math
from dataclasses import fields

from streameval._uncertainty.compare import Comparison
from streameval._uncertainty.interval import Interval
from streameval.client._wire.decode import read_comparison, read_limits
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


def read_answer(response: pair_pb2.GetPairComparisonResponse) -> PairComparison:
    return read_pair(response.comparison, tuple(map(read_pair, response.segments)))


def read_pair(
    message: pair_pb2.PairComparison, segments: tuple[PairComparison, ...] = ()
) -> PairComparison:
    compared, looks = read_comparison(message.compared), message.anytime
    verdict = label(pair_pb2.PairVerdict.DESCRIPTOR, message.verdict).lower()
    refusal = label(pair_pb2.PairRefusal.DESCRIPTOR, message.refusal)
    known = {each.name: getattr(compared, each.name) for each in fields(Comparison)}
    known |= {
        "e_value": message.e_value if message.HasField("e_value") else math.nan,
        "reason": refusal if message.refusal else None,
        "names": (message.a, message.b),
        "revision": compared.revision,
        "window": compared.window_a,
        "verdict": verdict if message.verdict else "no_answer",
        "looks": Interval(
            *read_limits(looks), looks.level, "normal-mixture", compared.difference, anytime=True
        ),
        "segments": segments,
    }
    return read(message, PairComparison, **known)
