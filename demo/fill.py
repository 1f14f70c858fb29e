"""Makes the demo's streams on a server, and sends them their cases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Self

import grpc
import numpy as np
from feed import HOUR_US, Feed
from streams import ALL, CHALLENGER, CHAMPION, PAIR

from streameval.client import AlarmSettings
from streameval.v1 import ingest_pb2, ingest_pb2_grpc

if TYPE_CHECKING:
    from feed import Cases
    from google.protobuf.message import Message
    from streams import Model

    from streameval.client import Client

STEP_US = 6 * HOUR_US
"""The history is sent in steps: scores, then the labels that came in the meantime."""

KEPT = {"retention": timedelta(days=90), "label_ttl": timedelta(days=28)}


class Filler:
    """Sends the cases of all streams to a server.

    Parameters
    ----------
    client : Client
    address : str
        The server's. What comes by id is sent by its contract, which has the times of labels.
    now_us : int
        When the demo begins.
    """

    def __init__(self, client: Client, address: str, *, now_us: int) -> None:
        self._client = client
        self._now_us = now_us
        self._channel = grpc.insecure_channel(address)
        self._ingest = ingest_pb2_grpc.IngestServiceStub(self._channel)
        self._feeds = [Feed(traffic, now_us, seed) for seed, traffic in enumerate(ALL)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def fill(self) -> None:
        """Make the streams and send their history, each kind of cases in a thread of its own."""
        for traffic in ALL:
            for model in traffic.models:
                self._client.create_stream(
                    model.stream,
                    scale="probability",
                    segment_keys=["country"],
                    **KEPT,
                    **model.settings,
                )
        self._client.create_pair(CHAMPION, CHALLENGER, name=PAIR)
        with ThreadPoolExecutor(len(ALL)) as threads:
            list(threads.map(self._send_history, self._feeds))
        self._client.flush(timeout_s=None)
        for traffic in ALL:
            for model in traffic.models:
                self._declare(model)

    def send(self, until_us: int) -> None:
        """Send what has come since the last call. Returns when it is durable."""
        for feed in self._feeds:
            self._send(feed, until_us)
        self._client.flush(timeout_s=None)

    def _time(self, days_ago: float) -> datetime:
        begin = datetime.fromtimestamp(self._now_us / 1_000_000, UTC)
        return begin - timedelta(days=days_ago)

    def _declare(self, model: Model) -> None:
        """Mark what was deployed, and declare alarms: they say when they would have rung."""
        for days_ago, text in model.marks.items():
            self._client.create_mark(model.stream, text, at=self._time(days_ago))
        if model.watches:
            settings = AlarmSettings(watches=model.watches, pane=timedelta(hours=1))
            self._client.update_stream(model.stream, alarms=settings)

    def _send_history(self, feed: Feed) -> None:
        for until_us in range(feed.begin_us + STEP_US, self._now_us, STEP_US):
            self._send(feed, until_us)
        self._send(feed, self._now_us)

    def _send(self, feed: Feed, until_us: int) -> None:
        """Send scores, then the labels that have come.

        What comes by id is sent as a log of its source that is read late.
        """
        cases, labelled = feed.take(until_us)
        by_id = feed.traffic.label_hours is not None
        for place, model in enumerate(feed.traffic.models):
            scores = cases.scores[:, place]
            if not by_id:
                self._client.stream(model.stream).add_cases(
                    labels=cases.labels,
                    scores=scores,
                    at=cases.at_us.view("datetime64[us]"),
                    segments={"country": cases.countries},
                )
            if by_id and cases.labels.size:
                self._call(model, until_us, predictions=_predictions(model, cases, scores))
            if by_id and labelled.labels.size and feed.traffic.labelled:
                self._call(model, until_us, labels=_labels(model, labelled))

    def _call(self, model: Model, until_us: int, **rows: Message) -> None:
        batch = ingest_pb2.Batch(stream=model.stream, source_time_us=until_us, **rows)
        self._ingest.IngestBatch(ingest_pb2.IngestBatchRequest(batch=batch))


def _predictions(model: Model, cases: Cases, scores: np.ndarray) -> ingest_pb2.Predictions:
    """Return scores by id as a message. O(n log n)."""
    values, codes = np.unique(cases.countries, return_inverse=True)
    country = ingest_pb2.SegmentColumn(key="country", values=values, codes=codes)
    return ingest_pb2.Predictions(
        ids=_ids(model, cases), scores=scores, event_times_us=cases.at_us, segments=[country]
    )


def _labels(model: Model, cases: Cases) -> ingest_pb2.Labels:
    """Return labels by id as a message, each with its time. O(n)."""
    return ingest_pb2.Labels(
        ids=_ids(model, cases), positives=cases.labels, label_times_us=cases.labelled_us
    )


def _ids(model: Model, cases: Cases) -> list[str]:
    """Return the ids of cases: the same ones for two models of one kind."""
    kind = model.stream.partition("/")[0]
    return [f"{kind}-{number}" for number in cases.numbers]
