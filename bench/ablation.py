"""Effect of each buffer and each cache of docs/buffers-and-caches.md: times with and without it.

    python bench/ablation.py [--rounds 5] [--seconds 1] [--only PART_OF_A_NAME ...]

Buffers: one server per variant, with a log on disk, receives batches as quickly as it
acknowledges them (bench/load.py); the rows of the client call `add_case` against a server
without a disk. Caches: answers over 60 panes and a snapshot of 1 M exact cases, in this
process. A variant changes one limit, or patches one constant or function, and nothing
else. It alternates with the unchanged program; the table shows medians, and the factor
gained by the buffer or cache.
"""

# ruff: noqa: SLF001 - variants patch private parts
from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest import mock

import numpy as np
import pair_cost
import psutil
from google.protobuf.duration_pb2 import Duration
from load import Process, Work, ingest, scratch
from queries import MINUTE, NOW, PANES, counts_of, encoded_snapshot, evaluator, view

from streameval import Evaluator
from streameval._counts import multiset, tally
from streameval._counts.state import State
from streameval._counts.unsorted_cases import UnsortedCases
from streameval._time import window_cache
from streameval._time.coverage import CoverageCell
from streameval._time.effects import Effect
from streameval._time.window_cache import WindowCache
from streameval.client import Client
from streameval.v1 import query_pb2
from streameval_server.__main__ import main as serve
from streameval_server._model.limits import Limits
from streameval_server._model.stream_settings import StreamSettings
from streameval_server._queries.query_engine import QueryEngine, parse_snapshot_request, snapshot
from streameval_server._runtime.query_threads import QueryThreads
from streameval_server._state.counting import counts
from streameval_server._state.counting.collected_rows import TimedCases
from streameval_server._state.counting.counts import StreamCounts
from streameval_server._state.counting.coverage import PaneCoverage
from streameval_server._state.counting.delays import Delays
from streameval_server._state.memory import StreamUsage
from streameval_server._state.pairs import pair_panes
from streameval_server._state.views import StreamView

Patch = Callable[[ExitStack], object]
Pair = tuple[float, float]

SMALL = Work("1,000-case batches", 1_000, packed=True)
SEGMENTED = Work("1,000-case batches, 5 segment keys", 1_000, packed=True, segments=5)
TINY = Work("10-case batches", 10, packed=True, distinct=6_400)
CALLS = 200_000
"""Calls of `add_case` in a round."""
PACED_CALLS, PACED_ROWS_S = 4_000, 4_000
"""Calls of `add_case` in a round that does not send at full speed, and their rate."""
CROWD = 20
"""Concurrent equal queries."""


def patched(owner: object, **values: object) -> Patch:
    """Return a patch that replaces attributes of a module, class or object."""

    def enter(stack: ExitStack) -> None:
        for name, value in values.items():
            stack.enter_context(mock.patch.object(owner, name, value))

    return enter


def uncached(cache: Any, kind: str | None = None) -> Patch:
    """Return a patch that makes a cache compute every time, or only answers of one kind."""

    def enter(stack: ExitStack) -> None:
        get = cache.get  # maybe patched for another kind

        def compute(key: Any, parts: Any, make: Callable[[], Any]) -> Any:
            return make() if kind in (None, key[0]) else get(key, parts, make)

        stack.enter_context(mock.patch.object(cache, "get", compute))

    return enter


BUFFERS: dict[str, tuple[Work, dict[str, int], Patch | None]] = {
    "window of unacknowledged batches": (SMALL, {"MAX_INFLIGHT_BYTES": 1}, None),
    "several batches a transaction": (SMALL, {"MAX_COMMIT_BYTES": 1}, None),
    "applier's backlog": (SMALL, {"MAX_LAG_ROWS": 1}, None),
    "rows collected before they are counted": (
        TINY,
        {},
        patched(counts, _MIN_COLLECTED_ROWS=1, _MAX_COLLECTED_ROWS=1),
    ),
    "slice tables, 5 segment keys": (
        SEGMENTED,
        {},
        patched(counts.StreamCounts, _add_to_table=lambda *_: False),
    ),
}


# --- Buffers ------------------------------------------------------------------------------------


