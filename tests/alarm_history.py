"""Data directories whose logs tell of a week to compare with, and of what has come since.

A detector observes rows as they come, so that a server that runs cannot be told of an alarm of
yesterday: the log is written with a clock that begins days ago and stops now.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from streameval.v1 import alarm_pb2, ingest_pb2, stream_pb2
from streameval_server import Limits
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._ingest.session import IngestSession
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._log.storage import MemoryStorage
from streameval_server._model.alarm_change import AlarmChange
from streameval_server.maintenance import LOG_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import numpy.typing as npt

STEP_US = 600_000_000
PANE_US = 24 * STEP_US
PANES_A_DAY = 6
STEPS_A_DAY = 144
COUNTRIES = ("DE", "FR", "US")
THRESHOLD = 0.5
LIMITS = Limits()


def write_alarm_history(directory: Path, stream: str, *, per_step: int = 30) -> None:
    """Write the log of nine days until now.

    The first seven are the reference. For the eighth's morning the model orders nothing in Germany;
    those alarms are acknowledged once it is well again. For the last five hours it orders nothing
    in France; those alarms are open.

    Parameters
    ----------
    directory : Path
        Created if need be; no server runs on it.
    stream : str
    per_step : int
        Cases in ten minutes.
    """
    core = open_core(MemoryStorage(), LIMITS)
    start_us = int(time.time() * 1e6) - 9 * STEPS_A_DAY * STEP_US
    _call(core, start_us, lambda call: call.create_stream(_created(stream, start_us)))
    session = _session(core, start_us)
    rng = np.random.default_rng(5)
    for step in range(1, 9 * STEPS_A_DAY):
        now_us = start_us + step * STEP_US
        wrong = None
        if 7 * STEPS_A_DAY + 30 <= step < 7 * STEPS_A_DAY + 66:
            wrong = 0
        elif step >= 9 * STEPS_A_DAY - 30:
            wrong = 1
        batch = ingest_pb2.Batch(sequence=step, stream=stream, cases=_cases(rng, per_step, wrong))
        session.feed(ingest_pb2.IngestRequest(batch=batch).SerializeToString(), now_us)
        core.committer.step(now_us).deliver()
        core.applier.finish()
        if step == 8 * STEPS_A_DAY:
            _acknowledge_all(core, stream, now_us)
    assert not any(reply.HasField("refused") for reply in session.replies())
    _write(core, directory)


def write_quiet_month(directory: Path, streams: Sequence[str], *, mean_days: int) -> None:
    """Write the log of streams in which nothing changes: a week to compare with, then 30 days.

    Parameters
    ----------
    directory : Path
        Created if need be; no server runs on it.
    streams : sequence of str
        Their alarms allow one false alarm in `mean_days`, in panes of four hours.
    mean_days : int
    """
    core = open_core(MemoryStorage(), LIMITS)
    start_us = int(time.time() * 1e6) - 37 * PANES_A_DAY * PANE_US
    for stream in streams:
        mean_us = mean_days * PANES_A_DAY * PANE_US
        created = _created(stream, start_us, pane_us=PANE_US, mean_us=mean_us)
        _call(core, start_us, lambda call, created=created: call.create_stream(created))
    session = _session(core, start_us)
    rng = np.random.default_rng(6)
    for pane in range(1, 37 * PANES_A_DAY):
        now_us = start_us + pane * PANE_US
        for place, stream in enumerate(streams, 1):
            sequence = (pane - 1) * len(streams) + place
            batch = ingest_pb2.Batch(sequence=sequence, stream=stream, cases=_cases(rng, 100, None))
            session.feed(ingest_pb2.IngestRequest(batch=batch).SerializeToString(), now_us)
        core.committer.step(now_us).deliver()
        core.applier.finish()
    assert not any(reply.HasField("refused") for reply in session.replies())
    _write(core, directory)


def _write(core: ServerCore, directory: Path) -> None:
    """Write the log at once: a sync for each of a thousand commits would take seconds."""
    directory.mkdir(parents=True, exist_ok=True)
    storage = SqliteStorage(directory / LOG_NAME)
    storage.open()
    storage.append(list(core.storage.read(0)))
    storage.close()


def _session(core: ServerCore, now_us: int) -> IngestSession:
    session = IngestSession(core.committer, LIMITS)
    opening = ingest_pb2.IngestRequest(open=ingest_pb2.Open(producer="model", epoch=1))
    session.feed(opening.SerializeToString(), now_us)
    return session


def _cases(rng: np.random.Generator, size: int, wrong: int | None) -> ingest_pb2.Cases:
    """Return cases that the model orders well, but in one country not at all."""
    labels: npt.NDArray[np.bool_] = rng.random(size) < 0.25
    codes = rng.integers(0, len(COUNTRIES), size)
    distance = np.where(codes == (-1 if wrong is None else wrong), 0.0, 2.2)
    scores = 1 / (1 + np.exp(-2 * (distance * labels + rng.normal(size=size)) + 3.0))
    column = ingest_pb2.SegmentColumn(key="country", values=COUNTRIES, codes=codes.tolist())
    return ingest_pb2.Cases(scores=scores.tolist(), positives=labels.tolist(), segments=[column])


def _created(
    stream: str, now_us: int, *, pane_us: int = STEP_US, mean_us: int | None = None
) -> bytes:
    request = stream_pb2.CreateStreamRequest()
    request.stream.name = stream
    settings = request.stream.settings
    settings.segment_keys.append("country")
    settings.threshold = THRESHOLD
    settings.scale = stream_pb2.Scale.SCALE_PROBABILITY
    for name, tolerance in (("auc_roc", 0.01), ("precision", 0.03), ("recall", 0.03)):
        settings.alarms.watches.append(alarm_pb2.AlarmWatch(name=name, tolerance=tolerance))
    settings.alarms.pane.FromMicroseconds(pane_us)
    if mean_us is not None:
        settings.alarms.mean_time_to_false_alarm.FromMicroseconds(mean_us)
    settings.alarms.reference.start_time.FromMicroseconds(now_us)
    settings.alarms.reference.end_time.FromMicroseconds(now_us + 7 * STEPS_A_DAY * STEP_US)
    return request.SerializeToString()


def _acknowledge_all(core: ServerCore, stream: str, now_us: int) -> None:
    for info, view in core.engine.alarms():
        assert info.name == stream
        for number in [each.number for each in view.alarms if each.is_open]:
            change = AlarmChange(number, is_delivery=False)
            _call(core, now_us, lambda call, change=change: call.change_alarm(stream, change))


def _call(core: ServerCore, now_us: int, ask: Callable[[UnaryCall], None]) -> None:
    call = UnaryCall(core.committer, LIMITS, lambda: None)
    ask(call)
    core.committer.step(now_us).deliver()
    core.applier.finish()
    call.response()
