"""The evaluator compared with its peers: live snapshots, bulk loads, scalars, memory, merging.

    python bench/evaluator.py            a few minutes
    python bench/evaluator.py --quick    half a minute, smaller sizes
    python bench/evaluator.py --large    the live snapshot at 10 M too
    python bench/evaluator.py --live     the live snapshots alone
    python bench/evaluator.py --cpu      times of the processor: on a busy machine

Every row interleaves both sides in one process and shows medians. Times differ
between machines and between minutes on one machine, so compare the ratios; on a machine with
other work the clock's times are those of the work beside it. Peers
are scikit-learn, and river and torchmetrics if they are installed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import tracemalloc
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from host import print_host_at_exit
from sklearn.metrics import average_precision_score, roc_auc_score

from streameval import Evaluator

if TYPE_CHECKING:
    from collections.abc import Callable

Columns = tuple[np.ndarray, np.ndarray]
CLOCKS = [time.perf_counter]
"""The clock of all times, one: `--cpu` exchanges it for that of the processor."""

MIN_BUDGET_CASES = 1_000_000
"""Budgets apply from this number of cases on; below it fixed costs dominate."""


@dataclass
class Row:
    """One line of the table."""

    work: str
    ours: float
    peer: float
    peer_name: str
    unit: str = "ms"
    budget: str = ""
    kept: bool | None = None


def interleaved(repeats: int, *sides: Callable[[], object]) -> list[float]:
    """Run the sides in turn; return each one's median in ms."""
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(repeats):
        for side, taken in zip(sides, times):
            begin = CLOCKS[0]()
            side()
            taken.append((CLOCKS[0]() - begin) * 1e3)
    return [statistics.median(taken) for taken in times]


def smooth(rng: np.random.Generator, size: int, prevalence: float) -> Columns:
    """Return binormal scores, all distinct."""
    labels = rng.random(size) < prevalence
    return labels, rng.normal(size=size) + 1.5 * labels


def tied(rng: np.random.Generator, size: int, prevalence: float) -> Columns:
    """Return scores with two decimals."""
    labels, scores = smooth(rng, size, prevalence)
    return labels, np.round(scores, 2)


def skewed(rng: np.random.Generator, size: int, prevalence: float) -> Columns:
    """Return saturated probabilities of a model that scores in float32."""
    labels, scores = smooth(rng, size, prevalence)
    return labels, (1 / (1 + np.exp(-np.float32(6) * scores.astype(np.float32)))).astype(np.float64)


def adversarial(rng: np.random.Generator, size: int, prevalence: float) -> Columns:
    """Return a concave ROC chain; a late block of positives removes its points one by one."""
    del rng, prevalence
    steps = int((2 * size * 0.7) ** 0.5) - 1
    labels = np.zeros(size, dtype=bool)
    labels[np.cumsum(np.arange(1, steps + 1)) - 1] = True  # growing gaps: every point a corner
    block = size * 3 // 4
    labels[block : block + steps * 20] = True
    return labels, -np.arange(size, dtype=np.float64)


DISTRIBUTIONS = {"smooth": smooth, "tied": tied, "skewed": skewed, "adversarial": adversarial}
ARRIVALS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "shuffled": lambda scores: np.random.default_rng(9).permutation(scores.size),
    "sorted": np.argsort,
    "reverse-sorted": lambda scores: np.argsort(scores)[::-1],
}


def batch(columns: Columns) -> tuple[np.ndarray, np.ndarray]:
    """Return scikit-learn's AP and AUC-ROC of all columns, the batch computation."""
    return average_precision_score(*columns), roc_auc_score(*columns)


def filled(columns: Columns, **settings: object) -> Evaluator:
    """Return an evaluator of these columns, merged."""
    ev = Evaluator(**settings)
    ev.add_cases(labels=columns[0], scores=columns[1])
    ev.snapshot()
    return ev


def live(size: int, prevalence: float, repeats: int, target: float) -> Row:
    """Measure a snapshot after 1,000 new cases at `size`."""
    rng = np.random.default_rng(1)
    columns = smooth(rng, size, prevalence)
    ev = filled(columns)

    def ours() -> None:
        labels, scores = smooth(rng, 1000, prevalence)
        ev.add_cases(labels=labels, scores=scores)
        ev.snapshot()

    mine, theirs = interleaved(repeats, ours, lambda: batch(columns))
    name = f"live snapshot, 1,000 new at {size:,}, {prevalence:.0%} positive"
    kept = theirs / mine >= target if size >= MIN_BUDGET_CASES else None
    return Row(name, mine, theirs, "scikit-learn AP + AUC", budget=f"{target:g}x", kept=kept)


