"""What counting a pair costs: bytes of a pane, rows a second. A part of bench/pairs.py."""

from __future__ import annotations

import argparse
import math
import time
import tracemalloc

import numpy as np

from streameval import Evaluator, PairedEvaluator

BATCH = 10_000
CELLS = (4_096, 65_536, None)
ROWS = (10_000, 200_000)
CORRELATION = 0.8


def columns(rng: np.random.Generator, size: int) -> dict[str, np.ndarray]:
    """Return cases of two models at prevalence 0.05."""
    labels = rng.random(size) < 0.05
    common, own = rng.normal(size=(2, size))
    other = CORRELATION * common + math.sqrt(1 - CORRELATION**2) * own
    return {"labels": labels, "scores_a": common + labels, "scores_b": other + labels}


def print_costs(given: argparse.Namespace) -> None:
    """Print a row for each number of rows and of cells; ids are none, as in a server's pane."""
    print(f"batches of {BATCH:,} rows\n")
    print("| rows | max_cells | KB of the grid | KB with both models | rows/s | ms a comparison |")
    print("|---:|---:|---:|---:|---:|---:|")
    for rows in ROWS:
        rng = np.random.default_rng([given.seed, rows])
        batches = [columns(rng, BATCH) for _ in range(rows // BATCH)]
        for cells in CELLS:
            pair = PairedEvaluator(max_cells=cells)
            began = time.process_time()
            for batch in batches:
                pair.add_cases(**batch)
            rate = rows / (time.process_time() - began)
            began = time.process_time()
            pair.compare(metric="auc_pr")
            taken = time.process_time() - began
            _, grid, _, _ = pair._view()
            entries = len(grid.negatives) + len(grid.positives)
            kept = "all" if cells is None else f"{cells:,}"
            print(
                f"| {rows:,} | {kept} | {24 * entries / 1e3:,.0f} "
                f"| {_kilobytes(batches, cells):,.0f} | {rate:,.0f} | {1e3 * taken:,.0f} |",
                flush=True,
            )
    _print_single(given.seed)


def _kilobytes(batches: list[dict[str, np.ndarray]], cells: int | None) -> float:
    """Return what a filled pair holds in memory."""
    tracemalloc.start()
    pair = PairedEvaluator(max_cells=cells)
    for batch in batches:
        pair.add_cases(**batch)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert pair.num_cases
    return size / 1e3


def _print_single(seed: int) -> None:
    """Print what two evaluators without a grid take for the same rows."""
    rng = np.random.default_rng(seed)
    batches = [columns(rng, BATCH) for _ in range(20)]
    a, b = Evaluator(max_cells=65_536), Evaluator(max_cells=65_536)
    began = time.process_time()
    for batch in batches:
        a.add_cases(labels=batch["labels"], scores=batch["scores_a"])
        b.add_cases(labels=batch["labels"], scores=batch["scores_b"])
        assert a.num_cells  # counts what is buffered
        assert b.num_cells
    rate = 20 * BATCH / (time.process_time() - began)
    print(f"\ntwo evaluators without a grid: {rate:,.0f} rows/s")
