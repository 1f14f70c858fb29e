"""Time of a window's snapshot, cold, unchanged and changed; and of those of many streams.

    python bench/queries.py                    # 60 panes of 1 M cases; 1,000 streams; a minute
    python bench/queries.py --streams 200 --cases 100_000

An answer is a whole snapshot: six metrics, their intervals and bounds, the hull and
coverage, as an encoded message. Times are those of the processor. Merging is compared with
an argsort of all cells in the same run. Streams share panes, which does not affect the times,
because caches use the identity of the panes.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import numpy as np
from google.protobuf.duration_pb2 import Duration
from host import cpu_seconds, print_host_at_exit

from streameval import Evaluator
from streameval._counts.lazy_counts import LazyCounts
from streameval._counts.merge import merge_states
from streameval._counts.stored_counts import pack
from streameval._time.coverage import CoverageCell
from streameval._time.effects import Effect
from streameval._time.window import Window
from streameval.v1 import query_pb2, stream_pb2, types_pb2
from streameval_server._model.stream_info import StreamInfo
from streameval_server._queries.query_engine import QueryEngine, parse_snapshot_request, snapshot
from streameval_server._queries.selection import Last, Selection
from streameval_server._state.counting.coverage import EMPTY_COVERAGE, PaneCoverage
from streameval_server._state.counting.delays import Delays
from streameval_server._state.views import FrozenStream, PaneView, StreamView

MINUTE = 60 * 1_000_000
NOW = 20_000 * 24 * 60 * MINUTE + MINUTE // 2
PANES = 60
COVERAGE = EMPTY_COVERAGE["plain"]
WARM_UP_CHANGES = 2
"""After this number of changes of one pane the sum of the other panes is cached."""


def evaluator(rng: np.random.Generator, cases: int) -> Evaluator:
    """Return a pane's counts: 5 % positives, logistic scores."""
    labels = rng.random(cases) < 0.05
    pane = Evaluator(resolution=12, max_cells=16_384)
    pane.add_cases(labels=labels, scores=rng.logistic(size=cases) + 2.0 * labels)
    return pane


def counts_of(pane: Evaluator) -> LazyCounts:
    """Return a pane's counts as a view has them, merged."""
    counts = LazyCounts(pane, Evaluator._view)
    counts.merge()
    return counts


def closed(pane: Evaluator) -> LazyCounts:
    """Return the counts of a pane that is closed, as a server keeps them."""
    counts = counts_of(pane)
    pack(counts.state)
    return counts


def with_one_more(counts: LazyCounts, score: float) -> LazyCounts:
    """Return a pane's counts with one more positive."""
    changed = Evaluator._of(counts.state).copy()
    changed.add_case(True, score)
    return counts_of(changed)


def view(
    name: str, counts: list[LazyCounts], coverage: list[PaneCoverage] | None = None
) -> StreamView:
    """Return a stream whose last hour has these panes."""
    first = NOW // MINUTE * MINUTE - (PANES - 1) * MINUTE
    covered = coverage or [COVERAGE] * PANES
    panes = tuple(
        {0: PaneView(at, MINUTE, pane, of_pane)}
        for at, pane, of_pane in zip(range(first, NOW, MINUTE), counts, covered, strict=True)
    )
    frozen = FrozenStream({0: (counts[0], COVERAGE)}, panes, {})
    return StreamView(StreamInfo(name, 0, 1), 1, NOW, frozen, stream_pb2.StreamCounters())


def encoded_snapshot(answers: QueryEngine, name: str) -> bytes:
    """Return the encoded snapshot of the last hour."""
    chosen = types_pb2.Selection(stream=name, last=Duration(seconds=60 * (PANES - 1)))
    request = query_pb2.GetSnapshotRequest(selection=chosen)
    return snapshot(answers, parse_snapshot_request(request)).SerializeToString()


def time_one_window(rng: np.random.Generator, cases: int) -> None:
    """Print the time of merging sixty panes, and of the whole answer."""
    panes = [closed(evaluator(rng, cases)) for _ in range(PANES)]
    states = [pane.state for pane in panes]
    runs = [run for each in states for run in (each.counts.positives, each.counts.negatives)]
    cells = np.concatenate([run.scores for run in runs])
    window: list[Window] = []
    took: dict[str, list[float]] = {}

    def timed(name: str, work: Callable[[], object]) -> None:
        took.setdefault(name, []).append(cpu_seconds(work))

    for _ in range(5):
        timed("argsort of all cells", lambda: np.argsort(cells))
        timed("merged, cold", lambda: window.append(Window(merge_states(states, revision=0), 0, 1)))
        views = {"s": view("s", panes)}
        answers = QueryEngine(views.__getitem__, lambda: NOW)
        timed("answer, cold", lambda of=answers: encoded_snapshot(of, "s"))
        timed("answer, unchanged", lambda of=answers: encoded_snapshot(of, "s"))
        for number in range(6):
            newest = with_one_more(panes[-1], 1.25 + number / 64)
            views["s"] = view("s", [*panes[:-1], newest])
            if number < WARM_UP_CHANGES:
                encoded_snapshot(answers, "s")
            else:
                timed("answer, newest changed", lambda of=answers: encoded_snapshot(of, "s"))
    print(f"{PANES} panes of {cases:,} cases, {len(cells):,} cells in all")
    for name, times in took.items():
        print(f"  {name:<24}{statistics.median(times) * 1e3:>10.2f} ms")
    print(f"  {'cells of the window':<24}{len(window[0]._view().counts):>10,}")