def bulk(size: int, repeats: int) -> Row:
    """Measure a bulk load and its first snapshot."""
    columns = smooth(np.random.default_rng(2), size, 0.05)
    mine, theirs = interleaved(repeats, lambda: filled(columns), lambda: batch(columns))
    name = f"add_cases + first snapshot, {size:,}"
    kept = theirs / mine >= 15 if size >= MIN_BUDGET_CASES else None
    return Row(name, mine, theirs, "scikit-learn AP + AUC", budget="15x", kept=kept)


def by_distribution(size: int, repeats: int) -> list[Row]:
    """Measure bulk loads and live snapshots with other distributions and orders of arrival."""
    rows = []
    for kind, make in DISTRIBUTIONS.items():
        labels, scores = make(np.random.default_rng(3), size, 0.05)
        for arrival, order_of in ARRIVALS.items():
            order = order_of(scores)
            columns = labels[order], scores[order]
            first, last = (columns[0][:-1000], columns[1][:-1000]), (columns[0], columns[1])
            ev = filled(first)

            def ours(ev: Evaluator = ev, last: Columns = last) -> None:
                later = ev.copy()
                later.add_cases(labels=last[0][-1000:], scores=last[1][-1000:])
                later.snapshot()

            mine, loaded, theirs = interleaved(
                repeats, ours, lambda last=last: filled(last), lambda last=last: batch(last)
            )
            name = f"{kind}, {arrival}, {size:,}"
            rows.append(Row(f"live: {name}", mine, theirs, "scikit-learn AP + AUC"))
            rows.append(Row(f"bulk: {name}", loaded, theirs, "scikit-learn AP + AUC"))
    return rows


def scalars(size: int, repeats: int) -> list[Row]:
    """Measure add_case with its flush, a bare append, and river's update."""
    labels, scores = smooth(np.random.default_rng(4), size, 0.05)
    rows = list(zip(labels.tolist(), scores.tolist()))

    def ours() -> None:
        ev = Evaluator()
        add = ev.add_case
        for label, score in rows:
            add(label, score)
        _ = ev.num_cells  # merges the buffered cases

    def bare() -> None:
        append = [].append
        for _, score in rows:
            append(score)

    sides, names = [ours, bare], ["a bare list append"]
    try:
        from river.metrics import RollingROCAUC  # noqa: PLC0415 - a peer that may be absent
    except ImportError:
        pass
    else:

        def river() -> None:
            metric = RollingROCAUC(window_size=1000)
            update = metric.update
            for label, score in rows:
                update(label, score)
            metric.get()  # processes the pending updates

        sides.append(river)
        names.append("river's RollingROCAUC.update")
    mine, *others = (ms * 1e6 / size for ms in interleaved(repeats, *sides))
    budgets = [("<= 8x", mine / others[0] <= 8), *(("faster", mine < each) for each in others[1:])]
    return [
        Row("add_case with its merge", mine, other, name, "ns", budget, kept)
        for other, name, (budget, kept) in zip(others, names, budgets)
    ]


def torch_metrics(size: int, repeats: int) -> list[Row]:
    """Measure torchmetrics' exact curves on the same columns, if it is installed."""
    try:
        import torch  # noqa: PLC0415 - a peer that may be absent
        from torchmetrics.classification import (  # noqa: PLC0415 - a peer that may be absent
            BinaryAUROC,
            BinaryAveragePrecision,
        )
    except ImportError:
        return []
    labels, scores = smooth(np.random.default_rng(5), size, 0.05)
    probabilities = 1 / (1 + np.exp(-scores))
    tensors = torch.from_numpy(probabilities), torch.from_numpy(labels.astype(np.int64))

    def theirs() -> None:
        for metric in (BinaryAUROC(thresholds=None), BinaryAveragePrecision(thresholds=None)):
            metric.update(*tensors)
            metric.compute()

    mine, other = interleaved(repeats, lambda: filled((labels, probabilities)), theirs)
    return [Row(f"add_cases + first snapshot, {size:,}", mine, other, "torchmetrics AUROC + AP")]


def bounded(size: int, repeats: int) -> list[Row]:
    """Measure a bounded evaluator's snapshot and state."""
    rng = np.random.default_rng(6)
    columns = smooth(rng, size, 0.05)
    ev = filled(columns, resolution=12, max_cells=16_384)
    exact = filled(columns)

    def one(evaluator: Evaluator) -> None:
        labels, scores = smooth(rng, 1000, 0.05)
        evaluator.add_cases(labels=labels, scores=scores)
        evaluator.snapshot()

    mine, other = interleaved(repeats, lambda: one(ev), lambda: one(exact))
    held = [traced(columns, resolution=12, max_cells=16_384), traced(columns)]
    name = f"bounded (12 bits, 16,384 cells), {size:,}"
    return [
        Row(f"{name}: live snapshot", mine, other, "exact", "ms", "<= 5 ms", mine <= 5),
        Row(
            f"{name}: state",
            held[0] / 1e6,
            held[1] / 1e6,
            "exact",
            "MB",
            "<= 0.5 MB",
            held[0] <= 5e5,
        ),
    ]


