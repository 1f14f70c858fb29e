"""Streams with summaries, and the same figures by other queries: the oracle."""

from __future__ import annotations

import math
from datetime import timedelta
from fractions import Fraction

import numpy as np
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from streameval.v1 import overview_pb2, query_pb2, types_pb2
from streameval_server._model.errors import Code, RequestError
from streameval_server._model.stream_settings import StreamSettings
from streameval_server._queries.comparison import comparison, parse_comparison_request
from streameval_server._queries.query_engine import QueryEngine, parse_snapshot_request, snapshot
from streameval_server._queries.stream_list import stream_list
from streameval_server._queries.stream_list_request import parse_list_request
from streameval_server._queries.stream_summaries import StreamSummaries

from .conftest import HOUR, NOW, Event, View

WINDOW = timedelta(hours=6)


class Server:
    """Stands in for a server: named views that a test changes, and their summaries."""

    def __init__(self, *views: View) -> None:
        self.views = {view.info.name: view for view in views}
        self.revision = 7
        self.clock_us = NOW
        self.read: list[str] = []
        self.answers = QueryEngine(self.view, lambda: self.clock_us)
        self.summaries = StreamSummaries(
            self.answers,
            self.revisions,
            visible=lambda: self.revision,
            clock_us=lambda: self.clock_us,
        )

    def view(self, name: str) -> View:
        self.read.append(name)
        if name not in self.views:
            raise RequestError(Code.NOT_FOUND, f"no stream {name}", reason="STREAM_NOT_FOUND")
        return self.views[name]

    def revisions(self) -> tuple[list[tuple[str, int, int]], int]:
        found = sorted(self.views.items())
        return [(name, v.info.create_revision, v.revision) for name, v in found], self.revision

    def put(self, view: View) -> None:
        """Change a stream, or create it."""
        self.revision += 1
        view.revision = self.revision
        self.views[view.info.name] = view

    def list(
        self,
        *,
        covers=lambda _: True,
        streams=None,
        window: timedelta | None = WINDOW,
        is_complete: bool = True,
        **fields,
    ) -> overview_pb2.ListStreamSummariesResponse:
        """Return a page of all streams unless it is asked for otherwise.

        `is_complete` computes before what is out of date, however long it takes.
        """
        request = overview_pb2.ListStreamSummariesRequest(**{"page_size": 1_000, **fields})
        if window is not None:
            request.last.CopyFrom(duration(window))
        asked = parse_list_request(request).covering(streams)
        if is_complete:
            table = self.summaries.table(asked.span)
            table.scan()
            table.refresh(math.inf)
        return stream_list(self.summaries, covers, asked)

    def names(self, **fields) -> list[str]:
        """Return the streams of a page, in order."""
        return [each.stream for each in self.list(**fields).summaries]


def duration(span: timedelta) -> Duration:
    """Return a duration as a message."""
    message = Duration()
    message.FromTimedelta(span)
    return message


def stream(rng: np.random.Generator, name: str, cases: int = 150, **settings) -> View:
    """Return a stream with cases of the last 14 hours, worse or better in the last 6."""
    before, since = rng.uniform(0.0, 2.5, 2)
    ages = rng.uniform(0, 14, cases)
    labels = rng.random(cases) < rng.uniform(0.05, 0.6)
    distance = np.where(ages < 6, since, before)
    scores = 1 / (1 + np.exp(-rng.normal(size=cases) - distance * labels))
    events = [
        Event(bool(label), float(score), NOW - int(age * HOUR))
        for label, score, age in zip(labels, scores, ages, strict=True)
    ]
    return View(events, stream=name, settings=StreamSettings(scale="probability", **settings))


def expected_snapshot(server: Server, name: str) -> types_pb2.Snapshot:
    """Return a stream's snapshot of the window."""
    chosen = types_pb2.Selection(stream=name, last=duration(WINDOW))
    return snapshot(
        server.answers, parse_snapshot_request(query_pb2.GetSnapshotRequest(selection=chosen))
    )


def expected_change(server: Server, name: str) -> types_pb2.Comparison:
    """Return the comparison of the window with the time before it."""
    start_us = expected_snapshot(server, name).window.start_time.ToMicroseconds()
    span = start_us - WINDOW // timedelta(microseconds=1), start_us
    between = types_pb2.TimeRange(start_time=timestamp(span[0]), end_time=timestamp(span[1]))
    request = query_pb2.CompareStreamsRequest(
        a=types_pb2.Selection(stream=name, last=duration(WINDOW)),
        b=types_pb2.Selection(stream=name, between=between),
    )
    return comparison(server.answers, parse_comparison_request(request))


def timestamp(time_us: int) -> Timestamp:
    """Return a time as a message."""
    message = Timestamp()
    message.FromMicroseconds(time_us)
    return message


def evident(p_values: dict[str, float]) -> set[str]:
    """Return what Benjamini and Hochberg call different at 5 %, by the definition."""
    known = sorted((p, name) for name, p in p_values.items() if not math.isnan(p))
    size = len(known)
    limits = [
        rank
        for rank, (p, _) in enumerate(known, 1)
        if Fraction(p) <= Fraction(1, 20) * Fraction(rank, size)
    ]
    return {name for _, name in known[: max(limits, default=0)]}