def time_many_streams(rng: np.random.Generator, streams: int) -> None:
    """Print the time of all answers: cold, unchanged, 1 % of streams or of panes changed."""
    pool = [closed(evaluator(rng, 1_000)) for _ in range(300)]
    names = [str(number) for number in range(streams)]
    of = {
        name: [pool[(7 * number + i) % len(pool)] for i in range(PANES)]
        for number, name in enumerate(names)
    }
    views = {name: view(name, panes) for name, panes in of.items()}
    answers = QueryEngine(views.__getitem__, lambda: NOW)

    def change(name: str, pane: int) -> None:
        of[name][pane] = with_one_more(of[name][pane], 1.25)
        views[name] = view(name, of[name])

    def every() -> None:
        for name in names:
            encoded_snapshot(answers, name)

    print(f"{streams:,} streams x {PANES} panes of 1,000 cases: all answers")
    print(f"  {'cold':<24}{cpu_seconds(every):>10.3f} s")
    print(f"  {'unchanged':<24}{cpu_seconds(every):>10.3f} s")
    for name in names[: max(1, streams // 100)]:
        change(name, PANES - 1)
    print(f"  {'1 % of streams changed':<24}{cpu_seconds(every):>10.3f} s")
    for number in rng.choice(streams * PANES, streams * PANES // 100, replace=False).tolist():
        change(names[number // PANES], number % PANES)
    print(f"  {'1 % of panes changed':<24}{cpu_seconds(every):>10.3f} s")


def coverage_of(rng: np.random.Generator, predictions: int) -> PaneCoverage:
    """Return the coverage of a pane, four fifths labelled, with delays from seconds to days."""
    labelled = rng.random(predictions) < 0.8
    is_positive = rng.random(predictions) < 0.05
    kinds = np.where(is_positive, Effect.LABELLED_POSITIVE, Effect.LABELLED_NEGATIVE)
    scores = rng.logistic(size=predictions) + 1
    cell = CoverageCell()
    cell.add(np.full(predictions, Effect.PREDICTED, dtype=np.int8), scores)
    cell.add(kinds[labelled].astype(np.int8), scores[labelled])
    delays = np.exp(rng.normal(16, 4, int(labelled.sum()))).astype(np.int64)
    return PaneCoverage(cell, Delays.of(delays))


def time_coverage(rng: np.random.Generator) -> None:
    """Print the time of an answer's coverage with label delays, cold and when one pane changed."""
    panes = [coverage_of(rng, 5_000) for _ in range(PANES)]
    newest = [coverage_of(rng, 5_000) for _ in range(200)]
    counts = counts_of(evaluator(rng, 10))
    views: dict[str, StreamView] = {}

    def show(covered: list[PaneCoverage]) -> None:
        views["s"] = view("s", [counts] * PANES, covered)

    def answer(engine: QueryEngine) -> None:
        engine.coverage(engine.resolve(Selection("s", Last((PANES - 1) * MINUTE))))

    took: dict[str, list[float]] = {"cold": [], "newest changed": []}
    for _ in range(20):
        engine = QueryEngine(views.__getitem__, lambda: NOW)
        show(panes)
        took["cold"].append(cpu_seconds(lambda of=engine: answer(of)))
    for pane in newest:
        show([*panes[:-1], pane])
        took["newest changed"].append(cpu_seconds(lambda of=engine: answer(of)))
    buckets = panes[0].delays.buckets.size
    print(f"coverage of {PANES} panes of 5,000 predictions, {buckets} buckets of delays in one")
    for name, times in took.items():
        print(f"  {name:<24}{statistics.median(times) * 1e3:>10.3f} ms")


def main() -> None:
    print_host_at_exit()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=1_000_000, help="in each of sixty panes")
    parser.add_argument("--streams", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    time_one_window(rng, options.cases)
    time_coverage(rng)
    time_many_streams(rng, options.streams)


if __name__ == "__main__":
    main()
