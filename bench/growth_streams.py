"""The core of a server, without gRPC, with any number of streams. A part of bench/growth.py.

Each number of streams is measured in a process of its own: what it keeps is its resident memory.
"""

from __future__ import annotations

import gc
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
from google.protobuf.duration_pb2 import Duration
from overview import known_summaries
from prometheus_client import generate_latest
from queries import encoded_snapshot

from streameval.statistics import Place
from streameval.v1 import ingest_pb2, overview_pb2, types_pb2, verdict_pb2
from streameval_server import Limits
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._queries.query_engine import QueryEngine
from streameval_server._queries.selection import Last
from streameval_server._queries.stream_list import stream_list
from streameval_server._queries.stream_list_request import ListRequest, parse_list_request
from streameval_server._queries.stream_summaries import StreamSummaries
from streameval_server._web.metrics import _Exposition
from streameval_server._web.stream_metrics import (
    StreamReadings,
    _read,
    _StreamReading,
    stream_families,
)

CASES = 20
MINUTE_US = 60 * 1_000_000
NOW_US = 1_767_225_600_000_000
LIMITS = replace(
    Limits(),
    checkpoint_bytes=1 << 62,
    max_lag_rows=1 << 62,
    max_streams=1 << 20,
    max_state_bytes=1 << 40,
)
DAY = Duration(seconds=86_400)

EXPECTED = {
    "resident memory": "O(n)",
    "a row to one of them": "O(1)",
    "names, a page of 10": "O(1)",
    "names, all pages": "O(n)",
    "list, the first screen": "O(n log n)",
    "list again": "O(1)",
    "list after an entry of the log": "O(n log n)",
    "list in another order": "O(n log n)",
    "snapshot of one": "O(1)",
    "Prometheus, the text of a scrape": "O(n)",
    "Prometheus, all metrics after a start": "O(n)",
    "replay of the log": "O(n)",
    "start from a checkpoint": "O(n)",
}
"""What may grow how, by the number of streams."""


def measure_streams(sizes: list[int]) -> dict[str, dict[int, float]]:
    """Return the seconds, and the bytes of memory, by work and number of streams."""
    found: dict[str, dict[int, float]] = {name: {} for name in EXPECTED}
    context = multiprocessing.get_context("spawn")
    for size in sizes:
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            for name, cost in pool.submit(measured, size).result().items():
                found[name][size] = cost
    return found


