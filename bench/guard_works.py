"""What `guard.py` measures in a process of either tree.

Names that are read on standard input, one a line, are answered with the seconds that the work
took: of the processor, or by the clock where the server at the given address does it. Only what
the other commit has too is used; `load` is the tree's own.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

import numpy as np

from streameval import Evaluator

if TYPE_CHECKING:
    from collections.abc import Callable

SERVED = {
    "served: 1,000-case batches, us a batch": 1_000,
    "served: 10,000-case batches, us a batch": 10_000,
}
"""Rows of a batch, by name."""

SERVED_S = 0.7
CASES = 200_000
NEW = 1_000


def works() -> dict[str, Callable[[], float]]:
    """Return what is measured, by name: each call returns the seconds that it took."""
    rng = np.random.default_rng(0)
    labels = rng.random(CASES) < 0.05
    scores = 1 / (1 + np.exp(-(rng.normal(size=CASES) + 2 * labels - 2)))

    def filled(**options: object) -> Evaluator:
        ev = Evaluator(**options)
        ev.add_cases(labels=labels, scores=scores)
        return ev

    live, bounded = filled(), filled(resolution=12)
    state = live.to_bytes()
    half = Evaluator.from_bytes(state)

    def timed(work: Callable[[], object]) -> Callable[[], float]:
        def run() -> float:
            begin = time.process_time()
            work()
            return time.process_time() - begin

        return run

    def one_by_one() -> None:
        ev = Evaluator()
        for label, score in zip(labels[:5_000].tolist(), scores[:5_000].tolist(), strict=True):
            ev.add_case(label, score)
        ev.auc_roc()

    def changed(ev: Evaluator, ask: Callable[[Evaluator], object]) -> Callable[[], float]:
        def run() -> float:
            some = rng.integers(0, CASES, NEW)
            ev.add_cases(labels=labels[some], scores=scores[some] * (1 - 1e-9 * rng.random()))
            begin = time.process_time()
            ask(ev)
            return time.process_time() - begin

        return run

    return {
        "add 200,000 cases, exact": timed(filled),
        "add 200,000 cases, 12 bits": timed(lambda: filled(resolution=12)),
        "add 5,000 cases one by one": timed(one_by_one),
        "1,000 new, AUC-PR and AUC-ROC": changed(live, lambda ev: (ev.auc_pr(), ev.auc_roc())),
        "1,000 new, 12 bits, the same": changed(bounded, lambda ev: (ev.auc_pr(), ev.auc_roc())),
        "1,000 new, interval of AUC-PR": changed(live, lambda ev: ev.interval("auc_pr")),
        "1,000 new, achievable AUC-PR": changed(live, lambda ev: ev.auc_pr(hull=True)),
        "PR curve": changed(live, lambda ev: ev.pr_curve()),
        "to bytes": timed(half.to_bytes),
        "from bytes, AUC-PR": timed(lambda: Evaluator.from_bytes(state).auc_pr()),
    }


def served_works(address: str) -> dict[str, Callable[[], float]]:
    """Return the works of a server, by name: each call returns the seconds that a batch took."""
    from load import Work, ingest  # noqa: PLC0415 - of the tree that is measured

    def loaded(rows: int) -> Callable[[], float]:
        work = Work("", rows, packed=True)
        return lambda: rows / asyncio.run(ingest(address, work, SERVED_S))[0]

    return {name: loaded(rows) for name, rows in SERVED.items()}


def answer_requests() -> None:
    """Measure what is asked for on standard input, a name a line; print the seconds."""
    every = works() | served_works(sys.argv[1])
    print("ready", flush=True)
    for line in sys.stdin:
        print(every[line.strip()](), flush=True)


if __name__ == "__main__":
    answer_requests()
