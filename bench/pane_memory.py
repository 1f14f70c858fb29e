"""Memory of panes at rest, and of many small streams.

    python bench/pane_memory.py                     # panes of 10 and of 1,000 cases
    python bench/pane_memory.py --streams 10_000    # of 60 cases in 10 panes, and of 20 in two

Panes are those of a `PaneStore`, closed and packed: what `tracemalloc` finds to be gone when 200
of them are dropped, divided by 200. *Unread* is before a view of the stream was taken, *read* after
one was and all panes were summed.

Streams are those of a server's core without gRPC, each number of panes in a process of its own:
*filled* by batches and looked at once, then *restored* from a checkpoint, where nothing has read a
pane. *Counted* is the core's `memory_bytes`, *resident* is over a core with few streams, in KB a
stream; the restored ones are in a process of their own, too.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import psutil
from host import print_host_at_exit
from load import scratch

from streameval._counts.merge import merge_states
from streameval._counts.unsorted_cases import UnsortedCases
from streameval.v1 import ingest_pb2
from streameval_server import Limits
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.stream_settings import StreamSettings
from streameval_server._service.allocator import trim_heap
from streameval_server._state.counting.pane_store import PaneStore
from streameval_server._state.memory import StreamUsage
from streameval_server._state.segments import WHOLE

if TYPE_CHECKING:
    from pathlib import Path

PANES = 200
MINUTE_US = 60_000_000
START_US = 1_767_225_600_000_000
LIMITS = replace(Limits(), checkpoint_bytes=1 << 62, max_lag_rows=1 << 62, max_state_bytes=1 << 40)
SHAPES = {"60 cases in 10 panes": (60, 10), "20 cases in 2 panes": (20, 2)}
"""Cases of a stream, and the panes over which they are spread."""


def fill_panes(store: PaneStore, cases: int, rng: np.random.Generator) -> None:
    """Fill panes in order of time, close and pack them."""
    for number in range(PANES):
        content = store.pane(START_US + number * MINUTE_US)
        labels = rng.random(cases) < 0.2
        content.part(WHOLE).counts.add(UnsortedCases(labels, rng.normal(size=cases), None))
        # As a view does, before the next rows come.
        content.part(WHOLE).counts.state()
    store.close_panes()
    while store.has_unpacked:
        store.pack_pane()


def pane_bytes(cases: int) -> tuple[float, float]:
    """Return the memory of a pane that nothing has read, and of one that was read."""
    found = []
    for is_read in (False, False, True):  # the first leaves what is made once, in numpy's caches
        tracemalloc.start()
        store = PaneStore(StreamSettings(), Limits(), StreamUsage(1))
        store.panes.advance(START_US + PANES * MINUTE_US)
        fill_panes(store, cases, np.random.default_rng(cases))
        view = None
        if is_read:
            view = store.frozen({})
            merge_states([pane.state for pane in view.slice(WHOLE).panes], revision=0)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
        del store, view
        gc.collect()
        found.append((taken - tracemalloc.get_traced_memory()[0]) / PANES)
        tracemalloc.stop()
    return found[1], found[2]


def fill_streams(core: ServerCore, streams: range, cases: int, panes: int) -> None:
    """Send each stream one batch, count it, and look at it once."""
    rng = np.random.default_rng(panes)
    for number in streams:
        rows = ingest_pb2.Cases(
            scores_f64le=rng.normal(size=cases).tobytes(),
            positives=(rng.random(cases) < 0.2).tolist(),
            event_times_us=(START_US - rng.integers(0, panes * MINUTE_US, cases)).tolist(),
        )
        batch = ingest_pb2.Batch(stream=f"stream-{number}", cases=rows)
        request = ingest_pb2.IngestBatchRequest(batch=batch).SerializeToString()
        UnaryCall(core.committer, LIMITS).ingest_batch(request, START_US)
        if number % 100 == 99:
            settle(core)
    settle(core)
    for number in streams:
        core.engine.view(f"stream-{number}")
        if number % 10 == 9:
            settle(core)  # as a server's applier does beside queries
    settle(core)


def settle(core: ServerCore) -> None:
    """Commit and apply what was sent, and do what is left for idle time."""
    core.committer.step(START_US).deliver()
    core.applier.finish()
    while core.applier.has_collected:
        core.applier.count()
        core.applier.finish_step()


def resident() -> int:
    """Return the resident memory of this process."""
    gc.collect()
    found: int = psutil.Process().memory_info().rss
    return found


def filled(path: Path, streams: int, cases: int, panes: int) -> tuple[float, float]:
    """Return what is counted and resident of streams that were filled."""
    core = open_core(SqliteStorage(path), LIMITS)
    fill_streams(core, range(-20, 0), cases, panes)
    counted, before = core.engine.memory_bytes, resident()
    fill_streams(core, range(streams), cases, panes)
    found = core.engine.memory_bytes - counted, resident() - before
    core.drain(START_US)
    return found


def restored(path: Path) -> tuple[float, float]:
    """Return what is counted and resident of streams that a checkpoint has."""
    warm = open_core(SqliteStorage(path.with_name("warm")), LIMITS)
    fill_streams(warm, range(20), 20, 2)
    warm.storage.close()
    before = resident()
    core = open_core(SqliteStorage(path), LIMITS)
    if core.recovery.replayed:
        raise SystemExit("the checkpoint was not used")
    trim_heap()  # as a server does when it has started
    found = core.engine.memory_bytes, resident() - before
    core.storage.close()
    return found


def main() -> None:
    print_host_at_exit()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, help="only that many streams")
    arguments = parser.parse_args()
    if not arguments.streams:
        for cases in (10, 1_000):
            unread, read = pane_bytes(cases)
            print(f"a closed pane of {cases:,} cases: unread {unread:,.0f} B, read {read:,.0f} B")
        return
    context = multiprocessing.get_context("spawn")
    print(f"{arguments.streams:,} streams, KB each, counted / resident")
    for name, (cases, panes) in SHAPES.items():
        with scratch() as directory:
            path = directory / "log"
            for what, work, given in (
                ("filled", filled, (path, arguments.streams, cases, panes)),
                ("restored", restored, (path,)),
            ):
                with ProcessPoolExecutor(1, mp_context=context) as pool:
                    counted, taken = pool.submit(work, *given).result()
                each = counted / arguments.streams / 1e3, taken / arguments.streams / 1e3
                print(f"{name}, {what}: {each[0]:.1f} / {each[1]:.1f}", flush=True)


if __name__ == "__main__":
    main()
