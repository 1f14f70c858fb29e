"""Processor time of the server's core a batch, by stage, without gRPC.

    python bench/ingest_core.py [--loads ...] [--batches 3200] [--rounds 3] [--profile]

Batches that were encoded beforehand go through a session (decoding, checks), the committer (log
on disk, marks) and the applier (state), in one thread, 16 in each transaction. Times are of this
thread; the least of the rounds counts, since other work on the machine only adds to it. To
compare with another commit, let `PYTHONPATH` name its tree and its `server` folder, in turns.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from host import print_host_at_exit
from load import Work, bodies, frame

from streameval.v1 import ingest_pb2, stream_pb2
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._ingest.session import IngestSession
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.limits import Limits

LOADS = {
    "1k": Work("1,000 cases", 1_000, packed=True),
    "1k-keys": Work("1,000 cases, 5 segment keys", 1_000, packed=True, segments=5),
    "10k": Work("10,000 cases", 10_000, packed=True),
    "8-streams": Work("1,000 cases, 8 streams", 1_000, streams=8, packed=True),
}
TRANSACTION_BATCHES = 16
_START_US = 1_800_000_000_000_000
_LIMITS = Limits()


class Stages(NamedTuple):
    """Microseconds a batch."""

    accept: float
    commit: float
    apply: float


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
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as folder:
        core = open_core(SqliteStorage(Path(folder) / "log.db"), _LIMITS)
        _declare(core, work)
        sessions = _sessions(core, work.streams)
        seconds, sent, sequence, now_us = [0.0] * 3, 0, 0, _START_US
        while sent < batches:
            frames = []
            while len(frames) < TRANSACTION_BATCHES:
                sequence += 1
                frames += [
                    (session, frame(own[sequence % len(own)], sequence))
                    for session, own in zip(sessions, encoded, strict=True)
                ]
            is_warm = sequence * work.streams > batches // 4
            if is_warm and profile is not None:
                profile.enable()
            times = [time.thread_time()]
            for session, each in frames:
                session.feed(each, now_us)
            times.append(time.thread_time())
            core.committer.step(now_us).deliver()
            for session in sessions:
                session.replies()
            times.append(time.thread_time())
            core.applier.finish()
            times.append(time.thread_time())
            if profile is not None:
                profile.disable()
            now_us += len(frames) * work.rows // 3
            if is_warm:
                sent += len(frames)
                for stage, (begin, end) in enumerate(pairwise(times)):
                    seconds[stage] += end - begin
        core.storage.close()
    return Stages(*(1e6 * each / sent for each in seconds))


def main() -> None:
    print_host_at_exit()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loads", nargs="+", choices=LOADS, default=list(LOADS))
    parser.add_argument("--batches", type=int, default=3_200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--profile", action="store_true", help="of the last load, by processor time"
    )
    chosen = parser.parse_args()
    print(f"{'us a batch':32}{'accept':>9}{'commit':>9}{'apply':>9}{'sum':>9}")
    for name in chosen.loads:
        work = LOADS[name]
        batches = chosen.batches * 1_000 // work.rows
        rounds = [measure(work, batches) for _ in range(chosen.rounds)]
        least = Stages(*map(min, zip(*rounds, strict=True)))
        columns = "".join(f"{each:9.1f}" for each in (*least, sum(least)))
        print(f"{work.label:32}{columns}", flush=True)
    if chosen.profile:
        profile = cProfile.Profile(time.thread_time)
        measure(LOADS[chosen.loads[-1]], chosen.batches, profile)
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)


if __name__ == "__main__":
    main()
