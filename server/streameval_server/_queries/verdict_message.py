"""Verdicts as messages."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from google.protobuf.timestamp_pb2 import Timestamp

from streameval.v1 import types_pb2, verdict_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from streameval import Interval, Verdict, VerdictFigure
    from streameval_server._model.verdict_change import CalledRow


def verdict_message(
    stream: str, verdict: Verdict, called: Iterable[CalledRow] = ()
) -> verdict_pb2.Verdict:
    """Return a verdict on a stream. O(segments)."""
    return verdict_pb2.Verdict(
        stream=stream,
        quality=_quality(verdict.quality),
        flow=verdict_pb2.VerdictFlow.Value(f"VERDICT_FLOW_{verdict.flow.upper()}"),
        sentence=verdict.sentence,
        figures=map(_figure, verdict.figures),
        since=_since(verdict.since),
        returned=_since(verdict.returned),
        because=map(_cause, verdict.because),
        first=verdict_pb2.VerdictFirst.Value(
            f"VERDICT_FIRST_{(verdict.first or 'unspecified').upper()}"
        ),
        moved=map(_move, verdict.moved),
        alarm=verdict.alarm,
        base=_base(verdict.base),
        excluded=_known(verdict.excluded),
        projected=None if verdict.projected is None else _interval(verdict.projected),
        margin=verdict.margin,
        at=_timestamp(verdict.at),
        valid_until=_timestamp(verdict.valid_until),
        could_be_wrong=verdict.could_be_wrong,
        sure=verdict.sure,
        happened=verdict.happened,
        history=map(_called, called),
    )


def _figure(figure: VerdictFigure) -> verdict_pb2.VerdictFigure:
    return verdict_pb2.VerdictFigure(
        metric=figure.metric,
        prevalence=figure.prevalence,
        before=_interval(figure.before),
        now=_interval(figure.now),
        difference=_interval(figure.difference),
    )


def _interval(interval: Interval) -> verdict_pb2.VerdictInterval:
    return verdict_pb2.VerdictInterval(
        estimate=_known(interval.estimate),
        lower=_known(interval.lower),
        upper=_known(interval.upper),
        level=interval.level,
        method=interval.method,
        anytime=interval.anytime,
    )


def _since(since: Any) -> verdict_pb2.VerdictSince | None:
    if since is None:
        return None
    return verdict_pb2.VerdictSince(
        earliest=_timestamp(since.earliest),
        likeliest=_timestamp(since.likeliest),
        latest=_timestamp(since.latest),
        annotations=since.annotations,
    )


def _cause(because: Any) -> verdict_pb2.VerdictCause:
    key, _, value = because.segment.partition("=")
    segment = types_pb2.Segment(key=key, value=value)
    return verdict_pb2.VerdictCause(segment=segment, share=because.share, e_value=because.e_value)


def _move(moved: Any) -> verdict_pb2.VerdictMove:
    return verdict_pb2.VerdictMove(
        name=moved.name, before=moved.before, now=moved.now, since=_since(moved.since)
    )


def _base(base: Any) -> verdict_pb2.VerdictBase | None:
    if base is None:
        return None
    span = types_pb2.TimeRange(start_time=_timestamp(base.start), end_time=_timestamp(base.end))
    return verdict_pb2.VerdictBase(
        span=span,
        positives=base.positives,
        negatives=base.negatives,
        is_declared=base.is_declared,
    )


def _quality(name: str) -> verdict_pb2.VerdictQuality.ValueType:
    return verdict_pb2.VerdictQuality.Value(f"VERDICT_QUALITY_{name.upper()}")


def _called(former: CalledRow) -> verdict_pb2.VerdictCalled:
    message = verdict_pb2.VerdictCalled(
        quality=_quality(former.quality or "immature"),
        is_accepted=not former.quality,
    )
    message.called.FromMicroseconds(former.at_us)
    if former.from_us:
        message.since.FromMicroseconds(former.from_us)
    return message


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _timestamp(at: datetime) -> Timestamp:
    message = Timestamp()
    message.FromDatetime(at)
    return message
