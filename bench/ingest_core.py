"""Processor time of the server's core a batch, by stage, without gRPC.

    python bench/ingest_core.py [--loads ...] [--batches 3200] [--rounds 3] [--profile]

Batches that were encoded beforehand go through a session (decoding, checks), the committer (log
on disk, marks) and the applier (state), in one thread, 16 in each transaction. Labels are of
predictions that were sent before, a tenth as many batches as of cases. Times are of this
thread; the least of the rounds counts, since other work on the machine only adds to it. To
compare with another commit, let `PYTHONPATH` name its tree and its `server` folder, in turns.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import tempfile
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from host import print_host_at_exit
from load import Work, bodies, frame

from streameval.v1 import ingest_pb2, stream_pb2
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._ingest.session import IngestSession
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator

LOADS = {
    "1k": Work("1,000 cases", 1_000, packed=True),
    "1k-keys": Work("1,000 cases, 5 segment keys", 1_000, packed=True, segments=5),
    "10k": Work("10,000 cases", 10_000, packed=True),
    "8-streams": Work("1,000 cases, 8 streams", 1_000, streams=8, packed=True),
}
LABELS = "labels"
LABELLED = Work("1,000 labels of waiting predictions, 1 segment key", 1_000, segments=1)
TRANSACTION_BATCHES = 16
_START_US = 1_800_000_000_000_000
_LIMITS = Limits()


class Stages(NamedTuple):
    """Microseconds a batch."""

    accept: float
    commit: float
    apply: float


class Clock:
    """Sends frames through a core, and adds up the time of each stage.

    Attributes
    ----------
    seconds : list of float
        Of accepting, committing and applying.
    """

    def __init__(
        self, core: ServerCore, sessions: list[IngestSession], profile: cProfile.Profile | None
    ) -> None:
        self.seconds = [0.0] * 3
        self._core, self._sessions, self._profile = core, sessions, profile
        self._now_us = _START_US

    def send(self, frames: list[tuple[IngestSession, bytes]], rows: int, *, counts: bool) -> None:
        """Send frames as one transaction; their time counts if it is to."""
        core, now_us, profile = self._core, self._now_us, self._profile if counts else None
        if profile is not None:
            profile.enable()
        times = [time.thread_time()]
        for session, each in frames:
            session.feed(each, now_us)
        times.append(time.thread_time())
        core.committer.step(now_us).deliver()
        for session in self._sessions:
            session.replies()
        times.append(time.thread_time())
        core.applier.finish()
        times.append(time.thread_time())
        if profile is not None:
            profile.disable()
        self._now_us += len(frames) * rows // 3
        if counts:
            for stage, (begin, end) in enumerate(pairwise(times)):
                self.seconds[stage] += end - begin


def _declare(core: ServerCore, work: Work) -> None:
    for number in range(work.streams):
        stream = stream_pb2.Stream(name=work.stream(number))
        stream.settings.segment_keys.extend(f"key-{key}" for key in range(work.segments))
        call = UnaryCall(core.committer, _LIMITS)
        request = stream_pb2.CreateStreamRequest(stream=stream)
        call.create_stream(request.SerializeToString())
        core.committer.step(_START_US).deliver()
        core.applier.finish()
        call.response()


def _sessions(core: ServerCore, number: int) -> list[IngestSession]:
    sessions = [IngestSession(core.committer, _LIMITS) for _ in range(number)]
    for place, session in enumerate(sessions):
        opened = ingest_pb2.Open(producer=f"producer-{place}", epoch=1)
        session.feed(ingest_pb2.IngestRequest(open=opened).SerializeToString(), _START_US)
    core.committer.step(_START_US).deliver()
    core.applier.finish()
    return sessions


def measure(work: Work, batches: int, profile: cProfile.Profile | None = None) -> Stages:
    """Send batches after a quarter as many that warm up; return the time of each stage."""
    encoded = [bodies(work, work.stream(number)) for number in range(work.streams)]
    with _opened(work) as core:
        sessions = _sessions(core, work.streams)
        clock, sent, sequence = Clock(core, sessions, profile), 0, 0
        while sent < batches:
            frames = []
            while len(frames) < TRANSACTION_BATCHES:
                sequence += 1
                frames += [
                    (session, frame(own[sequence % len(own)], sequence))
                    for session, own in zip(sessions, encoded, strict=True)
                ]
            is_warm = sequence * work.streams > batches // 4
            clock.send(frames, work.rows, counts=is_warm)
            sent += len(frames) if is_warm else 0
    return Stages(*(1e6 * each / sent for each in clock.seconds))


def measure_labels(batches: int, profile: cProfile.Profile | None = None) -> Stages:
    """Send batches of predictions, then as many of their labels; return the time of the labels."""
    rows, name = LABELLED.rows, LABELLED.stream(0)
    with _opened(LABELLED) as core:
        (session,) = _sessions(core, 1)
        clock = Clock(core, [session], profile)
        for part, batch in enumerate((_predictions, _labels)):
            encoded = [batch(name, rows, first) for first in range(0, batches * rows, rows)]
            for start in range(0, batches, TRANSACTION_BATCHES):
                some = encoded[start : start + TRANSACTION_BATCHES]
                first = part * batches + start + 1
                frames = [(session, frame(body, first + at)) for at, body in enumerate(some)]
                clock.send(frames, rows, counts=bool(part))
    return Stages(*(1e6 * each / batches for each in clock.seconds))


@contextmanager
def _opened(work: Work) -> Iterator[ServerCore]:
    """Yield a core with a log on the disk and the streams of a load."""
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as folder:
        core = open_core(SqliteStorage(Path(folder) / "log.db"), _LIMITS)
        _declare(core, work)
        yield core
        core.storage.close()


def _ids(first: int, rows: int) -> list[str]:
    return [f"order-{number}" for number in range(first, first + rows)]


def _predictions(stream: str, rows: int, first: int) -> bytes:
    scores = np.random.default_rng(first).normal(size=rows).tolist()
    predictions = ingest_pb2.Predictions(ids=_ids(first, rows), scores=scores)
    return ingest_pb2.Batch(stream=stream, predictions=predictions).SerializeToString()


def _labels(stream: str, rows: int, first: int) -> bytes:
    positives = (np.random.default_rng(first).random(rows) < 0.05).tolist()
    labels = ingest_pb2.Labels(ids=_ids(first, rows), positives=positives)
    return ingest_pb2.Batch(stream=stream, labels=labels).SerializeToString()


def main() -> None:
    print_host_at_exit()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    loads = [*LOADS, LABELS]
    parser.add_argument("--loads", nargs="+", choices=loads, default=loads)
    parser.add_argument("--batches", type=int, default=3_200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--profile", action="store_true", help="of the last load, by processor time"
    )
    chosen = parser.parse_args()
    print(f"{'us a batch':52}{'accept':>9}{'commit':>9}{'apply':>9}{'sum':>9}")

    def measured(name: str, profile: cProfile.Profile | None = None) -> Stages:
        if name == LABELS:
            return measure_labels(chosen.batches // 10, profile)
        return measure(LOADS[name], chosen.batches * 1_000 // LOADS[name].rows, profile)

    for name in chosen.loads:
        rounds = [measured(name) for _ in range(chosen.rounds)]
        least = Stages(*map(min, zip(*rounds, strict=True)))
        columns = "".join(f"{each:9.1f}" for each in (*least, sum(least)))
        label = LABELLED.label if name == LABELS else LOADS[name].label
        print(f"{label:52}{columns}", flush=True)
    if chosen.profile:
        profile = cProfile.Profile(time.thread_time)
        measured(chosen.loads[-1], profile)
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)


if __name__ == "__main__":
    main()