def measured(streams: int) -> dict[str, float]:
    """Return the costs with one number of streams."""
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as directory:  # on a disk
        path = Path(directory) / "log"
        costs, core = filled(path, streams)
        name = stream_name(streams // 2)
        engine = core.engine
        costs["a row to one of them"] = processor_s(lambda: add_row(core, name), 5)
        costs["names, a page of 10"] = processor_s(lambda: engine.streams(limit=10), 5)
        costs["names, all pages"] = processor_s(lambda: pages(core), 3)
        costs |= list_costs(core, streams)
        costs["snapshot of one"] = processor_s(
            lambda: encoded_snapshot(QueryEngine(engine.view, lambda: NOW_US), name), 5
        )
        core.storage.close()
        costs["replay of the log"], core = opened(path)
        core.drain(NOW_US)
        costs["start from a checkpoint"], core = opened(path)
        if core.recovery.replayed:
            raise SystemExit("the checkpoint was not used")
        costs["Prometheus, all metrics after a start"] = processor_s(lambda: first_metrics(core), 1)
        core.storage.close()
    return costs


def stream_name(number: int) -> str:
    return f"group-{number % 7}/stream-{number:06}"


def batch_request(name: str, rng: np.random.Generator, cases: int) -> bytes:
    """Return a batch of cases of two panes."""
    batch = ingest_pb2.Batch(
        stream=name,
        cases=ingest_pb2.Cases(
            scores_f64le=rng.normal(size=cases).tobytes(),
            positives=(rng.random(cases) < 0.2).tolist(),
            event_times_us=(NOW_US - rng.integers(0, 2, cases) * MINUTE_US).tolist(),
        ),
    )
    return ingest_pb2.IngestBatchRequest(batch=batch).SerializeToString()


def filled(path: Path, streams: int) -> tuple[dict[str, float], ServerCore]:
    """Return a core with streams that are counted, and the memory that they took."""
    core = open_core(SqliteStorage(path), LIMITS)
    rng = np.random.default_rng(streams)
    gc.collect()
    before = psutil.Process().memory_info().rss
    for number in range(streams):
        body = batch_request(stream_name(number), rng, CASES)
        UnaryCall(core.committer, LIMITS).ingest_batch(body, NOW_US)
        if number % 100 == 99:
            commit(core)
    commit(core)
    for number in range(streams):
        core.engine.view(stream_name(number))
    gc.collect()
    return {"resident memory": psutil.Process().memory_info().rss - before}, core


def commit(core: ServerCore) -> None:
    core.committer.step(NOW_US).deliver()
    core.applier.finish()


def add_row(core: ServerCore, name: str) -> None:
    UnaryCall(core.committer, LIMITS).ingest_batch(
        batch_request(name, np.random.default_rng(1), 1), NOW_US
    )
    commit(core)


def pages(core: ServerCore) -> None:
    after = ""
    while found := core.engine.streams(after=after, limit=1_000):
        after = found[-1].name


def list_costs(core: ServerCore, streams: int) -> dict[str, float]:
    """Return the costs of the ranked list, whose summaries are known, and of a scrape's text."""
    names = sorted(stream_name(number) for number in range(streams))
    summaries, revision = known_summaries(names, some_summaries(core, names[:20]))

    def look(**fields: object) -> None:
        stream_list(summaries, lambda _: True, listed(**fields))

    def entered() -> None:
        revision[0] += 1
        look()

    readings = StreamReadings()
    snapshot = types_pb2.Snapshot.FromString(
        encoded_snapshot(QueryEngine(core.engine.view, lambda: NOW_US), names[0])
    )
    for name in names:
        readings.by_name[name] = _StreamReading(snapshot, snapshot, verdict_pb2.Verdict())
    return {
        "list, the first screen": processor_s(look, 1),
        "list again": processor_s(look, 5),
        "list after an entry of the log": processor_s(entered, 3),
        "list in another order": processor_s(lambda: look(order_by="auc_roc"), 1),
        "Prometheus, the text of a scrape": processor_s(lambda: exposition(readings), 3),
    }


def listed(**fields: object) -> ListRequest:
    """Return a request for the first ten of the list over the last day."""
    request = overview_pb2.ListStreamSummariesRequest(last=DAY, page_size=10, **fields)
    return parse_list_request(request)


def some_summaries(core: ServerCore, names: list[str]) -> list[overview_pb2.StreamSummary]:
    """Return the summaries of some streams."""
    summaries = StreamSummaries(
        QueryEngine(core.engine.view, lambda: NOW_US),
        lambda: ([(name, 1, 1, 1) for name in names], 1),
        visible=lambda: 1,
        clock_us=lambda: NOW_US,
    )
    found = stream_list(summaries, lambda _: True, listed())
    while found.num_pending:
        found = stream_list(summaries, lambda _: True, listed())
    return list(found.summaries)


def exposition(readings: StreamReadings) -> bytes:
    """Return the text of a scrape."""
    return generate_latest(_Exposition(stream_families(readings)))


def first_metrics(core: ServerCore) -> None:
    """Compute what a scrape has of all streams, as a server that has just started does."""
    engine = QueryEngine(core.engine.view, lambda: NOW_US)
    hour = Last(60 * MINUTE_US)
    for stream in core.engine.streams(limit=1 << 20):
        _read(engine, stream.name, Place.MONITOR.names(), hour)


def opened(path: Path) -> tuple[float, ServerCore]:
    """Return the processor time of a start, and the core."""
    cores: list[ServerCore] = []
    took = processor_s(lambda: cores.append(open_core(SqliteStorage(path), LIMITS)), 1)
    return took, cores[0]


def processor_s(work: Callable[[], object], repeats: int) -> float:
    """Return the median of the processor time that this process takes."""
    took = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return statistics.median(took)