def million_cases_s(name: str, seconds: float) -> float:
    """Return the rate of durable ingest of a variant, or unpatched for "NAME as it is"."""
    work, limits, _ = BUFFERS[name.removesuffix(" as it is")]
    if name.endswith(" as it is"):
        limits = {}
    changed = {f"STREAMEVAL_LIMITS_{limit}": str(value) for limit, value in limits.items()}
    with scratch() as directory, mock.patch.dict(os.environ, changed):
        server = Process(
            __file__, "--serve", name, "--listen", "127.0.0.1:0", "--data", str(directory)
        )
        try:
            if work.segments:
                keys = [f"key-{number}" for number in range(work.segments)]
                with Client(server.address) as client:
                    client.create_stream(work.stream(0), segment_keys=keys)
            asyncio.run(ingest(server.address, work, seconds / 2))
            return asyncio.run(ingest(server.address, work, seconds))[0] / 1e6
        finally:
            server.stop()


def run_server(name: str) -> None:
    """Run the server of a variant; the remaining arguments are the server's own."""
    with ExitStack() as stack:
        patch = BUFFERS[name][2] if name in BUFFERS else None
        if patch is not None:
            patch(stack)
        serve()


def paced_us(server: Process, **settings: float) -> float:
    """Return microseconds of CPU, client and server, per row of a caller with 4,000 rows/s."""
    with Client(server.address, **settings) as client:
        stream = client.stream(f"bench/{time.monotonic_ns()}")
        stream.add_case(True, 0.5)
        stream.flush()
        process = psutil.Process(server.pid)
        before = time.process_time() + sum(process.cpu_times()[:2])
        begin = time.perf_counter()
        for row in range(PACED_CALLS):
            stream.add_case(True, 0.5)
            time.sleep(max(0.0, begin + row / PACED_ROWS_S - time.perf_counter()))
        stream.flush()
        took = time.process_time() + sum(process.cpu_times()[:2]) - before
        client.delete_stream(stream.name)
    return took / PACED_CALLS * 1e6


def spread_ms(patches: list[Patch]) -> float:
    """Return the CPU time of counting 200,000 cases whose event times spread over 60 panes."""
    rng = np.random.default_rng(3)
    labels = rng.random(200_000) < 0.05
    scores = rng.normal(size=200_000) + labels
    event_us = NOW - rng.integers(0, PANES, 200_000) * MINUTE
    with ExitStack() as stack:
        for patch in patches:
            patch(stack)
        counted = StreamCounts(StreamSettings(), Limits(), StreamUsage(revision=1))
        begin = time.process_time()
        for at in range(0, 200_000, 1_000):
            rows = slice(at, at + 1_000)
            cases = UnsortedCases(labels[rows], scores[rows], None)
            counted.add_cases(TimedCases(cases, event_us[rows]))
            for due in counted.take_due():
                due.merge()
        counted.frozen({})
        return (time.process_time() - begin) * 1e3


# --- Caches -------------------------------------------------------------------------------------


def coverage(rng: np.random.Generator) -> PaneCoverage:
    """Return the coverage of a pane whose labels took minutes to days."""
    cell = CoverageCell()
    cell.effect_counts[Effect.PREDICTED] = 1_000
    cell.effect_counts[Effect.LABELLED_NEGATIVE] = 700
    return PaneCoverage(cell, Delays.of((rng.lognormal(9, 2, 700) * 1e6).astype(np.int64)))


