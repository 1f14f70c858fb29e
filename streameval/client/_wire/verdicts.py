"""Verdicts, and how they are read."""

from __future__ import annotations

from streameval._uncertainty.interval import Interval
from streameval._verdict.verdict import Base, Because, Called, Moved, Since, Verdict, VerdictFigure
from streameval.client._wire.decode import read_span
from streameval.client._wire.reader import becomes, read, reads
from streameval.v1 import verdict_pb2


@reads(verdict_pb2.Verdict)
def read_verdict(message: verdict_pb2.Verdict) -> Verdict:
    """Return a verdict. O(segments)."""
    return read(message, Verdict)


@reads(verdict_pb2.VerdictInterval)
def _interval(message: verdict_pb2.VerdictInterval) -> Interval:
    return read(message, Interval)


@reads(verdict_pb2.VerdictCause)
def _because(message: verdict_pb2.VerdictCause) -> Because:
    return read(message, Because, segment=f"{message.segment.key}={message.segment.value}")


@reads(verdict_pb2.VerdictBase)
def _base(message: verdict_pb2.VerdictBase) -> Base:
    start, end = read_span(message.span)
    return read(message, Base, start=start, end=end)


becomes(verdict_pb2.VerdictSince, Since)
becomes(verdict_pb2.VerdictFigure, VerdictFigure)
becomes(verdict_pb2.VerdictMove, Moved)
becomes(verdict_pb2.VerdictCalled, Called)