def traced(columns: Columns, *, queried: bool = False, **settings: object) -> int:
    """Return the bytes that an evaluator of these columns holds."""
    tracemalloc.start()
    ev = Evaluator(**settings)
    ev.add_cases(labels=columns[0], scores=columns[1])
    _ = ev.num_cells
    if queried:
        ev.snapshot()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return held


def memory(size: int) -> list[Row]:
    """Measure the exact state per distinct float64 score, before and after a snapshot."""
    rows = []
    for prevalence in (0.05, 0.5):
        columns = smooth(np.random.default_rng(7), size, prevalence)
        for queried in (False, True):
            each = traced(columns, queried=queried) / size
            name = f"exact state a distinct score, {prevalence:.0%} positive"
            name += ", snapshot taken" if queried else ""
            rows.append(Row(name, each, 8.0, "8 B of float64", "B", "<= 24 B", each <= 24))
    return rows


def merging(size: int, repeats: int) -> list[Row]:
    """Measure a merge of two exact evaluators, and of sixty bounded panes."""
    rng = np.random.default_rng(8)
    a, b = filled(smooth(rng, size, 0.05)), filled(smooth(rng, size, 0.05))
    both = rng.normal(size=2 * size)
    mine, other = interleaved(repeats, lambda: a + b, lambda: np.sort(both))
    rows = [
        Row(
            f"merge two of {size:,} distinct",
            mine,
            other,
            "np.sort of both",
            budget="<= 6x",
            kept=mine / other <= 6,
        )
    ]
    panes = [filled(smooth(rng, size, 0.05), resolution=12, max_cells=16_384) for _ in range(60)]
    runs = [run for ev in panes for run in (ev._view().run(True), ev._view().run(False))]
    cells = np.concatenate([run.scores for run in runs])
    total = Evaluator()

    def cold() -> None:
        fresh = Evaluator()
        fresh.merge(*panes)
        fresh.snapshot()

    total.merge(*panes)
    mine, unchanged, other = interleaved(repeats, cold, total.snapshot, lambda: np.argsort(cells))
    name = f"60 panes of {size:,} to one answer"
    peer = f"argsort of {cells.size:,} cells"
    return [
        *rows,
        Row(f"{name}, cold", mine, other, peer, budget="<= 40 ms", kept=mine <= 40),
        Row(f"{name}, unchanged", unchanged, other, peer, budget="<= 1 ms", kept=unchanged <= 1),
    ]


def show(rows: list[Row]) -> None:
    """Print the table."""
    head = ("work", "streameval", "peer", "peer/ours", "budget", "", "peer is")
    lines = [head]
    for row in rows:
        verdict = "" if row.kept is None else "kept" if row.kept else "MISSED"
        ours, peer = f"{row.ours:,.3g} {row.unit}", f"{row.peer:,.3g} {row.unit}"
        ratio = f"{row.peer / row.ours:,.2f}x"
        lines.append((row.work, ours, peer, ratio, row.budget, verdict, row.peer_name))
    print_columns(lines)


def print_columns(lines: list[tuple[str, ...]]) -> None:
    """Print rows of cells with aligned columns."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for number, line in enumerate(lines):
        cells = [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:]))]
        print("  ".join(cells).rstrip())
        if number == 0:
            print("-" * (sum(widths) + 2 * len(widths)))


def others(size: int, repeats: int) -> list[Row]:
    """Measure everything but live snapshots."""
    rows = [bulk(size, repeats), *torch_metrics(size, 3)]
    rows += scalars(50_000, 31)
    rows += bounded(size, repeats)
    rows += memory(size)
    rows += merging(size, repeats)
    rows += by_distribution(size, 3)
    return rows


def main() -> int:
    print_host_at_exit()
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer repeats")
    parser.add_argument("--large", action="store_true", help="the live snapshot at 10 M too")
    parser.add_argument("--live", action="store_true", help="the live snapshots alone")
    parser.add_argument("--cpu", action="store_true", help="times of the processor, not the clock")
    parser.add_argument("--size", type=int, help="cases (default 1,000,000; quick 100,000)")
    options = parser.parse_args()
    if options.cpu:
        CLOCKS[0] = time.process_time
    size = options.size or (100_000 if options.quick else 1_000_000)
    repeats = 3 if options.quick else 7
    rows = [live(size, 0.05, repeats, 200), live(size, 0.5, repeats, 50)]
    if options.large:
        rows += [live(10_000_000, 0.05, 3, 400), live(10_000_000, 0.5, 3, 80)]
    if not options.live:
        rows += others(size, repeats)
    show(rows)
    return 0 if all(row.kept is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