class Stream:
    """One stream with 60 panes, and an engine that answers for it."""

    def __init__(self, cases: int = 20_000) -> None:
        rng = np.random.default_rng(1)
        self.panes = [evaluator(rng, cases) for _ in range(PANES)]
        self.coverages = [coverage(rng) for _ in range(PANES)]
        self.total = PaneCoverage.merged(self.coverages)
        self.views: dict[str, StreamView] = {}
        self._show(self.panes)
        self.engine = QueryEngine(self.views.__getitem__, lambda: NOW)
        self.changes = 0

    def change(self) -> None:
        """Add a case to the newest pane."""
        self.changes += 1
        newest = self.panes[-1].copy()
        newest.add_case(True, 1.25 + self.changes / 64)
        self._show([*self.panes[:-1], newest])

    def _show(self, panes: list[Evaluator]) -> None:
        shown = view("s", [counts_of(pane) for pane in panes])
        total, _ = shown.counts.all_time[0]
        shown.counts.all_time[0] = (total, self.total)
        for slices, seen in zip(shown.counts.panes, self.coverages, strict=True):
            slices[0].coverage = seen
        self.views["s"] = shown

    def answer_ms(self, patches: list[Patch], *, changes: bool = False) -> float:
        """Return the time of an answer; the median of seven."""
        times = []
        with ExitStack() as stack:
            for patch in patches:
                patch(stack)
            for number in range(10):
                if changes:
                    self.change()
                begin = time.perf_counter()
                encoded_snapshot(self.engine, "s")
                if number > 2:  # the first answers fill the caches
                    times.append(time.perf_counter() - begin)
        return statistics.median(times) * 1e3

    def crowd_ms(self, *, shared: bool) -> float:
        """Return the time of concurrent equal queries after a change."""

        async def ask() -> float:
            threads = QueryThreads(lambda: 1, Limits())
            self.change()
            keys = ["s" if shared else f"s{number}" for number in range(CROWD)]
            patch = ExitStack()
            with patch:
                if not shared:
                    uncached(self.engine._answers, "snapshot")(patch)
                begin = time.perf_counter()
                await asyncio.gather(
                    *(threads.run(key, lambda: encoded_snapshot(self.engine, "s")) for key in keys)
                )
                took = time.perf_counter() - begin
            threads.stop()
            return took * 1e3

        return asyncio.run(ask())


def pair_us(server: pair_cost.Server, seed: int, patches: list[Patch]) -> float:
    """Return microseconds of CPU per label of a pair, its two predictions included."""
    labels = 10_000
    with ExitStack() as stack:
        for patch in patches:
            patch(stack)
        return sum(map(server.take, pair_cost.frames(labels, seed))) / labels * 1e6


class Projected:
    """A stream with two weeks of predictions whose labels take minutes to days."""

    def __init__(self) -> None:
        server = pair_cost.Server(has_pair=False)
        for day in range(14):
            server.now_us += 86_400_000_000
            for batches in pair_cost.frames(3_000, day):
                server.take(batches)
                server.now_us += 6 * 3_600_000_000
        self._engine = QueryEngine(server.core.engine.view, lambda: server.now_us)

    def answer_ms(self, patches: Callable[[QueryEngine], list[Patch]]) -> float:
        """Return the time of a snapshot with its projection; the median of seven."""
        request = query_pb2.GetSnapshotRequest(projection=True)
        request.selection.stream = "a"
        request.selection.last.CopyFrom(Duration(seconds=7 * 86_400))
        times = []
        with ExitStack() as stack:
            for patch in patches(self._engine):
                patch(stack)
            for number in range(8):
                begin = time.perf_counter()
                message = snapshot(self._engine, parse_snapshot_request(request))
                if number:
                    times.append(time.perf_counter() - begin)
        assert any(metric.HasField("interval") for metric in message.projection.metrics)
        return statistics.median(times) * 1e3


