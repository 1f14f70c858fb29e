"""Time and memory of the join and of panes.

    python bench/join.py                     10 M pending: half a minute, 0.7 GB
    python bench/join.py --quick             1 M pending: ten seconds
    python bench/join.py --pending 3_000_000
    python bench/join.py --memory [1000]     only the memory of 1,000 windowed evaluators

Join: predictions with 12-byte ids arrive in batches of 1,000 until `--pending` ids wait;
then their labels arrive in random order. A stall is the time of one batch. Bytes are the
growth of the process; "accounted" is the table's own estimate. Then all ids expire,
bucket by bucket; the server processes a bucket in slices.

Panes: 60 panes of 1 M smooth scores at 12 bits are merged to one snapshot, first cold and
then unchanged, compared with np.argsort of all their cells in the same run.
"""

from __future__ import annotations

import argparse
import gc
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import psutil
from host import print_host_at_exit

from streameval._joining.joiner import Joiner
from streameval._joining.rules import JoinSettings
from streameval._time.windowed import WindowedEvaluator

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCH = 1_000
DAY_US = 86_400_000_000
START_US = 1_767_225_600_000_000
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MAX_LABELS = 2_000_000


def resident() -> int:
    gc.collect()
    return psutil.Process().memory_info().rss


def show(work: str, value: str, budget: str = "", *, kept: bool | None = None) -> None:
    verdict = "" if kept is None else "kept" if kept else "MISSED"
    print(f"{work:<52}{value:>14}{budget:>14}  {verdict}")


def ids_of(numbers: list[int]) -> list[bytes]:
    """Return ids like those of a log: 12 bytes, unordered."""
    return [b"order-%06x" % (number * 7919 % (1 << 24)) for number in numbers]


def batches(numbers: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, numbers.size, BATCH):
        yield numbers[start : start + BATCH]


