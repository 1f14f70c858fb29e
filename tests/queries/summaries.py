"""Streams with summaries, the same figures by other queries, and verdicts that are given."""

from __future__ import annotations

import math
from datetime import timedelta

import numpy as np
from google.protobuf.duration_pb2 import Duration

from streameval.v1 import overview_pb2, query_pb2, types_pb2, verdict_pb2
from streameval_server._model.errors import Code, RequestError
from streameval_server._model.stream_settings import StreamSettings
from streameval_server._queries.query_engine import QueryEngine, parse_snapshot_request, snapshot
from streameval_server._queries.stream_list import stream_list
from streameval_server._queries.stream_list_request import parse_list_request
from streameval_server._queries.stream_summaries import StreamSummaries
from streameval_server._queries.stream_verdicts import KnownVerdict

from .conftest import HOUR, NOW, Event, View

WINDOW = timedelta(hours=6)


class GivenVerdicts:
    """Stands in for `Verdicts`: each stream has the one that a test gives it, for ever."""

    def __init__(self) -> None:
        self.given: dict[str, verdict_pb2.Verdict] = {}

    def of(self, view: View, **_: bool) -> KnownVerdict:
        given = self.given.get(view.info.name) or verdict("immature")
        return KnownVerdict((), given.SerializeToString(), 0, 1 << 62, 1 << 62)


def verdict(quality: str, difference: float | None = None, flow: str = "ok") -> verdict_pb2.Verdict:
    """Return a verdict with a difference of AUC-PR."""
    message = verdict_pb2.Verdict(
        quality=f"VERDICT_QUALITY_{quality.upper()}", flow=f"VERDICT_FLOW_{flow.upper()}"
    )
    if difference is not None:
        message.figures.add(metric="auc_pr").difference.estimate = difference
    return message


class Server:
    """Stands in for a server: named views that a test changes, and their summaries."""

    def __init__(self, *views: View) -> None:
        self.views = {view.info.name: view for view in views}
        self.revision = 7
        self.clock_us = NOW
        self.read: list[str] = []
        self.decided: dict[str, int] = {}
        self.answers = QueryEngine(self.view, lambda: self.clock_us)
        self.answers.verdicts = GivenVerdicts()
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

    def revisions(self) -> tuple[list[tuple[str, int, int, int]], int]:
        found = [
            (name, view.info.create_revision, view.revision, self.decided.get(name, 0))
            for name, view in sorted(self.views.items())
        ]
        return found, self.revision

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