class Exact:
    """An exact evaluator of a million cases, to which each query adds more."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(2)
        self._evaluator = Evaluator()
        self._add(1_000_000)

    def _add(self, cases: int) -> None:
        labels = self._rng.random(cases) < 0.05
        self._evaluator.add_cases(labels=labels, scores=self._rng.normal(size=cases) + labels)

    def snapshot_ms(self, patches: list[Patch]) -> float:
        """Return the time of a snapshot after 1,000 more cases; the median of five."""
        times = []
        with ExitStack() as stack:
            for patch in patches:
                patch(stack)
            for number in range(6):
                self._add(1_000)
                begin = time.perf_counter()
                self._evaluator.snapshot()
                if number:
                    times.append(time.perf_counter() - begin)
        return statistics.median(times) * 1e3


# --- The table ----------------------------------------------------------------------------------


def rows(options: argparse.Namespace, server: Process) -> dict[str, tuple[str, Callable[[], Pair]]]:
    """Return the measurement of each row: with the buffer or cache, and without."""
    stream, exact, projected = Stream(), Exact(), Projected()
    pair, seeds = pair_cost.Server(has_pair=True), iter(range(1_000_000))
    engine = stream.engine
    messages, windows = uncached(engine._answers, "snapshot"), uncached(engine._windows)

    def whole_sum(_cache: WindowCache[object], _key: object, states: list[State]) -> State:
        return window_cache.merge_states(states, revision=0)

    found: dict[str, tuple[str, Callable[[], Pair]]] = {
        name: (
            "M cases/s",
            lambda name=name: (
                million_cases_s(f"{name} as it is", options.seconds),
                million_cases_s(name, options.seconds),
            ),
        )
        for name in BUFFERS
    }
    found["client: rows wait for a batch, at 4,000 rows/s"] = (
        "us of CPU a row",
        lambda: (paced_us(server), paced_us(server, batch_rows=1, linger_s=0.0)),
    )
    found["additions pending before a merge, 60 panes"] = (
        "ms of CPU",
        lambda: (
            spread_ms([]),
            spread_ms([patched(tally, _MIN_PENDING_SCORES=1, _MAX_PENDING_RATIO=0)]),
        ),
    )
    found["rows of a pair wait to be counted"] = (
        "us of CPU a label",
        lambda: (
            pair_us(pair, next(seeds), []),
            pair_us(
                pair,
                next(seeds),
                [patched(pair_panes, MAX_WAITING_ROWS=1, _MAX_PREDICTED_ROWS=1)],
            ),
        ),
    )
    found["projections, nothing changed"] = (
        "ms",
        lambda: (
            projected.answer_ms(lambda each: [uncached(each._answers, "snapshot")]),
            projected.answer_ms(
                lambda each: [
                    uncached(each._answers, "snapshot"),
                    uncached(each._answers, "projection"),
                ]
            ),
        ),
    )
    found["snapshot messages, nothing changed"] = (
        "ms",
        lambda: (stream.answer_ms([]), stream.answer_ms([messages])),
    )
    found["windows, nothing changed"] = (
        "ms",
        lambda: (stream.answer_ms([messages]), stream.answer_ms([messages, windows])),
    )
    found["unchanged parts of windows, one pane changed"] = (
        "ms",
        lambda: (
            stream.answer_ms([], changes=True),
            stream.answer_ms([patched(WindowCache, _sum=whole_sum)], changes=True),
        ),
    )
    found["metrics of a state"] = (
        "ms",
        lambda: (
            stream.answer_ms([messages]),
            stream.answer_ms([messages, patched(State, cached=lambda _s, _k, make: make())]),
        ),
    )
    found["coverages"] = (
        "ms",
        lambda: (
            stream.answer_ms([messages]),
            stream.answer_ms([messages, uncached(engine._answers, "coverage")]),
        ),
    )
    found["typical delay of a stream"] = (
        "ms",
        lambda: (
            stream.answer_ms([messages]),
            stream.answer_ms([messages, uncached(engine._answers, "typical delay")]),
        ),
    )
    found[f"{CROWD} equal queries share a computation"] = (
        "ms",
        lambda: (stream.crowd_ms(shared=True), stream.crowd_ms(shared=False)),
    )
    found["ranks of positives, updated by a merge"] = (
        "ms",
        lambda: (
            exact.snapshot_ms([]),
            exact.snapshot_ms([patched(multiset, _is_update_cheaper=lambda *_: False)]),
        ),
    )
    return found


def main() -> None:
    if "--serve" in sys.argv:
        place = sys.argv.index("--serve")
        name = sys.argv[place + 1]
        del sys.argv[place : place + 2]
        run_server(name)
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="alternations; medians are shown")
    parser.add_argument("--seconds", type=float, default=1.0, help="duration of ingest in a round")
    parser.add_argument("--only", nargs="*", default=[""], help="parts of the names of rows")
    options = parser.parse_args()
    print(f"{'buffer or cache':<46}{'with':>9}{'without':>9} {'unit':<18}{'better':>8}")
    server = Process("-m", "streameval_server", "--listen", "127.0.0.1:0", "--memory")
    try:
        for name, (unit, measure) in rows(options, server).items():
            if not any(part in name for part in options.only):
                continue
            pairs = [measure() for _ in range(options.rounds)]
            mine, other = (statistics.median(side) for side in zip(*pairs, strict=True))
            better = mine / other if unit == "M cases/s" else other / mine
            print(f"{name:<46}{mine:>9.3g}{other:>9.3g} {unit:<18}{better:>7.2f}x", flush=True)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