def fill(joiner: Joiner, pending: int) -> tuple[float, float]:
    """Add predictions over half a day; return total seconds and those of the slowest batch."""
    rng = np.random.default_rng(0)
    taken = []
    for numbers in batches(np.arange(pending)):
        ids, scores = ids_of(numbers.tolist()), rng.random(numbers.size)
        event_us = START_US + numbers * (DAY_US // 2 // pending)
        begin = time.perf_counter()
        joiner.predict(ids, scores=scores, event_us=event_us, now_us=int(event_us[-1]))
        taken.append(time.perf_counter() - begin)
    return sum(taken), max(taken)


def label(joiner: Joiner, numbers: np.ndarray) -> tuple[float, float]:
    """Add labels, 1,000 per second of stream time."""
    rng = np.random.default_rng(1)
    now_us = joiner.now_us
    taken = []
    for part in batches(numbers):
        ids, positives = ids_of(part.tolist()), rng.random(part.size) < 0.1
        now_us += 1_000_000
        begin = time.perf_counter()
        effects = joiner.label(ids, positives=positives, now_us=now_us)
        taken.append(time.perf_counter() - begin)
        assert len(effects) == part.size
    return sum(taken), max(taken)


def find(joiner: Joiner, numbers: np.ndarray) -> float:
    """Look up the same ids without labelling them; return seconds."""
    taken = 0.0
    for part in batches(numbers):
        ids = ids_of(part.tolist())
        begin = time.perf_counter()
        joiner.table.find(ids)
        taken += time.perf_counter() - begin
    return taken


def expire_all(joiner: Joiner) -> tuple[float, float]:
    """Advance the time bucket by bucket until the table is empty."""
    taken = []
    while len(joiner):
        now_us = joiner.now_us + joiner.settings.bucket_us
        begin = time.perf_counter()
        joiner.advance(now_us)
        taken.append(time.perf_counter() - begin)
    return sum(taken), max(taken)


def join(pending: int) -> None:
    print(f"\n{'join, ' + format(pending, ',') + ' pending':<52}{'':>14}{'budget':>14}")
    joiner = Joiner(JoinSettings(DAY_US, max_pending=20_000_000))
    order = np.random.default_rng(2).permutation(pending)[:MAX_LABELS].copy()
    before = resident()
    seconds, worst = fill(joiner, pending)
    show("predictions joined, M/s", f"{pending / seconds / 1e6:.2f}")
    show("longest stall of a batch, ms", f"{worst * 1e3:.1f}")
    each = (resident() - before) / pending
    # The budget is for 10 M ids: with fewer ones, room to grow counts for more.
    judged = each <= 100 if pending >= 10_000_000 else None
    show("bytes per entry", f"{each:.0f}", "<= 100", kept=judged)
    show("bytes per entry, accounted", f"{joiner.table.memory_bytes / pending:.0f}")
    looked_up = order[: MAX_LABELS // 10]
    seconds = find(joiner, looked_up)
    show("the same ids looked up, M/s", f"{looked_up.size / seconds / 1e6:.2f}")
    seconds, worst = label(joiner, order)
    rate = order.size / seconds / 1e6
    show("labels joined, M/s", f"{rate:.2f}", ">= 0.5", kept=rate >= 0.5)
    show("longest stall of a batch, ms", f"{worst * 1e3:.1f}")
    each = (resident() - before) / pending
    show("bytes per entry, some labelled", f"{each:.0f}")
    seconds, worst = expire_all(joiner)
    show("ids expired, M/s", f"{pending / seconds / 1e6:.2f}")
    show("longest stall of a bucket, ms", f"{worst * 1e3:.1f}")


def panes() -> None:
    print(f"\n{'60 panes of 1 M cases, 12 bits':<52}{'':>14}{'budget':>14}")
    rng = np.random.default_rng(3)
    ev = WindowedEvaluator()
    for minute in range(60):
        labels = rng.random(1_000_000) < 0.05
        scores = rng.logistic(size=labels.size) + 2.0 * labels
        ev.add_cases(labels=labels, scores=scores, at=NOON + minute * timedelta(minutes=1))
    runs = [
        run.scores
        for pane in ev.panes()
        for run in (pane._view().counts.positives, pane._view().counts.negatives)
    ]
    cells = np.concatenate(runs)
    cold, sort, warm = [], [], []
    for minute in range(9):
        # One more case changes the window.
        ev.add_case(False, 0.0, at=NOON + minute * timedelta(minutes=1))
        for pane in ev.panes():
            pane._view()
        begin = time.perf_counter()
        ev.last(timedelta(hours=1)).snapshot()
        cold.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        ev.last(timedelta(hours=1)).snapshot()
        warm.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        np.argsort(cells)
        sort.append(time.perf_counter() - begin)
    show("cells in all panes", f"{cells.size:,}")
    median = [float(np.median(each)) * 1e3 for each in (cold, warm, sort)]
    show("merged to a snapshot, cold, ms", f"{median[0]:.1f}", "<= 40", kept=median[0] <= 40)
    show("again, unchanged, ms", f"{median[1]:.3f}", "<= 1", kept=median[1] <= 1)
    show("np.argsort of all cells, ms", f"{median[2]:.1f}")


def memory(evaluators: int) -> None:
    """Measure the memory of `evaluators` evaluators with 60 panes of 1,000 cases each."""
    print(f"\n{f'{evaluators:,} evaluators x 60 panes x 1,000 cases, 12 bits':<66}")
    rng = np.random.default_rng(4)
    before = resident()
    kept, cells = [], 0
    begin = time.perf_counter()
    for _ in range(evaluators):
        ev = WindowedEvaluator()
        for minute in range(60):
            labels = rng.random(1_000) < 0.05
            scores = rng.logistic(size=labels.size) + 2.0 * labels
            ev.add_cases(labels=labels, scores=scores, at=NOON + minute * timedelta(minutes=1))
        cells += sum(pane._view().num_cells for pane in ev.panes())
        kept.append(ev)
    seconds = time.perf_counter() - begin
    used = resident() - before
    show("total, MB", f"{used / 1e6:,.0f}")
    show("KB per evaluator", f"{used / 1e3 / evaluators:,.0f}")
    show("KB per pane", f"{used / 1e3 / evaluators / 60:,.1f}")
    show("bytes per cell", f"{used / cells:.1f}")
    show("total cells", f"{cells:,}")
    show("cases counted, M/s", f"{evaluators * 60_000 / seconds / 1e6:.2f}")


def main() -> None:
    print_host_at_exit()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="1 M pending ids")
    parser.add_argument("--pending", type=int, default=10_000_000, help="ids that wait for labels")
    parser.add_argument(
        "--memory",
        type=int,
        nargs="?",
        const=1000,
        metavar="EVALUATORS",
        help="only measure the memory of windowed evaluators",
    )
    arguments = parser.parse_args()
    if arguments.memory:
        memory(arguments.memory)
        return
    join(1_000_000 if arguments.quick else arguments.pending)
    panes()


if __name__ == "__main__":
    main()
