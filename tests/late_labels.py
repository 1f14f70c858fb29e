"""A data directory whose log tells of weeks of predictions, with labels that came days later.

A server that runs cannot be told of labels that came in the past, so the log is written with a
clock that begins weeks ago and stops now.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from streameval.v1 import ingest_pb2, stream_pb2
from streameval_server import Limits
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._ingest.session import IngestSession
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.sqlite import SqliteStorage
from streameval_server.maintenance import LOG_NAME

if TYPE_CHECKING:
    from pathlib import Path

DAY_US = 86_400_000_000
TTL_DAYS = 5
STEPS_A_DAY = 8
GOLDEN = 0.6180339887498949
"""Multiples of it are spread evenly over [0, 1) after their decimal point."""


def write_late_labels(
    directory: Path, stream: str, *, days: int = 30, per_day: int = 500, delay_days: float = 3.5
) -> int:
    """Write the log of a stream until now; return its last revision.

    Parameters
    ----------
    directory : Path
        Created if need be; no server runs on it.
    stream : str
        Its panes are a day wide; a quarter of its predictions are positives.
    days : int
        How many days of predictions, spread evenly.
    per_day : int
    delay_days : float
        A positive's label comes up to this many days later; a negative's after an hour.
    """
    directory.mkdir(parents=True, exist_ok=True)
    storage = SqliteStorage(directory / LOG_NAME)
    core = open_core(storage, Limits())
    start_us = int(time.time() * 1e6) - days * DAY_US
    _create(core, stream, start_us)
    session = IngestSession(core.committer, core.limits)
    opening = ingest_pb2.IngestRequest(open=ingest_pb2.Open(producer="model", epoch=1))
    session.feed(opening.SerializeToString(), start_us)
    core.committer.step(start_us).deliver()
    rng = np.random.default_rng(11)
    rows = days * per_day
    at_us = start_us + np.sort(rng.integers(0, days * DAY_US, rows))
    positives = rng.random(rows) < 0.25
    scores = 1 / (1 + np.exp(-rng.normal(1.6 * positives)))
    # Evenly spread, each share of a day alike: whatever the hour, delays are as they were before.
    late_us = (np.cumsum(positives) * GOLDEN % 1 * delay_days * DAY_US).astype(np.int64)
    due_us = at_us + np.where(positives, late_us, DAY_US // 24)
    ids = np.arange(rows).astype(str)
    for step in range(1, days * STEPS_A_DAY + 1):
        end_us = start_us + step * DAY_US // STEPS_A_DAY
        new, known = (
            (column > end_us - DAY_US // STEPS_A_DAY) & (column <= end_us)
            for column in (at_us, due_us)
        )
        predictions = ingest_pb2.Predictions(
            ids=ids[new].tolist(), scores=scores[new].tolist(), event_times_us=at_us[new].tolist()
        )
        labels = ingest_pb2.Labels(ids=ids[known].tolist(), positives=positives[known].tolist())
        for batch in (
            ingest_pb2.Batch(sequence=2 * step - 1, stream=stream, predictions=predictions),
            ingest_pb2.Batch(sequence=2 * step, stream=stream, labels=labels),
        ):
            session.feed(ingest_pb2.IngestRequest(batch=batch).SerializeToString(), end_us)
        core.committer.step(end_us).deliver()
        core.applier.finish()
    assert not any(reply.HasField("refused") for reply in session.replies())
    revision = core.committer.revision
    storage.close()
    return revision


def _create(core: ServerCore, stream: str, now_us: int) -> None:
    request = stream_pb2.CreateStreamRequest()
    request.stream.name = stream
    settings = request.stream.settings
    settings.pane.FromMicroseconds(DAY_US)
    settings.retention.FromMicroseconds(90 * DAY_US)
    settings.label_ttl.FromMicroseconds(TTL_DAYS * DAY_US)
    settings.relabel_ttl.FromMicroseconds(DAY_US)
    settings.scale = stream_pb2.Scale.SCALE_PROBABILITY
    call = UnaryCall(core.committer, core.limits, lambda: None)
    call.create_stream(request.SerializeToString())
    core.committer.step(now_us).deliver()
    call.response()
