"""Time to process large requests, which should grow in proportion to their size.

    python bench/costs.py

Each row is a request that a client with permission, honest or malicious, can make large.
The benchmark builds it three times, each twice as large as the one before, and passes it to
the server's own code in this process: the code that checks it on the event loop, or the code
that applies it while queries wait. "growth" is the time of the last divided by that of the
first: 4 is proportional.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from streameval import Evaluator
from streameval.v1 import ingest_pb2, query_pb2
from streameval_server._batch.decode import decode
from streameval_server._batch.merge import MergeInbox
from streameval_server._core.engine import Engine
from streameval_server._core.entries import Entry
from streameval_server._log.rows import Kind
from streameval_server._model.errors import RefusedError, RequestError
from streameval_server._model.limits import Limits
from streameval_server._model.stream_settings import StreamSettings
from streameval_server._queries.overview import parse_overview_request
from streameval_server._runtime.query_threads import Visibility
from streameval_server._web.transcoding import from_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval_server._model.row_kinds import Rows

LIMITS = Limits()
NOW = 1_790_000_000_000_000
SECOND = 1_000_000
DAY = 86_400 * SECOND
KEYS = tuple(f"key-{key}" for key in range(8))
VALUES = 100
SIZES = (1, 2, 4)


class EngineStream:
    """One stream of an engine of its own."""

    def __init__(self, settings: StreamSettings) -> None:
        self.engine = Engine(LIMITS)
        self._settings = settings
        self._put(Kind.CREATE_STREAM, change=settings)

    def _put(
        self, kind: Kind, rows: Rows | None = None, change: StreamSettings | None = None
    ) -> None:
        revision = self.engine.revision + 1
        self.engine.apply([Entry(revision, NOW, kind, "s", "", 0, 0, rows, change)])

    def take(self, **rows: object) -> float:
        """Check and apply a batch, and count its rows; return the seconds."""
        batch = ingest_pb2.Batch(stream="s", **rows)
        begin = time.perf_counter()
        self._put(Kind.BATCH, decode(batch, 0, NOW, LIMITS, self._settings))
        self.engine.view("s")
        return time.perf_counter() - begin

    def merge(self, states: list[ingest_pb2.PaneState]) -> float:
        """Check and apply a merge; return the seconds."""
        data = ingest_pb2.MergeStates(states=states).SerializeToString()
        header = ingest_pb2.MergeHeader(
            stream="s", source="edge", epoch=1, total_bytes=len(data), crc32=zlib.crc32(data)
        )
        inbox = MergeInbox(LIMITS)
        begin = time.perf_counter()
        inbox.feed(ingest_pb2.MergeRequest(header=header))
        for start in range(0, len(data), 1 << 20):
            inbox.feed(ingest_pb2.MergeRequest(data=data[start : start + (1 << 20)]))
        rows, _ = inbox.finish(NOW, self._settings)
        self._put(Kind.MERGE, rows)
        return time.perf_counter() - begin


def seconds(work: Callable[[], object]) -> float:
    """Return the seconds until the work is done or refused."""
    begin = time.perf_counter()
    with suppress(RefusedError, RequestError):
        work()
    return time.perf_counter() - begin


def spread(rng: np.random.Generator, rows: int) -> list[int]:
    """Return times over 29 days, so that there are many panes of every width."""
    ages = np.exp(rng.random(rows) * np.log(29 * DAY / SECOND)) * SECOND
    return (NOW - ages.astype(np.int64)).tolist()


def columns(rng: np.random.Generator, rows: int) -> list[ingest_pb2.SegmentColumn]:
    """Return a column of a hundred values for each key."""
    values = list(map(str, range(VALUES)))
    return [
        ingest_pb2.SegmentColumn(
            key=key, values=values, codes=rng.integers(0, VALUES, rows).tolist()
        )
        for key in KEYS
    ]


# --- The requests -------------------------------------------------------------------------------


def repeated_json_key(size: int) -> float:
    keys = [*range(4_000 * size), 0]
    body = "{" + ",".join(f'"{key}":0' for key in keys) + "}"
    return seconds(lambda: from_json(ingest_pb2.IngestBatchRequest, body.encode()))


def segment_keys(size: int) -> float:
    cases = ingest_pb2.Cases(scores=[0.5], positives=[True])
    for key in range(20_000 * size):
        cases.segments.add(key=str(key), values=["x"], codes=[0])
    batch = ingest_pb2.Batch(stream="s", cases=cases)
    return seconds(lambda: decode(batch, 0, NOW, LIMITS))


def repeated_stream(size: int) -> float:
    request = query_pb2.BatchGetSnapshotsRequest(streams=["s"] * 200_000 * size)
    return seconds(lambda: parse_overview_request(request))


def waiters_that_give_up(size: int) -> float:
    async def run() -> float:
        visibility = Visibility(lambda: 0)
        waiting = [asyncio.ensure_future(visibility.wait(1)) for _ in range(2_000 * size)]
        await asyncio.sleep(0)
        begin = time.perf_counter()
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return time.perf_counter() - begin

    return asyncio.run(run())


def cases_in_many_panes(size: int) -> float:
    rng, rows = np.random.default_rng(1), 2_048 * size
    cases = ingest_pb2.Cases(
        scores=rng.random(rows).tolist(),
        positives=(rng.random(rows) < 0.5).tolist(),
        event_times_us=spread(rng, rows),
        segments=columns(rng, rows),
    )
    return EngineStream(StreamSettings(segment_keys=KEYS)).take(cases=cases)


def relabels_in_many_panes(size: int) -> float:
    rng, rows = np.random.default_rng(1), 512 * size
    stream = EngineStream(StreamSettings(segment_keys=KEYS, label_ttl_us=30 * DAY))
    ids = list(map(str, range(rows)))
    predictions = ingest_pb2.Predictions(
        ids=ids,
        scores=rng.random(rows).tolist(),
        event_times_us=spread(rng, rows),
        segments=columns(rng, rows),
    )
    stream.take(predictions=predictions)
    stream.take(labels=ingest_pb2.Labels(ids=ids, positives=[True] * rows))
    return stream.take(labels=ingest_pb2.Labels(ids=ids, positives=[False] * rows))


def merge_of_states(size: int) -> float:
    state = Evaluator(resolution=12, max_cells=16_384)
    state.add_case(True, 0.5)
    data = state.to_bytes()
    states = [
        ingest_pb2.PaneState(event_time_us=NOW - number % 300 * 3_600 * SECOND, evaluator=data)
        for number in range(2_000 * size)
    ]
    return EngineStream(StreamSettings()).merge(states)


def predictions_overdue(size: int) -> float:
    rows = 16_384 * size
    times = (NOW - 14 * DAY - np.linspace(1_000 * SECOND, 15.9 * DAY, rows)).astype(np.int64)
    predictions = ingest_pb2.Predictions(
        ids=map(str, range(rows)), scores=[0.5] * rows, event_times_us=times.tolist()
    )
    return EngineStream(StreamSettings()).take(predictions=predictions)


def ids_that_expire_together(size: int) -> float:
    stream = EngineStream(StreamSettings(label_ttl_us=600 * SECOND, relabel_ttl_us=600 * SECOND))
    rows = 65_536
    for part in range(2 * size):
        ids = [f"{part}-{number}" for number in range(rows)]
        stream.take(predictions=ingest_pb2.Predictions(ids=ids, scores=[0.5] * rows))
    begin = time.perf_counter()
    while stream.engine.pass_time(NOW + 700 * SECOND, 4_096):
        pass
    return time.perf_counter() - begin


def one_row_beside_many_ids(size: int) -> float:
    stream = EngineStream(
        StreamSettings(retention_us=365 * DAY, label_ttl_us=365 * DAY, relabel_ttl_us=SECOND)
    )
    rows = 65_536
    for part in range(size):
        times = NOW - (np.arange(rows) + part * rows) * SECOND
        ids = [f"{part}-{number}" for number in range(rows)]
        stream.take(
            predictions=ingest_pb2.Predictions(
                ids=ids, scores=[0.5] * rows, event_times_us=times.tolist()
            )
        )
    one = ingest_pb2.Predictions(ids=["one"], scores=[0.5])
    return stream.take(predictions=one)


REQUESTS = {
    "JSON of 4,000 keys, one repeated": repeated_json_key,
    "batch with 20,000 segment keys": segment_keys,
    "overview of one stream 200,000 times": repeated_stream,
    "2,000 watchers that leave together": waiters_that_give_up,
    "2,048 cases in 300 panes, 8 keys of 100 values": cases_in_many_panes,
    "512 relabels in 200 panes, 8 keys of 100 values": relabels_in_many_panes,
    "merge of 2,000 states": merge_of_states,
    "16,384 predictions, overdue in as many buckets": predictions_overdue,
    "131,072 ids that expire together": ids_that_expire_together,
    "1 row beside 65,536 ids that expire apart": one_row_beside_many_ids,
}


def main() -> None:
    heads = "".join(f"{f'x{size}, ms':>12}" for size in SIZES)
    print(f"{'request':50}{heads}{'growth':>9}")
    for name, request in REQUESTS.items():
        took = [request(size) for size in SIZES]
        print(
            f"{name:50}{''.join(f'{each * 1e3:12.2f}' for each in took)}{took[-1] / took[0]:8.1f}x"
        )


if __name__ == "__main__":
    main()
