"""Duration of a start after a crash, and size of a logged case on disk.

    python bench/recovery.py [--quick]
    python bench/recovery.py --streams 10_000   # of 60 cases in 10 panes each, from a checkpoint
    python bench/recovery.py --streams 10_000 --entries 189_000   # by id, replayed

The benchmark logs `--cases` cases as a server does, in batches of 1,000, without a
checkpoint. Then it opens the log as a start does: first by a replay of all rows, then,
after an orderly stop, from the checkpoint. It repeats this with columns as bytes, as
bulk loaders send them. Then it replays 1 M cases with segments, of 3 hours: 8 keys with
100 values each, in order and with event times of 3 hours in every batch, and 3 keys with 30
values each, spread as well.
Times are medians of three, with segments of one; the first line shows the time that
the disk takes to append 4 KiB and sync. The file may still be in the page cache, as
after a crash of the process; after a crash of the machine it is not.

`--entries` replays batches of 10 predictions, and then of their labels, by turns in all
streams, 20 ms of log time apart, without a checkpoint.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from host import print_host_at_exit
from load import Work, bodies, frame, percentiles_ms, scratch, sync_seconds

from streameval.v1 import ingest_pb2, stream_pb2
from streameval_server import Limits
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._ingest.session import IngestSession
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.sqlite import SqliteStorage

if TYPE_CHECKING:
    from pathlib import Path

NEVER = Limits(checkpoint_bytes=1 << 62)
ROWS = 1_000
BATCHES_A_COMMIT = 10
SEED = 18
START_US = 1_767_225_600_000_000
SEGMENTED_CASES = 1_000_000
SEGMENTED_BUDGET_S = 10.0
HOURS_US = 3 * 3600 * 1_000_000
SHAPES = {
    "8 keys of 100, in order": (8, 100, 1),
    "8 keys of 100, spread": (8, 100, HOURS_US),
    "3 keys of 30, spread": (3, 30, HOURS_US),
}
"""Keys, values of each, and the span of event times of one batch."""
BUDGETS = {"replayed, s": 3.0, "from its checkpoint, s": 0.5, "bytes on disk a case": 10.0}


def log(path: Path, work: Work, cases: int) -> None:
    """Log cases, one batch per millisecond of log time, and stop without a checkpoint."""
    core = open_core(SqliteStorage(path), NEVER)
    session = IngestSession(core.committer, NEVER)
    opened = ingest_pb2.IngestRequest(open=ingest_pb2.Open(producer="bench", epoch=1))
    session.feed(opened.SerializeToString(), START_US)
    encoded = bodies(work, work.stream(0))
    for sequence in range(1, cases // work.rows + 1):
        now_us = START_US + 1_000 * sequence
        session.feed(frame(encoded[sequence % len(encoded)], sequence), now_us)
        if sequence % BATCHES_A_COMMIT == 0:
            core.committer.step(now_us).deliver()
            core.applier.finish()
    if session.error is not None or not session.idle:
        raise SystemExit(f"not everything was logged: {session.error}")
    core.storage.close()


def log_segmented(path: Path, keys: int, values: int, spread_us: int) -> None:
    """Log cases with segments over three hours of log time, without counting them."""
    limits = replace(NEVER, max_lag_rows=1 << 62)
    core = open_core(SqliteStorage(path), limits)
    rng = np.random.default_rng(SEED)
    settings = stream_pb2.StreamSettings(segment_keys=[f"k{key}" for key in range(keys)])
    stream = stream_pb2.CreateStreamRequest(stream=stream_pb2.Stream(name="s", settings=settings))
    UnaryCall(core.committer, limits).create_stream(stream.SerializeToString())
    core.committer.step(START_US)
    names = [f"v{value}" for value in range(values)]
    batches = SEGMENTED_CASES // ROWS
    for number in range(batches):
        now_us = START_US + HOURS_US * (batches + number) // batches
        positives = rng.random(ROWS) < 0.2
        segments = [
            ingest_pb2.SegmentColumn(
                key=key,
                values=names,
                codes_u16le=rng.integers(0, values, ROWS).astype("<u2").tobytes(),
            )
            for key in settings.segment_keys
        ]
        cases = ingest_pb2.Cases(
            scores_f64le=(1 / (1 + np.exp(-rng.normal(size=ROWS) - positives))).tobytes(),
            positives=positives.tolist(),
            event_times_us=(now_us - rng.integers(0, spread_us, ROWS)).tolist(),
            segments=segments,
        )
        batch = ingest_pb2.IngestBatchRequest(batch=ingest_pb2.Batch(stream="s", cases=cases))
        UnaryCall(core.committer, limits).ingest_batch(batch.SerializeToString(), now_us)
        core.committer.step(now_us)
    core.storage.close()


def opened(path: Path) -> tuple[ServerCore, float]:
    """Open a log as a start does; return the core and the seconds."""
    begin = time.perf_counter()
    core = open_core(SqliteStorage(path), NEVER)
    return core, time.perf_counter() - begin


def measure_streams(path: Path, streams: int) -> tuple[float, float]:
    """Return seconds to restore streams of 60 cases in 10 panes each, of clock and processor."""
    limits = replace(NEVER, max_lag_rows=1 << 62)
    core = open_core(SqliteStorage(path), limits)
    rng = np.random.default_rng(SEED)
    for number in range(streams):
        cases = ingest_pb2.Cases(
            scores_f64le=rng.normal(size=60).tobytes(),
            positives=(rng.random(60) < 0.2).tolist(),
            event_times_us=(START_US - rng.integers(0, 600_000_000, 60)).tolist(),
        )
        batch = ingest_pb2.Batch(stream=f"stream-{number}", cases=cases)
        request = ingest_pb2.IngestBatchRequest(batch=batch)
        UnaryCall(core.committer, limits).ingest_batch(request.SerializeToString(), START_US)
        if number % 100 == 99:
            core.committer.step(START_US).deliver()
            core.applier.finish()
    core.drain(START_US)
    clock, processor = [], []
    for _ in range(3):
        begin = time.process_time()
        core, seconds = opened(path)
        clock.append(seconds)
        processor.append(time.process_time() - begin)
        if core.recovery.replayed:
            raise SystemExit("the checkpoint was not used")
        core.storage.close()
    return statistics.median(clock), statistics.median(processor)


def measure_replay(path: Path, streams: int, entries: int) -> tuple[float, float]:
    """Return seconds to replay small batches by id of many streams, of clock and processor."""
    core = open_core(SqliteStorage(path), NEVER)
    rng = np.random.default_rng(SEED)
    for number in range(entries):
        turn, stream = divmod(number, streams)
        ids = [f"{stream}-{turn // 2}-{row}" for row in range(10)]
        batch = ingest_pb2.Batch(stream=f"stream-{stream}")
        if turn % 2:
            batch.labels.CopyFrom(ingest_pb2.Labels(ids=ids, positives=(rng.random(10) < 0.2)))
        else:
            batch.predictions.CopyFrom(ingest_pb2.Predictions(ids=ids, scores=rng.normal(size=10)))
        now_us = START_US + 20_000 * number
        request = ingest_pb2.IngestBatchRequest(batch=batch)
        UnaryCall(core.committer, NEVER).ingest_batch(request.SerializeToString(), now_us)
        if number % 200 == 199 or number == entries - 1:
            core.committer.step(now_us).deliver()
            core.applier.finish()
    core.storage.close()
    begin = time.process_time()
    core, clock_s = opened(path)
    processor_s = time.process_time() - begin
    if core.recovery.replayed != entries:
        raise SystemExit(f"{core.recovery.replayed} entries were replayed")
    core.storage.close()
    return clock_s, processor_s


def measure(path: Path, work: Work, cases: int) -> dict[str, float]:
    """Return the measurements of one log."""
    log(path, work, cases)
    size = path.stat().st_size
    replayed: list[float] = []
    restored: list[float] = []
    for _ in range(3):
        core, seconds = opened(path)
        if core.recovery.replayed != 1 + cases // work.rows:  # the first opens the session
            raise SystemExit(f"{core.recovery.replayed} entries were replayed")
        replayed.append(seconds)
        core.storage.close()
    opened(path)[0].drain(START_US + 1_000 * cases)
    for _ in range(3):
        core, seconds = opened(path)
        if core.recovery.replayed:
            raise SystemExit("the checkpoint was not used")
        restored.append(seconds)
        core.storage.close()
    measured = statistics.median(replayed), statistics.median(restored), size / cases
    return dict(zip(BUDGETS, measured, strict=True))


def main() -> None:
    print_host_at_exit()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, help="only that many streams, from a checkpoint")
    parser.add_argument("--entries", type=int, help="with --streams: replay that many by id")
    parser.add_argument("--quick", action="store_true", help="1 M cases")
    parser.add_argument("--cases", type=int, default=10_000_000, help="cases in each log")
    arguments = parser.parse_args()
    cases = 1_000_000 if arguments.quick else arguments.cases
    if arguments.streams:
        how = "from a checkpoint"
        with scratch() as directory:
            path, streams = directory / "streams", arguments.streams
            if arguments.entries:
                how = f"replayed from {arguments.entries:,} entries by id"
                clock_s, processor_s = measure_replay(path, streams, arguments.entries)
            else:
                clock_s, processor_s = measure_streams(path, streams)
        print(f"{streams:,} streams {how}: {clock_s:.2f} s, {processor_s:.2f} s of the processor")
        return
    works = {"doubles": Work("", ROWS), "bytes": Work("", ROWS, packed=True)}
    with scratch() as directory:
        print(
            f"append 4 KiB and fdatasync, p50 / p99 ms: {percentiles_ms(sync_seconds(directory))}"
        )
        found = {name: measure(directory / name, work, cases) for name, work in works.items()}
        segmented = {}
        for name, shape in SHAPES.items():
            log_segmented(directory / name, *shape)
            began_s = time.process_time()
            core, seconds = opened(directory / name)
            segmented[name] = time.process_time() - began_s, seconds
            core.storage.close()
    print(f"{f'{cases:,} logged cases':<28}{'doubles':>10}{'bytes':>10}{'budget':>10}")
    for what, budget in BUDGETS.items():
        # Times of a replay are proportional to the cases; those of a checkpoint are not.
        measured = "".join(f"{found[name][what]:10.2f}" for name in works)
        print(f"{what:<28}{measured}{'<= ' + format(budget, 'g'):>10}")
    print(f"{SEGMENTED_CASES:,} cases with segments, replayed: s of the processor, and s")
    for name, (processor_s, seconds) in segmented.items():
        allowed = f"<= {SEGMENTED_BUDGET_S:g}"
        print(f"{name:<28}{processor_s:10.2f}{seconds:10.2f}{allowed:>10}")


if __name__ == "__main__":
    main()
